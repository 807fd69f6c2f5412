//! The records of a segment that may have a label: those that its label sections name.

use std::{collections::VecDeque, ops::Range};

use super::{CANDIDATES_MAX, Candidate, Candidates, Finder};
use crate::{
    Direction, Result,
    format::index::{LabelPostings, Labelled},
    log::{blocks::LabelLookup, frame::READ_BYTES, scan::is_damage, segment::Segment},
    store::{
        place::{Place, position_of},
        published::durable::Durable,
    },
    sync::Arc,
};

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
        lookup: &LabelLookup,
        postings: &LabelPostings,
    ) -> Result<Range<usize>> {
        let all = 0..postings.len();
        let Some(trailer) = segment.trailer() else {
            return Ok(all);
        };
        let begun = |position: u64| {
            postings.partition_point(|place| {
                let Some(offset) = lookup.offset_at(place)? else {
                    return Ok(false);
                };
                let frame = segment.frame(offset, trailer.data_end)?;
                Ok(position_of(segment, &frame) < position)
            })
        };
        let base = segment.header.base_position;
        if self.first <= base && self.last >= trailer.next_position {
            return Ok(all);
        }
        let left = begun(self.first).and_then(|from| Ok(from..begun(self.last.saturating_add(1))?));
        match left {
            // All postings are visited, so that the damage is reported in its place.
            Err(error) if is_damage(&error) => Ok(all),
            left => left,
        }
    }

    pub(super) fn in_sealed(
        &self,
        segment: &Arc<Segment>,
        offsets: &Range<u64>,
    ) -> Result<Option<Candidates>> {
        let Some(lookup) = segment.label_lookup()? else {
            return Ok(None);
        };
        let postings = lookup.find(self.label)?;
        if postings.len() == 0 {
            return Ok(None);
        }
        let begun = |offset: u64| {
            postings
                .partition_point(|place| lookup.offset_at(place).map(|found| found < Some(offset)))
        };
        let left = match (offsets.start, offsets.end) {
            _ if segment.is_pack() => self.left_in_pack(segment, &lookup, &postings)?,
            (0, u64::MAX) => 0..postings.len(),
            (from, to) => begun(from)?..begun(to)?,
        };
        let mut places = self.stream.map(|_| Vec::new());
        if let Some(places) = &mut places {
            for source in &self.sources {
                if let Some(row) = lookup.find_stream(*source)? {
                    places.push(row.postings_start..row.postings_start.saturating_add(row.count));
                }
            }
        }
        if places.as_ref().is_some_and(Vec::is_empty) {
            return Ok(None);
        }
        Ok(Some(Candidates::Sealed {
            lookup,
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
    pub(super) fn next_candidate(&mut self) -> Result<Option<Candidate>> {
        let backward = self.direction == Direction::Backward;
        let Some(current) = self.current.as_mut() else {
            return Ok(None);
        };
        match &mut current.candidates {
            Candidates::Active(found, _) => {
                let Some(next) = found.pop_front() else {
                    return Ok(None);
                };
                match self.direction {
                    Direction::Forward => current.offsets.start = next.offset + 1,
                    Direction::Backward => current.offsets.end = next.offset,
                }
                Ok(Some(next))
            }
            Candidates::Sealed {
                lookup,
                postings,
                left,
                places,
            } => loop {
                let index = if backward {
                    left.next_back()
                } else {
                    left.next()
                };
                let Some(place) = index.and_then(|index| postings.get(index)) else {
                    return Ok(None);
                };
                let is_wanted = places
                    .as_ref()
                    .is_none_or(|places| places.iter().any(|range| range.contains(&place)));
                if !is_wanted {
                    continue;
                }
                let found = lookup.offset_at(place)?.zip(lookup.ordinal_at(place)?);
                if let Some((offset, (stream, ordinal))) = found {
                    return Ok(Some(Candidate {
                        offset,
                        stream,
                        ordinal,
                    }));
                }
            },
        }
    }
}
