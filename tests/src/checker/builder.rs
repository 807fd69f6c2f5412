//! The index block that the records of a segment give.

use std::collections::BTreeMap;

use super::{
    SegmentFacts,
    bytes::crc_from,
    index::{MUST_BE_UNDERSTOOD, ROW_BYTES, SECTIONS, UNDERSTOOD},
    meaning::Meaning,
    packed::Ranges,
    record::LogRecord,
    siphash::siphash_2_4,
};

const SAMPLE_EVERY: u32 = 64;

/// What the records of one segment give its index block.
#[derive(Default)]
pub(super) struct Builder {
    hash_key: [u8; 16],
    /// In a pack a key row names a receipt, every record has a sample, and some records were left out.
    of_pack: bool,
    rows: BTreeMap<u32, Postings>,
    /// Index and offset.
    samples: Vec<(u32, u32)>,
    steps: Vec<u8>,
    /// Stream, hash and offset.
    keys: Vec<(u32, u64, u32)>,
    /// By label, the position, stream and place in its row of each record that has it.
    labels: BTreeMap<u64, Vec<(u64, u32, u32)>>,
    batch_offset: u64,
    pub(super) records: u32,
    /// Of the first and the last.
    pub(super) times_ms: Option<(u64, u64)>,
}

struct Postings {
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

    /// Of a pack that says this of its range.
    pub(super) fn of_pack(hash_key: [u8; 16], ranges: &Ranges) -> Self {
        let rows = ranges.rows.iter().map(|(stream, row)| {
            let postings = Postings {
                first_ordinal: row.first_ordinal,
                offsets: vec![0; row.postings.len()],
            };
            (*stream, postings)
        });
        Self {
            of_pack: true,
            rows: rows.collect(),
            ..Self::new(hash_key)
        }
    }

    /// Adds a receipt.
    pub(super) fn add_receipt(&mut self, receipt: &LogRecord) {
        let key = receipt.key.as_deref().unwrap_or_default();
        let hash = siphash_2_4(&self.hash_key, key);
        self.keys
            .push((receipt.stream, hash, units(receipt.offset)));
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
        if self.of_pack || record.index.is_multiple_of(SAMPLE_EVERY) {
            self.samples.push((record.index, offset));
        }
        if record.kind < 128 {
            let ordinal = meaning.ordinal(record.position);
            let row = self.rows.entry(record.stream).or_insert(Postings {
                first_ordinal: ordinal,
                offsets: Vec::new(),
            });
            let place = if self.of_pack {
                ordinal.saturating_sub(row.first_ordinal) as usize
            } else {
                row.offsets.push(offset);
                row.offsets.len() - 1
            };
            row.offsets[place] = offset;
            for label in &record.labels {
                let place = u32::try_from(place).expect("fewer than 2^32 records");
                let labelled = self.labels.entry(*label).or_default();
                labelled.push((record.position, record.stream, place));
            }
        } else {
            self.step(record, offset, meaning);
        }
        if let Some(key) = record.key.as_ref().filter(|_| !self.of_pack) {
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
            129 => {
                (other, ordinal) = meaning.snapshot_of(record).unwrap_or((0, 0));
                target = record.position.to_le_bytes();
            }
            130 => ordinal = meaning.streams[record.stream as usize - 1].given,
            131 => {
                id.copy_from_slice(&record.payload[..16]);
                other = u32::from_le_bytes(record.payload[16..20].try_into().expect("4 bytes"));
            }
            133 => {
                target.copy_from_slice(&record.payload[..8]);
                id.copy_from_slice(&record.payload[8..24]);
            }
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
    pub(super) fn sections(&self, meaning: &Meaning) -> [Vec<u8>; SECTIONS] {
        let mut rows = Vec::new();
        let mut first_posting = 0_u32;
        let mut first_postings = BTreeMap::new();
        for (stream, row) in &self.rows {
            first_postings.insert(*stream, first_posting);
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
        let (mut label_rows, mut label_postings) = (Vec::new(), Vec::new());
        for (label, records) in &self.labels {
            let mut records = records.clone();
            records.sort_unstable();
            for (_, stream, place) in &records {
                label_postings.extend((first_postings[stream] + place).to_le_bytes());
            }
            let end = u32::try_from(label_postings.len() / 4).expect("fewer than 2^32 labels");
            label_rows.extend(label.to_le_bytes());
            label_rows.extend(end.to_le_bytes());
        }
        let mut sections = [
            rows,
            postings.collect(),
            samples.collect(),
            self.steps.clone(),
            keys,
            label_rows,
            label_postings,
            self.label_filter(),
        ];
        for section in &mut sections {
            section.resize(section.len().next_multiple_of(8), 0);
        }
        sections
    }

    fn label_filter(&self) -> Vec<u8> {
        const SALTS: [u32; 8] = [
            0x47B6_137B,
            0x4497_4D91,
            0x8824_AD5B,
            0xA2B7_289D,
            0x7054_95C7,
            0x2DF1_424B,
            0x9EFC_4947,
            0x5C6B_FB31,
        ];
        let count = self.labels.len().div_ceil(16);
        let mut filter = vec![[0_u32; 8]; count];
        for label in self.labels.keys() {
            let element = (u128::from(label >> 32) * count as u128) >> 32;
            let element = usize::try_from(element).expect("below the number of elements");
            let low = u32::try_from(label & 0xFFFF_FFFF).expect("32 bits");
            for (word, salt) in filter[element].iter_mut().zip(SALTS) {
                *word |= 1 << (low.wrapping_mul(salt) >> 27);
            }
        }
        filter
            .into_iter()
            .flatten()
            .flat_map(u32::to_le_bytes)
            .collect()
    }

    /// How many elements a section has, of a type from 1.
    pub(super) fn count(&self, number: u16, section: &[u8]) -> u32 {
        // What it has of padding is less than an element, but for postings.
        let count = match number {
            2 => self.rows.values().map(|row| row.offsets.len()).sum(),
            7 => self.labels.values().map(Vec::len).sum(),
            _ => section.len() / ROW_BYTES[usize::from(number) - 1] as usize,
        };
        u32::try_from(count).expect("a segment holds fewer than 2^32 records")
    }

    /// The index CRC of the block that these records give.
    pub(super) fn index_crc(&self, segment: &SegmentFacts, meaning: &Meaning) -> u32 {
        let mut understood = Vec::new();
        let mut offset = segment.data_end;
        for ((section, element), number) in self.sections(meaning)[..UNDERSTOOD]
            .iter()
            .zip(ROW_BYTES)
            .zip(1_u16..)
        {
            let count = self.count(number, section);
            if count == 0 {
                continue;
            }
            let crc = crc_from(segment.seed, &[&offset.to_le_bytes(), section]);
            understood.extend(number.to_le_bytes());
            understood.extend(MUST_BE_UNDERSTOOD.to_le_bytes());
            for word in [element, count, crc] {
                understood.extend(word.to_le_bytes());
            }
            understood.extend(offset.to_le_bytes());
            understood.extend((u64::from(element) * u64::from(count)).to_le_bytes());
            offset += section.len() as u64;
        }
        let begin = segment.data_end.to_le_bytes();
        crc_from(segment.seed, &[&begin, &understood, &segment.header])
    }
}

fn units(offset: u64) -> u32 {
    u32::try_from(offset / 8).expect("segments are far smaller than 32 GiB")
}
