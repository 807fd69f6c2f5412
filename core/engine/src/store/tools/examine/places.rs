//! The places of lost records in the gaps, and where the streams' records around the gaps are.

use super::{
    gap::{Gap, Lost, PLACE_BYTES},
    walker::{NOWHERE, Walker},
};
use crate::{Kind, format::index::ControlRow, index::stream::Location};

/// Places that were taken in a gap.
pub(super) struct Taken {
    pub(super) gap: usize,
    pub(super) location: Location,
    pub(super) count: u32,
}

impl Walker {
    /// How much may have been lost behind a place, of which nothing is known yet.
    pub(super) fn room_behind(&self, behind: Location) -> u64 {
        self.gaps
            .iter()
            .filter(|gap| gap.location() >= behind)
            .map(Gap::room)
            .sum()
    }

    /// Places in the first gap behind another place that has some: one behind the other, `count` at the most. The first, since
    /// the later ones are all that is left for what can only have been lost there.
    pub(super) fn take_places(&mut self, count: u32, behind: Location) -> Option<Taken> {
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
    pub(super) fn share_place(&self, behind: Location) -> Option<Taken> {
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

    pub(super) fn note(&mut self, gap: usize, lost: Lost, count: u32) {
        if let Some(gap) = self.gaps.get_mut(gap) {
            gap.add(lost);
            gap.named += u64::from(count.saturating_sub(1));
        }
    }

    /// Where the newest record of a stream is, if that is behind the first gap.
    pub(super) fn last_place(&self, number: u32) -> Location {
        self.last_places.get(&number).copied().unwrap_or(NOWHERE)
    }

    /// The newest place where a stream had a record, or had to reach behind a sequence: where it lost that again, was later.
    pub(super) fn last_mention(&self, number: u32, behind: u32) -> Location {
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

    /// Notes where an engine record is, or was. One that speaks of a stream says little of where the stream's records before it were:
    /// only a data record shows what is lost before it.
    pub(super) fn control_at(&mut self, control: &ControlRow, location: Location) {
        if matches!(control.kind, Kind::CREATE | Kind::FORK) {
            self.last_creation = location;
            self.set_place(control.stream, location);
        }
        if control.kind == Kind::TRUNCATE && self.open.is_some() {
            self.truncated.insert(control.stream, location);
        }
        let about = if control.kind == Kind::FORK {
            control.other
        } else {
            control.stream
        };
        if matches!(control.kind, Kind::FORK | Kind::TRUNCATE | Kind::SNAPSHOT)
            && !self.gaps.is_empty()
        {
            self.mentions
                .entry(about)
                .or_default()
                .add(control.sequence, location);
        }
    }
}
