//! [`MemoryIndex`]: the index of a segment that isn't sealed, in memory; it becomes the index block.

use super::NumberMap;
use crate::format::{
    index::{self, KeyRow, Parts, SAMPLE_EVERY, SampleRow, StepRow, StreamRow},
    offset_to_units, units_to_offset,
};

/// What an index block says, for a segment that still grows. 4 bytes a data record and a row a stream.
#[derive(Default)]
pub(crate) struct MemoryIndex {
    streams: NumberMap<Postings>,
    postings: usize,
    samples: Vec<u32>,
    steps: Vec<StepRow>,
    keys: Vec<KeyRow>,
    records: u32,
    times_ms: Option<(u64, u64)>,
    last_offset: Option<u64>,
}

struct Postings {
    first_ordinal: u32,
    offsets: Vec<u32>,
}

impl MemoryIndex {
    /// The index that these parts, checked before, say.
    pub(crate) fn from_parts(parts: Parts, records: u32, times_ms: Option<(u64, u64)>) -> Self {
        // Every record that has a position is data or a step.
        let last_data = parts.postings.iter().max().map(|units| units_to_offset(*units));
        let last_offset = last_data.max(parts.steps.last().map(|step| step.offset));
        let mut streams = NumberMap::default();
        for row in &parts.stream_rows {
            let start = row.postings_start as usize;
            let offsets = parts.postings[start..start + row.count as usize].to_vec();
            streams.insert(row.stream, Postings { first_ordinal: row.first_ordinal, offsets });
        }
        Self {
            streams,
            postings: parts.postings.len(),
            samples: parts.samples.iter().map(|sample| offset_to_units(sample.offset)).collect(),
            steps: parts.steps,
            keys: parts.keys,
            records,
            times_ms,
            last_offset,
        }
    }

    /// Counts a record of any kind.
    pub(crate) fn add_record(&mut self, offset: u64, time_ms: u64) {
        if self.records.is_multiple_of(SAMPLE_EVERY) {
            self.samples.push(offset_to_units(offset));
        }
        self.records += 1;
        self.last_offset = Some(offset);
        let (first, _) = self.times_ms.unwrap_or((time_ms, time_ms));
        self.times_ms = Some((first, time_ms));
    }

    /// Indexes a data record; whether its ordinal is the one that follows.
    pub(crate) fn add_data(&mut self, stream: u32, ordinal: u32, offset: u64) -> bool {
        let postings =
            self.streams.entry(stream).or_insert_with(|| Postings { first_ordinal: ordinal, offsets: Vec::new() });
        if postings.first_ordinal as usize + postings.offsets.len() != ordinal as usize {
            return false;
        }
        postings.offsets.push(offset_to_units(offset));
        self.postings += 1;
        true
    }

    pub(crate) fn add_step(&mut self, step: StepRow) {
        self.steps.push(step);
    }

    pub(crate) fn add_key(&mut self, key: KeyRow) {
        self.keys.push(key);
    }

    /// How many records the segment holds.
    pub(crate) fn records(&self) -> u32 {
        self.records
    }

    /// Where its last record begins.
    pub(crate) fn last_offset(&self) -> Option<u64> {
        self.last_offset
    }

    /// The times of its first and its last record.
    pub(crate) fn times_ms(&self) -> Option<(u64, u64)> {
        self.times_ms
    }

    /// The offset of the data record of a stream with an ordinal.
    pub(crate) fn posting(&self, stream: u32, ordinal: u32) -> Option<u64> {
        let postings = self.streams.get(&stream)?;
        let index = ordinal.checked_sub(postings.first_ordinal)?;
        postings.offsets.get(index as usize).copied().map(units_to_offset)
    }

    /// The last sampled record at or before the one with this index.
    pub(crate) fn sample(&self, record_index: u32) -> Option<SampleRow> {
        let place = record_index / SAMPLE_EVERY;
        let units = self.samples.get(place as usize)?;
        Some(SampleRow { index: place * SAMPLE_EVERY, offset: units_to_offset(*units) })
    }

    /// The sampled records. In a segment that grows, records are consecutive: every 64th is sampled.
    fn sample_rows(&self) -> Vec<SampleRow> {
        let indexes = (0..).step_by(SAMPLE_EVERY as usize);
        let rows = self.samples.iter().zip(indexes);
        rows.map(|(units, index)| SampleRow { index, offset: units_to_offset(*units) }).collect()
    }

    /// The offsets of the batches that may have this key.
    pub(crate) fn keys(&self, stream: u32, hash: u64) -> impl Iterator<Item = u64> + '_ {
        self.keys.iter().filter(move |key| key.stream == stream && key.hash == hash).map(|key| key.offset)
    }

    /// The size of the index block if the segment were sealed now.
    pub(crate) fn encoded_bytes(&self) -> u64 {
        index::encoded_bytes(self.streams.len(), self.postings, self.samples.len(), self.steps.len(), self.keys.len())
    }

    /// The parts of the index block; `id_of` names a stream by its number.
    pub(crate) fn parts(&self, id_of: impl Fn(u32) -> [u8; 16]) -> Parts {
        let mut streams: Vec<_> = self.streams.iter().collect();
        streams.sort_unstable_by_key(|(stream, _)| **stream);
        let mut postings = Vec::with_capacity(self.postings);
        let stream_rows = streams
            .into_iter()
            .map(|(stream, own)| {
                let count = |length: usize| u32::try_from(length).expect("a segment holds fewer than 2^32 records");
                let row = StreamRow {
                    stream: *stream,
                    first_ordinal: own.first_ordinal,
                    count: count(own.offsets.len()),
                    postings_start: count(postings.len()),
                    id: id_of(*stream),
                };
                postings.extend_from_slice(&own.offsets);
                row
            })
            .collect();
        let mut keys = self.keys.clone();
        keys.sort_unstable();
        Parts { stream_rows, postings, samples: self.sample_rows(), steps: self.steps.clone(), keys }
    }
}
