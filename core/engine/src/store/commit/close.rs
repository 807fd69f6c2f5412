//! Closing a store.

use super::shared::Shared;
use crate::{
    ErrorKind, Result,
    format::files::{self, End},
    storage::IoContext,
    store::{files::small, staging::phase::Close},
    sync::{PoisonError, thread},
};

/// Guard of the thread that closes a store. Even if that fails or panics, the lock is released, and no thread waits
/// forever.
struct Closing<'a> {
    shared: &'a Shared,
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        let shared = self.shared;
        shared
            .lock
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(writer) = &shared.writer {
            let end = writer
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .phase
                .end_closing();
            shared.watch.close();
            end.settle(Ok(())).wake();
        }
    }
}

impl Shared {
    /// Writes queued batches, saves a checkpoint, frees unused preallocated space, and releases the lock.
    pub(crate) fn close(&self) -> Result<()> {
        if self.is_read_only() {
            // There is nothing to write. Whoever waits for what comes is told that nothing does any more.
            self.watch.close();
            return Ok(());
        }
        if let Err(error) = self.check_process() {
            self.abandon();
            return Err(error);
        }
        #[cfg(runlog_shuttle)]
        let closes_early = crate::faults::closes_early() && self.close_early().is_ok();
        let own = thread::current().id();
        let mut writer = self.writer()?;
        match writer.phase.start_closing(own) {
            Close::Do => {}
            Close::Wait { by, end } => {
                drop(writer);
                // Closing may wake a task that closes the store too, on this thread or on one that is joined below.
                // Those must not wait, which would be a deadlock.
                if by != own && !self.background.is_own(own) {
                    let _ = end.wait();
                }
                return Ok(());
            }
            Close::Nothing => return Ok(()),
        }
        drop(writer);
        let closing = Closing { shared: self };
        #[cfg(runlog_shuttle)]
        if closes_early {
            return self.cut();
        }
        let result = self.finish();
        drop(closing);
        self.background.join();
        result
    }

    /// Everything before the lock is released. No batch is staged any more.
    ///
    /// The end marker is written once every record is durable, because it asserts that. The file is truncated after it:
    /// a failed truncation leaves unused space, and loses nothing.
    fn finish(&self) -> Result<()> {
        let flushed = self.flush_staged(true);
        self.await_idle();
        self.end_packing();
        self.background.end();
        self.end_spares();
        let save = || self.save_checkpoint().and_then(|()| self.mark_end());
        let ended = flushed.and_then(|()| match save() {
            // The space that truncating the file frees may be enough. If not, the next open takes longer and doesn't
            // report a clean close; everything acknowledged is safe, so this is not a failure.
            Err(error) if error.kind() == ErrorKind::StorageFull => {
                match self.cut().and_then(|()| save()) {
                    Err(error) if error.kind() != ErrorKind::StorageFull => Err(error),
                    _ => Ok(()),
                }
            }
            saved => saved.and_then(|()| self.cut()),
        });
        self.end_checkpoints();
        // The records are safe, but readers in other processes don't see the last ones: report that now at the latest.
        ended.and_then(|()| self.watermark_failure().map_or(Ok(()), Err))
    }

    /// The fault that a test injects: queued batches are written only once.
    #[cfg(runlog_shuttle)]
    fn close_early(&self) -> Result<()> {
        self.flush_staged(true)?;
        self.background.end();
        self.background.join();
        self.end_spares();
        self.save_checkpoint()
    }

    /// Waits until no thread writes to the log. A failed group is no longer pending, but may still be being written.
    fn await_idle(&self) {
        while let Ok(writer) = self.writer()
            && let Some(group) = self.blocking_group(&writer)
        {
            drop(writer);
            let _ = self.wait(&group);
        }
    }

    /// Frees the preallocated space after the last record.
    fn cut(&self) -> Result<()> {
        let (active, end) = {
            let writer = self.writer()?;
            (writer.active.clone(), writer.end)
        };
        let cut = || {
            if active.file.len()? > end {
                active.file.set_len(end)?;
                // Durable, so that a late truncation can't remove what the next writer appends.
                active.file.sync()?;
            }
            Ok(())
        };
        cut().with_context(|| format!("giving back the unused room of {}", active.name))
    }

    /// Leaves the store to the process that opened it, which owns the lock and the threads.
    fn abandon(&self) {
        // Releasing the lock here would release it there.
        std::mem::forget(
            self.lock
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
        self.background.abandon();
    }
}

impl Shared {
    /// Writes the end marker. Everything is durable, and no thread writes any more.
    pub(crate) fn mark_end(&self) -> Result<()> {
        let end = {
            let durable = self.durable();
            let Some(active) = durable.active() else {
                return Ok(());
            };
            if self.marked_end == Some((active.id(), durable.end)) {
                return Ok(());
            }
            let last_record = match durable.active_index.last_offset() {
                None => None,
                Some(offset) => {
                    let frame = active.frame(offset, durable.end)?;
                    Some((offset, frame.header.crc_field(active.seed, offset)))
                }
            };
            End {
                store: self.identity.store,
                segment: active.id(),
                salt: active.header.salt,
                offset: durable.end,
                next_position: durable.next_position,
                last_record,
                epoch: self.epoch,
                closed_ms: self.options.host.now_ms(),
            }
        };
        small::replace(&*self.storage, files::END, &end.encode())
    }
}
