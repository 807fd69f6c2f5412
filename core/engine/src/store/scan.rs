//! The whole log in order of position: [`LogReader`], and [`Subscription`], which goes on as the log grows.

use std::{task::Context, task::Poll, time::Duration};

use super::{read, shared::Shared};
use crate::{Position, Record, Result, log::scan::Scan, sync::Arc};

/// So many records are read before the lock on the directory is taken again.
const BATCH_RECORDS: u64 = 256;
/// A reader in another process looks for news so often while it waits.
const POLL: Duration = Duration::from_millis(2);

/// The records of the whole log in order of position, engine records included, up to what was published when
/// it got there.
///
/// This is the log as history: a record that was truncated, or whose stream was deleted, is still in it.
pub struct LogReader {
    shared: Arc<Shared>,
    next: u64,
    batch: std::vec::IntoIter<Record>,
    failed: bool,
}

impl LogReader {
    pub(crate) fn new(shared: Arc<Shared>, first: Position) -> Self {
        Self { shared, next: first.0.max(1), batch: Vec::new().into_iter(), failed: false }
    }

    fn fill(&mut self) -> Result<()> {
        let durable = self.shared.durable();
        let Some(segment) = durable.segment_of_position(self.next) else { return Ok(()) };
        let mut scan = read::scan_from(&durable, segment, self.next)?;
        let offset = scan.offset();
        let segment = segment.clone();
        let end = durable.end_of(&segment);
        drop(durable);
        scan = Scan::new(&segment, offset, end);
        let mut records = Vec::new();
        for _ in 0..BATCH_RECORDS {
            let Some(frame) = scan.next()? else { break };
            records.push(read::record(&self.shared.durable(), &segment, &frame)?);
        }
        self.next += records.len() as u64;
        self.batch = records.into_iter();
        Ok(())
    }
}

impl Iterator for LogReader {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(record) = self.batch.next() {
            return Some(Ok(record));
        }
        if self.failed {
            return None;
        }
        match self.fill() {
            Ok(()) => self.batch.next().map(Ok),
            Err(error) => {
                self.failed = true;
                Some(Err(error))
            }
        }
    }
}

/// Every record from a position on: those that are there, then those that come, without a gap or a repeat.
pub struct Subscription {
    shared: Arc<Shared>,
    log: LogReader,
}

impl Subscription {
    pub(crate) fn new(shared: Arc<Shared>, first: Position) -> Self {
        Self { log: LogReader::new(shared.clone(), first), shared }
    }

    /// The next record, or `None` when none came within `timeout`.
    ///
    /// # Errors
    /// [`Damaged`](crate::ErrorKind::Damaged) where the log is; [`Closed`](crate::ErrorKind::Closed) once the
    /// store was closed and everything was read.
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Option<Record>> {
        let mut left = timeout;
        loop {
            self.shared.refresh()?;
            // Looked at first: nothing is published after the store was closed.
            let is_closed = self.shared.is_closed();
            if let Some(record) = self.log.next() {
                return record.map(Some);
            }
            if is_closed {
                return Err(closed());
            }
            if left.is_zero() || !self.shared.options.host.has_threads() {
                return Ok(None);
            }
            let pause = if self.shared.is_read_only() { POLL.min(left) } else { left };
            if self.shared.watch.wait_past(self.log.next - 1, pause) {
                left = left.saturating_sub(pause);
            }
        }
    }

    /// The next record if there is one; else the task is woken when there may be. In a process that only
    /// reads beside a writer, nothing wakes it: use [`Subscription::next_timeout`] there.
    ///
    /// # Errors
    /// As [`Subscription::next_timeout`].
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Record>> {
        loop {
            if let Err(error) = self.shared.refresh() {
                return Poll::Ready(Err(error));
            }
            let is_closed = self.shared.is_closed();
            if let Some(record) = self.log.next() {
                return Poll::Ready(record);
            }
            if is_closed {
                return Poll::Ready(Err(closed()));
            }
            let news = self.shared.watch.poll_past(self.log.next - 1, context.waker());
            // Looked at again after the waker is in place, which a close wakes.
            if news.is_none() && !self.shared.is_closed() {
                return Poll::Pending;
            }
        }
    }
}

impl Subscription {
    /// Blocks until there may be a next record, for `timeout` at most.
    pub(crate) fn wait(&mut self, timeout: Duration) -> Result<()> {
        let seen = self.log.next - 1;
        let mut left = timeout;
        loop {
            self.shared.refresh()?;
            if self.shared.watch.position() > seen || left.is_zero() || !self.shared.options.host.has_threads() {
                return Ok(());
            }
            let pause = if self.shared.is_read_only() { POLL.min(left) } else { left };
            if self.shared.watch.wait_past(seen, pause) {
                left = left.saturating_sub(pause);
            } else if self.shared.watch.position() <= seen {
                // Everyone was woken: the store was closed.
                return Ok(());
            }
        }
    }
}

fn closed() -> crate::Error {
    crate::Error::new(crate::ErrorKind::Closed, "the store is closed")
}
