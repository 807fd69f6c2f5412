//! [`Stream`]: one stream of the directory, and the mapping of its sequences to records.

use std::sync::Arc;

use super::lineage::{self, Lineage, Range, View};
use crate::{Error, Result, SegmentId, StreamId, limits};

/// One stream.
#[derive(Clone)]
pub(crate) struct Stream {
    pub(crate) id: StreamId,
    /// How many data records were ever appended to it.
    pub(crate) ordinals: u32,
    /// The sequences from here on are its own newest records, without a gap.
    pub(crate) tail_first_sequence: u32,
    /// The ordinal of the record at `tail_first_sequence`.
    pub(crate) tail_first_ordinal: u32,
    /// The ranges of the sequences below the tail.
    pub(crate) lineage: Option<Arc<Lineage>>,
    /// The segments that hold its records, each with its first ordinal.
    pub(crate) runs: Vec<Run>,
    pub(crate) snapshots: Vec<SnapshotRef>,
    pub(crate) forked: Option<Forked>,
    pub(crate) deleted: bool,
}

/// The records of a stream from an ordinal on lie in a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    pub(crate) segment: SegmentId,
    pub(crate) first_ordinal: u32,
}

/// Where a record is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Location {
    pub(crate) segment: SegmentId,
    pub(crate) offset: u64,
}

/// A snapshot, and the last record that it covers: it is valid as long as its sequence maps to that record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SnapshotRef {
    pub(crate) sequence: u32,
    pub(crate) source: u32,
    pub(crate) ordinal: u32,
    pub(crate) position: u64,
    /// Its location before any compaction; for one applied from a pack, its location there. Locations are compared only
    /// for their order, which a pack preserves.
    pub(crate) location: Location,
}

/// Where a stream was forked from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Forked {
    pub(crate) parent: u32,
    pub(crate) at: u32,
    /// The location of the fork's record: only the parent's records before it are shared.
    pub(crate) location: Location,
}

impl Stream {
    /// Notes where the records of a segment begin, unless it is noted already.
    pub(crate) fn begin_run(&mut self, segment: SegmentId, first_ordinal: u32) {
        if self.runs.last().is_none_or(|run| run.segment != segment) {
            self.runs.push(Run {
                segment,
                first_ordinal,
            });
        }
    }

    pub(crate) fn new(id: StreamId) -> Self {
        Self {
            id,
            ordinals: 0,
            tail_first_sequence: 1,
            tail_first_ordinal: 1,
            lineage: None,
            runs: Vec::new(),
            snapshots: Vec::new(),
            forked: None,
            deleted: false,
        }
    }

    /// A fork of an unknown parent, which a repair makes if the fork's own record is lost: the sequences up to `at`
    /// exist but can't be read.
    pub(super) fn fork_of_unknown(id: StreamId, at: u32, location: Location) -> Self {
        Self {
            tail_first_sequence: at.saturating_add(1),
            lineage: if at > 0 {
                Lineage::push(None, 1, 0, 1)
            } else {
                None
            },
            forked: Some(Forked {
                parent: 0,
                at,
                location,
            }),
            ..Self::new(id)
        }
    }

    /// The last sequence, 0 when the stream is empty.
    pub(crate) fn last_sequence(&self) -> u32 {
        (self.tail_first_sequence - 1).saturating_add(self.tail_count())
    }

    /// Saturating: while a sealed segment is applied, between its control rows and its stream rows, the count lags
    /// behind.
    fn tail_count(&self) -> u32 {
        self.ordinals
            .saturating_add(1)
            .saturating_sub(self.tail_first_ordinal)
    }

    /// The ranges of its sequences up to `last`, as the list below a new tail.
    pub(super) fn lineage_up_to(&self, own_number: u32, last: u32) -> Result<Option<Arc<Lineage>>> {
        if last < self.tail_first_sequence {
            return Ok(lineage::up_to(self.lineage.as_ref(), last));
        }
        let below = self.lineage.clone();
        let list = Lineage::push(
            below,
            self.tail_first_sequence,
            own_number,
            self.tail_first_ordinal,
        );
        list.map(Some)
            .ok_or_else(|| contradiction(format!("stream {}: its ranges overlap", self.id)))
    }

    /// Its newest range; `own_number` is its own number.
    pub(super) fn tail(&self, own_number: u32) -> Range {
        Range {
            first_sequence: self.tail_first_sequence,
            count: self.tail_count(),
            source: own_number,
            first_ordinal: self.tail_first_ordinal,
        }
    }

    /// Its sequences as they are now.
    pub(crate) fn view(&self, own_number: u32) -> View {
        View {
            tail: self.tail(own_number),
            lineage: self.lineage.clone(),
        }
    }
}

/// The last ordinal of a stream that is given `count` more records.
pub(super) fn next_ordinal(stream: &Stream, count: u32) -> Result<u32> {
    let last = stream
        .ordinals
        .checked_add(count)
        .filter(|last| *last <= limits::ORDINAL_MAX);
    last.ok_or_else(|| {
        let most = limits::ORDINAL_MAX;
        contradiction(format!(
            "stream {}: {count} more records after {}, of {most}",
            stream.id, stream.ordinals
        ))
    })
}

pub(super) fn contradiction(what: String) -> Error {
    Error::damaged(format!("the log contradicts itself: {what}"))
}
