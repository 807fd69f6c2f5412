//! Staging a batch atomically.

use super::{
    batch::{Result, Staging, Undo},
    due::Due,
    encode::push_mark,
    facts::Facts,
    heads::LastPosition,
    open_group::OpenGroup,
    prepare::Prepared,
    refusals::{already_exists, conflict, conflict_at, deleted, not_found},
    writer::{Staged, Writer},
};
use runlog_log::redacted_positions;

use crate::{
    Batch, Durability, Error, Expected, Kind, NewRecord, Op, OpResult, Position, Sequence,
    StreamId,
    format::record::{self, Flags},
    limits,
    store::{place::Place, published::durable::Durable},
};

impl Writer {
    /// Checks a batch against what is staged, and stages it in the open group, whole or not at all. The caller has
    /// checked that the segment has space.
    pub(crate) fn stage(
        &mut self,
        durable: &Durable,
        batch: &Batch<'_>,
        prepared: &Prepared,
        facts: &Facts,
        durability: Durability,
        now_ms: u64,
    ) -> Result<Staged> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => OpenGroup::new(self.end, std::mem::take(&mut self.spare_buffer)),
        };
        let time_ms = self.time_ms(now_ms);
        if let Some(epoch) = self.mark {
            push_mark(self, &mut open, epoch);
        }
        let mut undo = Undo {
            bytes: open.bytes.len(),
            records: open.entries.records.len(),
            controls: open.entries.controls.len(),
            keys: open.entries.keys.len(),
            labels: open.entries.labels.len(),
            heads: self.heads.len(),
            index_bytes: self.index_bytes,
            next_position: self.next_position,
            created: Vec::new(),
        };
        self.changed.clear();
        let staged = Staging {
            writer: self,
            durable,
            facts,
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
            // A batch without a record stages nothing, not even the writer's mark.
            Ok(staged) if staged.is_empty => {}
            Ok(_) => {
                self.end = open.end();
                self.last_time_ms = time_ms;
                open.sync |= durability == Durability::Sync;
                let due = durability.interval_ms().map(|ms| Due::after(now_ms, ms));
                open.due = Due::earliest(open.due, due);
            }
            Err(_) => self.undo(&mut open, undo, durable),
        }
        if open.entries.records.is_empty() {
            // A mark in it is dropped too, and staged again before the next batch.
            self.spare_buffer = open.bytes;
        } else {
            self.staged_mark = self.mark.take().or(self.staged_mark);
            self.open = Some(open);
        }
        staged
    }

    fn undo(&mut self, open: &mut OpenGroup, undo: Undo, durable: &Durable) {
        open.bytes.truncate(undo.bytes);
        open.entries.records.truncate(undo.records);
        open.entries.controls.truncate(undo.controls);
        open.entries.labels.truncate(undo.labels);
        for key in open.entries.keys.drain(undo.keys..) {
            // No other staged batch has this key: this one would have waited for that.
            self.new_keys.remove(&(key.stream, key.hash));
        }
        for (number, head) in self.changed.drain(..).rev() {
            *self.heads.get_mut(number, &durable.directory) = head;
        }
        for id in undo.created {
            self.new_ids.remove(&id);
        }
        self.heads.truncate(undo.heads);
        self.index_bytes = undo.index_bytes;
        self.next_position = undo.next_position;
    }
}

impl Staging<'_, '_> {
    pub(crate) fn run(mut self, batch: &Batch<'_>, time_ms: u64) -> Result<Staged> {
        let base_time_ms = self.writer.active.header.base_time_ms;
        self.time_delta_ms = u32::try_from(time_ms.saturating_sub(base_time_ms)).map_err(|_| {
            Error::invalid(format!(
                "the clock says {time_ms} ms, too far from {base_time_ms} ms"
            ))
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
                let position = self.control(Kind::TRUNCATE, number, sequence, &[], &[], |_| {});
                let head = self.change(number);
                head.last_sequence = sequence;
                if sequence < last {
                    head.last_position = last_position_after(sequence, position);
                }
                Ok(result(position, *after))
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
                let position =
                    self.control(Kind::FORK, number, sequence, &[], &payload, |control| {
                        control.other = parent_number;
                        control.id = *child.as_bytes();
                    });
                let head = self.change(number);
                head.last_sequence = sequence;
                head.last_position = match shared.get() {
                    Ok(_) if sequence == last => shared,
                    _ => last_position_after(sequence, position),
                };
                Ok(result(position, *at))
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
                let position = self.control(Kind::SNAPSHOT, number, at, meta, payload, |_| {});
                Ok(result(position, *sequence))
            }
            Op::Delete { stream, expected } => {
                let number = self.existing(stream)?;
                self.expect(stream, number, *expected)?;
                let position = self.control(Kind::DELETE, number, 0, &[], &[], |_| {});
                self.change(number).deleted = true;
                Ok(result(position, Sequence::ZERO))
            }
            Op::Redact { position, reason } => self.redact(*position, 0, reason),
            Op::RedactMany {
                first,
                others,
                reason,
            } => self.redact(*first, *others, reason),
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
                self.control(Kind::CREATE, number, 0, &[], &bytes, |control| {
                    control.id = bytes
                });
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
            Error::too_large(format!(
                "stream {id} is full: a stream has {} sequences",
                limits::SEQUENCE_MAX
            ))
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
            Error::too_large(message)
        })?;
        for (index, (record, sequence)) in records.iter().zip(last.saturating_add(1)..).enumerate()
        {
            self.data(number, sequence, record, index == 0);
        }
        if !records.is_empty() {
            let last_position = LastPosition::known(self.writer.next_position - 1);
            self.writer
                .heads
                .get_mut(number, &self.durable.directory)
                .last_position = last_position;
        }
        let position = if records.is_empty() { first - 1 } else { first };
        Ok(result(
            Position(position),
            Sequence(u64::from(last + count)),
        ))
    }

    fn redact(&mut self, first: Position, others: u128, reason: &str) -> Result<OpResult> {
        for position in redacted_positions(first, others) {
            self.check_redactable(position)?;
        }
        let header = self.facts.header(first)?;
        let payload = record::engine::encode_redact(first.0, others, reason);
        let (stream, sequence) = (header.stream, header.sequence);
        let at = self.control(Kind::REDACT, stream, sequence, &[], &payload, |control| {
            (control.target, control.id) = (first.0, others.to_le_bytes());
        });
        Ok(result(at, Sequence::ZERO))
    }

    fn check_redactable(&self, position: Position) -> Result<()> {
        // A position that a repair left out is none either.
        if Place::of(self.durable, position.plain().0).is_none() {
            return Err(Error::not_found(format!("no record has position {position}")).into());
        }
        let header = self.facts.header(position)?;
        if !header.kind.is_data() && header.kind != Kind::SNAPSHOT {
            let message = format!(
                "position {position} is a record of the engine, which has nothing to redact"
            );
            return Err(Error::invalid(message).into());
        }
        Ok(())
    }
}

/// Where the last record is after an op that took later ones away, or shares only earlier ones.
fn last_position_after(sequence: u32, control: Position) -> LastPosition {
    if sequence == 0 {
        LastPosition::known(0)
    } else {
        LastPosition::unknown_since(control.0)
    }
}

fn result(position: Position, last_sequence: Sequence) -> OpResult {
    OpResult {
        position,
        last_sequence,
    }
}
