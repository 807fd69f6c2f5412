//! The file of a pack: blocks, each perhaps encoded, that make up an image of the form of a segment.

use super::{
    Problem,
    bytes::{Cursor, crc_from, padded},
    header::{Header, RECORDS_BEGIN},
};

const FOOTER_BYTES: usize = 64;
const ROW_BYTES: u64 = 8;
const BLOCK_HEADER_BYTES: usize = 32;
const BLOCK_BYTES_MAX: u32 = 1 << 20;
pub(super) const IMAGE_BYTES_MAX: u64 = 2 << 30;

/// The image in the file of a pack, each block of it checked.
pub(super) fn image(name: &str, file: &[u8], header: &Header) -> Result<Vec<u8>, Problem> {
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
    let mut image = file[..begin].to_vec();
    let mut rows = Cursor::new(name, table_at, table);
    let mut place = RECORDS_BEGIN;
    for _ in 0..count {
        let expected = (place / 8, image.len() as u64 / 8);
        let row_at = rows.offset();
        let found = (u64::from(rows.u32()?), u64::from(rows.u32()?));
        if expected != found {
            let message = format!("row of a block: expected {expected:?}, found {found:?}");
            return wrong(row_at, message);
        }
        let within = usize::try_from(place).expect("within the file");
        let end = usize::try_from(table_at).expect("within the file");
        place += read_block(name, place, &file[within..end], header.seed, &mut image)?;
    }
    if place != table_at || image.len() as u64 != image_bytes {
        let message = format!(
            "the blocks end at {place}, and have {} bytes of {image_bytes}",
            image.len()
        );
        return wrong(table_at, message);
    }
    Ok(image)
}

/// Adds the block at a place of the file to the image, and tells how many bytes it takes there.
fn read_block(
    name: &str,
    place: u64,
    rest: &[u8],
    seed: u32,
    image: &mut Vec<u8>,
) -> Result<u64, Problem> {
    let wrong = |at: u64, what: &str| Problem::new(name, at, format!("block: {what}"));
    let (header, rest) = rest
        .split_at_checked(BLOCK_HEADER_BYTES)
        .ok_or_else(|| wrong(place, "no room for its header"))?;
    let mut cursor = Cursor::new(name, place, header);
    if cursor.u32()? != crc_from(seed, &[&place.to_le_bytes(), &header[4..]]) {
        return Err(wrong(place, "the crc of its header is wrong"));
    }
    let encoding = cursor.u8()?;
    if encoding > 2 {
        let message = format!("encoding {encoding}");
        return Err(wrong(place + 4, &message).of_newer_build());
    }
    cursor.zeros(3)?;
    let (stored_bytes, raw_bytes) = (cursor.u32()?, cursor.u32()?);
    let image_at = cursor.u32()?;
    let (raw_crc, stored_crc) = (cursor.u32()?, cursor.u32()?);
    cursor.zeros(4)?;
    if !(8..=BLOCK_BYTES_MAX).contains(&raw_bytes)
        || !raw_bytes.is_multiple_of(8)
        || stored_bytes > raw_bytes
        || encoding == 0 && stored_bytes != raw_bytes
    {
        let message = format!("{stored_bytes} bytes stored of {raw_bytes}");
        return Err(wrong(place + 8, &message));
    }
    if u64::from(image_at) * 8 != image.len() as u64 {
        return Err(wrong(place + 16, "it is not where the one before ends"));
    }
    let length = padded(u64::from(stored_bytes));
    let stored = rest.get(..usize::try_from(length).expect("at most 1 MiB"));
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
    let raw = decode(encoding, stored, raw_bytes as usize)
        .ok_or_else(|| wrong(at, "it does not decode to as many bytes as it says"))?;
    if crc32fast::hash(&raw) != raw_crc {
        return Err(wrong(at, "the crc of what it decodes to is wrong"));
    }
    image.extend_from_slice(&raw);
    Ok(BLOCK_HEADER_BYTES as u64 + length)
}

fn decode(encoding: u8, stored: &[u8], raw_bytes: usize) -> Option<Vec<u8>> {
    let mut raw = vec![0; raw_bytes];
    let length = match encoding {
        0 => return Some(stored.to_vec()),
        1 => lz4_flex::block::decompress_into(stored, &mut raw).ok()?,
        _ => ruzstd::decoding::FrameDecoder::new()
            .decode_all(stored, &mut raw)
            .ok()?,
    };
    (length == raw_bytes).then_some(raw)
}
