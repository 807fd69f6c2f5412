//! [`Segment`]: one file of the log, open for reading.
//!
//! Everything read is a copy that nothing can change any more, checked after it was made. Small records of sealed segments
//! are copied from the file's map where there is one; whatever doesn't check there is read again from the file, and only
//! what the file says counts. Index blocks and everything else are read from the file.

use std::sync::Arc;

use bytes::{Buf, Bytes};

use super::arena::Arena;
use crate::{
    Error, ErrorKind, Result, SegmentId,
    bounded::{Bounded, Slot},
    checksum,
    format::{
        files,
        index::{Block, TRAILER_BYTES, Trailer},
        newer, record, segment,
    },
    limits,
    storage::{Access, File, Map, Storage},
};

/// So many bytes are read for one record at first; a longer one takes a second read.
pub(crate) const READ_BYTES: u64 = 4096;
/// From this size on a record's body is read into memory of its own: one call costs less than the copy then.
const LARGE_BYTES: usize = 64 << 10;
/// Index blocks are kept in memory, so many bytes of them in the whole process; others are read and checked again at need.
/// A block is copied because its lookups trust what was checked once.
const BLOCK_BYTES_MAX: usize = 128 << 20;

static BLOCKS: Bounded<Block> = Bounded::new(BLOCK_BYTES_MAX);

/// A file that is being sealed changes its length once, or twice where it was made longer just before.
const LENGTH_CHANGES_MAX: u32 = 8;

/// One segment. Its records below an offset that the caller knows are immutable.
pub(crate) struct Segment {
    pub(crate) header: segment::Header,
    /// What every CRC of it continues: kept, because each record needs it.
    pub(crate) seed: u32,
    pub(crate) name: String,
    pub(crate) file: Arc<dyn File>,
    sealed: Option<Sealed>,
}

struct Sealed {
    trailer: Trailer,
    block: Indexed,
}

/// Where the index block is.
enum Indexed {
    InFile(Arc<Slot<Block>>),
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
        let name = files::segment_name(id);
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
                if segment.header.segment != id || segment.header.store != *store {
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
        if length > limits::SEGMENT_BYTES_MAX {
            return Err(Error::new(
                ErrorKind::Damaged,
                format!(
                    "{name}: {length} bytes long, but a segment has at most {}",
                    limits::SEGMENT_BYTES_MAX
                ),
            ));
        }
        let mut bytes = vec![
            0;
            usize::try_from(length)
                .map_or(segment::HEADER_BYTES, |n| n.min(segment::HEADER_BYTES))
        ];
        file.read_at(0, &mut bytes)
            .map_err(|error| Error::from_io(error, place("reading the header of")))?;
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
            block: Indexed::InFile(Arc::default()),
        });
        Ok(Self {
            header,
            seed: header.seed(),
            name: name.to_owned(),
            file: file.clone(),
            sealed,
        })
    }

    /// A segment that was just made.
    pub(crate) fn unsealed(header: segment::Header, file: Arc<dyn File>) -> Self {
        Self {
            header,
            seed: header.seed(),
            name: files::segment_name(header.segment),
            file,
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

    /// The trailer of a sealed segment.
    pub(crate) fn trailer(&self) -> Option<&Trailer> {
        self.sealed.as_ref().map(|sealed| &sealed.trailer)
    }

    /// Whether the file ends in the index block of a sealed segment; else that was made from its records.
    pub(crate) fn has_block_in_file(&self) -> bool {
        self.sealed
            .as_ref()
            .is_some_and(|sealed| matches!(sealed.block, Indexed::InFile(_)))
    }

    /// The index block of a sealed segment, read and checked when it isn't kept.
    pub(crate) fn block(&self) -> Result<Option<Arc<Block>>> {
        let Some(sealed) = &self.sealed else {
            return Ok(None);
        };
        #[cfg(test)]
        BLOCK_LOOKS.set(BLOCK_LOOKS.get() + 1);
        let slot = match &sealed.block {
            Indexed::Made(block) => return Ok(Some(block.clone())),
            Indexed::InFile(slot) => slot,
        };
        let block = BLOCKS.get(slot, || {
            let trailer = sealed.trailer;
            let length = trailer.block_bytes() - TRAILER_BYTES as u64;
            self.file.will_read(trailer.data_end, length);
            let bytes = self.bytes_at(trailer.data_end, length)?;
            let weight = bytes.len() + size_of::<Block>();
            Block::check(bytes, trailer, self.seed, &self.name).map(|block| (block, weight))
        })?;
        Ok(Some(block))
    }

    /// The map of a sealed segment, where the storage can.
    pub(crate) fn map(&self) -> Option<Arc<dyn Map>> {
        match self.sealed.as_ref()?.block {
            Indexed::InFile(_) => self.file.map(),
            Indexed::Made(_) => None,
        }
    }

    /// Some bytes, read from the file. The caller has bounded the length.
    pub(crate) fn bytes_at(&self, offset: u64, length: u64) -> Result<Bytes> {
        let eof = || self.damaged(offset, format!("the file ends before {length} more bytes"));
        let mut bytes = vec![0; usize::try_from(length).map_err(|_| eof())?];
        self.file
            .read_at(offset, &mut bytes)
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::UnexpectedEof => eof(),
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
        let crc = checksum::crc(&body);
        if crc != header.body_crc {
            let message = format!("record CRC is {crc:08x}, expected {:08x}", header.body_crc);
            return Err(self.damaged(offset, message));
        }
        if let Some(unknown) = header.unknown() {
            return Err(newer(&format!("{}: offset {offset}", self.name), &unknown));
        }
        body.truncate(header.body_bytes as usize);
        Ok(Frame {
            offset,
            header,
            body,
        })
    }

    /// Damage of this segment at an offset.
    pub(crate) fn damaged(&self, offset: u64, what: impl std::fmt::Display) -> Error {
        Error::new(
            ErrorKind::Damaged,
            format!("{}: offset {offset}: {what}", self.name),
        )
    }
}

#[cfg(test)]
thread_local! {
    /// How often an index block was looked into.
    pub(crate) static BLOCK_LOOKS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
