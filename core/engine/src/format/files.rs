//! The small files beside the segments: the identity of the store, its end marker, and the watermark that readers in
//! other processes follow.

use super::{Features, Field, Fields, VERSION, WRITER_VERSION, checked, fixed, newer, pack};
use crate::{Error, ErrorKind, Result, SegmentId, checksum, limits};
use bytes::BufMut;

/// The name of the identity file, by which a folder is recognised as a store.
pub(crate) const IDENTITY: &str = "RUNLOG";
/// The name of the file that the writer locks.
pub(crate) const LOCK: &str = "LOCK";
/// The name of the watermark file.
pub(crate) const WATERMARK: &str = "WATERMARK";
/// The name of the checkpoint.
pub(crate) const CHECKPOINT: &str = "CHECKPOINT";
/// The name of the end marker.
pub(crate) const END: &str = "END";
/// The ending of a file that is being made and isn't part of the store yet.
pub(crate) const UNFINISHED: &str = ".tmp";
/// The name of the spare segment, which is preallocated for the next rotation.
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

/// A file with records of the log: a segment, or a pack that replaces one or several.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct SegmentFile {
    /// The first and the last segment whose records it contains.
    pub(crate) first: SegmentId,
    pub(crate) last: SegmentId,
    /// 0 for a segment of the log. Of several files for the same segments the highest generation is valid.
    pub(crate) generation: u32,
}

impl SegmentFile {
    /// The file of a segment of the log.
    pub(crate) fn of_log(segment: SegmentId) -> Self {
        Self {
            first: segment,
            last: segment,
            generation: 0,
        }
    }

    pub(crate) fn of_name(name: &str) -> Option<Self> {
        if let Some(segment) = segment_of_name(name) {
            return Some(Self::of_log(segment));
        }
        let (first, last, generation) = pack::of_name(name)?;
        Some(Self {
            first,
            last,
            generation,
        })
    }

    pub(crate) fn name(&self) -> String {
        match self.generation {
            0 => segment_name(self.first),
            generation => pack::name(self.first, self.last, generation),
        }
    }

    /// Whether it takes the place of another one.
    pub(crate) fn replaces(&self, other: &Self) -> bool {
        self.generation > other.generation && self.first <= other.first && other.last <= self.last
    }
}

const IDENTITY_MAGIC: [u8; 8] = *b"RUNLOGST";
const IDENTITY_BYTES: usize = 128;

layout! {
    /// The identity file: 128 bytes.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) struct Identity {
        pub(crate) store: [u8; 16],
        pub(crate) created_ms: u64,
        pub(crate) features: Features,
        /// The secret of the hashes of idempotency keys, without which no caller can choose keys that collide.
        pub(crate) hash_key: [u8; 16],
    }
}

impl Identity {
    pub(crate) fn encode(&self) -> [u8; IDENTITY_BYTES] {
        fixed(|bytes| put!(bytes, IDENTITY_MAGIC, VERSION, WRITER_VERSION, *self))
    }

    pub(crate) fn decode(bytes: &[u8], place: &str) -> Result<Self> {
        let repairable = "`runlog verify --repair` makes it again from the segments";
        if bytes.is_empty() {
            let message = format!("{place}: the file {IDENTITY} is empty; {repairable}");
            return Err(Error::damaged(message));
        }
        if bytes.len() < 8 || bytes[..8] != IDENTITY_MAGIC {
            return Err(Error::new(
                ErrorKind::NotAStore,
                format!("{place}: the file {IDENTITY} is not that of a runlog store"),
            ));
        }
        let name = format!("{place}: {IDENTITY}");
        let Ok(bytes) = <&[u8; IDENTITY_BYTES]>::try_from(bytes) else {
            return Err(Error::damaged(format!(
                "{name}: {} bytes long, expected {IDENTITY_BYTES}; {repairable}",
                bytes.len()
            )));
        };
        checked(bytes, &IDENTITY_MAGIC, &name).map_err(|error| match error.kind() {
            ErrorKind::Damaged => Error::damaged(format!("{error}; {repairable}")),
            _ => error,
        })?;
        let mut fields = Fields::new(&bytes[16..]);
        let identity: Self = fields.get();
        if fields.take::<44>() != [0; 44] {
            return Err(newer(&name, "something in its reserved bytes"));
        }
        identity.features.check_readable(&name)?;
        Ok(identity)
    }
}

const END_MAGIC: [u8; 8] = *b"RUNLOGEN";
/// The size of the end marker.
pub(crate) const END_BYTES: usize = 128;

layout! {
    /// The end marker: the end of the log at the last clean close. Everything before it was durable then, so a log that
    /// ends earlier has lost records.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) struct End {
        pub(crate) store: [u8; 16],
        pub(crate) segment: SegmentId,
        pub(crate) salt: u32,
        /// Where the records of the segment end.
        pub(crate) offset: u64,
        /// The position after the log's last record's.
        pub(crate) next_position: u64,
        /// Where the segment's last record begins, and the CRC field of its header.
        pub(crate) last_record: Option<(u64, u32)>,
        pub(crate) epoch: u32,
        pub(crate) closed_ms: u64,
    }
}

/// The offset of a record and its CRC field; both zero for none, since no record begins at offset 0.
impl Field for Option<(u64, u32)> {
    fn put(&self, bytes: &mut impl BufMut) {
        let (offset, crc) = self.unwrap_or_default();
        put!(bytes, offset, crc);
    }

    fn get(fields: &mut Fields<'_>) -> Self {
        let (offset, crc) = (fields.get(), fields.get());
        (offset != 0).then_some((offset, crc))
    }
}

impl End {
    pub(crate) fn encode(&self) -> [u8; END_BYTES] {
        fixed(|bytes| put!(bytes, END_MAGIC, VERSION, WRITER_VERSION, *self))
    }

    /// An error of kind [`Damaged`](ErrorKind::Damaged) when the bytes are no end marker.
    pub(crate) fn decode(bytes: &[u8], place: &str) -> Result<Self> {
        let name = format!("{place}: {END}");
        let bytes: &[u8; END_BYTES] = bytes.try_into().map_err(|_| {
            Error::damaged(format!(
                "{name}: {} bytes long, expected {END_BYTES}",
                bytes.len()
            ))
        })?;
        checked(bytes, &END_MAGIC, &name)?;
        let mut fields = Fields::new(&bytes[16..]);
        let end: Self = fields.get();
        if fields.take::<44>() != [0; 44] {
            return Err(newer(&name, "something in its reserved bytes"));
        }
        if !limits::is_next_position(end.next_position) {
            let message = format!(
                "{name}: the log can't go on with position {}",
                end.next_position
            );
            return Err(Error::damaged(message));
        }
        Ok(end)
    }
}

const WATERMARK_MAGIC: [u8; 8] = *b"RUNLOGWM";
/// The size of the watermark file, as this build writes it.
pub(crate) const WATERMARK_BYTES: usize = WATERMARK_LENGTH as usize;
const WATERMARK_LENGTH: u32 = 96;
/// A later build may write a longer one of the same version.
pub(crate) const WATERMARK_BYTES_MAX: usize = 4096;

layout! {
    /// The end of what the writer has published: overwritten at each commit and never flushed.
    ///
    /// It is valid only until the machine is rebooted (`boot`): after a loss of power it may be older than the log.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) struct Watermark {
        pub(crate) store: [u8; 16],
        pub(crate) boot: [u8; 16],
        pub(crate) epoch: u32,
        pub(crate) segment: SegmentId,
        pub(crate) position: u64,
        pub(crate) offset: u64,
        /// Counts what may have replaced files: it differs from the count seen before where a reader may have files open that
        /// were removed.
        pub(crate) replacements: u64,
    }
}

impl Watermark {
    pub(crate) fn encode(&self) -> [u8; WATERMARK_BYTES] {
        fixed(|bytes| put!(bytes, WATERMARK_MAGIC, VERSION, WATERMARK_LENGTH, *self))
    }

    /// `None` when the bytes are no watermark, or were read while they were being written.
    ///
    /// # Errors
    /// Another version is an error: a reader that ignored the watermark would read records that are not
    /// acknowledged.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Option<Self>> {
        let Some((head, _)) = bytes.split_at_checked(WATERMARK_BYTES) else {
            return Ok(None);
        };
        if head[..8] != WATERMARK_MAGIC {
            return Ok(None);
        }
        let mut fields = Fields::new(&head[8..]);
        let (version, length) = (fields.u32(), fields.u32() as usize);
        let Some((covered, rest)) = bytes
            .get(..length)
            .and_then(|bytes| bytes.split_last_chunk::<4>())
        else {
            return Ok(None);
        };
        if length < WATERMARK_BYTES || u32::from_le_bytes(*rest) != checksum::crc(covered) {
            return Ok(None);
        }
        if version != VERSION {
            return Err(newer(WATERMARK, &format!("format version {version}")));
        }
        Ok(Some(fields.get()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WATERMARK_SAMPLE: Watermark = Watermark {
        store: [3; 16],
        boot: [4; 16],
        epoch: 5,
        segment: SegmentId(2),
        offset: 8192,
        position: 70,
        replacements: 9,
    };

    #[test]
    fn small_files_read_back_and_notice_every_flipped_bit() {
        let identity = Identity {
            store: [3; 16],
            created_ms: 99,
            features: Features::default(),
            hash_key: [8; 16],
        };
        let end = End {
            store: [3; 16],
            segment: SegmentId(4),
            salt: 5,
            offset: 9000,
            next_position: 12,
            last_record: Some((8192, 77)),
            epoch: 3,
            closed_ms: 1,
        };
        assert_eq!(Identity::decode(&identity.encode(), "x").unwrap(), identity);
        assert_eq!(End::decode(&end.encode(), "x").unwrap(), end);
        assert_eq!(
            Watermark::decode(&WATERMARK_SAMPLE.encode()).unwrap(),
            Some(WATERMARK_SAMPLE)
        );
        for bit in 0..IDENTITY_BYTES * 8 {
            let mut damaged = identity.encode();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Identity::decode(&damaged, "x").is_err(), "bit {bit}");
        }
        for bit in 0..END_BYTES * 8 {
            let mut damaged = end.encode();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                End::decode(&damaged, "x").unwrap_err().kind(),
                ErrorKind::Damaged,
                "bit {bit}"
            );
        }
        for bit in 0..WATERMARK_BYTES * 8 {
            let mut damaged = WATERMARK_SAMPLE.encode();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Watermark::decode(&damaged).unwrap(), None, "bit {bit}");
        }
    }

    #[test]
    fn longer_watermark_of_this_version_is_read_and_one_of_another_refused() {
        let mut longer = WATERMARK_SAMPLE.encode()[..92].to_vec();
        longer.resize(124, 7);
        longer[12] = 128;
        let whole: [u8; 128] = fixed(|bytes| bytes.put_slice(&longer));
        assert_eq!(Watermark::decode(&whole).unwrap(), Some(WATERMARK_SAMPLE));
        longer[8] = 2;
        let other: [u8; 128] = fixed(|bytes| bytes.put_slice(&longer));
        assert_eq!(
            Watermark::decode(&other).unwrap_err().kind(),
            ErrorKind::UnsupportedVersion
        );
    }

    #[test]
    fn only_canonical_names_are_segments() {
        assert_eq!(segment_of_name("00000012.seg"), Some(SegmentId(12)));
        for name in [
            "12.seg",
            "00000000.seg",
            "00000012.seg.tmp",
            "+0000012.seg",
            "x.seg",
        ] {
            assert_eq!(segment_of_name(name), None, "{name}");
        }
    }
}
