//! [`Lineage`]: the mapping of a stream's lower sequences to records.
//!
//! A stream numbers all data records ever appended to it by *ordinals* 1, 2, 3, …, which a truncation doesn't reuse.
//! Sequences are mapped to ordinals by ranges: the newest range (the *tail*) lies in the stream's own state; those
//! below it are a list, newest first, whose lower part streams share with the forks made of them.
//!
//! Each range of the list also points to one far below it, so that the one with a sequence is found in
//! O(log ranges). The distances are those of a skew-binary number: a range skips as far as the two below it together
//! where these skip equally far, and else only to the next.

use std::sync::Arc;

/// A range of sequences, from `first_sequence` up to where the range above begins. The first sequences descend strictly
/// along the list.
#[derive(Debug)]
pub(crate) struct Lineage {
    pub(crate) first_sequence: u32,
    /// The stream that the records were appended to.
    pub(crate) source: u32,
    /// The ordinal in `source` of the record at `first_sequence`.
    pub(crate) first_ordinal: u32,
    /// How many ranges are below it.
    depth: u32,
    below: Option<Arc<Lineage>>,
    /// A range further down, which is also in the list below.
    jump: Option<Arc<Lineage>>,
}

impl Lineage {
    /// Pushes a range onto a list. `None` if its sequences would not descend.
    pub(crate) fn push(
        below: Option<Arc<Self>>,
        first_sequence: u32,
        source: u32,
        first_ordinal: u32,
    ) -> Option<Arc<Self>> {
        let falls = below.as_ref().map_or(first_sequence > 0, |below| {
            first_sequence > below.first_sequence
        });
        let depth = below
            .as_ref()
            .map_or(Some(0), |below| below.depth.checked_add(1))?;
        let jump = below
            .as_ref()
            .map(|below| below.next_jump().unwrap_or(below).clone());
        falls.then(|| {
            Arc::new(Self {
                first_sequence,
                source,
                first_ordinal,
                depth,
                below,
                jump,
            })
        })
    }

    /// Where a range on top of this one jumps to, if further than to this one.
    fn next_jump(&self) -> Option<&Arc<Self>> {
        let first = self.jump.as_ref()?;
        let second = first.jump.as_ref()?;
        (self.depth - first.depth == first.depth - second.depth).then_some(second)
    }

    /// The next range of the list.
    pub(crate) fn below(&self) -> Option<&Arc<Self>> {
        self.below.as_ref()
    }
}

impl Drop for Lineage {
    /// Frees a long list in a loop: one call frame for each range would overflow the stack.
    fn drop(&mut self) {
        // The list below also owns the target of the jump, so dropping the jump frees nothing yet.
        self.jump = None;
        let mut below = self.below.take();
        while let Some(mut range) = below.and_then(Arc::into_inner) {
            range.jump = None;
            below = range.below.take();
        }
    }
}

/// The range of a list that holds `sequence`, and the first sequence of the range above it, if that one is in the list.
pub(crate) fn find(
    list: Option<&Arc<Lineage>>,
    sequence: u32,
) -> Option<(&Arc<Lineage>, Option<u32>)> {
    let mut range = list?;
    let mut above = None;
    while range.first_sequence > sequence {
        count_visit();
        range = match range
            .jump
            .as_ref()
            .filter(|jump| jump.first_sequence > sequence)
        {
            Some(jump) => jump,
            None => {
                above = Some(range.first_sequence);
                range.below.as_ref()?
            }
        };
    }
    Some((range, above))
}

/// The part of a list that covers sequences up to `last`.
pub(crate) fn up_to(list: Option<&Arc<Lineage>>, last: u32) -> Option<Arc<Lineage>> {
    find(list, last).map(|(range, _)| range.clone())
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
        let count = last
            .checked_add(1)
            .map_or(end, |after| after.min(end))
            .checked_sub(first)
            .filter(|n| *n != 0)?;
        Some(Self {
            first_sequence: first,
            count,
            source: self.source,
            first_ordinal: self
                .first_ordinal
                .saturating_add(first - self.first_sequence),
        })
    }
}

/// An immutable snapshot of a stream's sequences: later truncations and appends don't change it.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) tail: Range,
    pub(crate) lineage: Option<Arc<Lineage>>,
}

impl View {
    /// The last sequence, 0 when there is none.
    pub(crate) fn last_sequence(&self) -> u32 {
        (self.tail.first_sequence - 1).saturating_add(self.tail.count)
    }

    /// The sequence that a record has; `None` if it has none any more. It looks at each range.
    pub(crate) fn sequence_of(&self, source: u32, ordinal: u32) -> Option<u32> {
        let nth_in = |range: Range| {
            let nth = ordinal.checked_sub(range.first_ordinal)?;
            (range.source == source && nth < range.count).then_some(range.first_sequence + nth)
        };
        let mut above = self.tail.first_sequence;
        let below = std::iter::successors(self.lineage.as_ref(), |range| range.below());
        let ranges = below.map(|range| {
            let count = above.saturating_sub(range.first_sequence);
            above = range.first_sequence;
            Range {
                first_sequence: range.first_sequence,
                count,
                source: range.source,
                first_ordinal: range.first_ordinal,
            }
        });
        std::iter::once(self.tail).chain(ranges).find_map(nth_in)
    }

    /// The whole range that holds a sequence.
    pub(crate) fn range_at(&self, sequence: u32) -> Option<Range> {
        range_at(self.tail, self.lineage.as_ref(), sequence)
    }
}

/// The whole range that holds a sequence of a stream with this tail and this list below it.
pub(crate) fn range_at(tail: Range, list: Option<&Arc<Lineage>>, sequence: u32) -> Option<Range> {
    if sequence >= tail.first_sequence {
        return Some(tail).filter(|tail| sequence - tail.first_sequence < tail.count);
    }
    let (range, above) = find(list, sequence)?;
    let end = above.unwrap_or(tail.first_sequence);
    Some(Range {
        first_sequence: range.first_sequence,
        count: end.checked_sub(range.first_sequence)?,
        source: range.source,
        first_ordinal: range.first_ordinal,
    })
}

#[cfg(test)]
thread_local! {
    /// How many ranges were looked at.
    pub(crate) static VISITS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

#[inline]
fn count_visit() {
    #[cfg(test)]
    VISITS.set(VISITS.get() + 1);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list_of(ranges: u32) -> Option<Arc<Lineage>> {
        (1..=ranges).fold(None, |below, number| {
            Lineage::push(below, number * 10, number, 1)
        })
    }

    #[test]
    fn long_list_is_freed_without_recursion() {
        let list = list_of(1_000_000);
        assert_eq!(up_to(list.as_ref(), 5009).unwrap().first_sequence, 5000);
        let shared = up_to(list.as_ref(), 5_000_000);
        drop(list);
        assert_eq!(shared.as_ref().unwrap().first_sequence, 5_000_000);
        drop(shared);
    }

    #[test]
    fn lists_that_share_a_part_are_freed_by_threads_at_once() {
        for _ in 0..20 {
            let shared = list_of(10_000);
            let lists: Vec<_> = (0..4)
                .map(|source| Lineage::push(shared.clone(), 1_000_000 + source, source, 1))
                .collect();
            drop(shared);
            std::thread::scope(|scope| {
                lists
                    .into_iter()
                    .for_each(|list| drop(scope.spawn(move || drop(list))))
            });
        }
    }

    #[test]
    fn range_of_every_sequence_is_found_in_a_logarithm_of_steps() {
        for ranges in (0..70).chain([1000, 100_000]) {
            let list = list_of(ranges);
            assert!(find(list.as_ref(), 9).is_none());
            let step = if ranges > 1000 { 997 } else { 1 };
            for number in (1..=ranges).step_by(step) {
                VISITS.set(0);
                for (sequence, offset) in [(number * 10, 0), (number * 10 + 9, 9)] {
                    let (found, above) = find(list.as_ref(), sequence).unwrap();
                    assert_eq!(
                        (found.first_sequence, found.source),
                        (sequence - offset, number)
                    );
                    assert_eq!(above, (number < ranges).then_some((number + 1) * 10));
                }
                let bound = 2 * 3 * (u64::from(ranges).ilog2() + 1);
                assert!(
                    VISITS.get() <= u64::from(bound),
                    "{} for {number} of {ranges}",
                    VISITS.get()
                );
            }
        }
    }

    #[test]
    fn list_that_does_not_fall_is_refused() {
        assert!(Lineage::push(None, 0, 1, 1).is_none());
        let list = Lineage::push(None, 5, 1, 1);
        assert!(Lineage::push(list.clone(), 5, 1, 1).is_none());
        assert!(Lineage::push(list, 6, 1, 1).is_some());
    }

    #[test]
    fn range_is_cut_at_both_ends() {
        let range = Range {
            first_sequence: 10,
            count: 5,
            source: 3,
            first_ordinal: 100,
        };
        let part = |first, last| {
            range
                .between(first, last)
                .map(|part| (part.first_sequence, part.count, part.first_ordinal))
        };
        assert_eq!(part(1, u32::MAX), Some((10, 5, 100)));
        assert_eq!(part(12, 13), Some((12, 2, 102)));
        assert_eq!(part(14, 20), Some((14, 1, 104)));
        assert_eq!(part(15, 20), None);
        assert_eq!(part(1, 9), None);
    }
}
