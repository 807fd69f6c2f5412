//! The index block and trailer that end a sealed segment.
//!
//! Sections in this order, each at a multiple of 8 bytes: stream rows (32 bytes each, by stream number),
//! postings (4 bytes a data record: its offset), samples (8 bytes: the index and offset of every 64th record), control rows
//! (48 bytes each: what engine records did, in order), keys (16 bytes each), the segment's header once more
//! (512 bytes), and the trailer (128 bytes).

use bytes::BufMut;

use super::{Field, Fields, VERSION, aligned, offset_to_units, record, segment, units_to_offset};
use crate::{Error, ErrorKind, Kind, Result, SegmentId, checksum, limits};

/// The offset of one in this many records is sampled.
pub(crate) const SAMPLE_EVERY: u32 = 64;
/// The size of the trailer.
pub(crate) const TRAILER_BYTES: usize = 128;
pub(crate) const STREAM_ROW_BYTES: usize = 32;
pub(crate) const CONTROL_ROW_BYTES: usize = 48;
pub(crate) const KEY_ROW_BYTES: usize = 16;
pub(crate) const SAMPLE_ROW_BYTES: usize = 8;

const MAGIC: [u8; 8] = *b"RUNLOGIX";
/// The flag of a trailer whose block was made by a repair.
const FLAG_REPAIRED: u32 = 1;
/// Where the flags of a trailer are.
const FLAGS_AT: usize = 92;

layout! {
    /// Which data records of a stream a segment holds.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) struct StreamRow {
        pub(crate) stream: u32,
        /// How many data records the stream was given before, plus 1.
        pub(crate) first_ordinal: u32,
        pub(crate) count: u32,
        /// The index of its first posting.
        pub(crate) postings_start: u32,
        pub(crate) id: [u8; 16],
    }
}

layout! {
    /// What one engine record did, as the directory needs it.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) struct ControlRow {
        pub(crate) kind: Kind,
        pub(crate) stream: u32,
        /// The sequence it speaks of.
        pub(crate) sequence: u32,
        /// Truncate: the data records the stream had been given. Snapshot: the ordinal it is attached to.
        pub(crate) ordinal: u32,
        pub(crate) offset: u64 as units,
        /// Fork: the parent. Snapshot: the stream that the ordinal counts in.
        pub(crate) other: u32,
        /// Redact: the position of the redacted record.
        pub(crate) target: u64,
        /// Create and fork: the new stream's id.
        pub(crate) id: [u8; 16],
    }
}

impl ControlRow {
    /// A row that says nothing yet but its kind and its stream.
    pub(crate) fn new(kind: Kind, stream: u32) -> Self {
        Self {
            kind,
            stream,
            sequence: 0,
            ordinal: 0,
            offset: 0,
            other: 0,
            target: 0,
            id: [0; 16],
        }
    }
}

/// In a row, a kind takes 4 bytes.
impl Field for Kind {
    fn put(&self, bytes: &mut impl BufMut) {
        bytes.put_slice(&[self.0, 0, 0, 0]);
    }

    fn get(fields: &mut Fields<'_>) -> Self {
        let [kind, ..] = fields.take::<4>();
        Self(kind)
    }
}

/// Where the batch with an idempotency key begins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct KeyRow {
    pub(crate) stream: u32,
    pub(crate) hash: u64,
    pub(crate) offset: u64,
}

impl Field for KeyRow {
    fn put(&self, bytes: &mut impl BufMut) {
        put!(bytes, self.stream, offset_to_units(self.offset), self.hash);
    }

    fn get(fields: &mut Fields<'_>) -> Self {
        let (stream, units, hash) = (fields.get(), fields.get(), fields.get());
        Self {
            stream,
            hash,
            offset: units_to_offset(units),
        }
    }
}

layout! {
    /// Where a record is, found by its index in the segment.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
    pub(crate) struct SampleRow {
        pub(crate) index: u32,
        pub(crate) offset: u64 as units,
    }
}

layout! {
    /// How many rows each section of a block has.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub(crate) struct Counts {
        pub(crate) stream_rows: u32,
        pub(crate) postings: u32,
        pub(crate) samples: u32,
        pub(crate) controls: u32,
        pub(crate) keys: u32,
    }
}

impl Counts {
    /// The counts of sections with these lengths.
    pub(crate) fn of([stream_rows, postings, samples, controls, keys]: [usize; 5]) -> Self {
        let count = |length: usize| {
            u32::try_from(length).expect("a segment holds fewer than 2^32 of anything")
        };
        Self {
            stream_rows: count(stream_rows),
            postings: count(postings),
            samples: count(samples),
            controls: count(controls),
            keys: count(keys),
        }
    }

    /// The size of the block, its trailer included. In 64 bits: the counts may be a hostile file's.
    pub(crate) fn encoded_bytes(&self) -> u64 {
        let times = |count: u32, bytes: usize| u64::from(count) * bytes as u64;
        times(self.stream_rows, STREAM_ROW_BYTES)
            + times(self.postings, 4).next_multiple_of(aligned(1) as u64)
            + times(self.samples, SAMPLE_ROW_BYTES)
            + times(self.controls, CONTROL_ROW_BYTES)
            + times(self.keys, KEY_ROW_BYTES)
            + (segment::COPY_BYTES + TRAILER_BYTES) as u64
    }
}

layout! {
    /// The last 128 bytes of a sealed segment.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) struct Trailer {
        pub(crate) salt: u32,
        /// Where the records end and the index block begins.
        pub(crate) data_end: u64,
        pub(crate) base_position: u64,
        /// The position after its last record's.
        pub(crate) next_position: u64,
        pub(crate) time_min_ms: u64,
        pub(crate) time_max_ms: u64,
        pub(crate) segment: SegmentId,
        /// How many of its records have a position.
        pub(crate) records: u32,
        pub(crate) counts: Counts,
        /// The number that the next new stream gets.
        pub(crate) next_stream: u32,
        pub(crate) index_crc: u32,
        /// Whether the block was made by a repair: records that it names may be lost.
        pub(crate) repaired: bool,
    }
}

/// The flags of a trailer.
impl Field for bool {
    fn put(&self, bytes: &mut impl BufMut) {
        put!(bytes, if *self { FLAG_REPAIRED } else { 0 });
    }

    fn get(fields: &mut Fields<'_>) -> Self {
        fields.u32() & FLAG_REPAIRED != 0
    }
}

/// What a trailer says that neither the segment's header nor its block does.
pub(crate) struct Ends {
    pub(crate) data_end: u64,
    pub(crate) next_position: u64,
    pub(crate) next_stream: u32,
    pub(crate) repaired: bool,
}

/// The index of one segment, built from its parts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Parts {
    pub(crate) stream_rows: Vec<StreamRow>,
    pub(crate) postings: Vec<u32>,
    pub(crate) samples: Vec<SampleRow>,
    pub(crate) controls: Vec<ControlRow>,
    pub(crate) keys: Vec<KeyRow>,
}

impl Parts {
    /// The block of the segment with this header, and its trailer; `trailer`'s counts and CRC are filled in. And the CRC.
    pub(crate) fn encode(&self, mut trailer: Trailer, header: &segment::Header) -> (Vec<u8>, u32) {
        trailer.counts = Counts::of([
            self.stream_rows.len(),
            self.postings.len(),
            self.samples.len(),
            self.controls.len(),
            self.keys.len(),
        ]);
        let length = trailer.counts.encoded_bytes();
        let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
        put_all(&mut bytes, &self.stream_rows);
        put_all(&mut bytes, &self.postings);
        bytes.resize(aligned(bytes.len()), 0);
        put_all(&mut bytes, &self.samples);
        put_all(&mut bytes, &self.controls);
        put_all(&mut bytes, &self.keys);
        put!(&mut bytes, header.encode());
        trailer.index_crc = checksum::crc_at(header.seed(), trailer.data_end, &bytes);
        put!(&mut bytes, trailer.encode());
        (bytes, trailer.index_crc)
    }
}

fn put_all<T: Field>(bytes: &mut Vec<u8>, rows: &[T]) {
    rows.iter().for_each(|row| row.put(bytes));
}

impl Trailer {
    /// The trailer of the segment with this header, but for the counts and the CRC that come with the block.
    /// `times_ms` are those of the first and the last record, if there are any.
    pub(crate) fn new(
        header: &segment::Header,
        ends: &Ends,
        records: u32,
        times_ms: Option<(u64, u64)>,
    ) -> Self {
        let (time_min_ms, time_max_ms) =
            times_ms.unwrap_or((header.base_time_ms, header.base_time_ms));
        Self {
            salt: header.salt,
            data_end: ends.data_end,
            base_position: header.base_position,
            next_position: ends.next_position,
            time_min_ms,
            time_max_ms,
            segment: header.segment,
            records,
            counts: Counts::default(),
            next_stream: ends.next_stream,
            index_crc: 0,
            repaired: ends.repaired,
        }
    }

    fn encode(&self) -> [u8; TRAILER_BYTES] {
        super::fixed(|bytes| put!(bytes, MAGIC, VERSION, *self))
    }

    /// The trailer in the last bytes of a file of `file_bytes`, or `None` when there is none, as in a
    /// segment that was never sealed. A trailer is recognised by its CRC, its segment and its sizes together.
    ///
    /// # Errors
    /// [`UnsupportedVersion`](ErrorKind::UnsupportedVersion) for one that checks and is a newer build's.
    pub(crate) fn decode(
        bytes: &[u8; TRAILER_BYTES],
        header: &segment::Header,
        file_bytes: u64,
    ) -> Result<Option<Self>> {
        let name = || super::files::segment_name(header.segment);
        match super::checked(bytes, &MAGIC, &name()) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Damaged => return Ok(None),
            Err(error) => return Err(error),
        }
        let mut fields = Fields::new(&bytes[12..]);
        let trailer: Self = fields.get();
        let flags = Fields::new(&bytes[FLAGS_AT..]).u32();
        if flags & !FLAG_REPAIRED != 0 || fields.take::<28>() != [0; 28] {
            return Err(super::newer(
                &name(),
                "something in the reserved bytes of its trailer",
            ));
        }
        let (base, next) = (trailer.base_position, trailer.next_position);
        let fits = trailer.segment == header.segment
            && trailer.salt == header.salt
            && base == header.base_position
            && next
                .checked_sub(base)
                .is_some_and(|count| count >= u64::from(trailer.records))
            && next - base <= u64::from(u32::MAX)
            && trailer.time_max_ms <= limits::TIME_MS_MAX
            && trailer.data_end >= segment::HEADER_BYTES as u64
            && trailer.data_end.checked_add(trailer.block_bytes()) == Some(file_bytes);
        Ok(fits.then_some(trailer))
    }

    /// The size of the block with its trailer.
    pub(crate) fn block_bytes(&self) -> u64 {
        self.counts.encoded_bytes()
    }
}

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

const _: () =
    assert!(record::HEADER_BYTES.is_multiple_of(8) && segment::HEADER_BYTES.is_multiple_of(8));

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn parts() -> Parts {
        Parts {
            stream_rows: vec![
                StreamRow {
                    stream: 2,
                    first_ordinal: 1,
                    count: 2,
                    postings_start: 0,
                    id: [1; 16],
                },
                StreamRow {
                    stream: 5,
                    first_ordinal: 9,
                    count: 1,
                    postings_start: 2,
                    id: [2; 16],
                },
            ],
            postings: vec![512, 520, 530],
            samples: vec![
                SampleRow {
                    index: 0,
                    offset: 4096,
                },
                SampleRow {
                    index: 64,
                    offset: 4120,
                },
            ],
            controls: vec![ControlRow {
                kind: Kind::FORK,
                stream: 6,
                sequence: 9,
                ordinal: 0,
                offset: 4800,
                other: 5,
                target: 0,
                id: [3; 16],
            }],
            keys: vec![
                KeyRow {
                    stream: 2,
                    hash: 99,
                    offset: 4096,
                },
                KeyRow {
                    stream: 2,
                    hash: 99,
                    offset: 4160,
                },
            ],
        }
    }

    fn header() -> segment::Header {
        segment::Header {
            segment: SegmentId(4),
            base_position: 100,
            ..segment::tests::header()
        }
    }

    fn encoded() -> Vec<u8> {
        let ends = Ends {
            data_end: 8000,
            next_position: 166,
            next_stream: 7,
            repaired: true,
        };
        let trailer = Trailer::new(&header(), &ends, 66, Some((1, 2)));
        parts().encode(trailer, &header()).0
    }

    fn open(bytes: &[u8]) -> Option<Block> {
        let (block, trailer) = bytes.split_last_chunk::<TRAILER_BYTES>()?;
        let trailer = Trailer::decode(trailer, &header(), 8000 + bytes.len() as u64).ok()??;
        Block::check(
            bytes::Bytes::copy_from_slice(block),
            trailer,
            header().seed(),
            "x",
        )
        .ok()
    }

    #[test]
    fn header_can_be_had_from_the_end_of_the_block() {
        let bytes = encoded();
        let end = bytes.len() - TRAILER_BYTES;
        let copy = bytes[end - segment::COPY_BYTES..end].try_into().unwrap();
        assert_eq!(
            segment::Header::decode_copy(copy, "x", end).unwrap(),
            header()
        );
    }

    #[test]
    fn index_block_reads_back() {
        let block = open(&encoded()).unwrap();
        assert_eq!(block.parts(), parts());
        let row = block.find_stream(5).unwrap();
        assert_eq!(block.posting(&row, 9), Some(530 * 8));
        assert_eq!(block.posting(&row, 10), None);
        assert_eq!(block.posting(&row, 8), None);
        assert_eq!(block.find_stream(3), None);
        assert_eq!(
            block.sample(63),
            Some(SampleRow {
                index: 0,
                offset: 4096
            })
        );
        assert_eq!(
            block.sample(65),
            Some(SampleRow {
                index: 64,
                offset: 4120
            })
        );
        assert_eq!(block.keys(2, 99).collect::<Vec<_>>(), [4096, 4160]);
        assert_eq!(block.keys(2, 98).count() + block.keys(5, 99).count(), 0);
    }

    #[test]
    fn every_flipped_bit_of_an_index_block_is_noticed() {
        let bytes = encoded();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(open(&damaged).is_none(), "bit {bit}");
        }
    }
}
