//! Reading a stream.

mod located;
mod unreadable;

use std::{collections::VecDeque, ops::ControlFlow, sync::Arc};

use located::{Located, Mapped, Together};

use super::{
    commit::shared::Shared,
    framed::{record, show},
    lost::LostPlaces,
    published::durable::{Durable, Postings, Run, Spot, missing},
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

/// How many records are looked up at a time.
const WINDOW_RECORDS: usize = 1024;
/// The next ones are looked up once this few are left, so that the device fetches them while these are read.
const WINDOW_RECORDS_LEFT: usize = 256;
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
/// ends. Of records that are of a kind that isn't asked for only the header is looked at: damage behind it isn't told.
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
    /// The map of the segment that was read last, if it has one.
    mapped: Option<Mapped>,
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
            looked_up: 0,
            postings: Postings::default(),
            lost: None,
            together: None,
            redacted,
            lost_places: None,
            passed: false,
            damaged: 0,
            mapped: None,
            arena: Arena::default(),
            ended: false,
        })
    }

    /// How many more records are to be looked up now. Where a filter drops records, as many as are wanted are looked up at
    /// first, and twice as many each time these may not be enough, while it drops what is met: kinds mostly come in rows, and
    /// behind a row of others those that are wanted follow each other.
    fn wanted(&self) -> usize {
        let known = self.window.len();
        if self.upcoming.is_done() || known > WINDOW_RECORDS_LEFT {
            return 0;
        }
        let remaining = usize::try_from(self.remaining).unwrap_or(usize::MAX);
        let missing = if self.kinds.is_empty() {
            remaining.saturating_sub(known)
        } else if known > self.looked_up / 4 || known >= remaining {
            0
        } else if self.passed {
            remaining.max(self.looked_up * 2)
        } else {
            remaining - known
        };
        missing.min(WINDOW_RECORDS)
    }

    /// Looks up the next records: first, under the directory's lock, in which segments they are, then, without it, at
    /// which offsets, for which index blocks may have to be read.
    fn fill_window(&mut self, wanted: usize) {
        let known = self.window.len();
        self.looked_up = wanted;
        let shared = self.shared.clone();
        let durable = shared.durable();
        self.know_redacted(&durable);
        let mut spots = Vec::with_capacity(wanted);
        let mut run: Option<Run> = None;
        while spots.len() < wanted {
            let Some((sequence, source, ordinal)) = self.upcoming.next(self.direction) else {
                break;
            };
            let spot = match run.take().filter(|run| run.has(source, ordinal)) {
                Some(known) => Ok(known),
                None => durable.run(source, ordinal),
            }
            .and_then(|found| durable.spot_in(run.insert(found), ordinal));
            spots.push((sequence, spot));
        }
        drop(durable);
        ask_for_blocks(spots.iter().filter_map(|(_, spot)| spot.as_ref().ok()));
        for (sequence, spot) in spots {
            let located = spot.and_then(|spot| self.locate_or_again(spot, sequence));
            self.window.extend(located.transpose());
        }
        self.read_ahead(known);
    }

    /// The record at a spot, or at its new one if a compaction moved it.
    fn locate_or_again(&mut self, spot: Spot, sequence: u32) -> Result<Option<Located>> {
        let (source, ordinal) = (spot.source, spot.ordinal);
        match self.locate(spot, sequence) {
            Err(error) if Segment::is_gone(&error) => {}
            located => return located,
        }
        let shared = self.shared.clone();
        // Another record may have led to the pack already: the first try is with the segments as they are known now.
        shared.past_packs(|| {
            let durable = shared.durable();
            self.know_redacted(&durable);
            let spot = durable.spot(source, ordinal)?;
            drop(durable);
            self.locate(spot, sequence)
        })
    }

    /// Refreshes the set of redacted positions. A pack doesn't contain payloads redacted before it was made, so a
    /// reader in another process, which finds a record in a pack, has to know its redaction too.
    fn know_redacted(&mut self, durable: &Durable) {
        let now = durable.directory.redacted();
        if !Arc::ptr_eq(&self.redacted, now) {
            self.redacted = now.clone();
        }
    }

    /// The record at a spot; `None` if it is in a segment whose damage was reported already.
    fn locate(&mut self, spot: Spot, sequence: u32) -> Result<Option<Located>> {
        if self.lost == Some(spot.segment.id()) {
            return Ok(None);
        }
        let offset = spot.offset_in(&mut self.postings).inspect_err(|error| {
            if is_damage(error) && spot.segment.block().is_err() {
                self.lost = Some(spot.segment.id());
            }
        })?;
        let Spot {
            segment,
            end,
            stream,
            source,
            ordinal,
            ..
        } = spot;
        Ok(Some(Located {
            segment,
            end,
            offset,
            source,
            ordinal,
            stream,
            sequence,
        }))
    }

    /// Prefetches the window's records from one on together: if they aren't cached, each would otherwise wait for the
    /// device.
    fn read_ahead(&self, from: usize) {
        let window: Vec<&Located> = self.window.iter().skip(from).flatten().collect();
        for run in window.chunk_by(|one, other| Arc::ptr_eq(&one.segment, &other.segment)) {
            if let Some(image) = run[0].segment.image() {
                image.will_need(run.iter().map(|located| located.offset));
            }
            // A single record is read next anyway, so prefetching saves nothing.
            if run.len() > 1
                && let Some(map) = run[0].segment.map()
            {
                map.will_need(&run.iter().map(|located| located.offset).collect::<Vec<_>>());
            }
        }
    }

    /// The record at a place, or at its new place if a pack replaced its segment meanwhile; `None` for one of a kind that isn't
    /// wanted.
    fn frame_or_again(&mut self, located: &mut Located) -> Result<Option<Frame>> {
        match self.frame(located) {
            Err(error) if Segment::is_gone(&error) => {}
            frame => return frame,
        }
        let shared = self.shared.clone();
        shared.past_packs(|| {
            let durable = shared.durable();
            self.know_redacted(&durable);
            let spot = durable.spot(located.source, located.ordinal)?;
            drop(durable);
            let again = self.locate(spot, located.sequence)?;
            *located = again.ok_or_else(|| missing(SegmentId(0)))?;
            self.frame(located)
        })
    }

    /// The record at a place, if it is the one that should be there.
    fn own_frame(&mut self, located: &mut Located) -> Result<Option<Frame>> {
        let frame = self.frame_or_again(located)?;
        if let Some(header) = frame.as_ref().map(|frame| &frame.header)
            && !located.is_it(header)
        {
            let message = format!(
                "expected sequence {} of stream number {}, found sequence {} of {}",
                located.sequence, located.source, header.sequence, header.stream
            );
            return Err(located.segment.damaged(located.offset, message));
        }
        Ok(frame)
    }

    fn wants(&self, header: &record::Header) -> bool {
        self.kinds.is_empty() || self.kinds.contains(&header.kind)
    }

    /// The record at a place, which is no longer in the window; `None` for one of a kind that isn't wanted. Of such a one only the
    /// header is read, which has a checksum of its own.
    fn frame(&mut self, located: &Located) -> Result<Option<Frame>> {
        let segment = &located.segment;
        let mapped = self.mapped_of(segment);
        if let Some(map) = &mapped.map {
            if let Some(Ok(soon)) = self.window.get(PREFETCH_RECORDS - 1)
                && Arc::ptr_eq(&soon.segment, segment)
            {
                map.prefetch(soon.offset, u64::MAX);
            }
            if !self.kinds.is_empty()
                && let Some(header) = segment.header_in_map(&**map, located.offset, located.end)
                && !self.wants(&header)
            {
                self.mapped = Some(mapped);
                return Ok(None);
            }
            let arena = &mut self.arena;
            let found = segment.frame_in_map(&**map, located.offset, located.end, arena);
            if let Some(frame) = found {
                self.mapped = Some(mapped);
                return Ok(Some(frame));
            }
            // The map is shorter than the active segment by now, or the record doesn't check: read the file instead.
        }
        self.mapped = Some(mapped);
        if self.place_together(located).is_none() {
            self.together = self.read_together(located);
        }
        let alone;
        let (bytes, at) = match (&self.together, self.place_together(located)) {
            (Some(together), Some(at)) => (&together.bytes, at),
            _ => {
                alone = segment.first_bytes(located.offset, located.end)?;
                (&alone, 0)
            }
        };
        // The bytes are shared only with a record that is wanted.
        if !self.kinds.is_empty()
            && let Ok(header) = segment.header_in(&bytes[at..], located.offset, located.end)
            && !self.wants(&header)
        {
            return Ok(None);
        }
        segment
            .frame_in(bytes.slice(at..), located.offset, located.end)
            .map(Some)
    }

    /// Where a record is in what was read at once.
    fn place_together(&self, located: &Located) -> Option<usize> {
        self.together.as_ref()?.place(located)
    }

    /// The segment's map, taken out of where it is kept for the next record.
    fn mapped_of(&mut self, segment: &Arc<Segment>) -> Mapped {
        let kept = self.mapped.take();
        kept.filter(|mapped| Arc::ptr_eq(&mapped.segment, segment))
            .unwrap_or_else(|| Mapped {
                segment: segment.clone(),
                map: segment.map(),
            })
    }

    /// Reads a record and those of the window that follow close to it, with one call. The gaps between them are no
    /// longer than what separate reads would read in addition. If the combined read fails, each record is read alone,
    /// so that an error is reported for the record that has it.
    fn read_together(&self, first: &Located) -> Option<Together> {
        let (mut start, mut end) = (first.offset, first.offset + READ_BYTES);
        for next in self.window.iter().flatten() {
            let (low, high) = (start.min(next.offset), end.max(next.offset + READ_BYTES));
            let is_close = next.offset + READ_BYTES >= start && next.offset <= end;
            if !is_close
                || !Arc::ptr_eq(&next.segment, &first.segment)
                || high - low > TOGETHER_BYTES_MAX
            {
                break;
            }
            (start, end) = (low, high);
        }
        if end - start == READ_BYTES {
            return None;
        }
        let bytes = first
            .segment
            .bytes_at(start, end.min(first.end).checked_sub(start)?)
            .ok()?;
        Some(Together {
            segment: first.segment.clone(),
            start,
            bytes,
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

    /// The next record, and where it was.
    fn read(&mut self) -> Result<Option<(Located, Frame)>> {
        while self.remaining > 0 {
            let Some(mut located) = self.next_located()? else {
                break;
            };
            let frame = match self.own_frame(&mut located) {
                Err(error) => self.frame_of_lost(&located, error),
                frame => frame,
            };
            let frame = frame?;
            self.passed = frame.is_none();
            let Some(frame) = frame else {
                continue;
            };
            self.remaining -= 1;
            return Ok(Some((located, frame)));
        }
        Ok(None)
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
                Ok((located, frame)) => {
                    show(located.stream, &self.redacted, &located.segment, frame)
                }
                Err(error) => Err(error.clone()),
            };
            self.note(shown.as_ref().err());
            if see(shown).is_break() {
                return;
            }
        }
    }
}

/// Prefetches the index blocks of several segments that aren't cached: loaded one after the other, each would wait for
/// the device.
fn ask_for_blocks<'s>(spots: impl Iterator<Item = &'s Spot>) {
    let mut last: Option<&Arc<Segment>> = None;
    for spot in spots {
        if !last.is_some_and(|last| Arc::ptr_eq(last, &spot.segment)) {
            spot.segment.will_need_block();
            last = Some(&spot.segment);
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
            found
                .map(|(located, frame)| {
                    record(located.stream, &self.redacted, &located.segment, frame)
                })
                .transpose()
        });
        let next = next.transpose();
        self.note(next.as_ref().and_then(|next| next.as_ref().err()));
        next
    }
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
