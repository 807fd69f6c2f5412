//! The file of a pack: the image of a segment, cut in blocks that are encoded one by one, perhaps with a dictionary.
//!
//! The image has the layout of any sealed segment. This file defines only how its bytes are stored.

use bytes::BufMut;

use super::{ALIGNMENT, Fields, VERSION, checked, fixed, newer, segment};
use crate::{Error, Result, SegmentId, checksum, limits};

/// The size of the header of a block.
pub(crate) const BLOCK_HEADER_BYTES: usize = 32;
/// Where the header of a block has how many bytes it stores.
pub(crate) const STORED_BYTES: std::ops::Range<usize> = 8..12;
/// Where the header of a block has the CRC of the raw bytes.
pub(crate) const RAW_CRC: std::ops::Range<usize> = 20..24;
/// The most bytes of the image that one block has: what decoding one allocates is bounded by it.
pub(crate) const BLOCK_RAW_BYTES_MAX: usize = 1 << 20;
/// The highest compression ratio of a block, so that the memory allocated for decoding is bounded by the length of the
/// file. LZ4 doesn't exceed it.
pub(crate) const RATIO_MAX: u32 = 256;
/// The most bytes of a dictionary.
pub(crate) const DICTIONARY_BYTES_MAX: usize = 1 << 20;
/// The fewest: its magic and its id.
const DICTIONARY_BYTES_MIN: u32 = 8;
/// The fewest bytes of a file that a block takes.
const BLOCK_BYTES_MIN: u64 = (BLOCK_HEADER_BYTES + ALIGNMENT) as u64;
/// How many bytes of a file a dictionary can take.
const DICTIONARY_BYTES: std::ops::RangeInclusive<u64> =
    BLOCK_BYTES_MIN..=(BLOCK_HEADER_BYTES + DICTIONARY_BYTES_MAX) as u64;
/// The longest image: that of one segment, with more samples.
pub(crate) const IMAGE_BYTES_MAX: u64 = 2 * limits::SEGMENT_BYTES_MAX;
/// The longest file of a pack: blocks take no more than what they store, and 40 bytes each in their headers and the table.
pub(crate) const FILE_BYTES_MAX: u64 = IMAGE_BYTES_MAX + limits::SEGMENT_BYTES_MAX;
/// The size of the footer.
pub(crate) const FOOTER_BYTES: usize = 64;
/// The size of a row of the table of blocks.
pub(crate) const ROW_BYTES: usize = 8;

const MAGIC: [u8; 8] = *b"RUNLOGPK";

/// How the bytes of a block are encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Encoding {
    Raw,
    Lz4,
    Zstd,
    /// Zstandard, with the dictionary of the pack.
    ZstdDictionary,
}

impl Encoding {
    fn to_byte(self) -> u8 {
        match self {
            Self::Raw => 0,
            Self::Lz4 => 1,
            Self::Zstd => 2,
            Self::ZstdDictionary => 3,
        }
    }

    fn of_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            0 => Self::Raw,
            1 => Self::Lz4,
            2 => Self::Zstd,
            3 => Self::ZstdDictionary,
            _ => return None,
        })
    }
}

/// What a block contains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Content {
    /// Bytes of the image.
    Image,
    /// The dictionary, which is not part of the image.
    Dictionary,
}

impl Content {
    fn to_byte(self) -> u8 {
        match self {
            Self::Image => 0,
            Self::Dictionary => 1,
        }
    }

    fn of_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Image),
            1 => Some(Self::Dictionary),
            _ => None,
        }
    }
}

/// The header of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlockHeader {
    pub(crate) encoding: Encoding,
    pub(crate) content: Content,
    /// The length of the stored bytes, without their padding.
    pub(crate) stored_bytes: u32,
    /// The length of the decoded bytes.
    pub(crate) raw_bytes: u32,
    /// Their offset in the image; 0 for the dictionary.
    pub(crate) image_offset: u64,
    pub(crate) raw_crc: u32,
    pub(crate) stored_crc: u32,
}

impl BlockHeader {
    /// The bytes of the header at an offset of the file of a pack with this seed.
    pub(crate) fn encode(&self, seed: u32, offset: u64) -> [u8; BLOCK_HEADER_BYTES] {
        let mut bytes = [0; BLOCK_HEADER_BYTES];
        let rest = &mut &mut bytes[4..];
        put!(
            rest,
            [self.encoding.to_byte(), self.content.to_byte(), 0, 0],
            self.stored_bytes,
            self.raw_bytes,
            super::offset_to_units(self.image_offset),
            self.raw_crc,
            self.stored_crc,
        );
        let check = checksum::crc_at(seed, offset, &bytes[4..]);
        bytes[..4].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// The header of a block; the error says what it found instead.
    pub(crate) fn decode(
        bytes: &[u8; BLOCK_HEADER_BYTES],
        seed: u32,
        offset: u64,
        name: &str,
    ) -> Result<Self> {
        let check = Fields::new(bytes).u32();
        if check != checksum::crc_at(seed, offset, &bytes[4..]) {
            let message = format!(
                "{name}: file offset {offset}: expected the header of a block of this pack"
            );
            return Err(Error::damaged(message));
        }
        Self::decode_unchecked(bytes, offset, name)
    }

    /// Decodes without the seed, and therefore without verifying that the bytes are a header.
    pub(crate) fn decode_unchecked(
        bytes: &[u8; BLOCK_HEADER_BYTES],
        offset: u64,
        name: &str,
    ) -> Result<Self> {
        let damaged = |what: &str| Error::damaged(format!("{name}: file offset {offset}: {what}"));
        let mut fields = Fields::new(&bytes[4..]);
        let [encoding, content, reserved @ ..] = fields.take::<4>();
        let (stored_bytes, raw_bytes) = (fields.u32(), fields.u32());
        let image_offset = super::units_to_offset(fields.u32());
        let (raw_crc, stored_crc, last) = (fields.u32(), fields.u32(), fields.u32());
        let (encoding, content) = Encoding::of_byte(encoding)
            .zip(Content::of_byte(content))
            .filter(|_| reserved == [0; 2] && last == 0)
            .ok_or_else(|| {
                let what = format!("a block with encoding {encoding} and content {content}");
                newer(name, &what)
            })?;
        let is_of_content = match content {
            Content::Image => {
                raw_bytes as usize <= BLOCK_RAW_BYTES_MAX
                    && raw_bytes != 0
                    && raw_bytes.is_multiple_of(8)
                    && image_offset >= segment::DATA_START
            }
            Content::Dictionary => {
                raw_bytes as usize <= DICTIONARY_BYTES_MAX
                    && raw_bytes >= DICTIONARY_BYTES_MIN
                    && image_offset == 0
                    && encoding != Encoding::ZstdDictionary
            }
        };
        let is_plausible = is_of_content
            && stored_bytes <= raw_bytes
            && raw_bytes.div_ceil(RATIO_MAX) <= stored_bytes
            && (encoding != Encoding::Raw || stored_bytes == raw_bytes);
        if !is_plausible {
            return Err(damaged(
                "the lengths in the header of a block are impossible",
            ));
        }
        Ok(Self {
            encoding,
            content,
            stored_bytes,
            raw_bytes,
            image_offset,
            raw_crc,
            stored_crc,
        })
    }
}

/// Where a block is: in the file, and in the image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Row {
    pub(crate) file_offset: u64,
    pub(crate) image_offset: u64,
}

/// The table of blocks, and behind it the footer, which ends the file.
pub(crate) fn encode_table(
    header: &segment::Header,
    rows: &[Row],
    image_bytes: u64,
    table_offset: u64,
) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(rows.len() * ROW_BYTES + FOOTER_BYTES);
    for row in rows {
        put!(
            &mut bytes,
            super::offset_to_units(row.file_offset),
            super::offset_to_units(row.image_offset)
        );
    }
    let crc = checksum::crc_at(header.seed(), table_offset, &bytes);
    let count = u32::try_from(rows.len()).expect("a pack has fewer than 2^32 blocks");
    let footer: [u8; FOOTER_BYTES] = fixed(|footer| {
        put!(
            footer,
            MAGIC,
            VERSION,
            header.salt,
            image_bytes,
            table_offset,
            count,
            crc
        )
    });
    bytes.put_slice(&footer);
    bytes
}

/// What the footer says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Footer {
    /// How long the image is.
    pub(crate) image_bytes: u64,
    /// Where the table begins, and the blocks end.
    pub(crate) table_offset: u64,
    pub(crate) blocks: u32,
    table_crc: u32,
}

impl Footer {
    /// The footer of the pack with this header and this file length.
    pub(crate) fn decode(
        bytes: &[u8; FOOTER_BYTES],
        header: &segment::Header,
        file_bytes: u64,
        name: &str,
    ) -> Result<Self> {
        checked(bytes, &MAGIC, &format!("{name}: footer"))?;
        let mut fields = Fields::new(&bytes[12..]);
        let salt = fields.u32();
        let footer = Self {
            image_bytes: fields.get(),
            table_offset: fields.get(),
            blocks: fields.get(),
            table_crc: fields.get(),
        };
        if fields.take::<20>() != [0; 20] {
            return Err(newer(name, "something in the reserved bytes of its footer"));
        }
        let ends = footer
            .table_offset
            .checked_add(u64::from(footer.blocks) * ROW_BYTES as u64)
            .and_then(|end| end.checked_add(FOOTER_BYTES as u64));
        let fits = salt == header.salt
            && footer.table_offset >= segment::DATA_START
            && footer.table_offset.is_multiple_of(ALIGNMENT as u64)
            && ends == Some(file_bytes)
            && u64::from(footer.blocks)
                <= (footer.table_offset - segment::DATA_START) / BLOCK_BYTES_MIN
            && footer.image_bytes <= IMAGE_BYTES_MAX;
        fits.then_some(footer).ok_or_else(|| {
            Error::damaged(format!(
                "{name}: its footer doesn't fit a file of {file_bytes} bytes"
            ))
        })
    }

    /// Decodes the table of a pack with this header. The first copy of the dictionary precedes the first block, and the
    /// second one, of the same size, lies between the last block and the table.
    pub(crate) fn table(
        &self,
        bytes: &[u8],
        header: &segment::Header,
        name: &str,
    ) -> Result<Vec<Row>> {
        let seed = header.seed();
        let damaged = |what: &str| {
            Error::damaged(format!("{name}: file offset {}: {what}", self.table_offset))
        };
        if checksum::crc_at(seed, self.table_offset, bytes) != self.table_crc {
            return Err(damaged("the CRC of the table of blocks is wrong"));
        }
        let mut fields = Fields::new(bytes);
        let mut rows: Vec<Row> = Vec::with_capacity(self.blocks as usize);
        for _ in 0..self.blocks {
            rows.push(Row {
                file_offset: super::units_to_offset(fields.u32()),
                image_offset: super::units_to_offset(fields.u32()),
            });
        }
        let Some(first) = rows.first() else {
            return Err(damaged("there are no blocks"));
        };
        let dictionary = first.file_offset.saturating_sub(segment::DATA_START);
        let has_right_start = match header.has_dictionary() {
            true => DICTIONARY_BYTES.contains(&dictionary),
            false => first.file_offset == segment::DATA_START,
        };
        let end = Row {
            file_offset: self.table_offset.saturating_sub(dictionary),
            image_offset: self.image_bytes,
        };
        let ends = rows.iter().skip(1).chain([&end]);
        // Checked before anything is allocated for the sizes they claim.
        let are_possible = rows.iter().zip(ends).all(|(row, end)| {
            let gap = |from: u64, to: u64| to.checked_sub(from);
            let stored = gap(row.file_offset + BLOCK_HEADER_BYTES as u64, end.file_offset);
            let raw = gap(row.image_offset, end.image_offset);
            matches!((stored, raw), (Some(stored), Some(raw))
                if stored > 0 && raw > 0 && raw <= BLOCK_RAW_BYTES_MAX as u64 && raw <= stored * u64::from(RATIO_MAX))
        });
        (has_right_start && first.image_offset == segment::DATA_START && are_possible)
            .then_some(rows)
            .ok_or_else(|| damaged("the rows of the table of blocks contradict each other"))
    }
}

/// The name of the file of a pack.
pub(crate) fn name(first: SegmentId, last: SegmentId, generation: u32) -> String {
    format!("{:08}-{:08}.{generation}.pack", first.0, last.0)
}

/// The segments that the pack with a name stands for, and its generation.
pub(crate) fn of_name(text: &str) -> Option<(SegmentId, SegmentId, u32)> {
    let (range, generation) = text.strip_suffix(".pack")?.split_once('.')?;
    let (first, last) = range.split_once('-')?;
    let parsed = (
        SegmentId(first.parse().ok()?),
        SegmentId(last.parse().ok()?),
        generation.parse().ok()?,
    );
    let (first, last, generation) = parsed;
    let is_one = first.0 != 0 && first <= last && generation != 0;
    (is_one && name(first, last, generation) == text).then_some(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorKind, format::segment::tests::header};

    fn block() -> BlockHeader {
        BlockHeader {
            encoding: Encoding::Zstd,
            content: Content::Image,
            stored_bytes: 100,
            raw_bytes: 4000,
            image_offset: 8192,
            raw_crc: 1,
            stored_crc: 2,
        }
    }

    #[test]
    fn block_header_reads_back_and_every_flipped_bit_is_noticed() {
        let bytes = block().encode(7, 4096);
        assert_eq!(BlockHeader::decode(&bytes, 7, 4096, "x").unwrap(), block());
        assert!(BlockHeader::decode(&bytes, 8, 4096, "x").is_err());
        assert!(BlockHeader::decode(&bytes, 7, 4104, "x").is_err());
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(
                BlockHeader::decode(&damaged, 7, 4096, "x").is_err(),
                "{bit}"
            );
        }
    }

    #[test]
    fn impossible_lengths_of_a_block_are_refused() {
        let most = u32::try_from(BLOCK_RAW_BYTES_MAX).unwrap();
        for (stored_bytes, raw_bytes) in [(8, 0), (4008, 4000), (8, most + 8), (8, 4001)] {
            let header = BlockHeader {
                stored_bytes,
                raw_bytes,
                ..block()
            };
            let error = BlockHeader::decode(&header.encode(7, 4096), 7, 4096, "x").unwrap_err();
            assert_eq!(
                error.kind(),
                ErrorKind::Damaged,
                "{stored_bytes} {raw_bytes}"
            );
        }
    }

    #[test]
    fn unknown_encoding_is_a_newer_build_s() {
        let mut bytes = block().encode(7, 4096);
        bytes[4] = 9;
        let check = checksum::crc_at(7, 4096, &bytes[4..]);
        bytes[..4].copy_from_slice(&check.to_le_bytes());
        let error = BlockHeader::decode(&bytes, 7, 4096, "x").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnsupportedVersion);
    }

    #[test]
    fn table_reads_back_and_every_flipped_bit_is_noticed() {
        let rows = [
            Row {
                file_offset: 4096,
                image_offset: 4096,
            },
            Row {
                file_offset: 5000,
                image_offset: 9000,
            },
        ];
        let header = header();
        let bytes = encode_table(&header, &rows, 20_000, 6000);
        let length = 6000 + bytes.len() as u64;
        let read = |bytes: &[u8]| {
            let (table, footer) = bytes.split_last_chunk().unwrap();
            let footer = Footer::decode(footer, &header, length, "x")?;
            Ok::<_, Error>((footer.image_bytes, footer.table(table, &header, "x")?))
        };
        assert_eq!(read(&bytes).unwrap(), (20_000, rows.to_vec()));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&damaged).is_err(), "{bit}");
        }
    }

    fn is_table(
        header: &segment::Header,
        rows: &[Row],
        image_bytes: u64,
        table_offset: u64,
    ) -> bool {
        let bytes = encode_table(header, rows, image_bytes, table_offset);
        let (table, footer) = bytes.split_last_chunk().unwrap();
        let length = table_offset + bytes.len() as u64;
        let footer = Footer::decode(footer, header, length, "x");
        footer.is_ok_and(|footer| footer.table(table, header, "x").is_ok())
    }

    #[test]
    fn dictionary_has_its_room_before_the_blocks_and_behind_them() {
        let plain = header();
        let replaced = segment::Replaced {
            generation: 1,
            from: plain.segment,
            to: plain.segment,
        };
        let compacted = segment::Compacted {
            replaced,
            end: segment::ReplacedEnd::default(),
        };
        let with = segment::Header {
            compacted: Some(compacted),
            ..plain
        }
        .with_dictionary();
        let first = |file_offset| {
            let image_offset = 4096;
            [Row {
                file_offset,
                image_offset,
            }]
        };
        assert!(is_table(&with, &first(4196 + 4), 8192, 4600));
        assert!(!is_table(&plain, &first(4196 + 4), 8192, 4600));
        assert!(!is_table(&with, &first(4096), 8192, 4600));
        // Without room for the second copy, or for the block between both.
        assert!(!is_table(&with, &first(4200), 8192, 4300));
        assert!(!is_table(&with, &first(4200), 8192, 4336));
        let most = 4096 + (BLOCK_HEADER_BYTES + DICTIONARY_BYTES_MAX) as u64;
        assert!(is_table(&with, &first(most), 8192, 2 * most));
        assert!(!is_table(&with, &first(most + 8), 8192, 2 * most + 16));
        assert!(!is_table(&with, &[], 8192, 4600));
    }

    #[test]
    fn block_that_is_decoded_to_more_than_its_bytes_warrant_is_refused() {
        let of = |stored_bytes, raw_bytes| BlockHeader {
            stored_bytes,
            raw_bytes,
            ..block()
        };
        let is_read = |header: BlockHeader| {
            let bytes = header.encode(7, 4096);
            BlockHeader::decode(&bytes, 7, 4096, "x").is_ok()
        };
        assert!(is_read(of(4096, 1 << 20)) && !is_read(of(4095, 1 << 20)));
        let of_dictionary = |stored_bytes, raw_bytes| BlockHeader {
            content: Content::Dictionary,
            image_offset: 0,
            ..of(stored_bytes, raw_bytes)
        };
        assert!(is_read(of_dictionary(100, 4001)));
        let most = u32::try_from(DICTIONARY_BYTES_MAX).unwrap();
        for header in [
            of_dictionary(4096, most + 1),
            of_dictionary(7, 7),
            BlockHeader {
                image_offset: 4096,
                ..of_dictionary(100, 4000)
            },
            BlockHeader {
                encoding: Encoding::ZstdDictionary,
                ..of_dictionary(100, 4000)
            },
        ] {
            assert!(!is_read(header), "{header:?}");
        }
    }

    #[test]
    fn table_that_claims_more_than_its_blocks_can_hold_is_refused() {
        let header = header();
        let most = BLOCK_RAW_BYTES_MAX as u64;
        let row = |file_offset, image_offset| Row {
            file_offset,
            image_offset,
        };
        let is_read = |rows: &[Row], image_bytes| is_table(&header, rows, image_bytes, 12_288);
        assert!(is_read(&[row(4096, 4096)], 4096 + most));
        assert!(!is_read(&[row(4096, 4096)], 4096 + most + 8));
        assert!(!is_read(&[row(4096, 4096)], IMAGE_BYTES_MAX));
        let far = row(4200, 4096 + most + 16);
        assert!(!is_read(&[row(4096, 4096), far], 4096 + 2 * most));
        // More blocks than fit before the table.
        let crowded: Vec<Row> = (0..300).map(|n| row(4096 + n * 40, 4096 + n * 8)).collect();
        assert!(!is_read(&crowded, 8192));
    }

    #[test]
    fn name_of_a_pack_reads_back_and_no_other_does() {
        let ids = (SegmentId(4), SegmentId(9), 2);
        assert_eq!(name(ids.0, ids.1, ids.2), "00000004-00000009.2.pack");
        assert_eq!(of_name("00000004-00000009.2.pack"), Some(ids));
        for other in [
            "00000004-00000009.0.pack",
            "00000009-00000004.1.pack",
            "4-9.1.pack",
            "00000004.seg",
            "00000004-00000009.02.pack",
            "00000000-00000009.2.pack",
        ] {
            assert_eq!(of_name(other), None, "{other}");
        }
    }
}
