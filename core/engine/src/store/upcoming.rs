//! [`Upcoming`]: the records of a stream that a read has yet to look up.

use crate::{
    Direction,
    index::lineage::{Range, View},
    sync::Arc,
};

/// What is left to look up of a stream.
pub(super) struct Upcoming {
    pub(super) view: Arc<View>,
    /// The first and the last sequence, both inclusive. None is left when the first is higher.
    pub(super) first: u32,
    pub(super) last: u32,
    /// Of the range that the reading is in, what is left.
    pub(super) range: Option<Range>,
}

impl Upcoming {
    /// Whether nothing is left.
    pub(super) fn is_done(&self) -> bool {
        self.range.is_none() && self.first > self.last
    }

    /// The next record: its sequence, its source and its ordinal.
    pub(super) fn next(&mut self, direction: Direction) -> Option<(u32, u32, u32)> {
        let mut range = match self.range.take() {
            Some(range) => range,
            None if self.first > self.last => return None,
            None => {
                let at = if direction == Direction::Forward {
                    self.first
                } else {
                    self.last
                };
                let range = self.view.range_at(at)?.between(self.first, self.last)?;
                // Sequences end before the highest number there is.
                match direction {
                    Direction::Forward => {
                        self.first = range.first_sequence.saturating_add(range.count)
                    }
                    Direction::Backward => self.last = range.first_sequence - 1,
                }
                range
            }
        };
        range.count = range.count.checked_sub(1)?;
        let step = if direction == Direction::Forward {
            0
        } else {
            range.count
        };
        let next = (
            range.first_sequence.saturating_add(step),
            range.source,
            range.first_ordinal.saturating_add(step),
        );
        if direction == Direction::Forward {
            range.first_sequence = range.first_sequence.saturating_add(1);
            range.first_ordinal = range.first_ordinal.saturating_add(1);
        }
        self.range = Some(range).filter(|range| range.count > 0);
        Some(next)
    }
}
