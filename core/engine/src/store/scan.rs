//! The whole log in order of position: [`LogReader`], and [`Subscription`], which continues as the log grows.

use std::{ops::ControlFlow, task::Context, task::Poll, time::Duration};

use bytes::BytesMut;

use super::{
    commit::shared::Shared,
    page::Page,
    place::{Place, index_in, position_in, unreadable},
    published::watch::Waiter,
    record_ref::RecordRef,
};
use crate::{
    Error, ErrorKind, Position, Record, Result,
    log::{
        frame::READ_BYTES,
        scan::{Scan, Spot, Window, is_damage},
        segment::Segment,
    },
    sync::Arc,
};

/// The most records that are read at once. The first page has one record and each following one twice as many, so that
/// a caller that needs only the first record doesn't wait for others.
const PAGE_RECORDS_MAX: u64 = 1024;
/// A page of a pack ends once its records have this many bytes.
const PIECE_BYTES: usize = 64 << 10;
/// The interval at which a waiting reader in another process polls.
const POLL: Duration = Duration::from_millis(2);

/// The records of the whole log in order of position, engine records included, up to the last one published when it
/// gets there.
///
/// This is the log as history: a record that was truncated, or whose stream was deleted, is still in it.
///
/// A damaged range yields one error of kind [`Damaged`](crate::ErrorKind::Damaged), which names its first position and
/// the next readable one; then that record follows. A range of which every position was redacted is left out without an
/// error. After any other error the scan ends: a new one from the same position tries again.
///
/// The iterator yields owned records; [`for_each_ref`](Self::for_each_ref) lends each record, which is faster.
pub struct LogReader {
    shared: Arc<Shared>,
    /// The position after the last record in `page`.
    next: u64,
    /// The place of the record at `next`, if known: the seed of its segment, the offset, and the readahead window
    /// there.
    at: Option<(u32, u64, Window)>,
    /// How many records to read next.
    step: u64,
    page: Page,
    /// The error to report after the page.
    failed: Option<Error>,
    ended: bool,
}

impl LogReader {
    pub(crate) fn new(shared: Arc<Shared>, first: Position) -> Self {
        let redacted = shared.durable().directory.redacted().clone();
        Self {
            page: Page::new(redacted),
            shared,
            next: first.0.max(1),
            at: None,
            step: 1,
            failed: None,
            ended: false,
        }
    }

    /// Calls `see` with each remaining record, in order, until it breaks. The record is borrowed for the call only, so
    /// nothing is allocated, counted or locked per record. The next call, or the iterator, continues after the last
    /// record passed to `see`. Errors are passed as from the iterator.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use runlog_engine::{OpenOptions, Position, Result, Store};
    ///
    /// fn payload_bytes(store: &Store) -> Result<usize> {
    ///     let (mut bytes, mut failed) = (0, None);
    ///     store.scan(Position::FIRST)?.for_each_ref(|record| match record {
    ///         Ok(record) => {
    ///             bytes += record.payload.len();
    ///             ControlFlow::Continue(())
    ///         }
    ///         Err(error) => {
    ///             failed = Some(error);
    ///             ControlFlow::Break(())
    ///         }
    ///     });
    ///     failed.map_or(Ok(bytes), Err)
    /// }
    /// # let store = Store::in_memory(OpenOptions::default())?;
    /// # assert_eq!(payload_bytes(&store)?, 0);
    /// # Ok::<(), runlog_engine::Error>(())
    /// ```
    pub fn for_each_ref(&mut self, mut see: impl FnMut(Result<RecordRef<'_>>) -> ControlFlow<()>) {
        while !self.ended {
            let flow = match self.ready() {
                None => return,
                Some(Ok(())) => self.page.show(&mut see),
                Some(Err(error)) => {
                    self.ended = !is_damage(&error);
                    see(Err(error))
                }
            };
            if flow.is_break() {
                return;
            }
        }
    }

    /// The next record or error; `None` if no further record is published yet. An error is returned once, and the next
    /// call continues: after the damaged range, or at the same place for any other error.
    fn advance(&mut self) -> Option<Result<Record>> {
        match self.ready()? {
            Ok(()) => self.page.take(),
            Err(error) => Some(Err(error)),
        }
    }

    /// Loads a page with at least one record; returns an error, or `None` if no further record is published yet.
    #[inline]
    fn ready(&mut self) -> Option<Result<()>> {
        while self.page.is_empty() {
            if let Some(error) = self.failed.take() {
                return Some(Err(error));
            }
            let before = self.next;
            match self.shared.clone().past_packs(|| self.fill()) {
                Err(error) => return Some(Err(error)),
                // An empty page in the middle of the log: all its records were dropped.
                Ok(()) if self.next == before && self.page.is_empty() && self.failed.is_none() => {
                    return None;
                }
                Ok(()) => {}
            }
        }
        Some(Ok(()))
    }

    /// A page of a pack: its next records in order of position, which lie in many places of it. Records that a
    /// compaction dropped are not reported as a gap, because nothing refers to them.
    fn fill_from_pack(&mut self, place: &Place) -> Result<()> {
        let segment = &place.segment;
        let base = segment.header.base_position;
        let block = match segment.block() {
            Ok(block) => block,
            Err(error) => {
                let lost = unreadable(self.next, &error);
                if is_damage(&error) {
                    self.next = place.end_position;
                }
                return Err(lost);
            }
        };
        let Some(block) = block else {
            return Ok(());
        };
        let mut piece = BytesMut::new();
        let mut samples = block.samples_from(index_in(segment, self.next));
        while (self.page.len() as u64) < self.step && piece.len() < PIECE_BYTES {
            let Some(sample) = samples.next() else {
                self.next = place.end_position;
                break;
            };
            let position = base + u64::from(sample.index);
            // Going back would never end, and going on behind the pack would hide what is there.
            if !(self.next..place.end_position).contains(&position) {
                let what = "its index has records out of their order";
                let error = segment.damaged(sample.offset, what);
                self.failed = Some(unreadable(self.next, &error));
                self.next = place.end_position;
                break;
            }
            let frame = segment.frame(sample.offset, place.end);
            let frame = frame.and_then(|frame| match frame.header.index == sample.index {
                true => Ok(frame),
                false => {
                    let found = position_in(segment, &frame.header);
                    Err(segment.damaged(sample.offset, format!("found position {found}")))
                }
            });
            match frame {
                Ok(frame) => {
                    let start = piece.len();
                    piece.extend_from_slice(&frame.body);
                    if !frame.header.is_skipped() {
                        self.page.push(Spot {
                            offset: frame.offset,
                            header: frame.header,
                            body: start..piece.len(),
                        });
                    }
                    self.next = position + 1;
                }
                Err(error) if is_damage(&error) => {
                    self.next = position + 1;
                    if self.page.passes_over(position..self.next) {
                        continue;
                    }
                    self.failed = Some(unreadable(position, &error));
                    break;
                }
                Err(error) if self.page.is_empty() => return Err(unreadable(position, &error)),
                // The records read so far are returned first; the next page meets the error again.
                Err(_) => break,
            }
        }
        self.step = (self.step * 2).min(PAGE_RECORDS_MAX);
        self.page
            .settle(&self.shared.durable(), segment, piece.freeze());
        Ok(())
    }

    /// Reads a page: records that lie in one window.
    fn fill(&mut self) -> Result<()> {
        self.page.clear();
        let Some(place) = Place::of_next(&self.shared.durable(), self.next) else {
            return Ok(());
        };
        self.next = place.position;
        if place.segment.is_pack() {
            return self.fill_from_pack(&place);
        }
        let segment = &place.segment;
        let read_ahead = self.step.saturating_mul(READ_BYTES);
        let mut scan = match self.at.take() {
            Some((seed, offset, window)) if seed == segment.seed => {
                Scan::new(segment, offset, place.end)
                    .reading_ahead(read_ahead)
                    .with_window(window)
            }
            _ => place.scan(read_ahead)?,
        };
        let (mut failed, mut is_first) = (None, true);
        while failed.is_none() && (self.page.len() as u64) < self.step {
            let before = scan.offset();
            let position = |spot: &Spot| position_in(segment, &spot.header);
            match scan.next_spot(!is_first) {
                Ok(Some(spot)) if position(&spot) == self.next => {
                    self.next += 1;
                    if !spot.header.is_skipped() {
                        self.page.push(spot);
                    }
                }
                Ok(Some(spot)) => {
                    let found = position(&spot);
                    failed = Some((
                        before,
                        segment.damaged(before, format!("found position {found}")),
                        (found > self.next).then_some(found),
                    ));
                }
                Ok(None) if scan.is_at_end() && self.next < place.end_position => {
                    let error = segment.damaged(before, "records end here");
                    failed = Some((before, error, None));
                }
                Ok(None) => break,
                Err(error) => failed = Some((before, error, None)),
            }
            is_first = false;
        }
        self.step = (self.step * 2).min(PAGE_RECORDS_MAX);
        // Taken before the next read, which replaces the window.
        let bytes = scan.window_bytes();
        if let Some((_, error, _)) = failed.take_if(|(_, error, _)| Segment::is_gone(error))
            && self.page.is_empty()
        {
            return Err(unreadable(self.next, &error));
        }
        self.failed = match failed {
            Some((before, error, found)) if is_damage(&error) => {
                // The found record is read again as the next one, if it comes after the damaged range.
                scan = Scan::new(segment, before, place.end).reading_ahead(read_ahead);
                let passed = self.pass(&place, &mut scan, &error, found);
                passed.unwrap_or_else(Some)
            }
            Some((_, error, _)) => Some(unreadable(self.next, &error)),
            None => None,
        };
        self.at = Some((segment.seed, scan.offset(), scan.into_window()));
        self.page.settle(&self.shared.durable(), segment, bytes);
        Ok(())
    }

    /// Skips a damaged range, up to the record `found` if that comes next, and returns the error for the range, unless all of
    /// it was redacted.
    fn pass(
        &mut self,
        place: &Place,
        scan: &mut Scan<'_>,
        error: &Error,
        found: Option<u64>,
    ) -> Result<Option<Error>> {
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
        if self.page.passes_over(lost..self.next) {
            return Ok(None);
        }
        let what = format!(
            "{}; the next position that can be read is {}",
            unreadable(lost, error),
            self.next
        );
        Ok(Some(Error::damaged(what)))
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

/// Every record from a position on: the existing ones, then new ones as they are published, without a gap or a repeat.
///
/// An error is returned once, and the next call continues: after the damaged records
/// ([`Damaged`](crate::ErrorKind::Damaged) names them), or at the same place after any other error.
pub struct Subscription {
    shared: Arc<Shared>,
    log: LogReader,
    waiter: Waiter,
}

impl Subscription {
    pub(crate) fn new(shared: Arc<Shared>, first: Position) -> Self {
        Self {
            log: LogReader::new(shared.clone(), first),
            waiter: Waiter::new(shared.watch.clone()),
            shared,
        }
    }

    /// The next record, or `None` when none came within `timeout`.
    ///
    /// # Errors
    /// [`Damaged`](crate::ErrorKind::Damaged) where the log is damaged, and [`Io`](crate::ErrorKind::Io): the
    /// next call continues. [`Closed`](crate::ErrorKind::Closed) once the store was closed and everything was read.
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Option<Record>> {
        let mut left = timeout;
        loop {
            self.shared.refresh()?;
            // Loaded before the position: nothing is published after a close, so the position then is the last.
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

    /// The next record if there is one; otherwise the task is woken when there may be one. In a read-only process
    /// nothing wakes it: use [`Subscription::next_timeout`] there.
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
            let news = self.waiter.poll_past(self.log.next - 1, context.waker());
            // Checked again after the waker is registered, since a close before that didn't wake it.
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
                // All waiters were woken: the store was closed.
                return Ok(());
            }
        }
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the store is closed")
}
