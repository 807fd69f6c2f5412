//! The index of a large pack, of which reads decode only the part that they need.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::{collections::BTreeSet, sync::Arc};

use runlog_engine::{
    Batch, CompactOptions, CompactScope, Direction, Durability, Error, ErrorKind, Expected, Label,
    NewRecord, Op, OpenOptions, ReadOptions, Repair, Sequence, Store, SystemHost, repair,
    storage::Storage, verify,
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

fn repaired(storage: &FaultyStorage) -> Result<Repair, Error> {
    let storage: Arc<dyn Storage> = Arc::new(storage.clone());
    repair(&storage, "test", &SystemHost)
}

fn name_of_pack(storage: &FaultyStorage) -> String {
    let names = storage.list().unwrap();
    names.into_iter().find(|it| it.ends_with(".pack")).unwrap()
}

/// So many blocks of a large pack, and no more, are of its index.
const BLOCKS_OF_INDEX: usize = 12;

/// The ranges of the file that the blocks of the index take, the trailer's first.
fn blocks_of_index(pack: &[u8]) -> Vec<(usize, usize)> {
    let blocks = blocks(pack);
    let sizes = blocks.iter().rev();
    sizes
        .take(BLOCKS_OF_INDEX)
        .map(|(start, end, _)| (*start, *end))
        .collect()
}

#[test]
fn damaged_index_of_a_pack_is_made_again_from_its_records() {
    let storage = packed();
    let name = name_of_pack(&storage);
    let files = storage.files();
    let (mut bytes, mut blocks_made) = (0, 0);
    for (start, end) in blocks_of_index(&files[&name]) {
        // A byte of the header, of its CRC of what is stored, of what is stored, and all that is stored.
        let damages = [
            start + 1..start + 2,
            start + 24..start + 25,
            end - 1..end,
            start + 32..end,
        ];
        for damage in damages {
            for has_checkpoint in [true, false] {
                let mut damaged = files.clone();
                let pack = damaged.get_mut(&name).unwrap();
                pack[damage.clone()]
                    .iter_mut()
                    .for_each(|byte| *byte ^= 0xa5);
                if !has_checkpoint {
                    damaged.remove("CHECKPOINT");
                }
                let storage = FaultyStorage::from_files(&damaged);
                let found = verify(&storage).unwrap();
                assert!(found.to_restore.is_empty(), "{damage:?}: {found:?}");
                assert!(found.problems.iter().all(|it| !it.is_loss), "{found:?}");
                assert_eq!(storage.files(), damaged, "a look changes nothing");
                let done = repaired(&storage).unwrap();
                assert!(
                    done.actions
                        .iter()
                        .any(|it| it.contains("wrote its index again"))
                );
                assert!(storage.files()[&name] == files[&name], "{damage:?}");
                bytes += damage.len();
            }
        }
        blocks_made += 1;
    }
    assert!(
        blocks_made == BLOCKS_OF_INDEX && bytes > 100_000,
        "{blocks_made} {bytes}"
    );
    // Not where records are lost, too: nothing is changed then.
    let mut damaged = files.clone();
    let pack = damaged.get_mut(&name).unwrap();
    let (start, end) = blocks_of_index(pack)[0];
    pack[start + 32..end].fill(0);
    pack[5000] ^= 1;
    let storage = FaultyStorage::from_files(&damaged);
    assert!(!verify(&storage).unwrap().to_restore.is_empty());
    assert_eq!(repaired(&storage).unwrap_err().kind(), ErrorKind::Damaged);
    assert_eq!(storage.files(), damaged);
}

/// Streams that are made, forked, truncated, saved, deleted, with keys and labels, compacted once or twice.
fn mixed(random: &mut Random, drops: bool) -> FaultyStorage {
    let storage = FaultyStorage::new();
    let options = OpenOptions {
        durability: Durability::Os,
        auto_compact: false,
        segment_bytes_max: 64 << 10,
        ..OpenOptions::default()
    };
    let store = Store::open_on(Arc::new(storage.clone()), options).unwrap();
    for round in 0..2 {
        for step in 0..400_u64 {
            let own = stream(random.below(12));
            let label = [Label(random.below(9)), Label(100 + step)];
            let payload = vec![7; usize::try_from(random.below(300)).unwrap()];
            let record = NewRecord {
                labels: &label[..usize::try_from(random.below(3)).unwrap()],
                ..NewRecord::data(&payload)
            };
            let ops = vec![Op::Append {
                stream: own,
                expected: Expected::Any,
                records: vec![record; 1 + usize::try_from(random.below(4)).unwrap()],
            }];
            let key = format!("{round}-{step}");
            let mut batch = Batch::new(ops);
            if random.below(3) == 0 {
                batch = batch.with_key(key.as_bytes());
            }
            // A stream that was deleted refuses it.
            let _ = store.commit(&batch);
            let last = store
                .stream(own)
                .unwrap()
                .map_or(0, |info| info.last_sequence.0);
            let at = Sequence(random.below(last + 1));
            let child = stream(1000 + 1000 * round + step);
            let _ = match random.below(if drops { 12 } else { 6 }) {
                0 => store.fork(own, at, child).map(drop),
                1 => store.snapshot(own, at, &payload).map(drop),
                6 => store.truncate(own, at).map(drop),
                7 if step % 20 == 0 => store.delete(own).map(drop),
                _ => Ok(()),
            };
        }
        let scope = CompactScope::All;
        let options = CompactOptions {
            scope,
            ..CompactOptions::default()
        };
        store.compact(options).unwrap();
    }
    store.close().unwrap();
    storage
}

#[test]
fn index_that_is_made_again_is_the_one_that_was_written() {
    let mut random = Random::new(24);
    let (mut made, mut refused) = (0, 0);
    for round in 0..16 {
        let drops = round % 2 == 1;
        let storage = mixed(&mut random, drops);
        let files = storage.files();
        let packs: Vec<String> = files
            .keys()
            .filter(|it| it.ends_with(".pack"))
            .cloned()
            .collect();
        for name in packs {
            for (start, end) in blocks_of_index(&files[&name]).into_iter().take(6) {
                let mut damaged = files.clone();
                damaged.get_mut(&name).unwrap()[start + 32..end]
                    .iter_mut()
                    .for_each(|it| *it ^= 1);
                let storage = FaultyStorage::from_files(&damaged);
                match repaired(&storage) {
                    Ok(_) if storage.files()[&name] == files[&name] => made += 1,
                    // A block of records.
                    Ok(done) => {
                        assert!(!done.actions.iter().any(|it| it.contains("its index again")))
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Damaged);
                        assert_eq!(storage.files(), damaged);
                        refused += 1;
                    }
                }
            }
        }
    }
    assert!(made > 20 && refused > 5, "{made} {refused}");
}
