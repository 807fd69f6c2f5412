//! Applies every record in order, and compares what was derived from them on the way.

use super::{
    CheckpointFacts, Files, LogRecord, Meaning, Problem, SegmentFacts,
    builder::Builder,
    header::{Identity, RECORDS_BEGIN},
    index,
    segment::Log,
};

/// The records, and what they mean together.
#[derive(Default)]
pub(super) struct Replayed {
    pub(super) records: Vec<LogRecord>,
    pub(super) marks: Vec<LogRecord>,
    pub(super) meaning: Meaning,
}

impl Replayed {
    fn apply(
        &mut self,
        record: LogRecord,
        ordinal: Option<u32>,
        index: &mut Builder,
    ) -> Result<(), String> {
        if !record.has_position() {
            self.marks.push(record);
            return Ok(());
        }
        if record.position != self.records.last().map_or(0, |before| before.position) + 1 {
            self.meaning.skip();
        }
        self.meaning.apply(&record, &self.records, ordinal)?;
        index.add(&record, &self.meaning);
        self.records.push(record);
        Ok(())
    }
}

/// Takes the records out of the log.
pub(super) fn replay(
    files: &Files,
    names: &[String],
    identity: &Identity,
    log: &mut Log,
    checkpoint: Option<&CheckpointFacts>,
) -> Result<Replayed, Problem> {
    let mut replayed = Replayed::default();
    let mut records = std::mem::take(&mut log.records).into_iter().peekable();
    let mut reached = checkpoint.is_none();
    let last_is_empty = log.segments.last().is_some_and(SegmentFacts::is_empty);
    for (place, (segment, name)) in log.segments.iter().zip(names).enumerate() {
        check_next_stream(name, segment, &replayed.meaning, &log.segments[..place])?;
        let mut index = Builder::new(identity.hash_key);
        let mut offset = RECORDS_BEGIN;
        loop {
            if let Some(checkpoint) =
                checkpoint.filter(|checkpoint| checkpoint.is_at(segment.id, offset))
            {
                checkpoint.check(segment, &replayed.records, &index, &replayed.meaning)?;
                reached = true;
            }
            let Some(record) = records.next_if(|record| record.segment == segment.id) else {
                break;
            };
            let begin = record.offset;
            offset = record.end();
            let ordinal = log.ordinals.get(&record.position).copied();
            let done = replayed.apply(record, ordinal, &mut index);
            done.map_err(|message| Problem::new(name, begin, message))?;
        }
        if let Some(trailer) = &segment.trailer {
            let start = usize::try_from(trailer.data_end).expect("in memory");
            let checked = index::check_block(
                name,
                &files[name][start..],
                segment,
                trailer,
                &index,
                &replayed.meaning,
            );
            // Only a record in the next segment proves that a seal was durable.
            let may_be_torn = last_is_empty && place + 2 == log.segments.len();
            checked.or_else(|problem| if may_be_torn { Ok(()) } else { Err(problem) })?;
        } else if let Some((next, name)) = log.segments.get(place + 1).zip(names.get(place + 1)) {
            // The trailer that this segment is going to have was known when the next one was made.
            let expected = index.index_crc(segment, &replayed.meaning);
            let found = next.predecessor_index_crc;
            if expected != found {
                let message =
                    format!("predecessor's index CRC: expected {expected:08x}, found {found:08x}");
                return Err(Problem::new(name, 120, message));
            }
        }
    }
    if reached {
        Ok(replayed)
    } else {
        Err(Problem::new(
            "CHECKPOINT",
            0,
            "the log ends before it, so it is damaged",
        ))
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
