//! One record in a segment: a 32-byte header, then its body, padded to 8 bytes.
//!
//! The header has a 16-bit checksum of its own, so that its length field can be trusted when the body is damaged; and
//! the 32-bit CRC of the body is combined with that of the header, so that both are covered by 32 bits. Both checksums
//! start from the segment's seed and the record's offset.

use super::{Fields, aligned, extension, offset_to_units, units_to_offset};
use crate::{Kind, Label, checksum, limits};

/// The size of a record's header.
pub(crate) const HEADER_BYTES: usize = 32;

/// Properties of a record, a bit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Flags(pub(crate) u8);

impl Flags {
    /// The first record of an atomic batch.
    pub(crate) const BATCH_FIRST: Self = Self(1);
    /// The last record of an atomic batch.
    pub(crate) const BATCH_LAST: Self = Self(2);
    /// The first record of an op of the batch.
    pub(crate) const OP_FIRST: Self = Self(4);
    /// The body begins with an idempotency key.
    pub(crate) const KEY: Self = Self(8);
    /// The body has a metadata part.
    pub(crate) const META: Self = Self(16);

    /// The body begins with extension fields.
    pub(crate) const EXTENDED: Self = Self(128);

    /// The flags that this build knows.
    const KNOWN: u8 = 31 | 128;

    pub(crate) const fn has(self, flag: Self) -> bool {
        self.0 & flag.0 != 0
    }

    pub(crate) fn set(&mut self, flag: Self) {
        self.0 |= flag.0;
    }
}

/// Fills space. Has no position.
pub(crate) const PADDING: Kind = Kind(134);
/// The first record of a writer, with its epoch. Has no position.
pub(crate) const MARK: Kind = Kind(135);
/// In a pack, the result of a batch with an idempotency key. Has no position.
pub(crate) const RECEIPT: Kind = Kind(139);
/// The last kind that must be understood; those above may be skipped.
const MUST_KNOW_LAST: Kind = Kind(191);

/// The header of one record, decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) flags: Flags,
    /// The length of the body without its padding.
    pub(crate) body_bytes: u32,
    /// The record's place in its segment, from 0: its position less the segment's base position.
    pub(crate) index: u32,
    pub(crate) stream: u32,
    pub(crate) sequence: u32,
    /// Milliseconds since the segment's base time.
    pub(crate) time_delta_ms: u32,
    /// The offset up to which the segment was known durable when the record was written.
    pub(crate) watermark: u64,
    /// The CRC of the padded body, as it was when it was written.
    pub(crate) body_crc: u32,
}

impl Header {
    /// The bytes from one record to the next.
    pub(crate) fn frame_bytes(&self) -> u64 {
        frame_bytes(self.body_bytes as usize) as u64
    }

    /// The length of the body with its padding.
    pub(crate) fn padded_body_bytes(&self) -> usize {
        aligned(self.body_bytes as usize)
    }

    /// Whether it has a position.
    pub(crate) fn has_position(&self) -> bool {
        !matches!(self.kind, PADDING | MARK | RECEIPT)
    }

    /// Whether it is a newer build's record that may be skipped.
    pub(crate) fn is_skipped(&self) -> bool {
        self.kind > MUST_KNOW_LAST
    }

    /// The critical flag or kind that this build doesn't know, if any. Valid only if the CRC is right.
    pub(crate) fn unknown(&self) -> Option<String> {
        let flags = self.flags.0 & !Flags::KNOWN;
        if flags != 0 {
            return Some(format!(
                "a record with flag {}",
                1 << flags.trailing_zeros()
            ));
        }
        let is_known = self.kind <= MARK || self.kind == RECEIPT || self.is_skipped();
        (!is_known).then(|| format!("a record of kind {}", self.kind.0))
    }

    /// The field `crc` as it stands in the record at `offset`.
    pub(crate) fn crc_field(&self, seed: u32, offset: u64) -> u32 {
        Fields::new(&self.encode(seed, offset)[28..]).u32()
    }

    pub(crate) fn encode(&self, seed: u32, offset: u64) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[2] = self.kind.0;
        bytes[3] = self.flags.0;
        bytes[4..8].copy_from_slice(&self.body_bytes.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.index.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.stream.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.time_delta_ms.to_le_bytes());
        bytes[24..28].copy_from_slice(&offset_to_units(self.watermark).to_le_bytes());
        let header_crc = checksum::crc_at(seed, offset, &bytes[2..28]);
        bytes[..2].copy_from_slice(&low_half(header_crc).to_le_bytes());
        bytes[28..].copy_from_slice(&(self.body_crc ^ header_crc).to_le_bytes());
        bytes
    }

    /// The frame length in an unchecked header: only to decide how much to read.
    #[inline]
    pub(crate) fn frame_bytes_in(bytes: &[u8]) -> Option<u64> {
        let length = u32::from_le_bytes(*bytes.get(4..)?.first_chunk()?);
        Some(HEADER_BYTES as u64 + u64::from(length).next_multiple_of(aligned(1) as u64))
    }

    /// The header at `offset`, or `None` when these bytes are no header of this segment and place.
    ///
    /// The length can be trusted after this; the other fields only once the body's CRC agrees with `body_crc`. Then
    /// [`unknown`] reports flags and kinds that this build doesn't know. They are not refused here, because a newer
    /// build's record would then look like a torn write.
    ///
    /// [`unknown`]: Self::unknown
    pub(crate) fn decode(bytes: &[u8; HEADER_BYTES], seed: u32, offset: u64) -> Option<Self> {
        let header_crc = checksum::crc_at(seed, offset, &bytes[2..28]);
        let mut fields = Fields::new(bytes);
        if fields.get::<u16>() != low_half(header_crc) {
            return None;
        }
        let (kind, flags) = (Kind(fields.get()), Flags(fields.get()));
        let (body_bytes, index, stream, sequence) =
            (fields.u32(), fields.u32(), fields.u32(), fields.u32());
        let (time_delta_ms, watermark) = (fields.u32(), units_to_offset(fields.u32()));
        let body_crc = fields.u32() ^ header_crc;
        let plausible = (stream != 0 || kind >= PADDING)
            && body_bytes as usize <= BODY_BYTES_MAX
            && watermark <= offset
            && !(kind.is_data() && sequence == 0);
        plausible.then_some(Self {
            kind,
            flags,
            body_bytes,
            index,
            stream,
            sequence,
            time_delta_ms,
            watermark,
            body_crc,
        })
    }
}

/// The largest body of one record.
pub(crate) const BODY_BYTES_MAX: usize = limits::PAYLOAD_BYTES_MAX
    + limits::META_BYTES_MAX
    + limits::KEY_BYTES_MAX
    + extension::EXTENSION_BYTES_MAX
    + 16;

/// The bytes a record takes in a segment.
pub(crate) const fn frame_bytes(body_bytes: usize) -> usize {
    HEADER_BYTES + aligned(body_bytes)
}

fn low_half(crc: u32) -> u16 {
    let bytes = crc.to_le_bytes();
    u16::from_le_bytes([bytes[0], bytes[1]])
}

/// The parts of a body, borrowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Body<'a> {
    /// Empty for none.
    pub(crate) key: &'a [u8],
    /// Empty for none.
    pub(crate) meta: &'a [u8],
    pub(crate) payload: &'a [u8],
    /// Ascending and distinct.
    pub(crate) labels: &'a [Label],
}

const ZEROS: [u8; 8] = [0; 8];

impl<'a> Body<'a> {
    pub(crate) fn flags(&self) -> Flags {
        let mut flags = Flags::default();
        if !self.key.is_empty() {
            flags.set(Flags::KEY);
        }
        if !self.meta.is_empty() {
            flags.set(Flags::META);
        }
        if !self.labels.is_empty() {
            flags.set(Flags::EXTENDED);
        }
        flags
    }

    /// The length of the encoded body without its padding.
    pub(crate) fn encoded_bytes(&self) -> usize {
        let key = if self.key.is_empty() {
            0
        } else {
            1 + self.key.len()
        };
        let meta = if self.meta.is_empty() {
            0
        } else {
            2 + self.meta.len()
        };
        extension::encoded_bytes(self.labels.len()) + key + meta + self.payload.len()
    }

    /// The CRC of the encoded body, its padding included.
    pub(crate) fn crc(&self) -> u32 {
        let mut hasher = runlog_log::crc::Hasher::new();
        self.each_part(|part| hasher.update(part));
        hasher.finalize()
    }

    /// Appends the encoded body and its padding.
    pub(crate) fn encode_into(&self, bytes: &mut Vec<u8>) {
        self.each_part(|part| bytes.extend_from_slice(part));
    }

    fn each_part(&self, mut visit: impl FnMut(&[u8])) {
        if !self.labels.is_empty() {
            extension::encode(self.labels, &mut visit);
        }
        if !self.key.is_empty() {
            visit(&[u8::try_from(self.key.len()).expect("the key's length was checked")]);
            visit(self.key);
        }
        if !self.meta.is_empty() {
            visit(
                &u16::try_from(self.meta.len())
                    .expect("the metadata's length was checked")
                    .to_le_bytes(),
            );
            visit(self.meta);
        }
        visit(self.payload);
        let length = self.encoded_bytes();
        visit(&ZEROS[..aligned(length) - length]);
    }

    /// Splits a body whose CRC is right into its parts, except the labels; `None` if its lengths contradict each other.
    pub(crate) fn decode(flags: Flags, bytes: &'a [u8]) -> Option<Self> {
        let ranges = BodyRanges::decode(flags, bytes)?;
        Some(Self {
            key: &bytes[ranges.key.0..ranges.key.1],
            meta: &bytes[ranges.meta.0..ranges.meta.1],
            payload: &bytes[ranges.payload.0..ranges.payload.1],
            labels: &[],
        })
    }
}

/// Where the parts of a body are, from its start: first byte, and end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct BodyRanges {
    pub(crate) key: (usize, usize),
    pub(crate) meta: (usize, usize),
    pub(crate) payload: (usize, usize),
}

impl BodyRanges {
    /// The ranges in `bytes`, the body without its padding.
    pub(crate) fn decode(flags: Flags, bytes: &[u8]) -> Option<Self> {
        let mut ranges = Self::default();
        let mut at = 0;
        if flags.has(Flags::EXTENDED) {
            at = extension::end(bytes)?;
        }
        if flags.has(Flags::KEY) {
            let length = usize::from(*bytes.get(at)?);
            ranges.key = (at + 1, at + 1 + length);
            at += 1 + length;
        }
        if flags.has(Flags::META) {
            let length = bytes.get(at..at + 2)?;
            let length = usize::from(u16::from_le_bytes([length[0], length[1]]));
            ranges.meta = (at + 2, at + 2 + length);
            at += 2 + length;
        }
        ranges.payload = (at, bytes.len());
        (at <= bytes.len()).then_some(ranges)
    }

    /// The same ranges in a buffer in which the body begins at offset `by`.
    pub(crate) fn moved(self, by: usize) -> Self {
        let moved = |(start, end)| (start + by, end + by);
        Self {
            key: moved(self.key),
            meta: moved(self.meta),
            payload: moved(self.payload),
        }
    }
}

/// The payloads of engine records.
pub(crate) mod engine {
    use super::super::Fields;

    /// The payload of a fork: the child's id, the parent's number.
    pub(crate) fn encode_fork(child: &[u8; 16], parent: u32) -> [u8; 20] {
        let mut bytes = [0; 20];
        bytes[..16].copy_from_slice(child);
        bytes[16..].copy_from_slice(&parent.to_le_bytes());
        bytes
    }

    pub(crate) fn decode_fork(payload: &[u8]) -> Option<([u8; 16], u32)> {
        (payload.len() == 20).then(|| {
            let mut fields = Fields::new(payload);
            (fields.take(), fields.u32())
        })
    }

    /// The body of a mark.
    pub(crate) fn encode_mark(epoch: u32, writer_version: u32) -> [u8; 8] {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&epoch.to_le_bytes());
        bytes[4..].copy_from_slice(&writer_version.to_le_bytes());
        bytes
    }

    /// The epoch in a mark's payload.
    pub(crate) fn decode_mark(payload: &[u8]) -> Option<u32> {
        payload
            .first_chunk()
            .map(|epoch| u32::from_le_bytes(*epoch))
    }

    pub(crate) fn decode_create(payload: &[u8]) -> Option<[u8; 16]> {
        payload.try_into().ok()
    }

    /// The payload of a redaction: the first position, which others there are, then the reason.
    pub(crate) fn encode_redact(first: u64, others: u128, reason: &str) -> Vec<u8> {
        let mut bytes = first.to_le_bytes().to_vec();
        bytes.extend_from_slice(&others.to_le_bytes());
        bytes.extend_from_slice(reason.as_bytes());
        bytes
    }

    /// The first position of a redaction, and its others as they are encoded.
    pub(crate) fn decode_redact(payload: &[u8]) -> Option<(u64, [u8; 16])> {
        let (first, rest) = payload.split_first_chunk::<8>()?;
        let (others, reason) = rest.split_first_chunk::<16>()?;
        std::str::from_utf8(reason).ok()?;
        Some((u64::from_le_bytes(*first), *others))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(body: &Body<'_>) -> Header {
        Header {
            kind: Kind(3),
            flags: body.flags(),
            body_bytes: u32::try_from(body.encoded_bytes()).unwrap(),
            index: 77,
            stream: 12,
            sequence: 5,
            time_delta_ms: 1234,
            watermark: 4096,
            body_crc: body.crc(),
        }
    }

    #[test]
    fn record_reads_back_with_and_without_each_part() {
        for (key, meta, payload) in [
            (&b""[..], &b""[..], &b""[..]),
            (b"k", b"", b"x"),
            (b"", b"meta", b"payload"),
            (b"key", b"m", b""),
        ] {
            let body = Body {
                key,
                meta,
                payload,
                labels: &[],
            };
            let header = sample(&body);
            let decoded = Header::decode(&header.encode(9, 8192), 9, 8192).unwrap();
            assert_eq!(decoded, header);
            let mut bytes = Vec::new();
            body.encode_into(&mut bytes);
            assert_eq!(bytes.len(), header.padded_body_bytes());
            assert_eq!(checksum::crc(&bytes), decoded.body_crc);
            assert_eq!(
                Body::decode(decoded.flags, &bytes[..header.body_bytes as usize]),
                Some(body)
            );
        }
    }

    #[test]
    fn every_flipped_bit_of_a_record_is_noticed() {
        let body = Body {
            key: b"key",
            meta: b"meta",
            payload: b"the payload",
            labels: &[],
        };
        let header = sample(&body);
        let mut bytes = header.encode(9, 8192).to_vec();
        body.encode_into(&mut bytes);
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let (head, rest) = damaged.split_first_chunk::<HEADER_BYTES>().unwrap();
            let noticed = Header::decode(head, 9, 8192).is_none_or(|found| {
                rest.get(..found.padded_body_bytes()).map(checksum::crc) != Some(found.body_crc)
            });
            assert!(noticed, "bit {bit}");
        }
    }

    #[test]
    fn record_of_another_segment_or_place_is_refused() {
        let body = Body {
            payload: b"x",
            ..Body::default()
        };
        let bytes = sample(&body).encode(9, 8192);
        let intact = |salt, offset| {
            Header::decode(&bytes, salt, offset).is_some_and(|header| header.body_crc == body.crc())
        };
        assert!(intact(9, 8192));
        assert!(!intact(10, 8192));
        assert!(!intact(9, 8200));
    }

    #[test]
    fn zeros_are_no_record() {
        for salt in 0..1000 {
            assert_eq!(Header::decode(&[0; HEADER_BYTES], salt, 4096), None);
        }
    }

    #[test]
    fn unknown_flags_and_kinds_are_told_once_the_header_checks() {
        let decoded = |kind, flags| {
            let header = Header {
                kind: Kind(kind),
                flags: Flags(flags),
                ..sample(&Body::default())
            };
            Header::decode(&header.encode(9, 8192), 9, 8192)
                .unwrap()
                .unknown()
        };
        for (kind, flags) in [
            (3, 31),
            (3, 128),
            (133, 0),
            (134, 3),
            (135, 3),
            (192, 3),
            (255, 3),
        ] {
            assert_eq!(decoded(kind, flags), None, "{kind} {flags}");
        }
        assert!(decoded(3, 32 | 1).unwrap().contains("flag 32"));
        assert!(decoded(136, 3).unwrap().contains("kind 136"));
        assert!(decoded(191, 3).unwrap().contains("kind 191"));
    }

    #[test]
    fn lengths_inside_a_body_are_checked() {
        assert_eq!(BodyRanges::decode(Flags::KEY, &[]), None);
        assert_eq!(BodyRanges::decode(Flags::KEY, &[9, 1]), None);
        assert_eq!(BodyRanges::decode(Flags::META, &[1]), None);
        assert_eq!(BodyRanges::decode(Flags::META, &[255, 255, 0]), None);
    }
}
