//! A segment whose index block was made by a repair: what the block names and the records don't hold is lost.

use std::collections::BTreeMap;

use super::{
    Problem,
    bytes::Cursor,
    header::{Header, RECORDS_BEGIN},
    index::{self, Block, Section, TRAILER_BYTES, Trailer},
    record::{LogRecord, Whole},
    segment::refused,
};

/// What the block says that stands, or stood, at an offset.
struct Place {
    kind: u8,
    stream: u32,
    sequence: u32,
    /// Of a data record.
    ordinal: Option<u32>,
    payload: Vec<u8>,
}

/// The records of a repaired segment, with those that are lost, and the ordinals of data records by position.
pub(super) fn read(
    name: &str,
    file: &[u8],
    header: &Header,
    trailer: &Trailer,
) -> Result<(Vec<LogRecord>, BTreeMap<u64, u32>), Problem> {
    let begin = usize::try_from(trailer.data_end).expect("within the file");
    let block = &file[begin..file.len() - TRAILER_BYTES];
    let block = Block::read(name, block, trailer, header.seed)?;
    let places = places(name, &block, trailer)?;
    let next_index = trailer
        .next_position
        .checked_sub(header.base_position)
        .and_then(|next| u32::try_from(next).ok());
    let next_index = next_index.ok_or_else(|| {
        Problem::new(
            name,
            file.len() as u64 - 96,
            format!("next position {}", trailer.next_position),
        )
    })?;
    let mut found = Found {
        name,
        header,
        records: Vec::new(),
        lost: Vec::new(),
        index: 0,
    };
    let mut offset = RECORDS_BEGIN;
    while offset < trailer.data_end {
        let Ok(whole) = Whole::read(file, header, offset, trailer.data_end) else {
            found
                .lost
                .extend(places.get(&offset).map(|place| (offset, place)));
            offset = places
                .range(offset + 1..)
                .next()
                .map_or(trailer.data_end, |(next, _)| *next);
            continue;
        };
        let record = whole
            .understand(header)
            .map_err(|why| refused(name, offset, why))?;
        found.place_lost(offset, record.index)?;
        let is_named = |place: &Place| {
            let of_step = record.kind < 128 || place.sequence == record.sequence;
            place.stream == record.stream
                && of_step
                && (place.kind == record.kind || place.kind.max(record.kind) < 128)
        };
        if record.has_position() && !places.get(&offset).is_some_and(is_named) {
            return Err(Problem::new(
                name,
                offset,
                "the repaired index does not name this record",
            ));
        }
        let next = found.index.checked_add(u32::from(record.has_position()));
        found.index =
            next.ok_or_else(|| Problem::new(name, offset, "more records than a segment can have"))?;
        offset = record.end();
        found.records.push(record);
    }
    found.place_lost(trailer.data_end, next_index)?;
    let ordinal =
        |record: &LogRecord| Some((record.position, places.get(&record.offset)?.ordinal?));
    let ordinals = found.records.iter().filter_map(ordinal).collect();
    Ok((found.records, ordinals))
}

struct Found<'a> {
    name: &'a str,
    header: &'a Header,
    records: Vec<LogRecord>,
    /// Between the last record and what comes next.
    lost: Vec<(u64, &'a Place)>,
    /// Of the next record, at least.
    index: u32,
}

impl Found<'_> {
    /// Gives the lost records the positions before the next index. Where the block names fewer than are missing, the
    /// first positions are as good as any.
    fn place_lost(&mut self, offset: u64, next_index: u32) -> Result<(), Problem> {
        if u64::from(self.index) + self.lost.len() as u64 > u64::from(next_index) {
            let message = format!(
                "index {next_index} follows, with {} records lost since index {} was to come",
                self.lost.len(),
                self.index
            );
            return Err(Problem::new(self.name, offset, message));
        }
        let time_ms = self
            .records
            .last()
            .map_or(self.header.base_time_ms, |record| record.time_ms);
        for ((offset, place), index) in self.lost.drain(..).zip(self.index..) {
            self.records.push(LogRecord {
                position: self.header.base_position + u64::from(index),
                segment: self.header.id,
                offset,
                index,
                kind: place.kind,
                flags: 0,
                stream: place.stream,
                sequence: place.sequence,
                time_ms,
                watermark: 0,
                labels: Vec::new(),
                key: None,
                meta: Vec::new(),
                payload: place.payload.clone(),
                bytes: 0,
                crc: 0,
                lost: true,
            });
        }
        self.index = next_index;
        Ok(())
    }
}

fn places(
    name: &str,
    block: &Block<'_>,
    trailer: &Trailer,
) -> Result<BTreeMap<u64, Place>, Problem> {
    let mut places = BTreeMap::new();
    let [rows, postings, _, steps, ..] = block.sections;
    let of = |section: Section<'_>| (section.count, section.offset);
    let ((row_count, rows_at), (step_count, steps_at)) = (of(rows), of(steps));
    let mut rows = Cursor::new(name, rows_at, rows.bytes);
    let mut postings = Cursor::new(name, postings.offset, postings.bytes);
    let mut add = |offset: u32, place: Place, at: u64| {
        let offset = u64::from(offset) * 8;
        if offset < RECORDS_BEGIN
            || offset >= trailer.data_end
            || places.insert(offset, place).is_some()
        {
            return Err(Problem::new(
                name,
                at,
                format!("it names offset {offset}, or does so twice"),
            ));
        }
        Ok(())
    };
    for _ in 0..row_count {
        let at = rows.offset();
        let (stream, first_ordinal, count, _) =
            (rows.u32()?, rows.u32()?, rows.u32()?, rows.u32()?);
        rows.take(16)?;
        for nth in 0..count {
            let ordinal = first_ordinal.checked_add(nth);
            let ordinal =
                ordinal.ok_or_else(|| Problem::new(name, at, "ordinals beyond 32 bits"))?;
            let place = Place {
                kind: 0,
                stream,
                sequence: 0,
                ordinal: Some(ordinal),
                payload: Vec::new(),
            };
            add(postings.u32()?, place, at)?;
        }
    }
    let mut steps = Cursor::new(name, steps_at, steps.bytes);
    for _ in 0..step_count {
        let at = steps.offset();
        let kind = steps.u8()?;
        steps.zeros(3)?;
        let (stream, sequence, _, offset, other) = (
            steps.u32()?,
            steps.u32()?,
            steps.u32()?,
            steps.u32()?,
            steps.u32()?,
        );
        let target = steps.take(8)?;
        let id = steps.take(16)?;
        let payload = match kind {
            128 => id.to_vec(),
            131 => [id, &other.to_le_bytes()].concat(),
            133 => [target, id].concat(),
            _ => Vec::new(),
        };
        match kind {
            128..134 | 192.. => {}
            136..192 => {
                return Err(
                    Problem::new(name, at, format!("a step of kind {kind}")).of_newer_build()
                );
            }
            _ => return Err(Problem::new(name, at, format!("a step of kind {kind}"))),
        }
        add(
            offset,
            Place {
                kind,
                stream,
                sequence,
                ordinal: None,
                payload,
            },
            at,
        )?;
    }
    Ok(places)
}

/// Compares the block with what the records give, lost ones as they are named. Samples may be left out, and keys of
/// what is lost can't be told.
pub(super) fn check_sections(
    name: &str,
    block: &Block<'_>,
    expected: &[Vec<u8>; index::SECTIONS],
) -> Result<(), Problem> {
    let [rows, postings, samples, steps, keys, labels @ ..] = block.sections;
    // Labels of what is lost are not there, and those of what is left are.
    let whole = [rows, postings].into_iter().chain(labels);
    for (expected, found) in expected[..2].iter().chain(&expected[5..]).zip(whole) {
        index::compare(name, found.offset, expected, found.bytes)?;
    }
    let known: Vec<_> = expected[2].as_chunks::<8>().0.iter().collect();
    let mut rest = known.iter();
    if let Some(unknown) = samples
        .bytes
        .as_chunks::<8>()
        .0
        .iter()
        .find(|sample| !rest.any(|known| known == sample))
    {
        return Err(Problem::new(
            name,
            samples.offset,
            format!("the sample {unknown:?} is of no record, or not in order"),
        ));
    }
    index::compare(name, steps.offset, &expected[3], steps.bytes)?;
    // Of a batch that lost its first record nobody knows where it began: the offset is left out.
    let parts = |key: &[u8; 16]| ([key[0], key[1], key[2], key[3]], key[8..].to_vec());
    let found: Vec<_> = keys.bytes.as_chunks::<16>().0.iter().map(parts).collect();
    let missing = expected[4]
        .as_chunks::<16>()
        .0
        .iter()
        .find(|key| !found.contains(&parts(key)));
    if let Some(missing) = missing {
        return Err(Problem::new(
            name,
            keys.offset,
            format!("the key {missing:02x?} is missing"),
        ));
    }
    Ok(())
}
