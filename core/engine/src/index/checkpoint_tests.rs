use super::*;
use crate::{
    SegmentId, StreamId,
    index::{
        lineage::Lineage,
        stream::{Forked, Location, Run, SnapshotRef, Stream},
    },
};

fn decode(bytes: &Bytes) -> Option<Checkpoint> {
    super::decode(bytes, &[7; 16])
}

const END: End = End {
    store: [1; 16],
    segment: 5,
    salt: 7,
    offset: 8192,
    records: 3,
    time_first_ms: 10,
    time_last_ms: 20,
    next_position: 40,
    epoch: 2,
};

fn id(number: u32) -> StreamId {
    let mut id = [9; 16];
    id[..4].copy_from_slice(&number.to_le_bytes());
    StreamId::from_bytes(id)
}

/// Streams of three pieces, some of them with everything that a stream can have.
fn streams() -> Streams {
    let location = |number: u32| Location {
        segment: SegmentId(number % 5 + 1),
        offset: u64::from(number) * 8000,
    };
    let base = Lineage::push(None, 1, 1, 1);
    let stream = |number: u32| {
        let plain = Stream {
            ordinals: number * 100,
            ..Stream::new(id(number))
        };
        match number % 4 {
            0 => plain,
            1 => Stream {
                runs: (1..=number % 5)
                    .map(|run| Run {
                        segment: SegmentId(run),
                        first_ordinal: run * 70,
                    })
                    .collect(),
                deleted: number == 17,
                ..plain
            },
            2 => Stream {
                tail_first_sequence: 6,
                tail_first_ordinal: 3,
                lineage: Lineage::push(base.clone(), 3 + number % 3, number, 2),
                ..plain
            },
            _ => Stream {
                tail_first_sequence: 3,
                lineage: base.clone(),
                forked: Some(Forked {
                    parent: number - 1,
                    at: 2,
                    location: location(number),
                }),
                snapshots: (0..number % 3)
                    .map(|sequence| SnapshotRef {
                        sequence,
                        source: 1,
                        ordinal: sequence,
                        position: u64::from(sequence) << 40 | 5,
                        location: location(sequence),
                    })
                    .collect(),
                ..plain
            },
        }
    };
    (1..=20).map(stream).collect()
}

fn saved(streams: &Streams) -> Bytes {
    encode(
        END,
        streams,
        &[(0, 1 << 3 | 1 << 30)],
        b"the index of the active segment",
    )
    .into()
}

fn described(streams: &Streams) -> Vec<String> {
    let described = |stream: &Stream| {
        let ranges = std::iter::successors(stream.lineage.as_ref(), |range| range.below());
        let ranges: Vec<_> = ranges
            .map(|range| (range.first_sequence, range.source, range.first_ordinal))
            .collect();
        let tail = stream.tail(0);
        let own = (stream.ordinals, tail, stream.deleted, stream.forked);
        format!(
            "{} {own:?} {ranges:?} {:?} {:?}",
            stream.id, stream.runs, stream.snapshots
        )
    };
    streams.iter().map(described).collect()
}

#[test]
fn checkpoint_is_read_back_as_it_was_saved() {
    let streams = streams();
    let found = decode(&saved(&streams)).unwrap();
    assert_eq!(found.end, END);
    assert_eq!(found.active_index, b"the index of the active segment"[..]);
    let directory = &found.directory;
    for number in 1..=20 {
        assert_eq!(directory.number(&id(number)), Some(number));
    }
    assert_eq!(directory.number(&id(21)), None);
    assert_eq!(directory.streams().decoded(), 0);
    assert_eq!(described(directory.streams()), described(&streams));
    assert!(directory.redacted().contains(30) && !directory.redacted().contains(31));
    let empty = decode(&saved(&Streams::default())).unwrap();
    assert_eq!(empty.directory.next_number(), 1);
}

#[test]
fn stream_that_is_asked_for_is_decoded_with_its_piece_alone() {
    let found = decode(&saved(&streams())).unwrap();
    let mut streams = found.directory.streams().clone();
    assert_eq!(streams.get(10).unwrap().ordinals, 1000);
    assert_eq!(streams.decoded(), 1);
    streams.get_mut(1).unwrap().ordinals = 101;
    assert_eq!(streams.decoded(), 2);
    streams.push(Stream::new(id(21)));
    assert_eq!((streams.len(), streams.decoded()), (21, 3));
    let directory = found.directory;
    assert_eq!(directory.streams().decoded(), 1, "the copy has its own");
    assert_eq!(directory.stream(1).unwrap().ordinals, 100);
}

#[test]
fn what_did_not_change_is_saved_again_as_it_is() {
    let original = streams();
    let first = saved(&original);
    let found = decode(&first).unwrap();
    let again = saved(found.directory.streams());
    assert_eq!(
        described(decode(&again).unwrap().directory.streams()),
        described(&original)
    );
    let mut changed = found.directory.streams().clone();
    changed.get_mut(20).unwrap().ordinals += 1;
    let mut expected = described(&original);
    expected[19] = described(&changed)[19].clone();
    let last = decode(&saved(&changed)).unwrap();
    assert_eq!(described(last.directory.streams()), expected);
}

/// Gives bytes the length and the CRC that they should have, and decodes them.
fn forged(mut bytes: Vec<u8>) -> Option<Checkpoint> {
    let body = (bytes.len() - HEADER_BYTES) as u64;
    bytes[16..24].copy_from_slice(&body.to_le_bytes());
    let crc = checksum::crc_of_parts(&[&bytes[..24], &bytes[HEADER_BYTES..]]);
    bytes[24..28].copy_from_slice(&crc.to_le_bytes());
    decode(&bytes.into())
}

/// Whatever it says, everything of it can be asked for, and saved.
fn is_usable(found: &Checkpoint) {
    let streams = found.directory.streams();
    assert_eq!(described(streams).len(), streams.len());
    for number in 0..=found.directory.next_number() {
        let id = StreamId::from_bytes(streams.id_bytes(number));
        assert_eq!(
            found.directory.stream(number).is_some(),
            (1..=streams.len()).contains(&(number as usize))
        );
        let _ = found.directory.number(&id);
        let _ = found.directory.resolve(number, 4);
        let _ = found.directory.segment_of(number, 4);
        let _ = found.directory.latest_snapshot(number, 9, &[]);
    }
    assert!(decode(&saved(streams)).is_some());
}

#[test]
fn changed_bytes_are_found_out() {
    let bytes = saved(&streams());
    for place in 0..bytes.len() {
        let mut bytes = bytes.to_vec();
        bytes[place] ^= 1 << (place % 8);
        assert!(decode(&bytes.into()).is_none(), "byte {place}");
    }
    for length in 0..bytes.len() {
        assert!(decode(&bytes.slice(..length)).is_none(), "cut at {length}");
    }
}

#[test]
fn lies_that_check_are_refused_or_harmless() {
    let bytes = saved(&streams());
    let (mut refused, mut taken) = (0, 0);
    let mut judge = |bytes: Vec<u8>| match forged(bytes) {
        None => refused += 1,
        Some(found) => {
            taken += 1;
            is_usable(&found);
        }
    };
    for place in HEADER_BYTES..bytes.len() {
        for change in [1, 2, 4, 8, 0x80, 0xff] {
            let mut bytes = bytes.to_vec();
            bytes[place] ^= change;
            judge(bytes);
        }
        for word in [0, 1, 0x7fff_ffff, 0x1000_0000, u32::MAX] {
            let mut bytes = bytes.to_vec();
            let end = bytes.len().min(place + 4);
            bytes[place..end].copy_from_slice(&word.to_le_bytes()[..end - place]);
            judge(bytes);
        }
    }
    for length in HEADER_BYTES..bytes.len() {
        judge(bytes[..length].to_vec());
    }
    assert!(
        refused > 1000 && taken > 1000,
        "{refused} refused, {taken} taken"
    );
}

#[test]
fn counts_that_no_bytes_stand_behind_are_refused() {
    // A piece with so many streams, runs, snapshots and forks, and lists without a byte for each.
    for count in [0, 1, 2, 3] {
        let mut body = vec![0; END_BYTES];
        body[16..20].copy_from_slice(&1_u32.to_le_bytes());
        body[48..56].copy_from_slice(&1_u64.to_le_bytes());
        let mut piece = vec![0; 16];
        piece[count * 4..][..4].copy_from_slice(&0xffff_fff0_u32.to_le_bytes());
        piece.extend([0; 400]);
        body.put_u64_le(1);
        body.put_u64_le(piece.len() as u64);
        body.append(&mut piece);
        body.extend([0; 24]);
        let bytes = [vec![0; HEADER_BYTES], body].concat();
        let mut bytes: Vec<u8> = bytes;
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        assert!(forged(bytes).is_none());
    }
}

#[test]
fn runs_of_no_stream_are_refused() {
    let run = Run {
        segment: SegmentId(1),
        first_ordinal: 1,
    };
    let stream = Stream {
        ordinals: 1,
        runs: vec![run],
        ..Stream::new(id(1))
    };
    let mut bytes = saved(&[stream].into_iter().collect()).to_vec();
    assert!(forged(bytes.clone()).is_some());
    // The fifth list of its one piece says how many runs each stream has.
    let piece = HEADER_BYTES + END_BYTES + 16;
    let runs = piece + 16 + 16 + 1 + 4 * 5;
    assert_eq!(bytes[runs..runs + 5], [1, 0, 0, 0, 0]);
    bytes[runs] = 0;
    assert!(forged(bytes).is_none());
}
