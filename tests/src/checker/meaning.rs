//! What the records mean, applied in order of position.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use super::{
    packed::{Ranges, Row},
    record::LogRecord,
};

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
    /// The positions that packs stand for: a record that isn't there was left out.
    packed: Vec<Range<u64>>,
    /// How many data records were left out.
    gone: u64,
    /// Whether records were lost, of which nobody knows what they meant.
    has_lost: bool,
    /// How many sequences were left out for that.
    missing: u32,
}

/// The position that a record which was left out of a pack has here, with a number of its own: nobody knows it, but which
/// record it was.
const GONE: u64 = 1 << 63;

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
    /// The positions of its records, from sequence 1; 0 for one that was lost with its position, or left out of a pack.
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

    /// Begins with the records of a pack that says this of its range.
    pub(super) fn begin_pack(
        &mut self,
        ranges: &Ranges,
        positions: Range<u64>,
    ) -> Result<(), String> {
        self.packed.push(positions);
        for (stream, row) in &ranges.rows {
            let place = (*stream as usize).checked_sub(1).ok_or("stream number 0")?;
            let given = self.streams.get(place).map_or(0, |stream| stream.given);
            if u64::from(given) + 1 != u64::from(row.first_ordinal) {
                return Err(format!(
                    "stream {stream}: ordinals from {} on, after {given}",
                    row.first_ordinal
                ));
            }
        }
        Ok(())
    }

    /// Puts in what was left out of a pack before its next record. Where just between two records it was doesn't matter, if
    /// nothing there tells it apart.
    pub(super) fn fill_before(
        &mut self,
        record: &LogRecord,
        ordinal: u32,
        ranges: &Ranges,
    ) -> Result<(), String> {
        let row = ranges.rows.get(&record.stream);
        let upto = match record.kind {
            ..=127 => ordinal.saturating_sub(1),
            130 => ranges.truncation(record.offset),
            132 => row.map_or(0, Row::last),
            129 => return self.fill_to_sequence(record.stream, record.sequence, ranges),
            131 => {
                let parent = record.payload.get(16..20);
                let parent = parent.map_or([0; 4], |bytes| bytes.try_into().expect("4 bytes"));
                let parent = u32::from_le_bytes(parent);
                return self.fill_to_sequence(parent, record.sequence, ranges);
            }
            _ => return Ok(()),
        };
        self.fill(record.stream, upto, ranges)
    }

    fn fill(&mut self, stream: u32, upto: u32, ranges: &Ranges) -> Result<(), String> {
        while self.stream(stream).is_some_and(|found| found.given < upto) {
            self.put_in(stream, ranges)?;
        }
        Ok(())
    }

    fn fill_to_sequence(
        &mut self,
        stream: u32,
        sequence: u32,
        ranges: &Ranges,
    ) -> Result<(), String> {
        let is_short = |found: &StreamFacts| found.last() < u64::from(sequence);
        while self.stream(stream).is_some_and(is_short) {
            self.put_in(stream, ranges)?;
        }
        Ok(())
    }

    /// The next record of a stream, which was left out.
    fn put_in(&mut self, number: u32, ranges: &Ranges) -> Result<(), String> {
        let position = GONE | self.gone;
        let place = (number as usize).checked_sub(1).ok_or("stream number 0")?;
        let stream = self.streams.get_mut(place).ok_or("no such stream")?;
        let ordinal = stream.given + 1;
        let row = ranges.rows.get(&number);
        if !row.is_some_and(|row| row.is_gone(ordinal)) {
            return Err(format!(
                "stream {number}: its record with ordinal {ordinal} should be before this, and was not left out"
            ));
        }
        stream.positions.push(position);
        stream.given = ordinal;
        self.given.insert(position, (number, ordinal));
        self.gone += 1;
        Ok(())
    }

    /// Puts in what was left out of a pack behind its last record.
    pub(super) fn end_pack(&mut self, ranges: &Ranges) -> Result<(), String> {
        for (number, row) in &ranges.rows {
            self.fill(*number, row.last(), ranges)?;
            let given = self.stream(*number).map(|stream| stream.given);
            if given != Some(row.last()) {
                return Err(format!(
                    "stream {number}: expected ordinals up to {}, found {given:?}",
                    row.last()
                ));
            }
        }
        Ok(())
    }

    /// After all: no stream that is there has a record that was left out.
    pub(super) fn forget_gone(&mut self) -> Result<(), String> {
        for (stream, number) in self.streams.iter_mut().zip(1_u32..) {
            for (position, sequence) in stream.positions.iter_mut().zip(1_u64..) {
                if *position & GONE == 0 {
                    continue;
                }
                if !stream.deleted {
                    return Err(format!(
                        "stream {number}: the record with sequence {sequence} was left out of a pack"
                    ));
                }
                *position = 0;
            }
        }
        Ok(())
    }

    fn stream(&self, number: u32) -> Option<&StreamFacts> {
        self.streams.get((number as usize).checked_sub(1)?)
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
        let reason = record
            .payload
            .get(24..)
            .or_else(|| record.lost.then_some(&[]))
            .ok_or("a redaction without positions")?;
        std::str::from_utf8(reason)
            .map_err(|error| format!("the reason of a redaction: {error}"))?;
        for (place, marked) in record.targets().into_iter().enumerate() {
            // With the highest bit, it counts only while the record can't be read, and its place may be that of another.
            let position = marked & !(1 << 63);
            if position != marked && position < record.position {
                self.redacted.insert(marked);
                continue;
            }
            let Some(target) =
                super::at_position(log, position).filter(|_| position < record.position)
            else {
                let was_left_out = self.packed.iter().any(|range| range.contains(&position));
                if (self.has_lost || was_left_out) && position < record.position {
                    self.redacted.insert(position);
                    continue;
                }
                return Err(format!(
                    "a redaction of position {position}, which is not before it"
                ));
            };
            // The record says of which stream and sequence the first is.
            let is_it =
                place > 0 || (target.stream, target.sequence) == (record.stream, record.sequence);
            if !target.lost && !is_it {
                return Err(format!(
                    "a redaction with another stream or sequence than position {position} has"
                ));
            }
            self.redacted.insert(position);
        }
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
