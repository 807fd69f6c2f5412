//! [`Progress`]: the saved state of a fold, and the changes since.

use std::collections::BTreeSet;

use super::layout::{CHUNK, Changes, Checkpoint, Span};

/// Beyond this many events since a checkpoint, changed items are no longer tracked: all are written then.
const CHANGED_MAX: usize = 1 << 16;

/// What of a fold is written down, and what changed since.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// The sequence of the last event that was applied.
    last_sequence: u64,
    /// The sequence up to which the fold is saved.
    sequence: u64,
    written: Checkpoint,
    /// The place that each event changed, in order, from the one after the sequence `since` on.
    changed: Vec<u32>,
    since: u64,
    /// Whether an event was passed over, because it is lost, since the beginning or the restored checkpoint.
    is_incomplete: bool,
}

/// The chunks and items that the next checkpoint writes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Plan {
    /// Chunks to write whole.
    pub(crate) chunks: BTreeSet<usize>,
    /// Items of other chunks, in the order of their places.
    pub(crate) changes: Vec<u32>,
}

impl Progress {
    /// Records that the event at the next sequence created or changed an item.
    pub(super) fn changed(&mut self, place: u32, sequence: u64) {
        if self.changed.len() == CHANGED_MAX {
            self.changed = Vec::new();
            self.since = sequence - 1;
        }
        self.changed.push(place);
        self.last_sequence = sequence;
    }

    /// Records that the event at the next sequence changed anything, or is lost: the next checkpoint writes all items.
    pub(super) fn changed_anything(&mut self, sequence: u64) {
        self.changed = Vec::new();
        (self.since, self.last_sequence) = (sequence, sequence);
    }

    /// Records that the event at the next sequence is lost.
    pub(super) fn passed_over(&mut self, sequence: u64) {
        self.is_incomplete = true;
        self.changed_anything(sequence);
    }

    /// Makes the next checkpoint write all items, and refer to no part of those before.
    pub(super) fn forget_checkpoint(&mut self) {
        (self.sequence, self.written) = (0, Checkpoint::default());
        self.changed_anything(self.last_sequence);
    }

    /// Whether an event was passed over, because it is lost.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.is_incomplete
    }

    /// The sequence of the last event that was applied.
    pub(super) fn last_sequence(&self) -> u64 {
        self.last_sequence
    }

    /// Sets the state after a restoration from a checkpoint.
    pub(super) fn restored(&mut self, sequence: u64, checkpoint: Checkpoint) {
        self.last_sequence = sequence;
        self.written(sequence, checkpoint);
    }

    /// The sequence up to which the fold is saved.
    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The last checkpoint, with room for chunks that were begun since.
    pub(super) fn checkpoint(&self, items: usize) -> Checkpoint {
        let mut checkpoint = Checkpoint {
            items: items as u64,
            ..self.written.clone()
        };
        checkpoint
            .chunks
            .resize(items.div_ceil(CHUNK), Span::default());
        checkpoint
    }

    /// The plan of a checkpoint of this many items.
    pub(super) fn plan(&self, items: usize) -> Plan {
        let Some(changed) = self.changed_since_checkpoint() else {
            return Plan {
                chunks: (0..items.div_ceil(CHUNK)).collect(),
                changes: Vec::new(),
            };
        };
        let mut plan = Plan::default();
        let places: BTreeSet<u32> = changed.iter().copied().collect();
        let is_new = |place: u32| u64::from(place) >= self.written.items;
        let mut places = places.into_iter().peekable();
        while let Some(first) = places.peek().copied() {
            let chunk = first as usize / CHUNK;
            let mut of_chunk = Vec::new();
            while let Some(place) = places.next_if(|place| *place as usize / CHUNK == chunk) {
                of_chunk.push(place);
            }
            let size = items.min((chunk + 1) * CHUNK) - chunk * CHUNK;
            if of_chunk.len() * 2 >= size || of_chunk.last().copied().is_some_and(is_new) {
                plan.chunks.insert(chunk);
            } else {
                plan.changes.append(&mut of_chunk);
            }
        }
        let piled_up: u64 = self
            .written
            .changes
            .iter()
            .map(|changes: &Changes| changes.items)
            .sum();
        if piled_up > items as u64 / 4 {
            self.renew_oldest(&mut plan);
        }
        plan
    }

    /// Adds the oldest chunks to the plan, with twice as many items as there are changes now.
    fn renew_oldest(&self, plan: &mut Plan) {
        let mut chunks: Vec<(u64, usize)> = self
            .written
            .chunks
            .iter()
            .enumerate()
            .map(|(chunk, span)| (span.first, chunk))
            .collect();
        runlog_log::order::sort(&mut chunks);
        let wanted = plan.changes.len() * 2 / CHUNK + 1;
        let oldest = chunks
            .into_iter()
            .map(|(_, chunk)| chunk)
            .filter(|chunk| !plan.chunks.contains(chunk));
        let oldest: Vec<usize> = oldest.take(wanted).collect();
        plan.chunks.extend(oldest);
        plan.changes
            .retain(|place| !plan.chunks.contains(&(*place as usize / CHUNK)));
    }

    /// The places that events changed since the checkpoint; `None` where that isn't known.
    fn changed_since_checkpoint(&self) -> Option<&[u32]> {
        let known = self.sequence.checked_sub(self.since)?;
        self.changed.get(usize::try_from(known).ok()?..)
    }

    /// Records that a checkpoint of the first `sequence` events was written.
    pub(super) fn written(&mut self, sequence: u64, checkpoint: Checkpoint) {
        if sequence <= self.sequence {
            return;
        }
        (self.sequence, self.written) = (sequence, checkpoint);
        if let Some(later) = self.changed_since_checkpoint().map(<[u32]>::to_vec) {
            (self.changed, self.since) = (later, sequence);
        } else if self.changed.is_empty() {
            self.since = sequence;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ITEMS: usize = 2 * CHUNK + 3;

    fn written(items: usize, parts: &[u64]) -> Checkpoint {
        let chunks = parts
            .iter()
            .map(|part| Span {
                first: *part,
                last: *part,
                crc: 0,
            })
            .collect();
        Checkpoint {
            items: items as u64,
            chunks,
            changes: Vec::new(),
        }
    }

    #[test]
    fn what_changed_while_it_was_written_is_written_next_time() {
        let mut progress = Progress::default();
        (1..=10).for_each(|sequence| progress.changed(7, sequence));
        progress.written(6, written(ITEMS, &[1, 2, 3]));
        progress.changed(9, 11);
        assert_eq!(
            progress.plan(ITEMS),
            Plan {
                changes: vec![7, 9],
                ..Plan::default()
            }
        );
        progress.written(10, written(ITEMS, &[1, 2, 3]));
        assert_eq!(progress.plan(ITEMS).changes, [9]);
        // An older one that comes late changes nothing.
        progress.written(6, written(1, &[9]));
        assert_eq!(progress.plan(ITEMS).changes, [9]);
    }

    #[test]
    fn where_it_is_not_known_what_changed_everything_is_written() {
        let mut progress = Progress::default();
        let events = CHANGED_MAX as u64 + 1;
        (1..=events).for_each(|sequence| progress.changed(1, sequence));
        assert_eq!(progress.plan(ITEMS).chunks.len(), 3);
        progress.written(events - 1, written(ITEMS, &[1, 2, 3]));
        assert_eq!(
            progress.plan(ITEMS),
            Plan {
                changes: vec![1],
                ..Plan::default()
            }
        );
        progress.written(events, written(ITEMS, &[1, 2, 3]));
        assert_eq!(progress.plan(ITEMS), Plan::default());
        progress.changed(2, events + 1);
        assert_eq!(progress.plan(ITEMS).changes, [2]);
    }

    #[test]
    fn a_chunk_with_a_new_item_or_many_changed_ones_is_written_whole() {
        let mut progress = Progress::default();
        progress.written(1, written(CHUNK + 2, &[1, 2]));
        let (chunk, mut sequence) = (u32::try_from(CHUNK).unwrap(), 1);
        let mut change = |progress: &mut Progress, place| {
            sequence += 1;
            progress.changed(place, sequence);
        };
        change(&mut progress, chunk + 2);
        assert_eq!(
            progress.plan(CHUNK + 3),
            Plan {
                chunks: [1].into(),
                changes: Vec::new()
            }
        );
        (0..chunk / 2 - 1).for_each(|place| change(&mut progress, place));
        assert_eq!(progress.plan(CHUNK + 3).chunks, [1].into());
        change(&mut progress, chunk - 1);
        assert_eq!(
            progress.plan(CHUNK + 3),
            Plan {
                chunks: [0, 1].into(),
                changes: Vec::new()
            }
        );
    }
}
