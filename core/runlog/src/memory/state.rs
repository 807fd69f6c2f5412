//! [`State`]: every record in the order of positions, and for each stream the records it sees.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, hash_map::Entry},
    task::Waker,
};

use bytes::Bytes;
use runlog_engine::{
    Appended, Batch, Direction, Kind, NewRecord, Op, OpResult, Position, ReadOptions, Record, Sequence, Snapshot,
    StreamId, StreamInfo,
};

use super::plan;
use crate::{Error, Result, backend::Page};

/// The payload that one page holds beyond its first record: 1 MiB.
const PAGE_BYTES_MAX: usize = 1 << 20;

#[derive(Default)]
pub(super) struct State {
    /// The record at position `p` stands at index `p - 1`.
    log: Vec<Record>,
    streams: HashMap<StreamId, Stream>,
    deleted: HashSet<StreamId>,
    keys: HashMap<(StreamId, Vec<u8>), Keyed>,
    waiters: BTreeMap<u64, Waker>,
    next_ticket: u64,
    redactions: u64,
}

/// What a batch with a key became.
struct Keyed {
    appended: Appended,
    /// By stream the position of the last record it left there.
    left: Vec<(StreamId, Position)>,
}

#[derive(Clone, Default)]
struct Stream {
    /// The position of the record at sequence `s` stands at index `s - 1`.
    records: Vec<Position>,
    /// The sequences they cover, and their records.
    snapshots: BTreeSet<(Sequence, Position)>,
}

impl Stream {
    fn last(&self) -> Sequence {
        Sequence(self.records.len() as u64)
    }

    fn cut(&mut self, after: Sequence) {
        self.records.truncate(usize::try_from(after.0).unwrap_or(usize::MAX));
        self.snapshots.split_off(&(after.next(), Position::ZERO));
    }
}

impl State {
    pub(super) fn last_position(&self) -> Position {
        Position(self.log.len() as u64)
    }

    pub(super) fn stream_count(&self) -> u64 {
        (self.streams.len() + self.deleted.len()) as u64
    }

    pub(super) fn info(&self, stream: StreamId) -> Option<StreamInfo> {
        self.streams.get(&stream).map(|found| StreamInfo { id: stream, last_sequence: found.last() })
    }

    /// The position of the record with a sequence of a stream.
    pub(super) fn position_at(&self, stream: StreamId, sequence: Sequence) -> Option<Position> {
        let index = usize::try_from(sequence.0.checked_sub(1)?).ok()?;
        self.streams.get(&stream)?.records.get(index).copied()
    }

    pub(super) fn is_deleted(&self, stream: StreamId) -> bool {
        self.deleted.contains(&stream)
    }

    pub(super) fn is_redactable(&self, position: Position) -> bool {
        self.at(position).is_some_and(|record| record.kind.is_data() || record.kind == Kind::SNAPSHOT)
    }

    fn at(&self, position: Position) -> Option<&Record> {
        let index = usize::try_from(position.0.checked_sub(1)?).ok()?;
        self.log.get(index)
    }

    /// What an earlier batch with the same key became; an error when the stream that the key counts in was deleted.
    pub(super) fn repeated(&self, batch: &Batch<'_>) -> Result<Option<Appended>> {
        let Some(key) = batch.key else { return Ok(None) };
        let stream = plan::key_stream(batch, key)?;
        if self.is_deleted(stream) {
            // Whatever its steps would be refused for: if it is a repeat, they meet what they did themselves.
            return Err(plan::deleted(stream));
        }
        let first = self.keys.get(&(stream, key.to_vec()));
        Ok(first.map(|Keyed { appended, left }| {
            let is_left = |(stream, position): &(StreamId, Position)| {
                self.streams.get(stream).is_some_and(|stream| stream.records.binary_search(position).is_ok())
            };
            Appended { repeated: true, truncated: !left.iter().all(is_left), ..appended.clone() }
        }))
    }

    /// Does a batch that [`plan::check`] let pass.
    pub(super) fn apply(&mut self, batch: &Batch<'_>, now_ms: u64) -> Appended {
        let time_ms = self.log.last().map_or(now_ms, |record| record.time_ms.max(now_ms));
        let before = self.last_position();
        let ops = batch.ops.iter().map(|op| self.step(op, time_ms)).collect();
        let appended = Appended { last_position: self.last_position(), ops, repeated: false, truncated: false };
        if let Some(key) = batch.key
            && let Ok(stream) = plan::key_stream(batch, key)
        {
            let left = self.left_by(batch, before);
            self.keys.insert((stream, key.to_vec()), Keyed { appended: appended.clone(), left });
        }
        appended
    }

    /// The last record of each stream that a batch appended to, if it is one of the batch's own.
    fn left_by(&self, batch: &Batch<'_>, before: Position) -> Vec<(StreamId, Position)> {
        let last = |op: &Op<'_>| {
            let Op::Append { stream, .. } = op else { return None };
            let position = self.streams.get(stream)?.records.last().copied()?;
            let is_own = position > before && self.at(position)?.stream == *stream;
            is_own.then_some((*stream, position))
        };
        batch.ops.iter().filter_map(last).collect()
    }

    fn step(&mut self, op: &Op<'_>, time_ms: u64) -> OpResult {
        match *op {
            Op::Append { stream, ref records, .. } => self.append(stream, records, time_ms),
            Op::Truncate { stream, after, .. } => {
                if let Some(found) = self.streams.get_mut(&stream) {
                    found.cut(after);
                }
                let position = self.push(stream, after, Kind::TRUNCATE, &[], &[], time_ms);
                OpResult { position, last_sequence: after }
            }
            Op::Fork { parent, at, child, .. } => {
                let mut copy = self.streams.get(&parent).cloned().unwrap_or_default();
                copy.cut(at);
                self.streams.insert(child, copy);
                let position = self.push(child, at, Kind::FORK, parent.as_bytes(), &[], time_ms);
                OpResult { position, last_sequence: at }
            }
            Op::Snapshot { stream, sequence, meta, payload, .. } => {
                let position = self.push(stream, sequence, Kind::SNAPSHOT, meta, payload, time_ms);
                let found = self.streams.entry(stream).or_default();
                found.snapshots.insert((sequence, position));
                OpResult { position, last_sequence: sequence }
            }
            Op::Delete { stream, .. } => {
                self.streams.remove(&stream);
                self.deleted.insert(stream);
                let position = self.push(stream, Sequence::ZERO, Kind::DELETE, &[], &[], time_ms);
                OpResult { position, last_sequence: Sequence::ZERO }
            }
            Op::Redact { position: target, reason } => {
                let stream = self.redact(target);
                let position = self.push(stream, Sequence::ZERO, Kind::REDACT, reason.as_bytes(), &[], time_ms);
                OpResult { position, last_sequence: Sequence::ZERO }
            }
        }
    }

    fn append(&mut self, stream: StreamId, records: &[NewRecord<'_>], time_ms: u64) -> OpResult {
        if let Entry::Vacant(slot) = self.streams.entry(stream) {
            slot.insert(Stream::default());
            self.push(stream, Sequence::ZERO, Kind::CREATE, &[], &[], time_ms);
        }
        let position = if records.is_empty() { self.last_position() } else { self.last_position().next() };
        let mut last = self.streams.get(&stream).map_or(Sequence::ZERO, Stream::last);
        let mut positions = Vec::with_capacity(records.len());
        for record in records {
            last = last.next();
            positions.push(self.push(stream, last, record.kind, record.meta, record.payload, time_ms));
        }
        self.streams.entry(stream).or_default().records.extend(positions);
        OpResult { position, last_sequence: last }
    }

    fn push(
        &mut self,
        stream: StreamId,
        sequence: Sequence,
        kind: Kind,
        meta: &[u8],
        payload: &[u8],
        time_ms: u64,
    ) -> Position {
        let position = self.last_position().next();
        let (meta, payload) = (Bytes::copy_from_slice(meta), Bytes::copy_from_slice(payload));
        self.log.push(Record { stream, sequence, position, time_ms, kind, redacted: false, meta, payload });
        position
    }

    pub(super) fn redactions(&self) -> u64 {
        self.redactions
    }

    fn redact(&mut self, position: Position) -> StreamId {
        let index = position.0.checked_sub(1).and_then(|index| usize::try_from(index).ok());
        let record = index.and_then(|index| self.log.get_mut(index)).expect("the plan found the record to redact");
        self.redactions += u64::from(!std::mem::replace(&mut record.redacted, true));
        record.meta = Bytes::new();
        record.payload = Bytes::new();
        record.stream
    }

    pub(super) fn read(&self, stream: StreamId, options: &ReadOptions) -> Result<Page<Sequence>> {
        let found = self.streams.get(&stream).ok_or_else(|| Error::not_found(format!("no stream {stream}")))?;
        let first = options.first.max(Sequence::FIRST);
        let last = options.last.min(found.last());
        let mut page = Page { records: Vec::new(), next: None };
        let mut bytes = 0;
        let mut place = match options.direction {
            Direction::Forward => first,
            Direction::Backward => last,
        };
        while first <= place && place <= last {
            let index = usize::try_from(place.0 - 1).ok();
            let position = index.and_then(|index| found.records.get(index)).copied();
            let record = position.and_then(|position| self.at(position)).expect("a stream names records of the log");
            if options.kinds.is_empty() || options.kinds.contains(&record.kind) {
                let full = page.records.len() as u64 >= options.limit
                    || (!page.records.is_empty() && bytes + record.payload.len() > PAGE_BYTES_MAX);
                if full {
                    page.next = Some(place);
                    break;
                }
                bytes += record.payload.len();
                page.records.push(Record { sequence: place, ..record.clone() });
            }
            place = match options.direction {
                Direction::Forward => place.next(),
                Direction::Backward => Sequence(place.0 - 1),
            };
        }
        Ok(page)
    }

    pub(super) fn scan(&self, first: Position, limit: u64) -> Page<Position> {
        let mut page = Page { records: Vec::new(), next: None };
        let mut bytes = 0;
        let mut place = first.max(Position::FIRST);
        while let Some(record) = self.at(place) {
            let full = page.records.len() as u64 >= limit
                || (!page.records.is_empty() && bytes + record.payload.len() > PAGE_BYTES_MAX);
            if full {
                page.next = Some(place);
                break;
            }
            bytes += record.payload.len();
            page.records.push(record.clone());
            place = place.next();
        }
        page
    }

    pub(super) fn latest_snapshot(&self, stream: StreamId, at_or_before: Sequence) -> Result<Option<Snapshot>> {
        let found = self.streams.get(&stream).ok_or_else(|| Error::not_found(format!("no stream {stream}")))?;
        let newest = found.snapshots.range(..=(at_or_before, Position(u64::MAX))).rev();
        let mut told = newest.filter_map(|(sequence, position)| {
            let record = self.at(*position).filter(|record| !record.redacted)?;
            Some(Snapshot {
                sequence: *sequence,
                position: *position,
                time_ms: record.time_ms,
                meta: record.meta.clone(),
                payload: record.payload.clone(),
            })
        });
        Ok(told.next())
    }

    /// Keeps a waker until the next append, in the place its ticket names.
    pub(super) fn add_waiter(&mut self, ticket: Option<u64>, waker: Waker) -> u64 {
        let ticket = ticket.unwrap_or_else(|| {
            self.next_ticket += 1;
            self.next_ticket
        });
        self.waiters.insert(ticket, waker);
        ticket
    }

    pub(super) fn remove_waiter(&mut self, ticket: u64) {
        self.waiters.remove(&ticket);
    }

    pub(super) fn take_waiters(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.waiters).into_values().collect()
    }
}
