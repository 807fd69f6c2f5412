//! [`Draft`]: the index block of one segment, rebuilt from its records. Lost records have a place in it too, so that
//! later records keep their ordinals.

use crate::{
    Kind,
    format::{
        index::{
            ControlRow, Counts, Ends, KeyRow, Labelled, Parts, SAMPLE_EVERY, SampleRow, StreamRow,
            Trailer,
        },
        offset_to_units, segment,
    },
    index::NumberMap,
};

/// What an index block says, while it is made.
#[derive(Default)]
pub(crate) struct Draft {
    rows: NumberMap<Row>,
    samples: Vec<SampleRow>,
    controls: Vec<ControlRow>,
    keys: Vec<KeyRow>,
    /// Of records that were found, by rising position.
    labels: Vec<Labelled>,
    records: u32,
    times_ms: Option<(u64, u64)>,
}

struct Row {
    first_ordinal: u32,
    /// How many places there are.
    count: u32,
    places: Vec<Places>,
}

/// Consecutive data records of a stream.
enum Places {
    /// One after the other.
    Each(Vec<u32>),
    /// Lost ones, at places with a fixed distance, in units: a segment that is missing may have held millions.
    Lost { first: u32, stride: u32, count: u32 },
}

impl Row {
    fn units(&self) -> impl Iterator<Item = u32> + '_ {
        self.places.iter().flat_map(|places| {
            let (each, lost) = match places {
                Places::Each(units) => (&units[..], None),
                Places::Lost {
                    first,
                    stride,
                    count,
                } => (
                    &[][..],
                    Some((0..*count).map(move |nth| first + nth * stride)),
                ),
            };
            each.iter().copied().chain(lost.into_iter().flatten())
        })
    }
}

impl Draft {
    /// Counts a record that was found.
    pub(crate) fn add_record(&mut self, index: u32, offset: u64, time_ms: u64) {
        if index.is_multiple_of(SAMPLE_EVERY) {
            self.samples.push(SampleRow { index, offset });
        }
        self.records = self.records.saturating_add(1);
        let first = self.times_ms.map_or(time_ms, |(first, _)| first);
        self.times_ms = Some((first, time_ms));
    }

    /// Counts a record that is lost, but whose place is known or was chosen.
    pub(crate) fn add_lost(&mut self) {
        self.records = self.records.saturating_add(1);
    }

    /// Names a data record. Those of a stream come by rising ordinal.
    pub(crate) fn add_data(&mut self, stream: u32, ordinal: u32, offset: u64) {
        let row = self.row(stream, ordinal);
        row.count = row.count.saturating_add(1);
        let units = offset_to_units(offset);
        match row.places.last_mut() {
            Some(Places::Each(all)) => all.push(units),
            _ => row.places.push(Places::Each(vec![units])),
        }
    }

    /// Names data records that are lost, `stride` bytes from each other, and counts them.
    pub(crate) fn add_lost_data(
        &mut self,
        stream: u32,
        first_ordinal: u32,
        count: u32,
        offset: u64,
        stride: u64,
    ) {
        let row = self.row(stream, first_ordinal);
        row.count = row.count.saturating_add(count);
        row.places.push(Places::Lost {
            first: offset_to_units(offset),
            stride: offset_to_units(stride),
            count,
        });
        self.records = self.records.saturating_add(count);
    }

    fn row(&mut self, stream: u32, first_ordinal: u32) -> &mut Row {
        self.rows.entry(stream).or_insert_with(|| Row {
            first_ordinal,
            count: 0,
            places: Vec::new(),
        })
    }

    /// The most bytes that the index block takes, its trailer included, without making it.
    pub(crate) fn encoded_bytes(&self) -> u64 {
        let postings = self.rows.values().map(|row| row.count as usize).sum();
        Counts {
            stream_rows: self.rows.len(),
            postings,
            samples: self.samples.len(),
            controls: self.controls.len(),
            keys: self.keys.len(),
            label_rows: self.labels.len(),
            label_postings: self.labels.len(),
        }
        .block_bytes_max()
    }

    /// Whether a data record of the stream was named.
    pub(crate) fn has_stream(&self, stream: u32) -> bool {
        self.rows.contains_key(&stream)
    }

    /// Names an engine record.
    pub(crate) fn add_control(&mut self, control: ControlRow) {
        self.controls.push(control);
    }

    /// The engine record that makes a stream, to change it.
    pub(crate) fn creation_mut(&mut self, number: u32) -> Option<&mut ControlRow> {
        let is_creation = |control: &&mut ControlRow| {
            control.stream == number && matches!(control.kind, Kind::CREATE | Kind::FORK)
        };
        self.controls.iter_mut().rev().find(is_creation)
    }

    /// The engine record at an offset, to change it.
    pub(crate) fn control_mut(&mut self, offset: u64) -> Option<&mut ControlRow> {
        self.controls
            .iter_mut()
            .find(|control| control.offset == offset)
    }

    pub(crate) fn add_key(&mut self, key: KeyRow) {
        self.keys.push(key);
    }

    pub(crate) fn add_label(&mut self, labelled: Labelled) {
        self.labels.push(labelled);
    }

    pub(crate) fn records(&self) -> u32 {
        self.records
    }

    /// The times of the first and the last record that was found.
    pub(crate) fn times_ms(&self, header: &segment::Header) -> (u64, u64) {
        self.times_ms
            .unwrap_or((header.base_time_ms, header.base_time_ms))
    }

    /// The sections; `id_of` names a stream by its number.
    pub(crate) fn parts(&self, id_of: impl Fn(u32) -> [u8; 16]) -> Parts {
        let mut rows: Vec<_> = self.rows.iter().collect();
        runlog_log::order::sort_by_key(&mut rows, |(stream, _)| **stream);
        let mut postings = Vec::new();
        let count =
            |length: usize| u32::try_from(length).expect("a segment holds fewer than 2^32 records");
        let stream_rows = rows
            .into_iter()
            .map(|(stream, row)| {
                let postings_start = count(postings.len());
                postings.extend(row.units());
                StreamRow {
                    stream: *stream,
                    first_ordinal: row.first_ordinal,
                    count: row.count,
                    postings_start,
                    id: id_of(*stream),
                }
            })
            .collect();
        let mut keys = self.keys.clone();
        runlog_log::order::sort(&mut keys);
        // What is lost was named when a record behind it showed that it is.
        let mut controls = self.controls.clone();
        runlog_log::order::sort_by_key(&mut controls, |control| control.offset);
        let mut parts = Parts {
            stream_rows,
            postings,
            samples: self.samples.clone(),
            controls,
            keys,
            ..Parts::default()
        };
        parts.set_labels(self.labels.clone());
        parts
    }

    /// The trailer, but for the counts and the CRC that come with the block.
    pub(crate) fn trailer(&self, header: &segment::Header, ends: &Ends) -> Trailer {
        Trailer::new(header, ends, self.records, self.times_ms)
    }
}
