//! Reading a stream.

mod located;
mod unreadable;
mod window;

use std::{collections::VecDeque, ops::ControlFlow, sync::Arc};

use located::{Current, Located, Runs, Together, is_it};

use super::{
    commit::shared::Shared,
    framed::{record, show},
    lost::LostPlaces,
    published::durable::{Postings, Run, missing},
    record_ref::RecordRef,
    upcoming::Upcoming,
};
use crate::{
    Direction, Error, Kind, ReadOptions, Record, Result, SegmentId, Sequence, StreamId,
    format::record,
    index::redacted::Redacted,
    log::{
        arena::Arena,
        frame::{Frame, READ_BYTES},
        scan::is_damage,
        segment::Segment,
    },
};

/// How many records ahead are prefetched from memory: the records of a stream are scattered, so each would be a cache
/// miss otherwise.
const PREFETCH_RECORDS: usize = 2;
/// A read ends after this many damaged records in a row.
const DAMAGED_MAX: u32 = 1000;
/// The most bytes that are read at once. A record that the caller keeps keeps all of them alive.
const TOGETHER_BYTES_MAX: u64 = 64 << 10;

/// The records of a stream, one by one, in bounded memory.
///
/// It reads the stream as it was when the read began: a later truncation or append doesn't change it.
///
/// A damaged record is an error of kind [`Damaged`](crate::ErrorKind::Damaged) in its place, and the next one follows;
/// after 1,000 of them in a row the read ends, because a hostile index may claim any number of records. If the index
/// block of a segment is damaged, one error stands for all records of the stream in it. After any other error the read
/// ends. Of records that are of a kind that isn't asked for only the header is looked at: damage behind it isn't reported.
///
/// A damaged record that was redacted is returned as any redacted one. Where its header is damaged too, its kind is
/// [`Kind::DATA`] and its time that of its segment's beginning, and a read of certain kinds leaves it out.
pub struct Reader {
    shared: Arc<Shared>,
    upcoming: Upcoming,
    direction: Direction,
    kinds: Vec<Kind>,
    remaining: u64,
    window: VecDeque<Result<Located>>,
    /// The runs of the window's records.
    runs: Runs,
    /// How many records were looked up last.
    looked_up: usize,
    postings: Postings,
    /// A segment with a damaged index block, which was reported already.
    lost: Option<SegmentId>,
    together: Option<Together>,
    redacted: Arc<Redacted>,
    /// The lost records of the segment in which one was met last.
    lost_places: Option<Arc<LostPlaces>>,
    /// Whether the record that was looked at last was of a kind that isn't wanted.
    passed: bool,
    /// How many records in a row were damaged.
    damaged: u32,
    /// Of the record that was read last.
    current: Option<Current>,
    arena: Arena,
    ended: bool,
}

impl Reader {
    pub(crate) fn new(
        shared: Arc<Shared>,
        stream: &StreamId,
        options: ReadOptions,
    ) -> Result<Self> {
        let durable = shared.durable();
        let (number, stream) = durable.existing(stream)?;
        let bound = |sequence: Sequence| u32::try_from(sequence.0).unwrap_or(u32::MAX);
        let view = shared.begin_reading(stream.view(number));
        let (first, last) = (
            bound(options.first).max(1),
            bound(options.last).min(view.last_sequence()),
        );
        let redacted = durable.directory.redacted().clone();
        drop(durable);
        Ok(Self {
            shared,
            upcoming: Upcoming {
                view,
                first,
                last,
                range: None,
            },
            direction: options.direction,
            kinds: options.kinds,
            remaining: options.limit,
            window: VecDeque::new(),
            runs: Runs::default(),
            looked_up: 0,
            postings: Postings::default(),
            lost: None,
            together: None,
            redacted,
            lost_places: None,
            passed: false,
            damaged: 0,
            current: None,
            arena: Arena::default(),
            ended: false,
        })
    }

    /// The record at a place, or at its new place if a pack replaced its segment meanwhile; `None` for one of a kind that isn't
    /// wanted.
    fn frame_or_again(
        &mut self,
        current: &mut Current,
        located: &mut Located,
    ) -> Result<Option<Frame>> {
        match self.frame(current, located) {
            Err(error) if Segment::is_gone(&error) => {}
            frame => return frame,
        }
        let shared = self.shared.clone();
        shared.past_packs(|| {
            let again = self.locate_now(current.run.source, located.ordinal, located.sequence)?;
            *located = again.ok_or_else(|| missing(SegmentId(0)))?;
            *current = Current::new(located.run, self.run(located.run)?.clone(), None);
            self.frame(current, located)
        })
    }

    /// The record at a place, if it is the one that should be there.
    fn own_frame(&mut self, located: &mut Located) -> Result<Option<Frame>> {
        let mut current = match self.current.take() {
            Some(current) if current.number == located.run => current,
            before => Current::new(located.run, self.run(located.run)?.clone(), before),
        };
        let frame = self.frame_or_again(&mut current, located);
        let run = &self.current.insert(current).run;
        let frame = frame?;
        if let Some(header) = frame.as_ref().map(|frame| &frame.header)
            && !is_it(run, located, header)
        {
            let message = format!(
                "expected sequence {} of stream number {}, found sequence {} of {}",
                located.sequence, run.source, header.sequence, header.stream
            );
            return Err(run.segment.damaged(located.offset, message));
        }
        Ok(frame)
    }

    fn wants(&self, header: &record::Header) -> bool {
        self.kinds.is_empty() || self.kinds.contains(&header.kind)
    }

    /// The record at a place, which is no longer in the window; `None` for one of a kind that isn't wanted. Of such a one only the
    /// header is read, which has a checksum of its own.
    fn frame(&mut self, current: &Current, located: &Located) -> Result<Option<Frame>> {
        let Run { segment, end, .. } = &*current.run;
        let (offset, end) = (located.offset, *end);
        if let Some(map) = &current.map {
            if let Some(Ok(soon)) = self.window.get(PREFETCH_RECORDS - 1)
                && soon.run == located.run
            {
                map.prefetch(soon.offset, u64::MAX);
            }
            if !self.kinds.is_empty()
                && let Some(header) = segment.header_in_map(&**map, offset, end)
                && !self.wants(&header)
            {
                return Ok(None);
            }
            let arena = &mut self.arena;
            if let Some(frame) = segment.frame_in_map(&**map, offset, end, arena) {
                return Ok(Some(frame));
            }
            // The map is shorter than the active segment by now, or the record doesn't check: read the file instead.
        }
        let place = |together: &Option<Together>| together.as_ref()?.place(segment, offset);
        if place(&self.together).is_none() {
            self.together = self.read_together(segment, end, located);
        }
        let alone;
        let (bytes, at) = match (&self.together, place(&self.together)) {
            (Some(together), Some(at)) => (&together.bytes, at),
            _ => {
                alone = segment.first_bytes(offset, end)?;
                (&alone, 0)
            }
        };
        // The bytes are shared only with a record that is wanted.
        if !self.kinds.is_empty()
            && let Ok(header) = segment.header_in(&bytes[at..], offset, end)
            && !self.wants(&header)
        {
            return Ok(None);
        }
        segment.frame_in(bytes.slice(at..), offset, end).map(Some)
    }

    /// Reads a record and those of the window that follow close to it, with one call. The gaps between them are no
    /// longer than what separate reads would read in addition. If the combined read fails, each record is read alone,
    /// so that an error is reported for the record that has it.
    fn read_together(
        &self,
        segment: &Arc<Segment>,
        segment_end: u64,
        first: &Located,
    ) -> Option<Together> {
        let (mut start, mut end) = (first.offset, first.offset + READ_BYTES);
        for next in self.window.iter().flatten() {
            let (low, high) = (start.min(next.offset), end.max(next.offset + READ_BYTES));
            let is_close = next.offset + READ_BYTES >= start && next.offset <= end;
            if !is_close || high - low > TOGETHER_BYTES_MAX || !self.runs.are_together(next, first)
            {
                break;
            }
            (start, end) = (low, high);
        }
        if end - start == READ_BYTES {
            return None;
        }
        let length = end.min(segment_end).checked_sub(start)?;
        Some(Together {
            segment: segment.clone(),
            start,
            bytes: segment.bytes_at(start, length).ok()?,
        })
    }

    /// Where the next record is; `None` at the end.
    fn next_located(&mut self) -> Result<Option<Located>> {
        loop {
            let wanted = self.wanted();
            if wanted > 0 {
                self.fill_window(wanted);
            }
            match self.window.pop_front().transpose()? {
                Some(located) => return Ok(Some(located)),
                None if self.upcoming.is_done() => return Ok(None),
                // All that were looked up are in a segment whose damage was reported already.
                None => {}
            }
        }
    }

    /// The next record, of the run that is the current one then.
    fn read(&mut self) -> Result<Option<Frame>> {
        while self.remaining > 0 {
            let Some(mut located) = self.next_located()? else {
                break;
            };
            let frame = match self.own_frame(&mut located) {
                Err(error) => self.frame_of_lost(&located, error)?,
                Ok(frame) => frame,
            };
            self.passed = frame.is_none();
            if frame.is_some() {
                self.remaining -= 1;
                return Ok(frame);
            }
        }
        Ok(None)
    }

    /// The run of the record that was read last.
    fn current_run(&self) -> Result<&Run> {
        let current = self.current.as_ref().map(|current| &*current.run);
        current.ok_or_else(|| missing(SegmentId(0)))
    }

    /// Updates the state after a record or an error, and decides whether the read continues.
    fn note(&mut self, failed: Option<&Error>) {
        self.damaged = failed.map_or(0, |_| self.damaged + 1);
        self.ended = failed.is_some_and(|error| !is_damage(error)) || self.damaged == DAMAGED_MAX;
    }

    /// Calls `see` with each remaining record, in order, until it breaks. The record is borrowed for the call only, so
    /// nothing is allocated per record. The next call, or the iterator, continues after the last record passed to
    /// `see`. Errors are passed as from the iterator.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use runlog_engine::{Expected, NewRecord, OpenOptions, ReadOptions, Store, StreamId};
    ///
    /// let store = Store::in_memory(OpenOptions::default())?;
    /// let stream = StreamId(store.new_id());
    /// store.append(stream, Expected::Any, &[NewRecord::data(b"one"), NewRecord::data(b"two")])?;
    /// let mut found = None;
    /// store.read(stream, ReadOptions::default())?.for_each_ref(|record| match record {
    ///     Ok(record) if record.payload == b"two" => {
    ///         found = Some(record.sequence);
    ///         ControlFlow::Break(())
    ///     }
    ///     _ => ControlFlow::Continue(()),
    /// });
    /// assert_eq!(found.map(|sequence| sequence.0), Some(2));
    /// # Ok::<(), runlog_engine::Error>(())
    /// ```
    pub fn for_each_ref(&mut self, mut see: impl FnMut(Result<RecordRef<'_>>) -> ControlFlow<()>) {
        while !self.ended {
            let found = match self.read() {
                Ok(None) => return,
                Ok(Some(found)) => Ok(found),
                Err(error) => Err(error),
            };
            let shown = match &found {
                Ok(frame) => self
                    .current_run()
                    .and_then(|run| show(run.stream, &self.redacted, &run.segment, frame)),
                Err(error) => Err(error.clone()),
            };
            self.note(shown.as_ref().err());
            if see(shown).is_break() {
                return;
            }
        }
    }
}

impl Iterator for Reader {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.read().and_then(|found| {
            let Some(frame) = found else { return Ok(None) };
            let run = self.current_run()?;
            record(run.stream, &self.redacted, &run.segment, frame).map(Some)
        });
        let next = next.transpose();
        self.note(next.as_ref().and_then(|next| next.as_ref().err()));
        next
    }
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
