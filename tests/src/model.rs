//! What a store is meant to be: vectors in a map. Slow, small, and obviously right.

use bytes::Bytes;
use runlog_engine::{
    Appended, Batch, Direction, Durability, ErrorKind, Expected, Kind, Label, NewRecord, Op,
    OpResult, Position, ReadOptions, Sequence, StreamId,
};

/// A record to append.
#[derive(Clone, PartialEq, Eq)]
pub struct Item {
    /// What it is.
    pub kind: u8,
    /// What it can be found by.
    pub labels: Vec<Label>,
    /// The small part.
    pub meta: Bytes,
    /// The large part.
    pub payload: Bytes,
}

impl std::fmt::Debug for Item {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Item(kind {}, labels {:?}, {} + {} bytes)",
            self.kind,
            self.labels,
            self.meta.len(),
            self.payload.len()
        )
    }
}

/// A step of a batch, with what it holds.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs, reason = "as in `runlog_engine::Op`")]
pub enum Step {
    Append {
        stream: StreamId,
        expected: Expected,
        records: Vec<Item>,
    },
    Truncate {
        stream: StreamId,
        expected: Expected,
        after: u64,
    },
    Fork {
        parent: StreamId,
        expected: Expected,
        at: u64,
        child: StreamId,
    },
    Snapshot {
        stream: StreamId,
        expected: Expected,
        sequence: u64,
        state: Item,
    },
    Delete {
        stream: StreamId,
        expected: Expected,
    },
    Redact {
        position: u64,
        /// Bit n stands for position + 1 + n.
        others: u128,
        reason: String,
    },
}

impl Step {
    fn is_empty_append(&self) -> bool {
        matches!(self, Self::Append { records, .. } if records.is_empty())
    }

    /// Whether nothing could tell a repeat what it returned.
    fn leaves_nothing_to_tell(&self) -> bool {
        self.is_empty_append()
            && !matches!(
                self,
                Self::Append {
                    expected: Expected::Last(_) | Expected::Absent,
                    ..
                }
            )
    }

    /// Whether it appends a record of 500 bytes or more.
    pub fn is_long(&self) -> bool {
        matches!(self, Self::Append { records, .. } if records.iter().any(|item| item.payload.len() >= 500))
    }

    fn op(&self) -> Op<'_> {
        match self {
            Self::Append {
                stream,
                expected,
                records,
            } => {
                let records = records.iter();
                let records = records.map(|item| NewRecord {
                    labels: &item.labels,
                    kind: Kind(item.kind),
                    meta: &item.meta,
                    payload: &item.payload,
                });
                Op::Append {
                    stream: *stream,
                    expected: *expected,
                    records: records.collect(),
                }
            }
            Self::Truncate {
                stream,
                expected,
                after,
            } => Op::Truncate {
                stream: *stream,
                expected: *expected,
                after: Sequence(*after),
            },
            Self::Fork {
                parent,
                expected,
                at,
                child,
            } => Op::Fork {
                parent: *parent,
                expected: *expected,
                at: Sequence(*at),
                child: *child,
            },
            Self::Snapshot {
                stream,
                expected,
                sequence,
                state,
            } => Op::Snapshot {
                stream: *stream,
                expected: *expected,
                sequence: Sequence(*sequence),
                meta: &state.meta,
                payload: &state.payload,
            },
            Self::Delete { stream, expected } => Op::Delete {
                stream: *stream,
                expected: *expected,
            },
            Self::Redact {
                position,
                others: 0,
                reason,
            } => Op::Redact {
                position: Position(*position),
                reason,
            },
            Self::Redact {
                position,
                others,
                reason,
            } => Op::RedactMany {
                first: Position(*position),
                others: *others,
                reason,
            },
        }
    }
}

/// A batch, with what it holds.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Work {
    /// Its steps.
    pub steps: Vec<Step>,
    /// Its idempotency key.
    pub key: Option<Vec<u8>>,
    /// How durable it is when acknowledged.
    pub durability: Option<Durability>,
}

impl Work {
    /// One step.
    pub fn one(step: Step) -> Self {
        Self {
            steps: vec![step],
            ..Self::default()
        }
    }

    /// One record of a stream, whatever is in it.
    pub fn append(stream: StreamId, payload: impl Into<Bytes>) -> Self {
        let item = Item {
            kind: 0,
            labels: Vec::new(),
            meta: Bytes::new(),
            payload: payload.into(),
        };
        Self::one(Step::Append {
            stream,
            expected: Expected::Any,
            records: vec![item],
        })
    }

    /// As the engine takes it.
    pub fn batch(&self) -> Batch<'_> {
        Batch {
            ops: self.steps.iter().map(Step::op).collect(),
            key: self.key.as_deref(),
            durability: self.durability,
        }
    }

    /// The stream that its key counts in.
    fn keyed_stream(&self) -> Option<StreamId> {
        self.steps.iter().find_map(|step| match step {
            Step::Append {
                stream, records, ..
            } if !records.is_empty() => Some(*stream),
            _ => None,
        })
    }
}

/// A record of the log.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    /// The stream it was written to.
    pub stream: StreamId,
    /// Its sequence, or the one it speaks of.
    pub sequence: u64,
    /// What it is.
    pub kind: u8,
    /// The small part, as written.
    pub meta: Bytes,
    /// The large part, as written.
    pub payload: Bytes,
    /// What it can be found by, as written: rising, and none twice.
    pub labels: Vec<Label>,
    /// Whether reads see none of these.
    pub redacted: bool,
    /// The key of its batch, if it is the record that carries it.
    pub key: Option<Vec<u8>>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let short = &self.payload[..self.payload.len().min(8)];
        write!(
            f,
            "Entry({} of {}, kind {}, {} + {} bytes from {short:02x?}, redacted {}, key {:?})",
            self.sequence,
            self.stream,
            self.kind,
            self.meta.len(),
            self.payload.len(),
            self.redacted,
            self.key
        )
    }
}

/// A stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModelStream {
    /// Its id.
    pub id: StreamId,
    /// Whether it was deleted.
    pub deleted: bool,
    /// The positions of its records, from sequence 1.
    pub positions: Vec<u64>,
    /// Its snapshots that stand: sequence and position.
    pub snapshots: Vec<(u64, u64)>,
}

impl ModelStream {
    /// Its last sequence.
    pub fn last(&self) -> u64 {
        self.positions.len() as u64
    }

    /// The position of its last record, 0 when it has none.
    pub fn last_position(&self) -> u64 {
        self.positions.last().copied().unwrap_or(0)
    }

    fn cut(&mut self, after: u64) {
        self.positions
            .truncate(usize::try_from(after).expect("checked"));
        self.snapshots.retain(|(sequence, _)| *sequence <= after);
    }
}

/// What tells a step that wrote something from others: its kind, its stream, how many data records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Trace(u8, Option<StreamId>, usize);

impl Trace {
    fn of(step: &Step) -> Self {
        match step {
            Step::Append {
                stream, records, ..
            } => Self(0, Some(*stream), records.len()),
            Step::Snapshot { stream, .. } => Self(129, Some(*stream), 0),
            Step::Truncate { stream, .. } => Self(130, Some(*stream), 0),
            Step::Fork { child, .. } => Self(131, Some(*child), 0),
            Step::Delete { stream, .. } => Self(132, Some(*stream), 0),
            Step::Redact { .. } => Self(133, None, 0),
        }
    }

    /// That the step made its stream.
    fn created(self) -> Self {
        Self(128, self.1, 0)
    }
}

/// What a batch with a key did.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Keyed {
    stream: StreamId,
    key: Vec<u8>,
    /// The position before it.
    before: Position,
    written: Vec<(Trace, OpResult)>,
    last_position: Position,
    /// By stream the position of the last record it left there.
    left: Vec<(StreamId, u64)>,
}

impl Keyed {
    /// What a batch of these steps returns under the same key.
    fn repeated(&self, steps: &[Step], truncated: bool) -> Appended {
        let of_others = || {
            self.written
                .iter()
                .filter(|(trace, _)| trace.0 != 128)
                .map(|(_, result)| *result)
                .collect()
        };
        let ops = self.results(steps).unwrap_or_else(of_others);
        Appended {
            last_position: self.last_position,
            ops,
            repeated: true,
            truncated,
        }
    }

    fn results(&self, steps: &[Step]) -> Option<Vec<OpResult>> {
        let mut rest = &self.written[..];
        // Where the log stands after what was passed so far; a stream's creation is the record before its first.
        let mut at = self.before;
        let mut results = Vec::new();
        for step in steps {
            let trace = Trace::of(step);
            let was_created = trace.0 == 0
                && rest
                    .first()
                    .is_some_and(|(first, _)| *first == trace.created());
            if was_created {
                rest = &rest[1..];
                at = Position(at.0 + 1);
            }
            if let Step::Append {
                expected, records, ..
            } = step
                && records.is_empty()
            {
                let last_sequence = match expected {
                    _ if was_created => Sequence(0),
                    Expected::Last(sequence) => *sequence,
                    _ => return None,
                };
                results.push(OpResult {
                    position: at,
                    last_sequence,
                });
                continue;
            }
            let (first, others) = rest.split_first().filter(|(first, _)| first.0 == trace)?;
            at = Position(first.1.position.0 + trace.2.saturating_sub(1) as u64);
            results.push(first.1);
            rest = others;
        }
        rest.is_empty().then_some(results)
    }
}

/// The state of a store.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Model {
    /// Every record; the first has position 1.
    pub log: Vec<Entry>,
    /// Every stream ever made, in order.
    pub streams: Vec<ModelStream>,
    /// What each keyed batch did.
    keys: Vec<Keyed>,
    /// Up to where a compaction may have given up what was not in use; all of it, where that is done in the background.
    pub compacted_to: u64,
}

type Outcome<T> = Result<T, ErrorKind>;

impl Model {
    /// The position of the last record.
    pub fn last_position(&self) -> u64 {
        self.log.len() as u64
    }

    /// The record with a position.
    pub fn entry(&self, position: u64) -> Option<&Entry> {
        self.log
            .get(usize::try_from(position.checked_sub(1)?).ok()?)
    }

    /// Of some records behind a position, as a redaction of many names them, those that are sure to be there and may be
    /// redacted.
    pub fn redactable_behind(&self, position: u64, wanted: u128) -> u128 {
        let is_one = |bit: &u64| {
            let behind = position + 1 + bit;
            wanted & (1 << bit) != 0
                && self
                    .entry(behind)
                    .is_some_and(|entry| entry.kind < 128 || entry.kind == 129)
                && !self.may_be_gone(behind)
        };
        (0..128)
            .filter(is_one)
            .fold(0, |others, bit| others | 1 << bit)
    }

    /// Whether a record may have been given up: a compaction came past it, and no stream has it.
    pub fn may_be_gone(&self, position: u64) -> bool {
        let is_kept = |entry: &Entry| entry.kind >= 128 && entry.kind != 129;
        if position > self.compacted_to || self.entry(position).is_none_or(is_kept) {
            return false;
        }
        let mut living = self.streams.iter().filter(|stream| !stream.deleted);
        !living.any(|stream| {
            let snapshots = stream.snapshots.iter().map(|(_, at)| at);
            stream.positions.contains(&position) || snapshots.copied().any(|at| at == position)
        })
    }

    /// A stream that is there.
    pub fn stream(&self, id: StreamId) -> Option<&ModelStream> {
        self.streams
            .iter()
            .find(|stream| stream.id == id && !stream.deleted)
    }

    /// Does a batch, whole or not at all.
    ///
    /// # Errors
    /// The kind of error that the engine is to give.
    pub fn apply(&mut self, work: &Work) -> Outcome<Appended> {
        if let Some(key) = &work.key {
            let stream = work.keyed_stream().ok_or(ErrorKind::InvalidInput)?;
            if work.steps.iter().any(Step::leaves_nothing_to_tell) {
                return Err(ErrorKind::InvalidInput);
            }
            if self
                .streams
                .iter()
                .any(|found| found.id == stream && found.deleted)
            {
                return Err(ErrorKind::NotFound);
            }
            if let Some(first) = self
                .keys
                .iter()
                .find(|first| first.stream == stream && first.key == *key)
            {
                let is_left = |(id, position): &(StreamId, u64)| {
                    self.stream(*id)
                        .is_some_and(|stream| stream.positions.contains(position))
                };
                return Ok(first.repeated(&work.steps, !first.left.iter().all(is_left)));
            }
        }
        let mut next = self.clone();
        let mut key = work.key.clone();
        let (mut ops, mut written) = (Vec::new(), Vec::new());
        for step in &work.steps {
            let streams = next.streams.len();
            let result = next.step(step, self.last_position(), &mut key)?;
            if matches!(step, Step::Append { .. }) && next.streams.len() > streams {
                written.push((Trace::of(step).created(), result));
            }
            if !step.is_empty_append() {
                written.push((Trace::of(step), result));
            }
            ops.push(result);
        }
        let appended = Appended {
            last_position: Position(next.last_position()),
            ops,
            repeated: false,
            truncated: false,
        };
        if let (Some(key), Some(stream)) = (work.key.clone(), work.keyed_stream()) {
            let before = Position(self.last_position());
            let last = next
                .streams
                .iter()
                .filter_map(|stream| Some((stream, *stream.positions.last()?)));
            let is_own = |stream: &ModelStream, position: u64| {
                position > before.0
                    && next.entry(position).expect("in the log").stream == stream.id
                    && !stream.deleted
            };
            let left = last.filter(|(stream, position)| is_own(stream, *position));
            let left = left
                .map(|(stream, position)| (stream.id, position))
                .collect();
            next.keys.push(Keyed {
                stream,
                key,
                before,
                written,
                last_position: appended.last_position,
                left,
            });
        }
        *self = next;
        Ok(appended)
    }

    /// Redactions reach what was there before the batch, up to `published`.
    fn step(
        &mut self,
        step: &Step,
        published: u64,
        key: &mut Option<Vec<u8>>,
    ) -> Outcome<OpResult> {
        match step {
            Step::Append {
                stream,
                expected,
                records,
            } => self.append(*stream, *expected, records, key),
            Step::Truncate {
                stream,
                expected,
                after,
            } => {
                let found = self.living(*stream)?;
                expect(found, *expected)?;
                reaches(found, *after)?;
                found.cut(*after);
                Ok(self.push(*stream, *after, 130, &[], &[], *after))
            }
            Step::Fork {
                parent,
                expected,
                at,
                child,
            } => {
                let found = self.living(*parent)?;
                expect(found, *expected)?;
                reaches(found, *at)?;
                let mut made = ModelStream {
                    id: *child,
                    ..found.clone()
                };
                made.cut(*at);
                if self.streams.iter().any(|stream| stream.id == *child) {
                    return Err(ErrorKind::AlreadyExists);
                }
                let parent = self
                    .streams
                    .iter()
                    .position(|stream| stream.id == *parent)
                    .expect("just found")
                    + 1;
                let parent = u32::try_from(parent).expect("few streams");
                self.streams.push(made);
                let payload = [child.as_bytes().as_slice(), &parent.to_le_bytes()].concat();
                Ok(self.push(*child, *at, 131, &[], &payload, *at))
            }
            Step::Snapshot {
                stream,
                expected,
                sequence,
                state,
            } => {
                let position = self.last_position() + 1;
                let found = self.living(*stream)?;
                expect(found, *expected)?;
                reaches(found, *sequence)?;
                found.snapshots.push((*sequence, position));
                Ok(self.push(
                    *stream,
                    *sequence,
                    129,
                    &state.meta,
                    &state.payload,
                    *sequence,
                ))
            }
            Step::Delete { stream, expected } => {
                let found = self.living(*stream)?;
                expect(found, *expected)?;
                found.deleted = true;
                Ok(self.push(*stream, 0, 132, &[], &[], 0))
            }
            Step::Redact {
                position,
                others,
                reason,
            } => {
                let others_of = (0..128).filter(|bit| others & (1 << bit) != 0);
                let positions: Vec<u64> = std::iter::once(*position)
                    .chain(others_of.map(|bit| position + 1 + bit))
                    .collect();
                for position in &positions {
                    let entry = self
                        .entry(*position)
                        .filter(|_| *position <= published)
                        .ok_or(ErrorKind::NotFound)?;
                    if entry.kind >= 128 && entry.kind != 129 {
                        return Err(ErrorKind::InvalidInput);
                    }
                }
                let entry = self.entry(*position).expect("just found");
                let (stream, sequence) = (entry.stream, entry.sequence);
                for position in positions {
                    self.log[usize::try_from(position).expect("found") - 1].redacted = true;
                }
                let payload = [
                    position.to_le_bytes().as_slice(),
                    &others.to_le_bytes(),
                    reason.as_bytes(),
                ]
                .concat();
                Ok(self.push(stream, sequence, 133, &[], &payload, 0))
            }
        }
    }

    fn append(
        &mut self,
        id: StreamId,
        expected: Expected,
        records: &[Item],
        key: &mut Option<Vec<u8>>,
    ) -> Outcome<OpResult> {
        if self.streams.iter().all(|stream| stream.id != id) {
            match expected {
                Expected::Exists => return Err(ErrorKind::NotFound),
                Expected::Last(sequence) if sequence.0 != 0 => return Err(ErrorKind::Conflict),
                Expected::At(position) if position.0 != 0 => return Err(ErrorKind::Conflict),
                _ => {}
            }
            self.streams.push(ModelStream {
                id,
                deleted: false,
                positions: Vec::new(),
                snapshots: Vec::new(),
            });
            self.push(id, 0, 128, &[], id.as_bytes(), 0);
        } else {
            expect(self.living(id)?, expected)?;
        }
        let first = self.last_position() + u64::from(!records.is_empty());
        for (position, item) in (first..).zip(records) {
            let stream = self.living(id)?;
            stream.positions.push(position);
            let sequence = stream.last();
            self.push(id, sequence, item.kind, &item.meta, &item.payload, sequence);
            let entry = self.log.last_mut().expect("just pushed");
            entry.key = key.take();
            entry.labels.clone_from(&item.labels);
            entry.labels.sort_unstable();
            entry.labels.dedup();
        }
        let last_sequence = Sequence(self.living(id)?.last());
        Ok(OpResult {
            position: Position(first),
            last_sequence,
        })
    }

    fn living(&mut self, id: StreamId) -> Outcome<&mut ModelStream> {
        self.streams
            .iter_mut()
            .find(|stream| stream.id == id && !stream.deleted)
            .ok_or(ErrorKind::NotFound)
    }

    fn push(
        &mut self,
        stream: StreamId,
        sequence: u64,
        kind: u8,
        meta: &[u8],
        payload: &[u8],
        last: u64,
    ) -> OpResult {
        let (meta, payload) = (
            Bytes::copy_from_slice(meta),
            Bytes::copy_from_slice(payload),
        );
        self.log.push(Entry {
            stream,
            sequence,
            kind,
            meta,
            payload,
            labels: Vec::new(),
            redacted: false,
            key: None,
        });
        OpResult {
            position: Position(self.last_position()),
            last_sequence: Sequence(last),
        }
    }

    /// The positions that a read gives.
    pub fn read(&self, stream: &ModelStream, options: &ReadOptions) -> Vec<u64> {
        let numbered = stream.positions.iter().zip(1..);
        let within =
            numbered.filter(|(_, sequence)| (options.first.0..=options.last.0).contains(sequence));
        let of_kind = within.filter(|(position, _)| {
            let kind = Kind(self.entry(**position).expect("a stream's position").kind);
            options.kinds.is_empty() || options.kinds.contains(&kind)
        });
        let mut positions: Vec<u64> = of_kind.map(|(position, _)| *position).collect();
        if options.direction == Direction::Backward {
            positions.reverse();
        }
        positions.truncate(usize::try_from(options.limit).unwrap_or(usize::MAX));
        positions
    }

    /// The positions that are found by a label, rising: in a stream, or in the streams that the records were appended to.
    pub fn find(&self, label: Label, stream: Option<&ModelStream>) -> Vec<u64> {
        let has_it = |position: &u64| {
            let entry = self.entry(*position);
            entry.is_some_and(|entry| !entry.redacted && entry.labels.contains(&label))
        };
        if let Some(stream) = stream {
            return stream.positions.iter().copied().filter(has_it).collect();
        }
        let is_own = |stream: &ModelStream, position: u64| {
            let entry = self.entry(position);
            entry.is_some_and(|entry| entry.stream == stream.id)
        };
        let living = self.streams.iter().filter(|stream| !stream.deleted);
        let own = living.flat_map(|stream| {
            let positions = stream.positions.iter().copied();
            positions.filter(move |position| is_own(stream, *position))
        });
        let mut found: Vec<u64> = own.filter(has_it).collect();
        found.sort_unstable();
        found
    }

    /// Sequence and position of the snapshot that a read gives: the newest one that isn't redacted.
    pub fn latest_snapshot(&self, stream: &ModelStream, at_or_before: u64) -> Option<(u64, u64)> {
        let is_told = |position| self.entry(position).is_some_and(|entry| !entry.redacted);
        let told = stream
            .snapshots
            .iter()
            .filter(|(sequence, at)| *sequence <= at_or_before && is_told(*at));
        told.max().copied()
    }
}

fn expect(stream: &ModelStream, expected: Expected) -> Outcome<()> {
    match expected {
        Expected::Absent => Err(ErrorKind::AlreadyExists),
        Expected::Last(sequence) if sequence.0 != stream.last() => Err(ErrorKind::Conflict),
        Expected::At(position) if position.0 != stream.last_position() => Err(ErrorKind::Conflict),
        _ => Ok(()),
    }
}

fn reaches(stream: &ModelStream, sequence: u64) -> Outcome<()> {
    if sequence <= stream.last() {
        Ok(())
    } else {
        Err(ErrorKind::InvalidInput)
    }
}
