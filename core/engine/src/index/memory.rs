//! [`MemoryIndex`]: the index of a segment that isn't sealed, in memory; it becomes the index block.

use std::collections::{HashMap, hash_map::Entry};

use super::NumberMap;
use crate::{
    Label,
    format::{
        index::{ControlRow, Counts, KeyRow, Labelled, Parts, SAMPLE_EVERY, SampleRow, StreamRow},
        offset_to_units, units_to_offset,
    },
    sync::Arc,
};

/// The contents of an index block for a segment that still grows: 4 bytes per data record and a row per stream.
#[derive(Default)]
pub(crate) struct MemoryIndex {
    streams: NumberMap<Postings>,
    postings: usize,
    samples: Vec<u32>,
    controls: Vec<ControlRow>,
    keys: Keys,
    labels: Labels,
    records: u32,
    times_ms: Option<(u64, u64)>,
    last_offset: Option<u64>,
}

/// The keys of the segment, in the order they were written.
#[derive(Default)]
struct Keys {
    /// Each row with the place of the previous row of the same stream and hash, plus 1; 0 for none.
    rows: Vec<(KeyRow, u32)>,
    /// The place of the newest row of a stream and a hash, plus 1.
    newest: HashMap<(u32, u64), u32>,
}

impl Keys {
    fn add(&mut self, key: KeyRow) {
        let place =
            u32::try_from(self.rows.len() + 1).expect("a segment holds fewer than 2^32 keys");
        let before = self.newest.insert((key.stream, key.hash), place);
        self.rows.push((key, before.unwrap_or(0)));
    }

    fn find(&self, stream: u32, hash: u64) -> impl Iterator<Item = u64> + '_ {
        let row = |place: u32| self.rows.get((place as usize).checked_sub(1)?);
        let newest = self.newest.get(&(stream, hash)).copied().unwrap_or(0);
        std::iter::successors(row(newest), move |(_, before)| row(*before))
            .map(|(key, _)| key.offset)
    }
}

/// The labels of the segment's records.
#[derive(Default)]
struct Labels {
    /// Those that were loaded with the segment, as its index block has them, sorted by label: to sort them anew and to fill a
    /// map with them would be most of the time that opening takes. All others come behind them.
    loaded: Arc<Parts>,
    /// Those that were added since, in the order they were written.
    rows: Vec<Labelled>,
    /// The places of the rows of a label. Callers choose labels, so the hash is one that they can't foresee.
    by_label: HashMap<Label, Places>,
}

/// The rows of one label. Most labels belong to one record only.
enum Places {
    One(u32),
    Many(Vec<u32>),
}

impl Labels {
    /// Those of a loaded index, of which nothing else is kept.
    fn loaded(parts: Parts) -> Self {
        let loaded = match parts.label_rows.is_empty() {
            true => Parts::default(),
            false => Parts {
                samples: Vec::new(),
                controls: Vec::new(),
                keys: Vec::new(),
                ..parts
            },
        };
        Self {
            loaded: Arc::new(loaded),
            ..Self::default()
        }
    }

    fn add(&mut self, labelled: Labelled) {
        let place = u32::try_from(self.rows.len()).expect("a segment holds fewer than 2^32 labels");
        self.rows.push(labelled);
        match self.by_label.entry(labelled.label) {
            Entry::Vacant(entry) => drop(entry.insert(Places::One(place))),
            Entry::Occupied(mut entry) => match entry.get_mut() {
                Places::Many(places) => places.push(place),
                Places::One(first) => {
                    let places = vec![*first, place];
                    *entry.get_mut() = Places::Many(places);
                }
            },
        }
    }

    /// How many labels there are at most, and how often all of them stand at a record.
    fn counts(&self) -> (usize, usize) {
        (
            self.loaded.label_rows.len() + self.by_label.len(),
            self.loaded.label_postings.len() + self.rows.len(),
        )
    }

    fn find(&self, label: Label) -> impl DoubleEndedIterator<Item = Labelled> {
        let loaded = &self.loaded;
        let loaded = loaded
            .postings_of(label)
            .iter()
            .filter_map(move |place| loaded.labelled(label, *place));
        let places = match self.by_label.get(&label) {
            None => &[],
            Some(Places::One(place)) => std::slice::from_ref(place),
            Some(Places::Many(places)) => &places[..],
        };
        let added = places
            .iter()
            .filter_map(|place| self.rows.get(*place as usize).copied());
        loaded.chain(added)
    }
}

struct Postings {
    first_ordinal: u32,
    offsets: Vec<u32>,
}

impl MemoryIndex {
    /// The index made of these parts, which were checked.
    pub(crate) fn from_parts(mut parts: Parts, records: u32, times_ms: Option<(u64, u64)>) -> Self {
        // Every record that has a position is data or has a control row.
        let last_data = parts
            .postings
            .iter()
            .max()
            .map(|units| units_to_offset(*units));
        let last_offset = last_data.max(parts.controls.last().map(|control| control.offset));
        let mut streams = NumberMap::default();
        for row in &parts.stream_rows {
            let start = row.postings_start as usize;
            let offsets = parts.postings[start..start + row.count as usize].to_vec();
            streams.insert(
                row.stream,
                Postings {
                    first_ordinal: row.first_ordinal,
                    offsets,
                },
            );
        }
        Self {
            streams,
            postings: parts.postings.len(),
            samples: parts
                .samples
                .iter()
                .map(|sample| offset_to_units(sample.offset))
                .collect(),
            controls: std::mem::take(&mut parts.controls),
            keys: std::mem::take(&mut parts.keys).into_iter().fold(
                Keys::default(),
                |mut keys, key| {
                    keys.add(key);
                    keys
                },
            ),
            labels: Labels::loaded(parts),
            records,
            times_ms,
            last_offset,
        }
    }

    /// A copy from which the parts of an index block are made. Cheap, so that it can be taken under a lock.
    pub(crate) fn copy(&self) -> Copied {
        let streams = self.streams.iter();
        Copied {
            streams: streams
                .map(|(stream, own)| (*stream, own.first_ordinal, own.offsets.clone()))
                .collect(),
            samples: self.samples.clone(),
            controls: self.controls.clone(),
            keys: self.keys.rows.iter().map(|(key, _)| *key).collect(),
            loaded_labels: self.labels.loaded.clone(),
            labels: self.labels.rows.clone(),
            records: self.records,
            times_ms: self.times_ms,
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
        let postings = self.streams.entry(stream).or_insert_with(|| Postings {
            first_ordinal: ordinal,
            offsets: Vec::new(),
        });
        if postings.first_ordinal as usize + postings.offsets.len() != ordinal as usize {
            return false;
        }
        postings.offsets.push(offset_to_units(offset));
        self.postings += 1;
        true
    }

    pub(crate) fn add_control(&mut self, control: ControlRow) {
        self.controls.push(control);
    }

    pub(crate) fn add_key(&mut self, key: KeyRow) {
        self.keys.add(key);
    }

    /// Adds a label of the data record that was added last.
    pub(crate) fn add_label(&mut self, labelled: Labelled) {
        self.labels.add(labelled);
    }

    /// The records that have a label, by rising position.
    pub(crate) fn labelled(&self, label: Label) -> impl DoubleEndedIterator<Item = Labelled> {
        self.labels.find(label)
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
        postings
            .offsets
            .get(index as usize)
            .copied()
            .map(units_to_offset)
    }

    /// The last sampled record at or before the one with this index.
    pub(crate) fn sample(&self, record_index: u32) -> Option<SampleRow> {
        let place = record_index / SAMPLE_EVERY;
        let units = self.samples.get(place as usize)?;
        Some(SampleRow {
            index: place * SAMPLE_EVERY,
            offset: units_to_offset(*units),
        })
    }

    /// The offsets of the batches that may have this key, newest first. O(1) in the number of keys.
    pub(crate) fn keys(&self, stream: u32, hash: u64) -> impl Iterator<Item = u64> + '_ {
        self.keys.find(stream, hash)
    }

    /// The most bytes that the index block takes if the segment is sealed now.
    pub(crate) fn encoded_bytes(&self) -> u64 {
        let (label_rows, label_postings) = self.labels.counts();
        Counts {
            stream_rows: self.streams.len(),
            postings: self.postings,
            samples: self.samples.len(),
            controls: self.controls.len(),
            keys: self.keys.rows.len(),
            label_rows,
            label_postings,
        }
        .block_bytes_max()
    }
}

/// The contents of a [`MemoryIndex`], unsorted.
pub(crate) struct Copied {
    /// Number, first ordinal and offsets of each stream.
    streams: Vec<(u32, u32, Vec<u32>)>,
    samples: Vec<u32>,
    controls: Vec<ControlRow>,
    keys: Vec<KeyRow>,
    /// As in [`Labels`].
    loaded_labels: Arc<Parts>,
    labels: Vec<Labelled>,
    pub(crate) records: u32,
    pub(crate) times_ms: Option<(u64, u64)>,
}

impl Copied {
    /// The parts of the index block; `id_of` names a stream by its number.
    pub(crate) fn parts(mut self, id_of: impl Fn(u32) -> [u8; 16]) -> Parts {
        runlog_log::order::sort_by_key(&mut self.streams, |(stream, ..)| *stream);
        runlog_log::order::sort(&mut self.keys);
        let mut postings =
            Vec::with_capacity(self.streams.iter().map(|(.., offsets)| offsets.len()).sum());
        let count =
            |length: usize| u32::try_from(length).expect("a segment holds fewer than 2^32 records");
        let mut stream_rows = Vec::with_capacity(self.streams.len());
        for (stream, first_ordinal, offsets) in self.streams {
            stream_rows.push(StreamRow {
                stream,
                first_ordinal,
                count: count(offsets.len()),
                postings_start: count(postings.len()),
                id: id_of(stream),
            });
            postings.extend_from_slice(&offsets);
        }
        let mut parts = Parts {
            stream_rows,
            postings,
            samples: sample_rows(&self.samples),
            controls: self.controls,
            keys: self.keys,
            ..Parts::default()
        };
        let loaded = &self.loaded_labels;
        let mut labels: Vec<Labelled> = loaded
            .label_places()
            .filter_map(|(label, place)| loaded.labelled(label, place))
            .collect();
        labels.append(&mut self.labels);
        parts.set_labels(labels);
        parts
    }
}

/// The sampled records. In a segment that grows, records are consecutive: every 64th is sampled.
fn sample_rows(samples: &[u32]) -> Vec<SampleRow> {
    let indexes = (0..).step_by(SAMPLE_EVERY as usize);
    let rows = samples.iter().zip(indexes);
    rows.map(|(units, index)| SampleRow {
        index,
        offset: units_to_offset(*units),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_newest_first_by_stream_and_hash() {
        let mut index = MemoryIndex::default();
        for offset in 0..10_000_u64 {
            index.add_key(KeyRow {
                stream: u32::try_from(offset % 3).unwrap(),
                hash: offset % 100,
                offset: offset * 8,
            });
        }
        for stream in 0..3 {
            for hash in 0..101 {
                let expected = (0..10_000_u64)
                    .rev()
                    .filter(|key| key % 3 == u64::from(stream) && key % 100 == hash);
                let expected: Vec<u64> = expected.map(|key| key * 8).collect();
                assert_eq!(index.keys(stream, hash).collect::<Vec<_>>(), expected);
            }
        }
        let again = MemoryIndex::from_parts(index.copy().parts(|_| [0; 16]), 0, None);
        assert_eq!(again.keys(1, 31).count(), index.keys(1, 31).count());
        assert_eq!(again.encoded_bytes(), index.encoded_bytes());
    }
}
