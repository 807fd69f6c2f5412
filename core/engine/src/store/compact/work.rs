//! [`Work`]: what a compaction has still to pack, and what came of the rest.

use std::{collections::VecDeque, iter};

use super::{
    gather::Gatherer,
    place::Packed,
    plan::{Range, Stand},
    throttle::{Outcome, Throttle},
};
use crate::{CompactScope, Compaction, Error, ErrorKind, Result, sync::Arc};

pub(super) struct Work {
    scope: CompactScope,
    pub(super) stand: Stand,
    pub(super) ranges: VecDeque<Range>,
    /// Single segments whose pack found no room.
    waiting: Vec<Range>,
    /// What was said to the last pack that found no room.
    full: Option<Error>,
    pub(super) done: Compaction,
}

impl Work {
    pub(super) fn new(
        scope: CompactScope,
        stand: Stand,
        ranges: Vec<Range>,
        done: Compaction,
    ) -> Self {
        Self {
            scope,
            stand,
            ranges: ranges.into(),
            waiting: Vec::new(),
            full: None,
            done,
        }
    }

    /// How many bytes are to be rewritten.
    pub(super) fn bytes(&self) -> u64 {
        self.ranges
            .iter()
            .map(|range| self.stand.bytes(range))
            .sum()
    }

    /// Whether a segment is to be replaced.
    pub(super) fn replaces(&self, id: u32) -> bool {
        self.ranges.iter().any(|range| {
            let segments = &self.stand.segments[range.first..range.end];
            segments.iter().any(|segment| segment.id().0 == id)
        })
    }

    /// A pack has taken the place of a range.
    pub(super) fn packed(&mut self, range: &Range, packed: &Packed) {
        let done = &mut self.done;
        done.files_before += packed.files;
        done.files_after += 1;
        done.bytes_before += packed.bytes_before;
        done.bytes_after += packed.bytes_after;
        done.records_dropped += packed.gathered.dropped;
        done.payloads_erased += packed.gathered.erased;
        // A file that is removed gives its room back once nobody has it open.
        self.stand.segments[range.first..range.end].fill(Arc::clone(&packed.pack));
    }

    /// There is room again: those that found none are tried again.
    pub(super) fn try_waiting(&mut self) -> Result<()> {
        self.ranges
            .extend(self.stand.smallest_first(&mut self.waiting)?);
        Ok(())
    }

    /// Damaged segments stay as they are; those between them are each for themselves. One is known, by its place in the
    /// range; `bytes_done` had been rewritten before it.
    pub(super) fn leave_damaged(
        &mut self,
        range: &Range,
        known: usize,
        bytes_done: u64,
        throttle: &mut Throttle<'_>,
    ) -> Outcome<()> {
        let damaged = self.damaged_in(range, known, throttle)?;
        self.done.segments_left += damaged.len() as u64;
        self.done.segments_damaged += damaged.len() as u64;
        let alone = damaged.iter().map(|first| Range {
            first: *first,
            end: first + 1,
        });
        let bytes_left = alone.map(|range| self.stand.bytes(&range)).sum();
        throttle.begin_again(bytes_done, bytes_left);
        let firsts = iter::once(range.first).chain(damaged.iter().map(|damaged| damaged + 1));
        let ends = damaged.iter().copied().chain([range.end]);
        let between = firsts.zip(ends).map(|(first, end)| Range { first, end });
        Ok(self.put_first(between.collect::<Vec<_>>().into_iter().rev())?)
    }

    /// No pack of a range finds room. A smaller one may, and gives back what makes room for the next.
    pub(super) fn found_no_room(&mut self, range: Range, error: Error) -> Result<()> {
        self.full = Some(error);
        if range.end - range.first == 1 {
            self.waiting.push(range);
            return Ok(());
        }
        let halves = self.stand.halves(&range)?;
        self.put_first(halves)
    }

    /// What is said at the end of what found no room, even alone.
    pub(super) fn without_room(&mut self) -> Option<Error> {
        if self.waiting.is_empty() || self.done.is_cancelled {
            return None;
        }
        let error = self.full.take()?;
        let given_back = self.done.bytes_before.saturating_sub(self.done.bytes_after);
        let message = format!(
            "{error}; {} segments stay as they are, since no pack of one alone has room, after {given_back} bytes were \
             given back",
            self.waiting.len()
        );
        Some(Error::with_source(ErrorKind::StorageFull, message, error))
    }

    /// Parts of a range are packed next, the last of these first, where they are wanted.
    fn put_first(&mut self, parts: impl IntoIterator<Item = Range>) -> Result<()> {
        for part in parts {
            if self.stand.is_wanted(&part, self.scope)? {
                self.ranges.push_front(part);
            }
        }
        Ok(())
    }

    /// The damaged segments of a range, by their places in the list of all, when one is known. All are looked for at once:
    /// with one after the other, those that aren't damaged would be copied again for each.
    fn damaged_in(
        &self,
        range: &Range,
        known: usize,
        throttle: &mut Throttle<'_>,
    ) -> Outcome<Vec<usize>> {
        let mut damaged = Vec::new();
        for place in range.first..range.end {
            let is_known = place == range.first + known;
            let segment = &self.stand.segments[place];
            if is_known || Gatherer::is_damaged(&self.stand, segment, throttle)? {
                damaged.push(place);
            }
        }
        Ok(damaged)
    }
}
