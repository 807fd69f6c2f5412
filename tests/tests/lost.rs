//! Records that can't be read, and were redacted: every read passes over them, and gives all others.

use std::{collections::BTreeMap, ops::ControlFlow, sync::Arc};

use runlog_engine::{
    CompactOptions, Direction, ErrorKind, Expected, FindOptions, Kind, Label, NewRecord,
    OpenOptions, Position, ReadOptions, Record, Sequence, Store, StreamId, SystemHost,
    storage::{Access, MemoryStorage, Storage},
};
use runlog_tests::random::Random;

const STREAMS: u64 = 5;
const RECORDS: u64 = 500;

fn options() -> OpenOptions {
    OpenOptions {
        segment_bytes_max: 64 << 10,
        auto_compact: false,
        ..OpenOptions::default()
    }
}

fn open(storage: &MemoryStorage) -> Store {
    Store::open_on(Arc::new(storage.clone()), options()).expect("it opens")
}

fn stream(number: u64) -> StreamId {
    StreamId::from_bytes((0x77_0000_u128 + u128::from(number)).to_be_bytes())
}

fn label(number: u64) -> Label {
    Label(1000 + number)
}

/// What a stream has, as read while it was whole.
type Streams = BTreeMap<StreamId, Vec<Record>>;

/// A store of several segments, with forks, truncations and snapshots; some of it is in a pack if `packs`.
fn filled(random: &mut Random, packs: bool) -> (MemoryStorage, Streams) {
    let storage = MemoryStorage::new();
    let store = open(&storage);
    let mut forks = 0;
    for number in 0..RECORDS {
        let to = stream(random.below(STREAMS));
        let bytes = 1 + random.place(900);
        let payload = format!("{number:06} ").repeat(bytes / 7 + 1);
        let labels = [label(random.below(3))];
        let record = NewRecord {
            kind: Kind(u8::try_from(random.below(3)).expect("small")),
            labels: if random.one_in(2) { &labels } else { &[] },
            ..NewRecord::data(payload.as_bytes())
        };
        store
            .append(to, Expected::Any, &[record])
            .expect("it takes it");
        if random.one_in(40) {
            let last = store
                .stream(to)
                .expect("known")
                .expect("it is there")
                .last_sequence
                .0;
            let after = Sequence(last - random.below(last.min(4)));
            store.truncate(to, after).expect("it truncates");
        }
        if random.one_in(60) {
            let last = store
                .stream(to)
                .expect("known")
                .expect("it is there")
                .last_sequence
                .0;
            let at = Sequence(random.below(last + 1));
            store.fork(to, at, stream(100 + forks)).expect("it forks");
            forks += 1;
        }
        if packs && number == RECORDS / 2 {
            store
                .compact(CompactOptions::default())
                .expect("it compacts");
        }
    }
    let streams = read_all(&store);
    store.close().expect("it closes");
    (storage, streams)
}

fn files(storage: &MemoryStorage) -> Vec<(String, Vec<u8>)> {
    let names = storage.list().expect("it lists");
    names
        .into_iter()
        .map(|name| {
            let file = storage.open(&name, Access::Read).expect("it opens");
            let length = file.len().expect("it has a length");
            let mut bytes = vec![0; usize::try_from(length).expect("small")];
            file.read_at(0, &mut bytes).expect("it reads");
            (name, bytes)
        })
        .collect()
}

fn read_all(store: &Store) -> Streams {
    let ids = (0..STREAMS).chain(100..130).map(stream);
    ids.filter_map(|id| {
        let reader = store.read(id, ReadOptions::default()).ok()?;
        Some((
            id,
            reader.collect::<Result<Vec<_>, _>>().expect("it is whole"),
        ))
    })
    .collect()
}

/// Damages a few places of the segments and packs behind their headers, and says what it did.
fn damage(random: &mut Random, storage: &MemoryStorage) -> String {
    let names: Vec<String> = storage
        .list()
        .expect("it lists")
        .into_iter()
        .filter(|name| name.ends_with(".seg") || name.ends_with(".pack"))
        .collect();
    let mut done = Vec::new();
    for _ in 0..=random.below(3) {
        let name = &names[random.place(names.len())];
        let file = storage.open(name, Access::Write).expect("it opens");
        let length = file.len().expect("it has a length");
        let bytes = [1, 8, 100, 512, 4096][random.place(5)];
        if length < 8192 + bytes {
            continue;
        }
        // Before the index block, which has tests of its own.
        let at = 4096 + random.below((length - 4096) * 3 / 4 - bytes.min(4000));
        let mut there = vec![0; usize::try_from(bytes).expect("small")];
        file.read_at(at, &mut there).expect("it reads");
        if random.one_in(2) {
            there.fill(0);
        } else {
            there.iter_mut().for_each(|byte| *byte ^= 0x5a);
        }
        file.write_at(at, &there).expect("it writes");
        done.push(format!("{bytes} bytes of {name} at {at}"));
    }
    done.join(", ")
}

/// What a read of a stream gives: `None` for a record that can't be read.
fn read_what_is_there(store: &Store, id: StreamId) -> Vec<Option<Record>> {
    let reader = store.read(id, ReadOptions::default()).expect("it is there");
    reader
        .map(|record| match record {
            Ok(record) => Some(record),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
                None
            }
        })
        .collect()
}

fn check(seed: u64, packs: bool) -> usize {
    let mut random = Random::new(seed);
    let (storage, streams) = filled(&mut random, packs);
    let whole = files(&storage);
    let done = damage(&mut random, &storage);
    let what = format!("seed {seed}, packs {packs}, {done}");
    let shared: Arc<dyn Storage> = Arc::new(storage.clone());
    let repaired = match runlog_engine::repair(&shared, "test", &SystemHost) {
        Ok(repaired) => repaired,
        Err(error) => {
            // A pack without a readable index isn't replaced.
            assert_eq!(error.kind(), ErrorKind::Damaged, "{what}: {error}");
            return 0;
        }
    };
    let store = open(&storage);
    let mut whole_positions = std::collections::BTreeSet::new();
    runlog_engine::salvage(&storage, &mut |record| {
        whole_positions.extend(record.position.filter(|_| !record.is_cut));
        ControlFlow::Continue(())
    })
    .expect("it reads");
    let mut lost = BTreeMap::new();
    for (id, records) in &streams {
        let Ok(unreadable) = store.unreadable(*id) else {
            panic!("{what}: {id} is gone");
        };
        let there = read_what_is_there(&store, *id);
        if there.len() < records.len() {
            // One error stands for all records of a pack whose index is damaged.
            continue;
        }
        for (found, was) in there.iter().zip(records) {
            assert!(
                found.is_some() || !whole_positions.contains(&was.position),
                "{what}: {was:?} is whole, and isn't read"
            );
        }
        let missing: Vec<Sequence> = (1..)
            .zip(&there)
            .filter(|(_, record)| record.is_none())
            .map(|(sequence, _)| Sequence(sequence))
            .collect();
        let told: Vec<Sequence> = unreadable.iter().map(|(sequence, _)| *sequence).collect();
        assert_eq!(told, missing, "{what}: what can't be read of {id}");
        for (sequence, position) in &unreadable {
            let before = lost.insert((*id, *sequence), *position);
            assert_eq!(before, None);
        }
    }
    let positions: std::collections::BTreeSet<Position> = lost.values().copied().collect();
    let passes_over = seed.is_multiple_of(2);
    if passes_over {
        let positions: Vec<Position> = positions.iter().copied().collect();
        store
            .pass_over(&positions, "it can't be read")
            .unwrap_or_else(|error| panic!("{what}: {error}"));
    } else {
        for position in &positions {
            store
                .redact(*position, "it can't be read")
                .unwrap_or_else(|error| panic!("{what}: {error}"));
        }
    }
    let as_read = |store: &Store, when: &str| {
        for (id, records) in &streams {
            let there = read_what_is_there(store, *id);
            if there.len() < records.len() {
                continue;
            }
            assert_eq!(there.len(), records.len(), "{what} {when}");
            for (sequence, (found, was)) in (1..).zip(there.iter().zip(records)) {
                let found = found
                    .as_ref()
                    .unwrap_or_else(|| panic!("{what} {when}: {sequence} of {id} is an error"));
                assert_eq!(found.sequence, Sequence(sequence), "{what} {when}");
                assert_eq!(found.stream, was.stream, "{what} {when}");
                match lost.get(&(*id, Sequence(sequence))) {
                    Some(position) => {
                        assert!(found.redacted && found.payload.is_empty(), "{what} {when}");
                        assert_eq!(found.position, *position, "{what} {when}");
                        assert_eq!(
                            found.position, was.position,
                            "{what} {when}: the position of a lost record"
                        );
                    }
                    None => assert_eq!(found, was, "{what} {when}"),
                }
            }
            let backward = ReadOptions {
                direction: Direction::Backward,
                ..ReadOptions::default()
            };
            let mut backward: Vec<Record> = store
                .read(*id, backward)
                .expect("it is there")
                .collect::<Result<_, _>>()
                .unwrap_or_else(|error| panic!("{what} {when}, backward: {error}"));
            backward.reverse();
            let forward: Vec<Record> = there.into_iter().flatten().collect();
            assert!(backward == forward, "{what} {when}, backward");
            for kind in 0..3 {
                let of_kind = ReadOptions {
                    kinds: vec![Kind(kind)],
                    ..ReadOptions::default()
                };
                let mut whole = Vec::new();
                store
                    .read(*id, of_kind)
                    .expect("it is there")
                    .for_each_ref(|record| {
                        match record {
                            Ok(record) if record.redacted => {}
                            Ok(record) => whole.push(record.sequence),
                            Err(error) => panic!("{what} {when}, of a kind: {error}"),
                        }
                        ControlFlow::Continue(())
                    });
                let expected: Vec<Sequence> = forward
                    .iter()
                    .filter(|record| record.kind == Kind(kind) && !record.redacted)
                    .map(|record| record.sequence)
                    .collect();
                assert_eq!(whole, expected, "{what} {when}, of a kind");
            }
        }
        for number in 0..3 {
            for found in store
                .find(label(number), FindOptions::default())
                .expect("it searches")
            {
                let found = found.unwrap_or_else(|error| panic!("{what} {when}, a find: {error}"));
                assert!(!found.redacted, "{what} {when}");
            }
        }
        for position in &positions {
            let found = store.record(*position);
            let found = found.unwrap_or_else(|error| panic!("{what} {when}: {error}"));
            assert!(found.is_some_and(|record| record.redacted), "{what} {when}");
        }
        // Engine records and what was truncated may be lost too, which a scan tells.
        for record in store.scan(Position::FIRST).expect("it scans").flatten() {
            assert!(!positions.contains(&record.position) || record.redacted);
        }
    };
    if there_is_no_pack_without_index(&store, &streams) {
        as_read(&store, "as redacted");
        store.close().expect("it closes");
        let store = open(&storage);
        as_read(&store, "opened again");
        store
            .compact(CompactOptions::default())
            .expect("it compacts what it can");
        as_read(&store, "compacted");
        let left = runlog_engine::verify(&storage).expect("it verifies");
        assert!(
            left.problems.iter().all(|problem| problem.is_loss),
            "{what}: {:?}",
            left.problems
        );
        // What is passed over is there again once its file is restored; what is redacted isn't.
        if repaired.actions.is_empty() && !left.problems.is_empty() {
            store.close().expect("it closes");
            for (name, bytes) in &whole {
                let is_log = name.ends_with(".seg") || name.ends_with(".pack");
                if is_log && let Ok(file) = storage.open(name, Access::Write) {
                    let length = usize::try_from(file.len().expect("known")).expect("small");
                    let there = &bytes[..bytes.len().min(length)];
                    file.write_at(0, there).expect("it writes");
                }
            }
            let restored = open(&storage);
            for (id, records) in &streams {
                let found = restored
                    .read(*id, ReadOptions::default())
                    .expect("it is there");
                for (found, was) in found.zip(records) {
                    let found = found.unwrap_or_else(|error| panic!("{what}, restored: {error}"));
                    let is_lost = lost.contains_key(&(*id, found.sequence));
                    assert_eq!(found.redacted, is_lost && !passes_over, "{what}, restored");
                    assert!(found.redacted || found == *was, "{what}, restored");
                }
            }
        }
    }
    positions.len()
}

fn there_is_no_pack_without_index(store: &Store, streams: &Streams) -> bool {
    streams
        .iter()
        .all(|(id, records)| read_what_is_there(store, *id).len() == records.len())
}

#[test]
fn lost_records_that_were_redacted_are_passed_over_by_every_read() {
    let lost: usize = (0..60).map(|seed| check(seed, false)).sum();
    assert!(lost > 100, "too little was lost to show anything: {lost}");
}

#[test]
fn lost_records_of_packs_that_were_redacted_are_passed_over_by_every_read() {
    let lost: usize = (0..60).map(|seed| check(seed, true)).sum();
    assert!(lost > 100, "too little was lost to show anything: {lost}");
}

/// Takes the index block of a sealed segment away, by itself or with a part of the records.
fn tear(random: &mut Random, storage: &MemoryStorage) -> String {
    let names = storage.list().expect("it lists");
    let sealed: Vec<&String> = names.iter().filter(|name| name.ends_with(".seg")).collect();
    let name = sealed[random.place(sealed.len() - 1)];
    let file = storage.open(name, Access::Write).expect("it opens");
    let length = file.len().expect("it has a length");
    if random.one_in(2) {
        let to = 4096 + random.below(length - 4096);
        file.set_len(to).expect("it is cut");
        return format!("{name} cut to {to}");
    }
    let mut byte = [0];
    file.read_at(length - 200, &mut byte).expect("it reads");
    file.write_at(length - 200, &[!byte[0]]).expect("it writes");
    let at = 4096 + random.below((length - 4096) / 2);
    file.write_at(at, &[0xa5; 512]).expect("it writes");
    format!("{name} without index block, and with 512 bytes at {at}")
}

#[test]
fn lost_records_of_torn_segments_are_passed_over_and_no_others() {
    let mut lost = 0;
    for seed in 0..80 {
        let mut random = Random::new(seed);
        let (storage, streams) = filled(&mut random, false);
        let done = tear(&mut random, &storage);
        let what = format!("seed {seed}, {done}");
        let shared: Arc<dyn Storage> = Arc::new(storage.clone());
        let repaired = runlog_engine::repair(&shared, "test", &SystemHost);
        repaired.unwrap_or_else(|error| panic!("{what}: {error}"));
        let store = open(&storage);
        let mut before = BTreeMap::new();
        for id in streams.keys() {
            let Ok(unreadable) = store.unreadable(*id) else {
                continue;
            };
            let there = read_what_is_there(&store, *id);
            let missing = there.iter().filter(|record| record.is_none()).count();
            assert_eq!(
                unreadable.len(),
                missing,
                "{what}: what can't be read of {id}"
            );
            lost += missing;
            let positions: Vec<Position> = unreadable.into_iter().map(|it| it.1).collect();
            before.insert(*id, (there, positions));
        }
        let all: std::collections::BTreeSet<Position> = before
            .values()
            .flat_map(|(_, positions)| positions.iter().copied())
            .collect();
        let all: Vec<Position> = all.into_iter().collect();
        let passed = store.pass_over(&all, "it can't be read");
        passed.unwrap_or_else(|error| panic!("{what}: {error}"));
        for (id, (there, _)) in &before {
            let after = read_what_is_there(&store, *id);
            assert_eq!(after.len(), there.len(), "{what}");
            for (sequence, (after, there)) in (1_u64..).zip(after.iter().zip(there)) {
                let after = after.as_ref().unwrap_or_else(|| {
                    panic!("{what}: sequence {sequence} of {id} is still an error")
                });
                match there {
                    Some(there) => assert_eq!(after, there, "{what}"),
                    None => assert!(after.redacted && after.payload.is_empty(), "{what}"),
                }
            }
        }
    }
    assert!(lost > 500, "too little was lost to show anything: {lost}");
}

#[test]
fn records_before_a_damaged_block_of_a_pack_are_read() {
    let storage = MemoryStorage::new();
    let store = open(&storage);
    for number in 0..200_u64 {
        // What can't be compressed, so that there are many blocks.
        let mut payload = vec![0; 100];
        Random::new(number).fill(&mut payload);
        let records = vec![NewRecord::data(&payload); 100];
        for to in 1..=7 {
            store
                .append(stream(to), Expected::Any, &records)
                .expect("it takes it");
        }
    }
    store
        .compact(CompactOptions::default())
        .expect("it compacts");
    store.close().expect("it closes");
    let names = storage.list().expect("it lists");
    let pack = names
        .iter()
        .find(|name| name.ends_with(".pack"))
        .expect("it has one");
    let file = storage.open(pack, Access::Write).expect("it opens");
    let at = file.len().expect("it has a length") / 2;
    file.write_at(at, &[0xa5; 64]).expect("it writes");
    let mut whole = 0;
    runlog_engine::salvage(&storage, &mut |record| {
        whole += usize::from(record.kind.is_data());
        ControlFlow::Continue(())
    })
    .expect("it reads");
    assert!((70_000..140_000).contains(&whole), "{whole}");
    let store = open(&storage);
    let read = (1..=7).map(|number| read_what_is_there(&store, stream(number)));
    let read: usize = read.map(|there| there.iter().flatten().count()).sum();
    assert_eq!(read, whole);
}

#[test]
fn engine_records_and_positions_of_nothing_are_not_redacted() {
    let storage = MemoryStorage::new();
    let store = open(&storage);
    let one = NewRecord::data(b"one");
    store.append(stream(1), Expected::Any, &[one]).unwrap();
    let refused = store.redact(Position(1), "the creation").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    let refused = store.redact(Position(3), "nothing").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound);
    assert_eq!(store.unreadable(stream(1)).unwrap(), []);
}
