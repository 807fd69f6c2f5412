//! Reading the checkpoint file.

use std::io;

use super::small;
use crate::{
    Result,
    format::files,
    index::checkpoint::{self, Checkpoint},
    large, limits,
    storage::{File, Storage},
};

/// The checkpoint of a store with this secret. `None` if there is none or its CRC is wrong: opening then reads more of
/// the log.
pub(crate) fn read(storage: &dyn Storage, secret: &[u8; 16]) -> Result<Option<Checkpoint>> {
    small::read(storage, files::CHECKPOINT, |file| read_from(file, secret)).map(Option::flatten)
}

fn read_from(file: &dyn File, secret: &[u8; 16]) -> io::Result<Option<Checkpoint>> {
    let length = file.len()?;
    let mut header = [0; checkpoint::HEADER_BYTES];
    if length > limits::CHECKPOINT_BYTES_MAX || length < header.len() as u64 {
        return Ok(None);
    }
    // The header first, so that a file that isn't a checkpoint is not read into memory.
    file.read_at(0, &mut header)?;
    if checkpoint::announced_bytes(&header) != Some(length) {
        return Ok(None);
    }
    let mut bytes: Vec<u8> = large::zeros(usize::try_from(length).expect("the length is limited"));
    match file.read_at(0, &mut bytes) {
        Ok(()) => Ok(checkpoint::decode(&bytes.into(), secret)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}
