//! [`Parts`]: an index block before it is encoded.

use super::{
    ControlRow, Counts, KeyRow, LabelRow, SampleRow, Section, SectionType, StreamRow, Table,
    Trailer, labels::filter,
};
use crate::{
    Label, checksum,
    format::{Field, aligned, segment, units_to_offset},
};

/// The index of one segment, built from its parts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Parts {
    pub(crate) stream_rows: Vec<StreamRow>,
    pub(crate) postings: Vec<u32>,
    pub(crate) samples: Vec<SampleRow>,
    pub(crate) controls: Vec<ControlRow>,
    pub(crate) keys: Vec<KeyRow>,
    pub(crate) label_rows: Vec<LabelRow>,
    /// Places in `postings`.
    pub(crate) label_postings: Vec<u32>,
}

impl Parts {
    /// Each label, with the place of a posting that has it.
    pub(crate) fn label_places(&self) -> impl Iterator<Item = (Label, u32)> + '_ {
        let ends = self.label_rows.iter().map(|row| row.end as usize);
        let starts = std::iter::once(0).chain(ends.clone());
        let rows = self.label_rows.iter().zip(starts.zip(ends));
        rows.flat_map(|(row, (start, end))| {
            let postings = self.label_postings.get(start..end).unwrap_or_default();
            postings.iter().map(|place| (row.label, *place))
        })
    }

    /// The encoded block of the segment with this header, followed by the trailer with sizes and CRCs filled in; and
    /// the index CRC that the header of the next segment repeats.
    pub(crate) fn encode(&self, mut trailer: Trailer, header: &segment::Header) -> (Vec<u8>, u32) {
        let length = usize::try_from(self.counts().block_bytes_max()).unwrap_or(0);
        let mut writer = BlockWriter {
            bytes: Vec::with_capacity(length),
            table: Table::default(),
            data_end: trailer.data_end,
            seed: header.seed(),
        };
        writer.section(SectionType::STREAM_ROWS, &self.stream_rows);
        writer.section(SectionType::POSTINGS, &self.postings);
        writer.section(SectionType::SAMPLES, &self.samples);
        writer.section(SectionType::CONTROLS, &self.controls);
        writer.section(SectionType::KEYS, &self.keys);
        writer.section(SectionType::LABEL_ROWS, &self.label_rows);
        writer.section(SectionType::LABEL_POSTINGS, &self.label_postings);
        writer.section(SectionType::LABEL_FILTER, &filter(&self.label_rows));
        writer.finish(&mut trailer, header)
    }
}

impl Parts {
    fn counts(&self) -> Counts {
        Counts {
            stream_rows: self.stream_rows.len(),
            postings: self.postings.len(),
            samples: self.samples.len(),
            controls: self.controls.len(),
            keys: self.keys.len(),
            label_rows: self.label_rows.len(),
            label_postings: self.label_postings.len(),
        }
    }

    /// Fills in the label index. `labels` are the labels of each record with its stream and ordinal, those of one label by
    /// ascending position; a label of a record that no row covers is omitted.
    pub(crate) fn set_labels(&mut self, mut labels: Vec<Labelled>) {
        // Stable: those of one label stay in order.
        runlog_log::order::sort_by_key(&mut labels, |labelled| labelled.label);
        for labelled in labels {
            let Some(place) = self.place_of(labelled.stream, labelled.ordinal) else {
                continue;
            };
            self.label_postings.push(place);
            let end = u32::try_from(self.label_postings.len())
                .expect("a segment has fewer than 2^32 labels");
            match self.label_rows.last_mut() {
                Some(row) if row.label == labelled.label => row.end = end,
                _ => self.label_rows.push(LabelRow {
                    label: labelled.label,
                    end,
                }),
            }
        }
    }

    /// The places in `postings` of the records that have a label.
    pub(crate) fn postings_of(&self, label: Label) -> &[u32] {
        let rows = &self.label_rows;
        let Ok(found) = rows.binary_search_by_key(&label, |row| row.label) else {
            return &[];
        };
        let start = found
            .checked_sub(1)
            .map_or(0, |before| rows[before].end as usize);
        let end = rows[found].end as usize;
        self.label_postings.get(start..end).unwrap_or_default()
    }

    /// The record at a place among the postings, as one that has the label.
    pub(crate) fn labelled(&self, label: Label, place: u32) -> Option<Labelled> {
        let after = self
            .stream_rows
            .partition_point(|row| row.postings_start <= place);
        let row = &self.stream_rows[after.checked_sub(1)?];
        Some(Labelled {
            label,
            stream: row.stream,
            ordinal: row.first_ordinal.checked_add(place - row.postings_start)?,
            offset: units_to_offset(*self.postings.get(place as usize)?),
        })
    }

    /// The place of a data record among the postings.
    fn place_of(&self, stream: u32, ordinal: u32) -> Option<u32> {
        let rows = &self.stream_rows;
        let row = &rows[rows.binary_search_by_key(&stream, |row| row.stream).ok()?];
        let nth = ordinal.checked_sub(row.first_ordinal)?;
        (nth < row.count).then(|| row.postings_start + nth)
    }
}

/// A label of a data record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Labelled {
    pub(crate) label: Label,
    pub(crate) stream: u32,
    pub(crate) ordinal: u32,
    pub(crate) offset: u64,
}

/// An index block that is being encoded.
pub(super) struct BlockWriter {
    pub(super) bytes: Vec<u8>,
    pub(super) table: Table,
    pub(super) data_end: u64,
    pub(super) seed: u32,
}

impl BlockWriter {
    /// Appends a section, unless it is empty.
    pub(super) fn section<T: Field>(&mut self, kind: SectionType, rows: &[T]) {
        if rows.is_empty() {
            return;
        }
        let start = self.bytes.len();
        rows.iter().for_each(|row| row.put(&mut self.bytes));
        self.bytes.resize(aligned(self.bytes.len()), 0);
        let count = u32::try_from(rows.len()).expect("a segment holds fewer than 2^32 of anything");
        let (offset, bytes) = (self.data_end + start as u64, &self.bytes[start..]);
        let section = Section::of(kind, count, offset, bytes, self.seed);
        self.table.0.push(section);
    }

    /// Appends the table, the header and the trailer.
    pub(super) fn finish(
        mut self,
        trailer: &mut Trailer,
        header: &segment::Header,
    ) -> (Vec<u8>, u32) {
        let table_start = self.bytes.len();
        for section in &self.table.0 {
            section.put(&mut self.bytes);
        }
        let copy = header.encode();
        put!(&mut self.bytes, copy);
        trailer.sections =
            u32::try_from(self.table.0.len()).expect("there are a few types of sections");
        trailer.index_bytes = self.bytes.len() as u64;
        trailer.table_crc = checksum::crc_at(self.seed, self.data_end, &self.bytes[table_start..]);
        trailer.index_crc = self.table.index_crc(&copy, self.data_end, self.seed);
        put!(&mut self.bytes, trailer.encode());
        (self.bytes, trailer.index_crc)
    }
}
