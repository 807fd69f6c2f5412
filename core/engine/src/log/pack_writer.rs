//! [`PackWriter`]: writes the file of a pack from its image, in order and in bounded memory.

use std::{io, sync::Arc};

use super::codec::Encoder;
use crate::{
    checksum,
    format::{
        aligned,
        pack::{BlockHeader, Content, Encoding, Row, encode_table},
        segment::{DATA_START, Header},
    },
    storage::File,
};

/// Blocks are closed at the end of a record or of a stream, whichever comes first of these sizes. Without a dictionary,
/// conversations take a fifth more space with Zstandard at half this size; at twice this size they take a twentieth
/// less, but reading one record decodes twice as much.
const BLOCK_BYTES: usize = 256 << 10;
/// With a dictionary, blocks of this size take 2 % more space than blocks four times as large, but reading one record
/// decodes a quarter as much.
const BLOCK_BYTES_WITH_DICTIONARY: usize = 64 << 10;

/// The index is cut in blocks of this size: reading a stream decodes only those with its rows.
const BLOCK_BYTES_OF_INDEX: usize = 64 << 10;

/// Writes the file of a pack from its image, in order and in bounded memory.
pub(crate) struct PackWriter {
    file: Arc<dyn File>,
    header: Header,
    seed: u32,
    encoder: Encoder,
    /// Written before the first block, and a second time after the last one.
    dictionary: Option<Vec<u8>>,
    /// Whether the following blocks are encoded with it.
    uses_dictionary: bool,
    /// How many bytes a block has at most.
    block_bytes: usize,
    raw: Vec<u8>,
    /// Where `raw` begins in the image.
    raw_start: u64,
    rows: Vec<Row>,
    file_end: u64,
}

impl PackWriter {
    /// Begins in an empty file with the headers, and the dictionary if the header says that there is one.
    pub(crate) fn new(
        file: Arc<dyn File>,
        header: Header,
        encoding: Encoding,
        dictionary: Option<&[u8]>,
    ) -> io::Result<Self> {
        assert_eq!(header.has_dictionary(), dictionary.is_some());
        file.write_at(0, &header.encode_both())?;
        let mut writer = Self {
            file,
            seed: header.seed(),
            header,
            encoder: Encoder::new(encoding, dictionary)?,
            dictionary: dictionary.map(<[u8]>::to_vec),
            uses_dictionary: dictionary.is_some(),
            block_bytes: match dictionary {
                Some(_) => BLOCK_BYTES_WITH_DICTIONARY,
                None => BLOCK_BYTES,
            },
            raw: Vec::with_capacity(BLOCK_BYTES),
            raw_start: DATA_START,
            rows: Vec::new(),
            file_end: DATA_START,
        };
        writer.put_dictionary()?;
        Ok(writer)
    }

    /// The offset in the image of the next bytes.
    pub(crate) fn image_end(&self) -> u64 {
        self.raw_start + self.raw.len() as u64
    }

    /// Appends a unit that is read at once: a record, or an index block. Its length is a multiple of the
    /// alignment.
    pub(crate) fn add(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        if !self.raw.is_empty() && self.raw.len() + bytes.len() > self.block_bytes {
            self.end_block()?;
        }
        // A unit longer than a block is split.
        while bytes.len() > self.block_bytes {
            let (piece, rest) = bytes.split_at(self.block_bytes);
            self.raw.extend_from_slice(piece);
            self.end_block()?;
            bytes = rest;
        }
        self.raw.extend_from_slice(bytes);
        Ok(())
    }

    /// Ends a stream, or the records: a good place to end a block.
    pub(crate) fn end_part(&mut self) -> io::Result<()> {
        // From this size on a block ends with the stream, so that reading the next stream needn't decode this block.
        if self.raw.len() >= self.block_bytes / 4 * 3 {
            self.end_block()?;
        }
        Ok(())
    }

    /// Appends the sections of the index block, its table, and the trailer, and writes the end of the file and flushes it.
    ///
    /// They have blocks of their own, without the dictionary: every opening reads the trailer, the first read of a stream the
    /// table, and damage to records must not cost the index, nor damage to the index the trailer.
    pub(crate) fn finish(
        mut self,
        sections: &[u8],
        table: &[u8],
        trailer: &[u8],
    ) -> io::Result<()> {
        self.end_block()?;
        self.uses_dictionary = false;
        self.block_bytes = BLOCK_BYTES_OF_INDEX;
        self.add(sections)?;
        self.end_block()?;
        self.add(table)?;
        self.end_block()?;
        self.add(trailer)?;
        self.end_block()?;
        self.put_dictionary()?;
        let table = encode_table(&self.header, &self.rows, self.raw_start, self.file_end);
        self.file.write_at(self.file_end, &table)?;
        self.file.sync()
    }

    fn end_block(&mut self) -> io::Result<()> {
        if self.raw.is_empty() {
            return Ok(());
        }
        let encoded = self.encoder.encode(&self.raw, self.uses_dictionary);
        self.rows.push(Row {
            file_offset: self.file_end,
            image_offset: self.raw_start,
        });
        let raw = std::mem::take(&mut self.raw);
        self.put_block(Content::Image, encoded, &raw)?;
        self.raw_start += raw.len() as u64;
        self.raw = raw;
        self.raw.clear();
        Ok(())
    }

    /// Writes a copy of the dictionary, if there is one.
    fn put_dictionary(&mut self) -> io::Result<()> {
        if let Some(dictionary) = self.dictionary.take() {
            let encoded = self.encoder.encode(&dictionary, false);
            self.put_block(Content::Dictionary, encoded, &dictionary)?;
            self.dictionary = Some(dictionary);
        }
        Ok(())
    }

    fn put_block(
        &mut self,
        content: Content,
        (encoding, stored): (Encoding, Vec<u8>),
        raw: &[u8],
    ) -> io::Result<()> {
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).expect("a block is bounded");
        let header = BlockHeader {
            encoding,
            content,
            stored_bytes: length(&stored),
            raw_bytes: length(raw),
            image_offset: match content {
                Content::Image => self.raw_start,
                Content::Dictionary => 0,
            },
            raw_crc: checksum::crc(raw),
            stored_crc: checksum::crc(&stored),
        };
        let mut bytes = header.encode(self.seed, self.file_end).to_vec();
        bytes.extend_from_slice(&stored);
        bytes.resize(aligned(bytes.len()), 0);
        self.file.write_at(self.file_end, &bytes)?;
        self.file_end += bytes.len() as u64;
        Ok(())
    }
}
