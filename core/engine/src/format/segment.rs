//! The header of a segment: 4,096 bytes at the start of its file.

use super::{Fields, VERSION};
use crate::{Error, ErrorKind, Result, SegmentId, checksum, limits};

/// The size of the header, and the offset of a segment's first record.
pub(crate) const HEADER_BYTES: usize = 4096;

const MAGIC: [u8; 8] = *b"RUNLOGSG";
const CRC_OFFSET: usize = HEADER_BYTES - 4;

/// What a segment says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub(crate) store: [u8; 16],
    pub(crate) segment: SegmentId,
    /// Random; starts every CRC of the segment, so that bytes of another never pass for its own.
    pub(crate) salt: u32,
    /// The position of its first record.
    pub(crate) base_position: u64,
    /// The time that its records' times count from: milliseconds since 1970-01-01 UTC.
    pub(crate) base_time_ms: u64,
    /// Where the records of the segment before end; 0 in the first segment.
    pub(crate) predecessor_end: u64,
    /// The salt of the segment before; 0 in the first segment.
    pub(crate) predecessor_salt: u32,
    /// The number that the next new stream gets.
    pub(crate) next_stream: u32,
}

impl Header {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.segment.0.to_le_bytes());
        bytes.extend_from_slice(&self.store);
        bytes.extend_from_slice(&self.base_position.to_le_bytes());
        bytes.extend_from_slice(&self.base_time_ms.to_le_bytes());
        bytes.extend_from_slice(&self.predecessor_end.to_le_bytes());
        bytes.extend_from_slice(&self.salt.to_le_bytes());
        bytes.extend_from_slice(&self.predecessor_salt.to_le_bytes());
        bytes.extend_from_slice(&self.next_stream.to_le_bytes());
        bytes.resize(CRC_OFFSET, 0);
        bytes.extend_from_slice(&checksum::crc(&bytes).to_le_bytes());
        bytes
    }

    /// Reads the header of the file called `name`; the error says what it found instead.
    pub(crate) fn decode(bytes: &[u8], name: &str) -> Result<Self> {
        if bytes.len() < HEADER_BYTES {
            return Err(Error::new(
                ErrorKind::Damaged,
                format!("{name}: {} bytes long, shorter than a segment header ({HEADER_BYTES} bytes)", bytes.len()),
            ));
        }
        if bytes[..8] != MAGIC {
            return Err(Error::new(
                ErrorKind::Damaged,
                format!("{name}: offset 0: expected the magic {MAGIC:02x?}, found {:02x?}", &bytes[..8]),
            ));
        }
        let mut fields = Fields::new(&bytes[8..]);
        let version = fields.u32();
        if version != VERSION {
            return Err(unknown_version(name, version));
        }
        let expected = checksum::crc(&bytes[..CRC_OFFSET]);
        let found = Fields::new(&bytes[CRC_OFFSET..]).u32();
        if expected != found {
            return Err(Error::new(
                ErrorKind::Damaged,
                format!("{name}: offset {CRC_OFFSET}: header CRC is {found:08x}, expected {expected:08x}"),
            ));
        }
        let segment = SegmentId(fields.u32());
        let store = fields.take();
        let base_position = fields.u64();
        let base_time_ms = fields.u64();
        let predecessor_end = fields.u64();
        let (salt, predecessor_salt, next_stream) = (fields.u32(), fields.u32(), fields.u32());
        if base_position == 0 || next_stream == 0 || predecessor_end > limits::SEGMENT_BYTES_MAX {
            return Err(Error::new(
                ErrorKind::Damaged,
                format!(
                    "{name}: header fields out of range: base position {base_position}, next stream {next_stream}, \
                     predecessor end {predecessor_end}"
                ),
            ));
        }
        Ok(Self { store, segment, salt, base_position, base_time_ms, predecessor_end, predecessor_salt, next_stream })
    }
}

pub(crate) fn unknown_version(name: &str, version: u32) -> Error {
    Error::new(
        ErrorKind::UnsupportedVersion,
        format!(
            "{name}: format version {version}, but this build reads version {VERSION} only; use a build that knows it"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            store: [7; 16],
            segment: SegmentId(3),
            salt: 0xdead_beef,
            base_position: 900,
            base_time_ms: 1_700_000_000_000,
            predecessor_end: 4096,
            predecessor_salt: 5,
            next_stream: 12,
        }
    }

    #[test]
    fn header_reads_back() {
        assert_eq!(Header::decode(&header().encode(), "x").unwrap(), header());
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_refused() {
        let bytes = header().encode();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(&damaged, "x").is_err(), "bit {bit}");
        }
    }

    #[test]
    fn every_shorter_header_is_refused() {
        let bytes = header().encode();
        assert!((0..bytes.len()).all(|length| Header::decode(&bytes[..length], "x").is_err()));
    }

    #[test]
    fn unknown_version_is_refused_by_name() {
        let mut bytes = header().encode();
        bytes[8] = 9;
        let error = Header::decode(&bytes, "00000001.seg").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnsupportedVersion);
        assert!(error.to_string().contains("version 9"), "{error}");
    }
}
