//! [`Image`]: the image of a segment, decoded from the blocks of a pack's file.

mod made;
mod table;

use std::{io, sync::Arc};

use bytes::Bytes;

use self::table::{make_table, may_have_table};
use super::{codec, dictionary::Dictionary};
use crate::{
    Error, ErrorKind, Result,
    bounded::{Bounded, Slot},
    checksum,
    format::{
        ALIGNMENT, aligned,
        pack::{
            BLOCK_HEADER_BYTES, BlockHeader, Content, Encoding, FILE_BYTES_MAX, FOOTER_BYTES,
            Footer, ROW_BYTES, Row,
        },
        segment::{DATA_START, Header},
    },
    storage::File,
};

/// The size of the process-wide cache of decoded blocks: enough for a whole pack, since a scan in order of position
/// reads many of its blocks in turn.
const DECODED_BYTES_MAX: usize = if cfg!(target_family = "wasm") {
    32 << 20
} else {
    96 << 20
};

pub(super) static DECODED: Bounded<Bytes> = Bounded::new(DECODED_BYTES_MAX);

/// The size of the process-wide cache of prepared dictionaries.
const DICTIONARY_BYTES_KEPT: usize = if cfg!(target_family = "wasm") {
    4 << 20
} else {
    32 << 20
};
/// The memory that a prepared dictionary takes beside its bytes.
const DICTIONARY_TABLES_BYTES: usize = 32 << 10;

pub(super) static DICTIONARIES: Bounded<Dictionary> = Bounded::new(DICTIONARY_BYTES_KEPT);

/// How many copies of its dictionary a pack stores, because losing it would lose all records.
pub(crate) const DICTIONARY_COPIES: usize = 2;

/// The image of a segment: a read-only file, whose bytes are decoded on demand from the blocks of a pack.
pub(crate) struct Image {
    file: Arc<dyn File>,
    name: String,
    seed: u32,
    bytes: u64,
    /// Where the last block ends.
    blocks_end: u64,
    rows: Vec<Row>,
    decoded: Vec<Arc<Slot<Bytes>>>,
    /// How many bytes of the file one copy of the dictionary takes, and the dictionary; `None` for a pack without.
    dictionary: Option<(u64, Arc<Slot<Dictionary>>)>,
    /// Where the table in the file is damaged.
    damaged_table: Option<DamagedTable>,
    /// Blocks that are damaged in the file, and were made again.
    made: Vec<MadeBlock>,
}

/// A block of a pack's index, made again from the records.
pub(crate) struct MadeBlock {
    pub(crate) place: usize,
    /// Where it begins in the file.
    pub(crate) offset: u64,
    /// The bytes of the file, and those of the image.
    pub(crate) bytes: Vec<u8>,
    raw: Bytes,
}

/// The table of blocks and the footer of a pack, made again from the headers of the blocks.
#[derive(Clone)]
pub(crate) struct DamagedTable {
    /// What is wrong with those in the file.
    pub(crate) why: String,
    pub(crate) offset: u64,
    pub(crate) bytes: Vec<u8>,
}

impl Image {
    /// The length of the pack's file.
    pub(crate) fn file_bytes(&self) -> io::Result<u64> {
        self.file.len()
    }

    /// The image in the pack with this header.
    pub(crate) fn open(file: Arc<dyn File>, header: &Header, name: &str) -> Result<Self> {
        let reading =
            |error: io::Error| Error::from_io(error, format!("reading the table of {name}"));
        let length = file.len().map_err(reading)?;
        if length > FILE_BYTES_MAX {
            let message =
                format!("{name}: {length} bytes long, but a pack has at most {FILE_BYTES_MAX}");
            return Err(Error::damaged(message));
        }
        let mut footer = [0; FOOTER_BYTES];
        let footer_offset = length
            .checked_sub(FOOTER_BYTES as u64)
            .filter(|offset| *offset >= DATA_START)
            .ok_or_else(|| {
                let message = format!("{name}: {length} bytes long, too short for a pack");
                Error::damaged(message)
            })?;
        file.read_at(footer_offset, &mut footer).map_err(reading)?;
        let read = || {
            let footer = Footer::decode(&footer, header, length, name)?;
            if !may_have_table(&*file, &footer).map_err(reading)? {
                let message = format!("{name}: its table of blocks is mostly a hole of the file");
                return Err(Error::damaged(message));
            }
            // No longer than the file is.
            let mut table = vec![0; footer.blocks as usize * ROW_BYTES];
            file.read_at(footer.table_offset, &mut table)
                .map_err(reading)?;
            let rows = footer.table(&table, header, name)?;
            Ok::<_, Error>((footer, rows))
        };
        let (footer, rows, damaged_table) = match read() {
            Ok((footer, rows)) => (footer, rows, None),
            Err(error) if error.kind() == ErrorKind::Damaged => {
                let Some(bytes) = make_table(&*file, header, length, name).map_err(reading)? else {
                    return Err(error);
                };
                let (table, last) = bytes.split_at(bytes.len() - FOOTER_BYTES);
                let footer = last.first_chunk().expect("as long as a footer");
                let footer = Footer::decode(footer, header, length, name)?;
                let rows = footer.table(table, header, name)?;
                let damaged = DamagedTable {
                    why: error.to_string(),
                    offset: footer.table_offset,
                    bytes,
                };
                (footer, rows, Some(damaged))
            }
            Err(error) => return Err(error),
        };
        let first = rows.first().map_or(DATA_START, |row| row.file_offset);
        let dictionary_bytes = first - DATA_START;
        Ok(Self {
            file,
            name: name.to_owned(),
            seed: header.seed(),
            bytes: footer.image_bytes,
            blocks_end: footer.table_offset - dictionary_bytes,
            dictionary: header
                .has_dictionary()
                .then(|| (dictionary_bytes, Arc::default())),
            decoded: rows.iter().map(|_| Arc::default()).collect(),
            rows,
            damaged_table,
            made: Vec::new(),
        })
    }

    /// What is wrong with the table of blocks in the file, which was then made from these.
    pub(crate) fn damaged_table(&self) -> Option<&DamagedTable> {
        self.damaged_table.as_ref()
    }

    /// How many blocks there are.
    pub(crate) fn blocks(&self) -> usize {
        self.rows.len()
    }

    /// Where a block begins and ends in the file.
    pub(crate) fn extent(&self, place: usize) -> (u64, u64) {
        let end = self
            .rows
            .get(place + 1)
            .map_or(self.blocks_end, |next| next.file_offset);
        (self.rows[place].file_offset, end)
    }

    /// The offset in the image at which a block has to end.
    fn image_end(&self, place: usize) -> u64 {
        self.rows
            .get(place + 1)
            .map_or(self.bytes, |next| next.image_offset)
    }

    /// The bytes of a block, read from the file and checked.
    pub(crate) fn read_block(&self, place: usize) -> Result<Bytes> {
        if let Some(made) = self.made.iter().find(|made| made.place == place) {
            return Ok(made.raw.clone());
        }
        let (start, end) = self.extent(place);
        let header = self.block_header(start, end)?;
        let is_where_the_table_says = header.content == Content::Image
            && header.image_offset == self.rows[place].image_offset
            && header.image_offset + u64::from(header.raw_bytes) == self.image_end(place);
        if !is_where_the_table_says {
            return Err(self.damaged(start, "the table of blocks says something else of this one"));
        }
        let dictionary = match header.encoding {
            Encoding::ZstdDictionary => Some(self.dictionary(start)?),
            _ => None,
        };
        self.decoded_block(start, &header, dictionary.as_deref())
    }

    fn damaged(&self, at: u64, what: &str) -> Error {
        let message = format!("{}: file offset {at}: {what}", self.name);
        Error::damaged(message)
    }

    fn reading(&self, start: u64) -> impl Fn(io::Error) -> Error {
        move |error| match error.kind() {
            io::ErrorKind::UnexpectedEof => self.damaged(start, "the file ends within this block"),
            _ => {
                let doing = format!("{}: reading a block at file offset {start}", self.name);
                Error::from_io(error, doing)
            }
        }
    }

    /// The header of a block that has to end there.
    fn block_header(&self, start: u64, end: u64) -> Result<BlockHeader> {
        let mut header = [0; BLOCK_HEADER_BYTES];
        self.file
            .read_at(start, &mut header)
            .map_err(self.reading(start))?;
        let header = BlockHeader::decode(&header, self.seed, start, &self.name)?;
        if start + (BLOCK_HEADER_BYTES + aligned(header.stored_bytes as usize)) as u64 != end {
            return Err(self.damaged(start, "the table of blocks says something else of this one"));
        }
        Ok(header)
    }

    /// The decoded bytes of a block.
    fn decoded_block(
        &self,
        start: u64,
        header: &BlockHeader,
        dictionary: Option<&Dictionary>,
    ) -> Result<Bytes> {
        let mut stored = vec![0; header.stored_bytes as usize];
        self.file
            .read_at(start + BLOCK_HEADER_BYTES as u64, &mut stored)
            .map_err(self.reading(start))?;
        if checksum::crc(&stored) != header.stored_crc {
            return Err(self.damaged(start, "the CRC of this block is wrong"));
        }
        let raw_bytes = header.raw_bytes as usize;
        let raw = codec::decode(header.encoding, &stored, raw_bytes, dictionary)
            .filter(|raw| checksum::crc(raw) == header.raw_crc)
            .ok_or_else(|| self.damaged(start, "this block doesn't decode to what was encoded"))?;
        Ok(raw.into())
    }

    /// Where a copy of the dictionary begins and ends in the file: before the first block, and behind the last one.
    pub(crate) fn dictionary_extent(&self, copy: usize) -> Option<(u64, u64)> {
        let (bytes, _) = self.dictionary.as_ref()?;
        let start = if copy == 0 {
            DATA_START
        } else {
            self.blocks_end
        };
        Some((start, start + bytes))
    }

    /// One copy of the dictionary, read and checked; `None` for a pack without.
    pub(crate) fn read_dictionary(&self, copy: usize) -> Option<Result<Bytes>> {
        let (start, end) = self.dictionary_extent(copy)?;
        let read = self.block_header(start, end).and_then(|header| {
            if header.content != Content::Dictionary {
                return Err(self.damaged(start, "expected the dictionary of this pack"));
            }
            self.decoded_block(start, &header, None)
        });
        Some(read)
    }

    /// The bytes of a copy of the dictionary, rebuilt from the other copy, and the offset at which it begins.
    pub(crate) fn made_dictionary(&self, copy: usize) -> Result<(u64, Vec<u8>)> {
        let none = || self.damaged(0, "no copy of its dictionary is whole");
        let (to, _) = self.dictionary_extent(copy).ok_or_else(none)?;
        let is_whole = |other: &usize| {
            let read = self.read_dictionary(*other);
            *other != copy && read.is_some_and(|read| read.is_ok())
        };
        let whole = (0..DICTIONARY_COPIES).find(is_whole).ok_or_else(none)?;
        let (from, end) = self.dictionary_extent(whole).ok_or_else(none)?;
        let header = self.block_header(from, end)?;
        let mut stored = vec![0; header.stored_bytes as usize];
        self.file
            .read_at(from + BLOCK_HEADER_BYTES as u64, &mut stored)
            .map_err(self.reading(from))?;
        let mut bytes = header.encode(self.seed, to).to_vec();
        bytes.append(&mut stored);
        bytes.resize(aligned(bytes.len()), 0);
        Ok((to, bytes))
    }

    /// The dictionary of this pack, for the block at an offset of the file, from the first copy that checks.
    fn dictionary(&self, block: u64) -> Result<Arc<Dictionary>> {
        let Some((_, slot)) = &self.dictionary else {
            let what = "this block needs a dictionary, and this pack has none";
            return Err(self.damaged(block, what));
        };
        DICTIONARIES.get(slot, || {
            let mut first_error = None;
            for copy in 0..DICTIONARY_COPIES {
                let made = self.read_dictionary(copy).map(|read| {
                    let bytes = read?;
                    let weight = bytes.len() + DICTIONARY_TABLES_BYTES;
                    let made = Dictionary::decode(&bytes).map(|made| (made, weight));
                    made.ok_or_else(|| self.damaged(block, "the dictionary of this pack is none"))
                });
                match made {
                    Some(Ok(made)) => return Ok(made),
                    Some(Err(error)) if error.kind() != ErrorKind::Damaged => return Err(error),
                    Some(Err(error)) => _ = first_error.get_or_insert(error),
                    None => {}
                }
            }
            let why = first_error.map_or_else(String::new, |error| format!(" ({error})"));
            let what =
                format!("every copy of the dictionary that this block needs is damaged{why}");
            Err(self.damaged(block, &what))
        })
    }

    /// Whether the padding after a block of this extent is zeros, as it was written.
    pub(crate) fn has_plain_padding(&self, (start, end): (u64, u64)) -> Result<bool> {
        if self.made.iter().any(|made| made.offset == start) {
            return Ok(true);
        }
        let header = self.block_header(start, end)?;
        let from = start + BLOCK_HEADER_BYTES as u64 + u64::from(header.stored_bytes);
        let length = usize::try_from(end.saturating_sub(from)).unwrap_or(0);
        let mut padding = [0; ALIGNMENT];
        let padding = &mut padding[..length.min(ALIGNMENT)];
        self.file
            .read_at(from, padding)
            .map_err(self.reading(start))?;
        Ok(padding.iter().all(|byte| *byte == 0))
    }

    fn block(&self, place: usize) -> Result<Arc<Bytes>> {
        DECODED.get(&self.decoded[place], || {
            self.read_block(place).map(|raw| {
                let weight = raw.len() + size_of::<Bytes>();
                (raw, weight)
            })
        })
    }

    /// The place of the block that has an offset of the image.
    fn place_of(&self, offset: u64) -> Option<usize> {
        self.rows
            .partition_point(|row| row.image_offset <= offset)
            .checked_sub(1)
    }

    /// Prefetches the dictionary, unless it is in memory. Advice only.
    pub(crate) fn will_need_dictionary(&self) {
        if let Some((bytes, slot)) = &self.dictionary
            && !slot.is_loaded()
        {
            self.file.will_read(DATA_START, *bytes);
        }
    }

    /// Prefetches the blocks that have these offsets of the image, those that aren't in memory. Advice only.
    pub(crate) fn will_need(&self, offsets: impl Iterator<Item = u64>) {
        let mut last = None;
        for offset in offsets {
            let place = self.place_of(offset);
            if place != last
                && let Some(place) = place
                && !self.decoded[place].is_loaded()
            {
                let (start, end) = self.extent(place);
                self.file.will_read(start, end - start);
            }
            last = place;
        }
    }

    /// Whether bytes of the image lie in several blocks.
    pub(crate) fn spans_blocks(&self, offset: u64, length: u64) -> bool {
        let end = offset.saturating_add(length);
        self.place_of(offset)
            .is_some_and(|place| end > self.image_end(place))
    }

    /// The bytes of the image at an offset, without a copy if they lie in one block.
    pub(crate) fn slice(&self, offset: u64, length: usize) -> Option<Result<Bytes>> {
        let place = self.place_of(offset)?;
        let end = offset.checked_add(length as u64)?;
        if end > self.image_end(place) {
            return None;
        }
        let at = usize::try_from(offset - self.rows[place].image_offset).ok()?;
        Some(self.block(place).map(|raw| raw.slice(at..at + length)))
    }
}

impl File for Image {
    fn read_at(&self, mut offset: u64, mut bytes: &mut [u8]) -> io::Result<()> {
        if bytes.len() as u64 > self.bytes.saturating_sub(offset) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // The headers are stored without encoding.
        if offset < DATA_START {
            let here = usize::try_from(DATA_START - offset)
                .unwrap_or(usize::MAX)
                .min(bytes.len());
            let (headers, rest) = bytes.split_at_mut(here);
            self.file.read_at(offset, headers)?;
            offset += here as u64;
            bytes = rest;
        }
        while !bytes.is_empty() {
            let Some(place) = self.place_of(offset) else {
                return Err(io::ErrorKind::UnexpectedEof.into());
            };
            let raw = self.block(place).map_err(into_io)?;
            let from = usize::try_from(offset - self.rows[place].image_offset)
                .ok()
                .filter(|from| *from < raw.len())
                .ok_or(io::ErrorKind::UnexpectedEof)?;
            let here = bytes.len().min(raw.len() - from);
            let (now, rest) = bytes.split_at_mut(here);
            now.copy_from_slice(&raw[from..from + here]);
            offset += here as u64;
            bytes = rest;
        }
        Ok(())
    }

    fn write_at(&self, _offset: u64, _bytes: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn set_len(&self, _bytes: u64) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes)
    }

    fn will_read(&self, offset: u64, bytes: u64) {
        let Some(first) = self.place_of(offset) else {
            return;
        };
        let last = self.place_of(offset.saturating_add(bytes)).unwrap_or(first);
        let (from, to) = (self.extent(first).0, self.extent(last).1);
        self.file.will_read(from, to - from);
    }
}

/// Damage passes through the interface of files as `InvalidData`.
fn into_io(error: Error) -> io::Error {
    if error.kind() == ErrorKind::Damaged {
        return io::Error::new(io::ErrorKind::InvalidData, error);
    }
    let kind = std::error::Error::source(&error)
        .and_then(|source| source.downcast_ref::<io::Error>())
        .map_or(io::ErrorKind::Other, io::Error::kind);
    io::Error::new(kind, error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        format::segment::{Compacted, Replaced, ReplacedEnd, tests::header},
        log::{dictionary::tests::conversations, pack_writer::PackWriter},
        storage::{Access, MemoryStorage, Storage},
    };

    /// A pack of pieces, and the image that they are.
    fn pack(encoding: Encoding) -> (MemoryStorage, Header, Vec<u8>) {
        let storage = MemoryStorage::new();
        let file = storage.create("x.pack").unwrap();
        let header = header();
        let dictionary = zstd::dict::from_samples(&conversations(300), 4096).unwrap();
        let (header, encoding, dictionary) = match encoding {
            Encoding::ZstdDictionary => (compacted(), Encoding::Zstd, Some(&dictionary[..])),
            plain => (header, plain, None),
        };
        let mut writer = PackWriter::new(file, header, encoding, dictionary).unwrap();
        let mut image = header.encode_both();
        for number in 0..400_usize {
            let length = [8, 800, 3000, 40_000][number % 4] + (number % 7) * 8;
            let piece: Vec<u8> = (0..length)
                .map(|at| (at * number).to_le_bytes()[0] % 23)
                .collect();
            assert_eq!(writer.image_end(), image.len() as u64);
            writer.add(&piece).unwrap();
            image.extend_from_slice(&piece);
            if number % 10 == 0 {
                writer.end_part().unwrap();
            }
        }
        let large = vec![3; 3 << 20];
        let (index, trailer) = large.split_at(large.len() - 128);
        writer.finish(index, &[], trailer).unwrap();
        image.extend_from_slice(&large);
        (storage, header, image)
    }

    /// The header of a pack with a dictionary.
    fn compacted() -> Header {
        let replaced = Replaced {
            generation: 1,
            from: header().segment,
            to: header().segment,
        };
        let end = ReplacedEnd::default();
        Header {
            compacted: Some(Compacted { replaced, end }),
            ..header()
        }
        .with_dictionary()
    }

    fn open(storage: &MemoryStorage, header: &Header) -> Result<Image> {
        Image::open(storage.open("x.pack", Access::Read).unwrap(), header, "x")
    }

    #[test]
    fn image_reads_back_at_every_offset_and_length() {
        for encoding in [
            Encoding::Raw,
            Encoding::Lz4,
            Encoding::Zstd,
            Encoding::ZstdDictionary,
        ] {
            let (storage, header, expected) = pack(encoding);
            let image = open(&storage, &header).unwrap();
            assert_eq!(image.len().unwrap(), expected.len() as u64);
            for (offset, length) in [(0, 4096), (4096, 32), (4000, 200), (100_000, 300_000)] {
                let mut bytes = vec![0; length];
                image.read_at(offset, &mut bytes).unwrap();
                let start = usize::try_from(offset).unwrap();
                assert_eq!(bytes, expected[start..start + length]);
                if let Some(slice) = image.slice(offset, length) {
                    assert_eq!(slice.unwrap(), expected[start..start + length]);
                }
            }
            let mut all = vec![0; expected.len()];
            image.read_at(0, &mut all).unwrap();
            assert!(all == expected);
            let mut beyond = [0; 8];
            let error = image.read_at(expected.len() as u64 - 4, &mut beyond);
            assert_eq!(error.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    #[test]
    fn encoded_packs_are_smaller() {
        let length = |encoding| {
            let (storage, ..) = pack(encoding);
            storage.open("x.pack", Access::Read).unwrap().len().unwrap()
        };
        assert!(length(Encoding::Lz4) * 2 < length(Encoding::Raw));
        assert!(length(Encoding::Zstd) * 2 < length(Encoding::Raw));
    }

    #[test]
    fn changed_byte_of_a_block_is_damage_of_that_block_alone() {
        let (storage, header, expected) = pack(Encoding::Zstd);
        let file = storage.open("x.pack", Access::Write).unwrap();
        let image = open(&storage, &header).unwrap();
        let (start, end) = image.extent(3);
        for at in start..end.min(start + 200) {
            let mut byte = [0];
            file.read_at(at, &mut byte).unwrap();
            file.write_at(at, &[byte[0] ^ 4]).unwrap();
            let error = image.read_block(3).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Damaged, "{at}");
            assert!(image.read_block(2).is_ok() && image.read_block(4).is_ok());
            file.write_at(at, &byte).unwrap();
        }
        file.write_at(start, &[0; 8]).unwrap();
        let (offset, mut bytes) = (image.rows[3].image_offset, [0; 8]);
        let error = image.read_at(offset, &mut bytes).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        image.read_at(offset - 8, &mut bytes).unwrap();
        let before = usize::try_from(offset).unwrap();
        assert_eq!(bytes, expected[before - 8..before]);
    }
    #[test]
    fn one_damaged_copy_of_the_dictionary_costs_nothing_and_both_cost_what_needs_it() {
        let (storage, header, expected) = pack(Encoding::ZstdDictionary);
        let file = storage.open("x.pack", Access::Write).unwrap();
        let places = open(&storage, &header).unwrap();
        let uses = |place: usize| {
            let (start, end) = places.extent(place);
            places.block_header(start, end).unwrap().encoding == Encoding::ZstdDictionary
        };
        let with = (0..places.blocks()).filter(|place| uses(*place)).count();
        assert!(with > 3 && with < places.blocks());
        let spoil = |copy: usize| {
            let (start, end) = places.dictionary_extent(copy).unwrap();
            let mut bytes = vec![0; usize::try_from(end - start).unwrap()];
            file.read_at(start, &mut bytes).unwrap();
            file.write_at(start + 40, &[0xa5; 8]).unwrap();
            let error = places.read_dictionary(copy).unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Damaged);
            (start, bytes)
        };
        let read = || {
            // What was decoded before is kept, so that it is opened again.
            let image = open(&storage, &header).unwrap();
            let read = (0..image.blocks()).filter(|place| image.read_block(*place).is_ok());
            let mut all = vec![0; expected.len()];
            (
                read.count(),
                image.read_at(0, &mut all).is_ok() && all == expected,
            )
        };
        for copy in 0..DICTIONARY_COPIES {
            let (start, bytes) = spoil(copy);
            assert_eq!(read(), (places.blocks(), true), "{copy}");
            assert_eq!(
                places.made_dictionary(copy).unwrap(),
                (start, bytes.clone())
            );
            file.write_at(start, &bytes).unwrap();
        }
        (0..DICTIONARY_COPIES).for_each(|copy| drop(spoil(copy)));
        assert_eq!(read(), (places.blocks() - with, false));
        assert!(places.made_dictionary(0).is_err());
    }
}
