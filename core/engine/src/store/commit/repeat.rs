//! Idempotency keys: finding the batch with a key, and rebuilding its result from the records it wrote.
//!
//! Only hashes of keys are indexed, so whether a batch has the key is read from the log, without the writer's lock.
//! Batches published meanwhile are then checked under the lock ([`Keyed::state`]), from memory alone.

use super::shared::Shared;
use crate::{
    Appended, Batch, Expected, Kind, Op, OpResult, Position, Result, SegmentId, Sequence, StreamId,
    checksum,
    store::{
        place::position_of,
        published::{durable::Durable, keys::sealed_keys},
        staging::{refusals::deleted, writer::Writer},
        written::{Step, Written, written_at},
    },
};

/// The key of a batch, and the state of its search.
pub(crate) struct Keyed<'b> {
    stream: &'b StreamId,
    key: &'b [u8],
    hash: u64,
    looked: Option<Looked>,
}

/// Where a key was searched for and not found.
struct Looked {
    /// In all segments before this one.
    active: SegmentId,
    /// In this one, at these offsets: another key has the same hash.
    others: Vec<u64>,
}

/// The state of a key, of a batch to be staged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum KeyState {
    /// No batch in this stream has this key.
    New,
    /// Batches were published since the search, so it has to be repeated.
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

    /// The state of the key under the writer's lock. It does no I/O.
    ///
    /// A deleted stream refuses the batch before its ops are checked: in a repeat, the ops
    /// would meet their own first effect.
    pub(crate) fn state(&self, writer: &Writer, durable: &Durable) -> Result<KeyState> {
        let Some(number) = writer.number(durable, self.stream) else {
            return Ok(KeyState::New);
        };
        if writer.is_deleted(number, durable) {
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
    /// The result of the earlier batch with this key in this stream, if there is one and the stream isn't deleted. It
    /// holds no lock while it reads.
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
                // A queued batch may truncate or delete the records of the earlier one.
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

    /// The result of a written batch for its repeat `batch`; `None` if the stream of its key was deleted.
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
        let mut truncated = false;
        let mut last = Vec::new();
        for (stream, (sequence, position)) in &written.left {
            match durable
                .directory
                .resolve(*stream, *sequence)
                .filter(|_| is_there(*stream))
            {
                Some((source, ordinal)) => {
                    let place = written.places.get(stream).copied();
                    last.push((durable.spot(source, ordinal)?, *position, place));
                }
                None => truncated = true,
            }
        }
        drop(durable);
        for (spot, position, place) in last {
            // A record still at the place where the batch wrote it needn't be read.
            truncated |= match place.filter(|(seed, _)| *seed == spot.segment().seed) {
                Some((_, offset)) => spot.offset()? != offset,
                None => position_of(spot.segment(), &spot.frame()?) != position,
            };
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

/// The result of each op of a written batch; `None` if the records are another batch's.
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
            Op::Redact { .. } | Op::RedactMany { .. } => next.kind == Kind::REDACT,
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
