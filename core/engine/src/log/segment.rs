//! [`Segment`]: one file of the log, open for reading.
//!
//! Everything read is a copy that nothing can change any more, checked after it was made. Small records of sealed segments
//! are copied from the file's map where there is one; whatever doesn't check there is read again from the file, and only
//! what the file says counts. Index blocks and everything else are read from the file.

use std::sync::Arc;

use bytes::{Buf, Bytes};

use super::{arena::Arena, pack::Image};
use crate::{
    Error, ErrorKind, Label, Result, SegmentId,
    bounded::Slot,
    checksum,
    format::{
        extension,
        files::SegmentFile,
        index::{Block, LabelIndex, TRAILER_BYTES, Trailer},
        newer, record, segment,
    },
    limits,
    storage::{Access, File, Map, Storage},
};

/// What this build doesn't know of a record's extension fields; the body comes without its padding.
#[inline]
fn unknown_field(header: &record::Header, body: &[u8]) -> Option<String> {
    let is_extended = header.flags.has(record::Flags::EXTENDED);
    match is_extended.then(|| extension::check(body))? {
        Err(extension::Fault::Unknown(what)) => Some(what),
        Ok(()) | Err(extension::Fault::Impossible) => None,
    }
}

/// So many bytes are read for one record at first; a longer one takes a second read.
pub(crate) const READ_BYTES: u64 = 4096;
/// From this size on a record's body is read into memory of its own: one call costs less than the copy then.
const LARGE_BYTES: usize = 64 << 10;
/// A file that is being sealed changes its length once, or twice where it was made longer just before.
const LENGTH_CHANGES_MAX: u32 = 8;

/// One segment. Its records below an offset that the caller knows are immutable.
pub(crate) struct Segment {
    pub(crate) header: segment::Header,
    /// What every CRC of it continues: kept, because each record needs it.
    pub(crate) seed: u32,
    pub(crate) name: String,
    /// Its bytes; of a pack, those of its image.
    pub(crate) file: Arc<dyn File>,
    image: Option<Arc<Image>>,
    pub(super) sealed: Option<Sealed>,
}

pub(super) struct Sealed {
    pub(super) trailer: Trailer,
    pub(super) block: Indexed,
}

/// Where the index block is.
pub(super) enum Indexed {
    /// Its labels are read by those who ask for them.
    InFile(Arc<Slot<Block>>, Arc<Slot<LabelIndex>>),
    /// Made from the records, and not in the file.
    Made(Arc<Block>),
}

/// One record as it lies in a segment; its body's CRC was found right.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) offset: u64,
    pub(crate) header: record::Header,
    /// Without its padding.
    pub(crate) body: Bytes,
}

impl Frame {
    /// The offset after this record.
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.header.frame_bytes()
    }

    /// The metadata and the payload.
    pub(crate) fn parts(&self) -> Option<(Bytes, Bytes)> {
        let ranges = record::BodyRanges::decode(self.header.flags, &self.body)?;
        Some((
            self.body.slice(ranges.meta.0..ranges.meta.1),
            self.body.slice(ranges.payload.0..ranges.payload.1),
        ))
    }

    /// The same for who needs nothing else of the record: the payload then is the rest of the body, which saves counting
    /// its users up and down, most of what a small record costs that is read in order.
    #[inline]
    pub(crate) fn into_parts(self) -> Option<(Bytes, Bytes)> {
        let ranges = record::BodyRanges::decode(self.header.flags, &self.body)?;
        let meta = match ranges.meta {
            (start, end) if start == end => Bytes::new(),
            (start, end) => self.body.slice(start..end),
        };
        let mut payload = self.body;
        payload.advance(ranges.payload.0);
        Some((meta, payload))
    }

    /// What of it this build doesn't know and would have to.
    pub(crate) fn unknown(&self) -> Option<String> {
        self.header
            .unknown()
            .or_else(|| unknown_field(&self.header, &self.body))
    }

    /// Whether its extension fields are such as a build writes, this one or another.
    pub(crate) fn has_possible_extension(&self) -> bool {
        !self.header.flags.has(record::Flags::EXTENDED)
            || extension::check(&self.body) != Err(extension::Fault::Impossible)
                && self.header.kind.is_data()
    }

    /// What it can be found by.
    pub(crate) fn labels(&self) -> impl Iterator<Item = Label> + '_ {
        let is_extended = self.header.flags.has(record::Flags::EXTENDED);
        extension::labels(if is_extended { &self.body } else { &[] })
    }

    /// The idempotency key, empty for none.
    pub(crate) fn key(&self) -> Option<&[u8]> {
        record::Body::decode(self.header.flags, &self.body).map(|body| body.key)
    }
}

impl Segment {
    /// Opens a segment's file and reads its header, and its trailer when it has one.
    ///
    /// A writer in another process may be sealing it: that writes an index block and then cuts the file behind it. So
    /// what was read is believed only if the file has the same length afterwards.
    pub(crate) fn open(
        storage: &dyn Storage,
        id: SegmentId,
        access: Access,
        store: &[u8; 16],
    ) -> Result<Self> {
        Self::open_file(storage, SegmentFile::of_log(id), access, store)
    }

    /// The same, of a pack too.
    pub(crate) fn open_file(
        storage: &dyn Storage,
        found: SegmentFile,
        access: Access,
        store: &[u8; 16],
    ) -> Result<Self> {
        Self::open_as(storage, found, &found.name(), access, store)
    }

    /// The same of a file that doesn't have its name yet.
    pub(crate) fn open_as(
        storage: &dyn Storage,
        found: SegmentFile,
        name: &str,
        access: Access,
        store: &[u8; 16],
    ) -> Result<Self> {
        let (id, name) = (found.first, name.to_owned());
        let place = |what: &str| format!("{}: {what} {name}", storage.describe());
        let file = storage
            .open(&name, access)
            .map_err(|error| Error::from_io(error, place("opening")))?;
        let mut length = file
            .len()
            .map_err(|error| Error::from_io(error, place("measuring")))?;
        for _ in 0..LENGTH_CHANGES_MAX {
            let opened = Self::read_ends(&file, &name, length, &place);
            let length_now = file
                .len()
                .map_err(|error| Error::from_io(error, place("measuring")))?;
            if length_now == length {
                let segment = opened?;
                let generation = segment.header.generation();
                let is_named_so =
                    (segment.header.last_segment(), generation) == (found.last, found.generation);
                if segment.header.segment != id || segment.header.store != *store || !is_named_so {
                    return Err(segment.damaged(
                        0,
                        format!(
                            "its header says segment {} of another store or place",
                            segment.header.segment
                        ),
                    ));
                }
                return Ok(segment);
            }
            length = length_now;
        }
        Err(Error::new(
            ErrorKind::Io,
            place("something other than a writer keeps changing the length of"),
        ))
    }

    /// Reads the header, and the trailer when there is one, of a file that is `length` bytes long.
    fn read_ends(
        file: &Arc<dyn File>,
        name: &str,
        length: u64,
        place: &dyn Fn(&str) -> String,
    ) -> Result<Self> {
        let mut bytes = vec![
            0;
            usize::try_from(length)
                .map_or(segment::HEADER_BYTES, |n| n.min(segment::HEADER_BYTES))
        ];
        file.read_at(0, &mut bytes)
            .map_err(|error| Error::from_io(error, place("reading the header of")))?;
        if let Ok(header) = segment::Header::decode(&bytes, name)
            && header.compacted.is_some()
        {
            return Self::read_pack(file, header, name);
        }
        if length > limits::SEGMENT_BYTES_MAX {
            return Err(Error::new(
                ErrorKind::Damaged,
                format!(
                    "{name}: {length} bytes long, but a segment has at most {}",
                    limits::SEGMENT_BYTES_MAX
                ),
            ));
        }
        let mut end = [0; segment::COPY_BYTES + TRAILER_BYTES];
        let end_offset = length
            .checked_sub(end.len() as u64)
            .filter(|start| *start >= segment::HEADER_BYTES as u64);
        if let Some(offset) = end_offset {
            file.read_at(offset, &mut end)
                .map_err(|error| Error::from_io(error, place("reading the trailer of")))?;
        }
        let header = match (
            segment::Header::decode(&bytes, name),
            end.split_first_chunk(),
        ) {
            // The index block of a sealed segment ends in a copy of the header, which its own CRC covers.
            (Err(error), Some((copy, _)))
                if error.kind() == ErrorKind::Damaged && end_offset.is_some() =>
            {
                segment::Header::decode_copy(copy, name, 0).map_err(|_| error)?
            }
            (header, _) => header?,
        };
        let sealed = match end.split_last_chunk() {
            Some((_, trailer)) if end_offset.is_some() => {
                Trailer::decode(trailer, &header, length)?
            }
            _ => None,
        };
        let sealed = sealed.map(|trailer| Sealed {
            trailer,
            block: Indexed::InFile(Arc::default(), Arc::default()),
        });
        Ok(Self {
            header,
            seed: header.seed(),
            name: name.to_owned(),
            file: file.clone(),
            image: None,
            sealed,
        })
    }

    /// Opens the image in the pack with this header, which is sealed.
    fn read_pack(file: &Arc<dyn File>, header: segment::Header, name: &str) -> Result<Self> {
        let image = Arc::new(Image::open(file.clone(), &header, name)?);
        let mut segment = Self {
            header,
            seed: header.seed(),
            name: name.to_owned(),
            file: image.clone(),
            image: Some(image),
            sealed: None,
        };
        let length = segment.file_bytes()?;
        let lost = || segment.damaged(length, "the image of this pack has no trailer");
        let offset = length
            .checked_sub(TRAILER_BYTES as u64)
            .filter(|offset| *offset >= segment::DATA_START)
            .ok_or_else(lost)?;
        let bytes = segment.bytes_at(offset, TRAILER_BYTES as u64)?;
        let trailer = bytes
            .first_chunk()
            .map(|bytes| Trailer::decode(bytes, &header, length))
            .transpose()?
            .flatten()
            .ok_or_else(lost)?;
        segment.sealed = Some(Sealed {
            trailer,
            block: Indexed::InFile(Arc::default(), Arc::default()),
        });
        Ok(segment)
    }

    /// A segment that was just made.
    pub(crate) fn unsealed(header: segment::Header, file: Arc<dyn File>) -> Self {
        Self {
            header,
            seed: header.seed(),
            name: SegmentFile::of_log(header.segment).name(),
            file,
            image: None,
            sealed: None,
        }
    }

    /// The same segment as if it ended in this index block and trailer: for one that a crash left without.
    pub(crate) fn with_index(&self, data_end: u64, index: Vec<u8>) -> Result<Self> {
        let lost = || {
            self.damaged(
                data_end,
                "the index block made from its records does not check",
            )
        };
        let length = data_end + index.len() as u64;
        let index = Bytes::from(index);
        let block_end = index.len().checked_sub(TRAILER_BYTES).ok_or_else(lost)?;
        let trailer = index
            .last_chunk()
            .map(|bytes| Trailer::decode(bytes, &self.header, length))
            .transpose()?
            .flatten();
        let trailer = trailer.ok_or_else(lost)?;
        let block = Block::check(index.slice(..block_end), trailer, self.seed, &self.name)?;
        let sealed = Sealed {
            trailer,
            block: Indexed::Made(Arc::new(block)),
        };
        Ok(Self {
            header: self.header,
            seed: self.seed,
            name: self.name.clone(),
            file: self.file.clone(),
            image: None,
            sealed: Some(sealed),
        })
    }

    /// Whether the segment has a record. If it has, the seal of the one before was durable.
    pub(crate) fn has_record(&self) -> Result<bool> {
        let start = segment::HEADER_BYTES as u64;
        let length = self
            .file
            .len()
            .map_err(|error| Error::from_io(error, format!("measuring {}", self.name)))?;
        if length < start + record::HEADER_BYTES as u64 {
            return Ok(false);
        }
        let bytes = self.bytes_at(start, record::HEADER_BYTES as u64)?;
        Ok(self.header_in(&bytes, start, length).is_ok())
    }

    pub(crate) fn id(&self) -> SegmentId {
        self.header.segment
    }

    /// The last of the segments that a pack stands for; of a segment of the log itself.
    pub(crate) fn last_id(&self) -> SegmentId {
        self.header.last_segment()
    }

    /// What of a pack is decoded where it is read; `None` for a segment of the log.
    pub(crate) fn image(&self) -> Option<&Image> {
        self.image.as_deref()
    }

    /// Whether it is a pack: its records are gathered by stream, and not in the order of their positions.
    pub(crate) fn is_pack(&self) -> bool {
        self.image.is_some()
    }

    /// Its file's name in parts.
    pub(crate) fn named(&self) -> SegmentFile {
        SegmentFile {
            first: self.id(),
            last: self.last_id(),
            generation: self.header.generation(),
        }
    }

    /// What the header of the segment behind says of its end: the salt, where the records end, and the CRC of the index
    /// block, as far as it is known.
    pub(crate) fn ending(&self) -> (u32, Option<u64>, Option<u32>) {
        match (self.header.compacted, self.trailer()) {
            (Some(compacted), _) => (
                compacted.end.salt,
                Some(compacted.end.end),
                Some(compacted.end.index_crc),
            ),
            // An older copy of the file, from a backup, has another index block. So has one that a repair made again.
            (None, trailer) => (
                self.header.salt,
                trailer.map(|trailer| trailer.data_end),
                trailer
                    .filter(|trailer| !trailer.repaired)
                    .map(|trailer| trailer.index_crc),
            ),
        }
    }

    /// The trailer of a sealed segment.
    pub(crate) fn trailer(&self) -> Option<&Trailer> {
        self.sealed.as_ref().map(|sealed| &sealed.trailer)
    }

    /// The times of the first and the last record of a sealed segment, in milliseconds since 1970; `None` if it never had one.
    /// A pack has those of the records that were left out of it too: no clock may go behind them.
    pub(crate) fn times_ms(&self) -> Option<(u64, u64)> {
        let trailer = self.trailer()?;
        let has_given = self.is_pack() && trailer.next_position > trailer.base_position;
        (trailer.records > 0 || has_given).then_some((trailer.time_min_ms, trailer.time_max_ms))
    }

    /// Whether the file ends in the index block of a sealed segment; else that was made from its records.
    pub(crate) fn has_block_in_file(&self) -> bool {
        self.sealed
            .as_ref()
            .is_some_and(|sealed| matches!(sealed.block, Indexed::InFile(..)))
    }

    /// The map of a segment, where the storage can: of a sealed one, and for who reads beside the writer also of the active
    /// one, as long as that was when it was mapped.
    pub(crate) fn map(&self) -> Option<Arc<dyn Map>> {
        match self.sealed.as_ref().map(|sealed| &sealed.block) {
            Some(Indexed::InFile(..)) | None => self.file.map(),
            Some(Indexed::Made(_)) => None,
        }
    }

    /// Some bytes, read from the file. The caller has bounded the length.
    pub(crate) fn bytes_at(&self, offset: u64, length: u64) -> Result<Bytes> {
        let eof = || self.damaged(offset, format!("the file ends before {length} more bytes"));
        let length_here = usize::try_from(length).map_err(|_| eof())?;
        if let Some(found) = self
            .image
            .as_ref()
            .and_then(|image| image.slice(offset, length_here))
        {
            return found;
        }
        let mut bytes = vec![0; length_here];
        self.file
            .read_at(offset, &mut bytes)
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::UnexpectedEof => eof(),
                std::io::ErrorKind::InvalidData => self.damaged(offset, error),
                _ => Error::from_io(
                    error,
                    format!("{}: reading {length} bytes at offset {offset}", self.name),
                ),
            })?;
        Ok(bytes.into())
    }

    /// The record at an offset that the index names; `end` is where the records known to be there end.
    pub(crate) fn frame(&self, offset: u64, end: u64) -> Result<Frame> {
        self.check_start(offset, end)?;
        self.frame_in(
            self.bytes_at(offset, READ_BYTES.min(end - offset))?,
            offset,
            end,
        )
    }

    /// As [`frame`](Self::frame), from the map of the segment into an arena. `None` when it isn't found whole there:
    /// then [`frame`](Self::frame) tells why.
    pub(crate) fn frame_in_map(
        &self,
        map: &dyn Map,
        offset: u64,
        end: u64,
        arena: &mut Arena,
    ) -> Option<Frame> {
        self.check_start(offset, end).ok()?;
        let header = self.header_in_map(map, offset, end)?;
        let (start, bytes) = (
            offset + record::HEADER_BYTES as u64,
            header.padded_body_bytes(),
        );
        let body = if bytes < LARGE_BYTES {
            arena.add(bytes, |to| map.append(start, bytes, to))?
        } else {
            self.bytes_at(start, bytes as u64).ok()?
        };
        self.checked(offset, header, body).ok()
    }

    /// The header of the record at an offset, from the map.
    pub(crate) fn header_in_map(
        &self,
        map: &dyn Map,
        offset: u64,
        end: u64,
    ) -> Option<record::Header> {
        let mut bytes = [0; record::HEADER_BYTES];
        if !map.copy(offset, &mut bytes) {
            return None;
        }
        self.header_in(&bytes, offset, end).ok()
    }

    /// As [`frame`](Self::frame), where `bytes`, read at the offset, have at least the record's header.
    pub(crate) fn frame_in(&self, bytes: Bytes, offset: u64, end: u64) -> Result<Frame> {
        self.check_start(offset, end)?;
        let header = self.header_in(&bytes, offset, end)?;
        let body_bytes = header.padded_body_bytes();
        let whole = record::HEADER_BYTES + body_bytes;
        let body = if whole <= bytes.len() {
            bytes.slice(record::HEADER_BYTES..whole)
        } else {
            self.bytes_at(offset + record::HEADER_BYTES as u64, body_bytes as u64)?
        };
        self.checked(offset, header, body)
    }

    /// Whether an error of reading it says that its file is gone, as it is when a pack has taken its place.
    pub(crate) fn is_gone(error: &Error) -> bool {
        std::error::Error::source(error)
            .and_then(|source| source.downcast_ref::<std::io::Error>())
            .is_some_and(|source| source.kind() == std::io::ErrorKind::NotFound)
    }

    fn check_start(&self, offset: u64, end: u64) -> Result<()> {
        if offset < segment::HEADER_BYTES as u64
            || end.saturating_sub(offset) < record::HEADER_BYTES as u64
        {
            return Err(self.damaged(
                offset,
                format!("no record can begin here: records end at {end}"),
            ));
        }
        Ok(())
    }

    /// The header that `bytes`, read at `offset`, begin with.
    #[inline]
    pub(crate) fn header_in(&self, bytes: &[u8], offset: u64, end: u64) -> Result<record::Header> {
        let header = bytes
            .first_chunk()
            .and_then(|bytes| record::Header::decode(bytes, self.seed, offset))
            .ok_or_else(|| {
                let found = &bytes[..bytes.len().min(record::HEADER_BYTES)];
                self.damaged(
                    offset,
                    format!(
                        "expected a record header of this segment, found {}",
                        hex(found)
                    ),
                )
            })?;
        if header.frame_bytes() > end.saturating_sub(offset) {
            let message = format!(
                "the record is {} bytes long, but records end at {end}",
                header.frame_bytes()
            );
            return Err(self.damaged(offset, message));
        }
        Ok(header)
    }

    /// The record of a header and its body, which comes with its padding, once the CRC is right.
    #[inline]
    pub(crate) fn checked(
        &self,
        offset: u64,
        header: record::Header,
        mut body: Bytes,
    ) -> Result<Frame> {
        self.check(offset, &header, &body)?;
        body.truncate(header.body_bytes as usize);
        Ok(Frame {
            offset,
            header,
            body,
        })
    }

    /// Whether a body, which comes with its padding, is that of a header, and nothing is in either that this build doesn't know.
    #[inline]
    pub(crate) fn check(&self, offset: u64, header: &record::Header, body: &[u8]) -> Result<()> {
        let crc = checksum::crc(body);
        if crc != header.body_crc {
            let message = format!("record CRC is {crc:08x}, expected {:08x}", header.body_crc);
            return Err(self.damaged(offset, message));
        }
        if let Some(unknown) = header.unknown() {
            return Err(newer(&format!("{}: offset {offset}", self.name), &unknown));
        }
        match unknown_field(
            header,
            body.get(..header.body_bytes as usize).unwrap_or(body),
        ) {
            None => Ok(()),
            Some(unknown) => Err(newer(&format!("{}: offset {offset}", self.name), &unknown)),
        }
    }

    /// Damage of this segment at an offset.
    pub(crate) fn damaged(&self, offset: u64, what: impl std::fmt::Display) -> Error {
        Error::new(
            ErrorKind::Damaged,
            format!("{}: offset {offset}: {what}", self.name),
        )
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
