//! The index of a large pack, of which reads decode only the part that they need.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::{collections::BTreeSet, sync::Arc};

use runlog_engine::{
    CompactOptions, CompactScope, Direction, Durability, ErrorKind, Expected, NewRecord,
    OpenOptions, ReadOptions, Sequence, Store, storage::Storage,
};
use runlog_tests::{faulty::FaultyStorage, processes::stream, random::Random};

/// The records of each stream: their postings lie in several blocks of the index, and are read in several pieces.
const RECORDS: u64 = 20_000;
const STREAMS: u64 = 3;

fn text(stream: u64, sequence: u64) -> String {
    format!("{stream}:{sequence}")
}

/// A store with one pack, of the three streams, without the files that it replaced.
fn packed() -> FaultyStorage {
    let storage = FaultyStorage::new();
    let options = OpenOptions {
        durability: Durability::Os,
        auto_compact: false,
        ..OpenOptions::default()
    };
    let store = Store::open_on(Arc::new(storage.clone()), options).unwrap();
    for first in (1..=RECORDS).step_by(100) {
        for number in 0..STREAMS {
            let texts: Vec<_> = (first..first + 100).map(|at| text(number, at)).collect();
            let records: Vec<_> = texts
                .iter()
                .map(|text| NewRecord::data(text.as_bytes()))
                .collect();
            store
                .append(stream(number), Expected::Any, &records)
                .unwrap();
        }
    }
    let scope = CompactScope::All;
    store
        .compact(CompactOptions {
            scope,
            ..CompactOptions::default()
        })
        .unwrap();
    store.close().unwrap();
    storage
}

fn opened(storage: &FaultyStorage) -> Store {
    Store::open_on(Arc::new(storage.clone()), OpenOptions::default()).unwrap()
}

/// What a read gives: each record's sequence and payload, or that it is damaged.
fn read(store: &Store, number: u64, options: ReadOptions) -> Vec<Result<(u64, String), ErrorKind>> {
    let records = store.read(stream(number), options).unwrap();
    let told = records.map(|record| match record {
        Ok(record) => Ok((
            record.sequence.0,
            String::from_utf8(record.payload.to_vec()).unwrap(),
        )),
        Err(error) => Err(error.kind()),
    });
    told.collect()
}

#[test]
fn reads_in_either_direction_from_anywhere_give_every_record_of_a_large_pack() {
    let storage = packed();
    let store = opened(&storage);
    let mut random = Random::new(7);
    for number in 0..STREAMS {
        for round in 0..12 {
            let (first, last) = match round {
                0 => (1, RECORDS),
                // Around the ends of what is read at once.
                1 => (4095, 4098),
                2 => (8193, 8193),
                _ => {
                    let first = 1 + random.below(RECORDS);
                    (first, first + random.below(RECORDS - first + 1))
                }
            };
            let mut expected: Vec<_> = (first..=last)
                .map(|at| Ok((at, text(number, at))))
                .collect();
            let mut options = ReadOptions {
                first: Sequence(first),
                last: Sequence(last),
                ..ReadOptions::default()
            };
            assert_eq!(read(&store, number, options.clone()), expected);
            expected.reverse();
            options.direction = Direction::Backward;
            assert_eq!(read(&store, number, options), expected);
        }
        assert!(store.read(stream(99), ReadOptions::default()).is_err());
    }
}

/// The blocks of a pack's file, each with where it begins, where its stored bytes end, and its offset in the image.
fn blocks(pack: &[u8]) -> Vec<(usize, usize, u64)> {
    let four = |at: usize| u32::from_le_bytes(pack[at..at + 4].try_into().unwrap()) as usize;
    let footer = pack.len() - 64;
    let (table, count) = (four(footer + 24), four(footer + 32));
    (0..count)
        .map(|row| {
            let (start, image) = (8 * four(table + 8 * row), 8 * four(table + 8 * row + 4));
            (start, start + 32 + four(start + 8), image as u64)
        })
        .collect()
}

#[test]
fn damage_to_one_block_of_the_index_costs_those_whose_rows_it_has() {
    let storage = packed();
    let name = storage
        .list()
        .unwrap()
        .into_iter()
        .find(|name| name.ends_with(".pack"))
        .unwrap();
    let files = storage.files();
    let pack = &files[&name];
    let blocks = blocks(pack);
    // Behind the records: postings of 240 kB, samples of 480 kB, the table, the trailer.
    let of_index: Vec<_> = blocks
        .iter()
        .rev()
        .take_while(|(start, end, _)| end - start < 200_000)
        .collect();
    assert!(of_index.len() >= 12, "{}", of_index.len());
    let mut outcomes = BTreeSet::new();
    for (start, end, image) in of_index {
        let mut damaged = files.clone();
        damaged.get_mut(&name).unwrap()[end - 1] ^= 1;
        let damaged = FaultyStorage::from_files(&damaged);
        let Ok(store) = Store::open_on(
            Arc::new(damaged),
            OpenOptions {
                auto_compact: false,
                ..OpenOptions::default()
            },
        ) else {
            panic!("the block at {start}, {image} in the image, kept the store from opening");
        };
        let mut whole = 0;
        for number in 0..STREAMS {
            let told = read(&store, number, ReadOptions::default());
            // Whatever is given is right, and what isn't is told.
            for (at, given) in told.iter().flatten() {
                assert_eq!(*given, text(number, *at), "{start}");
            }
            let is_whole = told.len() as u64 == RECORDS && told.iter().all(Result::is_ok);
            assert!(
                is_whole || told.contains(&Err(ErrorKind::Damaged)),
                "{start}: {number}"
            );
            whole += usize::from(is_whole);
        }
        outcomes.insert(whole);
        let found = store.verify().unwrap();
        assert!(!found.problems.is_empty(), "{start}: {found:?}");
    }
    // A block of samples costs no stream anything, one of postings one or two, and the table all.
    assert!(
        outcomes.contains(&3) && outcomes.contains(&0),
        "{outcomes:?}"
    );
    assert!(
        outcomes.contains(&1) || outcomes.contains(&2),
        "{outcomes:?}"
    );
}
