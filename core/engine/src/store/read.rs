//! Reading: one stream, one record, snapshots.

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;

use super::{durable::Durable, shared::Shared};
use crate::{
    Direction, Error, ErrorKind, Kind, Position, ReadOptions, Record, Result, Sequence, Snapshot, StreamId,
    format::record,
    index::lineage::Range,
    log::{
        arena::Arena,
        scan::Scan,
        segment::{Frame, READ_BYTES, Segment},
    },
    storage::Map,
};

/// So many records are looked up at a time.
const WINDOW_RECORDS: usize = 1024;
/// At most so many bytes are read at once. A record that is kept keeps all of them.
const TOGETHER_BYTES_MAX: u64 = 64 << 10;

/// The records of a stream, one by one, in bounded memory.
///
/// It reads the stream as it was when the read began: a later truncation or append doesn't change it.
pub struct Reader {
    shared: Arc<Shared>,
    /// What is left to look up, in the order of reading.
    ranges: VecDeque<Range>,
    direction: Direction,
    kinds: Vec<Kind>,
    remaining: u64,
    window: VecDeque<Located>,
    together: Option<Together>,
    /// The map of the segment that was read last, if it has one.
    mapped: Option<Mapped>,
    arena: Arena,
    failed: bool,
}

struct Located {
    segment: Arc<Segment>,
    end: u64,
    offset: u64,
    source: u32,
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
        let is_there = Arc::ptr_eq(&self.segment, &located.segment) && at + record::HEADER_BYTES <= self.bytes.len();
        is_there.then(|| self.bytes.slice(at..))
    }
}

impl Reader {
    pub(crate) fn new(shared: Arc<Shared>, stream: &StreamId, options: ReadOptions) -> Result<Self> {
        let durable = shared.durable();
        let number = existing(&durable, stream)?;
        let bound = |sequence: Sequence| u32::try_from(sequence.0).unwrap_or(u32::MAX);
        let mut ranges: VecDeque<_> =
            durable.directory.ranges(number, bound(options.first), bound(options.last)).into();
        if options.direction == Direction::Backward {
            ranges.make_contiguous().reverse();
        }
        drop(durable);
        Ok(Self {
            shared,
            ranges,
            direction: options.direction,
            kinds: options.kinds,
            remaining: options.limit,
            window: VecDeque::new(),
            together: None,
            mapped: None,
            arena: Arena::default(),
            failed: false,
        })
    }

    fn fill_window(&mut self) -> Result<()> {
        // Of records that a filter may drop, more than are wanted are looked up.
        let wanted = if self.kinds.is_empty() { self.remaining } else { self.remaining.saturating_mul(4) };
        let wanted = usize::try_from(wanted).unwrap_or(WINDOW_RECORDS).min(WINDOW_RECORDS);
        let durable = self.shared.durable();
        while self.window.len() < wanted {
            let Some(range) = self.ranges.front_mut() else { break };
            let (sequence, ordinal) = match self.direction {
                Direction::Forward => (range.first_sequence, range.first_ordinal),
                Direction::Backward => {
                    let last = range.count - 1;
                    (range.first_sequence.saturating_add(last), range.first_ordinal.saturating_add(last))
                }
            };
            let source = range.source;
            range.count -= 1;
            if self.direction == Direction::Forward {
                range.first_sequence = range.first_sequence.saturating_add(1);
                range.first_ordinal = range.first_ordinal.saturating_add(1);
            }
            if range.count == 0 {
                self.ranges.pop_front();
            }
            let (segment, offset) = durable.locate(source, ordinal)?.ok_or_else(|| {
                let message = format!("the directory names no segment for record {ordinal} of stream number {source}");
                Error::new(ErrorKind::Damaged, message)
            })?;
            let end = durable.end_of(&segment);
            self.window.push_back(Located { segment, end, offset, source, sequence });
        }
        drop(durable);
        self.read_ahead();
        Ok(())
    }

    /// Has the operating system fetch the window's records together: cold and scattered, they would cost a
    /// wait each.
    fn read_ahead(&self) {
        let window: Vec<&Located> = self.window.iter().collect();
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
            let found = segment.frame_in_map(&*map, located.offset, located.end, &mut self.arena);
            return found.map_or_else(|| segment.frame(located.offset, located.end), Ok);
        }
        let mut bytes = self.together.as_ref().and_then(|together| together.from(located));
        if bytes.is_none() {
            self.together = self.read_together(located);
            bytes = self.together.as_ref().and_then(|together| together.from(located));
        }
        match bytes {
            Some(bytes) => segment.frame_in(bytes, located.offset, located.end),
            None => segment.frame(located.offset, located.end),
        }
    }

    fn map_of(&mut self, segment: &Arc<Segment>) -> Option<Arc<dyn Map>> {
        if self.mapped.as_ref().is_none_or(|mapped| !Arc::ptr_eq(&mapped.segment, segment)) {
            self.mapped = Some(Mapped { segment: segment.clone(), map: segment.map() });
        }
        self.mapped.as_ref().and_then(|mapped| mapped.map.clone())
    }

    /// Reads a record and those of the window that follow close to it, with one call. What lies between them is no more
    /// than would be read with each alone. Where that can't be read, each is read alone: damage ahead is told by the
    /// record that has it.
    fn read_together(&self, first: &Located) -> Option<Together> {
        let (mut start, mut end) = (first.offset, first.offset + READ_BYTES);
        for next in &self.window {
            let (low, high) = (start.min(next.offset), end.max(next.offset + READ_BYTES));
            let is_close = next.offset + READ_BYTES >= start && next.offset <= end;
            if !is_close || !Arc::ptr_eq(&next.segment, &first.segment) || high - low > TOGETHER_BYTES_MAX {
                break;
            }
            (start, end) = (low, high);
        }
        if end - start == READ_BYTES {
            return None;
        }
        let bytes = first.segment.bytes_at(start, end.min(first.end).checked_sub(start)?).ok()?;
        Some(Together { segment: first.segment.clone(), start, bytes })
    }

    fn read(&mut self) -> Result<Option<Record>> {
        while self.remaining > 0 {
            if self.window.is_empty() {
                self.fill_window()?;
            }
            let Some(located) = self.window.pop_front() else { break };
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
            return record(&self.shared.durable(), &located.segment, &frame).map(Some);
        }
        Ok(None)
    }
}

impl Iterator for Reader {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = self.read().transpose();
        self.failed = matches!(next, Some(Err(_)));
        next
    }
}

/// The number of a stream that is there.
pub(crate) fn existing(durable: &Durable, stream: &StreamId) -> Result<u32> {
    durable
        .directory
        .number(stream)
        .filter(|number| durable.directory.stream(*number).is_some_and(|stream| !stream.deleted))
        .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("no stream {stream}")))
}

/// The record of a frame, as readers see it.
pub(crate) fn record(durable: &Durable, segment: &Segment, frame: &Frame) -> Result<Record> {
    let header = &frame.header;
    let position = segment.header.base_position + u64::from(header.index);
    let stream = durable.directory.stream(header.stream).map(|stream| stream.id).ok_or_else(|| {
        segment.damaged(frame.offset, format!("record of stream number {}, which was never created", header.stream))
    })?;
    let redacted = durable.directory.is_redacted(position);
    let (meta, payload) = if redacted {
        Default::default()
    } else {
        frame
            .parts()
            .ok_or_else(|| segment.damaged(frame.offset, "the lengths in the record's body contradict each other"))?
    };
    Ok(Record {
        stream,
        sequence: Sequence(u64::from(header.sequence)),
        position: Position(position),
        time_ms: segment.header.base_time_ms + u64::from(header.time_delta_ms),
        kind: header.kind,
        redacted,
        meta,
        payload,
    })
}

/// A scan that begins at the record with a position, which was published and is in this segment.
pub(crate) fn scan_from<'s>(durable: &Durable, segment: &'s Segment, position: u64) -> Result<Scan<'s>> {
    let end = durable.end_of(segment);
    let index = u32::try_from(position - segment.header.base_position).unwrap_or(u32::MAX);
    let sample = match segment.block()? {
        Some(block) => block.sample(index),
        None => durable.active_index.sample(index),
    };
    let (offset, sampled) =
        sample.ok_or_else(|| segment.damaged(end, format!("the index lacks the record with position {position}")))?;
    let mut scan = Scan::new(segment, offset, end);
    for _ in sampled..index {
        scan.skip()?;
    }
    Ok(scan)
}

/// The frame with a position, which was published and is in this segment.
pub(crate) fn frame_at(durable: &Durable, segment: &Segment, position: u64) -> Result<Frame> {
    let mut scan = scan_from(durable, segment, position)?;
    let offset = scan.offset();
    let frame = scan.next()?.ok_or_else(|| segment.damaged(offset, "records end before the index says"))?;
    let found = segment.header.base_position + u64::from(frame.header.index);
    if found != position {
        return Err(segment.damaged(offset, format!("expected position {position}, found {found}")));
    }
    Ok(frame)
}

/// The newest snapshot of a stream at or before a sequence.
pub(crate) fn latest_snapshot(
    durable: &Durable,
    stream: &StreamId,
    at_or_before: Sequence,
) -> Result<Option<Snapshot>> {
    let number = existing(durable, stream)?;
    let bound = u32::try_from(at_or_before.0).unwrap_or(u32::MAX);
    let Some(found) = durable.directory.latest_snapshot(number, bound) else { return Ok(None) };
    let segment = durable.segment(found.location.segment).ok_or_else(|| {
        Error::new(ErrorKind::Damaged, format!("segment {} is missing from the store", found.location.segment))
    })?;
    let frame = segment.frame(found.location.offset, durable.end_of(segment))?;
    if frame.header.kind != Kind::SNAPSHOT || frame.header.sequence != found.sequence {
        return Err(segment.damaged(frame.offset, "expected a snapshot here"));
    }
    let record = record(durable, segment, &frame)?;
    Ok(Some(Snapshot {
        sequence: record.sequence,
        position: record.position,
        time_ms: record.time_ms,
        meta: record.meta,
        payload: record.payload,
    }))
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
