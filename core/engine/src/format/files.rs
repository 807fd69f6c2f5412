//! The small files beside the segments: the identity of the store, and the watermark that readers in other
//! processes follow.

use super::{Fields, VERSION, segment};
use crate::{Error, ErrorKind, Result, SegmentId, checksum};

/// The name of the identity file: what makes a folder a store.
pub(crate) const IDENTITY: &str = "RUNLOG";
/// The name of the file that the writer locks.
pub(crate) const LOCK: &str = "LOCK";
/// The name of the watermark file.
pub(crate) const WATERMARK: &str = "WATERMARK";
/// The name of the checkpoint.
pub(crate) const CHECKPOINT: &str = "CHECKPOINT";
/// The ending of a file that is being made and isn't part of the store yet.
pub(crate) const UNFINISHED: &str = ".tmp";
/// The name of the segment that is made ahead of need.
pub(crate) const SPARE: &str = "spare.seg.tmp";

/// The name of a segment's file.
pub(crate) fn segment_name(segment: SegmentId) -> String {
    format!("{:08}.seg", segment.0)
}

/// The segment whose file has this name.
pub(crate) fn segment_of_name(name: &str) -> Option<SegmentId> {
    let digits = name.strip_suffix(".seg")?;
    let number = digits.parse().ok().filter(|number| *number != 0)?;
    (segment_name(SegmentId(number)) == name).then_some(SegmentId(number))
}

const IDENTITY_MAGIC: [u8; 8] = *b"RUNLOGST";
const IDENTITY_BYTES: usize = 64;

/// The identity file: 64 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Identity {
    pub(crate) store: [u8; 16],
    pub(crate) created_ms: u64,
}

impl Identity {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = IDENTITY_MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&self.store);
        bytes.extend_from_slice(&self.created_ms.to_le_bytes());
        bytes.resize(IDENTITY_BYTES - 4, 0);
        bytes.extend_from_slice(&checksum::crc(&bytes).to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8], place: &str) -> Result<Self> {
        if bytes.is_empty() {
            return Err(Error::new(ErrorKind::Damaged, format!("{place}: the file {IDENTITY} is empty; restore it")));
        }
        if bytes.len() < 8 || bytes[..8] != IDENTITY_MAGIC {
            return Err(Error::new(
                ErrorKind::NotAStore,
                format!("{place}: the file {IDENTITY} is not that of a runlog store"),
            ));
        }
        let name = format!("{place}: {IDENTITY}");
        if bytes.len() != IDENTITY_BYTES {
            return Err(Error::new(
                ErrorKind::Damaged,
                format!("{name}: {} bytes long, expected {IDENTITY_BYTES}", bytes.len()),
            ));
        }
        let mut fields = Fields::new(&bytes[8..]);
        let version = fields.u32();
        if version != VERSION {
            return Err(segment::unknown_version(&name, version));
        }
        let expected = checksum::crc(&bytes[..IDENTITY_BYTES - 4]);
        let found = Fields::new(&bytes[IDENTITY_BYTES - 4..]).u32();
        if found != expected {
            return Err(Error::new(
                ErrorKind::Damaged,
                format!("{name}: offset {}: CRC is {found:08x}, expected {expected:08x}", IDENTITY_BYTES - 4),
            ));
        }
        fields.u32();
        Ok(Self { store: fields.take(), created_ms: fields.u64() })
    }
}

/// The size of the watermark file.
pub(crate) const WATERMARK_BYTES: usize = 56;

/// How far the writer has published: 56 bytes, overwritten at each commit and never flushed.
///
/// It counts only while the machine hasn't been started anew since it was written (`boot`): after a loss of
/// power it may be older than the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Watermark {
    pub(crate) store: [u8; 16],
    pub(crate) boot: [u8; 16],
    pub(crate) segment: SegmentId,
    pub(crate) offset: u64,
    pub(crate) position: u64,
}

impl Watermark {
    pub(crate) fn encode(&self) -> [u8; WATERMARK_BYTES] {
        let mut bytes = [0; WATERMARK_BYTES];
        bytes[..16].copy_from_slice(&self.store);
        bytes[16..32].copy_from_slice(&self.boot);
        bytes[32..36].copy_from_slice(&self.segment.0.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.position.to_le_bytes());
        let offset = super::offset_to_units(self.offset);
        bytes[48..52].copy_from_slice(&offset.to_le_bytes());
        let crc = checksum::crc(&bytes[..52]);
        bytes[52..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// `None` when the bytes are no watermark, or were read while they were being written.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; WATERMARK_BYTES] = bytes.try_into().ok()?;
        let mut fields = Fields::new(bytes);
        let (store, boot, segment, _) = (fields.take(), fields.take(), SegmentId(fields.u32()), fields.u32());
        let (position, offset) = (fields.u64(), super::units_to_offset(fields.u32()));
        (fields.u32() == checksum::crc(&bytes[..52])).then_some(Self { store, boot, segment, offset, position })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_files_read_back_and_notice_every_flipped_bit() {
        let identity = Identity { store: [3; 16], created_ms: 99 };
        let watermark = Watermark { store: [3; 16], boot: [4; 16], segment: SegmentId(2), offset: 8192, position: 70 };
        assert_eq!(Identity::decode(&identity.encode(), "x").unwrap(), identity);
        assert_eq!(Watermark::decode(&watermark.encode()), Some(watermark));
        for bit in 0..IDENTITY_BYTES * 8 {
            let mut damaged = identity.encode();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Identity::decode(&damaged, "x").is_err(), "bit {bit}");
        }
        for bit in 0..WATERMARK_BYTES * 8 {
            let mut damaged = watermark.encode();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Watermark::decode(&damaged), None, "bit {bit}");
        }
    }

    #[test]
    fn only_canonical_names_are_segments() {
        assert_eq!(segment_of_name("00000012.seg"), Some(SegmentId(12)));
        for name in ["12.seg", "00000000.seg", "00000012.seg.tmp", "+0000012.seg", "x.seg"] {
            assert_eq!(segment_of_name(name), None, "{name}");
        }
    }
}
