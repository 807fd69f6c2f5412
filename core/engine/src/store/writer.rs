//! [`Writer`]: the state of the one writer, and how a batch is checked and staged in the open group.

use std::{collections::HashMap, sync::Arc};

use super::{
    durable::{Durable, Entry},
    group::{Group, OpenGroup},
    prepare::{Prepared, PreparedBody},
};
use crate::{
    Batch, Durability, Error, ErrorKind, Expected, Kind, NewRecord, Op, OpResult, Position, Result, Sequence, StreamId,
    checksum,
    format::{
        index::{self, KeyRow, StepRow},
        record::{self, Body, Flags},
    },
    limits,
    log::segment::Segment,
};

/// Everything that only the writer knows: what is staged but not published.
pub(crate) struct Writer {
    pub(crate) active: Arc<Segment>,
    /// Where the staged records of the active segment end.
    pub(crate) end: u64,
    /// Up to where bytes were handed to the operating system.
    pub(crate) written_end: u64,
    /// Up to where bytes are known durable.
    pub(crate) synced_end: u64,
    /// The end of what was found after a crash and nothing proves durable. It begins at `synced_end`, and is made
    /// durable before anything is appended.
    pub(crate) unproven_end: Option<u64>,
    /// The length of the active segment's file. 0 for one that grows as it is written.
    pub(crate) capacity: u64,
    /// The size of the active segment's index block if all that is staged were in it.
    pub(crate) index_bytes: u64,
    /// The position that the next staged record gets.
    pub(crate) next_position: u64,
    pub(crate) last_time_ms: u64,
    heads: Vec<Head>,
    new_ids: HashMap<StreamId, u32>,
    /// Keys that are staged but not published: their streams and hashes.
    new_keys: Vec<(u32, u64)>,
    pub(crate) open: Option<OpenGroup>,
    /// What is being written, or another exclusive operation under way.
    pub(crate) flushing: Option<Arc<Group>>,
    /// A thread lets others join the open group before it leads it.
    pub(crate) gathering: bool,
    /// How many threads wrote at the same time, as the last write saw it.
    pub(crate) threads_seen: u32,
    /// Why nothing more is appended.
    pub(crate) ended: Option<Ended>,
    pub(crate) spare_buffer: Vec<u8>,
    /// The heads that the batch being staged has changed, as they were. Kept for its memory.
    changed: Vec<(u32, Head)>,
    /// Whether the active segment's file may be made longer: it was cut at the last close.
    pub(crate) extendable: bool,
    /// Whether the keeper was asked to make the next segment's space.
    pub(crate) spare_asked: bool,
    /// Where the active segment ended when a checkpoint was last asked for.
    pub(crate) checkpoint_asked: u64,
}

/// Why a writer appends no more.
pub(crate) enum Ended {
    /// A write or a flush failed.
    Failed(Error),
    Closed,
}

/// What the writer knows of a stream, staged records included.
#[derive(Clone, Copy, Default)]
struct Head {
    last_sequence: u32,
    /// The last segment that its data records are in.
    row_segment: u32,
    deleted: bool,
}

/// How to undo what a refused batch has done so far.
struct Undo {
    bytes: usize,
    records: usize,
    steps: usize,
    keys: usize,
    new_keys: usize,
    heads: usize,
    index_bytes: u64,
    next_position: u64,
    created: Vec<StreamId>,
}

/// A frame whose flags may still change.
struct Held {
    at: usize,
    offset: u64,
    header: record::Header,
}

/// What staging a batch came to.
pub(crate) struct Staged {
    /// Whether the batch has no record.
    pub(crate) is_empty: bool,
    pub(crate) last_position: Position,
    pub(crate) ops: Vec<OpResult>,
}

impl Writer {
    pub(crate) fn new(durable: &Durable, active: Arc<Segment>, synced_end: u64, capacity: u64) -> Self {
        let heads = durable
            .directory
            .streams()
            .iter()
            .map(|stream| Head {
                last_sequence: stream.last_sequence(),
                row_segment: stream.runs.last().map_or(0, |run| run.segment.0),
                deleted: stream.deleted,
            })
            .collect();
        Self {
            active,
            end: durable.end,
            written_end: durable.end,
            synced_end,
            unproven_end: (synced_end < durable.end).then_some(durable.end),
            capacity,
            index_bytes: durable.active_index.encoded_bytes() as u64,
            next_position: durable.next_position,
            last_time_ms: durable.last_time_ms,
            heads,
            new_ids: HashMap::new(),
            new_keys: Vec::new(),
            open: None,
            flushing: None,
            gathering: false,
            threads_seen: 0,
            ended: None,
            spare_buffer: Vec::new(),
            changed: Vec::new(),
            extendable: true,
            spare_asked: false,
            checkpoint_asked: durable.end,
        }
    }

    /// Turns to a new active segment.
    pub(crate) fn switch_to(&mut self, active: Arc<Segment>, capacity: u64) {
        let start = crate::format::segment::HEADER_BYTES as u64;
        self.active = active;
        (self.end, self.written_end, self.synced_end) = (start, start, start);
        self.capacity = capacity;
        self.extendable = false;
        self.spare_asked = false;
        self.checkpoint_asked = start;
        self.index_bytes = index::encoded_bytes(0, 0, 0, 0, 0) as u64;
    }

    /// Whether a write is under way or about to be.
    pub(crate) fn is_busy(&self) -> bool {
        self.flushing.is_some() || self.gathering
    }

    /// Whether appends are refused, and why.
    pub(crate) fn check(&self) -> Result<()> {
        match &self.ended {
            None => Ok(()),
            Some(Ended::Closed) => Err(Error::new(ErrorKind::Closed, "the store is closed")),
            Some(Ended::Failed(cause)) => Err(Error::new(
                ErrorKind::Poisoned,
                format!("a write failed earlier, so nothing more is appended until the store is reopened: {cause}"),
            )),
        }
    }

    /// Whether the store was closed.
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.ended, Some(Ended::Closed))
    }

    /// Whether a prepared batch fits into the active segment, index block included.
    pub(crate) fn has_room(&self, prepared: &Prepared) -> bool {
        let used = self.end + self.index_bytes + prepared.bytes_max + prepared.index_bytes_max;
        self.capacity != 0 && used <= self.capacity
    }

    /// Whether a time can be told in the active segment: 49 days from its base time on.
    pub(crate) fn time_fits(&self, now_ms: u64) -> bool {
        let now_ms = now_ms.max(self.last_time_ms);
        u32::try_from(now_ms.saturating_sub(self.active.header.base_time_ms)).is_ok()
    }

    /// The number of a stream that exists, staged ones included.
    fn number(&self, durable: &Durable, id: &StreamId) -> Option<u32> {
        durable.directory.number(id).or_else(|| self.new_ids.get(id).copied())
    }

    /// Whether a batch with this key is staged but not published.
    pub(crate) fn is_key_staged(&self, durable: &Durable, stream: &StreamId, key: &[u8]) -> bool {
        !self.new_keys.is_empty()
            && self
                .number(durable, stream)
                .is_some_and(|number| self.new_keys.contains(&(number, checksum::key_hash(key))))
    }

    /// Forgets what was just published.
    pub(crate) fn forget_published(&mut self, durable: &Durable) {
        if !self.new_ids.is_empty() {
            self.new_ids.retain(|id, _| durable.directory.number(id).is_none());
        }
        if self.open.as_ref().is_none_or(|open| open.entries.keys.is_empty()) {
            self.new_keys.clear();
        } else if let Some(open) = &self.open {
            self.new_keys = open.entries.keys.iter().map(|key| (key.stream, key.hash)).collect();
        }
    }

    /// Checks a batch against what is staged, and stages it in the open group, whole or not at all. The
    /// caller has made sure of the room.
    pub(crate) fn stage(
        &mut self,
        durable: &Durable,
        batch: &Batch<'_>,
        prepared: &Prepared,
        durability: Durability,
        now_ms: u64,
    ) -> Result<Staged> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => OpenGroup::new(self.end, std::mem::take(&mut self.spare_buffer)),
        };
        let mut undo = Undo {
            bytes: open.bytes.len(),
            records: open.entries.records.len(),
            steps: open.entries.steps.len(),
            keys: open.entries.keys.len(),
            new_keys: self.new_keys.len(),
            heads: self.heads.len(),
            index_bytes: self.index_bytes,
            next_position: self.next_position,
            created: Vec::new(),
        };
        self.changed.clear();
        let time_ms = now_ms.max(self.last_time_ms);
        let staged = Staging {
            writer: self,
            durable,
            open: &mut open,
            undo: &mut undo,
            time_delta_ms: 0,
            held: None,
            batch_start: 0,
            bodies: prepared.bodies.iter(),
            key: batch.key.unwrap_or(&[]),
        }
        .run(batch, time_ms);
        match &staged {
            Ok(_) => {
                self.end = open.end();
                self.last_time_ms = time_ms;
                open.sync |= durability == Durability::Sync;
            }
            Err(_) => self.undo(&mut open, undo),
        }
        if open.entries.records.is_empty() {
            self.spare_buffer = open.bytes;
        } else {
            self.open = Some(open);
        }
        staged
    }

    fn undo(&mut self, open: &mut OpenGroup, undo: Undo) {
        open.bytes.truncate(undo.bytes);
        open.entries.records.truncate(undo.records);
        open.entries.steps.truncate(undo.steps);
        open.entries.keys.truncate(undo.keys);
        self.new_keys.truncate(undo.new_keys);
        for (number, head) in self.changed.drain(..).rev() {
            self.heads[number as usize - 1] = head;
        }
        for id in undo.created {
            self.new_ids.remove(&id);
        }
        self.heads.truncate(undo.heads);
        self.index_bytes = undo.index_bytes;
        self.next_position = undo.next_position;
    }
}

/// One batch on its way into the open group.
struct Staging<'a, 'b> {
    writer: &'a mut Writer,
    durable: &'a Durable,
    open: &'a mut OpenGroup,
    undo: &'a mut Undo,
    time_delta_ms: u32,
    held: Option<Held>,
    batch_start: u64,
    bodies: std::slice::Iter<'a, PreparedBody>,
    key: &'b [u8],
}

impl Staging<'_, '_> {
    fn run(mut self, batch: &Batch<'_>, time_ms: u64) -> Result<Staged> {
        let base_time_ms = self.writer.active.header.base_time_ms;
        self.time_delta_ms = u32::try_from(time_ms.saturating_sub(base_time_ms)).map_err(|_| {
            Error::new(ErrorKind::InvalidInput, format!("the clock says {time_ms} ms, too far from {base_time_ms} ms"))
        })?;
        self.batch_start = self.open.end();
        let first = self.writer.next_position;
        let mut ops = Vec::with_capacity(batch.ops.len());
        for op in &batch.ops {
            ops.push(self.op(op)?);
        }
        if let Some(mut held) = self.held.take() {
            held.header.flags.set(Flags::BATCH_LAST);
            self.seal(&held);
        }
        let last_position = Position(self.writer.next_position - 1);
        Ok(Staged { is_empty: self.writer.next_position == first, last_position, ops })
    }

    fn op(&mut self, op: &Op<'_>) -> Result<OpResult> {
        match op {
            Op::Append { stream, expected, records } => self.append(*stream, *expected, records),
            Op::Truncate { stream, expected, after } => {
                let number = self.existing(stream)?;
                let last = self.expect(stream, number, *expected)?;
                let sequence = self.up_to(stream, *after, last, "truncate after")?;
                let position = self.step(Kind::TRUNCATE, number, sequence, &[], &[], |_| {});
                self.change(number).last_sequence = sequence;
                Ok(OpResult { position, last_sequence: *after })
            }
            Op::Fork { parent, at, child } => {
                let parent_number = self.existing(parent)?;
                let last = self.head(parent_number).last_sequence;
                let sequence = self.up_to(parent, *at, last, "fork at")?;
                if self.writer.number(self.durable, child).is_some() {
                    return Err(already_exists(child));
                }
                let number = self.create(*child)?;
                self.change(number).last_sequence = sequence;
                let payload = record::engine::encode_fork(child.as_bytes(), parent_number);
                let position = self.step(Kind::FORK, number, sequence, &[], &payload, |step| {
                    step.other = parent_number;
                    step.id = *child.as_bytes();
                });
                Ok(OpResult { position, last_sequence: *at })
            }
            Op::Snapshot { stream, sequence, meta, payload } => {
                let number = self.existing(stream)?;
                let last = self.head(number).last_sequence;
                let at = self.up_to(stream, *sequence, last, "save a snapshot at")?;
                let position = self.step(Kind::SNAPSHOT, number, at, meta, payload, |_| {});
                Ok(OpResult { position, last_sequence: Sequence(u64::from(last)) })
            }
            Op::Delete { stream, expected } => {
                let number = self.existing(stream)?;
                self.expect(stream, number, *expected)?;
                let position = self.step(Kind::DELETE, number, 0, &[], &[], |_| {});
                self.change(number).deleted = true;
                Ok(OpResult { position, last_sequence: Sequence::ZERO })
            }
            Op::Redact { position, reason } => self.redact(*position, reason),
        }
    }

    fn append(&mut self, id: StreamId, expected: Expected, records: &[NewRecord<'_>]) -> Result<OpResult> {
        let number = match self.writer.number(self.durable, &id) {
            Some(number) => {
                if self.head(number).deleted {
                    return Err(deleted(&id));
                }
                self.expect(&id, number, expected)?;
                number
            }
            None => {
                match expected {
                    Expected::Exists => return Err(not_found(&id)),
                    Expected::Last(sequence) if sequence != Sequence::ZERO => {
                        return Err(conflict(&id, sequence, "doesn't exist"));
                    }
                    _ => {}
                }
                let number = self.create(id)?;
                let bytes = *id.as_bytes();
                self.step(Kind::CREATE, number, 0, &[], &bytes, |step| step.id = bytes);
                number
            }
        };
        let first = self.writer.next_position;
        let head = self.change(number);
        let last = head.last_sequence;
        let count = u32::try_from(records.len()).unwrap_or(u32::MAX);
        let new_last = last.checked_add(count).filter(|last| u64::from(*last) <= limits::SEQUENCE_MAX);
        head.last_sequence = new_last.ok_or_else(|| {
            Error::new(
                ErrorKind::TooLarge,
                format!("stream {id} is full: a stream has {} sequences", limits::SEQUENCE_MAX),
            )
        })?;
        for (index, (record, sequence)) in records.iter().zip(last.saturating_add(1)..).enumerate() {
            self.data(number, sequence, record, index == 0);
        }
        let position = if records.is_empty() { first - 1 } else { first };
        Ok(OpResult { position: Position(position), last_sequence: Sequence(u64::from(last + count)) })
    }

    fn redact(&mut self, position: Position, reason: &str) -> Result<OpResult> {
        let record = self
            .durable
            .segment_of_position(position.0)
            .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("no record has position {position}")))
            .and_then(|segment| super::read::frame_at(self.durable, segment, position.0))?;
        if !record.header.kind.is_data() && record.header.kind != Kind::SNAPSHOT {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                format!("position {position} is a record of the engine, which has nothing to redact"),
            ));
        }
        let payload = record::engine::encode_redact(position.0, reason);
        let (stream, sequence) = (record.header.stream, record.header.sequence);
        let at = self.step(Kind::REDACT, stream, sequence, &[], &payload, |step| step.target = position.0);
        Ok(OpResult { position: at, last_sequence: Sequence::ZERO })
    }

    fn existing(&self, id: &StreamId) -> Result<u32> {
        let number = self.writer.number(self.durable, id).ok_or_else(|| not_found(id))?;
        if self.head(number).deleted { Err(deleted(id)) } else { Ok(number) }
    }

    fn head(&self, number: u32) -> Head {
        self.writer.heads[number as usize - 1]
    }

    /// A stream's head, to change it, undoably.
    fn change(&mut self, number: u32) -> &mut Head {
        let head = &mut self.writer.heads[number as usize - 1];
        self.writer.changed.push((number, *head));
        head
    }

    fn create(&mut self, id: StreamId) -> Result<u32> {
        let number = u32::try_from(self.writer.heads.len() + 1).ok().filter(|number| *number <= limits::STREAMS_MAX);
        let number = number.ok_or_else(|| {
            Error::new(ErrorKind::TooLarge, format!("the store is full: it has {} streams", limits::STREAMS_MAX))
        })?;
        self.writer.heads.push(Head::default());
        self.writer.new_ids.insert(id, number);
        self.undo.created.push(id);
        Ok(number)
    }

    fn expect(&self, id: &StreamId, number: u32, expected: Expected) -> Result<u32> {
        let last = self.head(number).last_sequence;
        match expected {
            Expected::Absent => Err(already_exists(id)),
            Expected::Last(sequence) if sequence.0 != u64::from(last) => {
                Err(conflict(id, sequence, &format!("has last sequence {last}")))
            }
            _ => Ok(last),
        }
    }

    fn up_to(&self, id: &StreamId, sequence: Sequence, last: u32, what: &str) -> Result<u32> {
        u32::try_from(sequence.0).ok().filter(|sequence| *sequence <= last).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidInput,
                format!("stream {id}: can't {what} sequence {sequence}: its last sequence is {last}"),
            )
        })
    }

    /// Stages a data record of a stream.
    fn data(&mut self, stream: u32, sequence: u32, record: &NewRecord<'_>, op_first: bool) {
        let prepared = self.bodies.next().copied().expect("one body was prepared for each record");
        let key = std::mem::take(&mut self.key);
        let body = Body { key, meta: record.meta, payload: record.payload };
        if !key.is_empty() {
            let hash = checksum::key_hash(key);
            self.open.entries.keys.push(KeyRow { stream, hash, offset: self.batch_start });
            self.writer.new_keys.push((stream, hash));
            self.writer.index_bytes += index::KEY_ROW_BYTES as u64;
        }
        let segment = self.writer.active.id().0;
        let head = &mut self.writer.heads[stream as usize - 1];
        if head.row_segment != segment {
            head.row_segment = segment;
            self.writer.index_bytes += index::STREAM_ROW_BYTES as u64;
        }
        self.writer.index_bytes += 4;
        self.frame(record.kind, stream, sequence, &body, prepared, op_first, 0);
    }

    /// Stages an engine record and its step; `complete` fills in what the directory needs of it.
    fn step(
        &mut self,
        kind: Kind,
        stream: u32,
        sequence: u32,
        meta: &[u8],
        payload: &[u8],
        complete: impl FnOnce(&mut StepRow),
    ) -> Position {
        let offset = self.open.end();
        let mut step = StepRow { kind, stream, sequence, ordinal: 0, offset, other: 0, target: 0, id: [0; 16] };
        complete(&mut step);
        self.open.entries.steps.push(step);
        let place = u32::try_from(self.open.entries.steps.len()).expect("a group is bounded");
        self.writer.index_bytes += index::STEP_ROW_BYTES as u64;
        let body = Body { key: &[], meta, payload };
        let prepared = PreparedBody::of(&body);
        self.frame(kind, stream, sequence, &body, prepared, kind != Kind::CREATE, place);
        Position(self.writer.next_position - 1)
    }

    #[allow(clippy::too_many_arguments, reason = "they are the fields of one record header")]
    fn frame(
        &mut self,
        kind: Kind,
        stream: u32,
        sequence: u32,
        body: &Body<'_>,
        prepared: PreparedBody,
        op_first: bool,
        step: u32,
    ) {
        let (at, offset) = (self.open.bytes.len(), self.open.end());
        let mut flags = body.flags();
        if op_first {
            flags.set(Flags::OP_FIRST);
        }
        match self.held.take() {
            Some(held) => self.seal(&held),
            None => flags.set(Flags::BATCH_FIRST),
        }
        let base = self.writer.active.header.base_position;
        let index = u32::try_from(self.writer.next_position - base).expect("a segment is bounded");
        self.writer.next_position += 1;
        if index.is_multiple_of(index::SAMPLE_EVERY * 2) {
            self.writer.index_bytes += 8;
        }
        let header = record::Header {
            kind,
            flags,
            body_bytes: prepared.bytes,
            index,
            stream,
            sequence,
            time_delta_ms: self.time_delta_ms,
            watermark: self.writer.synced_end,
            body_crc: prepared.crc,
        };
        self.open.bytes.extend_from_slice(&[0; record::HEADER_BYTES]);
        body.encode_into(&mut self.open.bytes);
        self.held = Some(Held { at, offset, header });
        let time_delta_ms = self.time_delta_ms;
        self.open.entries.records.push(Entry { offset, stream, sequence, time_delta_ms, step });
    }

    /// Writes the header of a frame whose flags are final.
    fn seal(&mut self, held: &Held) {
        let bytes = held.header.encode(self.writer.active.header.salt, held.offset);
        self.open.bytes[held.at..held.at + record::HEADER_BYTES].copy_from_slice(&bytes);
    }
}

fn not_found(id: &StreamId) -> Error {
    Error::new(ErrorKind::NotFound, format!("no stream {id}"))
}

fn deleted(id: &StreamId) -> Error {
    Error::new(ErrorKind::NotFound, format!("stream {id} was deleted; use a new id"))
}

fn already_exists(id: &StreamId) -> Error {
    Error::new(ErrorKind::AlreadyExists, format!("stream {id} exists already, or was deleted; use a new id"))
}

fn conflict(id: &StreamId, expected: Sequence, found: &str) -> Error {
    Error::new(ErrorKind::Conflict, format!("stream {id}: expected last sequence {expected}, but it {found}"))
}
