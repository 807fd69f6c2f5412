//! The header of a segment: 512 bytes, written twice at the start of its file.
//!
//! The two copies lie in different sectors of the first [`HEADER_BYTES`], and a third one ends the index block of a
//! sealed segment: a damaged copy can be restored from another one.

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
/// The role of a segment that replaces others.
const ROLE_COMPACTED: u8 = 2;
/// CRC-32/ISO-HDLC.
const CHECKSUM_CRC32: u8 = 1;

/// The header of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub(crate) store: [u8; 16],
    pub(crate) segment: SegmentId,
    /// Random; part of the seed of every CRC of the segment.
    pub(crate) salt: u32,
    /// Random, like the salt: it distinguishes two segments with the same number, for example of a store and of a
    /// restored backup.
    pub(crate) uuid: [u8; 16],
    /// The position of the record with index 0.
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
    /// Which segments it replaces; `None` for a segment of the log.
    pub(crate) compacted: Option<Compacted>,
}

layout! {
    /// Which segments a compacted one replaces.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub(crate) struct Replaced {
        /// Higher than that of any segment it replaces, which is 0 for those of the log.
        pub(crate) generation: u32,
        pub(crate) from: SegmentId,
        pub(crate) to: SegmentId,
    }
}

layout! {
    /// The end, the salt and the index CRC of the last replaced segment, which the header of the next segment repeats.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub(crate) struct ReplacedEnd {
        pub(crate) end: u64,
        pub(crate) salt: u32,
        pub(crate) index_crc: u32,
    }
}

impl Replaced {
    /// Whether these fields are valid for a compacted segment with this number, which is that of the first segment it
    /// replaces.
    fn is_possible(&self, segment: SegmentId) -> bool {
        self.generation > 0 && self.from == segment && self.from <= self.to
    }
}

/// The header fields that only a compacted segment has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Compacted {
    pub(crate) replaced: Replaced,
    pub(crate) end: ReplacedEnd,
}

impl Header {
    /// The number of the last segment whose records it contains: its own, unless it is compacted.
    pub(crate) fn last_segment(&self) -> SegmentId {
        self.compacted
            .map_or(self.segment, |compacted| compacted.replaced.to)
    }

    /// 0 for a segment of the log.
    pub(crate) fn generation(&self) -> u32 {
        self.compacted
            .map_or(0, |compacted| compacted.replaced.generation)
    }

    /// Whether it is that of a pack with a dictionary.
    pub(crate) fn has_dictionary(&self) -> bool {
        self.compacted.is_some() && self.features.incompatible & Features::DICTIONARY != 0
    }

    /// The same header, of a pack with a dictionary.
    pub(crate) fn with_dictionary(mut self) -> Self {
        self.features.incompatible |= Features::DICTIONARY;
        self
    }

    /// The initial value of every CRC of the segment, so that bytes of another segment, store or copy don't check in
    /// this one.
    pub(crate) fn seed(&self) -> u32 {
        checksum::crc_of_parts(&[&self.store, &self.uuid, &self.salt.to_le_bytes()])
    }

    /// The time of a record, from its delta to the base time.
    pub(crate) fn time_ms(&self, delta_ms: u32) -> u64 {
        self.base_time_ms.saturating_add(u64::from(delta_ms))
    }

    /// One copy.
    pub(crate) fn encode(&self) -> [u8; COPY_BYTES] {
        let (role, replaced, end) = match self.compacted {
            None => (ROLE_LOG, Replaced::default(), ReplacedEnd::default()),
            Some(compacted) => (ROLE_COMPACTED, compacted.replaced, compacted.end),
        };
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
                [role, CHECKSUM_CRC32, 0, 0],
                self.uuid,
                self.features,
                self.epoch,
                self.writer_version,
                self.predecessor_index_crc,
                replaced,
                // The key id of encryption: none yet.
                [0; 16],
                self.hash_key,
                end,
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
                first_error.get_or_insert(Error::damaged(message));
                break;
            };
            match Self::decode_copy(copy, name, start) {
                Err(error) if error.kind() == ErrorKind::Damaged => {
                    _ = first_error.get_or_insert(error)
                }
                decoded => return decoded,
            }
        }
        Err(first_error.unwrap_or_else(|| Error::damaged(format!("{name}: no header"))))
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
        let (replaced, key_id) = (fields.get::<Replaced>(), fields.take::<16>());
        let (hash_key, end) = (fields.get(), fields.get::<ReplacedEnd>());
        let rest = fields.take::<324>();
        if !matches!(role, ROLE_LOG | ROLE_COMPACTED)
            || checksum != CHECKSUM_CRC32
            || zeros != [0; 2]
        {
            return Err(newer(
                name,
                &format!("a segment of role {role} with checksum {checksum}"),
            ));
        }
        let is_plain = (replaced, end) == Default::default();
        if key_id != [0; 16] || rest != [0; 324] || (role == ROLE_LOG && !is_plain) {
            return Err(newer(
                name,
                "something in the reserved bytes of a segment header",
            ));
        }
        match role {
            ROLE_COMPACTED => features.check_readable_in_pack(name)?,
            _ => features.check_readable(name)?,
        }
        if !(1..=limits::BASE_POSITION_MAX).contains(&base_position)
            || next_stream == 0
            || predecessor_end > limits::SEGMENT_BYTES_MAX
            || base_time_ms > limits::TIME_MS_MAX
            || (role == ROLE_COMPACTED && !replaced.is_possible(segment))
        {
            return Err(Error::damaged(format!(
                "{name}: header fields out of range: base position {base_position}, base time {base_time_ms}, next \
                     stream {next_stream}, predecessor end {predecessor_end}, replaces {} to {} in generation {}",
                replaced.from, replaced.to, replaced.generation
            )));
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
            compacted: (role == ROLE_COMPACTED).then_some(Compacted { replaced, end }),
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
            compacted: None,
        }
    }

    fn compacted() -> Header {
        let replaced = Replaced {
            generation: 2,
            from: SegmentId(3),
            to: SegmentId(7),
        };
        let end = ReplacedEnd {
            end: 9000,
            salt: 11,
            index_crc: 12,
        };
        Header {
            compacted: Some(Compacted { replaced, end }),
            ..header()
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
        for header in [header(), compacted()] {
            assert_eq!(Header::decode(&header.encode_both(), "x").unwrap(), header);
        }
    }

    #[test]
    fn compacted_segment_replaces_a_range_that_begins_with_its_number() {
        for (generation, from, to) in [(0, 3, 7), (2, 4, 7), (2, 3, 2)] {
            let mut header = compacted();
            if let Some(compacted) = &mut header.compacted {
                compacted.replaced = Replaced {
                    generation,
                    from: SegmentId(from),
                    to: SegmentId(to),
                };
            }
            let error = Header::decode(&header.encode_both(), "x").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
        }
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
            (68, 3, "role 3"),
            (124, 1, "reserved"),
            (140, 1, "reserved"),
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
        let read_only = Header::decode(&changed(96, 3), "x").unwrap();
        assert!(
            read_only
                .features
                .check_writable("x")
                .unwrap_err()
                .to_string()
                .contains("bit 1")
        );
    }
}
