//! [`Block`]: lookups in an index block.

use std::ops::Range;

use super::{
    ControlRow, KeyRow, LabelIndex, Parts, SampleRow, Section, SectionType, StreamRow,
    TRAILER_BYTES, Table, Trailer, check_section, partition_point,
};
use crate::{
    Error, Result,
    format::{Field, Fields, aligned, segment, units_to_offset},
};

/// An index block in its encoding on disk, which lookups read in place.
///
/// Made only by [`Block::check`], so that every lookup stays inside the bytes.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    bytes: bytes::Bytes,
    trailer: Trailer,
    stream_rows: Rows,
    postings: Rows,
    samples: Rows,
    controls: Rows,
    keys: Rows,
    /// `None` if the block was read without them.
    labels: Option<LabelIndex>,
    header_copy: bytes::Bytes,
}

/// A section: where it begins in the block, how long each of its elements is, and how many there are.
#[derive(Clone, Copy, Debug, Default)]
struct Rows {
    start: usize,
    row_bytes: usize,
    count: u32,
}

impl Rows {
    fn of(table: &Table, kind: SectionType, data_end: u64) -> Self {
        // The table was checked, so its sections lie inside the block.
        let section = table.find(kind);
        section.map_or_else(Self::default, |section| Self {
            start: usize::try_from(section.offset - data_end).unwrap_or(usize::MAX),
            row_bytes: section.element_bytes as usize,
            count: section.count,
        })
    }

    /// The places of its elements.
    fn places(&self) -> Range<u32> {
        0..self.count
    }
}

impl Block {
    /// Checks the CRCs and the order of `bytes`, the block without its trailer.
    pub(crate) fn check(
        bytes: bytes::Bytes,
        trailer: Trailer,
        seed: u32,
        name: &str,
    ) -> Result<Self> {
        let expected_bytes = trailer.block_bytes() - TRAILER_BYTES as u64;
        if bytes.len() as u64 != expected_bytes {
            return Err(damaged(
                name,
                &trailer,
                &format!("{} bytes long, expected {expected_bytes}", bytes.len()),
            ));
        }
        let table_start = usize::try_from(trailer.table_offset() - trailer.data_end)
            .expect("the block is in memory");
        let table = bytes.slice(table_start..);
        let sections = Table::decode(&table, &trailer, seed, name)?;
        for section in &sections.0 {
            check_section(section, &slice(&bytes, section, &trailer), seed, name)?;
        }
        let section = |kind| {
            let section = sections.find(kind);
            section.map_or_else(bytes::Bytes::new, |section| {
                let mut padded = slice(&bytes, section, &trailer);
                padded.truncate(usize::try_from(section.bytes).unwrap_or(usize::MAX));
                padded
            })
        };
        let labels = LabelIndex::check(&sections, section, name)?;
        let block = Self::of(bytes.clone(), &sections, trailer, table, name)?;
        let places = block.postings.count;
        if labels
            .as_ref()
            .is_some_and(|labels| labels.postings().any(|place| place >= places))
        {
            return Err(damaged(name, &trailer, "a label posting names no posting"));
        }
        Ok(Self { labels, ..block })
    }

    /// The block without its labels: `bytes` are its sections except those of labels, and their CRCs are checked here;
    /// `table` are the bytes after the sections.
    pub(crate) fn check_without_labels(
        bytes: bytes::Bytes,
        sections: &Table,
        table: bytes::Bytes,
        trailer: Trailer,
        seed: u32,
        name: &str,
    ) -> Result<Self> {
        for section in sections.before_labels() {
            check_section(section, &slice(&bytes, section, &trailer), seed, name)?;
        }
        Self::of(bytes, sections, trailer, table, name)
    }

    /// Checks the order of sections whose CRCs are right.
    fn of(
        bytes: bytes::Bytes,
        sections: &Table,
        trailer: Trailer,
        table: bytes::Bytes,
        name: &str,
    ) -> Result<Self> {
        let rows = |kind| Rows::of(sections, kind, trailer.data_end);
        let block = Self {
            bytes,
            trailer,
            stream_rows: rows(SectionType::STREAM_ROWS),
            postings: rows(SectionType::POSTINGS),
            samples: rows(SectionType::SAMPLES),
            controls: rows(SectionType::CONTROLS),
            keys: rows(SectionType::KEYS),
            labels: None,
            header_copy: table.slice(table.len() - segment::COPY_BYTES..),
        };
        let (mut last, mut postings) = (0, 0_u64);
        for row in block.stream_rows() {
            // The rows partition the postings, so that no row points outside of them.
            let follows = u64::from(row.postings_start) == postings;
            postings += u64::from(row.count);
            let inside = postings <= u64::from(block.postings.count);
            let counted =
                row.first_ordinal != 0 && row.first_ordinal.checked_add(row.count).is_some();
            if row.stream <= last || !follows || !inside || !counted {
                return Err(damaged(
                    name,
                    &trailer,
                    &format!("row of stream number {} contradicts the others", row.stream),
                ));
            }
            last = row.stream;
        }
        Ok(block)
    }

    /// The element at a place of a section.
    fn row<T: Field>(&self, rows: &Rows, place: u32) -> T {
        Fields::new(&self.bytes[rows.start + place as usize * rows.row_bytes..]).get()
    }

    fn stream_row(&self, place: u32) -> StreamRow {
        self.row(&self.stream_rows, place)
    }

    fn posting_at(&self, place: u32) -> u32 {
        self.row(&self.postings, place)
    }

    fn sample_row(&self, place: u32) -> SampleRow {
        self.row(&self.samples, place)
    }

    fn key_row(&self, place: u32) -> KeyRow {
        self.row(&self.keys, place)
    }

    pub(crate) fn stream_rows(&self) -> impl Iterator<Item = StreamRow> + '_ {
        self.stream_rows
            .places()
            .map(|place| self.stream_row(place))
    }

    pub(crate) fn controls(&self) -> impl Iterator<Item = ControlRow> + '_ {
        self.controls
            .places()
            .map(|place| self.row(&self.controls, place))
    }

    /// How many engine records the segment holds.
    pub(crate) fn controls_count(&self) -> u32 {
        self.controls.count
    }

    /// The row of a stream, if the segment holds data of it. O(log rows).
    pub(crate) fn find_stream(&self, stream: u32) -> Option<StreamRow> {
        let rows = self.stream_rows.count;
        let place = partition_point(rows, |place| self.stream_row(place).stream < stream);
        (place < rows)
            .then(|| self.stream_row(place))
            .filter(|row| row.stream == stream)
    }

    /// The offset of the data record with an ordinal, in the row of its stream.
    pub(crate) fn posting(&self, row: &StreamRow, ordinal: u32) -> Option<u64> {
        let index = ordinal.checked_sub(row.first_ordinal)?;
        (index < row.count).then(|| units_to_offset(self.posting_at(row.postings_start + index)))
    }

    /// The last sampled record at or before the one with this index. O(log samples).
    pub(crate) fn sample(&self, record_index: u32) -> Option<SampleRow> {
        let is_before = |place| self.sample_row(place).index <= record_index;
        partition_point(self.samples.count, is_before)
            .checked_sub(1)
            .map(|place| self.sample_row(place))
    }

    /// Every sample from the first one at or after a record's index. In a pack, which samples each record, these are
    /// all records in order of position.
    pub(crate) fn samples_from(&self, record_index: u32) -> impl Iterator<Item = SampleRow> + '_ {
        let rows = self.samples.count;
        let first = partition_point(rows, |place| self.sample_row(place).index < record_index);
        (first..rows).map(|place| self.sample_row(place))
    }

    /// The rows of all keys.
    pub(crate) fn keys_all(&self) -> impl Iterator<Item = KeyRow> + '_ {
        self.keys.places().map(|place| self.key_row(place))
    }

    /// The offsets of the batches that may have this key: those with the same hash. O(log keys).
    pub(crate) fn keys(&self, stream: u32, hash: u64) -> impl Iterator<Item = u64> + '_ {
        self.keys_from(stream, hash)
            .take_while(move |row| row.stream == stream && row.hash == hash)
            .map(|row| row.offset)
    }

    /// The hashes of all keys of a stream.
    pub(crate) fn keys_of(&self, stream: u32) -> impl Iterator<Item = u64> + '_ {
        self.keys_from(stream, 0)
            .take_while(move |row| row.stream == stream)
            .map(|row| row.hash)
    }

    fn keys_from(&self, stream: u32, hash: u64) -> impl Iterator<Item = KeyRow> + '_ {
        let rows = self.keys.count;
        let is_before = |place| {
            let row = self.key_row(place);
            (row.stream, row.hash) < (stream, hash)
        };
        (partition_point(rows, is_before)..rows).map(|place| self.key_row(place))
    }

    /// The decoded parts, to compare with those computed from the records.
    pub(crate) fn parts(&self) -> Parts {
        Parts {
            stream_rows: self.stream_rows().collect(),
            postings: self
                .postings
                .places()
                .map(|place| self.posting_at(place))
                .collect(),
            samples: self
                .samples
                .places()
                .map(|place| self.sample_row(place))
                .collect(),
            controls: self.controls().collect(),
            keys: self
                .keys
                .places()
                .map(|place| self.key_row(place))
                .collect(),
            label_rows: self
                .labels
                .iter()
                .flat_map(LabelIndex::label_rows)
                .collect(),
            label_postings: self.labels.iter().flat_map(LabelIndex::postings).collect(),
        }
    }

    /// The bytes that it takes in memory.
    pub(crate) fn weight(&self) -> usize {
        self.bytes.len() + self.header_copy.len() + size_of::<Self>()
    }

    /// Whether the label filter is the one of the block's labels. A filter that lacks a label hides its records.
    pub(crate) fn has_right_filter(&self) -> bool {
        self.labels
            .as_ref()
            .is_none_or(LabelIndex::has_right_filter)
    }

    /// The labels, if the block was read with them and has any.
    pub(crate) fn labels(&self) -> Option<&LabelIndex> {
        self.labels.as_ref()
    }

    /// The offset of the record at a place among the postings.
    pub(crate) fn offset_at(&self, place: u32) -> Option<u64> {
        (place < self.postings.count).then(|| units_to_offset(self.posting_at(place)))
    }

    /// The stream and the ordinal of the record at a place among the postings. O(log rows).
    pub(crate) fn ordinal_at(&self, place: u32) -> Option<(u32, u32)> {
        let after = partition_point(self.stream_rows.count, |row| {
            self.stream_row(row).postings_start <= place
        });
        let row = self.stream_row(after.checked_sub(1)?);
        let nth = place - row.postings_start;
        (nth < row.count).then(|| (row.stream, row.first_ordinal.saturating_add(nth)))
    }

    pub(crate) fn trailer(&self) -> &Trailer {
        &self.trailer
    }

    /// The copy of the segment's header that ends it.
    pub(crate) fn header_copy(&self) -> &[u8] {
        &self.header_copy
    }
}

/// The bytes of a section, with its padding; `bytes` are the block from its beginning. The table was checked.
fn slice(bytes: &bytes::Bytes, section: &Section, trailer: &Trailer) -> bytes::Bytes {
    let within = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
    let start = within(section.offset - trailer.data_end);
    bytes.slice(start..start + aligned(within(section.bytes)))
}

fn damaged(name: &str, trailer: &Trailer, what: &str) -> Error {
    Error::damaged(format!(
        "{name}: offset {}: index block: {what}",
        trailer.data_end
    ))
}
