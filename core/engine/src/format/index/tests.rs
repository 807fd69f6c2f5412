//! Index blocks read back, and are refused when a bit of them is flipped.

use super::*;
use crate::{Kind, SegmentId, format::segment};

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
    }
}

fn header() -> segment::Header {
    segment::Header {
        segment: SegmentId(4),
        base_position: 100,
        ..segment::tests::header()
    }
}

fn encoded() -> Vec<u8> {
    let ends = Ends {
        data_end: 8000,
        next_position: 166,
        next_stream: 7,
        repaired: true,
    };
    let trailer = Trailer::new(&header(), &ends, 66, Some((1, 2)));
    parts().encode(trailer, &header()).0
}

fn open(bytes: &[u8]) -> Option<Block> {
    let (block, trailer) = bytes.split_last_chunk::<TRAILER_BYTES>()?;
    let trailer = Trailer::decode(trailer, &header(), 8000 + bytes.len() as u64).ok()??;
    Block::check(
        bytes::Bytes::copy_from_slice(block),
        trailer,
        header().seed(),
        "x",
    )
    .ok()
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
