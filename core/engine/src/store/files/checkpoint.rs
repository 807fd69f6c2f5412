//! Reading the checkpoint file.

use super::small;
use crate::{
    Result,
    format::files,
    index::checkpoint::{self, Checkpoint},
    limits,
    storage::Storage,
};

/// The checkpoint of a store with this secret. `None` if there is none or its CRC is wrong: opening then reads more of
/// the log.
pub(crate) fn read(storage: &dyn Storage, secret: &[u8; 16]) -> Result<Option<Checkpoint>> {
    let failed = |error| small::reading(storage, files::CHECKPOINT, error);
    let Some(file) = small::open(storage, files::CHECKPOINT)? else {
        return Ok(None);
    };
    let length = file.len().map_err(failed)?;
    let mut header = [0; checkpoint::HEADER_BYTES];
    if length > limits::CHECKPOINT_BYTES_MAX || length < header.len() as u64 {
        return Ok(None);
    }
    // The header first, so that a file that isn't a checkpoint is not read into memory.
    file.read_at(0, &mut header).map_err(failed)?;
    if checkpoint::announced_bytes(&header) != Some(length) {
        return Ok(None);
    }
    let mut bytes = vec![0; usize::try_from(length).expect("the length is limited")];
    match file.read_at(0, &mut bytes) {
        Ok(()) => Ok(checkpoint::decode(&bytes.into(), secret)),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(failed(error)),
    }
}
