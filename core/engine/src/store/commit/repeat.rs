//! Idempotency keys: finding the batch with a key, and what it returned, from what it wrote.
//!
//! Only hashes of keys are indexed, so whether a batch has the key is read from the log, without the writer's lock. What may
//! be published meanwhile is checked again under it ([`Keyed::state`]), from memory alone.

use std::collections::HashMap;

use super::shared::Shared;
use crate::{
    Appended, Batch, Expected, Kind, Op, OpResult, Position, Result, SegmentId, Sequence, StreamId,
    checksum,
    format::record::Flags,
    log::{scan::Scan, segment::Segment},
    store::{
        place::position_of,
        published::{
            durable::{Durable, Spot},
            keys::sealed_keys,
        },
        staging::{refusals::deleted, writer::Writer},
    },
    sync::Arc,
};

/// One op of a batch, as the log has it. The creation of a stream counts as an op.
struct Step {
    kind: Kind,
    stream: u32,
    records: usize,
    result: OpResult,
    last_position: Position,
}

/// A batch, as the log has it.
struct Written {
    segment: SegmentId,
    steps: Vec<Step>,
    /// By stream: sequence and offset of those of its data records that it didn't truncate or delete itself.
    left: HashMap<u32, Vec<(u32, u64)>>,
}

/// The key of a batch, and what is known of it so far.
pub(crate) struct Keyed<'b> {
    stream: &'b StreamId,
    key: &'b [u8],
    hash: u64,
    looked: Option<Looked>,
}

/// Where a key was looked for and not found.
struct Looked {
    /// In all segments before this one.
    active: SegmentId,
    /// In this one, at these offsets: another key has the same hash.
    others: Vec<u64>,
}

/// What is known of the key of a batch that is to be staged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum KeyState {
    /// Nothing: there is no batch with this key in this stream.
    New,
    /// Something was published since the key was looked for.
    LookAgain,
    /// A batch with this key is staged, and has to be published first.
    Staged,
}

impl<'b> Keyed<'b> {
    /// The key of a batch and the stream that it counts in: that of the first append of records.
    pub(crate) fn of(batch: &'b Batch<'_>, hash_key: &[u8; 16]) -> Option<Self> {
        let key = batch.key?;
        batch.ops.iter().find_map(|op| match op {
            Op::Append {
                stream, records, ..
            } if !records.is_empty() => Some(Self {
                stream,
                key,
                hash: checksum::key_hash(hash_key, key),
                looked: None,
            }),
            _ => None,
        })
    }

    /// What is to be done, seen under the writer's lock. It reads nothing.
    ///
    /// A deleted stream refuses the batch before its ops are checked: in a repeat, the ops
    /// would meet their own first effect.
    pub(crate) fn state(&self, writer: &Writer, durable: &Durable) -> Result<KeyState> {
        let Some(number) = writer.number(durable, self.stream) else {
            return Ok(KeyState::New);
        };
        if writer.is_deleted(number) {
            return Err(deleted(self.stream));
        }
        if writer.is_key_staged(number, self.hash) {
            return Ok(KeyState::Staged);
        }
        if durable.directory.stream(number).is_none() {
            return Ok(KeyState::New);
        }
        let Some(looked) = &self.looked else {
            return Ok(KeyState::LookAgain);
        };
        let is_seen = |offset| looked.others.contains(&offset);
        let is_current = durable
            .active()
            .is_some_and(|active| active.id() == looked.active);
        match is_current && durable.active_index.keys(number, self.hash).all(is_seen) {
            true => Ok(KeyState::New),
            false => Ok(KeyState::LookAgain),
        }
    }
}

impl Shared {
    /// What the batch with this key returned, if there was one in this stream, which is still there. No lock is held while
    /// it reads.
    pub(crate) fn repeated(
        &self,
        batch: &Batch<'_>,
        keyed: &mut Keyed<'_>,
    ) -> Result<Option<Appended>> {
        let hash = keyed.hash;
        let (number, active, has_sealed, mut places) = {
            let durable = self.durable();
            let Some(number) = durable.directory.number(keyed.stream) else {
                return Ok(None);
            };
            let Some(state) = durable.directory.stream(number) else {
                return Ok(None);
            };
            let Some(active) = durable.active().filter(|_| !state.deleted) else {
                return Ok(None);
            };
            let has_sealed = state
                .runs
                .first()
                .is_some_and(|run| run.segment < active.id());
            let offsets = durable.active_index.keys(number, hash);
            let places: Vec<_> = offsets
                .map(|offset| (active.clone(), offset, durable.end))
                .collect();
            (number, active.id(), has_sealed, places)
        };
        let mut looked = keyed.looked.take().filter(|looked| looked.active == active);
        places.retain(|(_, offset, _)| {
            looked
                .as_ref()
                .is_none_or(|looked| !looked.others.contains(offset))
        });
        if has_sealed && looked.is_none() {
            for (segment, offset) in sealed_keys(&self.keys, &self.durable, number, hash, active)? {
                let end = segment.trailer().map_or(0, |trailer| trailer.data_end);
                places.push((segment, offset, end));
            }
        }
        let others = &mut looked
            .get_or_insert(Looked {
                active,
                others: Vec::new(),
            })
            .others;
        for (segment, offset, end) in places {
            if let Some(written) = written_at(&segment, offset, end, number, keyed.key)? {
                // What is in line may truncate or delete what it wrote.
                self.flush(false)?;
                return self.result_of(batch, number, &written);
            }
            if segment.id() == active {
                others.push(offset);
            }
        }
        keyed.looked = looked;
        Ok(None)
    }

    /// What a batch that was written returns when it is repeated as `batch`; `None` when the stream of its key was deleted.
    fn result_of(
        &self,
        batch: &Batch<'_>,
        number: u32,
        written: &Written,
    ) -> Result<Option<Appended>> {
        let durable = self.durable();
        let is_there = |number| {
            durable
                .directory
                .stream(number)
                .is_some_and(|stream| !stream.deleted)
        };
        if !is_there(number) {
            return Ok(None);
        }
        let steps = &written.steps;
        let ops = results(&durable, batch, steps).unwrap_or_else(|| of_what_was_written(steps));
        // Of each stream the last record: a truncation that took an earlier one took it too.
        let mut truncated = false;
        let mut last: Vec<(Spot, u64)> = Vec::new();
        for (stream, left) in &written.left {
            let Some((sequence, offset)) = left.last() else {
                continue;
            };
            match durable
                .directory
                .resolve(*stream, *sequence)
                .filter(|_| is_there(*stream))
            {
                Some((source, ordinal)) => last.push((durable.spot(source, ordinal)?, *offset)),
                None => truncated = true,
            }
        }
        drop(durable);
        for (spot, offset) in last {
            truncated |= (spot.segment.id(), spot.offset()?) != (written.segment, offset);
        }
        let last_position = steps
            .last()
            .map_or(Position::ZERO, |last| last.last_position);
        Ok(Some(Appended {
            last_position,
            ops,
            repeated: true,
            truncated,
        }))
    }
}

/// The batch at an offset, if it has this key in this stream.
fn written_at(
    segment: &Arc<Segment>,
    offset: u64,
    end: u64,
    stream: u32,
    key: &[u8],
) -> Result<Option<Written>> {
    let mut scan = Scan::new(segment, offset, end);
    let mut written = Written {
        segment: segment.id(),
        steps: Vec::new(),
        left: HashMap::new(),
    };
    let mut matches = false;
    while let Some(frame) = scan.next()? {
        let header = &frame.header;
        let position = Position(position_of(segment, &frame));
        matches |=
            header.flags.has(Flags::KEY) && header.stream == stream && frame.key() == Some(key);
        let last_sequence = match header.kind {
            Kind::CREATE | Kind::DELETE | Kind::REDACT => Sequence::ZERO,
            _ => Sequence(u64::from(header.sequence)),
        };
        let left = written.left.entry(header.stream).or_default();
        match header.kind {
            Kind::TRUNCATE => {
                let kept = left.partition_point(|(sequence, _)| *sequence <= header.sequence);
                left.truncate(kept);
            }
            Kind::DELETE => left.clear(),
            kind if kind.is_data() => left.push((header.sequence, frame.offset)),
            _ => {}
        }
        match written
            .steps
            .last_mut()
            .filter(|_| header.kind.is_data() && !header.flags.has(Flags::OP_FIRST))
        {
            Some(step) => {
                step.result.last_sequence = last_sequence;
                step.last_position = position;
                step.records += 1;
            }
            None => written.steps.push(Step {
                kind: header.kind,
                stream: header.stream,
                records: 1,
                result: OpResult {
                    position,
                    last_sequence,
                },
                last_position: position,
            }),
        }
        if header.flags.has(Flags::BATCH_LAST) {
            break;
        }
    }
    Ok(matches.then_some(written))
}

/// The result of each op of a batch that was written; `None` if what was written is another batch's.
fn results(durable: &Durable, batch: &Batch<'_>, written: &[Step]) -> Option<Vec<OpResult>> {
    let mut rest = written.iter().peekable();
    let mut before = Position(written.first()?.result.position.0 - 1);
    let mut results = Vec::with_capacity(batch.ops.len());
    for op in &batch.ops {
        let is_of =
            |step: &Step, stream: &StreamId| durable.directory.number(stream) == Some(step.stream);
        let created = match op {
            Op::Append { stream, .. } => {
                rest.next_if(|next| next.kind == Kind::CREATE && is_of(next, stream))
            }
            _ => None,
        };
        before = created.map_or(before, |created| created.last_position);
        if let Op::Append {
            expected, records, ..
        } = op
            && records.is_empty()
        {
            let last_sequence = match (created, expected) {
                (Some(_), _) => Sequence::ZERO,
                (None, Expected::Last(sequence)) => *sequence,
                (None, _) => return None,
            };
            results.push(OpResult {
                position: before,
                last_sequence,
            });
            continue;
        }
        let step = rest.next_if(|next| match op {
            Op::Append {
                stream, records, ..
            } => next.kind.is_data() && next.records == records.len() && is_of(next, stream),
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

fn of_what_was_written(written: &[Step]) -> Vec<OpResult> {
    written
        .iter()
        .filter(|step| step.kind != Kind::CREATE)
        .map(|step| step.result)
        .collect()
}
