//! The index block and the trailer of a sealed segment, made again from the records and compared.

use std::collections::BTreeMap;

use super::{
    Problem, SegmentFacts,
    bytes::{Cursor, crc_from, padded},
    header::{HEADER_BYTES, Header},
    meaning::Meaning,
    record::LogRecord,
    repaired,
    siphash::siphash_2_4,
};

pub(super) const TRAILER_BYTES: usize = 128;
const SAMPLE_EVERY: u32 = 64;
const MADE_BY_REPAIR: u32 = 1;

/// A trailer whose CRC is right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Trailer {
    pub(super) salt: u32,
    pub(super) data_end: u64,
    pub(super) base_position: u64,
    pub(super) next_position: u64,
    pub(super) time_first_ms: u64,
    pub(super) time_last_ms: u64,
    pub(super) segment: u32,
    pub(super) records: u32,
    /// Stream rows, postings, samples, steps, keys.
    pub(super) counts: [u32; 5],
    pub(super) next_stream: u32,
    pub(super) block_crc: u32,
    pub(super) repaired: bool,
}

pub(super) const ROW_BYTES: [u64; 5] = [32, 4, 8, 48, 16];

impl Trailer {
    /// The trailer of a segment, if it is that segment's: only then does it say anything, of whatever version. A
    /// payload may hold anything, but not the salt.
    pub(super) fn read(
        name: &str,
        offset: u64,
        bytes: &[u8],
        of: (u32, u32, u64),
    ) -> Result<Option<Self>, Problem> {
        let mut cursor = Cursor::of_checked(name, offset, bytes, b"RUNLOGIX")?;
        let version = cursor.u32()?;
        let salt = cursor.u32()?;
        let data_end = cursor.u64()?;
        let base_position = cursor.u64()?;
        let next_position = cursor.u64()?;
        let time_first_ms = cursor.u64()?;
        let time_last_ms = cursor.u64()?;
        let segment = cursor.u32()?;
        if (segment, salt, base_position) != of {
            return Ok(None);
        }
        if version != 1 {
            let message = format!("format version {version}");
            return Err(Problem::new(name, offset + 8, message).of_newer_build());
        }
        let records = cursor.u32()?;
        let mut counts = [0; 5];
        for count in &mut counts {
            *count = cursor.u32()?;
        }
        let next_stream = cursor.u32()?;
        let block_crc = cursor.u32()?;
        let flags = cursor.u32()?;
        if flags & !MADE_BY_REPAIR != 0 {
            return Err(cursor
                .problem(format!("flags {flags:#x} of a trailer"))
                .of_newer_build());
        }
        cursor.zeros(28)?;
        cursor.end()?;
        let repaired = flags & MADE_BY_REPAIR != 0;
        Ok(Some(Self {
            salt,
            data_end,
            base_position,
            next_position,
            time_first_ms,
            time_last_ms,
            segment,
            records,
            counts,
            next_stream,
            block_crc,
            repaired,
        }))
    }

    /// How many bytes each section of the block takes.
    pub(super) fn sections(&self) -> [u64; 6] {
        let mut sections = [HEADER_BYTES as u64; 6];
        for ((section, count), bytes) in sections.iter_mut().zip(self.counts).zip(ROW_BYTES) {
            *section = padded(u64::from(count) * bytes);
        }
        sections
    }

    pub(super) fn length(&self) -> Option<u64> {
        let block: u64 = self.sections().iter().sum();
        self.data_end
            .checked_add(block)?
            .checked_add(TRAILER_BYTES as u64)
    }
}

/// The trailer, if the segment is sealed.
pub(super) fn find_trailer(
    name: &str,
    file: &[u8],
    header: &Header,
) -> Result<Option<Trailer>, Problem> {
    let Some(start) = file.len().checked_sub(TRAILER_BYTES) else {
        return Ok(None);
    };
    let bytes = &file[start..];
    if Cursor::of_checked(name, start as u64, bytes, b"RUNLOGIX").is_err() {
        return Ok(None);
    }
    let trailer = Trailer::read(
        name,
        start as u64,
        bytes,
        (header.id, header.salt, header.base_position),
    )?;
    Ok(trailer.filter(|trailer| trailer.length() == Some(file.len() as u64)))
}

/// What the records of one segment give its index block.
#[derive(Default)]
pub(super) struct Builder {
    hash_key: [u8; 16],
    rows: BTreeMap<u32, Row>,
    /// Index and offset.
    samples: Vec<(u32, u32)>,
    steps: Vec<u8>,
    /// Stream, hash and offset.
    keys: Vec<(u32, u64, u32)>,
    batch_offset: u64,
    records: u32,
    /// Of the first and the last.
    times_ms: Option<(u64, u64)>,
}

struct Row {
    first_ordinal: u32,
    offsets: Vec<u32>,
}

impl Builder {
    pub(super) fn new(hash_key: [u8; 16]) -> Self {
        Self {
            hash_key,
            ..Self::default()
        }
    }

    /// Adds the next record, which `meaning` has just applied.
    pub(super) fn add(&mut self, record: &LogRecord, meaning: &Meaning) {
        if record.is_batch_first() {
            self.batch_offset = record.offset;
        }
        if !record.has_position() {
            return;
        }
        if !record.lost {
            let first = self.times_ms.map_or(record.time_ms, |(first, _)| first);
            self.times_ms = Some((first, record.time_ms));
        }
        let offset = units(record.offset);
        if record.index.is_multiple_of(SAMPLE_EVERY) {
            self.samples.push((record.index, offset));
        }
        if record.kind < 128 {
            let first_ordinal = meaning.ordinal(record.position);
            let row = self.rows.entry(record.stream).or_insert(Row {
                first_ordinal,
                offsets: Vec::new(),
            });
            row.offsets.push(offset);
        } else {
            self.step(record, offset, meaning);
        }
        if let Some(key) = &record.key {
            self.keys.push((
                record.stream,
                siphash_2_4(&self.hash_key, key),
                units(self.batch_offset),
            ));
        }
        self.records += 1;
    }

    fn step(&mut self, record: &LogRecord, offset: u32, meaning: &Meaning) {
        let (mut ordinal, mut other, mut target, mut id) = (0_u32, 0_u32, [0; 8], [0; 16]);
        match record.kind {
            128 => id.copy_from_slice(&record.payload[..16]),
            129 => (other, ordinal) = meaning.snapshot_of(record).unwrap_or((0, 0)),
            130 => ordinal = meaning.streams[record.stream as usize - 1].given,
            131 => {
                id.copy_from_slice(&record.payload[..16]);
                other = u32::from_le_bytes(record.payload[16..20].try_into().expect("4 bytes"));
            }
            133 => target.copy_from_slice(&record.payload[..8]),
            _ => {}
        }
        self.steps.extend([record.kind, 0, 0, 0]);
        for word in [record.stream, record.sequence, ordinal, offset, other] {
            self.steps.extend(word.to_le_bytes());
        }
        self.steps.extend(target);
        self.steps.extend(id);
    }

    /// The sections of the block, each padded, without the header.
    pub(super) fn sections(&self, meaning: &Meaning) -> [Vec<u8>; 5] {
        let mut rows = Vec::new();
        let mut first_posting = 0_u32;
        for (stream, row) in &self.rows {
            let count =
                u32::try_from(row.offsets.len()).expect("a segment holds fewer than 2^32 records");
            for word in [*stream, row.first_ordinal, count, first_posting] {
                rows.extend(word.to_le_bytes());
            }
            rows.extend(meaning.streams[*stream as usize - 1].id);
            first_posting += count;
        }
        let postings = self
            .rows
            .values()
            .flat_map(|row| &row.offsets)
            .flat_map(|offset| offset.to_le_bytes());
        let samples = self
            .samples
            .iter()
            .flat_map(|(index, offset)| [*index, *offset])
            .flat_map(u32::to_le_bytes);
        let mut sorted = self.keys.clone();
        sorted.sort_unstable();
        let mut keys = Vec::new();
        for (stream, hash, offset) in sorted {
            keys.extend(stream.to_le_bytes());
            keys.extend(offset.to_le_bytes());
            keys.extend(hash.to_le_bytes());
        }
        let mut sections = [
            rows,
            postings.collect(),
            samples.collect(),
            self.steps.clone(),
            keys,
        ];
        for section in &mut sections {
            section.resize(section.len().next_multiple_of(8), 0);
        }
        sections
    }

    /// The CRC of the block that these records give.
    pub(super) fn block_crc(&self, segment: &SegmentFacts, meaning: &Meaning) -> u32 {
        let block = self.sections(meaning).concat();
        crc_from(
            segment.seed,
            &[&segment.data_end.to_le_bytes(), &block, &segment.header],
        )
    }
}

fn units(offset: u64) -> u32 {
    u32::try_from(offset / 8).expect("segments are far smaller than 32 GiB")
}

/// Compares an index block and its trailer with the records before them. `bytes` begin at `data_end`.
pub(super) fn check_block(
    name: &str,
    bytes: &[u8],
    segment: &SegmentFacts,
    trailer: &Trailer,
    builder: &Builder,
    meaning: &Meaning,
) -> Result<(), Problem> {
    let (block, _) = bytes
        .split_last_chunk::<TRAILER_BYTES>()
        .ok_or_else(|| Problem::new(name, trailer.data_end, "no room for a trailer"))?;
    let (block, header) = block
        .split_last_chunk::<HEADER_BYTES>()
        .ok_or_else(|| Problem::new(name, trailer.data_end, "no room for a header"))?;
    let wrong_trailer =
        |what: String| Problem::new(name, trailer.data_end + bytes.len() as u64 - 128, what);
    let crc = crc_from(
        segment.seed,
        &[&trailer.data_end.to_le_bytes(), block, header],
    );
    if crc != trailer.block_crc {
        return Err(wrong_trailer(format!(
            "index crc: expected {crc:08x}, found {:08x}",
            trailer.block_crc
        )));
    }
    let sections = builder.sections(meaning);
    if trailer.repaired {
        repaired::check_sections(name, block, trailer, &sections)?;
    } else {
        compare(name, trailer.data_end, &sections.concat(), block)?;
    }
    if *header != segment.header {
        let message = "the header in the index block is another than the segment's";
        return Err(Problem::new(
            name,
            trailer.data_end + block.len() as u64,
            message,
        ));
    }
    let times = builder
        .times_ms
        .unwrap_or((segment.base_time_ms, segment.base_time_ms));
    let next_stream =
        u32::try_from(meaning.streams.len() + 1).expect("streams have 32-bit numbers");
    let expected = (times.0, times.1, next_stream);
    let found = (
        trailer.time_first_ms,
        trailer.time_last_ms,
        trailer.next_stream,
    );
    // Nobody knows the time of what was lost, nor perhaps which streams were made.
    if !trailer.repaired && expected != found {
        return Err(wrong_trailer(format!(
            "times and next stream: expected {expected:?}, found {found:?}"
        )));
    }
    let next_position = segment.base_position + u64::from(builder.records);
    let expected = (builder.records, next_position);
    let found = (trailer.records, trailer.next_position);
    if expected == found || trailer.repaired && expected.0 <= found.0 && expected.1 <= found.1 {
        return Ok(());
    }
    Err(wrong_trailer(format!(
        "records and next position: expected {expected:?}, found {found:?}"
    )))
}

/// That bytes of an index block are as expected; `at` is where they begin.
pub(super) fn compare(name: &str, at: u64, expected: &[u8], found: &[u8]) -> Result<(), Problem> {
    if expected == found {
        return Ok(());
    }
    let place = found
        .iter()
        .zip(expected)
        .take_while(|(found, expected)| found == expected)
        .count();
    let message = format!(
        "index block: expected {} bytes, found {}; they differ here",
        expected.len(),
        found.len()
    );
    Err(Problem::new(name, at + place as u64, message))
}
