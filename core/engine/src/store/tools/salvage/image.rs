//! [`SalvagedImage`]: what is left of the image in a pack: the blocks that are whole, wherever they lie in its file.

use std::{io, sync::Arc};

use bytes::Bytes;

use super::{found::Salvage, places::Place, raw_file::RawFile};
use crate::{
    Result, checksum,
    format::{
        ALIGNMENT, aligned,
        pack::{
            BLOCK_HEADER_BYTES, BlockHeader, Content, Encoding, FILE_BYTES_MAX, FOOTER_BYTES,
            Footer, IMAGE_BYTES_MAX, STORED_BYTES,
        },
        segment::{DATA_START, Header},
    },
    log::{codec, dictionary::Dictionary},
    storage::File,
    store::tools::examine::survey::Source,
    sync::{self, Mutex},
};

/// Where blocks are looked for, so many bytes are read at once.
const WINDOW_BYTES: u64 = 256 << 10;

/// The image of a pack: what no whole block gives is zeros.
pub(super) struct SalvagedImage {
    file: Arc<dyn File>,
    /// Where whole blocks lie in the file, by rising offset in the image, apart from each other.
    blocks: Vec<(u64, BlockHeader)>,
    dictionary: Option<Dictionary>,
    end: u64,
    is_whole: bool,
    /// The place of the block that was decoded last, and its bytes.
    last: Mutex<Option<(usize, Bytes)>>,
}

impl SalvagedImage {
    /// The image in a file, if that is a pack by its header or by its name.
    pub(super) fn of(
        file: &Arc<dyn File>,
        place: &Place,
        summary: &mut Salvage,
    ) -> Result<Option<Self>> {
        let source = RawFile {
            file: file.clone(),
            name: place.name.clone(),
            failed: std::cell::Cell::default(),
        };
        let Ok(length) = file.len() else {
            return Ok(None);
        };
        if place.offset > 0 {
            return Ok(None);
        }
        let start = source.read(0, length.min(DATA_START))?;
        let header = Header::decode(&start, &place.name).ok();
        let is_pack = match header {
            Some(header) => header.compacted.is_some(),
            None => place.named.is_some_and(|named| named.generation > 0),
        };
        if !is_pack {
            return Ok(None);
        }
        let Blocks {
            mut blocks,
            dictionary,
        } = find(&source, header.map(|header| header.seed()), length)?;
        let (found, has_dictionary) = (blocks.len(), dictionary.is_some());
        blocks.retain(|(_, block)| block.encoding != Encoding::ZstdDictionary || has_dictionary);
        if blocks.len() < found {
            summary.note(format!(
                "{}: {} whole blocks can't be decoded, since no copy of the dictionary is whole",
                place.name,
                found - blocks.len()
            ));
        }
        runlog_log::order::sort_by_key(&mut blocks, |(_, block)| block.image_offset);
        let mut end = DATA_START;
        let mut lost = Vec::new();
        blocks.retain(|(_, block)| {
            let (from, to) = (block.image_offset, end_of(block));
            let is_apart = from >= end && to <= IMAGE_BYTES_MAX;
            if is_apart {
                if from > end {
                    lost.push((end, from));
                }
                end = to;
            }
            is_apart
        });
        for (from, to) in &lost {
            summary.note(format!(
                "{}: no whole block has offsets {from} to {to} of its image",
                place.name
            ));
        }
        let footer = header.and_then(|header| {
            let at = length.checked_sub(FOOTER_BYTES as u64)?;
            let bytes = source.read(at, FOOTER_BYTES as u64).ok()?;
            Footer::decode(bytes.first_chunk()?, &header, length, &place.name).ok()
        });
        let has_end = footer.is_some_and(|footer| footer.image_bytes == end);
        if !has_end {
            summary.note(format!(
                "{}: its last whole block ends at offset {end} of its image, and nothing says that it ends there",
                place.name
            ));
        }
        Ok(Some(Self {
            file: file.clone(),
            blocks,
            dictionary,
            end,
            is_whole: has_end && lost.is_empty(),
            last: Mutex::new(None),
        }))
    }

    /// Whether any block is whole.
    pub(super) fn has_blocks(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// Whether no block is lost.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    fn block(&self, place: usize) -> io::Result<Bytes> {
        let mut last = sync::lock(&self.last);
        if let Some((_, bytes)) = last.as_ref().filter(|(known, _)| *known == place) {
            return Ok(bytes.clone());
        }
        let (offset, block) = &self.blocks[place];
        let mut stored = vec![0; block.stored_bytes as usize];
        self.file
            .read_at(offset + BLOCK_HEADER_BYTES as u64, &mut stored)?;
        let dictionary = self.dictionary.as_ref();
        let raw = decode(block, &stored, dictionary).ok_or(io::ErrorKind::InvalidData)?;
        *last = Some((place, raw.clone()));
        Ok(raw)
    }
}

impl File for SalvagedImage {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let end = offset
            .checked_add(bytes.len() as u64)
            .filter(|end| *end <= self.end)
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        bytes.fill(0);
        // The headers lie as they are.
        if offset < DATA_START {
            let here = length_of(end.min(DATA_START) - offset);
            self.file.read_at(offset, &mut bytes[..here])?;
        }
        let first = self
            .blocks
            .partition_point(|(_, block)| end_of(block) <= offset);
        for (place, (_, block)) in self.blocks.iter().enumerate().skip(first) {
            if block.image_offset >= end {
                break;
            }
            let (from, to) = (block.image_offset.max(offset), end_of(block).min(end));
            let raw = self.block(place)?;
            let start = length_of(from - block.image_offset);
            let part = &raw[start..start + length_of(to - from)];
            bytes[length_of(from - offset)..][..part.len()].copy_from_slice(part);
        }
        Ok(())
    }

    fn write_at(&self, _offset: u64, _bytes: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn sync(&self) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn set_len(&self, _bytes: u64) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.end)
    }
}

/// A length of something that is in memory.
fn length_of(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn end_of(block: &BlockHeader) -> u64 {
    block.image_offset + u64::from(block.raw_bytes)
}

/// The bytes of a block, if they are those that were encoded.
fn decode(block: &BlockHeader, stored: &[u8], dictionary: Option<&Dictionary>) -> Option<Bytes> {
    let raw_bytes = block.raw_bytes as usize;
    let raw = (checksum::crc(stored) == block.stored_crc)
        .then(|| codec::decode(block.encoding, stored, raw_bytes, dictionary))??;
    (checksum::crc(&raw) == block.raw_crc).then(|| raw.into())
}

/// Whether the bytes of a block are those that were stored. What was encoded with a dictionary is decoded later: that may be found behind it.
fn is_whole(block: &BlockHeader, stored: &[u8]) -> bool {
    match block.encoding {
        Encoding::ZstdDictionary => checksum::crc(stored) == block.stored_crc,
        _ => decode(block, stored, None).is_some(),
    }
}

/// What of a pack is whole.
struct Blocks {
    /// Of the image, with where they lie in the file.
    blocks: Vec<(u64, BlockHeader)>,
    dictionary: Option<Dictionary>,
}

/// Every whole block of the image in a file, and the dictionary. Where the seed isn't known, the CRCs of its bytes tell a block.
fn find(file: &RawFile, seed: Option<u32>, length: u64) -> Result<Blocks> {
    let (mut blocks, mut dictionary) = (Vec::new(), None);
    let (mut window, mut window_start) = (Bytes::new(), 0);
    let mut offset = DATA_START;
    let length = length.min(FILE_BYTES_MAX);
    while length.saturating_sub(offset) >= BLOCK_HEADER_BYTES as u64 {
        if offset < window_start
            || offset + BLOCK_HEADER_BYTES as u64 > window_start + window.len() as u64
        {
            window = file.read(offset, WINDOW_BYTES.min(length - offset))?;
            window_start = offset;
        }
        let at = length_of(offset - window_start);
        let first = window[at..].first_chunk::<BLOCK_HEADER_BYTES>();
        // A block stores something: a hole of the file is passed over without a checksum of every 8 bytes of it.
        let stores_something =
            |bytes: &&[u8; BLOCK_HEADER_BYTES]| bytes[STORED_BYTES].iter().any(|byte| *byte != 0);
        let header = first.filter(stores_something).and_then(|bytes| match seed {
            Some(seed) => BlockHeader::decode(bytes, seed, offset, &file.name).ok(),
            None => BlockHeader::decode_unchecked(bytes, offset, &file.name).ok(),
        });
        let start = offset + BLOCK_HEADER_BYTES as u64;
        let block = header.and_then(|block| {
            let stored_bytes = u64::from(block.stored_bytes);
            let stored = (stored_bytes <= length - start)
                .then(|| file.read(start, stored_bytes).ok())
                .flatten()?;
            is_whole(&block, &stored).then_some((block, stored))
        });
        let Some((block, stored)) = block else {
            offset += ALIGNMENT as u64;
            continue;
        };
        match block.content {
            Content::Image => blocks.push((offset, block)),
            Content::Dictionary if dictionary.is_none() => {
                let raw = decode(&block, &stored, None);
                dictionary = raw.and_then(|raw| Dictionary::decode(&raw));
            }
            Content::Dictionary => {}
        }
        offset = start + aligned(block.stored_bytes as usize) as u64;
    }
    Ok(Blocks { blocks, dictionary })
}
