//! [`Staging`]: how one batch is checked against what is staged, and encoded into the open group.

use super::{
    durable::{Durable, Entry},
    facts::{Facts, Stop},
    group::OpenGroup,
    place::Place,
    prepare::PreparedBody,
    writer::{Head, LastPosition, Staged, Undo, Writer},
};
use crate::{
    Batch, Error, ErrorKind, Expected, Kind, NewRecord, Op, OpResult, Position, Sequence, StreamId,
    format::{
        WRITER_VERSION,
        index::{self, KeyRow, StepRow},
        record::{self, Body, Flags},
    },
    limits,
};

/// The bytes of a mark.
pub(crate) const MARK_BYTES: u64 = record::frame_bytes(8) as u64;

/// Begins a group with the mark of this writer: a batch by itself, which has no position.
///
/// Its time is that of the record before it, not that of the batch behind it: a crash may leave the mark alone, and the next
/// writer knows the time of the last record only, before which a clock that was put back must not go.
pub(crate) fn push_mark(writer: &Writer, open: &mut OpenGroup, epoch: u32) {
    let mut flags = Flags::BATCH_FIRST;
    flags.set(Flags::BATCH_LAST);
    let payload = record::engine::encode_mark(epoch, WRITER_VERSION);
    let body = Body {
        payload: &payload,
        ..Body::default()
    };
    let prepared = PreparedBody::of(&body);
    let active = &writer.active;
    let header = record::Header {
        kind: record::MARK,
        flags,
        body_bytes: prepared.bytes,
        index: u32::try_from(writer.next_position - active.header.base_position)
            .expect("a segment is bounded"),
        stream: 0,
        sequence: 0,
        time_delta_ms: u32::try_from(
            writer
                .last_time_ms
                .saturating_sub(active.header.base_time_ms),
        )
        .unwrap_or(u32::MAX),
        watermark: writer.synced_end,
        body_crc: prepared.crc,
    };
    let bytes = header.encode(active.seed, open.end());
    open.bytes.extend_from_slice(&bytes);
    body.encode_into(&mut open.bytes);
}

/// What a step comes to, or why the batch is not staged.
type Result<T> = std::result::Result<T, Stop>;

/// A frame whose header may still change.
pub(crate) struct Held {
    /// Where it is in the bytes of the open group.
    pub(crate) at: usize,
    pub(crate) offset: u64,
    pub(crate) header: record::Header,
}

/// One batch on its way into the open group.
pub(crate) struct Staging<'a, 'b> {
    pub(crate) writer: &'a mut Writer,
    pub(crate) durable: &'a Durable,
    pub(crate) facts: &'a Facts,
    pub(crate) open: &'a mut OpenGroup,
    pub(crate) undo: &'a mut Undo,
    pub(crate) time_delta_ms: u32,
    pub(crate) held: Option<Held>,
    pub(crate) batch_start: u64,
    pub(crate) bodies: std::slice::Iter<'a, PreparedBody>,
    pub(crate) key: &'b [u8],
}

impl Staging<'_, '_> {
    pub(crate) fn run(mut self, batch: &Batch<'_>, time_ms: u64) -> Result<Staged> {
        let base_time_ms = self.writer.active.header.base_time_ms;
        self.time_delta_ms = u32::try_from(time_ms.saturating_sub(base_time_ms)).map_err(|_| {
            Error::new(
                ErrorKind::InvalidInput,
                format!("the clock says {time_ms} ms, too far from {base_time_ms} ms"),
            )
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
            self.open.last = Some(held);
        }
        let last_position = Position(self.writer.next_position - 1);
        Ok(Staged {
            is_empty: self.writer.next_position == first,
            last_position,
            ops,
        })
    }

    fn op(&mut self, op: &Op<'_>) -> Result<OpResult> {
        match op {
            Op::Append {
                stream,
                expected,
                records,
            } => self.append(*stream, *expected, records),
            Op::Truncate {
                stream,
                expected,
                after,
            } => {
                let number = self.existing(stream)?;
                let last = self.expect(stream, number, *expected)?;
                let sequence = self.up_to(stream, *after, last, "truncate after")?;
                let position = self.step(Kind::TRUNCATE, number, sequence, &[], &[], |_| {});
                let head = self.change(number);
                head.last_sequence = sequence;
                if sequence < last {
                    head.last_position = last_position_after(sequence, position);
                }
                Ok(OpResult {
                    position,
                    last_sequence: *after,
                })
            }
            Op::Fork {
                parent,
                expected,
                at,
                child,
            } => {
                let parent_number = self.existing(parent)?;
                let last = self.expect(parent, parent_number, *expected)?;
                let shared = self.head(parent_number).last_position;
                let sequence = self.up_to(parent, *at, last, "fork at")?;
                if self.writer.number(self.durable, child).is_some() {
                    return Err(already_exists(child).into());
                }
                let number = self.create(*child)?;
                let payload = record::engine::encode_fork(child.as_bytes(), parent_number);
                let position = self.step(Kind::FORK, number, sequence, &[], &payload, |step| {
                    step.other = parent_number;
                    step.id = *child.as_bytes();
                });
                let head = self.change(number);
                head.last_sequence = sequence;
                head.last_position = match shared.get() {
                    Ok(_) if sequence == last => shared,
                    _ => last_position_after(sequence, position),
                };
                Ok(OpResult {
                    position,
                    last_sequence: *at,
                })
            }
            Op::Snapshot {
                stream,
                expected,
                sequence,
                meta,
                payload,
            } => {
                let number = self.existing(stream)?;
                let last = self.expect(stream, number, *expected)?;
                let at = self.up_to(stream, *sequence, last, "save a snapshot at")?;
                let position = self.step(Kind::SNAPSHOT, number, at, meta, payload, |_| {});
                Ok(OpResult {
                    position,
                    last_sequence: *sequence,
                })
            }
            Op::Delete { stream, expected } => {
                let number = self.existing(stream)?;
                self.expect(stream, number, *expected)?;
                let position = self.step(Kind::DELETE, number, 0, &[], &[], |_| {});
                self.change(number).deleted = true;
                Ok(OpResult {
                    position,
                    last_sequence: Sequence::ZERO,
                })
            }
            Op::Redact { position, reason } => self.redact(*position, reason),
        }
    }

    fn append(
        &mut self,
        id: StreamId,
        expected: Expected,
        records: &[NewRecord<'_>],
    ) -> Result<OpResult> {
        let number = match self.writer.number(self.durable, &id) {
            Some(number) => {
                if self.head(number).deleted {
                    return Err(deleted(&id).into());
                }
                self.expect(&id, number, expected)?;
                number
            }
            None => {
                match expected {
                    Expected::Exists => return Err(not_found(&id).into()),
                    Expected::Last(sequence) if sequence != Sequence::ZERO => {
                        return Err(conflict(&id, sequence, "doesn't exist").into());
                    }
                    Expected::At(position) if position != Position::ZERO => {
                        return Err(conflict_at(&id, position, "it doesn't exist").into());
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
        let new_last = last
            .checked_add(count)
            .filter(|last| u64::from(*last) <= limits::SEQUENCE_MAX);
        head.last_sequence = new_last.ok_or_else(|| {
            Error::new(
                ErrorKind::TooLarge,
                format!(
                    "stream {id} is full: a stream has {} sequences",
                    limits::SEQUENCE_MAX
                ),
            )
        })?;
        let ordinals = head
            .ordinals
            .checked_add(count)
            .filter(|ordinals| *ordinals <= limits::ORDINAL_MAX);
        head.ordinals = ordinals.ok_or_else(|| {
            let (given, most) = (head.ordinals, limits::ORDINAL_MAX);
            let message = format!(
                "stream {id} is full: it was given {given} records, truncated ones included, and a stream can be given \
                 {most}; fork it and go on in the fork"
            );
            Error::new(ErrorKind::TooLarge, message)
        })?;
        for (index, (record, sequence)) in records.iter().zip(last.saturating_add(1)..).enumerate()
        {
            self.data(number, sequence, record, index == 0);
        }
        if !records.is_empty() {
            let last_position = LastPosition::known(self.writer.next_position - 1);
            self.writer.heads[number as usize - 1].last_position = last_position;
        }
        let position = if records.is_empty() { first - 1 } else { first };
        Ok(OpResult {
            position: Position(position),
            last_sequence: Sequence(u64::from(last + count)),
        })
    }

    fn redact(&mut self, position: Position, reason: &str) -> Result<OpResult> {
        // A position that a repair left out is none either.
        if Place::of(self.durable, position.0).is_none() {
            return Err(Error::new(
                ErrorKind::NotFound,
                format!("no record has position {position}"),
            )
            .into());
        }
        let header = self.facts.header(position)?;
        if !header.kind.is_data() && header.kind != Kind::SNAPSHOT {
            let message = format!(
                "position {position} is a record of the engine, which has nothing to redact"
            );
            return Err(Error::new(ErrorKind::InvalidInput, message).into());
        }
        let payload = record::engine::encode_redact(position.0, reason);
        let (stream, sequence) = (header.stream, header.sequence);
        let at = self.step(Kind::REDACT, stream, sequence, &[], &payload, |step| {
            step.target = position.0
        });
        Ok(OpResult {
            position: at,
            last_sequence: Sequence::ZERO,
        })
    }

    fn existing(&self, id: &StreamId) -> Result<u32> {
        let number = self
            .writer
            .number(self.durable, id)
            .ok_or_else(|| not_found(id))?;
        if self.head(number).deleted {
            Err(deleted(id).into())
        } else {
            Ok(number)
        }
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
        let number = u32::try_from(self.writer.heads.len() + 1)
            .ok()
            .filter(|number| *number <= limits::STREAMS_MAX);
        let number = number.ok_or_else(|| {
            Error::new(
                ErrorKind::TooLarge,
                format!("the store is full: it has {} streams", limits::STREAMS_MAX),
            )
        })?;
        self.writer.heads.push(Head::default());
        self.writer.new_ids.insert(id, number);
        self.undo.created.push(id);
        Ok(number)
    }

    /// Checks what the writer of the batch believes of a stream; its last sequence.
    fn expect(&mut self, id: &StreamId, number: u32, expected: Expected) -> Result<u32> {
        let last = self.head(number).last_sequence;
        match expected {
            Expected::Absent => Err(already_exists(id).into()),
            Expected::Last(sequence) if sequence.0 != u64::from(last) => {
                Err(conflict(id, sequence, &format!("has last sequence {last}")).into())
            }
            Expected::At(position) => match self.last_position(number)? {
                found if found == position.0 => Ok(last),
                0 => Err(conflict_at(id, position, "it has no record").into()),
                found => {
                    Err(conflict_at(id, position, &format!("found it at position {found}")).into())
                }
            },
            _ => Ok(last),
        }
    }

    /// The position of a stream's last record, staged ones included; 0 when it has none.
    fn last_position(&mut self, number: u32) -> Result<u64> {
        let head = self.head(number);
        let position = match head.last_position.get() {
            Ok(position) => return Ok(position),
            Err(since) => self.position_of(number, head.last_sequence, since)?,
        };
        // Also kept if the batch is refused: it is true of what was there before, or taken back with its other changes.
        self.writer.heads[number as usize - 1].last_position = LastPosition::known(position);
        Ok(position)
    }

    /// The position of the record with a sequence of a stream that was changed last at position `since`.
    ///
    /// The newest record of a stream with a sequence is the one that has it now. So it is looked for among those in line,
    /// then among the published ones, where the directory knows it.
    fn position_of(&self, mut number: u32, sequence: u32, mut since: u64) -> Result<u64> {
        let entries = &self.open.entries;
        let start = self.writer.next_position - entries.records.len() as u64;
        let mut records = &entries.records[..];
        loop {
            let is_it = |entry: &Entry| {
                entry.step == 0 && (entry.stream, entry.sequence) == (number, sequence)
            };
            if let Some(place) = records.iter().rposition(is_it) {
                return Ok(start + place as u64);
            }
            if self.durable.directory.stream(number).is_some() {
                break;
            }
            // A fork in line has inherited it: it is what its parent had when the fork was made.
            let fork = |entry: &Entry| {
                let step = entries.steps.get((entry.step as usize).checked_sub(1)?)?;
                (step.kind == Kind::FORK && step.stream == number).then_some(step.other)
            };
            let found = records
                .iter()
                .enumerate()
                .find_map(|(place, entry)| Some((place, fork(entry)?)));
            let Some((place, parent)) = found else {
                return Err(Stop::Publish);
            };
            (number, since) = (parent, u64::MAX);
            records = &records[..place];
        }
        if since >= self.durable.next_position && self.writer.phase.under_way().is_some() {
            // The record may be among those that are being written.
            return Err(Stop::Publish);
        }
        let (source, ordinal) = self
            .durable
            .directory
            .resolve(number, sequence)
            .ok_or_else(|| {
                let message = format!(
                    "stream number {number} has no record {sequence}, which it should have"
                );
                Error::new(ErrorKind::Damaged, message)
            })?;
        self.facts.position(source, ordinal)
    }

    fn up_to(&self, id: &StreamId, sequence: Sequence, last: u32, what: &str) -> Result<u32> {
        u32::try_from(sequence.0)
            .ok()
            .filter(|sequence| *sequence <= last)
            .ok_or_else(|| {
                let message = format!(
                    "stream {id}: can't {what} sequence {sequence}: its last sequence is {last}"
                );
                Error::new(ErrorKind::InvalidInput, message).into()
            })
    }

    /// Stages a data record of a stream.
    fn data(&mut self, stream: u32, sequence: u32, record: &NewRecord<'_>, op_first: bool) {
        let prepared = self
            .bodies
            .next()
            .copied()
            .expect("one body was prepared for each record");
        let key = std::mem::take(&mut self.key);
        let body = Body {
            key,
            meta: record.meta,
            payload: record.payload,
        };
        if !key.is_empty() {
            let hash = self.durable.key_hash(key);
            self.open.entries.keys.push(KeyRow {
                stream,
                hash,
                offset: self.batch_start,
            });
            self.writer.new_keys.insert((stream, hash));
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
        let mut step = StepRow {
            kind,
            stream,
            sequence,
            ordinal: 0,
            offset,
            other: 0,
            target: 0,
            id: [0; 16],
        };
        complete(&mut step);
        self.open.entries.steps.push(step);
        let place = u32::try_from(self.open.entries.steps.len()).expect("a group is bounded");
        self.writer.index_bytes += index::STEP_ROW_BYTES as u64;
        let body = Body {
            key: &[],
            meta,
            payload,
        };
        let prepared = PreparedBody::of(&body);
        self.frame(
            kind,
            stream,
            sequence,
            &body,
            prepared,
            kind != Kind::CREATE,
            place,
        );
        Position(self.writer.next_position - 1)
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "they are the fields of one record header"
    )]
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
        if index.is_multiple_of(index::SAMPLE_EVERY) {
            self.writer.index_bytes += index::SAMPLE_ROW_BYTES as u64;
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
        self.open
            .bytes
            .extend_from_slice(&[0; record::HEADER_BYTES]);
        body.encode_into(&mut self.open.bytes);
        self.held = Some(Held { at, offset, header });
        let time_delta_ms = self.time_delta_ms;
        self.open.entries.records.push(Entry {
            offset,
            stream,
            sequence,
            time_delta_ms,
            step,
        });
    }

    /// Writes the header of a frame whose flags are final.
    fn seal(&mut self, held: &Held) {
        let bytes = held.header.encode(self.writer.active.seed, held.offset);
        self.open.bytes[held.at..held.at + record::HEADER_BYTES].copy_from_slice(&bytes);
    }
}

fn not_found(id: &StreamId) -> Error {
    Error::new(ErrorKind::NotFound, format!("no stream {id}"))
}

pub(crate) fn deleted(id: &StreamId) -> Error {
    Error::new(
        ErrorKind::NotFound,
        format!("stream {id} was deleted; use a new id"),
    )
}

fn already_exists(id: &StreamId) -> Error {
    Error::new(
        ErrorKind::AlreadyExists,
        format!("stream {id} exists already, or was deleted; use a new id"),
    )
}

fn conflict(id: &StreamId, expected: Sequence, found: &str) -> Error {
    Error::new(
        ErrorKind::Conflict,
        format!("stream {id}: expected last sequence {expected}, but it {found}"),
    )
}

fn conflict_at(id: &StreamId, expected: Position, found: &str) -> Error {
    let message =
        format!("stream {id}: expected its last record at position {expected}, but {found}");
    Error::new(ErrorKind::Conflict, message)
}

/// Where the last record is after a step that took later ones away, or shares only earlier ones.
fn last_position_after(sequence: u32, step: Position) -> LastPosition {
    if sequence == 0 {
        LastPosition::known(0)
    } else {
        LastPosition::unknown_since(step.0)
    }
}
