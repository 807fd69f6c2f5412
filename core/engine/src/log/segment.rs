//! [`Segment`]: one file of the log, open for reading.
//!
//! Index blocks and everything else that isn't a record are read from the file; for records see [`super::frame`].

use std::{
    io,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;

use super::pack::Image;
use crate::{
    Error, ErrorKind, Result, SegmentId,
    bounded::Slot,
    format::{
        files::SegmentFile,
        index::{Block, InPlace, LabelIndex, StreamRows, TRAILER_BYTES, Trailer},
        record, segment,
    },
    limits,
    storage::{Access, File, Map, Storage},
};

/// A file that is being sealed changes its length once, or twice where it was made longer just before.
const LENGTH_CHANGES_MAX: u32 = 8;

/// What opening reads at the beginning of a file and at its end, at most.
const ENDS_BYTES: u64 = 4096;

/// One segment. Its records below an offset that the caller knows are immutable.
pub(crate) struct Segment {
    pub(crate) header: segment::Header,
    /// The initial value of every CRC in it: stored, because each record needs it.
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
    /// Where the stream rows of a pack are, once they were looked up.
    pub(super) rows: OnceLock<StreamRows>,
}

impl Sealed {
    fn new(trailer: Trailer, block: Indexed) -> Self {
        Self {
            trailer,
            block,
            rows: OnceLock::new(),
        }
    }
}

/// Where the index block is.
pub(super) enum Indexed {
    /// In the file. Its labels are read only when they are needed.
    InFile(Arc<Slot<Block>>, LabelSlot),
    /// Made from the records, and not in the file.
    Made(Arc<Block>),
    /// Of a pack: its trailer can't be read, for this reason, and another stands in its place.
    Unreadable(String),
}

/// The labels of an index block in the file.
#[derive(Default)]
pub(super) struct LabelSlot {
    /// Read as a whole, and kept in a cache.
    pub(super) kept: Arc<Slot<LabelIndex>>,
    /// Where they are, for reading single rows, once that was looked up.
    pub(super) in_place: OnceLock<Arc<InPlace>>,
}

impl Segment {
    /// Opens a segment's file and reads its header, and its trailer when it has one.
    ///
    /// A writer in another process may be sealing it: that writes an index block and then cuts the file behind it. So
    /// what was read is valid only if the file has the same length afterwards.
    pub(crate) fn open(
        storage: &dyn Storage,
        id: SegmentId,
        access: Access,
        store: &[u8; 16],
    ) -> Result<Self> {
        Self::open_file(storage, SegmentFile::of_log(id), access, store)
    }

    /// As [`open`](Self::open), for a pack too.
    pub(crate) fn open_file(
        storage: &dyn Storage,
        found: SegmentFile,
        access: Access,
        store: &[u8; 16],
    ) -> Result<Self> {
        Self::open_as(storage, found, &found.name(), access, store)
    }

    /// As [`open_file`](Self::open_file), for a file that doesn't have its final name yet.
    pub(crate) fn open_as(
        storage: &dyn Storage,
        found: SegmentFile,
        name: &str,
        access: Access,
        store: &[u8; 16],
    ) -> Result<Self> {
        Self::of_file(storage, found, name, storage.open(name, access), store)
    }

    /// As [`open_file`](Self::open_file), of the file that was opened, or the error of opening it.
    pub(crate) fn of_file(
        storage: &dyn Storage,
        found: SegmentFile,
        name: &str,
        file: io::Result<Arc<dyn File>>,
        store: &[u8; 16],
    ) -> Result<Self> {
        let (id, name) = (found.first, name.to_owned());
        let place = |what: &str| format!("{}: {what} {name}", storage.describe());
        let file = file.map_err(|error| Error::from_io(error, place("opening")))?;
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

    /// Has the device read what opening reads of a file, without waiting for it.
    pub(crate) fn will_open(file: &dyn File) -> io::Result<()> {
        let length = file.len()?;
        file.will_read(0, ENDS_BYTES.min(length));
        file.will_read(length.saturating_sub(ENDS_BYTES), ENDS_BYTES);
        Ok(())
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
            return Err(Error::damaged(format!(
                "{name}: {length} bytes long, but a segment has at most {}",
                limits::SEGMENT_BYTES_MAX
            )));
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
        let in_file = || Indexed::InFile(Arc::default(), LabelSlot::default());
        let sealed = sealed.map(|trailer| Sealed::new(trailer, in_file()));
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
        // Read twice before it is taken for damaged, which holds for as long as the store is open: a read may have failed once.
        let trailer = segment
            .read_pack_trailer()
            .or_else(|_| segment.read_pack_trailer());
        segment.sealed = Some(match trailer {
            Ok(trailer) => {
                let block = Indexed::InFile(Arc::default(), LabelSlot::default());
                Sealed::new(trailer, block)
            }
            Err(error) if error.kind() == ErrorKind::Damaged => {
                let trailer = Trailer::unreadable(&header, segment.file_bytes()?);
                let why = format!("{error}; its index can't be read");
                Sealed::new(trailer, Indexed::Unreadable(why))
            }
            Err(error) => return Err(error),
        });
        Ok(segment)
    }

    /// The same pack with blocks of its index that were made again.
    pub(crate) fn with_made_blocks(&self, image: Image) -> Result<Self> {
        let image = Arc::new(image);
        let mut segment = Self {
            header: self.header,
            seed: self.seed,
            name: self.name.clone(),
            file: image.clone(),
            image: Some(image),
            sealed: None,
        };
        let block = Indexed::InFile(Arc::default(), LabelSlot::default());
        segment.sealed = Some(Sealed::new(segment.read_pack_trailer()?, block));
        Ok(segment)
    }

    /// Why the index of a pack can't be read, where it can't.
    pub(crate) fn index_error(&self) -> Option<Error> {
        match self.sealed.as_ref().map(|sealed| &sealed.block) {
            Some(Indexed::Unreadable(why)) => Some(Error::damaged(why.clone())),
            _ => None,
        }
    }

    fn read_pack_trailer(&self) -> Result<Trailer> {
        let length = self.file_bytes()?;
        let lost = || self.damaged(length, "the image of this pack has no trailer");
        let offset = length
            .checked_sub(TRAILER_BYTES as u64)
            .filter(|offset| *offset >= segment::DATA_START)
            .ok_or_else(lost)?;
        let bytes = self.bytes_at(offset, TRAILER_BYTES as u64)?;
        bytes
            .first_chunk()
            .map(|bytes| Trailer::decode(bytes, &self.header, length))
            .transpose()?
            .flatten()
            .ok_or_else(lost)
    }

    /// Where the trailer of a pack can't be read, the header of the segment behind it says how far it reached.
    pub(crate) fn reach_to(&mut self, next: &segment::Header) {
        if let Some(Sealed {
            trailer,
            block: Indexed::Unreadable(_),
            ..
        }) = &mut self.sealed
        {
            trailer.next_position = next.base_position.max(trailer.base_position);
            trailer.time_max_ms = next.base_time_ms.max(trailer.time_min_ms);
            trailer.next_stream = next.next_stream;
        }
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

    /// The same segment with this index block and trailer: for one that a crash left without them.
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
        let sealed = Sealed::new(trailer, Indexed::Made(Arc::new(block)));
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

    /// The last of the segments that a pack replaces; for a segment of the log its own id.
    pub(crate) fn last_id(&self) -> SegmentId {
        self.header.last_segment()
    }

    /// The image of a pack, which decodes on read; `None` for a segment of the log.
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

    /// The fields that the next segment's header repeats: the salt, and if known the end of the records and the CRC of
    /// the index block.
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
            .is_some_and(|sealed| !matches!(sealed.block, Indexed::Made(_)))
    }

    /// The memory map of a segment, if the storage supports it: of a sealed one, and in a reader process also of the
    /// active one, with the length it had when it was mapped.
    pub(crate) fn map(&self) -> Option<Arc<dyn Map>> {
        match self.sealed.as_ref().map(|sealed| &sealed.block) {
            Some(Indexed::InFile(..) | Indexed::Unreadable(_)) | None => self.file.map(),
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
                io::ErrorKind::UnexpectedEof => eof(),
                io::ErrorKind::InvalidData => self.damaged(offset, error),
                _ => Error::from_io(
                    error,
                    format!("{}: reading {length} bytes at offset {offset}", self.name),
                ),
            })?;
        Ok(bytes.into())
    }

    /// Whether bytes of a pack lie in several blocks of it.
    pub(crate) fn spans_blocks(&self, offset: u64, length: u64) -> bool {
        self.image
            .as_ref()
            .is_some_and(|image| image.spans_blocks(offset, length))
    }

    /// Whether a read error means that its file was removed, as it is once a pack has replaced it.
    pub(crate) fn is_gone(error: &Error) -> bool {
        std::error::Error::source(error)
            .and_then(|source| source.downcast_ref::<io::Error>())
            .is_some_and(|source| source.kind() == io::ErrorKind::NotFound)
    }

    /// Damage of this segment at an offset.
    pub(crate) fn damaged(&self, offset: u64, what: impl std::fmt::Display) -> Error {
        Error::damaged(format!("{}: offset {offset}: {what}", self.name))
    }
}
