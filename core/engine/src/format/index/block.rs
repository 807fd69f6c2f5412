//! [`Block`]: looking things up in an index block.

use super::{
    CONTROL_ROW_BYTES, ControlRow, KEY_ROW_BYTES, KeyRow, Parts, SAMPLE_ROW_BYTES,
    STREAM_ROW_BYTES, SampleRow, StreamRow, TRAILER_BYTES, Trailer,
};
use crate::{
    Error, ErrorKind, Result, checksum,
    format::{Field, Fields, aligned, segment, units_to_offset},
};

/// An index block as it lies on disk: looked into in place.
///
/// Made only by [`Block::check`], so that every lookup stays inside the bytes.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    bytes: bytes::Bytes,
    trailer: Trailer,
}

impl Block {
    /// Checks the CRC and the order of `bytes`, the block without its trailer.
    pub(crate) fn check(
        bytes: bytes::Bytes,
        trailer: Trailer,
        seed: u32,
        name: &str,
    ) -> Result<Self> {
        let damaged = |what: String| {
            Error::new(
                ErrorKind::Damaged,
                format!("{name}: offset {}: index block: {what}", trailer.data_end),
            )
        };
        let expected_bytes = trailer.block_bytes() - TRAILER_BYTES as u64;
        if bytes.len() as u64 != expected_bytes {
            return Err(damaged(format!(
                "{} bytes long, expected {expected_bytes}",
                bytes.len()
            )));
        }
        let crc = checksum::crc_at(seed, trailer.data_end, &bytes);
        if crc != trailer.index_crc {
            return Err(damaged(format!(
                "CRC is {crc:08x}, expected {:08x}",
                trailer.index_crc
            )));
        }
        let block = Self { bytes, trailer };
        let (mut last, mut postings) = (0, 0_u64);
        for row in block.stream_rows() {
            // The rows share out the postings, so that no block says more than it holds.
            let follows = u64::from(row.postings_start) == postings;
            postings += u64::from(row.count);
            let inside = postings <= u64::from(trailer.counts.postings);
            let counted =
                row.first_ordinal != 0 && row.first_ordinal.checked_add(row.count).is_some();
            if row.stream <= last || !follows || !inside || !counted {
                return Err(damaged(format!(
                    "row of stream number {} contradicts the others",
                    row.stream
                )));
            }
            last = row.stream;
        }
        Ok(block)
    }

    /// The row at a place of the section that begins at `start`.
    fn row<T: Field>(&self, start: usize, row_bytes: usize, place: u32) -> T {
        Fields::new(&self.bytes[start + place as usize * row_bytes..]).get()
    }

    fn stream_row(&self, place: u32) -> StreamRow {
        self.row(0, STREAM_ROW_BYTES, place)
    }

    fn posting_at(&self, place: u32) -> u32 {
        self.row(self.postings_start(), 4, place)
    }

    fn sample_row(&self, place: u32) -> SampleRow {
        self.row(self.samples_start(), SAMPLE_ROW_BYTES, place)
    }

    fn control_row(&self, place: u32) -> ControlRow {
        self.row(self.controls_start(), CONTROL_ROW_BYTES, place)
    }

    fn key_row(&self, place: u32) -> KeyRow {
        let start =
            self.controls_start() + self.trailer.counts.controls as usize * CONTROL_ROW_BYTES;
        self.row(start, KEY_ROW_BYTES, place)
    }

    pub(crate) fn stream_rows(&self) -> impl Iterator<Item = StreamRow> + '_ {
        (0..self.trailer.counts.stream_rows).map(|place| self.stream_row(place))
    }

    pub(crate) fn controls(&self) -> impl Iterator<Item = ControlRow> + '_ {
        (0..self.trailer.counts.controls).map(|place| self.control_row(place))
    }

    /// The row of a stream, if the segment holds data of it. O(log rows).
    pub(crate) fn find_stream(&self, stream: u32) -> Option<StreamRow> {
        let rows = self.trailer.counts.stream_rows;
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
        partition_point(self.trailer.counts.samples, is_before)
            .checked_sub(1)
            .map(|place| self.sample_row(place))
    }

    /// The offsets of the batches that may have this key: those whose hash agrees. O(log keys).
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
        let rows = self.trailer.counts.keys;
        let is_before = |place| {
            let row = self.key_row(place);
            (row.stream, row.hash) < (stream, hash)
        };
        (partition_point(rows, is_before)..rows).map(|place| self.key_row(place))
    }

    /// The parts again, to compare with those that the records give.
    pub(crate) fn parts(&self) -> Parts {
        let counts = &self.trailer.counts;
        Parts {
            stream_rows: self.stream_rows().collect(),
            postings: (0..counts.postings)
                .map(|place| self.posting_at(place))
                .collect(),
            samples: (0..counts.samples)
                .map(|place| self.sample_row(place))
                .collect(),
            controls: self.controls().collect(),
            keys: (0..counts.keys).map(|place| self.key_row(place)).collect(),
        }
    }

    pub(crate) fn trailer(&self) -> &Trailer {
        &self.trailer
    }

    /// The copy of the segment's header that ends it.
    pub(crate) fn header_copy(&self) -> &[u8] {
        &self.bytes[self.bytes.len().saturating_sub(segment::COPY_BYTES)..]
    }

    fn postings_start(&self) -> usize {
        self.trailer.counts.stream_rows as usize * STREAM_ROW_BYTES
    }

    fn samples_start(&self) -> usize {
        self.postings_start() + aligned(self.trailer.counts.postings as usize * 4)
    }

    fn controls_start(&self) -> usize {
        self.samples_start() + self.trailer.counts.samples as usize * SAMPLE_ROW_BYTES
    }
}

/// The first of `count` places that isn't before what is looked for.
fn partition_point(count: u32, is_before: impl Fn(u32) -> bool) -> u32 {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if is_before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}
