//! What the batch with an idempotency key returned, told from what it wrote.

use super::durable::Durable;
use crate::{
    Appended, Batch, Expected, Kind, Op, OpResult, Position, Result, Sequence, StreamId,
    format::record::Flags,
    log::{scan::Scan, segment::Segment},
};

/// One step of a batch, as it stands in the log. The creation of a stream is one of its own.
struct Written {
    kind: Kind,
    stream: u32,
    records: usize,
    result: OpResult,
    last_position: Position,
}

/// The stream that a batch's key counts in, and the key.
pub(crate) fn keyed_stream<'b>(batch: &'b Batch<'_>) -> Option<(&'b StreamId, &'b [u8])> {
    let key = batch.key?;
    batch.ops.iter().find_map(|op| match op {
        Op::Append { stream, records, .. } if !records.is_empty() => Some((stream, key)),
        _ => None,
    })
}

/// What the batch with this key returned, if there was one in this stream.
pub(crate) fn appended_before(
    durable: &Durable,
    batch: &Batch<'_>,
    stream: &StreamId,
    key: &[u8],
) -> Result<Option<Appended>> {
    let Some(number) = durable.directory.number(stream) else { return Ok(None) };
    let Some(state) = durable.directory.stream(number) else { return Ok(None) };
    let hash = durable.key_hash(key);
    for run in state.runs.iter().rev() {
        let Some(segment) = durable.segment(run.segment) else { continue };
        let offsets: Vec<u64> = match segment.block()? {
            Some(block) => block.keys(number, hash).collect(),
            None => durable.active_index.keys(number, hash).collect(),
        };
        for offset in offsets {
            if let Some(written) = written_at(durable, segment, offset, number, key)? {
                let last_position = written.last().map_or(Position::ZERO, |last| last.last_position);
                let ops = results(durable, batch, &written).unwrap_or_else(|| of_what_was_written(&written));
                return Ok(Some(Appended { last_position, ops, repeated: true }));
            }
        }
    }
    Ok(None)
}

/// The steps of the batch at an offset, if it has this key in this stream.
fn written_at(
    durable: &Durable,
    segment: &Segment,
    offset: u64,
    stream: u32,
    key: &[u8],
) -> Result<Option<Vec<Written>>> {
    let mut scan = Scan::new(segment, offset, durable.end_of(segment));
    let mut written: Vec<Written> = Vec::new();
    let mut matches = false;
    while let Some(frame) = scan.next()? {
        let header = &frame.header;
        let position = Position(segment.header.base_position + u64::from(header.index));
        matches |= header.flags.has(Flags::KEY) && header.stream == stream && frame.key() == Some(key);
        let last_sequence = match header.kind {
            Kind::CREATE | Kind::DELETE | Kind::REDACT => Sequence::ZERO,
            _ => Sequence(u64::from(header.sequence)),
        };
        match written.last_mut().filter(|_| header.kind.is_data() && !header.flags.has(Flags::OP_FIRST)) {
            Some(step) => {
                step.result.last_sequence = last_sequence;
                step.last_position = position;
                step.records += 1;
            }
            None => written.push(Written {
                kind: header.kind,
                stream: header.stream,
                records: 1,
                result: OpResult { position, last_sequence },
                last_position: position,
            }),
        }
        if header.flags.has(Flags::BATCH_LAST) {
            break;
        }
    }
    Ok(matches.then_some(written))
}

/// The result of each step of a batch that was written; `None` if what was written is another batch's.
fn results(durable: &Durable, batch: &Batch<'_>, written: &[Written]) -> Option<Vec<OpResult>> {
    let mut rest = written.iter().peekable();
    let mut before = Position(written.first()?.result.position.0 - 1);
    let mut results = Vec::with_capacity(batch.ops.len());
    for op in &batch.ops {
        let is_of = |step: &Written, stream: &StreamId| durable.directory.number(stream) == Some(step.stream);
        let created = match op {
            Op::Append { stream, .. } => rest.next_if(|next| next.kind == Kind::CREATE && is_of(next, stream)),
            _ => None,
        };
        before = created.map_or(before, |created| created.last_position);
        if let Op::Append { expected, records, .. } = op
            && records.is_empty()
        {
            let last_sequence = match (created, expected) {
                (Some(_), _) => Sequence::ZERO,
                (None, Expected::Last(sequence)) => *sequence,
                (None, _) => return None,
            };
            results.push(OpResult { position: before, last_sequence });
            continue;
        }
        let step = rest.next_if(|next| match op {
            Op::Append { stream, records, .. } => {
                next.kind.is_data() && next.records == records.len() && is_of(next, stream)
            }
            Op::Truncate { stream, .. } => next.kind == Kind::TRUNCATE && is_of(next, stream),
            Op::Fork { child, .. } => next.kind == Kind::FORK && is_of(next, child),
            Op::Snapshot { stream, .. } => next.kind == Kind::SNAPSHOT && is_of(next, stream),
            Op::Delete { stream, .. } => next.kind == Kind::DELETE && is_of(next, stream),
            Op::Redact { .. } => next.kind == Kind::REDACT,
        })?;
        results.push(step.result);
        before = step.last_position;
    }
    rest.next().is_none().then_some(results)
}

fn of_what_was_written(written: &[Written]) -> Vec<OpResult> {
    written.iter().filter(|step| step.kind != Kind::CREATE).map(|step| step.result).collect()
}
