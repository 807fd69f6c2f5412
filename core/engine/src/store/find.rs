//! Finding records by a label, over the store or in a stream.
//!
//! Segment by segment, in order of position: if a segment's filter passes, its label sections name the candidates. Each
//! is read, and returned only if it has the label itself and its sequence still maps to it; so neither a false positive
//! of the filter nor a collision leads to a wrong result.

mod candidates;

use std::{
    collections::{BTreeSet, VecDeque},
    ops::Range,
};

use super::{
    commit::shared::Shared,
    framed,
    lost::{LostPlaces, header_at},
    place::{position_in, position_of},
    published::durable::Durable,
};
use crate::{
    Direction, FindOptions, Label, Record, Result,
    format::index::LabelPostings,
    log::{arena::Arena, blocks::LabelLookup, frame::Frame, scan::is_damage, segment::Segment},
    storage::Map,
    sync::Arc,
};

/// How many segments are collected under one lock.
const SEGMENTS_TOGETHER: usize = 64;
/// How many records of the active segment are collected under one lock.
const CANDIDATES_MAX: usize = 1024;
/// The search ends after this many damaged records in a row.
const DAMAGED_MAX: u32 = 1000;
/// For a stream with a longer chain of forks, every segment is searched.
const SOURCES_MAX: usize = 16;

/// The records that have a label, one by one, in bounded memory: [`Store::find`](crate::Store::find).
///
/// It finds the records that were published when it began. A damaged record is an error of kind
/// [`Damaged`](crate::ErrorKind::Damaged) in its place, and the next one follows, as behind a segment whose labels are
/// damaged; after any other error, and after 1,000 of them in a row, it ends.
pub struct Finder {
    shared: Arc<Shared>,
    label: Label,
    /// The number of the stream to search, if only one.
    stream: Option<u32>,
    /// The streams whose records it contains: itself, and those it was forked from. Sorted.
    sources: Vec<u32>,
    direction: Direction,
    /// The positions left to search, both inclusive.
    first: u64,
    last: u64,
    remaining: u64,
    segments: VecDeque<Arc<Segment>>,
    current: Option<Current>,
    arena: Arena,
    /// Stream and ordinal of the damaged records that were reported of the segment being searched, whose search begins again
    /// when a compaction replaced it. At most as many as its records.
    reported: BTreeSet<(u32, u32)>,
    /// The lost records of the segment in which one was met last.
    lost_places: Option<Arc<LostPlaces>>,
    /// How many records in a row were damaged.
    damaged: u32,
    ended: bool,
}

/// The segment being searched.
struct Current {
    segment: Arc<Segment>,
    map: Option<Arc<dyn Map>>,
    /// Where its published records end.
    end: u64,
    /// The position after its last record.
    end_position: u64,
    /// The offsets that are left to search. Damaged records, whose positions nobody knows, are left behind as well.
    offsets: Range<u64>,
    candidates: Candidates,
}

/// What is left of a segment's candidates.
enum Candidates {
    /// Of a sealed segment: those of its postings that are left.
    Sealed {
        lookup: LabelLookup,
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
struct Candidate {
    offset: u64,
    stream: u32,
    ordinal: u32,
}

impl Finder {
    pub(crate) fn new(shared: Arc<Shared>, label: Label, options: FindOptions) -> Result<Self> {
        let durable = shared.durable();
        let stream = match options.stream {
            Some(stream) => Some(durable.existing(&stream)?.0),
            None => None,
        };
        let sources = stream.map_or_else(Vec::new, |number| sources(&durable, number));
        let last = options.last.0.min(durable.next_position.saturating_sub(1));
        drop(durable);
        Ok(Self {
            shared,
            label,
            stream,
            sources,
            direction: options.direction,
            first: options.first.0.max(1),
            last,
            remaining: options.limit,
            segments: VecDeque::new(),
            current: None,
            arena: Arena::default(),
            reported: BTreeSet::new(),
            lost_places: None,
            damaged: 0,
            ended: false,
        })
    }

    /// Collects the next segments that may contain a match.
    fn fill(&mut self) {
        let durable = self.shared.durable();
        let all = &durable.segments;
        let may_have = |segment: &&Arc<Segment>| {
            let is_left = |end: u64| end > self.first;
            let end = segment.trailer().map(|trailer| trailer.next_position);
            end.is_none_or(is_left)
                && (self.sources.is_empty()
                    || self.sources.len() > SOURCES_MAX
                    || has_run(&durable, &self.sources, segment))
        };
        let begun =
            |position: u64| all.partition_point(|segment| segment.header.base_position <= position);
        let (from, to) = (begun(self.first).saturating_sub(1), begun(self.last));
        let taken = all.get(from..to).unwrap_or(&[]);
        // A skipped segment is never visited again.
        let (taken, rest) = match self.direction {
            Direction::Forward => taken.split_at(taken.len().min(SEGMENTS_TOGETHER)),
            Direction::Backward => {
                let (rest, taken) = taken.split_at(taken.len().saturating_sub(SEGMENTS_TOGETHER));
                (taken, rest)
            }
        };
        self.segments = match self.direction {
            Direction::Forward => taken.iter().filter(may_have).cloned().collect(),
            Direction::Backward => taken.iter().rev().filter(may_have).cloned().collect(),
        };
        let base = |segment: &Arc<Segment>| segment.header.base_position;
        match self.direction {
            _ if !self.segments.is_empty() => {}
            _ if rest.is_empty() => self.last = 0,
            Direction::Forward => self.first = rest.first().map_or(self.last, base),
            Direction::Backward => {
                self.last = taken.first().map_or(0, base).saturating_sub(1);
            }
        }
    }

    /// Starts searching the next segment; `false` if there is none.
    fn begin(&mut self) -> Result<bool> {
        while self.segments.is_empty() {
            if self.first > self.last {
                return Ok(false);
            }
            self.fill();
        }
        let Some(segment) = self.segments.pop_front() else {
            return Ok(false);
        };
        let looked = self.look_at(segment.clone());
        self.go_on_in(&segment, looked)?;
        Ok(true)
    }

    /// Goes on with the candidates of a segment, or, if it has none or they can't be known, with the next segment.
    fn go_on_in(&mut self, segment: &Segment, looked: Result<Option<Current>>) -> Result<()> {
        match looked {
            Ok(current) => self.current = current,
            // A pack has replaced it, and is searched instead.
            Err(error) if Segment::is_gone(&error) => return Err(error),
            Err(error) => {
                let end = segment
                    .trailer()
                    .map_or(u64::MAX, |trailer| trailer.next_position);
                self.pass(segment, end);
                return Err(error);
            }
        }
        Ok(())
    }

    /// The candidates in a segment; `None` if there are none, and then it isn't visited again.
    fn look_at(&mut self, segment: Arc<Segment>) -> Result<Option<Current>> {
        let durable = self.shared.durable();
        let segment = now_of(&durable, segment);
        let end_position = end_position_of(&durable, &segment);
        drop(durable);
        let offsets = self.offsets(&segment, end_position)?;
        self.look_in(segment, offsets)
    }

    /// As [`look_at`](Self::look_at), at some offsets.
    fn look_in(&mut self, segment: Arc<Segment>, offsets: Range<u64>) -> Result<Option<Current>> {
        // Appends and rotations go on while this looks. The candidates of the active segment, and where its records end, are
        // taken under one lock therefore, if it still is the active one.
        let durable = self.shared.durable();
        let segment = now_of(&durable, segment);
        let (end, end_position) = (
            durable.end_of(&segment),
            end_position_of(&durable, &segment),
        );
        let active = segment
            .trailer()
            .is_none()
            .then(|| self.in_active(&durable, &offsets));
        drop(durable);
        let candidates = match active {
            Some(candidates) => Some(candidates),
            None => self.in_sealed(&segment, &offsets)?,
        };
        let Some(candidates) = candidates else {
            self.pass(&segment, end_position);
            return Ok(None);
        };
        Ok(Some(Current {
            map: segment.map(),
            segment,
            end,
            end_position,
            offsets,
            candidates,
        }))
    }

    /// Marks a segment as searched.
    fn pass(&mut self, segment: &Segment, end_position: u64) {
        match self.direction {
            Direction::Forward => self.first = self.first.max(end_position),
            Direction::Backward => {
                let before = segment.header.base_position.saturating_sub(1);
                self.last = self.last.min(before);
            }
        }
    }

    fn find(&mut self) -> Result<Option<Record>> {
        while self.remaining > 0 {
            let Some(candidate) = self.next_candidate()? else {
                match self.current.take() {
                    // The rest of it comes next, also if it was sealed meanwhile.
                    Some(Current {
                        segment,
                        offsets,
                        candidates: Candidates::Active(_, true),
                        ..
                    }) => {
                        let looked = self.look_in(segment.clone(), offsets);
                        self.go_on_in(&segment, looked)?;
                        continue;
                    }
                    Some(current) => {
                        self.pass(&current.segment, current.end_position);
                        self.reported.clear();
                    }
                    None => {}
                }
                if !self.begin()? {
                    break;
                }
                continue;
            };
            let Some(current) = &self.current else { break };
            let (segment, end) = (current.segment.clone(), current.end);
            let map = current.map.as_deref();
            // Of a record that doesn't check, the file says what is wrong.
            let frame = map
                .and_then(|map| segment.frame_in_map(map, candidate.offset, end, &mut self.arena))
                .map_or_else(|| segment.frame(candidate.offset, end), Ok);
            let frame = match frame {
                Err(error) if is_damage(&error) => {
                    let record = (candidate.stream, candidate.ordinal);
                    if !self.is_there(&candidate)
                        || self.is_redacted(&segment, candidate.offset, end)?
                        || !self.reported.insert(record)
                    {
                        continue;
                    }
                    return Err(error);
                }
                frame => frame?,
            };
            let position = position_of(&segment, &frame);
            if position < self.first || position > self.last {
                continue;
            }
            // Where the search of this segment resumes, if it stops before its end.
            match self.direction {
                Direction::Forward => self.first = self.first.max(position + 1),
                Direction::Backward => self.last = self.last.min(position.saturating_sub(1)),
            }
            let durable = self.shared.durable();
            if self.is_found(&durable, &candidate, position, &frame) {
                self.remaining -= 1;
                return framed::record_in(&durable, &segment, frame).map(Some);
            }
        }
        Ok(None)
    }

    /// Whether the stream still has a record: one that was truncated isn't found, so its damage is nothing to report.
    fn is_there(&self, candidate: &Candidate) -> bool {
        let number = self.stream.unwrap_or(candidate.stream);
        let durable = self.shared.durable();
        let stream = durable.directory.stream(number).filter(|it| !it.deleted);
        let view = stream.map(|stream| stream.view(number));
        drop(durable);
        view.and_then(|view| view.sequence_of(candidate.stream, candidate.ordinal))
            .is_some()
    }

    /// Whether a record that can't be read was redacted.
    fn is_redacted(&mut self, segment: &Segment, offset: u64, end: u64) -> Result<bool> {
        let redacted = self.shared.durable().directory.redacted().clone();
        if redacted.len() == 0 {
            return Ok(false);
        }
        let of_store = &self.shared.lost_places;
        let places = LostPlaces::kept(&mut self.lost_places, of_store, segment, end, offset)?;
        let position = match places.at(offset) {
            Some(position) => Some(position),
            None => header_at(segment, offset, end)?.map(|header| position_in(segment, &header)),
        };
        Ok(position.is_some_and(|position| redacted.passes_over(position)))
    }

    /// Whether a record has the label, and belongs to the searched stream.
    fn is_found(
        &self,
        durable: &Durable,
        candidate: &Candidate,
        position: u64,
        frame: &Frame,
    ) -> bool {
        let header = &frame.header;
        let number = self.stream.unwrap_or(header.stream);
        let stands = durable
            .directory
            .stream(number)
            .is_some_and(|stream| !stream.deleted)
            && durable.directory.resolve(number, header.sequence)
                == Some((candidate.stream, candidate.ordinal));
        stands
            && header.kind.is_data()
            && header.stream == candidate.stream
            && frame.labels().any(|label| label == self.label)
            && !durable.directory.redacted().contains(position)
    }
}

impl Iterator for Finder {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let shared = self.shared.clone();
        let next = shared
            .past_packs(|| {
                let found = self.find();
                if found.as_ref().is_err_and(Segment::is_gone) {
                    self.current = None;
                    self.segments.clear();
                }
                found
            })
            .transpose();
        self.damaged = if matches!(&next, Some(Err(_))) {
            self.damaged + 1
        } else {
            0
        };
        self.ended =
            matches!(&next, Some(Err(error)) if !is_damage(error)) || self.damaged == DAMAGED_MAX;
        next
    }
}

/// A segment as it is by now: it may have been sealed.
fn now_of(durable: &Durable, segment: Arc<Segment>) -> Arc<Segment> {
    match durable.segment(segment.id()) {
        Some(now) if segment.trailer().is_none() => now.clone(),
        _ => segment,
    }
}

/// The position after a segment's last published record.
fn end_position_of(durable: &Durable, segment: &Segment) -> u64 {
    match segment.trailer() {
        Some(trailer) => trailer.next_position,
        None => durable.next_position,
    }
}

/// A stream and those it was forked from, sorted.
fn sources(durable: &Durable, number: u32) -> Vec<u32> {
    let parent = |number: &u32| {
        let forked = durable.directory.stream(*number)?.forked?;
        // A parent is older than its forks.
        (forked.parent != 0 && forked.parent < *number).then_some(forked.parent)
    };
    let mut sources: Vec<u32> = std::iter::successors(Some(number), parent).collect();
    sources.reverse();
    sources
}

/// Whether one of some streams has records in a segment.
fn has_run(durable: &Durable, sources: &[u32], segment: &Segment) -> bool {
    let has_run = |stream: &crate::index::stream::Stream| {
        let next = stream
            .runs
            .partition_point(|run| run.segment < segment.id());
        let run = stream.runs.get(next);
        run.is_some_and(|run| run.segment <= segment.last_id())
    };
    let streams = sources
        .iter()
        .filter_map(|number| durable.directory.stream(*number));
    streams.into_iter().any(has_run)
}

#[cfg(test)]
#[path = "find_tests.rs"]
mod tests;
