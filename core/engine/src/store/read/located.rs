//! [`Located`]: where records are that are read next, and what their segment gives them from.

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;

use crate::{format::record, log::segment::Segment, storage::Map, store::published::durable::Run};

/// Where a record is. A read has many of them, so the segment and the stream are those of its run.
#[derive(Clone, Copy)]
pub(super) struct Located {
    /// The number of its run.
    pub(super) run: u64,
    pub(super) offset: u64,
    pub(super) ordinal: u32,
    pub(super) sequence: u32,
}

/// The runs of the records that were looked up, numbered in the order in which they were met.
#[derive(Default)]
pub(super) struct Runs {
    /// The number of the first that is kept.
    first: u64,
    kept: VecDeque<Arc<Run>>,
}

impl Runs {
    pub(super) fn get(&self, number: u64) -> Option<&Arc<Run>> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.kept.get(at)
    }

    /// Keeps a run, and returns its number.
    pub(super) fn add(&mut self, run: Arc<Run>) -> u64 {
        self.kept.push_back(run);
        self.first + self.kept.len() as u64 - 1
    }

    /// Forgets the runs before the first that these records are of. Their numbers needn't rise: a record that a compaction
    /// moved is of a run that was met after those of the records behind it.
    pub(super) fn keep_those_of<'a>(&mut self, records: impl Iterator<Item = &'a Located>) {
        let next = self.first + self.kept.len() as u64;
        let first = records.map(|located| located.run).min().unwrap_or(next);
        while self.first < first && self.kept.pop_front().is_some() {
            self.first += 1;
        }
    }

    /// Whether two records are in one segment.
    pub(super) fn are_together(&self, one: &Located, other: &Located) -> bool {
        if one.run == other.run {
            return true;
        }
        match (self.get(one.run), self.get(other.run)) {
            (Some(one), Some(other)) => Arc::ptr_eq(&one.segment, &other.segment),
            _ => false,
        }
    }
}

/// The run of the record that is read, and the map of its segment if it has one.
pub(super) struct Current {
    pub(super) number: u64,
    pub(super) run: Arc<Run>,
    pub(super) map: Option<Arc<dyn Map>>,
}

impl Current {
    /// A run, with the map of the one that was read before if both are in one segment.
    pub(super) fn new(number: u64, run: Arc<Run>, before: Option<Self>) -> Self {
        let map = match before {
            Some(before) if Arc::ptr_eq(&before.run.segment, &run.segment) => before.map,
            _ => run.segment.map(),
        };
        Self { number, run, map }
    }
}

/// Whether a header is that of the record of a run that should be there.
pub(super) fn is_it(run: &Run, located: &Located, header: &record::Header) -> bool {
    (header.stream, header.sequence) == (run.source, located.sequence)
}

/// What was read at once for several records of a segment that isn't mapped.
pub(super) struct Together {
    pub(super) segment: Arc<Segment>,
    pub(super) start: u64,
    pub(super) bytes: Bytes,
}

impl Together {
    /// Where a record of a segment is in the bytes, when its header is among them.
    pub(super) fn place(&self, segment: &Arc<Segment>, offset: u64) -> Option<usize> {
        let at = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        let is_there =
            Arc::ptr_eq(&self.segment, segment) && at + record::HEADER_BYTES <= self.bytes.len();
        is_there.then_some(at)
    }
}
