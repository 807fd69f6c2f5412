//! What a checkpoint knows of and no record behind the gap shows.

use super::{
    lose::Done,
    walker::{NOWHERE, Walker},
};
use crate::{
    Kind,
    format::index::ControlRow,
    index::{checkpoint::Checkpoint, stream::Stream},
};

impl Walker {
    /// Makes up for what a checkpoint knows of and no record behind the gap shows: what was deleted or redacted must not come
    /// back, and no sequence be given again. The first thing for which there is no room.
    pub(super) fn catch_up(&mut self, checkpoint: &Checkpoint) -> Done {
        let theirs = &checkpoint.directory;
        let mut done = self.create_lost(theirs.next_number().saturating_sub(1));
        for (target, (number, sequence)) in std::mem::take(&mut self.erased) {
            if !self.durable.directory.redacted().contains(target) {
                let control = ControlRow {
                    sequence,
                    target,
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
