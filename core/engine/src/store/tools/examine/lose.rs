//! Assigns places in a gap to the lost records that later records reveal. [`gap`](super::gap) has the rules.

use std::ops::RangeInclusive;

use super::{
    gap::{Lost, PLACE_BYTES},
    names::Shared,
    places::Taken,
    walker::{NOWHERE, Walker},
};
use crate::{Kind, SegmentId, StreamId, format::index::ControlRow, index::stream::Location};

pub(super) type Done = Result<(), String>;

impl Walker {
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
            let place = self.lose_control(
                ControlRow {
                    sequence,
                    other,
                    id,
                    ..ControlRow::new(kind, number)
                },
                behind,
            )?;
            self.names.made_up.insert(number, place);
        }
        Ok(())
    }

    /// Loses what a stream must have had when it was forked, and has not. Whether there was any.
    fn lose_shared(&mut self, child: u32, parent: u32, at: u32) -> Result<bool, String> {
        let given = self.given(parent);
        self.lose_still_shared(child, parent)?;
        self.lose_data(parent, at.saturating_sub(self.last_sequence(parent)))?;
        Ok(self
            .durable
            .directory
            .stream(parent)
            .is_some_and(|stream| stream.ordinals > given))
    }

    /// Of that, what the checkpoint says that the fork still has in common with it.
    pub(super) fn lose_still_shared(&mut self, child: u32, parent: u32) -> Done {
        let given = self.given(parent);
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
    pub(super) fn begin_further_on(&mut self, number: u32, at: u32) {
        let is_fork = at > 0 && self.names.is_unknown(number);
        let Some(location) = self.names.made_up.get(&number).copied().filter(|_| is_fork) else {
            return;
        };
        let Some(control) = self
            .drafts
            .get_mut(&location.segment)
            .and_then(|draft| draft.creation_mut(number))
        else {
            return;
        };
        if (control.kind == Kind::CREATE || control.other == 0)
            && self.durable.directory.fork_of_unknown(number, at, location)
        {
            (control.kind, control.sequence, control.other) = (Kind::FORK, at, 0);
        }
    }

    /// Gives data records of a stream, that are lost, places in the gaps behind the last record of the stream.
    pub(super) fn lose_data(&mut self, number: u32, count: u32) -> Done {
        let id = self
            .durable
            .directory
            .stream(number)
            .map(|stream| stream.id);
        // What was truncated is placed by `lose_truncated`: these came later.
        let truncated = self.truncated.get(&number).copied().unwrap_or(NOWHERE);
        if self.room_behind(self.last_place(number).max(truncated)) < u64::from(count) {
            return Err(format!(
                "{count} records of {} would be lost before it, more than the log lacks",
                name_of(id, number)
            ));
        }
        self.place_data(number, count, truncated, |walker, count, segment| {
            let first = walker.last_sequence(number).saturating_add(1);
            let ordinal = walker.durable.directory.apply_lost(number, count, segment);
            let ordinal = ordinal.map_err(|error| error.to_string())?;
            walker.truncated.remove(&number);
            Ok((ordinal, first))
        })
    }

    /// The same of records that came before the truncation that is the last engine record of the stream: it took them away.
    pub(super) fn lose_truncated(&mut self, number: u32, count: u32) -> Done {
        let at = self
            .truncated
            .get(&number)
            .copied()
            .ok_or("nothing was truncated")?;
        self.place_data(number, count, NOWHERE, |walker, count, segment| {
            let ordinal = walker
                .durable
                .directory
                .apply_truncated(number, count, segment);
            let ordinal = ordinal.map_err(|error| error.to_string())?;
            let control = walker
                .draft(at.segment)
                .control_mut(at.offset)
                .ok_or("a truncation that is known is another")?;
            control.ordinal = control.ordinal.saturating_add(count);
            Ok((ordinal, 0))
        })
    }

    /// Gives lost data records of a stream places behind a location and behind the stream's last record, as many at a time as
    /// a gap has in a row. `apply` applies so many in a segment, and says the ordinal and the sequence of the first.
    fn place_data(
        &mut self,
        number: u32,
        mut left: u32,
        behind: Location,
        apply: impl Fn(&mut Self, u32, SegmentId) -> Result<(u32, u32), String>,
    ) -> Done {
        while left > 0 {
            let Taken {
                gap,
                location,
                count,
            } = self
                .take_places(left, self.last_place(number).max(behind))
                .ok_or_else(|| format!("no place is left for {left} records"))?;
            let (ordinal, first) = apply(self, count, location.segment)?;
            self.draft(location.segment).add_lost_data(
                number,
                ordinal,
                count,
                location.offset,
                PLACE_BYTES,
            );
            let last = first.saturating_add(count - 1);
            self.note(gap, Lost::data(number, first, last), count);
            let offset = location.offset + u64::from(count - 1) * PLACE_BYTES;
            self.last_places
                .insert(number, Location { offset, ..location });
            left -= count;
        }
        Ok(())
    }

    pub(super) fn lose_truncation(&mut self, number: u32, after: u32) -> Done {
        let ordinal = self.given(number);
        let control = ControlRow {
            sequence: after,
            ordinal,
            ..ControlRow::new(Kind::TRUNCATE, number)
        };
        self.lose_control(control, self.last_mention(number, after))
            .map(drop)
    }

    /// The place of the engine record, which is behind another.
    pub(super) fn lose_control(
        &mut self,
        control: ControlRow,
        behind: Location,
    ) -> Result<Location, String> {
        // What is to be gone stays gone, even where everything that is lost has been taken for something else.
        let must_stay = matches!(control.kind, Kind::REDACT | Kind::DELETE);
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
                control.stream
            )
        })?;
        let control = ControlRow {
            offset: location.offset,
            ..control
        };
        self.apply_control(location.segment, &control)?;
        let draft = self.draft(location.segment);
        draft.add_control(control);
        if count > 0 {
            draft.add_lost();
        }
        self.note(gap, Lost::of(&control), 1);
        self.control_at(&control, location);
        Ok(location)
    }

    /// Loses what the checkpoint has of a stream behind one ordinal and up to another, range by range. Each that begins in what
    /// is lost was begun by a truncation.
    pub(super) fn lose_ranges(&mut self, number: u32, behind: u32, to: u32) -> Done {
        for (first_sequence, first_ordinal) in self.names.ranges(number, behind, to) {
            self.lose_range(number, first_sequence, first_ordinal)?;
        }
        Ok(())
    }

    /// Where the checkpoint has a sequence in a range that begins in what is lost, all that came before that one is lost.
    pub(super) fn lose_range_before(
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
        let given = self.given(number);
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

    pub(super) fn lose_data_up_to(&mut self, number: u32, ordinal: u32) -> Done {
        let given = self.given(number);
        self.lose_data(number, ordinal.saturating_sub(given))
    }
}

fn name_of(id: Option<StreamId>, number: u32) -> String {
    id.map_or_else(
        || format!("stream number {number}"),
        |id| format!("stream {id}"),
    )
}
