//! Closing a store.

use super::shared::Shared;
use crate::{
    ErrorKind, Result,
    format::files::{self, End},
    storage::IoContext,
    store::{files::small, staging::phase::Close},
    sync::{PoisonError, thread},
};

/// A store that this thread closes. However that ends, the lock is released, and no thread waits for ever.
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
    /// Writes what is in line, saves a checkpoint, gives back the space that isn't used, and releases the lock.
    pub(crate) fn close(&self) -> Result<()> {
        if self.is_read_only() {
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
                // What this thread closes may wake one that closes it too, on this very thread or on one that is waited for
                // below. These can't wait.
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

    /// All that is to be done before the lock is released. Nothing is staged any more.
    ///
    /// The end marker comes when every record is durable, since that is what it says. The file is cut after that: a cut that
    /// fails leaves unused room, and loses nothing.
    fn finish(&self) -> Result<()> {
        let flushed = self.flush_staged(true);
        self.await_idle();
        self.end_packing();
        self.background.end();
        self.end_spares();
        let save = || self.save_checkpoint().and_then(|()| self.mark_end());
        let ended = flushed.and_then(|()| match save() {
            // The room that the file gives back may be enough. If not, the next opening takes longer, and doesn't call the
            // store closed cleanly: no reason to fail, for all that was acknowledged is safe.
            Err(error) if error.kind() == ErrorKind::StorageFull => {
                match self.cut().and_then(|()| save()) {
                    Err(error) if error.kind() != ErrorKind::StorageFull => Err(error),
                    _ => Ok(()),
                }
            }
            saved => saved.and_then(|()| self.cut()),
        });
        self.end_checkpoints();
        // The records are safe, but readers in other processes were left behind: that is reported here at the latest.
        ended.and_then(|()| self.watermark_failure().map_or(Ok(()), Err))
    }

    /// The fault that a test puts in: what is in line is seen to once, and then no more.
    #[cfg(runlog_shuttle)]
    fn close_early(&self) -> Result<()> {
        self.flush_staged(true)?;
        self.background.end();
        self.background.join();
        self.end_spares();
        self.save_checkpoint()
    }

    /// Waits until no thread writes to the log. What failed is no longer pending, but may still be being written.
    fn await_idle(&self) {
        while let Ok(writer) = self.writer()
            && let Some(group) = self.blocking_group(&writer)
        {
            drop(writer);
            let _ = self.wait(&group);
        }
    }

    /// Gives back the room behind the last record.
    fn cut(&self) -> Result<()> {
        let (active, end) = {
            let writer = self.writer()?;
            (writer.active.clone(), writer.end)
        };
        let cut = || {
            if active.file.len()? > end {
                active.file.set_len(end)?;
                // What is written there by the next writer can't be cut off by it then.
                active.file.sync()?;
            }
            Ok(())
        };
        cut().with_context(|| format!("giving back the unused room of {}", active.name))
    }

    /// Leaves the store to the process that opened it, whose lock and threads these are.
    fn abandon(&self) {
        // To release the lock here would release it there.
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
    /// Says where the log ends. Everything is durable, and nothing is written any more.
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
