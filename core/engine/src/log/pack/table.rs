//! The table of a pack's blocks: whether the file can have it, and making it again.

use std::io;

use crate::{
    format::{
        aligned,
        pack::{
            BLOCK_HEADER_BYTES, BlockHeader, Content, FOOTER_BYTES, Footer, ROW_BYTES, Row,
            encode_table,
        },
        segment::{DATA_START, Header},
    },
    storage::File,
};

/// How many bytes of a table are looked at before room is made for more.
const TABLE_PIECE_BYTES: usize = 1 << 20;

/// Whether the rows of the table rise, piece by piece: a table can be as long as a file claims to be, and a hole takes none of
/// the device's room, but all of the memory it is read into.
pub(super) fn may_have_table(file: &dyn File, footer: &Footer) -> io::Result<bool> {
    let mut at = footer.table_offset;
    let end = at + u64::from(footer.blocks) * ROW_BYTES as u64;
    let (mut piece, mut last) = (Vec::new(), None);
    while end - at > TABLE_PIECE_BYTES as u64 {
        piece.resize(TABLE_PIECE_BYTES, 0);
        file.read_at(at, &mut piece)?;
        for row in piece.as_chunks::<ROW_BYTES>().0 {
            let [a, b, c, d, ..] = *row;
            let offset = Some(u32::from_le_bytes([a, b, c, d]));
            if offset <= last {
                return Ok(false);
            }
            last = offset;
        }
        at += TABLE_PIECE_BYTES as u64;
    }
    Ok(true)
}

/// The table of blocks and the footer, from the headers of the blocks; `None` if these don't fill the file up to where the
/// table has to begin.
pub(super) fn make_table(
    file: &dyn File,
    header: &Header,
    file_bytes: u64,
    name: &str,
) -> io::Result<Option<Vec<u8>>> {
    let (mut offset, mut image_offset, mut rows) = (DATA_START, DATA_START, Vec::new());
    while file_bytes.saturating_sub(offset) >= BLOCK_HEADER_BYTES as u64 {
        let mut bytes = [0; BLOCK_HEADER_BYTES];
        file.read_at(offset, &mut bytes)?;
        let Ok(block) = BlockHeader::decode(&bytes, header.seed(), offset, name) else {
            break;
        };
        if block.content == Content::Image {
            if block.image_offset != image_offset {
                return Ok(None);
            }
            rows.push(Row {
                file_offset: offset,
                image_offset,
            });
            image_offset += u64::from(block.raw_bytes);
        }
        offset += (BLOCK_HEADER_BYTES + aligned(block.stored_bytes as usize)) as u64;
    }
    let table_bytes = (rows.len() * ROW_BYTES + FOOTER_BYTES) as u64;
    let is_all = offset.checked_add(table_bytes) == Some(file_bytes);
    Ok(is_all.then(|| encode_table(header, &rows, image_offset, offset)))
}
