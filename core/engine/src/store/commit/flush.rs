//! Flushing records that were written without a flush: on request, and at the deadline of their interval.

use super::{guard::WriteGuard, shared::Shared};
use crate::{
    Result,
    store::staging::{open_group::PAGE_BYTES, writer::Writer},
    sync::{MutexGuard, Ordering},
};

impl Shared {
    /// Writes staged batches; if `sync`, flushes them and everything written before.
    pub(crate) fn flush(&self, sync: bool) -> Result<()> {
        self.writer()?.phase.check()?;
        self.flush_staged(sync)
    }

    /// As [`flush`](Self::flush), but also while the store is being closed. Batches staged later are not waited for.
    pub(crate) fn flush_staged(&self, sync: bool) -> Result<()> {
        let mut writer = self.writer()?;
        let (segment, goal) = (writer.active.id(), writer.end);
        loop {
            writer.phase.check_failure()?;
            let reached = if sync {
                writer.synced_end
            } else {
                writer.written_end
            };
            // Batches may have been refused meanwhile, so the goal may be past the end. If the segment was rotated,
            // that flushed it.
            if reached >= goal.min(writer.end) || writer.active.id() != segment {
                return Ok(());
            }
            if let Some(open) = &mut writer.open {
                open.sync |= sync;
            } else {
                writer.sync_asked |= sync;
            }
            if let Some(group) = self.blocking_group(&writer) {
                drop(writer);
                // Its result goes to the threads that wait for it; here only its end matters.
                let _ = self.wait(&group);
            } else if let Some(open) = &writer.open {
                let group = open.group.clone();
                self.lead(writer);
                if let Some(Err(error)) = group.result() {
                    // A refused batch is reported to the thread that staged it.
                    self.writer()?.phase.check_failure().map_err(|_| error)?;
                }
            } else {
                self.flush_written(writer)?;
            }
            writer = self.writer()?;
        }
    }

    /// Flushes written bytes. No other thread is writing.
    pub(crate) fn flush_written(&self, mut writer: MutexGuard<'_, Writer>) -> Result<()> {
        let (segment, from, to) = (writer.active.clone(), writer.synced_end, writer.written_end);
        let unproven = writer.unproven_end.is_some();
        writer.phase.start_flushing();
        writer.sync_asked = false;
        drop(writer);
        let guard = WriteGuard::new(self);
        let flushed = if unproven {
            segment.rewrite(from, to)
        } else {
            segment.flush()
        };
        let mut writer = self.writer()?;
        match &flushed {
            Ok(()) => {
                writer.unproven_end = None;
                writer.flushed(to);
                guard.end();
                let waiters = writer.phase.end().settle(Ok(()));
                let is_next_left = self.hand_over(writer);
                waiters.wake();
                if is_next_left {
                    self.lead_if_idle();
                }
            }
            Err(error) => self.fail(writer, guard, error),
        }
        flushed
    }

    /// Starts the writeback of unflushed bytes, without waiting.
    pub(crate) fn start_writeback(&self) {
        let (active, end) = {
            let durable = self.durable();
            (durable.active().cloned(), durable.end)
        };
        if let Some(active) = active {
            // Whole pages only: the page that the next group continues in would be written twice.
            active.file.start_writeback(end / PAGE_BYTES * PAGE_BYTES);
        }
    }

    /// Schedules a flush at a deadline: by the flusher thread, or without threads by the next call.
    pub(crate) fn watch_due(&self) {
        let is_watched = self.options.host.has_threads() && self.background.watch_due();
        if !is_watched {
            self.is_due_unwatched.store(true, Ordering::Release);
        }
    }

    /// The time until the next flush deadline.
    pub(crate) fn due_in(&self) -> Option<std::time::Duration> {
        let writer = self.writer().ok()?;
        writer.phase.check_failure().ok()?;
        writer.due.map(|due| due.left(self.options.host.now_ms()))
    }

    /// Flushes at a deadline that no thread watches. A failure poisons the writer; the next append returns it.
    pub(crate) fn flush_if_due(&self) {
        if !self.is_due_unwatched.load(Ordering::Acquire) || self.check_process().is_err() {
            return;
        }
        let Ok(writer) = self.writer() else { return };
        let Some(due) = writer.due else {
            self.is_due_unwatched.store(false, Ordering::Release);
            return;
        };
        drop(writer);
        if due.is_over(self.options.host.now_ms()) {
            let _ = self.flush_staged(true);
        }
    }
}
