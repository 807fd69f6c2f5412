//! Packs: [`Image`] gives the image of a segment out of the blocks of a pack's file, and [`PackWriter`] writes such a file.

use std::{io, sync::Arc};

use bytes::Bytes;

use super::codec;
use crate::{
    Error, ErrorKind, Result,
    bounded::{Bounded, Slot},
    checksum,
    format::{
        ALIGNMENT, aligned,
        pack::{
            BLOCK_HEADER_BYTES, BlockHeader, Encoding, FOOTER_BYTES, Footer, ROW_BYTES, Row,
            encode_table,
        },
        segment::{DATA_START, Header},
    },
    storage::File,
};

/// Decoded blocks are kept in memory, so many bytes of them in the whole process: enough for all of a pack, which a scan in
/// order of position goes through from many places at once.
const DECODED_BYTES_MAX: usize = if cfg!(target_family = "wasm") {
    32 << 20
} else {
    96 << 20
};

static DECODED: Bounded<Bytes> = Bounded::new(DECODED_BYTES_MAX);

/// The image of a segment: a file that can only be read, decoded from the blocks of a pack where that is needed.
pub(crate) struct Image {
    file: Arc<dyn File>,
    name: String,
    seed: u32,
    bytes: u64,
    /// Where the last block ends.
    blocks_end: u64,
    rows: Vec<Row>,
    decoded: Vec<Arc<Slot<Bytes>>>,
}

impl Image {
    /// The image in the pack with this header.
    pub(crate) fn open(file: Arc<dyn File>, header: &Header, name: &str) -> Result<Self> {
        let reading =
            |error: io::Error| Error::from_io(error, format!("reading the table of {name}"));
        let length = file.len().map_err(reading)?;
        let mut footer = [0; FOOTER_BYTES];
        let footer_offset = length
            .checked_sub(FOOTER_BYTES as u64)
            .filter(|offset| *offset >= DATA_START)
            .ok_or_else(|| {
                let message = format!("{name}: {length} bytes long, too short for a pack");
                Error::new(ErrorKind::Damaged, message)
            })?;
        file.read_at(footer_offset, &mut footer).map_err(reading)?;
        let footer = Footer::decode(&footer, header, length, name)?;
        // No longer than the file is.
        let mut table = vec![0; footer.blocks as usize * ROW_BYTES];
        file.read_at(footer.table_offset, &mut table)
            .map_err(reading)?;
        let rows = footer.table(&table, header.seed(), name)?;
        Ok(Self {
            file,
            name: name.to_owned(),
            seed: header.seed(),
            bytes: footer.image_bytes,
            blocks_end: footer.table_offset,
            decoded: rows.iter().map(|_| Arc::default()).collect(),
            rows,
        })
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

    /// Where a block has to end in the image.
    fn image_end(&self, place: usize) -> u64 {
        self.rows
            .get(place + 1)
            .map_or(self.bytes, |next| next.image_offset)
    }

    /// The bytes of a block, read from the file and checked.
    pub(crate) fn read_block(&self, place: usize) -> Result<Bytes> {
        let (start, end) = self.extent(place);
        let damaged = |what: &str| {
            let message = format!("{}: file offset {start}: {what}", self.name);
            Error::new(ErrorKind::Damaged, message)
        };
        let reading = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof => damaged("the file ends within this block"),
            _ => {
                let doing = format!("{}: reading a block at file offset {start}", self.name);
                Error::from_io(error, doing)
            }
        };
        let mut header = [0; BLOCK_HEADER_BYTES];
        self.file.read_at(start, &mut header).map_err(reading)?;
        let header = BlockHeader::decode(&header, self.seed, start, &self.name)?;
        let stored_bytes = header.stored_bytes as usize;
        let is_where_the_table_says = header.image_offset == self.rows[place].image_offset
            && header.image_offset + u64::from(header.raw_bytes) == self.image_end(place)
            && start + (BLOCK_HEADER_BYTES + aligned(stored_bytes)) as u64 == end;
        if !is_where_the_table_says {
            return Err(damaged(
                "the table of blocks says something else of this one",
            ));
        }
        let mut stored = vec![0; stored_bytes];
        self.file
            .read_at(start + BLOCK_HEADER_BYTES as u64, &mut stored)
            .map_err(reading)?;
        if checksum::crc(&stored) != header.stored_crc {
            return Err(damaged("the CRC of this block is wrong"));
        }
        let raw = codec::decode(header.encoding, &stored, header.raw_bytes as usize)
            .filter(|raw| checksum::crc(raw) == header.raw_crc)
            .ok_or_else(|| damaged("this block doesn't decode to what was encoded"))?;
        Ok(raw.into())
    }

    /// Whether what fills the room behind a block is zeros, as it was written. Nothing else is there.
    pub(crate) fn has_plain_padding(&self, place: usize) -> Result<bool> {
        let (start, end) = self.extent(place);
        let doing = || format!("{}: reading a block at file offset {start}", self.name);
        let mut header = [0; BLOCK_HEADER_BYTES];
        let reading = |error: io::Error| Error::from_io(error, doing());
        self.file.read_at(start, &mut header).map_err(reading)?;
        let stored = BlockHeader::decode(&header, self.seed, start, &self.name)?.stored_bytes;
        let from = start + BLOCK_HEADER_BYTES as u64 + u64::from(stored);
        let length = usize::try_from(end.saturating_sub(from)).unwrap_or(0);
        let mut padding = [0; ALIGNMENT];
        let padding = &mut padding[..length.min(ALIGNMENT)];
        self.file.read_at(from, padding).map_err(reading)?;
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

    /// The bytes of the image at an offset, without a copy when one block has them all.
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
        // The headers lie as they are.
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

/// Damage travels through the interface of files as `InvalidData`.
fn into_io(error: Error) -> io::Error {
    if error.kind() == ErrorKind::Damaged {
        return io::Error::new(io::ErrorKind::InvalidData, error);
    }
    let kind = std::error::Error::source(&error)
        .and_then(|source| source.downcast_ref::<io::Error>())
        .map_or(io::ErrorKind::Other, io::Error::kind);
    io::Error::new(kind, error)
}

/// Blocks are closed at the end of a record or of a stream, whichever comes first of these sizes. Half as large, conversations take
/// a fifth more room with Zstandard; twice as large, a twentieth less, and who reads one record decodes twice as much.
const BLOCK_BYTES: usize = 256 << 10;
/// From this size on a block ends where a stream does, so that who reads the next one needn't decode this one too.
const BLOCK_BYTES_OF_STREAM: usize = 192 << 10;

/// Writes the file of a pack from its image, in order and in bounded memory.
pub(crate) struct PackWriter {
    file: Arc<dyn File>,
    header: Header,
    seed: u32,
    encoding: Encoding,
    raw: Vec<u8>,
    /// Where `raw` begins in the image.
    raw_start: u64,
    rows: Vec<Row>,
    file_end: u64,
}

impl PackWriter {
    /// Begins with the headers in an empty file.
    pub(crate) fn new(file: Arc<dyn File>, header: Header, encoding: Encoding) -> io::Result<Self> {
        file.write_at(0, &header.encode_both())?;
        Ok(Self {
            file,
            seed: header.seed(),
            header,
            encoding,
            raw: Vec::with_capacity(BLOCK_BYTES),
            raw_start: DATA_START,
            rows: Vec::new(),
            file_end: DATA_START,
        })
    }

    /// Where the next bytes come to lie in the image.
    pub(crate) fn image_end(&self) -> u64 {
        self.raw_start + self.raw.len() as u64
    }

    /// Appends what is read together: a record, or a part of an index block. Its length is a multiple of the alignment.
    pub(crate) fn add(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        if !self.raw.is_empty() && self.raw.len() + bytes.len() > BLOCK_BYTES {
            self.end_block()?;
        }
        // What is longer than a block is cut.
        while bytes.len() > BLOCK_BYTES {
            let (piece, rest) = bytes.split_at(BLOCK_BYTES);
            self.raw.extend_from_slice(piece);
            self.end_block()?;
            bytes = rest;
        }
        self.raw.extend_from_slice(bytes);
        Ok(())
    }

    /// What follows is another stream's, or of another kind.
    pub(crate) fn end_part(&mut self) -> io::Result<()> {
        if self.raw.len() >= BLOCK_BYTES_OF_STREAM {
            self.end_block()?;
        }
        Ok(())
    }

    fn end_block(&mut self) -> io::Result<()> {
        if self.raw.is_empty() {
            return Ok(());
        }
        let (encoding, stored) = codec::encode(self.encoding, &self.raw);
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).expect("a block is bounded");
        let header = BlockHeader {
            encoding,
            stored_bytes: length(&stored),
            raw_bytes: length(&self.raw),
            image_offset: self.raw_start,
            raw_crc: checksum::crc(&self.raw),
            stored_crc: checksum::crc(&stored),
        };
        let mut bytes = header.encode(self.seed, self.file_end).to_vec();
        bytes.extend_from_slice(&stored);
        bytes.resize(aligned(bytes.len()), 0);
        self.file.write_at(self.file_end, &bytes)?;
        self.rows.push(Row {
            file_offset: self.file_end,
            image_offset: self.raw_start,
        });
        self.file_end += bytes.len() as u64;
        self.raw_start += self.raw.len() as u64;
        self.raw.clear();
        Ok(())
    }

    /// Ends the file, durably.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.end_block()?;
        let table = encode_table(&self.header, &self.rows, self.raw_start, self.file_end);
        self.file.write_at(self.file_end, &table)?;
        self.file.sync()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        format::segment::tests::header,
        storage::{Access, MemoryStorage, Storage},
    };

    /// A pack of pieces, and the image that they are.
    fn pack(encoding: Encoding) -> (MemoryStorage, Header, Vec<u8>) {
        let storage = MemoryStorage::new();
        let file = storage.create("x.pack").unwrap();
        let header = header();
        let mut writer = PackWriter::new(file, header, encoding).unwrap();
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
        writer.add(&large).unwrap();
        image.extend_from_slice(&large);
        writer.finish().unwrap();
        (storage, header, image)
    }

    fn open(storage: &MemoryStorage, header: &Header) -> Result<Image> {
        Image::open(storage.open("x.pack", Access::Read).unwrap(), header, "x")
    }

    #[test]
    fn image_reads_back_at_every_offset_and_length() {
        for encoding in [Encoding::Raw, Encoding::Lz4, Encoding::Zstd] {
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
}
