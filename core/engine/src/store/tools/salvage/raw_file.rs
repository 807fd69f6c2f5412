//! [`RawFile`]: reading what the device still gives.

use std::{cell::Cell, sync::Arc};

use bytes::Bytes;

use crate::{Error, ErrorKind, Result, storage::File, store::tools::examine::survey::Source};

/// Where the device fails, bytes are read in pieces of this size.
const SECTOR_BYTES: usize = 4096;

/// A file that is read whatever the device says: what can't be read is zeros.
pub(super) struct RawFile {
    pub(super) file: Arc<dyn File>,
    pub(super) name: String,
    /// How many pieces could not be read.
    pub(super) failed: Cell<u64>,
}

impl Source for RawFile {
    fn read(&self, offset: u64, length: u64) -> Result<Bytes> {
        let length = usize::try_from(length).map_err(|_| {
            Error::new(
                ErrorKind::Io,
                format!("{}: {length} bytes don't fit into memory", self.name),
            )
        })?;
        let mut bytes = vec![0; length];
        if self.file.read_at(offset, &mut bytes).is_ok() {
            return Ok(bytes.into());
        }
        let mut at = offset;
        for piece in bytes.chunks_mut(SECTOR_BYTES) {
            if self.file.read_at(at, piece).is_err() {
                piece.fill(0);
                self.failed.set(self.failed.get() + 1);
            }
            at += piece.len() as u64;
        }
        Ok(bytes.into())
    }
}

/// A part of a segment that lies in a file of its own.
pub(super) struct Shifted<'a> {
    pub(super) file: &'a RawFile,
    pub(super) shift: u64,
}

impl Source for Shifted<'_> {
    fn read(&self, offset: u64, length: u64) -> Result<Bytes> {
        self.file.read(offset - self.shift, length)
    }
}
