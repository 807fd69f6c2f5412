//! The file of a pack: blocks, each perhaps encoded, that make up an image of the form of a segment.

use ruzstd::decoding::{Dictionary, FrameDecoder};

use super::{
    Problem,
    bytes::{Cursor, crc_from, padded},
    header::{Header, RECORDS_BEGIN},
};

const FOOTER_BYTES: usize = 64;
const ROW_BYTES: u64 = 8;
const BLOCK_HEADER_BYTES: usize = 32;
const BLOCK_BYTES_MAX: u32 = 1 << 20;
const DICTIONARY_BYTES_MAX: u32 = 1 << 20;
/// A block has at most so many bytes for each that is stored of it.
const RATIO_MAX: u64 = 256;
/// What a dictionary begins with.
const DICTIONARY_MAGIC: [u8; 4] = [0x37, 0xa4, 0x30, 0xec];
pub(super) const IMAGE_BYTES_MAX: u64 = 2 << 30;
const FILE_BYTES_MAX: u64 = 3 << 30;

/// The image in the file of a pack, each block of it checked.
pub(super) fn image(name: &str, file: &[u8], header: &Header) -> Result<Vec<u8>, Problem> {
    if file.len() as u64 > FILE_BYTES_MAX {
        let message = format!("a pack of {} bytes", file.len());
        return Err(Problem::new(name, 0, message));
    }
    let footer_at = file
        .len()
        .checked_sub(FOOTER_BYTES)
        .filter(|at| *at as u64 >= RECORDS_BEGIN)
        .ok_or_else(|| Problem::new(name, 0, "no room for the end of a pack"))?;
    let at = footer_at as u64;
    let mut footer = Cursor::of_checked(name, at, &file[footer_at..], b"RUNLOGPK")?;
    footer.known(&1_u32.to_le_bytes(), "format version")?;
    footer.expect(&header.salt.to_le_bytes(), "salt of the pack")?;
    let image_bytes = footer.u64()?;
    let table_at = footer.u64()?;
    let count = footer.u32()?;
    let table_crc = footer.u32()?;
    footer.zeros(20)?;
    footer.end()?;
    let wrong = |at: u64, what: String| Err(Problem::new(name, at, what));
    if image_bytes > IMAGE_BYTES_MAX {
        return wrong(at + 16, format!("an image of {image_bytes} bytes"));
    }
    let table_end = table_at.checked_add(u64::from(count) * ROW_BYTES);
    if table_at < RECORDS_BEGIN || table_end != Some(at) {
        return wrong(
            at + 24,
            format!("a table of {count} blocks at {table_at} does not end there"),
        );
    }
    let table = &file[usize::try_from(table_at).expect("within the file")..footer_at];
    let crc = crc_from(header.seed, &[&table_at.to_le_bytes(), table]);
    if crc != table_crc {
        let message = format!("crc of the table: expected {crc:08x}, found {table_crc:08x}");
        return wrong(at + 36, message);
    }
    let begin = usize::try_from(RECORDS_BEGIN).expect("small");
    let table_begin = usize::try_from(table_at).expect("within the file");
    let mut image = file[..begin].to_vec();
    let mut rows = Cursor::new(name, table_at, table);
    let mut place = RECORDS_BEGIN;
    let mut decoder = FrameDecoder::new();
    let mut dictionary = Vec::new();
    if header.has_dictionary {
        (dictionary, place) = read_dictionary(name, place, &file[begin..table_begin], header.seed)?;
        let parsed = Dictionary::decode_dict(&dictionary);
        let added = parsed.map(|parsed| decoder.add_dict(parsed).is_ok());
        if !dictionary.starts_with(&DICTIONARY_MAGIC) || !added.unwrap_or(false) {
            return wrong(
                RECORDS_BEGIN,
                "what stands there is no dictionary".to_owned(),
            );
        }
    }
    for _ in 0..count {
        let expected = (place / 8, image.len() as u64 / 8);
        let row_at = rows.offset();
        let found = (u64::from(rows.u32()?), u64::from(rows.u32()?));
        if expected != found {
            let message = format!("row of a block: expected {expected:?}, found {found:?}");
            return wrong(row_at, message);
        }
        let within = usize::try_from(place).expect("within the file");
        let block = read_block(name, place, &file[within..table_begin], header.seed)?;
        let at = place + BLOCK_HEADER_BYTES as u64;
        if block.content != 0 || u64::from(block.image_at) * 8 != image.len() as u64 {
            return wrong(
                place,
                "block: it is not where the one before ends".to_owned(),
            );
        }
        if !(8..=BLOCK_BYTES_MAX).contains(&block.raw_bytes) || !block.raw_bytes.is_multiple_of(8) {
            let message = format!("block: it has {} bytes", block.raw_bytes);
            return wrong(place + 12, message);
        }
        if block.encoding == 3 && !header.has_dictionary {
            return wrong(place + 4, "block: there is no dictionary for it".to_owned());
        }
        let raw = block.decode(&mut decoder);
        image.extend_from_slice(&raw.map_err(|what| Problem::new(name, at, what))?);
        place += block.bytes;
    }
    if header.has_dictionary {
        let within = usize::try_from(place).expect("within the file");
        let (copy, end) = read_dictionary(name, place, &file[within..table_begin], header.seed)?;
        if copy != dictionary {
            return wrong(place, "another dictionary than the one in front".to_owned());
        }
        place = end;
    }
    if count == 0 || place != table_at || image.len() as u64 != image_bytes {
        let message = format!(
            "the blocks end at {place}, and have {} bytes of {image_bytes}",
            image.len()
        );
        return wrong(table_at, message);
    }
    Ok(image)
}

/// The dictionary at a place of the file, and where it ends.
fn read_dictionary(
    name: &str,
    place: u64,
    rest: &[u8],
    seed: u32,
) -> Result<(Vec<u8>, u64), Problem> {
    let block = read_block(name, place, rest, seed)?;
    let wrong = |what: &str| Problem::new(name, place, format!("dictionary: {what}"));
    if block.content != 1 || block.image_at != 0 {
        return Err(wrong("expected it here"));
    }
    if block.encoding == 3 || !(8..=DICTIONARY_BYTES_MAX).contains(&block.raw_bytes) {
        let message = format!("{} bytes, encoding {}", block.raw_bytes, block.encoding);
        return Err(wrong(&message));
    }
    let dictionary = block.decode(&mut FrameDecoder::new());
    let dictionary = dictionary.map_err(|what| wrong(&what))?;
    Ok((dictionary, place + block.bytes))
}

/// A block as it lies in the file.
struct Block<'a> {
    encoding: u8,
    content: u8,
    raw_bytes: u32,
    image_at: u32,
    raw_crc: u32,
    stored: &'a [u8],
    /// How many bytes of the file it takes.
    bytes: u64,
}

/// The block at a place of the file, its stored bytes checked.
fn read_block<'a>(name: &str, place: u64, rest: &'a [u8], seed: u32) -> Result<Block<'a>, Problem> {
    let wrong = |at: u64, what: &str| Problem::new(name, at, format!("block: {what}"));
    let (header, rest) = rest
        .split_at_checked(BLOCK_HEADER_BYTES)
        .ok_or_else(|| wrong(place, "no room for its header"))?;
    let mut cursor = Cursor::new(name, place, header);
    if cursor.u32()? != crc_from(seed, &[&place.to_le_bytes(), &header[4..]]) {
        return Err(wrong(place, "the crc of its header is wrong"));
    }
    let (encoding, content) = (cursor.u8()?, cursor.u8()?);
    if encoding > 3 || content > 1 {
        let message = format!("encoding {encoding}, content {content}");
        return Err(wrong(place + 4, &message).of_newer_build());
    }
    cursor.zeros(2)?;
    let (stored_bytes, raw_bytes) = (cursor.u32()?, cursor.u32()?);
    let image_at = cursor.u32()?;
    let (raw_crc, stored_crc) = (cursor.u32()?, cursor.u32()?);
    cursor.zeros(4)?;
    if stored_bytes > raw_bytes
        || u64::from(raw_bytes) > u64::from(stored_bytes) * RATIO_MAX
        || encoding == 0 && stored_bytes != raw_bytes
    {
        let message = format!("{stored_bytes} bytes stored of {raw_bytes}");
        return Err(wrong(place + 8, &message));
    }
    let length = padded(u64::from(stored_bytes));
    let stored = rest.get(..usize::try_from(length).expect("at most 4 GiB"));
    let stored = stored.ok_or_else(|| wrong(place + 8, "it reaches into the table"))?;
    let (stored, padding) = stored.split_at(stored_bytes as usize);
    let at = place + BLOCK_HEADER_BYTES as u64;
    if crc32fast::hash(stored) != stored_crc {
        return Err(wrong(at, "the crc of what is stored is wrong"));
    }
    if padding.iter().any(|byte| *byte != 0) {
        return Err(wrong(
            at + u64::from(stored_bytes),
            "its padding is not zero",
        ));
    }
    Ok(Block {
        encoding,
        content,
        raw_bytes,
        image_at,
        raw_crc,
        stored,
        bytes: BLOCK_HEADER_BYTES as u64 + length,
    })
}

impl Block<'_> {
    /// What was encoded in it; a decoder with the dictionary takes blocks without it alike.
    fn decode(&self, decoder: &mut FrameDecoder) -> Result<Vec<u8>, String> {
        let mut raw = vec![0; self.raw_bytes as usize];
        let length = match self.encoding {
            0 => {
                raw.copy_from_slice(self.stored);
                Some(raw.len())
            }
            1 => lz4_flex::block::decompress_into(self.stored, &mut raw).ok(),
            _ => decoder.decode_all(self.stored, &mut raw).ok(),
        };
        if length != Some(raw.len()) {
            return Err("block: it does not decode to as many bytes as it says".to_owned());
        }
        if crc32fast::hash(&raw) != self.raw_crc {
            return Err("block: the crc of what it decodes to is wrong".to_owned());
        }
        Ok(raw)
    }
}
