//! What the records behind a gap show to have been lost gets places in it. The rules stand in [`gap`](super::gap).

use std::ops::RangeInclusive;

use super::{
    draft::Draft,
    gap::{Gap, Lost, PLACE_BYTES},
    names::Shared,
    walk::{Walker, Within},
};
use crate::{
    Kind, SegmentId, StreamId,
    format::{index::StepRow, record::engine},
    index::{
        checkpoint::Checkpoint,
        directory::{Location, Stream},
    },
    log::segment::{Frame, Segment},
};

type Done = Result<(), String>;

impl Walker {
    /// Whether something is lost of which nothing tells what it was.
    pub(super) fn has_open_gap(&self) -> bool {
        self.open.is_some()
    }

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
        let row = within
            .block
            .as_ref()
            .and_then(|block| block.find_stream(number));
        let row = row.filter(|_| {
            !self
                .drafts
                .get(&within.id)
                .is_some_and(|draft| draft.has_stream(number))
        });
        let given = self
            .durable
            .directory
            .stream(number)
            .map_or(0, |stream| stream.ordinals);
        match row {
            Some(row) => self.lose_ranges(number, given, row.first_ordinal)?,
            None => self.lose_range_before(number, given..=u32::MAX, sequence)?,
        }
        let given = self
            .durable
            .directory
            .stream(number)
            .map_or(0, |stream| stream.ordinals);
        let known = match row {
            Some(row) => Some(
                row.first_ordinal
                    .checked_sub(given.saturating_add(1))
                    .ok_or_else(|| {
                        format!(
                            "the index says {} is the first here of stream number {number}",
                            row.first_ordinal
                        )
                    })?,
            ),
            None => None,
        };
        self.begin_further_on(
            number,
            sequence
                .saturating_sub(1)
                .saturating_sub(known.unwrap_or(0)),
        );
        let last = self.last_sequence(number);
        // What is lost and took no sequence was truncated.
        if let Some(known) = known.filter(|known| *known > 0)
            && sequence == last.saturating_add(1)
            && self.truncated.contains_key(&number)
        {
            return self.lose_truncated(number, known);
        }
        self.lose_data(
            number,
            known.unwrap_or(sequence.saturating_sub(last.saturating_add(1))),
        )?;
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
        let given = self
            .durable
            .directory
            .stream(number)
            .map_or(0, |stream| stream.ordinals);
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
                let parent = frame
                    .parts()
                    .and_then(|(_, payload)| engine::decode_fork(&payload));
                (header.stream, parent.map(|(_, parent)| parent))
            }
            _ => (header.stream.saturating_add(1), Some(header.stream)),
        };
        if made > self.durable.directory.next_number() {
            self.create_lost(made - 1)?;
        }
        let Some(about) = about else { return Ok(()) };
        let given = within.given_by(frame.offset);
        if let Some(ordinal) = given {
            let before = self
                .durable
                .directory
                .stream(about)
                .map_or(0, |stream| stream.ordinals);
            self.lose_ranges(about, before, ordinal)?;
        }
        if header.kind == Kind::FORK {
            self.lose_still_shared(made, about)?;
        }
        if matches!(header.kind, Kind::FORK | Kind::TRUNCATE | Kind::SNAPSHOT)
            && header.sequence > self.last_sequence(about)
        {
            // How many records of its own it was given by then, only an index tells, at best that of the step itself; one that
            // had none was a fork.
            let own = given
                .or_else(|| self.names.records_before(about))
                .unwrap_or(0);
            let begins = self.names.begins_behind(about).unwrap_or(0);
            self.begin_further_on(about, header.sequence.saturating_sub(own).max(begins));
            if given.is_none() {
                let before = self
                    .durable
                    .directory
                    .stream(about)
                    .map_or(0, |stream| stream.ordinals);
                // What an index has of the stream from here on came later.
                let row = within
                    .block
                    .as_ref()
                    .and_then(|block| block.find_stream(about));
                let here = Location {
                    segment: within.id,
                    offset: frame.offset,
                };
                let first = row
                    .map(|row| row.first_ordinal)
                    .or_else(|| self.names.first_behind(about, here));
                let to = first.map_or(u32::MAX, |first| first - 1);
                self.lose_range_before(about, before..=to, header.sequence)?;
            }
            self.lose_data(
                about,
                header.sequence.saturating_sub(self.last_sequence(about)),
            )?;
        }
        if let Some(ordinal) = given {
            self.lose_data_up_to(about, ordinal)?;
        }
        Ok(())
    }

    /// What the header of a segment tells of the gaps before it: every stream with a lower number than its next was made there,
    /// and no other.
    pub(super) fn begin_segment(&mut self, segment: &Segment) {
        // Where there is no room for that, a record will tell.
        if self.open.is_some() && self.create_lost(segment.header.next_stream - 1).is_ok() {
            let begin = Location {
                segment: segment.id(),
                offset: 0,
            };
            self.last_creation = self.last_creation.max(begin);
        }
    }

    fn last_sequence(&self, number: u32) -> u32 {
        self.durable
            .directory
            .stream(number)
            .map_or(0, |stream| stream.last_sequence())
    }

    /// Makes every stream up to a number, whose creations are lost.
    pub(super) fn create_lost(&mut self, number: u32) -> Done {
        let next = self.durable.directory.next_number();
        let count = u64::from(number.saturating_add(1).saturating_sub(next));
        if count == 0 {
            return Ok(());
        }
        if self.room_behind(self.last_creation) < count {
            return Err(format!("stream number {number} was never created"));
        }
        for number in next..=number {
            let id = self.names.id(number, &self.durable.directory);
            let fork = self
                .names
                .fork(number)
                .filter(|(parent, _)| self.durable.directory.stream(*parent).is_some());
            let (kind, other, sequence) = fork.map_or((Kind::CREATE, 0, 0), |(parent, at)| {
                (Kind::FORK, parent, at)
            });
            let mut behind = self.last_creation;
            if kind == Kind::FORK && self.lose_shared(number, other, sequence)? {
                behind = behind.max(self.last_place(other));
            }
            let place = self.lose_step(
                StepRow {
                    kind,
                    sequence,
                    other,
                    id,
                    ..empty_step(number)
                },
                behind,
            )?;
            self.names.made_up.insert(number, place);
        }
        Ok(())
    }

    /// Loses what a stream must have had when it was forked, and has not. Whether there was any.
    fn lose_shared(&mut self, child: u32, parent: u32, at: u32) -> Result<bool, String> {
        let given = self
            .durable
            .directory
            .stream(parent)
            .map_or(0, |stream| stream.ordinals);
        self.lose_still_shared(child, parent)?;
        self.lose_data(parent, at.saturating_sub(self.last_sequence(parent)))?;
        Ok(self
            .durable
            .directory
            .stream(parent)
            .is_some_and(|stream| stream.ordinals > given))
    }

    /// Of that, what the checkpoint says that the fork still has in common with it.
    fn lose_still_shared(&mut self, child: u32, parent: u32) -> Done {
        let given = self
            .durable
            .directory
            .stream(parent)
            .map_or(0, |stream| stream.ordinals);
        for Shared {
            first_sequence,
            first_ordinal,
            count,
        } in self.names.shared(child)
        {
            let is_new = first_ordinal > given;
            if is_new {
                self.lose_range(parent, first_sequence, first_ordinal)?;
            }
            if is_new || first_ordinal + count > given + 1 {
                self.lose_data_up_to(parent, first_ordinal + count - 1)?;
            }
        }
        Ok(())
    }

    /// Makes a stream whose creation is lost a fork of an unknown one, if what is there of it begins behind `at`.
    fn begin_further_on(&mut self, number: u32, at: u32) {
        let is_fork = at > 0 && self.names.is_unknown(number);
        let Some(location) = self.names.made_up.get(&number).copied().filter(|_| is_fork) else {
            return;
        };
        let Some(step) = self
            .drafts
            .get_mut(&location.segment)
            .and_then(|draft| draft.creation_mut(number))
        else {
            return;
        };
        if (step.kind == Kind::CREATE || step.other == 0)
            && self.durable.directory.fork_of_unknown(number, at, location)
        {
            (step.kind, step.sequence, step.other) = (Kind::FORK, at, 0);
        }
    }

    /// Gives data records of a stream, that are lost, places in the gaps behind the last record of the stream.
    fn lose_data(&mut self, number: u32, count: u32) -> Done {
        let id = self
            .durable
            .directory
            .stream(number)
            .map(|stream| stream.id);
        // What was truncated is told by `lose_truncated`: these came later.
        let truncated = self.truncated.get(&number).copied().unwrap_or(NOWHERE);
        let behind = |walker: &Self| walker.last_place(number).max(truncated);
        if self.room_behind(behind(self)) < u64::from(count) {
            return Err(format!(
                "{count} records of {} would be lost before it, more than the log lacks",
                told(id, number)
            ));
        }
        let mut left = count;
        while left > 0 {
            let taken = self.take_places(left, behind(self));
            let Taken {
                gap,
                location,
                count,
            } = taken.ok_or_else(|| format!("no place is left for {left} records"))?;
            let first = self.last_sequence(number).saturating_add(1);
            let lost = self
                .durable
                .directory
                .apply_lost(number, count, location.segment);
            let ordinal = lost.map_err(|error| error.to_string())?;
            self.draft(location.segment).add_lost_data(
                number,
                ordinal,
                count,
                location.offset,
                PLACE_BYTES,
            );
            self.note(
                gap,
                Lost {
                    stream: number,
                    kind: Kind::DATA,
                    first,
                    last: first.saturating_add(count - 1),
                },
                count,
            );
            let last = location.offset + u64::from(count - 1) * PLACE_BYTES;
            self.set_place(
                number,
                Location {
                    offset: last,
                    ..location
                },
            );
            left -= count;
        }
        Ok(())
    }

    /// The same of records that came before the truncation that is the last step of the stream: it took them away.
    fn lose_truncated(&mut self, number: u32, count: u32) -> Done {
        let at = self
            .truncated
            .get(&number)
            .copied()
            .ok_or("nothing was truncated")?;
        let mut left = count;
        while left > 0 {
            let Taken {
                gap,
                location,
                count,
            } = self
                .take_places(left, self.last_place(number))
                .ok_or_else(|| format!("no place is left for {left} records"))?;
            let ordinal = self
                .durable
                .directory
                .apply_truncated(number, count, location.segment);
            let ordinal = ordinal.map_err(|error| error.to_string())?;
            self.draft(location.segment).add_lost_data(
                number,
                ordinal,
                count,
                location.offset,
                PLACE_BYTES,
            );
            let step = self
                .draft(at.segment)
                .step_mut(at.offset)
                .ok_or("a truncation that is known is another")?;
            step.ordinal = step.ordinal.saturating_add(count);
            self.note(
                gap,
                Lost {
                    stream: number,
                    kind: Kind::DATA,
                    first: 0,
                    last: count - 1,
                },
                count,
            );
            let last = location.offset + u64::from(count - 1) * PLACE_BYTES;
            self.last_places.insert(
                number,
                Location {
                    offset: last,
                    ..location
                },
            );
            left -= count;
        }
        Ok(())
    }

    fn lose_truncation(&mut self, number: u32, after: u32) -> Done {
        let ordinal = self
            .durable
            .directory
            .stream(number)
            .map_or(0, |stream| stream.ordinals);
        let step = StepRow {
            kind: Kind::TRUNCATE,
            sequence: after,
            ordinal,
            ..empty_step(number)
        };
        self.lose_step(step, self.last_mention(number, after))
            .map(drop)
    }

    /// The place of the step, which is behind another.
    fn lose_step(&mut self, step: StepRow, behind: Location) -> Result<Location, String> {
        // What is to be gone stays gone, even where everything that is lost has been taken for something else.
        let must_stay = matches!(step.kind, Kind::REDACT | Kind::DELETE);
        let taken = self.take_places(1, behind).or_else(|| {
            if must_stay {
                self.share_place(behind)
            } else {
                None
            }
        });
        let Taken {
            gap,
            location,
            count,
        } = taken.ok_or_else(|| {
            format!(
                "a step of stream number {} would be lost before it, too",
                step.stream
            )
        })?;
        let step = StepRow {
            offset: location.offset,
            ..step
        };
        self.apply_step(location.segment, &step)?;
        let draft = self.draft(location.segment);
        draft.add_step(step);
        if count > 0 {
            draft.add_lost();
        }
        self.note(
            gap,
            Lost {
                stream: step.stream,
                kind: step.kind,
                first: step.sequence,
                last: step.sequence,
            },
            1,
        );
        self.step_at(&step, location);
        Ok(location)
    }

    /// Makes up for what a checkpoint knows of and no record behind the gap shows: what was deleted or redacted must not come
    /// back, and no sequence be given again. The first thing for which there is no room.
    pub(super) fn catch_up(&mut self, checkpoint: &Checkpoint) -> Done {
        let theirs = &checkpoint.directory;
        let mut done = self.create_lost(theirs.next_number().saturating_sub(1));
        for (target, (number, sequence)) in std::mem::take(&mut self.erased) {
            if !self.durable.directory.redacted().contains(target) {
                let step = StepRow {
                    kind: Kind::REDACT,
                    sequence,
                    target,
                    ..empty_step(number)
                };
                done = done.and(self.lose_step(step, NOWHERE).map(drop));
            }
        }
        for (number, stream) in (1_u32..).zip(theirs.streams().iter()) {
            done = done.and(self.catch_up_stream(number, stream));
        }
        done
    }

    fn catch_up_stream(&mut self, number: u32, theirs: &Stream) -> Done {
        let ours = self
            .durable
            .directory
            .stream(number)
            .filter(|ours| ours.id == theirs.id && !ours.deleted);
        let Some(given) = ours.map(|ours| ours.ordinals) else {
            return Ok(());
        };
        self.lose_ranges(number, given, theirs.ordinals.saturating_add(1))?;
        self.lose_data_up_to(number, theirs.ordinals)?;
        if theirs.last_sequence() < self.last_sequence(number) {
            self.lose_truncation(number, theirs.last_sequence())?;
        }
        if theirs.deleted {
            self.lose_step(
                StepRow {
                    kind: Kind::DELETE,
                    ..empty_step(number)
                },
                self.last_mention(number, 0),
            )?;
        }
        Ok(())
    }

    /// Loses what the checkpoint has of a stream behind one ordinal and up to another, range by range. Each that begins in what
    /// is lost was begun by a truncation.
    fn lose_ranges(&mut self, number: u32, behind: u32, to: u32) -> Done {
        for (first_sequence, first_ordinal) in self.names.ranges(number, behind, to) {
            self.lose_range(number, first_sequence, first_ordinal)?;
        }
        Ok(())
    }

    /// Where the checkpoint has a sequence in a range that begins in what is lost, all that came before that one is lost.
    fn lose_range_before(
        &mut self,
        number: u32,
        ordinals: RangeInclusive<u32>,
        sequence: u32,
    ) -> Done {
        let (given, to) = ordinals.into_inner();
        // A sequence beyond those that the checkpoint has was taken back again before it was made.
        if self
            .names
            .last_sequence(number)
            .is_some_and(|last| last < sequence)
        {
            return Ok(());
        }
        let ranges = self.names.ranges(number, given, to);
        let place = ranges.iter().rposition(|(first, _)| *first <= sequence);
        let Some((first_sequence, first_ordinal)) = place.map(|place| ranges[place]) else {
            return Ok(());
        };
        let lost = u64::from(first_ordinal - 1 - given) + u64::from(sequence - first_sequence);
        // What was truncated since may have had the sequence, too.
        if self.room_behind(self.last_place(number)) < lost {
            return Ok(());
        }
        self.lose_ranges(number, given, first_ordinal)
    }

    /// Loses what there was of a stream before a range of its own records that begins in what is lost.
    fn lose_range(&mut self, number: u32, first_sequence: u32, first_ordinal: u32) -> Done {
        let given = self
            .durable
            .directory
            .stream(number)
            .map_or(0, |stream| stream.ordinals);
        if self.truncated.contains_key(&number)
            && first_sequence == self.last_sequence(number).saturating_add(1)
        {
            return self.lose_truncated(number, (first_ordinal - 1).saturating_sub(given));
        }
        self.lose_data_up_to(number, first_ordinal - 1)?;
        if first_sequence <= self.last_sequence(number) {
            self.lose_truncation(number, first_sequence - 1)?;
        }
        Ok(())
    }

    fn lose_data_up_to(&mut self, number: u32, ordinal: u32) -> Done {
        let given = self
            .durable
            .directory
            .stream(number)
            .map_or(0, |stream| stream.ordinals);
        self.lose_data(number, ordinal.saturating_sub(given))
    }

    /// How much may have been lost behind a place, of which nothing is known yet.
    fn room_behind(&self, behind: Location) -> u64 {
        self.gaps
            .iter()
            .filter(|gap| gap.location() >= behind)
            .map(Gap::room)
            .sum()
    }

    /// Places in the first gap behind another place that has some: one behind the other, `count` at the most. The first, since
    /// the later ones are all that is left for what can only have been lost there.
    fn take_places(&mut self, count: u32, behind: Location) -> Option<Taken> {
        let is_free = |gap: &&mut Gap| gap.location() >= behind && gap.room() > 0;
        let (place, gap) = self
            .gaps
            .iter_mut()
            .enumerate()
            .find(|(_, gap)| is_free(gap))?;
        let count = u32::try_from(gap.room()).map_or(count, |room| room.min(count));
        let location = Location {
            segment: gap.segment,
            offset: gap.next_place,
        };
        gap.next_place += u64::from(count) * PLACE_BYTES;
        gap.unnamed -= u64::from(count);
        Some(Taken {
            gap: place,
            location,
            count,
        })
    }

    /// A place that something else has: the last of a gap.
    fn share_place(&self, behind: Location) -> Option<Taken> {
        let is_behind = |gap: &&Gap| gap.location() >= behind && gap.next_place > gap.from;
        let (place, gap) = self
            .gaps
            .iter()
            .enumerate()
            .rfind(|(_, gap)| is_behind(gap))?;
        let location = Location {
            segment: gap.segment,
            offset: gap.next_place - PLACE_BYTES,
        };
        Some(Taken {
            gap: place,
            location,
            count: 0,
        })
    }

    fn note(&mut self, gap: usize, lost: Lost, count: u32) {
        if let Some(gap) = self.gaps.get_mut(gap) {
            gap.add(lost);
            gap.named += u64::from(count.saturating_sub(1));
        }
    }

    /// Where the newest record of a stream is, if that is behind the first gap.
    fn last_place(&self, number: u32) -> Location {
        self.last_places.get(&number).copied().unwrap_or(NOWHERE)
    }

    /// The newest place where a stream had a record, or had to reach behind a sequence: where it lost that again, was later.
    fn last_mention(&self, number: u32, behind: u32) -> Location {
        let mentioned = self
            .mentions
            .get(&number)
            .map_or(NOWHERE, |mentions| mentions.last_behind(behind));
        self.last_place(number).max(mentioned)
    }

    /// Notes where a record of a stream is, or was.
    pub(super) fn set_place(&mut self, number: u32, location: Location) {
        if !self.gaps.is_empty() {
            self.last_places.insert(number, location);
            self.truncated.remove(&number);
        }
    }

    /// Notes where a step is, or was. One that speaks of a stream says little of where the stream's records before it were:
    /// only a data record shows what is lost before it.
    pub(super) fn step_at(&mut self, step: &StepRow, location: Location) {
        if matches!(step.kind, Kind::CREATE | Kind::FORK) {
            self.last_creation = location;
            self.set_place(step.stream, location);
        }
        if step.kind == Kind::TRUNCATE && self.open.is_some() {
            self.truncated.insert(step.stream, location);
        }
        let about = if step.kind == Kind::FORK {
            step.other
        } else {
            step.stream
        };
        if matches!(step.kind, Kind::FORK | Kind::TRUNCATE | Kind::SNAPSHOT)
            && !self.gaps.is_empty()
        {
            self.mentions
                .entry(about)
                .or_default()
                .add(step.sequence, location);
        }
    }
}

/// Where steps speak of sequences of a stream, which it must have reached by then.
#[derive(Default)]
pub(super) struct Mentions(Vec<(u32, Location)>);

impl Mentions {
    /// What is said further on of a sequence as high says all that this does.
    fn add(&mut self, sequence: u32, location: Location) {
        self.0
            .retain(|(other, at)| *other > sequence || *at > location);
        self.0.push((sequence, location));
    }

    /// The newest that speaks of a sequence behind another.
    fn last_behind(&self, sequence: u32) -> Location {
        let behind = self.0.iter().filter(|(other, _)| *other > sequence);
        behind
            .map(|(_, location)| *location)
            .max()
            .unwrap_or(NOWHERE)
    }
}

/// Places that were taken in a gap.
struct Taken {
    gap: usize,
    location: Location,
    count: u32,
}

/// Before every record.
pub(super) const NOWHERE: Location = Location {
    segment: SegmentId(0),
    offset: 0,
};

/// A step of a stream of which nothing is known yet.
fn empty_step(stream: u32) -> StepRow {
    StepRow {
        kind: Kind::CREATE,
        stream,
        sequence: 0,
        ordinal: 0,
        offset: 0,
        other: 0,
        target: 0,
        id: [0; 16],
    }
}

fn told(id: Option<StreamId>, number: u32) -> String {
    id.map_or_else(
        || format!("stream number {number}"),
        |id| format!("stream {id}"),
    )
}
