//! Reading: one stream, one record, snapshots.

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;

use super::{
    commit::shared::Shared,
    place::position_of,
    published::durable::{Durable, Postings, Run, Spot, missing},
};
use crate::{
    Direction, Error, ErrorKind, Kind, Position, ReadOptions, Record, Result, SegmentId, Sequence,
    Snapshot, StreamId,
    format::record,
    index::{
        lineage::{Range, View},
        redacted::Redacted,
        stream::Stream,
    },
    log::{
        arena::Arena,
        scan::is_damage,
        segment::{Frame, READ_BYTES, Segment},
    },
    storage::Map,
};

/// So many records are looked up at a time.
const WINDOW_RECORDS: usize = 1024;
/// A record is asked of memory while those before it are copied and checked: scattered as the records of a stream are, each
/// would be waited for else.
const PREFETCH_RECORDS: usize = 2;
/// After so many damaged records in a row a reading ends.
const DAMAGED_MAX: u32 = 1000;
/// At most so many bytes are read at once. A record that is kept keeps all of them.
const TOGETHER_BYTES_MAX: u64 = 64 << 10;

/// The records of a stream, one by one, in bounded memory.
///
/// It reads the stream as it was when the read began: a later truncation or append doesn't change it.
///
/// A damaged record is an error of kind [`Damaged`](crate::ErrorKind::Damaged) in its place, and the next one follows; after
/// 1,000 of them in a row the reading ends, for a hostile index may claim any number of records. Where
/// the index block of a segment is damaged, one error stands for all its records of the stream. After any other error the
/// reading ends.
pub struct Reader {
    shared: Arc<Shared>,
    todo: Todo,
    direction: Direction,
    kinds: Vec<Kind>,
    remaining: u64,
    window: VecDeque<Result<Located>>,
    postings: Postings,
    /// A segment whose records can't be found, which was told.
    lost: Option<SegmentId>,
    together: Option<Together>,
    redacted: Arc<Redacted>,
    /// How many records in a row were damaged.
    damaged: u32,
    /// The map of the segment that was read last, if it has one.
    mapped: Option<Mapped>,
    arena: Arena,
    ended: bool,
}

/// What is left to look up of a stream.
struct Todo {
    view: View,
    /// The first and the last sequence, both inclusive. None is left when the first is higher.
    first: u32,
    last: u32,
    /// Of the range that the reading is in, what is left.
    range: Option<Range>,
}

impl Todo {
    /// The next record: its sequence, its source and its ordinal.
    fn next(&mut self, direction: Direction) -> Option<(u32, u32, u32)> {
        let mut range = match self.range.take() {
            Some(range) => range,
            None if self.first > self.last => return None,
            None => {
                let at = if direction == Direction::Forward {
                    self.first
                } else {
                    self.last
                };
                let range = self.view.range_at(at)?.between(self.first, self.last)?;
                // Sequences end before the highest number there is.
                match direction {
                    Direction::Forward => {
                        self.first = range.first_sequence.saturating_add(range.count)
                    }
                    Direction::Backward => self.last = range.first_sequence - 1,
                }
                range
            }
        };
        range.count = range.count.checked_sub(1)?;
        let step = if direction == Direction::Forward {
            0
        } else {
            range.count
        };
        let next = (
            range.first_sequence.saturating_add(step),
            range.source,
            range.first_ordinal.saturating_add(step),
        );
        if direction == Direction::Forward {
            range.first_sequence = range.first_sequence.saturating_add(1);
            range.first_ordinal = range.first_ordinal.saturating_add(1);
        }
        self.range = Some(range).filter(|range| range.count > 0);
        Some(next)
    }
}

struct Located {
    segment: Arc<Segment>,
    end: u64,
    offset: u64,
    source: u32,
    /// The stream with that number.
    stream: StreamId,
    sequence: u32,
}

/// A segment, and its map if it has one.
struct Mapped {
    segment: Arc<Segment>,
    map: Option<Arc<dyn Map>>,
}

/// What was read at once for several records of a segment that isn't mapped.
struct Together {
    segment: Arc<Segment>,
    start: u64,
    bytes: Bytes,
}

impl Together {
    /// The bytes from a record on, when its header is among them.
    fn from(&self, located: &Located) -> Option<Bytes> {
        let at = usize::try_from(located.offset.checked_sub(self.start)?).ok()?;
        let is_there = Arc::ptr_eq(&self.segment, &located.segment)
            && at + record::HEADER_BYTES <= self.bytes.len();
        is_there.then(|| self.bytes.slice(at..))
    }
}

impl Reader {
    pub(crate) fn new(
        shared: Arc<Shared>,
        stream: &StreamId,
        options: ReadOptions,
    ) -> Result<Self> {
        let durable = shared.durable();
        let (number, stream) = existing(&durable, stream)?;
        let bound = |sequence: Sequence| u32::try_from(sequence.0).unwrap_or(u32::MAX);
        let view = stream.view(number);
        let (first, last) = (
            bound(options.first).max(1),
            bound(options.last).min(view.last_sequence()),
        );
        let redacted = durable.directory.redacted().clone();
        drop(durable);
        Ok(Self {
            shared,
            todo: Todo {
                view,
                first,
                last,
                range: None,
            },
            direction: options.direction,
            kinds: options.kinds,
            remaining: options.limit,
            window: VecDeque::new(),
            postings: Postings::default(),
            lost: None,
            together: None,
            redacted,
            damaged: 0,
            mapped: None,
            arena: Arena::default(),
            ended: false,
        })
    }

    /// Looks up the next records: first, under the directory's lock, in which segments they are, then, without it, at
    /// which offsets, for which index blocks may have to be read.
    fn fill_window(&mut self) {
        // Of records that a filter may drop, more than are wanted are looked up.
        let wanted = if self.kinds.is_empty() {
            self.remaining
        } else {
            self.remaining.saturating_mul(4)
        };
        let wanted = usize::try_from(wanted)
            .unwrap_or(WINDOW_RECORDS)
            .min(WINDOW_RECORDS);
        let durable = self.shared.durable();
        let mut spots = Vec::with_capacity(wanted);
        let mut run: Option<Run> = None;
        while spots.len() < wanted {
            let Some((sequence, source, ordinal)) = self.todo.next(self.direction) else {
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
        for (sequence, spot) in spots {
            let located = spot.and_then(|spot| self.locate(spot, sequence));
            self.window.extend(located.transpose());
        }
        self.read_ahead();
    }

    /// The record at a spot; `None` when it is in a segment whose damage was told.
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
            ..
        } = spot;
        Ok(Some(Located {
            segment,
            end,
            offset,
            source,
            stream,
            sequence,
        }))
    }

    /// Has the operating system fetch the window's records together: cold and scattered, they would cost a
    /// wait each.
    fn read_ahead(&self) {
        let window: Vec<&Located> = self.window.iter().flatten().collect();
        for run in window.chunk_by(|one, other| Arc::ptr_eq(&one.segment, &other.segment)) {
            if let Some(map) = run[0].segment.map() {
                map.will_need(&run.iter().map(|located| located.offset).collect::<Vec<_>>());
            }
        }
    }

    /// The record at a place, which is no longer in the window.
    fn frame(&mut self, located: &Located) -> Result<Frame> {
        let segment = &located.segment;
        if let Some(map) = self.map_of(segment) {
            if let Some(Ok(soon)) = self.window.get(PREFETCH_RECORDS - 1)
                && Arc::ptr_eq(&soon.segment, segment)
            {
                map.prefetch(soon.offset, u64::MAX);
            }
            let found = segment.frame_in_map(&*map, located.offset, located.end, &mut self.arena);
            return found.map_or_else(|| segment.frame(located.offset, located.end), Ok);
        }
        let mut bytes = self
            .together
            .as_ref()
            .and_then(|together| together.from(located));
        if bytes.is_none() {
            self.together = self.read_together(located);
            bytes = self
                .together
                .as_ref()
                .and_then(|together| together.from(located));
        }
        match bytes {
            Some(bytes) => segment.frame_in(bytes, located.offset, located.end),
            None => segment.frame(located.offset, located.end),
        }
    }

    fn map_of(&mut self, segment: &Arc<Segment>) -> Option<Arc<dyn Map>> {
        if self
            .mapped
            .as_ref()
            .is_none_or(|mapped| !Arc::ptr_eq(&mapped.segment, segment))
        {
            self.mapped = Some(Mapped {
                segment: segment.clone(),
                map: segment.map(),
            });
        }
        self.mapped.as_ref().and_then(|mapped| mapped.map.clone())
    }

    /// Reads a record and those of the window that follow close to it, with one call. What lies between them is no more
    /// than would be read with each alone. Where that can't be read, each is read alone: damage ahead is told by the
    /// record that has it.
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

    fn read(&mut self) -> Result<Option<Record>> {
        while self.remaining > 0 {
            if self.window.is_empty() {
                self.fill_window();
            }
            let Some(located) = self.window.pop_front().transpose()? else {
                break;
            };
            let frame = self.frame(&located)?;
            if (frame.header.stream, frame.header.sequence) != (located.source, located.sequence) {
                let message = format!(
                    "expected sequence {} of stream number {}, found sequence {} of {}",
                    located.sequence, located.source, frame.header.sequence, frame.header.stream
                );
                return Err(located.segment.damaged(located.offset, message));
            }
            if !self.kinds.is_empty() && !self.kinds.contains(&frame.header.kind) {
                continue;
            }
            self.remaining -= 1;
            return record(located.stream, &self.redacted, &located.segment, frame).map(Some);
        }
        Ok(None)
    }
}

impl Iterator for Reader {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.read().transpose();
        self.damaged = if matches!(&next, Some(Err(_))) {
            self.damaged + 1
        } else {
            0
        };
        self.ended =
            matches!(&next, Some(Err(error)) if !is_damage(error)) || self.damaged == DAMAGED_MAX;
        next
    }
}

/// A stream that is there, and its number.
pub(crate) fn existing<'d>(durable: &'d Durable, stream: &StreamId) -> Result<(u32, &'d Stream)> {
    let number = durable.directory.number(stream);
    let found = number.and_then(|number| Some((number, durable.directory.stream(number)?)));
    found
        .filter(|(_, stream)| !stream.deleted)
        .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("no stream {stream}")))
}

/// The record of a frame, as readers see it; its stream is told from the directory.
#[inline]
pub(crate) fn record_in(durable: &Durable, segment: &Segment, frame: Frame) -> Result<Record> {
    let number = frame.header.stream;
    let stream = durable
        .directory
        .stream(number)
        .map(|stream| stream.id)
        .ok_or_else(|| {
            segment.damaged(
                frame.offset,
                format!("record of stream number {number}, which was never created"),
            )
        })?;
    record(stream, durable.directory.redacted(), segment, frame)
}

#[inline]
fn record(
    stream: StreamId,
    redacted: &Redacted,
    segment: &Segment,
    frame: Frame,
) -> Result<Record> {
    let header = frame.header;
    let position = position_of(segment, &frame);
    let redacted = redacted.contains(position);
    let (meta, payload) = if redacted {
        Default::default()
    } else {
        parts(segment, frame)?
    };
    Ok(Record {
        stream,
        sequence: Sequence(u64::from(header.sequence)),
        position: Position(position),
        time_ms: segment.header.time_ms(header.time_delta_ms),
        kind: header.kind,
        redacted,
        meta,
        payload,
    })
}

#[inline]
pub(super) fn parts(segment: &Segment, frame: Frame) -> Result<(Bytes, Bytes)> {
    let offset = frame.offset;
    let contradiction = || {
        segment.damaged(
            offset,
            "the lengths in the record's body contradict each other",
        )
    };
    frame.into_parts().ok_or_else(contradiction)
}

/// The newest snapshot of a stream at or before a sequence that isn't redacted.
pub(crate) fn latest_snapshot(
    shared: &Shared,
    stream: &StreamId,
    at_or_before: Sequence,
) -> Result<Option<Snapshot>> {
    let bound = u32::try_from(at_or_before.0).unwrap_or(u32::MAX);
    // Whether one is redacted is known by its position, which its record tells.
    let mut redacted = Vec::new();
    loop {
        let durable = shared.durable();
        let (number, _) = existing(&durable, stream)?;
        let Some(found) = durable.directory.latest_snapshot(number, bound, &redacted) else {
            return Ok(None);
        };
        let id = found.location.segment;
        let segment = durable.segment(id).cloned().ok_or_else(|| missing(id))?;
        let (end, known) = (
            durable.end_of(&segment),
            durable.directory.redacted().clone(),
        );
        drop(durable);
        let frame = segment.frame(found.location.offset, end)?;
        let header = frame.header;
        if header.kind != Kind::SNAPSHOT || header.sequence != found.sequence {
            return Err(segment.damaged(frame.offset, "expected a snapshot here"));
        }
        let position = position_of(&segment, &frame);
        if known.contains(position) {
            redacted.push(found.location);
            continue;
        }
        let (meta, payload) = parts(&segment, frame)?;
        return Ok(Some(Snapshot {
            sequence: Sequence(u64::from(header.sequence)),
            position: Position(position),
            time_ms: segment.header.time_ms(header.time_delta_ms),
            meta,
            payload,
        }));
    }
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
