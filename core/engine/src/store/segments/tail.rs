//! The end of a segment's file: making its bytes durable, and overwriting them with zeros.

use crate::{Error, Result, log::segment::Segment};

/// Zeros are written in pieces of this size.
const ZEROS_BYTES: usize = 64 << 10;

/// Bytes are written again in pieces of this size.
const PIECE_BYTES: u64 = 1 << 20;

/// Makes bytes durable that nothing proves durable: writes them again and flushes them, because after a failed
/// flush the operating system may have them in memory only, and believe them flushed.
pub(crate) fn make_durable(segment: &Segment, mut from: u64, to: u64) -> Result<()> {
    let failed = |error| {
        Error::from_io(
            error,
            format!("making the tail of {} durable", segment.name),
        )
    };
    while from < to {
        let bytes = segment.bytes_at(from, PIECE_BYTES.min(to - from))?;
        segment.file.write_at(from, &bytes).map_err(failed)?;
        from += bytes.len() as u64;
    }
    segment.file.sync().map_err(failed)
}

/// Overwrites bytes with zeros, durably.
pub(crate) fn cut(segment: &Segment, mut from: u64, to: u64) -> std::io::Result<()> {
    let zeros = vec![0; ZEROS_BYTES];
    while from < to {
        let piece = usize::try_from(to - from).map_or(ZEROS_BYTES, |rest| rest.min(ZEROS_BYTES));
        segment.file.write_at(from, &zeros[..piece])?;
        from += piece as u64;
    }
    segment.file.sync()
}
