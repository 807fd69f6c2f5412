//! Applies every record in order, and compares what was derived from them on the way.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    CheckpointFacts, LogRecord, Meaning, Problem, SegmentFacts,
    builder::Builder,
    header::{Identity, RECORDS_BEGIN},
    index,
    packed::Ranges,
    parts::Part,
    record::RECEIPT,
    segment::Log,
};

/// The records, and what they mean together.
#[derive(Default)]
pub(super) struct Replayed {
    pub(super) records: Vec<LogRecord>,
    pub(super) marks: Vec<LogRecord>,
    pub(super) meaning: Meaning,
    /// The one after the last record's, or after what a pack left out behind it.
    next_position: u64,
}

impl Replayed {
    fn apply(
        &mut self,
        record: LogRecord,
        ordinal: Option<u32>,
        ranges: Option<&Ranges>,
        index: &mut Builder,
    ) -> Result<(), String> {
        if record.kind == RECEIPT {
            index.add_receipt(&record);
            return Ok(());
        }
        if !record.has_position() {
            self.marks.push(record);
            return Ok(());
        }
        if let Some(ranges) = ranges {
            self.meaning
                .fill_before(&record, ordinal.unwrap_or(0), ranges)?;
        } else if record.position != self.next_position {
            self.meaning.skip();
        }
        self.next_position = record.position + 1;
        self.meaning.apply(&record, &self.records, ordinal)?;
        index.add(&record, &self.meaning);
        self.records.push(record);
        Ok(())
    }
}

/// Takes the records out of the log.
pub(super) fn replay(
    parts: &[Part],
    identity: &Identity,
    log: &mut Log<'_>,
    checkpoint: Option<&CheckpointFacts>,
) -> Result<Replayed, Problem> {
    let mut replayed = Replayed {
        next_position: 1,
        ..Replayed::default()
    };
    let mut records = std::mem::take(&mut log.records).into_iter().peekable();
    let mut reached = checkpoint.is_none();
    let last_is_empty = log.segments.last().is_some_and(SegmentFacts::is_empty);
    for (place, (segment, part)) in log.segments.iter().zip(parts).enumerate() {
        let name = part.name.as_str();
        check_next_stream(name, segment, &replayed.meaning, &log.segments[..place])?;
        let ranges = log.ranges.get(&segment.id);
        let mut index = match ranges {
            Some(ranges) => Builder::of_pack(identity.hash_key, ranges),
            None => Builder::new(identity.hash_key),
        };
        if let Some(ranges) = ranges {
            let positions = segment.base_position..segment.next_position;
            let begun = replayed.meaning.begin_pack(ranges, positions);
            begun.map_err(|message| Problem::new(name, segment.data_end, message))?;
            // Where a checkpoint stood in what it stands for, the log went on.
            reached |= checkpoint.is_some_and(|checkpoint| segment.replaces(checkpoint.segment));
        }
        let mut offset = RECORDS_BEGIN;
        loop {
            if let Some(checkpoint) = checkpoint
                .filter(|checkpoint| ranges.is_none() && checkpoint.is_at(segment.id, offset))
            {
                checkpoint.check(segment, log, &replayed.records, &index, &replayed.meaning)?;
                reached = true;
            }
            let Some(record) = records.next_if(|record| record.segment == segment.id) else {
                break;
            };
            let begin = record.offset;
            offset = record.end();
            let ordinal = log.ordinals.get(&record.position).copied();
            let done = replayed.apply(record, ordinal, ranges, &mut index);
            done.map_err(|message| Problem::new(name, begin, message))?;
        }
        if let Some(ranges) = ranges {
            let ended = replayed.meaning.end_pack(ranges);
            ended.map_err(|message| Problem::new(name, segment.data_end, message))?;
            replayed.next_position = segment.next_position;
        }
        if let Some(trailer) = &segment.trailer {
            let start = usize::try_from(trailer.data_end).expect("in memory");
            let checked = index::check_block(
                name,
                &log.bytes[place][start..],
                segment,
                trailer,
                &index,
                &replayed.meaning,
            );
            // Only a record in the next segment proves that a seal was durable; a pack was before it got its name.
            let may_be_torn = last_is_empty && place + 2 == log.segments.len() && ranges.is_none();
            checked.or_else(|problem| if may_be_torn { Ok(()) } else { Err(problem) })?;
        } else if let Some((next, part)) = log.segments.get(place + 1).zip(parts.get(place + 1)) {
            // The trailer that this segment is going to have was known when the next one was made.
            let expected = index.index_crc(segment, &replayed.meaning);
            let found = next.predecessor_index_crc;
            if expected != found {
                let message =
                    format!("predecessor's index CRC: expected {expected:08x}, found {found:08x}");
                return Err(Problem::new(&part.name, 120, message));
            }
        }
    }
    if !reached {
        return Err(Problem::new(
            "CHECKPOINT",
            0,
            "the log ends before it, so it is damaged",
        ));
    }
    replayed.check_packs(log)?;
    Ok(replayed)
}

impl Replayed {
    /// That packs left out only what is not in use, erased what was redacted, and kept what keyed batches returned.
    fn check_packs(&mut self, log: &Log<'_>) -> Result<(), Problem> {
        let mut keys = BTreeMap::new();
        for receipt in &log.receipts {
            receipt.check(&self.records)?;
            let key = (receipt.stream, receipt.key.clone());
            let wrong = |message: &str| Problem::new(&receipt.file, receipt.offset, message);
            let position = receipt.key_position();
            let other = self.meaning.keys.get(&key).copied();
            if keys.insert(key, position).is_some() || other.is_some_and(|at| at != position) {
                return Err(wrong("receipt: the key is that of another batch too"));
            }
        }
        for segment in log.segments.iter().filter(|segment| segment.is_pack()) {
            let name = format!("pack of segments {} to {}", segment.id, segment.last_id);
            self.check_pack(&name, segment, &keys)?;
        }
        self.meaning.keys.extend(keys);
        let gone = self.meaning.forget_gone();
        gone.map_err(|message| Problem::new("", 0, message))
    }

    fn check_pack(
        &self,
        name: &str,
        segment: &SegmentFacts,
        keys: &BTreeMap<(u32, Vec<u8>), u64>,
    ) -> Result<(), Problem> {
        let redactions = self.records.iter().filter(|record| record.kind == 133);
        let before = redactions.filter(|record| record.position < segment.next_position);
        let erased: BTreeSet<u64> = before.flat_map(LogRecord::targets).collect();
        let deletions = self.records.iter().filter(|record| record.kind == 132);
        let before = deletions.filter(|record| record.position < segment.next_position);
        let deleted: BTreeSet<u32> = before.map(|record| record.stream).collect();
        for record in self
            .records
            .iter()
            .filter(|found| found.segment == segment.id)
        {
            let wrong = |message: &str| Err(Problem::new(name, record.offset, message));
            let is_empty =
                record.meta.is_empty() && record.payload.is_empty() && record.labels.is_empty();
            if erased.contains(&record.position) && !is_empty {
                return wrong("a record that was redacted before still has its bytes");
            }
            let streams = self.meaning.streams.iter();
            let is_living = |key: &&Vec<u8>| {
                let counts = self.meaning.keys.get(&(record.stream, (*key).clone()));
                let mut stream = streams.clone().skip(record.stream as usize - 1);
                counts.is_some() && stream.next().is_some_and(|stream| !stream.deleted)
            };
            if let Some(key) = record.key.as_ref().filter(is_living)
                && !keys.contains_key(&(record.stream, key.clone()))
            {
                return wrong("the batch of this record has a key, and no receipt");
            }
        }
        let range = segment.base_position..segment.next_position;
        let of_deleted = keys
            .iter()
            .find(|((stream, _), position)| deleted.contains(stream) && range.contains(position));
        match of_deleted {
            None => Ok(()),
            Some(((stream, _), _)) => {
                let message = format!("a receipt of stream {stream}, which was deleted before");
                Err(Problem::new(name, segment.data_end, message))
            }
        }
    }
}

/// After a repair, streams may be missing that nothing tells of.
fn check_next_stream(
    name: &str,
    segment: &SegmentFacts,
    meaning: &Meaning,
    before: &[SegmentFacts],
) -> Result<(), Problem> {
    let (expected, found) = (meaning.streams.len() + 1, segment.next_stream as usize);
    if found == expected || found > expected && before.iter().any(|before| before.repaired) {
        return Ok(());
    }
    Err(Problem::new(
        name,
        64,
        format!("next stream: expected {expected}, found {found}"),
    ))
}
