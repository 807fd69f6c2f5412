//! Compaction, asked for and automatic, on a device that is full or fills up: nothing acknowledged is lost, and once there is
//! room everything goes on without opening the store again.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::{sync::Arc, thread, time::Duration};

use runlog_engine::{
    Codec, CompactOptions, CompactScope, Compaction, Durability, ErrorKind, Expected, NewRecord,
    OpenOptions, ReadOptions, Result, Sequence, Store, StreamId,
};
use runlog_tests::{
    answers::{answers, difference, line},
    faulty::{Call, Failure, Fault, FaultyStorage, Lasting, Operation},
    processes::stream,
    random::Random,
};

fn options() -> OpenOptions {
    OpenOptions {
        durability: Durability::Os,
        segment_bytes_max: 64 << 10,
        auto_compact: false,
        ..OpenOptions::default()
    }
}

fn open(storage: &FaultyStorage, options: OpenOptions) -> Store {
    Store::open_on(Arc::new(storage.clone()), options).unwrap()
}

fn compact(store: &Store, scope: CompactScope) -> Result<Compaction> {
    store.compact(CompactOptions {
        scope,
        codec: Codec::Plain,
        ..CompactOptions::default()
    })
}

fn append(store: &Store, stream: StreamId, bytes: usize) -> Result<()> {
    let payload = vec![1; bytes];
    let record = NewRecord::data(&payload);
    store.append(stream, Expected::Any, &[record]).map(drop)
}

fn assert_same(before: &[String], store: &Store, when: &str) {
    let after = answers(store, 0).unwrap_or_else(|error| panic!("{when}: {error}"));
    if let Some(difference) = difference(before, &after) {
        panic!("{when}: {difference}");
    }
}

/// Segments half of whose records were given up, each time the same.
fn half_given_up() -> (FaultyStorage, Store) {
    let storage = FaultyStorage::new();
    let store = open(&storage, options());
    for number in 0..600 {
        append(&store, stream(number % 4), 1000).unwrap();
    }
    store.truncate(stream(0), Sequence(3)).unwrap();
    store.delete(stream(1)).unwrap();
    store.sync().unwrap();
    (storage, store)
}

fn names(storage: &FaultyStorage, suffix: &str) -> Vec<String> {
    let files = storage.files();
    let names = files.keys().filter(|name| name.ends_with(suffix));
    names.cloned().collect()
}

/// A finished pack that doesn't get its name, or whose name isn't durable, is given up, with the room that it takes.
#[test]
fn pack_that_could_not_be_named_does_not_block_later_compactions() {
    let mut hits = Vec::new();
    for failure in [Failure::Full, Failure::Io] {
        for after in 0.. {
            let (storage, store) = half_given_up();
            let before = answers(&store, 0).unwrap();
            storage.arm(Fault {
                after,
                failure,
                lasting: Lasting::Once,
            });
            let result = compact(&store, CompactScope::Sealed);
            let Some(hit) = storage.hit() else {
                break;
            };
            let is_naming = hit.name.ends_with(".pack") && hit.call == Call::Rename;
            if !is_naming && hit.call != Call::SyncDir {
                continue;
            }
            storage.arm(None);
            let when = format!("{failure:?} of {hit:?}: {result:?}");
            assert_same(&before, &store, &when);
            for seed in 0..8 {
                let crashed = open(&storage.crashed(seed), options());
                assert_same(&before, &crashed, &format!("{when}, crashed"));
            }
            compact(&store, CompactScope::Sealed)
                .unwrap_or_else(|error| panic!("{when}; then: {error}"));
            assert_eq!(names(&storage, ".tmp"), [""; 0], "{when}");
            assert_same(&before, &store, &format!("{when}, compacted"));
            for seed in 0..8 {
                let crashed = open(&storage.crashed(seed), options());
                assert_same(&before, &crashed, &format!("{when}, compacted, crashed"));
            }
            append(&store, stream(2), 10).unwrap();
            assert!(store.verify().unwrap().is_sound(), "{when}");
            store.close().unwrap();
            hits.push((failure, hit.call));
        }
    }
    for failure in [Failure::Full, Failure::Io] {
        for call in [Call::Rename, Call::SyncDir] {
            assert!(hits.contains(&(failure, call)), "{failure:?} of {call:?}");
        }
    }
}

/// While a pack can be named but not made durable, nor taken out of the folder again, there is no second one. Who opens the store
/// meanwhile reads from it, also after it is gone.
#[test]
fn pack_whose_name_cannot_be_flushed_is_the_only_one_until_it_can_be_given_up() {
    let mut left = 0;
    for after in 0.. {
        let (storage, store) = half_given_up();
        storage.arm(Fault {
            after,
            failure: Failure::Full,
            lasting: Lasting::ForGood,
        });
        compact(&store, CompactScope::Sealed).unwrap_or_default();
        let Some(hit) = storage.hit() else {
            break;
        };
        // Once the sources are removed it is in their place.
        if hit.call != Call::SyncDir || names(&storage, ".seg").len() == 1 {
            continue;
        }
        let packs = names(&storage, ".pack");
        left += packs.len();
        let error = compact(&store, CompactScope::Sparse).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
        assert_eq!(names(&storage, ".pack"), packs, "{hit:?}");
        let reader = storage.unharmed(|| open(&storage, options().read_only()));
        storage.arm(None);
        // So that the next pack has another range.
        for _ in 0..150 {
            append(&store, stream(2), 1000).unwrap();
        }
        compact(&store, CompactScope::Sealed).unwrap();
        assert_eq!(names(&storage, ".pack").len(), 1, "{hit:?}");
        store.delete(stream(2)).unwrap();
        compact(&store, CompactScope::Sealed).unwrap();
        for store in [&store, &reader] {
            for kept in [stream(0), stream(3)] {
                let records = store.read(kept, ReadOptions::default()).unwrap();
                let count = records.map(Result::unwrap).count();
                let info = store.stream(kept).unwrap().unwrap();
                assert_eq!(count as u64, info.last_sequence.0, "{hit:?}");
            }
        }
        let now = answers(&store, 0).unwrap();
        assert_same(&now, &reader, &format!("{hit:?}, another process"));
        for seed in 0..8 {
            let crashed = open(&storage.crashed(seed), options());
            assert_same(&now, &crashed, &format!("{hit:?}, crashed"));
        }
    }
    assert!(left > 0, "none was left");
}

/// Copy-on-write file systems need room to remove a file: what couldn't be removed then is removed by the next compaction.
#[test]
fn what_a_pack_replaced_and_could_not_be_removed_goes_with_the_next_compaction() {
    let mut refused = 0;
    for after in 0.. {
        let (storage, store) = half_given_up();
        let before = answers(&store, 0).unwrap();
        storage.arm(Fault {
            after,
            failure: Failure::Full,
            lasting: Lasting::Once,
        });
        let result = compact(&store, CompactScope::Sealed);
        let Some(hit) = storage.hit() else {
            break;
        };
        storage.arm(None);
        if hit.call != Call::Remove || !hit.name.ends_with(".seg") {
            continue;
        }
        assert_same(&before, &store, &format!("{hit:?}: {result:?}"));
        compact(&store, CompactScope::Sealed).unwrap();
        let left = names(&storage, ".seg");
        assert_eq!(left.len(), 1, "{hit:?}: the active one alone, not {left:?}");
        assert_same(&before, &store, &format!("{hit:?}, compacted"));
        store.close().unwrap();
        let store = open(&storage, options());
        assert_same(&before, &store, &format!("{hit:?}, opened again"));
        refused += 1;
    }
    assert!(refused > 2, "{refused} removals were refused");
}

/// Who erases relies on it: as long as a file that was replaced is there, what was to be given up can still be read from it.
#[test]
fn compaction_does_not_succeed_while_what_was_replaced_is_still_there() {
    let mut refused = 0;
    for after in 0.. {
        let (storage, store) = half_given_up();
        let before = answers(&store, 0).unwrap();
        storage.arm(Fault {
            after,
            failure: Failure::Full,
            lasting: Lasting::ForGood,
        });
        let result = compact(&store, CompactScope::Sealed);
        let Some(hit) = storage.hit() else {
            break;
        };
        if hit.call != Call::Remove || !hit.name.ends_with(".seg") {
            continue;
        }
        for result in [result, compact(&store, CompactScope::Sealed)] {
            let error = result.expect_err("its files are there");
            assert_eq!(error.kind(), ErrorKind::StorageFull, "{hit:?}: {error}");
        }
        assert!(names(&storage, ".seg").len() > 1, "{hit:?}");
        assert_same(&before, &store, &format!("{hit:?}"));
        storage.arm(None);
        compact(&store, CompactScope::Sealed).unwrap();
        assert_eq!(names(&storage, ".seg").len(), 1, "{hit:?}");
        refused += 1;
    }
    assert!(refused > 2, "{refused} removals were refused");
}

/// It has records that may be erased later.
#[test]
fn unfinished_pack_that_could_not_be_removed_goes_with_the_next_compaction() {
    let mut left = 0;
    for after in 0.. {
        let (storage, store) = half_given_up();
        storage.arm(Fault {
            after,
            failure: Failure::Full,
            lasting: Lasting::ForGood,
        });
        let result = compact(&store, CompactScope::Sealed);
        let Some(hit) = storage.hit() else {
            break;
        };
        let unfinished = names(&storage, ".pack.tmp");
        if unfinished.is_empty() {
            continue;
        }
        let error = result.expect_err("it has no room");
        assert_eq!(error.kind(), ErrorKind::StorageFull, "{hit:?}: {error}");
        // Not by making another one of the same name.
        compact(&store, CompactScope::Dead).expect_err("it is still there");
        storage.arm(None);
        compact(&store, CompactScope::Dead).unwrap();
        assert_eq!(names(&storage, ".pack.tmp"), [""; 0], "{hit:?}");
        left += unfinished.len();
    }
    assert!(left > 2, "{left} were left");
}

/// A store with segments of which nothing is in use, and little room in the active one.
fn with_dead_segments() -> (FaultyStorage, Store, Vec<String>) {
    let storage = FaultyStorage::new();
    let store = open(
        &storage,
        OpenOptions {
            auto_compact: true,
            ..options()
        },
    );
    append(&store, stream(0), 100).unwrap();
    for _ in 0..400 {
        append(&store, stream(1), 1000).unwrap();
    }
    store.delete(stream(1)).unwrap();
    store.sync().unwrap();
    let kept = names(&storage, ".seg");
    (storage, store, kept)
}

fn append_until_full(store: &Store) -> u64 {
    for done in 0..1000 {
        if let Err(error) = append(store, stream(0), 1000) {
            assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
            return done;
        }
    }
    panic!("the device was never full");
}

/// The append that finds no room for the next segment is refused, and what nothing refers to is given back for those after it.
#[test]
fn room_of_dead_segments_is_given_back_when_the_device_is_full() {
    let (storage, store, segments) = with_dead_segments();
    storage.leave_room(12_000);
    let done = append_until_full(&store);
    let mut more = 0;
    for _ in 0..2000 {
        match append(&store, stream(0), 1000) {
            Ok(()) => more += 1,
            Err(error) => assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}"),
        }
        if more > 100 {
            break;
        }
        thread::sleep(Duration::from_millis(5));
    }
    assert!(
        more > 100,
        "after {done} none more than {more} had room: {:?} are left of {segments:?}",
        names(&storage, "")
    );
    let info = store.stream(stream(0)).unwrap().unwrap();
    assert_eq!(info.last_sequence, Sequence(1 + done + more));
    assert!(store.verify().unwrap().is_sound());
    store.close().unwrap();
}

/// What the automatic compaction could not give back for want of room it gives back once there is some.
#[test]
fn automatic_compaction_that_found_no_room_goes_on_once_there_is() {
    let (storage, store, segments) = with_dead_segments();
    storage.leave_room(0);
    storage.take_trace();
    append_until_full(&store);
    for _ in 0..200 {
        append(&store, stream(0), 1000).unwrap_err();
        thread::sleep(Duration::from_millis(1));
    }
    let trace = storage.take_trace();
    let begun = |it: &&Operation| it.call == Call::Create && it.name.ends_with(".pack.tmp");
    let attempts = trace.iter().filter(begun).count();
    assert!(attempts < 4 * segments.len(), "{attempts} for 200 appends");
    assert_eq!(names(&storage, ".pack"), [""; 0]);
    storage.limit_room(None);
    for _ in 0..80 {
        append(&store, stream(0), 1000).unwrap();
    }
    for _ in 0..2000 {
        if names(&storage, ".pack").len() == 1 {
            break;
        }
        thread::sleep(Duration::from_millis(5));
    }
    let left = names(&storage, "");
    assert_eq!(
        names(&storage, ".pack").len(),
        1,
        "{left:?} of {segments:?}"
    );
    store.close().unwrap();
}

/// A range of which no pack had room is tried again only where that may help, however many there are.
#[test]
fn retries_of_what_found_no_room_do_not_grow_with_the_square() {
    const COUNT: usize = 100;
    const STEP: usize = 2000;
    let storage = FaultyStorage::new();
    let store = open(&storage, options());
    let mut random = Random::new(7);
    let mut append = |number: u64, bytes: usize| {
        let mut payload: Vec<u8> = (0..bytes)
            .map(|_| random.next_u64().to_le_bytes()[0])
            .collect();
        payload[..2700].fill(0);
        let record = NewRecord::data(&payload);
        store
            .append(stream(number), Expected::Any, &[record])
            .unwrap();
    };
    // Each fills a segment by itself. Of those that are damaged below every second one stays as it is, so that each of the
    // others is a range: the first ones are the largest, and each gives back about what the one before it lacks.
    for number in (0..COUNT).rev() {
        append(0, 200_000 + STEP * number);
        append(1, 70_000);
    }
    append(0, 5000);
    store.sync().unwrap();
    drop(store);
    let mut files = storage.files();
    let segments = files.iter_mut().filter(|(name, _)| name.ends_with(".seg"));
    for (_, bytes) in segments.filter(|(_, bytes)| (70_000..80_000).contains(&bytes.len())) {
        bytes[40_000] ^= 1;
    }
    let storage = FaultyStorage::from_files(&files);
    let store = open(&storage, options());
    storage.leave_room(204_000);
    storage.take_trace();
    let result = store.compact(CompactOptions {
        scope: CompactScope::Sealed,
        codec: Codec::Lz4,
        ..CompactOptions::default()
    });
    let trace = storage.take_trace();
    let is_attempt = |it: &&Operation| it.call == Call::Create && it.name.ends_with(".pack.tmp");
    let attempts = trace.iter().filter(is_attempt).count();
    let packs = names(&storage, ".pack").len();
    assert!(packs > COUNT / 3, "{packs} packs: {result:?}");
    assert!(
        attempts < 6 * COUNT,
        "{attempts} packs were begun for {COUNT} segments: {result:?}"
    );
}

/// The records that can be read, and the places of those that can't.
fn readable(store: &Store) -> Vec<String> {
    let mut told = Vec::new();
    for info in store.streams().unwrap() {
        for sequence in 1..=info.last_sequence.0 {
            let options = ReadOptions {
                first: Sequence(sequence),
                last: Sequence(sequence),
                ..ReadOptions::default()
            };
            let read = store.read(info.id, options).unwrap().next().unwrap();
            let what = read.map_or_else(|error| format!("{:?}", error.kind()), |it| line(&it));
            told.push(format!("{} {sequence}: {what}", info.id));
        }
    }
    told
}

/// Damaged segments stay as they are, and the others are compacted around them, as far as there is room.
#[test]
fn damage_met_on_a_full_device_costs_no_other_record() {
    let (mut refused, mut damaged) = (0, 0);
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let (storage, store) = half_given_up();
        store.close().unwrap();
        drop(store);
        let mut files = storage.files();
        let sealed = files.iter_mut().filter(|(name, _)| name.ends_with(".seg"));
        for (_, bytes) in sealed.rev().skip(1) {
            if random.one_in(3) {
                let place = 4096 + random.place(bytes.len() - 4096);
                bytes[place] ^= 1 << random.below(8);
            }
        }
        let storage = FaultyStorage::from_files(&files);
        let store = open(&storage, options());
        let before = readable(&store);
        for round in 0..6 {
            let when = format!("seed {seed}, round {round}");
            storage.leave_room(random.below(90_000));
            let scope = [CompactScope::Sparse, CompactScope::Sealed][random.place(2)];
            match compact(&store, scope) {
                Ok(done) => damaged += done.segments_damaged,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::StorageFull, "{when}: {error}");
                    refused += 1;
                }
            }
            assert!(readable(&store) == before, "{when}");
            let crashed = open(&storage.crashed(random.next_u64()), options());
            assert!(readable(&crashed) == before, "{when}, crashed");
        }
        storage.limit_room(None);
        compact(&store, CompactScope::Sealed).unwrap();
        assert!(readable(&store) == before, "seed {seed}, with room");
        append(&store, stream(2), 10).unwrap();
        store.close().unwrap();
    }
    assert!(refused > 20 && damaged > 20, "{refused} {damaged}");
}
