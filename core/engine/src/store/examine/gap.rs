//! [`Gap`]: records that can't be read, what is known of them, and what the records behind them show to have been lost.
//!
//! Where an index block or a checkpoint names what was there, that counts. Else later records tell: one of stream S with
//! sequence n, where e was expected, shows
//!
//! - n > e: that the records e to n − 1 are lost. They get places in the gap, where no record is, so that reading them is an
//!   error and everything else keeps its ordinal;
//! - n < e: that a truncation is lost, after n − 1 at the highest; it is taken to have been that. What the gap may have held
//!   between an earlier truncation and n − 1 can't be told from what was there before;
//! - S unknown: that its creation is lost. Its id is that of a checkpoint or an index block further on, or one is made up.
//!   It is taken for a fork of an unknown stream if its records begin further on than 1: it shares what is lost.

use super::{
    draft::Draft,
    survey::Hole,
    walk::{Walker, Within},
};
use crate::{
    Kind, SegmentId, StreamId,
    format::{
        index::StepRow,
        record::{self, engine},
    },
    index::{
        NumberMap,
        checkpoint::Checkpoint,
        directory::{Directory, Location},
    },
    log::segment::{Frame, Segment},
};

/// Records that can't be read.
pub(crate) struct Gap {
    pub(crate) segment: SegmentId,
    pub(crate) file: String,
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// What was expected, and found.
    pub(crate) why: String,
    pub(crate) first_position: u64,
    /// How many positions are missing.
    pub(crate) missing: u32,
    /// Of how many of them nothing tells what they were.
    pub(crate) unnamed: u64,
    /// What is known to be lost.
    pub(crate) lost: Vec<Lost>,
    /// How many records `lost` stands for.
    pub(crate) named: u64,
    /// The next place in it that names nothing yet.
    pub(crate) next_place: u64,
    /// The last entry of `lost` with data of a stream.
    last_data: NumberMap<usize>,
}

/// Records of one stream that are lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lost {
    pub(crate) stream: u32,
    pub(crate) kind: Kind,
    pub(crate) first: u32,
    pub(crate) last: u32,
}

impl Gap {
    pub(crate) fn new(segment: &Segment, hole: &Hole, first_position: u64, missing: u32) -> Self {
        Self::of(segment.id(), segment.name.clone(), hole, first_position, missing)
    }

    /// The same in a file that isn't there.
    pub(crate) fn of(segment: SegmentId, file: String, hole: &Hole, first_position: u64, missing: u32) -> Self {
        Self {
            segment,
            file,
            from: hole.from,
            to: hole.to,
            why: hole.why.clone(),
            first_position,
            missing,
            unnamed: u64::from(missing),
            lost: Vec::new(),
            named: 0,
            next_place: hole.from,
            last_data: NumberMap::default(),
        }
    }

    pub(crate) fn add(&mut self, lost: Lost) {
        self.named += 1;
        if lost.kind.is_data() {
            let before = self.last_data.get(&lost.stream).and_then(|place| self.lost.get_mut(*place));
            if let Some(before) = before.filter(|before| before.last.checked_add(1) == Some(lost.first)) {
                before.last = lost.last;
                return;
            }
            self.last_data.insert(lost.stream, self.lost.len());
        }
        self.lost.push(lost);
    }

    /// What is lost, for people.
    pub(crate) fn told(&self, directory: &Directory) -> String {
        let mut told: Vec<String> = self.lost.iter().map(|lost| lost.told(directory)).collect();
        let more = told.len().saturating_sub(LOST_TOLD_MAX);
        told.truncate(LOST_TOLD_MAX);
        if more > 0 {
            told.push(format!("{more} more"));
        }
        let unknown = u64::from(self.missing).saturating_sub(self.named);
        if unknown > 0 {
            told.push(format!("{unknown} of which nothing is known"));
        }
        let last = self.first_position.saturating_add(u64::from(self.missing.saturating_sub(1)));
        let bytes = self.to - self.from;
        match (self.missing, &told[..]) {
            (0, []) => format!("{bytes} bytes can't be read; no record is known to be lost ({})", self.why),
            (0, told) => format!("{bytes} bytes can't be read: lost {} ({})", told.join(", "), self.why),
            (1, told) => format!("position {last} is lost: {} ({})", told.join(", "), self.why),
            (_, told) => {
                format!("positions {} to {last} are lost: {} ({})", self.first_position, told.join(", "), self.why)
            }
        }
    }
}

/// What is lost had so many bytes at least: its places are this far from each other.
const PLACE_BYTES: u64 = record::HEADER_BYTES as u64;
/// So many of what a gap lost are told one by one.
const LOST_TOLD_MAX: usize = 20;

impl Lost {
    fn told(&self, directory: &Directory) -> String {
        let id = directory.stream(self.stream).map(|stream| stream.id);
        let stream = id.map_or_else(|| format!("stream number {}", self.stream), |id| format!("stream {id}"));
        match self.kind {
            kind if kind.is_data() && self.first == self.last => format!("sequence {} of {stream}", self.first),
            kind if kind.is_data() => format!("sequences {} to {} of {stream}", self.first, self.last),
            Kind::CREATE => format!("the creation of {stream}"),
            Kind::FORK => format!("the fork that made {stream}"),
            Kind::TRUNCATE => format!("a truncation of {stream} after {}", self.first),
            Kind::SNAPSHOT => format!("a snapshot of {stream} at {}", self.first),
            Kind::DELETE => format!("the deletion of {stream}"),
            Kind::REDACT => format!("the reason of a redaction in {stream}"),
            kind => format!("a record of kind {} of {stream}", kind.0),
        }
    }
}

type Done = Result<(), String>;

impl Walker {
    /// A whole segment is lost.
    pub(super) fn lose_segment(&mut self, gap: Gap) {
        self.drafts.insert(gap.segment, Draft::default());
        self.gaps.push(gap);
        self.open = Some(self.gaps.len() - 1);
        self.settled.clear();
    }

    /// Makes up for what was lost of a stream before its data record with this sequence, if it is the first one behind a gap.
    pub(super) fn settle(&mut self, within: &Within, number: u32, sequence: u32) -> Done {
        if self.open.is_none() || self.settled.contains(&number) {
            return Ok(());
        }
        self.create_lost(number)?;
        self.settled.insert(number);
        // The segment's own index tells how many records the stream was given before.
        let row = within.block.as_ref().and_then(|block| block.find_stream(number));
        let row = row.filter(|_| !self.drafts.get(&within.id).is_some_and(|draft| draft.has_stream(number)));
        let given = self.durable.directory.stream(number).map_or(0, |stream| stream.ordinals);
        let known = match row {
            Some(row) => Some(row.first_ordinal.checked_sub(given.saturating_add(1)).ok_or_else(|| {
                format!("the index says {} is the first here of stream number {number}", row.first_ordinal)
            })?),
            None => None,
        };
        self.begin_further_on(number, sequence.saturating_sub(1).saturating_sub(known.unwrap_or(0)));
        let last = self.last_sequence(number);
        self.lose_data(number, known.unwrap_or(sequence.saturating_sub(last.saturating_add(1))))?;
        if sequence <= self.last_sequence(number) {
            self.lose_truncation(number, sequence.saturating_sub(1))?;
        }
        Ok(())
    }

    /// The same before a record that is lost itself, of which the index tells the ordinal.
    pub(super) fn settle_ordinal(&mut self, number: u32, ordinal: u32) -> Done {
        if self.open.is_none() {
            return Ok(());
        }
        self.create_lost(number)?;
        let given = self.durable.directory.stream(number).map_or(0, |stream| stream.ordinals);
        self.lose_data(number, ordinal.saturating_sub(given.saturating_add(1)))
    }

    /// The same before a step.
    pub(super) fn settle_step(&mut self, within: &mut Within, frame: &Frame) -> Done {
        if self.open.is_none() {
            return Ok(());
        }
        let header = &frame.header;
        let (made, about) = match header.kind {
            Kind::CREATE => (header.stream, None),
            Kind::FORK => {
                let parent = frame.parts().and_then(|(_, payload)| engine::decode_fork(&payload));
                (header.stream, parent.map(|(_, parent)| parent))
            }
            _ => (header.stream.saturating_add(1), Some(header.stream)),
        };
        if made > self.durable.directory.next_number() {
            self.create_lost(made - 1)?;
        }
        let Some(about) = about else { return Ok(()) };
        let last = self.last_sequence(about);
        if matches!(header.kind, Kind::FORK | Kind::TRUNCATE | Kind::SNAPSHOT) && header.sequence > last {
            self.begin_further_on(about, header.sequence);
            self.lose_data(about, header.sequence.saturating_sub(self.last_sequence(about)))?;
        }
        if header.kind == Kind::TRUNCATE
            && let Some(ordinal) = within.truncation_at(frame.offset)
        {
            let given = self.durable.directory.stream(about).map_or(0, |stream| stream.ordinals);
            self.lose_data(about, ordinal.saturating_sub(given))?;
        }
        Ok(())
    }

    fn last_sequence(&self, number: u32) -> u32 {
        self.durable.directory.stream(number).map_or(0, |stream| stream.last_sequence())
    }

    /// Makes every stream up to a number, whose creations are lost.
    pub(super) fn create_lost(&mut self, number: u32) -> Done {
        let next = self.durable.directory.next_number();
        let count = u64::from(number.saturating_add(1).saturating_sub(next));
        if count == 0 {
            return Ok(());
        }
        let gap = self.open.and_then(|open| self.gaps.get(open)).filter(|gap| gap.unnamed >= count);
        if gap.is_none() {
            return Err(format!("stream number {number} was never created"));
        }
        for number in next..=number {
            let id = self.names.id(number, &self.durable.directory);
            let fork = self.names.fork(number).filter(|(parent, _)| self.durable.directory.stream(*parent).is_some());
            let (kind, other, sequence) = fork.map_or((Kind::CREATE, 0, 0), |(parent, at)| (Kind::FORK, parent, at));
            if kind == Kind::FORK {
                self.lose_data(other, sequence.saturating_sub(self.last_sequence(other)))?;
            }
            let step = StepRow { kind, sequence, other, id, ..empty_step(number) };
            let place = self.lose_step(step)?;
            self.names.made_up.insert(number, place);
        }
        Ok(())
    }

    /// Makes a stream whose creation is lost a fork of an unknown one, if what is there of it begins behind `at`.
    fn begin_further_on(&mut self, number: u32, at: u32) {
        let Some(place) = self.names.made_up.remove(&number).filter(|_| at > 0) else { return };
        let Some(segment) = self.open.and_then(|open| self.gaps.get(open)).map(|gap| gap.segment) else { return };
        let Some(step) = self.drafts.get_mut(&segment).and_then(|draft| draft.step_mut(place)) else { return };
        if step.stream != number {
            return;
        }
        let location = Location { segment, offset: step.offset };
        if step.kind == Kind::CREATE && self.durable.directory.fork_of_unknown(number, at, location) {
            (step.kind, step.sequence, step.other) = (Kind::FORK, at, 0);
        }
    }

    /// Gives data records of a stream, that are lost, places in the last gap.
    fn lose_data(&mut self, number: u32, count: u32) -> Done {
        if count == 0 {
            return Ok(());
        }
        let id = self.durable.directory.stream(number).map(|stream| stream.id);
        let (segment, place) = self.take_places(u64::from(count)).ok_or_else(|| {
            format!("{count} records of {} would be lost before it, more than the log lacks", told(id, number))
        })?;
        let first = self.last_sequence(number).saturating_add(1);
        let ordinal = self.durable.directory.apply_lost(number, count, segment).map_err(|error| error.to_string())?;
        self.draft(segment).add_lost_data(number, ordinal, count, place, PLACE_BYTES);
        self.note(Lost { stream: number, kind: Kind::DATA, first, last: first.saturating_add(count - 1) }, count);
        Ok(())
    }

    fn lose_truncation(&mut self, number: u32, after: u32) -> Done {
        let ordinal = self.durable.directory.stream(number).map_or(0, |stream| stream.ordinals);
        self.lose_step(StepRow { kind: Kind::TRUNCATE, sequence: after, ordinal, ..empty_step(number) }).map(drop)
    }

    /// The place of the step in its draft.
    fn lose_step(&mut self, step: StepRow) -> Result<usize, String> {
        let (segment, offset) = self
            .take_places(1)
            .ok_or_else(|| format!("a step of stream number {} would be lost before it, too", step.stream))?;
        let step = StepRow { offset, ..step };
        self.apply_step(segment, &step)?;
        let draft = self.draft(segment);
        let place = draft.add_step(step);
        draft.add_lost();
        self.note(Lost { stream: step.stream, kind: step.kind, first: step.sequence, last: step.sequence }, 1);
        Ok(place)
    }

    /// Makes up for what a checkpoint knows of and no record behind the gap shows: what was deleted or redacted must not come
    /// back, and no sequence be given again.
    pub(super) fn catch_up(&mut self, checkpoint: &Checkpoint) -> Done {
        let theirs = &checkpoint.directory;
        self.create_lost(theirs.next_number().saturating_sub(1))?;
        for (number, stream) in (1_u32..).zip(theirs.streams().iter()) {
            let Some(ours) = self.durable.directory.stream(number) else { break };
            if ours.id != stream.id || ours.deleted {
                continue;
            }
            self.lose_data(number, stream.ordinals.saturating_sub(ours.ordinals))?;
            if stream.last_sequence() < self.last_sequence(number) {
                self.lose_truncation(number, stream.last_sequence())?;
            }
            if stream.deleted {
                self.lose_step(StepRow { kind: Kind::DELETE, ..empty_step(number) })?;
            }
        }
        for (target, (number, sequence)) in std::mem::take(&mut self.erased) {
            if !self.durable.directory.redacted().contains(target) {
                self.lose_step(StepRow { kind: Kind::REDACT, sequence, target, ..empty_step(number) })?;
            }
        }
        Ok(())
    }

    /// Places in the last gap that name nothing yet, one behind the other: the segment and the first of them.
    fn take_places(&mut self, count: u64) -> Option<(SegmentId, u64)> {
        let gap = self.gaps.get_mut(self.open?)?;
        let end = count.checked_mul(PLACE_BYTES).and_then(|bytes| gap.next_place.checked_add(bytes))?;
        if gap.unnamed < count || end > gap.to {
            return None;
        }
        let place = std::mem::replace(&mut gap.next_place, end);
        gap.unnamed -= count;
        Some((gap.segment, place))
    }

    fn note(&mut self, lost: Lost, count: u32) {
        if let Some(gap) = self.open.and_then(|open| self.gaps.get_mut(open)) {
            gap.add(lost);
            gap.named += u64::from(count.saturating_sub(1));
        }
    }
}

/// A step of a stream of which nothing is known yet.
fn empty_step(stream: u32) -> StepRow {
    StepRow { kind: Kind::CREATE, stream, sequence: 0, ordinal: 0, offset: 0, other: 0, target: 0, id: [0; 16] }
}

fn told(id: Option<StreamId>, number: u32) -> String {
    id.map_or_else(|| format!("stream number {number}"), |id| format!("stream {id}"))
}
