//! The rows of each section, and how much room they take.

use bytes::BufMut;

use crate::{
    Kind,
    format::{Field, Fields, aligned, offset_to_units, record, segment, units_to_offset},
};

/// The offset of one in this many records is sampled.
pub(crate) const SAMPLE_EVERY: u32 = 64;
/// The size of the trailer.
pub(crate) const TRAILER_BYTES: usize = 128;
pub(crate) const STREAM_ROW_BYTES: usize = 32;
pub(crate) const CONTROL_ROW_BYTES: usize = 48;
pub(crate) const KEY_ROW_BYTES: usize = 16;
pub(crate) const SAMPLE_ROW_BYTES: usize = 8;

layout! {
    /// Which data records of a stream a segment holds.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) struct StreamRow {
        pub(crate) stream: u32,
        /// How many data records the stream was given before, plus 1.
        pub(crate) first_ordinal: u32,
        pub(crate) count: u32,
        /// The index of its first posting.
        pub(crate) postings_start: u32,
        pub(crate) id: [u8; 16],
    }
}

layout! {
    /// What one engine record did, as the directory needs it.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) struct ControlRow {
        pub(crate) kind: Kind,
        pub(crate) stream: u32,
        /// The sequence it speaks of.
        pub(crate) sequence: u32,
        /// Truncate: the data records the stream had been given. Snapshot: the ordinal it is attached to.
        pub(crate) ordinal: u32,
        pub(crate) offset: u64 as units,
        /// Fork: the parent. Snapshot: the stream that the ordinal counts in.
        pub(crate) other: u32,
        /// Redact: the position of the redacted record.
        pub(crate) target: u64,
        /// Create and fork: the new stream's id.
        pub(crate) id: [u8; 16],
    }
}

impl ControlRow {
    /// A row that says nothing yet but its kind and its stream.
    pub(crate) fn new(kind: Kind, stream: u32) -> Self {
        Self {
            kind,
            stream,
            sequence: 0,
            ordinal: 0,
            offset: 0,
            other: 0,
            target: 0,
            id: [0; 16],
        }
    }
}

/// In a row, a kind takes 4 bytes.
impl Field for Kind {
    fn put(&self, bytes: &mut impl BufMut) {
        bytes.put_slice(&[self.0, 0, 0, 0]);
    }

    fn get(fields: &mut Fields<'_>) -> Self {
        let [kind, ..] = fields.take::<4>();
        Self(kind)
    }
}

/// Where the batch with an idempotency key begins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct KeyRow {
    pub(crate) stream: u32,
    pub(crate) hash: u64,
    pub(crate) offset: u64,
}

impl Field for KeyRow {
    fn put(&self, bytes: &mut impl BufMut) {
        put!(bytes, self.stream, offset_to_units(self.offset), self.hash);
    }

    fn get(fields: &mut Fields<'_>) -> Self {
        let (stream, units, hash) = (fields.get(), fields.get(), fields.get());
        Self {
            stream,
            hash,
            offset: units_to_offset(units),
        }
    }
}

layout! {
    /// Where a record is, found by its index in the segment.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
    pub(crate) struct SampleRow {
        pub(crate) index: u32,
        pub(crate) offset: u64 as units,
    }
}

layout! {
    /// How many rows each section of a block has.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub(crate) struct Counts {
        pub(crate) stream_rows: u32,
        pub(crate) postings: u32,
        pub(crate) samples: u32,
        pub(crate) controls: u32,
        pub(crate) keys: u32,
    }
}

impl Counts {
    /// The counts of sections with these lengths.
    pub(crate) fn of([stream_rows, postings, samples, controls, keys]: [usize; 5]) -> Self {
        let count = |length: usize| {
            u32::try_from(length).expect("a segment holds fewer than 2^32 of anything")
        };
        Self {
            stream_rows: count(stream_rows),
            postings: count(postings),
            samples: count(samples),
            controls: count(controls),
            keys: count(keys),
        }
    }

    /// The size of the block, its trailer included. In 64 bits: the counts may be a hostile file's.
    pub(crate) fn encoded_bytes(&self) -> u64 {
        let times = |count: u32, bytes: usize| u64::from(count) * bytes as u64;
        times(self.stream_rows, STREAM_ROW_BYTES)
            + times(self.postings, 4).next_multiple_of(aligned(1) as u64)
            + times(self.samples, SAMPLE_ROW_BYTES)
            + times(self.controls, CONTROL_ROW_BYTES)
            + times(self.keys, KEY_ROW_BYTES)
            + (segment::COPY_BYTES + TRAILER_BYTES) as u64
    }
}

const _: () =
    assert!(record::HEADER_BYTES.is_multiple_of(8) && segment::HEADER_BYTES.is_multiple_of(8));
