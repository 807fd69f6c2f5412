//! Staging a batch: from the caller's thread into the open group.
//!
//! A batch is validated under the writer's lock, which must never be held during I/O. So whenever the validation needs
//! I/O or waiting (space, a record to read, a group to be published first), the lock is released, the blocker is
//! cleared, and the batch is staged again from the start. Only records read by the failed attempt are kept, because
//! they are immutable.

use super::{
    lead::FLUSH_BYTES,
    repeat::{KeyState, Keyed},
    shared::Shared,
};
use crate::{
    Appended, Batch, Durability, ErrorKind, Result,
    store::staging::{
        facts::{Facts, Stop},
        group::Group,
        open_group::FlushUrgency,
        prepare::{self, Prepared},
        writer::{Staged, Writer},
    },
    sync::{Arc, MutexGuard},
};

/// Staging blocks while at least this many bytes are staged and not written.
const STAGED_BYTES_MAX: usize = 8 << 20;

/// The result of staging.
pub(crate) enum Outcome {
    /// Staged in a group.
    Staged(Arc<Group>, Staged),
    /// The batch has no effect to be written.
    Done(Appended),
}

impl Shared {
    /// Stages a batch and blocks until it is as durable as was requested.
    pub(crate) fn commit(&self, batch: &Batch<'_>) -> Result<Appended> {
        match self.stage(batch, Waiting::Thread)? {
            Outcome::Done(appended) => Ok(appended),
            Outcome::Staged(group, staged) => {
                self.wait(&group)?;
                Ok(appended(staged))
            }
        }
    }

    /// Stages a batch; a thread that waits for the group leads it, or else the flusher thread does.
    pub(crate) fn stage(&self, batch: &Batch<'_>, waiting: Waiting) -> Result<Outcome> {
        self.check_process()?;
        self.flush_if_due();
        let prepared = prepare::prepare(batch)?;
        let durability = batch.durability.unwrap_or(self.options.durability);
        let mut conflict_is_seen = false;
        let mut keyed = Keyed::of(batch, &self.identity.hash_key).filter(|_| !self.is_read_only());
        let mut facts = Facts::default();
        self.past_packs(|| facts.read_redacted(&self.durable, batch))?;
        loop {
            if let Some(keyed) = &mut keyed
                && let Some(appended) = self.past_packs(|| self.repeated(batch, keyed))?
            {
                return self.already_done(appended, durability);
            }
            let mut writer = self.writer()?;
            writer.phase.check()?;
            let now_ms = self.options.host.now_ms();
            if let Some(blocker) = self.blocker(&writer, &prepared, now_ms) {
                self.clear(writer, blocker, &prepared)?;
                continue;
            }
            // Lock order, everywhere: the writer's, then the directory's. A leader publishes with the second alone.
            let durable = self.durable();
            match keyed
                .as_ref()
                .map_or(Ok(KeyState::New), |keyed| keyed.state(&writer, &durable))?
            {
                KeyState::New => {}
                KeyState::LookAgain => continue,
                KeyState::Staged => {
                    drop(durable);
                    drop(writer);
                    self.flush(false)?;
                    continue;
                }
            }
            let staged = match writer.stage(&durable, batch, &prepared, &facts, durability, now_ms)
            {
                Ok(staged) => staged,
                Err(Stop::Read(need)) => {
                    drop(durable);
                    drop(writer);
                    self.past_packs(|| facts.read(&self.durable, batch, need))?;
                    continue;
                }
                Err(Stop::Publish) => {
                    drop(durable);
                    drop(writer);
                    self.flush(false)?;
                    continue;
                }
                Err(Stop::Refused(error))
                    if error.kind() == ErrorKind::Conflict && !conflict_is_seen =>
                {
                    // The conflict may be with a pending batch, which a caller that reads again can't see yet. So it is
                    // reported only once that batch is published.
                    conflict_is_seen = true;
                    let in_line = writer
                        .open
                        .as_ref()
                        .map(|open| &open.group)
                        .or(writer.phase.in_progress())
                        .cloned();
                    drop(durable);
                    drop(writer);
                    match in_line {
                        Some(group) => drop(self.join(&group)),
                        None => return Err(error),
                    }
                    continue;
                }
                Err(Stop::Refused(error)) => return Err(error),
            };
            drop(durable);
            if staged.is_empty {
                drop(writer);
                return self.already_done(appended(staged), durability);
            }
            let Some(open) = &mut writer.open else {
                return Ok(Outcome::Done(appended(staged)));
            };
            let group = open.group.clone();
            match waiting {
                Waiting::Thread => self.join_open(writer),
                Waiting::Later => {
                    let urgency = if open.staged().len() >= FLUSH_BYTES {
                        FlushUrgency::Now
                    } else {
                        FlushUrgency::Soon
                    };
                    self.request_flush(writer, urgency);
                }
            }
            return Ok(Outcome::Staged(group, staged));
        }
    }

    /// The result of a batch that writes nothing new: the existing records are made as durable as it requests.
    fn already_done(&self, appended: Appended, durability: Durability) -> Result<Outcome> {
        self.flush(durability == Durability::Sync)?;
        Ok(Outcome::Done(appended))
    }

    /// Why a batch can't be staged right now.
    fn blocker(&self, writer: &Writer, prepared: &Prepared, now_ms: u64) -> Option<Blocker> {
        let staged = writer.open.as_ref().map_or(0, |open| open.staged().len());
        if writer.phase.is_making_room() {
            return Some(Blocker::MakingRoom);
        }
        if writer.unproven_end.is_some() {
            return Some(Blocker::Unproven);
        }
        if !writer.has_room(prepared) || !writer.time_fits(now_ms) {
            return Some(Blocker::Segment);
        }
        (staged >= STAGED_BYTES_MAX).then_some(Blocker::Backlog)
    }

    /// Clears the blocker of a batch: at most a flush and a new segment.
    fn clear(
        &self,
        writer: MutexGuard<'_, Writer>,
        blocker: Blocker,
        prepared: &Prepared,
    ) -> Result<()> {
        if let Some(group) = self.blocking_group(&writer) {
            drop(writer);
            let _ = self.wait(&group);
            return Ok(());
        }
        if writer.open.is_some() {
            self.lead(writer);
            return Ok(());
        }
        match blocker {
            Blocker::Backlog | Blocker::MakingRoom => Ok(()),
            Blocker::Unproven => self.flush_written(writer),
            Blocker::Segment => self.rotate_or_wait(writer, prepared),
        }
    }
}

/// Which thread waits for a staged batch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// This thread, which leads if it can.
    Thread,
    /// No thread yet: the caller may wait later.
    Later,
}

enum Blocker {
    /// Another thread extends or rotates the active segment.
    MakingRoom,
    /// The active segment is full, or too old: its times are 32-bit offsets from its base time.
    Segment,
    /// Too many bytes are staged and not written.
    Backlog,
    /// Records found after a crash must be flushed first.
    Unproven,
}

pub(crate) fn appended(staged: Staged) -> Appended {
    Appended {
        last_position: staged.last_position,
        ops: staged.ops,
        repeated: false,
        truncated: false,
    }
}
