//! The header of a segment: 512 bytes, written twice at the start of its file.
//!
//! The two copies lie in different sectors of the first [`HEADER_BYTES`], and a third one ends the index block of a
//! sealed segment: what a damaged header says can always be had elsewhere.

use super::{Features, Fields, VERSION, checked, fixed, newer};
use crate::{Error, ErrorKind, Result, SegmentId, checksum, limits};

/// The room that the headers take.
pub(crate) const HEADER_BYTES: usize = 4096;
/// The offset of a segment's first record.
pub(crate) const DATA_START: u64 = HEADER_BYTES as u64;
/// The size of one copy.
pub(crate) const COPY_BYTES: usize = 512;
/// Where the copies are.
pub(crate) const COPIES: [usize; 2] = [0, 2048];

const MAGIC: [u8; 8] = *b"RUNLOGSG";
/// The role of a segment of the log.
const ROLE_LOG: u8 = 1;
/// CRC-32/ISO-HDLC.
const CHECKSUM_CRC32: u8 = 1;

/// What a segment says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub(crate) store: [u8; 16],
    pub(crate) segment: SegmentId,
    /// Random; part of the seed of every CRC of the segment.
    pub(crate) salt: u32,
    /// Random, like the salt: two segments with one number, of a restored backup say, differ by it.
    pub(crate) uuid: [u8; 16],
    /// What the positions of its records count from.
    pub(crate) base_position: u64,
    /// The time that its records' times count from: milliseconds since 1970-01-01 UTC.
    pub(crate) base_time_ms: u64,
    /// Where the records of the segment before end; 0 in the first segment.
    pub(crate) predecessor_end: u64,
    /// The salt of the segment before; 0 in the first segment.
    pub(crate) predecessor_salt: u32,
    /// The CRC of the index block that ends the segment before; 0 in the first segment.
    pub(crate) predecessor_index_crc: u32,
    /// The number that the next new stream gets.
    pub(crate) next_stream: u32,
    pub(crate) features: Features,
    /// The epoch of the writer that made it.
    pub(crate) epoch: u32,
    pub(crate) writer_version: u32,
    /// The key of the hashes of idempotency keys, as the identity file has it.
    pub(crate) hash_key: [u8; 16],
}

impl Header {
    /// What every CRC of the segment continues, so that nothing of another segment, store or copy passes for its own.
    pub(crate) fn seed(&self) -> u32 {
        checksum::crc_of_parts(&[&self.store, &self.uuid, &self.salt.to_le_bytes()])
    }

    /// The time of the record with this much after the base.
    pub(crate) fn time_ms(&self, delta_ms: u32) -> u64 {
        self.base_time_ms.saturating_add(u64::from(delta_ms))
    }

    /// One copy.
    pub(crate) fn encode(&self) -> [u8; COPY_BYTES] {
        fixed(|bytes| {
            put!(
                bytes,
                MAGIC,
                VERSION,
                self.segment,
                self.store,
                self.base_position,
                self.base_time_ms,
                self.predecessor_end,
                self.salt,
                self.predecessor_salt,
                self.next_stream,
                [ROLE_LOG, CHECKSUM_CRC32, 0, 0],
                self.uuid,
                self.features,
                self.epoch,
                self.writer_version,
                self.predecessor_index_crc,
                // Generation, first and last segment replaced, key id of encryption: none of them yet.
                [0; 28],
                self.hash_key,
            )
        })
    }

    /// The start of the file: both copies, and zeros between and behind them.
    pub(crate) fn encode_both(&self) -> Vec<u8> {
        let copy = self.encode();
        let mut bytes = vec![0; HEADER_BYTES];
        for start in COPIES {
            bytes[start..start + COPY_BYTES].copy_from_slice(&copy);
        }
        bytes
    }

    /// Reads the header of the file called `name` from its first [`HEADER_BYTES`], by the first copy that checks; the error
    /// says what it found instead.
    pub(crate) fn decode(bytes: &[u8], name: &str) -> Result<Self> {
        let mut first_error = None;
        for start in COPIES {
            let Some(copy) = bytes.get(start..).and_then(|rest| rest.first_chunk()) else {
                let message = format!(
                    "{name}: {} bytes long, shorter than a segment header ({HEADER_BYTES} bytes)",
                    bytes.len()
                );
                first_error.get_or_insert(Error::new(ErrorKind::Damaged, message));
                break;
            };
            match Self::decode_copy(copy, name, start) {
                Err(error) if error.kind() == ErrorKind::Damaged => {
                    _ = first_error.get_or_insert(error)
                }
                decoded => return decoded,
            }
        }
        Err(first_error
            .unwrap_or_else(|| Error::new(ErrorKind::Damaged, format!("{name}: no header"))))
    }

    /// Reads one copy, which stands at offset `start` of the file called `name`.
    pub(crate) fn decode_copy(bytes: &[u8; COPY_BYTES], name: &str, start: usize) -> Result<Self> {
        checked(bytes, &MAGIC, &format!("{name}: offset {start}"))?;
        let mut fields = Fields::new(&bytes[12..]);
        let (segment, store, base_position, base_time_ms) =
            (fields.get(), fields.get(), fields.get(), fields.get());
        let (predecessor_end, salt, predecessor_salt, next_stream) =
            (fields.get(), fields.get(), fields.get(), fields.get());
        let [role, checksum, zeros @ ..] = fields.take::<4>();
        let (uuid, features) = (fields.get(), fields.get::<Features>());
        let (epoch, writer_version, predecessor_index_crc) =
            (fields.get(), fields.get(), fields.get());
        let unused = fields.take::<28>();
        let (hash_key, rest) = (fields.get(), fields.take::<340>());
        if role != ROLE_LOG || checksum != CHECKSUM_CRC32 || zeros != [0; 2] {
            return Err(newer(
                name,
                &format!("a segment of role {role} with checksum {checksum}"),
            ));
        }
        if unused != [0; 28] || rest != [0; 340] {
            return Err(newer(
                name,
                "something in the reserved bytes of a segment header",
            ));
        }
        features.check_readable(name)?;
        if !(1..=limits::BASE_POSITION_MAX).contains(&base_position)
            || next_stream == 0
            || predecessor_end > limits::SEGMENT_BYTES_MAX
            || base_time_ms > limits::TIME_MS_MAX
        {
            return Err(Error::new(
                ErrorKind::Damaged,
                format!(
                    "{name}: header fields out of range: base position {base_position}, base time {base_time_ms}, next \
                     stream {next_stream}, predecessor end {predecessor_end}"
                ),
            ));
        }
        Ok(Self {
            store,
            segment,
            salt,
            uuid,
            base_position,
            base_time_ms,
            predecessor_end,
            predecessor_salt,
            predecessor_index_crc,
            next_stream,
            features,
            epoch,
            writer_version,
            hash_key,
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn header() -> Header {
        Header {
            store: [7; 16],
            segment: SegmentId(3),
            salt: 0xdead_beef,
            uuid: [9; 16],
            base_position: 900,
            base_time_ms: 1_700_000_000_000,
            predecessor_end: 4096,
            predecessor_salt: 5,
            predecessor_index_crc: 6,
            next_stream: 12,
            features: Features::default(),
            epoch: 2,
            writer_version: super::super::WRITER_VERSION,
            hash_key: [3; 16],
        }
    }

    /// The header's bytes with a changed one, and its CRC made right again.
    pub(crate) fn changed(at: usize, value: u8) -> Vec<u8> {
        let mut copy = header().encode().to_vec();
        copy[at] = value;
        copy.truncate(COPY_BYTES - 4);
        let copy: [u8; COPY_BYTES] = fixed(|bytes| bytes::BufMut::put_slice(bytes, &copy));
        let mut bytes = vec![0; HEADER_BYTES];
        for start in COPIES {
            bytes[start..start + COPY_BYTES].copy_from_slice(&copy);
        }
        bytes
    }

    #[test]
    fn header_reads_back() {
        assert_eq!(
            Header::decode(&header().encode_both(), "x").unwrap(),
            header()
        );
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_outlived() {
        let bytes = header().encode_both();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                Header::decode(&damaged, "x").unwrap(),
                header(),
                "bit {bit}"
            );
        }
    }

    #[test]
    fn every_flipped_bit_of_both_copies_is_refused() {
        let bytes = header().encode_both();
        for bit in 0..COPY_BYTES * 8 {
            let mut damaged = bytes.clone();
            for start in COPIES {
                damaged[start + bit / 8] ^= 1 << (bit % 8);
            }
            assert_eq!(
                Header::decode(&damaged, "x").unwrap_err().kind(),
                ErrorKind::Damaged,
                "bit {bit}"
            );
        }
    }

    #[test]
    fn every_header_shorter_than_a_copy_is_refused() {
        let bytes = header().encode_both();
        assert!((0..COPY_BYTES).all(|length| Header::decode(&bytes[..length], "x").is_err()));
    }

    #[test]
    fn unknown_version_feature_or_reserved_byte_is_refused_by_name() {
        for (at, value, word) in [
            (8, 9, "version 9"),
            (88, 4, "bit 2"),
            (68, 2, "role 2"),
            (300, 1, "reserved"),
        ] {
            let error = Header::decode(&changed(at, value), "00000001.seg").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::UnsupportedVersion, "{error}");
            assert!(error.to_string().contains(word), "{error}");
        }
    }

    #[test]
    fn unknown_compatible_features_are_read() {
        assert_eq!(
            Header::decode(&changed(104, 1), "x")
                .unwrap()
                .features
                .compatible,
            1
        );
        let read_only = Header::decode(&changed(96, 1), "x").unwrap();
        assert!(
            read_only
                .features
                .check_writable("x")
                .unwrap_err()
                .to_string()
                .contains("bit 0")
        );
    }
}
