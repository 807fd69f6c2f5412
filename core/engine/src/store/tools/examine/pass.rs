//! Continuing after unreadable bytes: the records that an index block names there are applied as lost.

use super::{
    compare,
    gap::{Gap, Lost},
    guide::{Guide, Named, named_at},
    survey::Hole,
    walker::{Task, Walker, Within},
};
use crate::Kind;

impl Walker {
    /// Holds a record against what the index names at its place, once that is followed.
    pub(super) fn check_named(within: &mut Within, offset: u64, found: Named) {
        let Some(guide) = &mut within.guide else {
            return;
        };
        if !guide.covers(offset + 1) {
            return;
        }
        match guide.next_below(offset + 1) {
            Some((at, named)) if at == offset && named == found => {}
            named => {
                let what = format!(
                    "at offset {offset} is {}, but it names {}",
                    found.describe(),
                    named_at(named)
                );
                within.contradict(what);
            }
        }
    }

    /// Goes behind bytes that can't be read, up to the record with an index at `to`.
    pub(super) fn pass(
        &mut self,
        task: &Task<'_>,
        within: &mut Within,
        hole: Option<Hole>,
        index: Option<u32>,
        to: u64,
    ) {
        let hole = hole.unwrap_or_else(|| Hole {
            from: to,
            to,
            why: "records are missing here, without a byte between those before and behind"
                .to_owned(),
        });
        self.follow_index(task, within, hole.from);
        let first_position = task
            .segment
            .header
            .base_position
            .saturating_add(u64::from(within.expected));
        let missing = index.map_or(0, |index| index.saturating_sub(within.expected));
        let mut gap = Gap::new(task.segment, &hole, first_position, missing);
        let is_known = self.lose_named(within, &mut gap);
        gap.unnamed = u64::from(missing).saturating_sub(gap.named);
        within.expected = index.unwrap_or(within.expected);
        within.is_behind_hole = true;
        within.walked.has_holes = true;
        self.gaps.push(gap);
        if !is_known {
            within.walked.is_unknown = true;
            self.open = Some(self.gaps.len() - 1);
            self.settled.clear();
        }
    }

    /// Begins to follow the index block of the segment from the first hole on, if it agrees with the records before.
    fn follow_index(&mut self, task: &Task<'_>, within: &mut Within, from: u64) {
        if within.guide.is_some() {
            return;
        }
        let Some(block) = &within.block else { return };
        let draft = self.drafts.entry(within.id).or_default();
        match compare::below(draft, block, from.min(task.block_end)) {
            None => within.guide = Some(Guide::new(block, from, task.block_end)),
            Some(what) => within.contradict(what),
        }
    }

    /// Applies what the index names in a gap. Whether it names everything there was.
    fn lose_named(&mut self, within: &mut Within, gap: &mut Gap) -> bool {
        let Some(mut guide) = within.guide.take() else {
            return false;
        };
        let mut counted = None;
        while let Some((offset, named)) = guide.next_below(gap.to) {
            let done = if offset < gap.from {
                Err(format!(
                    "it names {} at offset {offset}, where the records have none",
                    named.describe()
                ))
            } else {
                self.lose_one(within, named, offset, gap)
            };
            if let Err(what) = done {
                within.contradict(what);
                return false;
            }
            // What an earlier repair placed where something else is lost has no position of its own.
            if counted.replace(offset) != Some(offset) {
                self.draft(within.id).add_lost();
            }
        }
        gap.next_place = gap.next_place.max(guide.end.min(gap.to));
        let is_known = guide.covers(gap.to);
        within.guide = Some(guide);
        is_known
    }

    fn lose_one(
        &mut self,
        within: &mut Within,
        named: Named,
        offset: u64,
        gap: &mut Gap,
    ) -> Result<(), String> {
        match named {
            Named::Data { stream, ordinal } => {
                self.settle_ordinal(stream, ordinal)?;
                let last = self.last_sequence(stream);
                let given =
                    self.durable
                        .directory
                        .apply_data(stream, last.saturating_add(1), within.id);
                let given = given.map_err(|error| error.to_string())?;
                if given != ordinal {
                    return Err(format!(
                        "it names record {ordinal} of stream number {stream}, expected {given}"
                    ));
                }
                self.draft(within.id).add_data(stream, ordinal, offset);
                self.set_place(stream, within.at(offset));
                gap.add(Lost::data(
                    stream,
                    last.saturating_add(1),
                    last.saturating_add(1),
                ));
            }
            Named::Control(control) => {
                if matches!(control.kind, Kind::CREATE | Kind::FORK)
                    && control.stream > self.durable.directory.next_number()
                {
                    self.create_lost(control.stream - 1)?;
                }
                self.apply_control(within.id, &control)?;
                self.draft(within.id).add_control(control);
                self.control_at(&control, within.at(offset));
                gap.add(Lost::of(&control));
            }
        }
        Ok(())
    }
}
