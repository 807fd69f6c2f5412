//! The index block and the trailer of a sealed segment, made again from the records and compared.

use std::collections::BTreeMap;

use super::{
    Problem,
    bytes::{Cursor, crc_from, padded},
    meaning::Meaning,
    segment::{LogRecord, SegmentFacts},
};

pub(super) const TRAILER_BYTES: usize = 96;
const SAMPLE_EVERY: u32 = 64;

/// A trailer whose CRC is right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Trailer {
    pub(super) salt: u32,
    pub(super) data_end: u64,
    pub(super) base_position: u64,
    pub(super) time_first_ms: u64,
    pub(super) time_last_ms: u64,
    pub(super) segment: u32,
    pub(super) records: u32,
    /// Stream rows, postings, samples, steps, keys.
    pub(super) counts: [u32; 5],
    pub(super) next_stream: u32,
    pub(super) block_crc: u32,
}

const ROW_BYTES: [u64; 5] = [32, 4, 4, 48, 16];

impl Trailer {
    pub(super) fn read(name: &str, offset: u64, bytes: &[u8]) -> Result<Self, Problem> {
        let mut cursor = Cursor::new(name, offset, bytes);
        cursor.expect(b"RUNLOGIX", "magic")?;
        cursor.expect(&1_u32.to_le_bytes(), "format version")?;
        let salt = cursor.u32()?;
        let data_end = cursor.u64()?;
        let base_position = cursor.u64()?;
        let time_first_ms = cursor.u64()?;
        let time_last_ms = cursor.u64()?;
        let segment = cursor.u32()?;
        let records = cursor.u32()?;
        let mut counts = [0; 5];
        for count in &mut counts {
            *count = cursor.u32()?;
        }
        let next_stream = cursor.u32()?;
        let block_crc = cursor.u32()?;
        cursor.zeros(8)?;
        cursor.crc()?;
        cursor.end()?;
        Ok(Self {
            salt,
            data_end,
            base_position,
            time_first_ms,
            time_last_ms,
            segment,
            records,
            counts,
            next_stream,
            block_crc,
        })
    }

    fn block_bytes(&self) -> u64 {
        self.counts.iter().zip(ROW_BYTES).map(|(count, bytes)| padded(u64::from(*count) * bytes)).sum()
    }

    pub(super) fn length(&self) -> Option<u64> {
        self.data_end.checked_add(self.block_bytes())?.checked_add(TRAILER_BYTES as u64)
    }
}

/// The trailer, if the segment is sealed.
pub(super) fn find_trailer(
    name: &str,
    bytes: &[u8],
    id: u32,
    salt: u32,
    base_position: u64,
) -> Result<Option<Trailer>, Problem> {
    let Some(start) = bytes.len().checked_sub(TRAILER_BYTES) else { return Ok(None) };
    let Ok(trailer) = Trailer::read(name, start as u64, &bytes[start..]) else { return Ok(None) };
    let names_this = (trailer.segment, trailer.salt, trailer.base_position) == (id, salt, base_position);
    let sealed = names_this && trailer.length() == Some(bytes.len() as u64);
    Ok(sealed.then_some(trailer))
}

/// What the records of one segment give its index block.
#[derive(Default)]
pub(super) struct Builder {
    rows: BTreeMap<u32, Row>,
    samples: Vec<u32>,
    steps: Vec<u8>,
    keys: Vec<(u32, u64, u32)>,
    batch_offset: u64,
    records: u32,
    time_first_ms: u64,
    time_last_ms: u64,
}

struct Row {
    first_ordinal: u32,
    offsets: Vec<u32>,
}

impl Builder {
    /// Adds the next record, which `meaning` has just applied.
    pub(super) fn add(&mut self, record: &LogRecord, meaning: &Meaning) {
        if self.records == 0 {
            self.time_first_ms = record.time_ms;
        }
        self.time_last_ms = record.time_ms;
        if record.is_batch_first() {
            self.batch_offset = record.offset;
        }
        let offset = units(record.offset);
        if record.index.is_multiple_of(SAMPLE_EVERY) {
            self.samples.push(offset);
        }
        if record.kind < 128 {
            let first_ordinal = meaning.ordinal(record.position);
            let row = self.rows.entry(record.stream).or_insert(Row { first_ordinal, offsets: Vec::new() });
            row.offsets.push(offset);
        } else {
            self.step(record, offset, meaning);
        }
        if let Some(key) = &record.key {
            self.keys.push((record.stream, fnv_1a(key), units(self.batch_offset)));
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

    fn encode(&self, meaning: &Meaning) -> Vec<u8> {
        let mut block = Vec::new();
        let mut first_posting = 0_u32;
        for (stream, row) in &self.rows {
            let count = u32::try_from(row.offsets.len()).expect("a segment holds fewer than 2^32 records");
            for word in [*stream, row.first_ordinal, count, first_posting] {
                block.extend(word.to_le_bytes());
            }
            block.extend(meaning.streams[*stream as usize - 1].id);
            first_posting += count;
        }
        pad(&mut block);
        self.rows.values().flat_map(|row| &row.offsets).for_each(|offset| block.extend(offset.to_le_bytes()));
        pad(&mut block);
        self.samples.iter().for_each(|offset| block.extend(offset.to_le_bytes()));
        pad(&mut block);
        block.extend(&self.steps);
        pad(&mut block);
        let mut keys = self.keys.clone();
        keys.sort_unstable();
        for (stream, hash, offset) in keys {
            block.extend(stream.to_le_bytes());
            block.extend(offset.to_le_bytes());
            block.extend(hash.to_le_bytes());
        }
        pad(&mut block);
        block
    }
}

fn pad(block: &mut Vec<u8>) {
    block.resize(block.len().next_multiple_of(8), 0);
}

fn units(offset: u64) -> u32 {
    u32::try_from(offset / 8).expect("segments are far smaller than 32 GiB")
}

fn fnv_1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
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
    let expected = builder.encode(meaning);
    if block != expected {
        let place = block.iter().zip(&expected).take_while(|(found, expected)| found == expected).count();
        let message = format!(
            "index block: expected {} bytes, found {}; they differ here, in a block with {:?} rows",
            expected.len(),
            block.len(),
            trailer.counts
        );
        return Err(Problem::new(name, trailer.data_end + place as u64, message));
    }
    let streams = u32::try_from(meaning.streams.len()).expect("streams have 32-bit numbers");
    let times = match builder.records {
        0 => (segment.base_time_ms, segment.base_time_ms),
        _ => (builder.time_first_ms, builder.time_last_ms),
    };
    let expected = (
        crc_from(segment.salt, &[&trailer.data_end.to_le_bytes(), block]),
        builder.records,
        times.0,
        times.1,
        streams + 1,
    );
    let found = (trailer.block_crc, trailer.records, trailer.time_first_ms, trailer.time_last_ms, trailer.next_stream);
    if expected == found {
        return Ok(());
    }
    let message = format!("trailer's crc, records, times, next stream: expected {expected:?}, found {found:?}");
    Err(Problem::new(name, trailer.data_end + block.len() as u64, message))
}
