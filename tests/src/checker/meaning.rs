//! What the records mean, applied in order of position.

use std::collections::{BTreeMap, BTreeSet};

use super::record::LogRecord;

/// The state of a store after some of its records.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Meaning {
    /// Every stream that was ever made; the first has number 1.
    pub streams: Vec<StreamFacts>,
    /// The positions of redacted records.
    pub redacted: BTreeSet<u64>,
    /// Keys by stream number, and the position of the record that carries each.
    pub keys: BTreeMap<(u32, Vec<u8>), u64>,
    /// By the position of a snapshot's record: the stream number and ordinal of the record that it belongs to.
    belongs: BTreeMap<u64, (u32, u32)>,
    /// By the position of a data record: its stream number and ordinal.
    given: BTreeMap<u64, (u32, u32)>,
    /// Whether records were lost, of which nobody knows what they meant.
    has_lost: bool,
    /// How many sequences were left out for that.
    missing: u32,
}

/// More sequences than this are not left out: a checker holds every one in memory.
const MISSING_MAX: u32 = 1 << 18;

/// One stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamFacts {
    /// Its id.
    pub id: [u8; 16],
    /// Whether it was deleted.
    pub deleted: bool,
    /// How many data records it was ever given.
    pub given: u32,
    /// The positions of its records, from sequence 1; 0 for one that was lost with its position.
    pub positions: Vec<u64>,
    /// Its snapshots that stand, by sequence.
    pub snapshots: BTreeMap<u32, SnapshotFacts>,
}

/// A snapshot that stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SnapshotFacts {
    /// The position of its own record.
    pub position: u64,
    /// The position of the record that it belongs to; 0 for the empty stream.
    pub covers: u64,
}

impl StreamFacts {
    fn last(&self) -> u64 {
        self.positions.len() as u64
    }

    fn cut(&mut self, after: u32) {
        self.positions.truncate(after as usize);
        self.snapshots.retain(|sequence, _| *sequence <= after);
    }
}

impl Meaning {
    /// The ordinal of a data record; 0 of any other.
    pub(super) fn ordinal(&self, position: u64) -> u32 {
        self.given_at(position).1
    }

    /// The stream number and ordinal of a data record; zeros of any other.
    pub(super) fn given_at(&self, position: u64) -> (u32, u32) {
        self.given.get(&position).copied().unwrap_or_default()
    }

    /// The stream number and ordinal of the record that a snapshot belongs to.
    pub(super) fn snapshot_of(&self, record: &LogRecord) -> Option<(u32, u32)> {
        self.belongs.get(&record.position).copied()
    }

    /// Notes that positions are left out before the next record.
    pub(super) fn skip(&mut self) {
        self.has_lost = true;
    }

    /// Applies the next record that has a position. `ordinal` is what a repaired index says of a data record.
    pub(super) fn apply(
        &mut self,
        record: &LogRecord,
        before: &[LogRecord],
        ordinal: Option<u32>,
    ) -> Result<(), String> {
        self.has_lost |= record.lost;
        match record.kind {
            0..128 => self.data(record, ordinal),
            128 => {
                let id = record.payload[..]
                    .try_into()
                    .map_err(|_| "a stream's id has 16 bytes".to_owned())?;
                if record.sequence != 0 {
                    return Err("a stream is made with sequence 0".to_owned());
                }
                self.make(record, StreamFacts::empty(id))
            }
            129 => self.snapshot(record),
            130 => {
                expect_empty(record)?;
                let stream = self.living(record)?;
                check_reaches(stream, record.sequence)?;
                stream.cut(record.sequence);
                Ok(())
            }
            131 => self.fork(record),
            132 => {
                expect_empty(record)?;
                let stream = self.living(record)?;
                stream.deleted = true;
                if record.sequence == 0 {
                    Ok(())
                } else {
                    Err("a deletion has sequence 0".to_owned())
                }
            }
            133 => self.redact(record, before),
            // What may be skipped has a position and means nothing here.
            192.. => Ok(()),
            kind => Err(format!("unknown kind {kind}")),
        }
    }

    fn living(&mut self, record: &LogRecord) -> Result<&mut StreamFacts, String> {
        let number = record.stream;
        let place = (number as usize).checked_sub(1).ok_or("stream number 0")?;
        let stream = self
            .streams
            .get_mut(place)
            .ok_or_else(|| format!("stream {number} was not made"))?;
        if stream.deleted {
            Err(format!("stream {number} was deleted"))
        } else {
            Ok(stream)
        }
    }

    fn make(&mut self, record: &LogRecord, stream: StreamFacts) -> Result<(), String> {
        if record.stream as usize != self.streams.len() + 1 {
            return Err(format!(
                "a new stream with number {}, after {}",
                record.stream,
                self.streams.len()
            ));
        }
        if self.streams.iter().any(|other| other.id == stream.id) {
            return Err("a stream's id is used again".to_owned());
        }
        self.streams.push(stream);
        Ok(())
    }

    fn data(&mut self, record: &LogRecord, ordinal: Option<u32>) -> Result<(), String> {
        let (has_lost, missing_before) = (self.has_lost, self.missing);
        let stream = self.living(record)?;
        let expected = stream.last() + 1;
        let found = if record.lost {
            expected
        } else {
            u64::from(record.sequence)
        };
        if found < expected || found > expected && !has_lost {
            return Err(format!("expected sequence {expected}, found {found}"));
        }
        let missing = u32::try_from(found - expected).expect("a sequence has 32 bits");
        if missing > MISSING_MAX - missing_before {
            return Err(format!(
                "{missing} more sequences are missing than this checker follows"
            ));
        }
        let next = u64::from(stream.given) + u64::from(missing) + 1;
        let ordinal = ordinal.map_or(next, u64::from);
        if ordinal <= u64::from(stream.given) || ordinal >= u64::from(u32::MAX) {
            return Err(format!(
                "ordinal {ordinal}, when the stream was given {} records",
                stream.given
            ));
        }
        for _ in 0..missing {
            stream.positions.push(0);
        }
        stream.positions.push(record.position);
        stream.given = u32::try_from(ordinal).expect("compared");
        let given = (record.stream, stream.given);
        self.missing += missing;
        self.given.insert(record.position, given);
        if let Some(key) = &record.key
            && let Some(earlier) = self
                .keys
                .insert((record.stream, key.clone()), record.position)
        {
            return Err(format!(
                "the key of position {earlier} again in the same stream"
            ));
        }
        Ok(())
    }

    fn snapshot(&mut self, record: &LogRecord) -> Result<(), String> {
        let stream = self.living(record)?;
        check_reaches(stream, record.sequence)?;
        let covers = match record.sequence {
            0 => 0,
            sequence => stream.positions[sequence as usize - 1],
        };
        stream.snapshots.insert(
            record.sequence,
            SnapshotFacts {
                position: record.position,
                covers,
            },
        );
        self.belongs.insert(record.position, self.given_at(covers));
        Ok(())
    }

    fn fork(&mut self, record: &LogRecord) -> Result<(), String> {
        let (id, parent) = record
            .payload
            .split_first_chunk()
            .ok_or("a fork's payload has 20 bytes")?;
        let parent = u32::from_le_bytes(
            parent
                .try_into()
                .map_err(|_| "a fork's payload has 20 bytes")?,
        );
        if parent == 0 && record.lost && record.sequence <= MISSING_MAX {
            // Of a stream that nothing tells any more.
            let positions = vec![0; record.sequence as usize];
            return self.make(
                record,
                StreamFacts {
                    positions,
                    ..StreamFacts::empty(*id)
                },
            );
        }
        let place = (parent as usize).checked_sub(1).ok_or("stream number 0")?;
        let parent = self
            .streams
            .get(place)
            .filter(|parent| !parent.deleted)
            .ok_or("a fork of no stream")?;
        check_reaches(parent, record.sequence)?;
        let mut child = StreamFacts {
            id: *id,
            given: 0,
            ..parent.clone()
        };
        child.cut(record.sequence);
        self.make(record, child)
    }

    fn redact(&mut self, record: &LogRecord, log: &[LogRecord]) -> Result<(), String> {
        let (target, reason) = record
            .payload
            .split_first_chunk()
            .ok_or("a redaction without a position")?;
        std::str::from_utf8(reason)
            .map_err(|error| format!("the reason of a redaction: {error}"))?;
        let position = u64::from_le_bytes(*target);
        let Some(target) = super::at_position(log, position).filter(|_| position < record.position)
        else {
            if self.has_lost && position < record.position {
                self.redacted.insert(position);
                return Ok(());
            }
            return Err(format!(
                "a redaction of position {position}, which is not before it"
            ));
        };
        if !target.lost && (target.stream, target.sequence) != (record.stream, record.sequence) {
            return Err(format!(
                "a redaction with another stream or sequence than position {position} has"
            ));
        }
        self.redacted.insert(position);
        Ok(())
    }
}

impl StreamFacts {
    fn empty(id: [u8; 16]) -> Self {
        Self {
            id,
            deleted: false,
            given: 0,
            positions: Vec::new(),
            snapshots: BTreeMap::new(),
        }
    }
}

fn expect_empty(record: &LogRecord) -> Result<(), String> {
    if record.payload.is_empty() {
        Ok(())
    } else {
        Err(format!("kind {} has no payload", record.kind))
    }
}

fn check_reaches(stream: &StreamFacts, sequence: u32) -> Result<(), String> {
    if u64::from(sequence) <= stream.last() {
        return Ok(());
    }
    Err(format!(
        "it speaks of sequence {sequence}, but the last is {}",
        stream.last()
    ))
}
