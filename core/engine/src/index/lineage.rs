//! [`Lineage`]: which records a stream's lower sequences are.
//!
//! A stream numbers the data records it was ever given by *ordinals* 1, 2, 3, …, which no truncation takes
//! back. Sequences are mapped to ordinals by ranges: the newest range (the *tail*) lies in the stream's own
//! state; those below it are a list, newest first, whose lower part streams share with the forks made of them.

use std::sync::Arc;

/// A range of sequences, from `first_sequence` up to where the range above begins.
#[derive(Debug)]
pub(crate) struct Lineage {
    pub(crate) first_sequence: u32,
    /// The stream that was given the records.
    pub(crate) source: u32,
    /// The ordinal in `source` of the record at `first_sequence`.
    pub(crate) first_ordinal: u32,
    pub(crate) below: Option<Arc<Lineage>>,
}

impl Drop for Lineage {
    /// Frees a long list in a loop: one call frame for each range would overflow the stack.
    fn drop(&mut self) {
        let mut below = self.below.take();
        while let Some(mut range) = below.and_then(Arc::into_inner) {
            below = range.below.take();
        }
    }
}

/// The part of a list that covers sequences up to `last`.
pub(crate) fn up_to(mut list: Option<&Arc<Lineage>>, last: u32) -> Option<Arc<Lineage>> {
    while let Some(range) = list.filter(|range| range.first_sequence > last) {
        list = range.below.as_ref();
    }
    list.cloned()
}

/// Consecutive records of one source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Range {
    pub(crate) first_sequence: u32,
    pub(crate) count: u32,
    pub(crate) source: u32,
    pub(crate) first_ordinal: u32,
}

impl Range {
    /// The part of this range between two sequences, both inclusive.
    pub(crate) fn between(self, first: u32, last: u32) -> Option<Self> {
        let end = self.first_sequence.saturating_add(self.count);
        let first = first.max(self.first_sequence);
        let count = last.checked_add(1).map_or(end, |after| after.min(end)).checked_sub(first).filter(|n| *n != 0)?;
        Some(Self {
            first_sequence: first,
            count,
            source: self.source,
            first_ordinal: self.first_ordinal.saturating_add(first - self.first_sequence),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_list_is_freed_without_recursion() {
        let mut list = None;
        for first_sequence in 1..1_000_000 {
            list = Some(Arc::new(Lineage { first_sequence, source: 1, first_ordinal: 1, below: list }));
        }
        assert_eq!(up_to(list.as_ref(), 500).unwrap().first_sequence, 500);
        drop(list);
    }

    #[test]
    fn range_is_cut_at_both_ends() {
        let range = Range { first_sequence: 10, count: 5, source: 3, first_ordinal: 100 };
        let part =
            |first, last| range.between(first, last).map(|part| (part.first_sequence, part.count, part.first_ordinal));
        assert_eq!(part(1, u32::MAX), Some((10, 5, 100)));
        assert_eq!(part(12, 13), Some((12, 2, 102)));
        assert_eq!(part(14, 20), Some((14, 1, 104)));
        assert_eq!(part(15, 20), None);
        assert_eq!(part(1, 9), None);
    }
}
