//! What a salvage gives: each record, and a summary.

use bytes::Bytes;

use crate::{Kind, Position, SegmentId, Sequence, StreamId};

/// At most this many notes are kept.
pub(super) const NOTES_MAX: usize = 1000;

/// A record that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Salvaged {
    /// The file it is in.
    pub file: String,
    /// The segment that it was written to.
    pub segment: SegmentId,
    /// Where in that segment.
    pub offset: u64,
    /// Whether it is in a file of what was cut out of the log or put aside.
    pub is_cut: bool,
    /// Its position, unless every copy of the segment's header is lost.
    pub position: Option<Position>,
    /// Its stream, if anything names it.
    pub stream: Option<StreamId>,
    /// The number of its stream in the store.
    pub stream_number: u32,
    /// Its sequence, and of the engine's own records what their kind says.
    pub sequence: Sequence,
    /// Its kind.
    pub kind: Kind,
    /// Milliseconds since 1970-01-01 UTC, unless every copy of the segment's header is lost.
    pub time_ms: Option<u64>,
    /// The epoch of the writer that wrote it, if anything says it.
    pub epoch: Option<u32>,
    /// The idempotency key of the batch that it begins; empty for none.
    pub key: Bytes,
    /// Whether it was redacted; metadata and payload are empty then.
    pub redacted: bool,
    /// Its metadata.
    pub meta: Bytes,
    /// Its payload.
    pub payload: Bytes,
}

/// What a [`salvage`](crate::salvage) found, in short.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Salvage {
    /// How many files were read.
    pub files: u64,
    /// How many records were given.
    pub records: u64,
    /// Of those, how many are in files of what was cut out of the log or put aside.
    pub cut_records: u64,
    /// How many records are of streams that nothing names.
    pub unnamed: u64,
    /// How many bytes are no record, where records were to be expected.
    pub unreadable_bytes: u64,
    /// What was met on the way, a line each, at most 1,000.
    pub notes: Vec<String>,
}

impl Salvage {
    pub(super) fn note(&mut self, what: String) {
        if self.notes.len() < NOTES_MAX {
            self.notes.push(what);
        }
    }
}
