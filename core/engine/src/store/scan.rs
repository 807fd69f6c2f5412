//! The whole log in order of position: [`LogReader`], and [`Subscription`], which goes on as the log grows.

use std::{collections::VecDeque, task::Context, task::Poll, time::Duration};

use super::{
    commit::shared::Shared,
    place::{Place, index_in, position_of, unreadable},
    read,
};
use crate::{
    Error, ErrorKind, Position, Record, Result, SegmentId,
    log::{
        scan::{Scan, Window, is_damage},
        segment::{Frame, READ_BYTES},
    },
    sync::Arc,
};

/// At most so many records are read at once. One at first, then twice as many each time: who wants the first record
/// only doesn't wait for others.
const BATCH_RECORDS_MAX: u64 = 256;
/// No more are read at once when these have so many bytes.
const BATCH_BYTES_MAX: u64 = 64 << 10;
/// A reader in another process looks for news so often while it waits.
const POLL: Duration = Duration::from_millis(2);

/// The records of the whole log in order of position, engine records included, up to what was published when
/// it got there.
///
/// This is the log as history: a record that was truncated, or whose stream was deleted, is still in it.
///
/// Where records are damaged, one error of kind [`Damaged`](crate::ErrorKind::Damaged) stands in the place of all those
/// that can't be read, and names the first of them and the next that can; then the next follows. After any other error the
/// reading ends: a new scan from the same position tries again.
pub struct LogReader {
    shared: Arc<Shared>,
    /// The position behind what is in `batch`.
    next: u64,
    /// Where the record with that position begins, once that is known, and what was read ahead there.
    at: Option<(SegmentId, u64, Window)>,
    /// How many records to read next.
    step: u64,
    batch: VecDeque<Result<Record>>,
    /// Empty between two readings: its memory is used again.
    frames: Vec<Frame>,
    ended: bool,
}

impl LogReader {
    pub(crate) fn new(shared: Arc<Shared>, first: Position) -> Self {
        Self {
            shared,
            next: first.0.max(1),
            at: None,
            step: 1,
            batch: VecDeque::new(),
            frames: Vec::new(),
            ended: false,
        }
    }

    /// The next record, or the next error; `None` when there is nothing more yet. An error is told once, and the next call
    /// goes on: behind what is damaged, and where it was for any other error.
    fn advance(&mut self) -> Option<Result<Record>> {
        loop {
            if let Some(next) = self.batch.pop_front() {
                return Some(next);
            }
            let before = self.next;
            match self.fill() {
                Err(error) => return Some(Err(error)),
                // Records that are left out make an empty batch in the middle of the log.
                Ok(()) if self.next == before && self.batch.is_empty() => return None,
                Ok(()) => {}
            }
        }
    }

    fn fill(&mut self) -> Result<()> {
        let Some(place) = Place::of_next(&self.shared.durable(), self.next) else {
            return Ok(());
        };
        self.next = place.position;
        let segment = &place.segment;
        let read_ahead = self.step.saturating_mul(READ_BYTES);
        let mut scan = match self.at.take() {
            Some((id, offset, window)) if id == segment.id() => {
                Scan::new(segment, offset, place.end)
                    .reading_ahead(read_ahead)
                    .with_window(window)
            }
            _ => place.scan(read_ahead)?,
        };
        let (mut bytes, mut failed) = (0, None);
        while failed.is_none() && (self.frames.len() as u64) < self.step && bytes < BATCH_BYTES_MAX
        {
            let before = scan.offset();
            match scan.next() {
                Ok(Some(frame))
                    if position_of(segment, &frame) == self.next && frame.header.is_skipped() =>
                {
                    self.next += 1;
                }
                Ok(Some(frame)) if position_of(segment, &frame) == self.next => {
                    bytes += frame.header.frame_bytes();
                    self.frames.push(frame);
                    self.next += 1;
                }
                Ok(Some(frame)) => {
                    let found = position_of(segment, &frame);
                    // It is read again, as the next one, if it is behind what is missing here.
                    scan = Scan::new(segment, before, place.end).reading_ahead(read_ahead);
                    failed = Some((
                        segment.damaged(before, format!("found position {found}")),
                        (found > self.next).then_some(found),
                    ));
                }
                Ok(None) if self.next < place.end_position => {
                    failed = Some((segment.damaged(before, "records end here"), None));
                }
                Ok(None) => break,
                Err(error) => failed = Some((error, None)),
            }
        }
        self.step = (self.step * 2).min(BATCH_RECORDS_MAX);
        let failed = failed.map(|(error, found)| match is_damage(&error) {
            true => self
                .pass(&place, &mut scan, &error, found)
                .unwrap_or_else(|error| error),
            false => unreadable(self.next, &error),
        });
        self.at = Some((segment.id(), scan.offset(), scan.into_window()));
        let durable = self.shared.durable();
        self.batch.extend(
            self.frames
                .drain(..)
                .map(|frame| read::record_in(&durable, segment, frame)),
        );
        drop(durable);
        self.batch.extend(failed.map(Err));
        Ok(())
    }

    /// Skips what is damaged, up to the record `found` where that stands next, and returns the error for all of it.
    fn pass(
        &mut self,
        place: &Place,
        scan: &mut Scan<'_>,
        error: &Error,
        found: Option<u64>,
    ) -> Result<Error> {
        let lost = self.next;
        let next = match found {
            Some(found) => found,
            None => scan
                .pass_damage(index_in(&place.segment, lost).saturating_add(1))?
                .map_or(place.end_position, |header| {
                    place.segment.header.base_position + u64::from(header.index)
                }),
        };
        self.next = next.max(lost + 1);
        let what = format!(
            "{}; the next position that can be read is {}",
            unreadable(lost, error),
            self.next
        );
        Ok(Error::new(ErrorKind::Damaged, what))
    }
}

impl Iterator for LogReader {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.advance();
        self.ended = matches!(&next, Some(Err(error)) if !is_damage(error));
        next
    }
}

/// Every record from a position on: those that are there, then those that come, without a gap or a repeat.
///
/// An error is told once, and the next call goes on: behind the records that are damaged
/// ([`Damaged`](crate::ErrorKind::Damaged) names them), and where it was after any other error.
pub struct Subscription {
    shared: Arc<Shared>,
    log: LogReader,
}

impl Subscription {
    pub(crate) fn new(shared: Arc<Shared>, first: Position) -> Self {
        Self {
            log: LogReader::new(shared.clone(), first),
            shared,
        }
    }

    /// The next record, or `None` when none came within `timeout`.
    ///
    /// # Errors
    /// [`Damaged`](crate::ErrorKind::Damaged) where the log is, and [`Io`](crate::ErrorKind::Io): the next call goes on.
    /// [`Closed`](crate::ErrorKind::Closed) once the store was closed and everything was read.
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Option<Record>> {
        let mut left = timeout;
        loop {
            self.shared.refresh()?;
            // Looked at first: nothing is published after the store was closed.
            let is_closed = self.shared.is_closed();
            if let Some(record) = self.log.advance() {
                return record.map(Some);
            }
            if is_closed {
                return Err(closed());
            }
            if left.is_zero() || !self.shared.options.host.has_threads() {
                return Ok(None);
            }
            let pause = if self.shared.is_read_only() {
                POLL.min(left)
            } else {
                left
            };
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
            if let Some(record) = self.log.advance() {
                return Poll::Ready(record);
            }
            if is_closed {
                return Poll::Ready(Err(closed()));
            }
            let news = self
                .shared
                .watch
                .poll_past(self.log.next - 1, context.waker());
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
            if self.shared.watch.position() > seen
                || left.is_zero()
                || !self.shared.options.host.has_threads()
            {
                return Ok(());
            }
            let pause = if self.shared.is_read_only() {
                POLL.min(left)
            } else {
                left
            };
            if self.shared.watch.wait_past(seen, pause) {
                left = left.saturating_sub(pause);
            } else if self.shared.watch.position() <= seen {
                // Everyone was woken: the store was closed.
                return Ok(());
            }
        }
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the store is closed")
}
