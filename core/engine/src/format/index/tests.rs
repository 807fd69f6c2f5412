//! Index blocks read back, and are refused when a bit of them is flipped.

use super::{parts::BlockWriter, *};
use crate::{Error, ErrorKind, Kind, Label, SegmentId, checksum, format::segment};

pub(crate) fn parts() -> Parts {
    Parts {
        stream_rows: vec![
            StreamRow {
                stream: 2,
                first_ordinal: 1,
                count: 2,
                postings_start: 0,
                id: [1; 16],
            },
            StreamRow {
                stream: 5,
                first_ordinal: 9,
                count: 1,
                postings_start: 2,
                id: [2; 16],
            },
        ],
        postings: vec![512, 520, 530],
        samples: vec![
            SampleRow {
                index: 0,
                offset: 4096,
            },
            SampleRow {
                index: 64,
                offset: 4120,
            },
        ],
        controls: vec![ControlRow {
            kind: Kind::FORK,
            stream: 6,
            sequence: 9,
            ordinal: 0,
            offset: 4800,
            other: 5,
            target: 0,
            id: [3; 16],
        }],
        keys: vec![
            KeyRow {
                stream: 2,
                hash: 99,
                offset: 4096,
            },
            KeyRow {
                stream: 2,
                hash: 99,
                offset: 4160,
            },
        ],
        label_rows: vec![
            LabelRow {
                label: Label(7),
                end: 2,
            },
            LabelRow {
                label: Label(u64::MAX),
                end: 3,
            },
        ],
        label_postings: vec![0, 2, 1],
    }
}

fn header() -> segment::Header {
    segment::Header {
        segment: SegmentId(4),
        base_position: 100,
        ..segment::tests::header()
    }
}

fn trailer() -> Trailer {
    let ends = Ends {
        data_end: 8000,
        next_position: 166,
        next_stream: 7,
        repaired: true,
    };
    Trailer::new(&header(), &ends, 66, Some((1, 2)))
}

fn encoded() -> Vec<u8> {
    parts().encode(trailer(), &header()).0
}

fn checked(bytes: &[u8]) -> Option<Result<Block, Error>> {
    let (block, trailer) = bytes.split_last_chunk::<TRAILER_BYTES>()?;
    let trailer = Trailer::decode(trailer, &header(), 8000 + bytes.len() as u64).ok()??;
    let block = bytes::Bytes::copy_from_slice(block);
    Some(Block::check(block, trailer, header().seed(), "x"))
}

fn open(bytes: &[u8]) -> Option<Block> {
    checked(bytes)?.ok()
}

/// A block with the stream rows and postings of [`parts`], and behind them a section of 16 bytes; and its index CRC.
fn with_section(number: u16, flags: u16, element_bytes: u32) -> (Vec<u8>, u32) {
    let mut writer = BlockWriter {
        bytes: Vec::new(),
        table: Table::default(),
        data_end: 8000,
        seed: header().seed(),
    };
    writer.section(SectionType::STREAM_ROWS, &parts().stream_rows);
    writer.section(SectionType::POSTINGS, &parts().postings);
    let offset = 8000 + writer.bytes.len() as u64;
    writer.table.0.push(Section {
        number,
        flags,
        element_bytes,
        count: 16 / element_bytes,
        crc: checksum::crc_at(header().seed(), offset, &[7; 16]),
        offset,
        bytes: 16,
    });
    writer.bytes.extend([7; 16]);
    writer.finish(&mut trailer(), &header())
}

#[test]
fn header_can_be_had_from_the_end_of_the_block() {
    let bytes = encoded();
    let end = bytes.len() - TRAILER_BYTES;
    let copy = bytes[end - segment::COPY_BYTES..end].try_into().unwrap();
    assert_eq!(
        segment::Header::decode_copy(copy, "x", end).unwrap(),
        header()
    );
}

#[test]
fn index_block_reads_back() {
    let block = open(&encoded()).unwrap();
    assert_eq!(block.parts(), parts());
    let row = block.find_stream(5).unwrap();
    assert_eq!(block.posting(&row, 9), Some(530 * 8));
    assert_eq!(block.posting(&row, 10), None);
    assert_eq!(block.posting(&row, 8), None);
    assert_eq!(block.find_stream(3), None);
    assert_eq!(
        block.sample(63),
        Some(SampleRow {
            index: 0,
            offset: 4096
        })
    );
    assert_eq!(
        block.sample(65),
        Some(SampleRow {
            index: 64,
            offset: 4120
        })
    );
    assert_eq!(block.keys(2, 99).collect::<Vec<_>>(), [4096, 4160]);
    assert_eq!(block.keys(2, 98).count() + block.keys(5, 99).count(), 0);
    let postings = block.labels().unwrap().find(Label(7));
    let places: Vec<u32> = (0..postings.len())
        .filter_map(|n| postings.get(n))
        .collect();
    assert_eq!(places, [0, 2]);
    assert_eq!(block.ordinal_at(2), Some((5, 9)));
    assert_eq!(block.offset_at(2), Some(530 * 8));
    assert_eq!(block.labels().unwrap().find(Label(8)).len(), 0);
}

#[test]
fn every_flipped_bit_of_an_index_block_is_noticed() {
    let bytes = encoded();
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(open(&damaged).is_none(), "bit {bit}");
    }
}

#[test]
fn unknown_section_is_skipped_unless_it_must_be_understood() {
    let (bytes, crc) = with_section(200, 0, 4);
    let block = open(&bytes).unwrap();
    assert_eq!(block.parts().postings, parts().postings);
    assert_eq!(block.parts().keys, []);
    let (other, other_crc) = with_section(201, 0, 8);
    assert_ne!(bytes, other);
    assert_eq!(crc, other_crc, "the next header's field is not of them");
    for (number, flags, element_bytes, word) in [
        (200, 1, 4, "type 200, which must be understood"),
        (200, 2, 4, "type 200 with flags 2"),
        (4, 0, 16, "type 4 with flags 0"),
        (4, 1, 16, "type 4 with elements of 16 bytes"),
    ] {
        let error = checked(&with_section(number, flags, element_bytes).0)
            .unwrap()
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnsupportedVersion, "{error}");
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[test]
fn sections_out_of_their_place_are_damage() {
    // The same type twice: whatever it says, one of them would be passed over.
    let (bytes, _) = with_section(2, 1, 4);
    assert_eq!(
        checked(&bytes).unwrap().unwrap_err().kind(),
        ErrorKind::Damaged
    );
}
