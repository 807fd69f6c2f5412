//! A backup of a store that is in use is a store of its own: consistent, grown by what is new, and a prefix wherever it
//! was cut off.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::sync::Arc;

use runlog_engine::{
    Batch, Durability, ErrorKind, Expected, Kind, NewRecord, Op, OpenOptions, Position, ReadOptions, Store, StreamId,
    storage::Storage, verify,
};
use runlog_tests::{
    faulty::{Failure, Fault, FaultyStorage, Lasting},
    host::TestHost,
};

const STREAM: StreamId = StreamId::from_bytes(*b"backed up stream");

fn options() -> OpenOptions {
    let options = OpenOptions::with_host(Arc::new(TestHost::new(1)));
    OpenOptions { segment_bytes_max: 64 << 10, durability: Durability::Os, ..options }
}

fn open(storage: &FaultyStorage) -> Store {
    Store::open_on(Arc::new(storage.clone()), options()).unwrap()
}

/// Appends so many records, each of which says its number.
fn append(store: &Store, from: u64, count: u64) {
    for number in from..from + count {
        let meta = number.to_le_bytes();
        let payload = vec![u8::try_from(number % 251).unwrap(); 1_000];
        let records = vec![NewRecord { kind: Kind::DATA, meta: &meta, payload: &payload }];
        store.commit(&Batch::new(vec![Op::Append { stream: STREAM, expected: Expected::Any, records }])).unwrap();
    }
}

/// The numbers of the records of a store, which is sound.
fn numbers(storage: &FaultyStorage) -> Vec<u64> {
    let verified = verify(storage).unwrap();
    assert_eq!(verified.problems_count, 0, "{:?}", verified.problems);
    let store = open(&storage.copy());
    let Ok(read) = store.read(STREAM, ReadOptions::default()) else { return Vec::new() };
    read.map(|record| u64::from_le_bytes(record.unwrap().meta.as_ref().try_into().unwrap())).collect()
}

#[test]
fn a_backup_has_what_was_acknowledged_and_the_next_one_what_is_new() {
    let (storage, target) = (FaultyStorage::new(), FaultyStorage::new());
    let store = open(&storage);
    append(&store, 0, 200);
    let first = store.backup(&target).unwrap();
    assert_eq!(numbers(&target), (0..200).collect::<Vec<_>>());
    assert!(first.copied > 2 && first.kept == 0, "{first:?}");

    append(&store, 200, 100);
    let second = store.backup(&target).unwrap();
    assert_eq!(numbers(&target), (0..300).collect::<Vec<_>>());
    assert!(second.kept >= first.copied - 1 && second.copied <= 3, "{second:?} after {first:?}");
    assert!(second.last_position > first.last_position);
    let third = store.backup(&target).unwrap();
    assert_eq!((third.copied, third.bytes), (0, 0), "nothing is new: {third:?}");

    // Of a reader too, and of a store that was closed.
    let reader = Store::open_on(Arc::new(storage.clone()), options().read_only()).unwrap();
    store.close().unwrap();
    let other = FaultyStorage::new();
    reader.backup(&other).unwrap();
    assert_eq!(numbers(&other), (0..300).collect::<Vec<_>>());
    // The backup is a store like any other.
    let restored = open(&target);
    append(&restored, 300, 1);
    assert_eq!(restored.last_position().unwrap(), Position(third.last_position.0 + 1));
    restored.close().unwrap();
    let error = open(&storage).backup(&target).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "what was written to it would be lost: {error}");
}

#[test]
fn a_backup_goes_nowhere_else() {
    let storage = FaultyStorage::new();
    let store = open(&storage);
    append(&store, 0, 1);
    let another = FaultyStorage::new();
    let options = OpenOptions { host: Arc::new(TestHost::new(2)), ..options() };
    Store::open_on(Arc::new(another.clone()), options).unwrap().close().unwrap();
    let before = another.files();
    assert_eq!(store.backup(&another).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(another.files(), before);
    let other = FaultyStorage::new();
    other.create("notes.txt").unwrap();
    let error = store.backup(&other).unwrap_err();
    assert!(error.to_string().contains("has other files, such as notes.txt"), "{error}");
    // Its own folder is open for writing, or has what a writer leaves.
    assert!(store.backup(&storage).is_err());
}

#[test]
fn a_backup_beside_a_writer_is_a_prefix_of_what_was_written() {
    let (storage, target) = (FaultyStorage::new(), FaultyStorage::new());
    let store = open(&storage);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| append(&store, 0, 2_000));
        while !writer.is_finished() {
            store.backup(&target).unwrap();
            let found = numbers(&target);
            assert_eq!(found, (0..found.len() as u64).collect::<Vec<_>>());
        }
    });
    store.backup(&target).unwrap();
    assert_eq!(numbers(&target).len(), 2_000);
}

/// Whatever operation of it fails, and after whatever a power cut leaves of it, there is a store that ends earlier or none
/// yet; and the next backup completes it.
#[test]
fn a_backup_that_is_cut_off_is_a_store_that_ends_earlier() {
    let storage = FaultyStorage::new();
    let store = open(&storage);
    append(&store, 0, 150);
    let earlier = FaultyStorage::new();
    store.backup(&earlier).unwrap();
    append(&store, 150, 150);
    for (begun, at_least) in [(FaultyStorage::new(), 0), (earlier, 150)] {
        for failure in [Failure::Io, Failure::Full, Failure::PowerLoss] {
            let mut after = 0;
            loop {
                let target = begun.copy();
                target.arm(Fault { after, failure, lasting: Lasting::ForGood });
                let done = store.backup(&target);
                target.arm(None);
                let left = if failure == Failure::PowerLoss { target.crashed(after) } else { target.copy() };
                let is_store = left.files().contains_key("RUNLOG");
                let found = if is_store { numbers(&left).len() } else { 0 };
                assert!(found >= at_least, "{failure:?} after {after}: {found}");
                store.backup(&left).unwrap();
                assert_eq!(numbers(&left).len(), 300, "{failure:?} after {after}");
                if done.is_ok() {
                    break;
                }
                after += 1;
            }
            assert!(after > 5, "{failure:?}: {after} operations");
        }
    }
}

/// A store that was restored from an earlier backup has lost what the later one has: that is never written over.
#[test]
fn a_backup_that_is_ahead_of_the_store_is_left_alone() {
    for (before, lost, after) in [(5, 8, 0), (5, 8, 2), (5, 8, 20), (150, 100, 0), (150, 100, 200)] {
        let (storage, first, second) = (FaultyStorage::new(), FaultyStorage::new(), FaultyStorage::new());
        let store = open(&storage);
        append(&store, 0, before);
        store.backup(&first).unwrap();
        append(&store, before, lost);
        store.backup(&second).unwrap();
        let restored = open(&first);
        append(&restored, 1_000, after);
        let kept = second.files();
        let error = restored.backup(&second).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{before}, {lost}, {after}: {error}");
        assert!(second.files() == kept, "{before}, {lost}, {after}");
    }
}
