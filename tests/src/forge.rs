//! Makes the checksums of changed bytes right again, as the page of the format says where they are.

/// The header of a record.
pub const RECORD_HEADER_BYTES: usize = 32;
/// The trailer of a segment.
pub const TRAILER_BYTES: usize = 128;
/// Where the records of a segment begin.
pub const RECORDS_BEGIN: usize = 4096;
/// One copy of a segment's header.
pub const HEADER_BYTES: usize = 512;
/// Where the copies of a segment's header begin.
pub const HEADER_COPIES: [usize; 2] = [0, 2048];

/// Writes what fits.
pub fn put(bytes: &mut [u8], at: usize, new: &[u8]) {
    let end = bytes.len().min(at + new.len());
    if at < end {
        bytes[at..end].copy_from_slice(&new[..end - at]);
    }
}

fn crc_from(before: u32, parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(before);
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize()
}

/// A structure of which the last 4 bytes are the CRC of the rest.
pub fn structure(bytes: &mut [u8]) {
    let Some((covered, crc)) = bytes.split_last_chunk_mut::<4>() else {
        return;
    };
    *crc = crc32fast::hash(covered).to_le_bytes();
}

/// Whether the CRC of such a structure is right.
pub fn is_right(bytes: &[u8]) -> bool {
    bytes
        .split_last_chunk::<4>()
        .is_some_and(|(covered, crc)| crc32fast::hash(covered).to_le_bytes() == *crc)
}

/// What the CRCs of a segment's records and index continue, by the first copy of its header.
pub fn seed(file: &[u8]) -> u32 {
    let part = |from: usize, to: usize| file.get(from..to).unwrap_or_default();
    crc_from(0, &[part(16, 32), part(72, 88), part(56, 60)])
}

/// A record's check and CRC, for the place where it is.
pub fn record(file: &mut [u8], start: usize, seed: u32) {
    let Some(header) = file.get(start..start + RECORD_HEADER_BYTES) else {
        return;
    };
    let body = u32::from_le_bytes(header[4..8].try_into().expect("4 bytes")) as usize;
    let h = crc_from(seed, &[&(start as u64).to_le_bytes(), &header[2..28]]);
    let begin = start + RECORD_HEADER_BYTES;
    let crc = crc32fast::hash(
        file.get(begin..begin + body.next_multiple_of(8))
            .unwrap_or_default(),
    ) ^ h;
    put(file, start, &h.to_le_bytes()[..2]);
    put(file, start + 28, &crc.to_le_bytes());
}

/// Both copies of a segment's header, after the first was changed.
pub fn header(file: &mut [u8]) {
    let Some(first) = file.get_mut(..HEADER_BYTES) else {
        return;
    };
    structure(first);
    let copy = first.to_vec();
    put(file, HEADER_COPIES[1], &copy);
}

/// The trailer of a segment.
pub fn trailer(file: &mut [u8]) {
    let start = file.len().saturating_sub(TRAILER_BYTES);
    structure(&mut file[start..]);
}

/// A row of the table of sections.
const SECTION_BYTES: usize = 32;

/// The CRCs of the sections, of their table, and of the trailer of a segment whose records end at `data_end`. The CRC that the
/// next segment's header has.
pub fn index(file: &mut [u8], data_end: usize, seed: u32) -> Option<u32> {
    let end = file.len().checked_sub(TRAILER_BYTES)?;
    let word = |file: &[u8], at: usize| {
        let bytes = file.get(at..)?.first_chunk()?;
        Some(u32::from_le_bytes(*bytes))
    };
    let sections = word(file, end + 80)? as usize;
    let header = end.checked_sub(HEADER_BYTES)?;
    let table = header.checked_sub(sections.checked_mul(SECTION_BYTES)?)?;
    let mut must_be_understood = Vec::new();
    for row in (table..header).step_by(SECTION_BYTES) {
        let (offset, bytes) = (
            word(file, row + 16)? as usize,
            word(file, row + 24)? as usize,
        );
        let section = offset
            .checked_add(bytes.next_multiple_of(8))
            .and_then(|section_end| file.get(offset..section_end));
        if let Some(section) = section {
            let crc = crc_from(seed, &[&(offset as u64).to_le_bytes(), section]);
            put(file, row + 12, &crc.to_le_bytes());
        }
        if file[row + 2] & 1 != 0 {
            must_be_understood.extend_from_slice(&file[row..row + SECTION_BYTES]);
        }
    }
    let start = (data_end as u64).to_le_bytes();
    let index_crc = crc_from(seed, &[&start, &must_be_understood, &file[header..end]]);
    let table_crc = crc_from(seed, &[&start, &file[table..end]]);
    put(file, end + 72, &index_crc.to_le_bytes());
    put(file, end + 76, &table_crc.to_le_bytes());
    trailer(file);
    Some(index_crc)
}

/// The CRC of a checkpoint.
pub fn checkpoint(file: &mut [u8]) {
    let Some((before, rest)) = file.get(..24).zip(file.get(32..)) else {
        return;
    };
    let crc = crc_from(0, &[before, rest]);
    put(file, 24, &crc.to_le_bytes());
}

/// Where a checkpoint has the byte that says whether the stream with an id was deleted: behind all ids of its piece.
pub fn checkpoint_flags(file: &[u8], id: &[u8; 16]) -> Option<usize> {
    let pieces = 32 + 64;
    let mut start = pieces + 8;
    let word = |at: usize| Some(u32::from_le_bytes(*file.get(at..)?.first_chunk()?) as usize);
    for _ in 0..word(pieces)? {
        let (length, streams) = (word(start)?, word(start + 8)?);
        let ids = start + 24;
        let mut all = file.get(ids..)?.get(..streams * 16)?.as_chunks().0.iter();
        if let Some(place) = all.position(|other| other == id) {
            return Some(ids + streams * 16 + place);
        }
        start += 8 + length;
    }
    None
}

/// The header of a block of a pack that begins there.
pub fn block(file: &mut [u8], start: usize, seed: u32) {
    let Some(header) = file.get(start + 4..start + 32) else {
        return;
    };
    let crc = crc_from(seed, &[&(start as u64).to_le_bytes(), header]);
    put(file, start, &crc.to_le_bytes());
}

/// The header of a block of a pack.
pub const BLOCK_HEADER_BYTES: usize = 32;
/// What a pack ends in.
pub const FOOTER_BYTES: usize = 64;
const ROW_BYTES: usize = 8;

/// How many bytes the record takes that begins there.
pub fn record_bytes(file: &[u8], start: usize) -> Option<usize> {
    let body = u32::from_le_bytes(*file.get(start + 4..)?.first_chunk()?) as usize;
    Some(RECORD_HEADER_BYTES + body.next_multiple_of(8))
}

/// The image of a pack that is neither compressed nor has a dictionary, and where its blocks begin in it.
///
/// # Panics
/// If it isn't such a pack.
pub fn unpacked(pack: &[u8]) -> (Vec<u8>, Vec<usize>) {
    let word =
        |at: usize| u32::from_le_bytes(pack[at..at + 4].try_into().expect("4 bytes")) as usize;
    let footer = pack.len() - FOOTER_BYTES;
    let (table, blocks) = (word(footer + 24), word(footer + 32));
    let (mut image, mut cuts) = (pack[..RECORDS_BEGIN].to_vec(), Vec::new());
    for row in 0..blocks {
        let start = word(table + row * ROW_BYTES) * 8;
        assert_eq!(pack[start + 4..start + 6], [0, 0], "a block as it is");
        cuts.push(image.len());
        let content = start + BLOCK_HEADER_BYTES;
        image.extend_from_slice(&pack[content..content + word(start + 12)]);
    }
    (image, cuts)
}

/// The pack of an image, in blocks that begin there and aren't compressed.
///
/// # Panics
/// If it is longer than 4 GiB.
pub fn packed(image: &[u8], cuts: &[usize]) -> Vec<u8> {
    let number = |length: usize| u32::try_from(length).expect("small").to_le_bytes();
    let seed = seed(image);
    let (mut pack, mut rows) = (image[..RECORDS_BEGIN].to_vec(), Vec::new());
    let ends = cuts.iter().skip(1).copied().chain([image.len()]);
    for (cut, end) in cuts.iter().zip(ends) {
        let (start, content) = (pack.len(), &image[*cut..end]);
        rows.extend(number(start / 8));
        rows.extend(number(cut / 8));
        let crc = crc32fast::hash(content).to_le_bytes();
        let length = number(content.len());
        let header = [
            [0; 4],
            [0; 4],
            length,
            length,
            number(cut / 8),
            crc,
            crc,
            [0; 4],
        ];
        pack.extend(header.concat());
        pack.extend_from_slice(content);
        block(&mut pack, start, seed);
    }
    let table_at = pack.len();
    pack.extend_from_slice(&rows);
    pack.extend_from_slice(b"RUNLOGPK");
    pack.extend(number(1));
    pack.extend_from_slice(&image[56..60]);
    pack.extend_from_slice(&(image.len() as u64).to_le_bytes());
    pack.extend_from_slice(&(table_at as u64).to_le_bytes());
    pack.extend(number(cuts.len()));
    pack.extend_from_slice(&[0; 28]);
    table(&mut pack, table_at, seed);
    pack
}

/// The CRC of a pack's table of blocks, which begins there, and that of what the pack ends in.
pub fn table(pack: &mut [u8], start: usize, seed: u32) {
    let footer = pack.len() - FOOTER_BYTES;
    let crc = crc_from(seed, &[&(start as u64).to_le_bytes(), &pack[start..footer]]);
    put(pack, footer + 36, &crc.to_le_bytes());
    structure(&mut pack[footer..]);
}
