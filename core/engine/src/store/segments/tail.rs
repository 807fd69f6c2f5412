//! The end of a segment's file: making its bytes durable, and overwriting them with zeros.

use std::io;

use crate::{Result, log::segment::Segment, storage::IoContext};

/// Zeros are written in pieces of this size.
const ZEROS_BYTES: usize = 64 << 10;
/// Bytes are written again in pieces of this size.
const PIECE_BYTES: u64 = 1 << 20;

impl Segment {
    /// The length of its file; for a pack the length of its uncompressed image.
    pub(crate) fn file_bytes(&self) -> Result<u64> {
        self.file
            .len()
            .with_context(|| format!("measuring {}", self.name))
    }

    /// The length of its file as stored.
    pub(crate) fn stored_bytes(&self) -> Result<u64> {
        match self.image() {
            Some(image) => image
                .file_bytes()
                .with_context(|| format!("measuring {}", self.name)),
            None => self.file_bytes(),
        }
    }

    /// Makes durable what was written to it.
    pub(crate) fn flush(&self) -> Result<()> {
        self.file
            .sync()
            .with_context(|| format!("flushing {}", self.name))
    }

    /// Makes unproven bytes durable: writes them again and flushes them, because after a failed flush the operating
    /// system may have them in the page cache only, marked as clean.
    pub(crate) fn rewrite(&self, mut from: u64, to: u64) -> Result<()> {
        let doing = || format!("making the tail of {} durable", self.name);
        while from < to {
            let bytes = self.bytes_at(from, PIECE_BYTES.min(to - from))?;
            self.file.write_at(from, &bytes).with_context(doing)?;
            from += bytes.len() as u64;
        }
        self.file.sync().with_context(doing)
    }

    /// Overwrites bytes with zeros, durably.
    pub(crate) fn zero(&self, mut from: u64, to: u64) -> io::Result<()> {
        let zeros = vec![0; ZEROS_BYTES];
        while from < to {
            let piece =
                usize::try_from(to - from).map_or(ZEROS_BYTES, |rest| rest.min(ZEROS_BYTES));
            self.file.write_at(from, &zeros[..piece])?;
            from += piece as u64;
        }
        self.file.sync()
    }
}
