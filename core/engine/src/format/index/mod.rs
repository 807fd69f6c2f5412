//! The index block and trailer that end a sealed segment.
//!
//! Sections in this order, each at a multiple of 8 bytes: stream rows (32 bytes each, by stream number),
//! postings (4 bytes a data record: its offset), samples (8 bytes: the index and offset of every 64th record), control rows
//! (48 bytes each: what engine records did, in order), keys (16 bytes each), the segment's header once more
//! (512 bytes), and the trailer (128 bytes).

mod block;
mod parts;
mod rows;
mod trailer;

#[cfg(test)]
mod tests;

pub(crate) use block::Block;
pub(crate) use parts::Parts;
pub(crate) use rows::{
    CONTROL_ROW_BYTES, ControlRow, Counts, KEY_ROW_BYTES, KeyRow, SAMPLE_EVERY, SAMPLE_ROW_BYTES,
    STREAM_ROW_BYTES, SampleRow, StreamRow, TRAILER_BYTES,
};
pub(crate) use trailer::{Ends, Trailer};
