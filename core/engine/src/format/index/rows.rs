//! The rows of each section, and their sizes.

use bytes::BufMut;
use runlog_log::redacted_positions;

use crate::{
    Kind, Label, Position,
    format::{Field, Fields, offset_to_units, record, segment, units_to_offset},
};

/// The offset of one in this many records is sampled.
pub(crate) const SAMPLE_EVERY: u32 = 64;
/// The size of a label row.
pub(crate) const LABEL_ROW_BYTES: usize = 12;
/// The size of a row of the label filter, and how many words it has.
pub(crate) const FILTER_ROW_BYTES: usize = FILTER_WORDS * 4;
pub(super) const FILTER_WORDS: usize = 8;
/// How many labels share a row of the filter.
const LABELS_PER_FILTER_ROW: usize = 16;
/// The size of the trailer.
pub(crate) const TRAILER_BYTES: usize = 128;
pub(crate) const STREAM_ROW_BYTES: usize = 32;
pub(crate) const CONTROL_ROW_BYTES: usize = 48;
pub(crate) const KEY_ROW_BYTES: usize = 16;
pub(crate) const SAMPLE_ROW_BYTES: usize = 8;
/// The offset in the postings of a pack for a record that a compaction dropped.
pub(crate) const DROPPED: u64 = 0;
/// The size of a row of the table of sections.
pub(crate) const SECTION_ROW_BYTES: usize = 32;
/// The most sections of a block.
pub(crate) const SECTIONS_MAX: u32 = 64;

layout! {
    /// Which data records of a stream a segment holds.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) struct StreamRow {
        pub(crate) stream: u32,
        /// The ordinal in the stream of the segment's first record of it.
        pub(crate) first_ordinal: u32,
        pub(crate) count: u32,
        /// The index of its first posting.
        pub(crate) postings_start: u32,
        pub(crate) id: [u8; 16],
    }
}

layout! {
    /// The effect of one engine record, as the directory applies it.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) struct ControlRow {
        pub(crate) kind: Kind,
        pub(crate) stream: u32,
        /// The sequence it refers to.
        pub(crate) sequence: u32,
        /// Truncate: how many data records had been appended to the stream. Snapshot: the ordinal it is attached to.
        pub(crate) ordinal: u32,
        pub(crate) offset: u64 as units,
        /// Fork: the parent. Snapshot: the stream that the ordinal counts in.
        pub(crate) other: u32,
        /// Redact: the first position that is redacted. Snapshot: its own.
        pub(crate) target: u64,
        /// Create and fork: the new stream's id. Redact: which other positions are redacted.
        pub(crate) id: [u8; 16],
    }
}

impl ControlRow {
    /// A row with a kind and a stream, and all other fields zero.
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

impl ControlRow {
    /// The positions that a redaction is of.
    pub(crate) fn redacted(&self) -> impl Iterator<Item = u64> + use<> {
        let others = u128::from_le_bytes(self.id);
        redacted_positions(Position(self.target), others).map(|position| position.0)
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
    /// A label, and where its postings end; they begin where those of the label before it end.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) struct LabelRow {
        pub(crate) label: Label,
        pub(crate) end: u32,
    }
}

impl Field for Label {
    fn put(&self, bytes: &mut impl BufMut) {
        self.0.put(bytes);
    }

    fn get(fields: &mut Fields<'_>) -> Self {
        Self(fields.get())
    }
}

/// The most bytes that a label of a record adds to an index block: a label row, a posting, and a whole filter row,
/// which the first label needs.
pub(crate) const LABEL_BYTES_MAX: u64 =
    (LABEL_ROW_BYTES + 4 + FILTER_ROW_BYTES / LABELS_PER_FILTER_ROW) as u64;

/// The number of rows of the filter for this many labels.
pub(crate) const fn filter_rows(labels: usize) -> usize {
    labels.div_ceil(LABELS_PER_FILTER_ROW)
}

/// The first of `count` places for which `is_before` is false.
pub(super) fn partition_point(count: u32, mut is_before: impl FnMut(u32) -> bool) -> u32 {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if is_before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

const _: () =
    assert!(record::HEADER_BYTES.is_multiple_of(8) && segment::HEADER_BYTES.is_multiple_of(8));
