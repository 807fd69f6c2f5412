//! The records of a segment that may have a label: those that its label sections name.

use std::{collections::VecDeque, ops::Range};

use super::{CANDIDATES_MAX, Finder};
use crate::{
    Direction, Result,
    format::index::{Block, LabelPostings, Labelled},
    log::{frame::READ_BYTES, scan::is_damage, segment::Segment},
    store::{
        place::{Place, position_of},
        published::durable::Durable,
    },
    sync::Arc,
};

/// What is left of a segment's candidates.
pub(super) enum Candidates {
    /// Of a sealed segment: those of its postings that are left.
    Sealed {
        block: Arc<Block>,
        postings: LabelPostings,
        left: Range<usize>,
        /// Where those of the stream's sources are, if in a stream.
        places: Option<Vec<Range<u32>>>,
    },
    /// The next ones of the active segment; whether there are more.
    Active(VecDeque<Candidate>, bool),
}

/// A record that may have the label.
#[derive(Clone, Copy)]
pub(super) struct Candidate {
    pub(super) offset: u64,
    pub(super) stream: u32,
    pub(super) ordinal: u32,
}

impl Finder {
    /// The offsets in a segment of the positions left to search: its records are in order of position.
    pub(super) fn offsets(&self, segment: &Segment, end_position: u64) -> Result<Range<u64>> {
        let (mut from, mut to) = (0, u64::MAX);
        if segment.is_pack() {
            return Ok(from..to);
        }
        let offset_of = |position: u64| -> Result<Option<u64>> {
            let place = Place::of(&self.shared.durable(), position);
            // Not in a pack that has replaced it since, and has its number.
            let place = place.filter(|place| place.segment.seed == segment.seed);
            let offset = place.map(|place| place.scan(READ_BYTES).map(|scan| scan.offset()));
            offset.transpose()
        };
        if self.first > segment.header.base_position {
            from = offset_of(self.first)?.unwrap_or(from);
        }
        if self.last < end_position - 1 {
            to = offset_of(self.last + 1)?.unwrap_or(to);
        }
        Ok(from..to)
    }

    /// The part of a label's postings in a pack that is left to search. Those ascend by position, but not by offset.
    fn left_in_pack(
        &self,
        segment: &Segment,
        block: &Block,
        postings: &LabelPostings,
    ) -> Result<Range<usize>> {
        let end = block.trailer().data_end;
        let mut failed = None;
        let mut begun = |position: u64| {
            postings.partition_point(|place| {
                match block
                    .offset_at(place)
                    .map(|offset| segment.frame(offset, end))
                {
                    Some(Ok(frame)) => position_of(segment, &frame) < position,
                    Some(Err(error)) => {
                        failed.get_or_insert(error);
                        false
                    }
                    None => false,
                }
            })
        };
        let left = match segment.header.base_position {
            base if self.first <= base && self.last >= block.trailer().next_position => {
                0..postings.len()
            }
            _ => begun(self.first)..begun(self.last.saturating_add(1)),
        };
        match failed {
            // All postings are visited, so that the damage is reported in its place.
            Some(error) if is_damage(&error) => Ok(0..postings.len()),
            Some(error) => Err(error),
            None => Ok(left),
        }
    }

    pub(super) fn in_sealed(
        &self,
        segment: &Segment,
        offsets: &Range<u64>,
    ) -> Result<Option<Candidates>> {
        let labels = segment.labels()?;
        let found = labels.as_ref().and_then(|labels| labels.index());
        let found = found.map(|index| index.find(self.label));
        let Some(postings) = found.filter(|postings| postings.len() > 0) else {
            return Ok(None);
        };
        let Some(block) = segment.block()? else {
            return Ok(None);
        };
        let begun =
            |offset: u64| postings.partition_point(|place| block.offset_at(place) < Some(offset));
        let left = match (offsets.start, offsets.end) {
            _ if segment.is_pack() => self.left_in_pack(segment, &block, &postings)?,
            (0, u64::MAX) => 0..postings.len(),
            (from, to) => begun(from)..begun(to),
        };
        let places = self.stream.map(|_| {
            let rows = self
                .sources
                .iter()
                .filter_map(|source| block.find_stream(*source));
            rows.map(|row| row.postings_start..row.postings_start.saturating_add(row.count))
                .collect::<Vec<_>>()
        });
        if places.as_ref().is_some_and(Vec::is_empty) {
            return Ok(None);
        }
        Ok(Some(Candidates::Sealed {
            block,
            postings,
            left,
            places,
        }))
    }

    pub(super) fn in_active(&self, durable: &Durable, offsets: &Range<u64>) -> Candidates {
        let all = durable.active_index.labelled(self.label);
        let is_wanted = |labelled: &Labelled| {
            offsets.contains(&labelled.offset)
                && (self.stream.is_none() || self.sources.binary_search(&labelled.stream).is_ok())
        };
        let candidate = |labelled: Labelled| Candidate {
            offset: labelled.offset,
            stream: labelled.stream,
            ordinal: labelled.ordinal,
        };
        let found: VecDeque<Candidate> = match self.direction {
            Direction::Forward => all
                .filter(is_wanted)
                .take(CANDIDATES_MAX)
                .map(candidate)
                .collect(),
            Direction::Backward => all
                .rev()
                .filter(is_wanted)
                .take(CANDIDATES_MAX)
                .map(candidate)
                .collect(),
        };
        let has_more = found.len() == CANDIDATES_MAX;
        Candidates::Active(found, has_more)
    }

    /// The next candidate of the segment being searched.
    pub(super) fn next_candidate(&mut self) -> Option<Candidate> {
        let backward = self.direction == Direction::Backward;
        let current = self.current.as_mut()?;
        match &mut current.candidates {
            Candidates::Active(found, _) => {
                let next = found.pop_front()?;
                match self.direction {
                    Direction::Forward => current.offsets.start = next.offset + 1,
                    Direction::Backward => current.offsets.end = next.offset,
                }
                Some(next)
            }
            Candidates::Sealed {
                block,
                postings,
                left,
                places,
            } => loop {
                let index = if backward {
                    left.next_back()
                } else {
                    left.next()
                };
                let place = postings.get(index?)?;
                let is_wanted = places
                    .as_ref()
                    .is_none_or(|places| places.iter().any(|range| range.contains(&place)));
                if !is_wanted {
                    continue;
                }
                let found = block.offset_at(place).zip(block.ordinal_at(place));
                if let Some((offset, (stream, ordinal))) = found {
                    return Some(Candidate {
                        offset,
                        stream,
                        ordinal,
                    });
                }
            },
        }
    }
}
