//! Makes blocks of a pack's index again, in the place of damaged ones.

use std::{io, ops::Range, sync::Arc};

use bytes::Bytes;

use super::{Image, MadeBlock};
use crate::{
    checksum,
    format::{
        aligned,
        pack::{BLOCK_HEADER_BYTES, BlockHeader, Content, Encoding, RAW_CRC},
    },
    log::codec::Encoder,
};

impl Image {
    /// The same image with blocks that were made again.
    pub(crate) fn with_made(&self, made: Vec<MadeBlock>) -> Self {
        Self {
            file: self.file.clone(),
            name: self.name.clone(),
            seed: self.seed,
            bytes: self.bytes,
            blocks_end: self.blocks_end,
            decoded: self.rows.iter().map(|_| Arc::default()).collect(),
            rows: self.rows.clone(),
            dictionary: self.dictionary.clone(),
            damaged_table: self.damaged_table.clone(),
            made,
        }
    }

    /// The blocks that were made again.
    pub(crate) fn made(&self) -> &[MadeBlock] {
        &self.made
    }

    /// Whether what is left of a damaged block in the file tells that it was this one: by the CRC of its bytes, or by its bytes.
    pub(crate) fn is_told_by_file(&self, made: &MadeBlock) -> io::Result<bool> {
        let mut there = vec![0; made.bytes.len()];
        self.file.read_at(made.offset, &mut there)?;
        let is_same = |range: Range<usize>| there[range.clone()] == made.bytes[range];
        Ok(is_same(RAW_CRC) || is_same(BLOCK_HEADER_BYTES..there.len()))
    }

    /// Where a block begins and ends in the image.
    pub(crate) fn image_extent(&self, place: usize) -> (u64, u64) {
        (self.rows[place].image_offset, self.image_end(place))
    }

    /// A block with these bytes, which takes the room that the block at a place has in the file; `None` if no encoding of this build
    /// gives as many.
    pub(crate) fn make_block(&self, place: usize, raw: Bytes) -> io::Result<Option<MadeBlock>> {
        let (offset, end) = self.extent(place);
        for encoding in [Encoding::Zstd, Encoding::Lz4, Encoding::Raw] {
            let (encoding, stored) = Encoder::new(encoding, None)?.encode(&raw, false);
            let length = |bytes: &[u8]| u32::try_from(bytes.len()).ok();
            let Some((stored_bytes, raw_bytes)) = length(&stored).zip(length(&raw)) else {
                return Ok(None);
            };
            let header = BlockHeader {
                encoding,
                content: Content::Image,
                stored_bytes,
                raw_bytes,
                image_offset: self.rows[place].image_offset,
                raw_crc: checksum::crc(&raw),
                stored_crc: checksum::crc(&stored),
            };
            let mut bytes = header.encode(self.seed, offset).to_vec();
            bytes.extend_from_slice(&stored);
            bytes.resize(aligned(bytes.len()), 0);
            if bytes.len() as u64 == end - offset {
                return Ok(Some(MadeBlock {
                    place,
                    offset,
                    bytes,
                    raw,
                }));
            }
        }
        Ok(None)
    }
}
