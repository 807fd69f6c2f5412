//! Changes that a checkpoint contains and no record after the gap reveals.

use super::{
    lose::Done,
    walker::{NOWHERE, Walker},
};
use crate::{
    Kind, Op, Position,
    format::index::ControlRow,
    index::{checkpoint::Checkpoint, stream::Stream},
};

impl Walker {
    /// Applies the changes that a checkpoint contains and no record after the gap reveals: deleted and redacted records
    /// must not reappear, and no sequence may be assigned again. Returns the first change for which the gap has no
    /// space.
    pub(super) fn catch_up(&mut self, checkpoint: &Checkpoint) -> Done {
        let theirs = &checkpoint.directory;
        let mut done = self.create_lost(theirs.next_number().saturating_sub(1));
        let mut erased = std::mem::take(&mut self.erased);
        erased.retain(|target, _| !self.durable.directory.redacted().contains(*target));
        let targets: Vec<Position> = erased.keys().copied().map(Position).collect();
        // Together, as they were lost: each takes a place that something else was in.
        for op in Op::redactions(&targets, "") {
            let found = op
                .redacted()
                .and_then(|(first, others, _)| Some((first.0, others, *erased.get(&first.0)?)));
            if let Some((target, others, (number, sequence))) = found {
                let control = ControlRow {
                    sequence,
                    target,
                    id: others.to_le_bytes(),
                    ..ControlRow::new(Kind::REDACT, number)
                };
                done = done.and(self.lose_control(control, NOWHERE).map(drop));
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
            self.lose_control(
                ControlRow::new(Kind::DELETE, number),
                self.last_mention(number, 0),
            )?;
        }
        Ok(())
    }
}
