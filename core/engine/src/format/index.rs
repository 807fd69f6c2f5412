//! The index block and trailer that end a sealed segment.
//!
//! Sections in this order, each at a multiple of 8 bytes: stream rows (32 bytes each, by stream number),
//! postings (4 bytes a data record: its offset), samples (8 bytes: the index and offset of every 64th record), steps
//! (48 bytes each: what engine records did, in order), keys (16 bytes each), the segment's header once more
//! (512 bytes), and the trailer (128 bytes).

use super::{Fields, VERSION, aligned, offset_to_units, record, segment, units_to_offset};
use crate::{Error, ErrorKind, Kind, Result, SegmentId, checksum, limits};

/// One offset is sampled for so many records.
pub(crate) const SAMPLE_EVERY: u32 = 64;
/// The size of the trailer.
pub(crate) const TRAILER_BYTES: usize = 128;
pub(crate) const STREAM_ROW_BYTES: usize = 32;
pub(crate) const STEP_ROW_BYTES: usize = 48;
pub(crate) const KEY_ROW_BYTES: usize = 16;
pub(crate) const SAMPLE_ROW_BYTES: usize = 8;

const MAGIC: [u8; 8] = *b"RUNLOGIX";
/// The flag of a trailer whose block was made by a repair.
const FLAG_REPAIRED: u32 = 1;

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

/// What one engine record did, as the directory needs it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StepRow {
    pub(crate) kind: Kind,
    pub(crate) stream: u32,
    /// The sequence it speaks of.
    pub(crate) sequence: u32,
    /// Truncate: the data records the stream had been given. Snapshot: the ordinal it is attached to.
    pub(crate) ordinal: u32,
    pub(crate) offset: u64,
    /// Fork: the parent. Snapshot: the stream that the ordinal counts in.
    pub(crate) other: u32,
    /// Redact: the position of the redacted record.
    pub(crate) target: u64,
    /// Create and fork: the new stream's id.
    pub(crate) id: [u8; 16],
}

/// Where the batch with an idempotency key begins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct KeyRow {
    pub(crate) stream: u32,
    pub(crate) hash: u64,
    pub(crate) offset: u64,
}

/// Where a record is, told by its index in the segment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct SampleRow {
    pub(crate) index: u32,
    pub(crate) offset: u64,
}

/// The last 128 bytes of a sealed segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Trailer {
    pub(crate) segment: SegmentId,
    pub(crate) salt: u32,
    /// Where the records end and the index block begins.
    pub(crate) data_end: u64,
    pub(crate) base_position: u64,
    /// The position after its last record's.
    pub(crate) next_position: u64,
    /// How many of its records have a position.
    pub(crate) records: u32,
    pub(crate) time_min_ms: u64,
    pub(crate) time_max_ms: u64,
    pub(crate) stream_rows: u32,
    pub(crate) postings: u32,
    pub(crate) samples: u32,
    pub(crate) steps: u32,
    pub(crate) keys: u32,
    /// The number that the next new stream gets.
    pub(crate) next_stream: u32,
    pub(crate) index_crc: u32,
    /// Whether the block was made by a repair: records that it names may be lost.
    pub(crate) repaired: bool,
}

/// The index of one segment, built from its parts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Parts {
    pub(crate) stream_rows: Vec<StreamRow>,
    pub(crate) postings: Vec<u32>,
    pub(crate) samples: Vec<SampleRow>,
    pub(crate) steps: Vec<StepRow>,
    pub(crate) keys: Vec<KeyRow>,
}

impl Parts {
    /// The size of the encoded block with its trailer.
    pub(crate) fn encoded_bytes(&self) -> u64 {
        encoded_bytes(
            self.stream_rows.len(),
            self.postings.len(),
            self.samples.len(),
            self.steps.len(),
            self.keys.len(),
        )
    }

    /// The block of the segment with this header, and its trailer; `trailer`'s counts and CRC are filled in. And the CRC.
    pub(crate) fn encode(&self, mut trailer: Trailer, header: &segment::Header) -> (Vec<u8>, u32) {
        let mut bytes = Vec::with_capacity(usize::try_from(self.encoded_bytes()).unwrap_or(0));
        for row in &self.stream_rows {
            for field in [row.stream, row.first_ordinal, row.count, row.postings_start] {
                bytes.extend_from_slice(&field.to_le_bytes());
            }
            bytes.extend_from_slice(&row.id);
        }
        self.postings
            .iter()
            .for_each(|offset| bytes.extend_from_slice(&offset.to_le_bytes()));
        bytes.resize(aligned(bytes.len()), 0);
        for sample in &self.samples {
            bytes.extend_from_slice(&sample.index.to_le_bytes());
            bytes.extend_from_slice(&offset_to_units(sample.offset).to_le_bytes());
        }
        for step in &self.steps {
            bytes.extend_from_slice(&[step.kind.0, 0, 0, 0]);
            for field in [
                step.stream,
                step.sequence,
                step.ordinal,
                offset_to_units(step.offset),
                step.other,
            ] {
                bytes.extend_from_slice(&field.to_le_bytes());
            }
            bytes.extend_from_slice(&step.target.to_le_bytes());
            bytes.extend_from_slice(&step.id);
        }
        for key in &self.keys {
            bytes.extend_from_slice(&key.stream.to_le_bytes());
            bytes.extend_from_slice(&offset_to_units(key.offset).to_le_bytes());
            bytes.extend_from_slice(&key.hash.to_le_bytes());
        }
        let count = |length: usize| {
            u32::try_from(length).expect("a segment holds fewer than 2^32 of anything")
        };
        trailer.stream_rows = count(self.stream_rows.len());
        trailer.postings = count(self.postings.len());
        trailer.samples = count(self.samples.len());
        trailer.steps = count(self.steps.len());
        trailer.keys = count(self.keys.len());
        bytes.extend_from_slice(&header.encode());
        trailer.index_crc = checksum::crc_at(header.seed(), trailer.data_end, &bytes);
        bytes.extend_from_slice(&trailer.encode());
        (bytes, trailer.index_crc)
    }
}

/// The size of a block with so many of each, its trailer included. In 64 bits: the counts may be a hostile file's.
pub(crate) fn encoded_bytes(
    stream_rows: usize,
    postings: usize,
    samples: usize,
    steps: usize,
    keys: usize,
) -> u64 {
    let times = |count: usize, bytes: usize| count as u64 * bytes as u64;
    times(stream_rows, STREAM_ROW_BYTES)
        + times(postings, 4).next_multiple_of(aligned(1) as u64)
        + times(samples, SAMPLE_ROW_BYTES)
        + times(steps, STEP_ROW_BYTES)
        + times(keys, KEY_ROW_BYTES)
        + (segment::COPY_BYTES + TRAILER_BYTES) as u64
}

impl Trailer {
    fn encode(&self) -> [u8; TRAILER_BYTES] {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.salt.to_le_bytes());
        for field in [
            self.data_end,
            self.base_position,
            self.next_position,
            self.time_min_ms,
            self.time_max_ms,
        ] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        for field in [
            self.segment.0,
            self.records,
            self.stream_rows,
            self.postings,
            self.samples,
            self.steps,
            self.keys,
            self.next_stream,
            self.index_crc,
            if self.repaired { FLAG_REPAIRED } else { 0 },
        ] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        super::finish(bytes)
    }

    /// The trailer in the last bytes of a file of `file_bytes`, or `None` when there is none, as in a
    /// segment that was never sealed. A trailer is told by its CRC, its segment and its sizes together.
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
        let salt = fields.u32();
        let (data_end, base_position, next_position) = (fields.u64(), fields.u64(), fields.u64());
        let (time_min_ms, time_max_ms) = (fields.u64(), fields.u64());
        let (segment, records) = (SegmentId(fields.u32()), fields.u32());
        let (stream_rows, postings, samples) = (fields.u32(), fields.u32(), fields.u32());
        let (steps, keys, next_stream, index_crc) =
            (fields.u32(), fields.u32(), fields.u32(), fields.u32());
        let flags = fields.u32();
        if flags & !FLAG_REPAIRED != 0 || fields.take::<28>() != [0; 28] {
            return Err(super::newer(
                &name(),
                "something in the reserved bytes of its trailer",
            ));
        }
        let trailer = Self {
            segment,
            salt,
            data_end,
            base_position,
            next_position,
            records,
            time_min_ms,
            time_max_ms,
            stream_rows,
            postings,
            samples,
            steps,
            keys,
            next_stream,
            index_crc,
            repaired: flags & FLAG_REPAIRED != 0,
        };
        let fits = segment == header.segment
            && salt == header.salt
            && base_position == header.base_position
            && next_position
                .checked_sub(base_position)
                .is_some_and(|count| count >= u64::from(records))
            && next_position - base_position <= u64::from(u32::MAX)
            && time_max_ms <= limits::TIME_MS_MAX
            && data_end >= segment::HEADER_BYTES as u64
            && data_end.checked_add(trailer.block_bytes()) == Some(file_bytes);
        Ok(fits.then_some(trailer))
    }

    /// The size of the block with its trailer.
    pub(crate) fn block_bytes(&self) -> u64 {
        encoded_bytes(
            self.stream_rows as usize,
            self.postings as usize,
            self.samples as usize,
            self.steps as usize,
            self.keys as usize,
        )
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
            let inside = postings <= u64::from(trailer.postings);
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

    pub(crate) fn stream_rows(&self) -> impl Iterator<Item = StreamRow> + '_ {
        (0..self.trailer.stream_rows).map(|index| self.stream_row(index))
    }

    fn stream_row(&self, index: u32) -> StreamRow {
        let mut fields = Fields::new(&self.bytes[index as usize * STREAM_ROW_BYTES..]);
        StreamRow {
            stream: fields.u32(),
            first_ordinal: fields.u32(),
            count: fields.u32(),
            postings_start: fields.u32(),
            id: fields.take(),
        }
    }

    /// The row of a stream, if the segment holds data of it. O(log rows).
    pub(crate) fn find_stream(&self, stream: u32) -> Option<StreamRow> {
        let (mut low, mut high) = (0, self.trailer.stream_rows);
        while low < high {
            let middle = low + (high - low) / 2;
            let row = self.stream_row(middle);
            match row.stream.cmp(&stream) {
                std::cmp::Ordering::Equal => return Some(row),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// The offset of the data record with an ordinal, in the row of its stream.
    pub(crate) fn posting(&self, row: &StreamRow, ordinal: u32) -> Option<u64> {
        let index = ordinal.checked_sub(row.first_ordinal)?;
        (index < row.count).then(|| {
            self.offset_at(
                self.trailer.stream_rows as usize * STREAM_ROW_BYTES,
                row.postings_start + index,
            )
        })
    }

    /// The last sampled record at or before the one with this index. O(log samples).
    pub(crate) fn sample(&self, record_index: u32) -> Option<SampleRow> {
        let (mut low, mut high) = (0, self.trailer.samples);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.sample_row(middle).index <= record_index {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low.checked_sub(1).map(|place| self.sample_row(place))
    }

    fn sample_row(&self, place: u32) -> SampleRow {
        let mut fields =
            Fields::new(&self.bytes[self.samples_start() + place as usize * SAMPLE_ROW_BYTES..]);
        SampleRow {
            index: fields.u32(),
            offset: units_to_offset(fields.u32()),
        }
    }

    pub(crate) fn steps(&self) -> impl Iterator<Item = StepRow> + '_ {
        let start = self.steps_start();
        (0..self.trailer.steps as usize).map(move |index| {
            let mut fields = Fields::new(&self.bytes[start + index * STEP_ROW_BYTES..]);
            let [kind, ..] = fields.take::<4>();
            StepRow {
                kind: Kind(kind),
                stream: fields.u32(),
                sequence: fields.u32(),
                ordinal: fields.u32(),
                offset: units_to_offset(fields.u32()),
                other: fields.u32(),
                target: fields.u64(),
                id: fields.take(),
            }
        })
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
        let (mut low, mut high) = (0, self.trailer.keys);
        while low < high {
            let middle = low + (high - low) / 2;
            let row = self.key_row(middle);
            if (row.stream, row.hash) < (stream, hash) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        (low..self.trailer.keys).map(|index| self.key_row(index))
    }

    fn key_row(&self, index: u32) -> KeyRow {
        let start = self.steps_start() + self.trailer.steps as usize * STEP_ROW_BYTES;
        let mut fields = Fields::new(&self.bytes[start + index as usize * KEY_ROW_BYTES..]);
        let (stream, offset) = (fields.u32(), units_to_offset(fields.u32()));
        KeyRow {
            stream,
            hash: fields.u64(),
            offset,
        }
    }

    /// The parts again, to compare with those that the records give.
    pub(crate) fn parts(&self) -> Parts {
        let postings_start = self.trailer.stream_rows as usize * STREAM_ROW_BYTES;
        let posting = |index: usize| Fields::new(&self.bytes[postings_start + index * 4..]).u32();
        Parts {
            stream_rows: self.stream_rows().collect(),
            postings: (0..self.trailer.postings as usize).map(posting).collect(),
            samples: (0..self.trailer.samples)
                .map(|place| self.sample_row(place))
                .collect(),
            steps: self.steps().collect(),
            keys: (0..self.trailer.keys)
                .map(|index| self.key_row(index))
                .collect(),
        }
    }

    pub(crate) fn trailer(&self) -> &Trailer {
        &self.trailer
    }

    /// The copy of the segment's header that ends it.
    pub(crate) fn header_copy(&self) -> &[u8] {
        &self.bytes[self.bytes.len().saturating_sub(segment::COPY_BYTES)..]
    }

    fn samples_start(&self) -> usize {
        self.trailer.stream_rows as usize * STREAM_ROW_BYTES
            + aligned(self.trailer.postings as usize * 4)
    }

    fn steps_start(&self) -> usize {
        self.samples_start() + self.trailer.samples as usize * SAMPLE_ROW_BYTES
    }

    fn offset_at(&self, start: usize, index: u32) -> u64 {
        units_to_offset(Fields::new(&self.bytes[start + index as usize * 4..]).u32())
    }
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
            steps: vec![StepRow {
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
        let trailer = Trailer {
            segment: SegmentId(4),
            salt: header().salt,
            data_end: 8000,
            base_position: 100,
            next_position: 166,
            records: 66,
            time_min_ms: 1,
            time_max_ms: 2,
            stream_rows: 0,
            postings: 0,
            samples: 0,
            steps: 0,
            keys: 0,
            next_stream: 7,
            index_crc: 0,
            repaired: true,
        };
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
