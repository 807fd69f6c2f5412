//! Checks a batch against the state without changing it, so that applying it can't fail half way.

use std::collections::HashMap;

use runlog_engine::{
    Batch, Error, ErrorKind, Expected, NewRecord, Op, Sequence, StreamId,
    limits::{
        BATCH_BYTES_MAX, BATCH_RECORDS_MAX, KEY_BYTES_MAX, META_BYTES_MAX, PAYLOAD_BYTES_MAX, SEQUENCE_MAX, STREAMS_MAX,
    },
};

use super::state::State;
use crate::Result;

/// What a stream will be after the steps checked so far.
#[derive(Clone, Copy)]
enum Sketch {
    Absent,
    Deleted,
    Present(Sequence),
}

struct Plan<'a> {
    state: &'a State,
    touched: HashMap<StreamId, Sketch>,
    bytes: usize,
    records: usize,
    streams: u64,
}

/// Checks every step of the batch, in order, each against what those before it leave.
pub(super) fn check(state: &State, batch: &Batch<'_>) -> Result<()> {
    let mut plan = Plan { state, touched: HashMap::new(), bytes: 0, records: 0, streams: state.stream_count() };
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
        Op::Append { stream, expected: Expected::Any | Expected::Exists, records } if records.is_empty() => {
            Some(stream)
        }
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
            return *sketch;
        }
        match self.state.info(stream) {
            Some(info) => Sketch::Present(info.last_sequence),
            None if self.state.is_deleted(stream) => Sketch::Deleted,
            None => Sketch::Absent,
        }
    }

    fn step(&mut self, op: &Op<'_>) -> Result<()> {
        self.records += 1;
        match *op {
            Op::Append { stream, expected, ref records } => self.append(stream, expected, records),
            Op::Truncate { stream, expected, after } => {
                let last = self.present(stream)?;
                expect(stream, expected, last)?;
                if after > last {
                    return Err(beyond(stream, after, last));
                }
                self.touched.insert(stream, Sketch::Present(after));
                Ok(())
            }
            Op::Fork { parent, at, child } => {
                let last = self.present(parent)?;
                if at > last {
                    return Err(beyond(parent, at, last));
                }
                self.make(child)?;
                self.touched.insert(child, Sketch::Present(at));
                Ok(())
            }
            Op::Snapshot { stream, sequence, meta, payload } => {
                self.sizes(meta, payload)?;
                let last = self.present(stream)?;
                if sequence > last {
                    return Err(beyond(stream, sequence, last));
                }
                Ok(())
            }
            Op::Delete { stream, expected } => {
                let last = self.present(stream)?;
                expect(stream, expected, last)?;
                self.touched.insert(stream, Sketch::Deleted);
                Ok(())
            }
            Op::Redact { position, reason } => {
                self.sizes(reason.as_bytes(), &[])?;
                if self.state.is_redactable(position) {
                    return Ok(());
                }
                Err(error(ErrorKind::NotFound, format!("no record of data at position {position}")))
            }
        }
    }

    fn append(&mut self, stream: StreamId, expected: Expected, records: &[NewRecord<'_>]) -> Result<()> {
        let last = match self.sketch(stream) {
            Sketch::Present(last) => {
                expect(stream, expected, last)?;
                last
            }
            Sketch::Absent if expected == Expected::Exists => return Err(missing(stream)),
            Sketch::Deleted => {
                return Err(error(
                    ErrorKind::NotFound,
                    format!("stream {stream} was deleted, and its id can't be used again; use another"),
                ));
            }
            Sketch::Absent => {
                self.make(stream)?;
                if expected != Expected::Absent {
                    expect(stream, expected, Sequence::ZERO)?;
                }
                Sequence::ZERO
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
        let after = last.0.saturating_add(records.len() as u64);
        if after > SEQUENCE_MAX {
            return Err(error(
                ErrorKind::TooLarge,
                format!("stream {stream} would pass its highest sequence, {SEQUENCE_MAX}"),
            ));
        }
        self.touched.insert(stream, Sketch::Present(Sequence(after)));
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

    fn present(&self, stream: StreamId) -> Result<Sequence> {
        match self.sketch(stream) {
            Sketch::Present(last) => Ok(last),
            Sketch::Absent | Sketch::Deleted => Err(missing(stream)),
        }
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
fn expect(stream: StreamId, expected: Expected, last: Sequence) -> Result<()> {
    match expected {
        Expected::Last(wanted) if wanted != last => Err(error(
            ErrorKind::Conflict,
            format!("stream {stream} should end at sequence {wanted}, but ends at {last}"),
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
