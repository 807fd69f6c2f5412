//! Checks a batch against the state without changing it, so that applying it can't fail half way.

use std::collections::HashMap;

use runlog_engine::{
    Batch, Error, ErrorKind, Expected, NewRecord, Op, Position, Sequence, StreamId,
    limits::{
        BATCH_BYTES_MAX, BATCH_RECORDS_MAX, KEY_BYTES_MAX, META_BYTES_MAX, PAYLOAD_BYTES_MAX, SEQUENCE_MAX, STREAMS_MAX,
    },
};

use super::state::State;
use crate::Result;

/// What a stream will be after the steps checked so far.
#[derive(Clone)]
enum Sketch {
    Absent,
    Deleted,
    Present(Present),
}

/// A stream that is there.
#[derive(Clone)]
struct Present {
    last: Sequence,
    /// The stream whose records it begins with, as they are before the batch.
    base: StreamId,
    /// The records that the batch appends: first sequence, and the position of that one.
    own: Vec<(Sequence, Position)>,
}

impl Present {
    fn cut(&mut self, after: Sequence) {
        self.last = after;
        self.own.retain(|(first, _)| *first <= after);
    }

    /// The position of the last record.
    fn last_position(&self, state: &State) -> Position {
        match self.own.last() {
            Some((first, position)) => Position(position.0 + (self.last.0 - first.0)),
            None => state.position_at(self.base, self.last).unwrap_or(Position::ZERO),
        }
    }
}

struct Plan<'a> {
    state: &'a State,
    touched: HashMap<StreamId, Sketch>,
    bytes: usize,
    records: usize,
    streams: u64,
    /// The position of the last record so far.
    position: Position,
}

/// Checks every step of the batch, in order, each against what those before it leave.
pub(super) fn check(state: &State, batch: &Batch<'_>) -> Result<()> {
    let (streams, position) = (state.stream_count(), state.last_position());
    let mut plan = Plan { state, touched: HashMap::new(), bytes: 0, records: 0, streams, position };
    for op in &batch.ops {
        plan.step(op)?;
    }
    if plan.bytes > BATCH_BYTES_MAX {
        return Err(error(
            ErrorKind::TooLarge,
            format!("the batch has {} bytes, at most {BATCH_BYTES_MAX} are allowed; split it", plan.bytes),
        ));
    }
    if plan.records > BATCH_RECORDS_MAX {
        return Err(error(
            ErrorKind::TooLarge,
            format!("the batch has {} records, at most {BATCH_RECORDS_MAX} are allowed; split it", plan.records),
        ));
    }
    if plan.streams > u64::from(STREAMS_MAX) {
        return Err(error(ErrorKind::TooLarge, format!("a store holds at most {STREAMS_MAX} streams")));
    }
    Ok(())
}

pub(super) fn deleted(stream: StreamId) -> crate::Error {
    error(ErrorKind::NotFound, format!("stream {stream} was deleted, and its id can't be used again; use another"))
}

/// Checks an idempotency key, and gives the stream it belongs to.
pub(super) fn key_stream(batch: &Batch<'_>, key: &[u8]) -> Result<StreamId> {
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        return Err(error(
            ErrorKind::InvalidInput,
            format!("an idempotency key has 1 to {KEY_BYTES_MAX} bytes, this one has {}", key.len()),
        ));
    }
    // As in the engine: nothing would tell a repeat which sequence it found.
    let untold = batch.ops.iter().find_map(|op| match op {
        Op::Append { expected: Expected::Last(_) | Expected::Absent, .. } => None,
        Op::Append { stream, records, .. } if records.is_empty() => Some(stream),
        _ => None,
    });
    if let Some(stream) = untold {
        return Err(error(
            ErrorKind::InvalidInput,
            format!(
                "stream {stream}: in a batch with an idempotency key an append of no records must say which last \
                 sequence it expects, or that the stream is absent"
            ),
        ));
    }
    let first = batch.ops.iter().find_map(|op| match op {
        Op::Append { stream, records, .. } if !records.is_empty() => Some(*stream),
        _ => None,
    });
    first.ok_or_else(|| {
        error(
            ErrorKind::InvalidInput,
            "a batch with an idempotency key must append at least one record, whose stream keeps the key",
        )
    })
}

impl Plan<'_> {
    fn sketch(&self, stream: StreamId) -> Sketch {
        if let Some(sketch) = self.touched.get(&stream) {
            return sketch.clone();
        }
        match self.state.info(stream) {
            Some(info) => Sketch::Present(Present { last: info.last_sequence, base: stream, own: Vec::new() }),
            None if self.state.is_deleted(stream) => Sketch::Deleted,
            None => Sketch::Absent,
        }
    }

    fn step(&mut self, op: &Op<'_>) -> Result<()> {
        self.records += 1;
        match *op {
            Op::Append { stream, expected, ref records } => self.append(stream, expected, records),
            Op::Truncate { stream, expected, after } => {
                let mut found = self.expected(stream, expected)?;
                if after > found.last {
                    return Err(beyond(stream, after, found.last));
                }
                found.cut(after);
                self.put(stream, Sketch::Present(found));
                Ok(())
            }
            Op::Fork { parent, expected, at, child } => {
                let mut found = self.expected(parent, expected)?;
                if at > found.last {
                    return Err(beyond(parent, at, found.last));
                }
                self.make(child)?;
                found.cut(at);
                self.put(child, Sketch::Present(found));
                Ok(())
            }
            Op::Snapshot { stream, expected, sequence, meta, payload } => {
                self.sizes(meta, payload)?;
                let last = self.expected(stream, expected)?.last;
                if sequence > last {
                    return Err(beyond(stream, sequence, last));
                }
                self.position = self.position.next();
                Ok(())
            }
            Op::Delete { stream, expected } => {
                self.expected(stream, expected)?;
                self.put(stream, Sketch::Deleted);
                Ok(())
            }
            Op::Redact { position, reason } => {
                self.sizes(reason.as_bytes(), &[])?;
                if self.state.is_redactable(position) {
                    self.position = self.position.next();
                    return Ok(());
                }
                Err(error(ErrorKind::NotFound, format!("no record of data at position {position}")))
            }
        }
    }

    fn append(&mut self, stream: StreamId, expected: Expected, records: &[NewRecord<'_>]) -> Result<()> {
        let mut found = match self.sketch(stream) {
            Sketch::Present(_) => self.expected(stream, expected)?,
            Sketch::Absent if expected == Expected::Exists => return Err(missing(stream)),
            Sketch::Deleted => return Err(deleted(stream)),
            Sketch::Absent => {
                self.make(stream)?;
                let made = Present { last: Sequence::ZERO, base: stream, own: Vec::new() };
                if expected != Expected::Absent {
                    expect(stream, expected, &made, self.state)?;
                }
                // The record of its creation.
                self.position = self.position.next();
                made
            }
        };
        self.records += records.len();
        for record in records {
            if !record.kind.is_data() {
                let kind = record.kind.0;
                return Err(error(ErrorKind::InvalidInput, format!("kind {kind} is the engine's; give one below 128")));
            }
            self.sizes(record.meta, record.payload)?;
        }
        let after = found.last.0.saturating_add(records.len() as u64);
        if after > SEQUENCE_MAX {
            return Err(error(
                ErrorKind::TooLarge,
                format!("stream {stream} would pass its highest sequence, {SEQUENCE_MAX}"),
            ));
        }
        if !records.is_empty() {
            found.own.push((found.last.next(), self.position.next()));
        }
        found.last = Sequence(after);
        self.position = Position(self.position.0 + records.len() as u64);
        self.touched.insert(stream, Sketch::Present(found));
        Ok(())
    }

    fn make(&mut self, stream: StreamId) -> Result<()> {
        match self.sketch(stream) {
            Sketch::Absent => {
                self.streams += 1;
                Ok(())
            }
            Sketch::Present(_) => Err(error(ErrorKind::AlreadyExists, format!("stream {stream} exists already"))),
            Sketch::Deleted => Err(error(
                ErrorKind::AlreadyExists,
                format!("stream {stream} was deleted, and its id can't be used again; use another"),
            )),
        }
    }

    /// A stream that is there, and is as the writer believes.
    fn expected(&self, stream: StreamId, expected: Expected) -> Result<Present> {
        match self.sketch(stream) {
            Sketch::Present(found) => expect(stream, expected, &found, self.state).map(|()| found),
            Sketch::Absent | Sketch::Deleted => Err(missing(stream)),
        }
    }

    /// What a stream is after a step that is one record.
    fn put(&mut self, stream: StreamId, sketch: Sketch) {
        self.position = self.position.next();
        self.touched.insert(stream, sketch);
    }

    fn sizes(&mut self, meta: &[u8], payload: &[u8]) -> Result<()> {
        for (what, length, max) in
            [("metadata", meta.len(), META_BYTES_MAX), ("payload", payload.len(), PAYLOAD_BYTES_MAX)]
        {
            if length > max {
                return Err(error(
                    ErrorKind::TooLarge,
                    format!("the {what} of a record has {length} bytes, at most {max} are allowed"),
                ));
            }
            self.bytes = self.bytes.saturating_add(length);
        }
        Ok(())
    }
}

/// Checks what the writer believes of a stream that is there.
fn expect(stream: StreamId, expected: Expected, found: &Present, state: &State) -> Result<()> {
    match expected {
        Expected::Last(wanted) if wanted != found.last => Err(error(
            ErrorKind::Conflict,
            format!("stream {stream} should end at sequence {wanted}, but ends at {}", found.last),
        )),
        Expected::At(wanted) if wanted != found.last_position(state) => Err(error(
            ErrorKind::Conflict,
            format!("stream {stream} should end with position {wanted}, but ends with {}", found.last_position(state)),
        )),
        Expected::Absent => Err(error(ErrorKind::AlreadyExists, format!("stream {stream} exists already"))),
        _ => Ok(()),
    }
}

fn missing(stream: StreamId) -> crate::Error {
    error(ErrorKind::NotFound, format!("no stream {stream}"))
}

fn beyond(stream: StreamId, sequence: Sequence, last: Sequence) -> crate::Error {
    error(ErrorKind::InvalidInput, format!("stream {stream} ends at sequence {last}, before {sequence}"))
}

fn error(kind: ErrorKind, message: impl Into<String>) -> crate::Error {
    Error::new(kind, message).into()
}
