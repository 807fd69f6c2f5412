//! A backup of a store that is in use is a store of its own: consistent, grown by what is new, and a prefix wherever it
//! was cut off.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::sync::Arc;

use runlog_engine::{
    BackupOptions, Batch, CompactOptions, Durability, ErrorKind, Expected, Kind, NewRecord, Op,
    OpenOptions, Position, ReadOptions, Store, StreamId,
    storage::{Access, FsStorage, Storage},
    verify,
};
use runlog_tests::{
    faulty::{Failure, Fault, FaultyStorage, Lasting},
    host::TestHost,
};

const STREAM: StreamId = StreamId::from_bytes(*b"backed up stream");

fn options() -> OpenOptions {
    let options = OpenOptions::with_host(Arc::new(TestHost::new(1)));
    OpenOptions {
        segment_bytes_max: 64 << 10,
        durability: Durability::Os,
        ..options
    }
}

fn open(storage: &FaultyStorage) -> Store {
    Store::open_on(Arc::new(storage.clone()), options()).unwrap()
}

/// Appends so many records, each of which says its number.
fn append(store: &Store, from: u64, count: u64) {
    for number in from..from + count {
        let meta = number.to_le_bytes();
        let payload = vec![u8::try_from(number % 251).unwrap(); 1_000];
        let records = vec![NewRecord {
            labels: &[],
            kind: Kind::DATA,
            meta: &meta,
            payload: &payload,
        }];
        store
            .commit(&Batch::new(vec![Op::Append {
                stream: STREAM,
                expected: Expected::Any,
                records,
            }]))
            .unwrap();
    }
}

/// The numbers of the records of a store, which is sound.
fn numbers(storage: &FaultyStorage) -> Vec<u64> {
    let verified = verify(storage).unwrap();
    assert_eq!(verified.problems_count, 0, "{:?}", verified.problems);
    let store = open(&storage.copy());
    let Ok(read) = store.read(STREAM, ReadOptions::default()) else {
        return Vec::new();
    };
    read.map(|record| u64::from_le_bytes(record.unwrap().meta.as_ref().try_into().unwrap()))
        .collect()
}

#[test]
fn a_backup_has_what_was_acknowledged_and_the_next_one_what_is_new() {
    let (storage, target) = (FaultyStorage::new(), FaultyStorage::new());
    let store = open(&storage);
    append(&store, 0, 200);
    let first = store.backup(&target).unwrap();
    assert_eq!(numbers(&target), (0..200).collect::<Vec<_>>());
    assert!(
        first.segments_copied > 2 && first.segments_kept == 0,
        "{first:?}"
    );

    append(&store, 200, 100);
    let second = store.backup(&target).unwrap();
    assert_eq!(numbers(&target), (0..300).collect::<Vec<_>>());
    assert!(
        second.segments_kept >= first.segments_copied - 1 && second.segments_copied <= 3,
        "{second:?} after {first:?}"
    );
    assert!(second.last_position > first.last_position);
    let third = store.backup(&target).unwrap();
    assert_eq!(
        (third.segments_copied, third.bytes_copied),
        (0, 0),
        "nothing is new: {third:?}"
    );

    // Of a reader too, and of a store that was closed.
    let reader = Store::open_on(Arc::new(storage.clone()), options().read_only()).unwrap();
    store.close().unwrap();
    let other = FaultyStorage::new();
    reader.backup(&other).unwrap();
    assert_eq!(numbers(&other), (0..300).collect::<Vec<_>>());
    // The backup is a store like any other.
    let restored = open(&target);
    append(&restored, 300, 1);
    assert_eq!(
        restored.last_position().unwrap(),
        Position(third.last_position.0 + 1)
    );
    restored.close().unwrap();
    let error = open(&storage).backup(&target).unwrap_err();
    assert_eq!(
        error.kind(),
        ErrorKind::Conflict,
        "what was written to it would be lost: {error}"
    );
}

#[test]
fn a_backup_goes_nowhere_else() {
    let storage = FaultyStorage::new();
    let store = open(&storage);
    append(&store, 0, 1);
    let another = FaultyStorage::new();
    let options = OpenOptions {
        host: Arc::new(TestHost::new(2)),
        ..options()
    };
    Store::open_on(Arc::new(another.clone()), options)
        .unwrap()
        .close()
        .unwrap();
    let before = another.files();
    assert_eq!(
        store.backup(&another).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
    assert_eq!(another.files(), before);
    let other = FaultyStorage::new();
    other.create("notes.txt").unwrap();
    let error = store.backup(&other).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("has other files, such as notes.txt"),
        "{error}"
    );
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
                target.arm(Fault {
                    after,
                    failure,
                    lasting: Lasting::ForGood,
                });
                let done = store.backup(&target);
                target.arm(None);
                let left = if failure == Failure::PowerLoss {
                    target.crashed(after)
                } else {
                    target.copy()
                };
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

/// The same where packs took the place of segments since: then there may also be one that ends in a pack, which is told when it
/// is opened, between that pack's name and the next one's. Nothing of it is lost, and the next backup completes it.
#[test]
fn a_backup_of_packs_that_is_cut_off_is_completed_by_the_next_one() {
    let storage = FaultyStorage::new();
    let store = open(&storage);
    append(&store, 0, 150);
    let earlier = FaultyStorage::new();
    store.backup(&earlier).unwrap();
    append(&store, 150, 150);
    store.compact(CompactOptions::default()).unwrap();
    append(&store, 300, 100);
    for begun in [FaultyStorage::new(), earlier] {
        for failure in [Failure::Io, Failure::Full, Failure::PowerLoss] {
            let (mut after, mut unopened) = (0, 0);
            loop {
                let target = begun.copy();
                target.arm(Fault {
                    after,
                    failure,
                    lasting: Lasting::ForGood,
                });
                let done = store.backup(&target);
                target.arm(None);
                let left = if failure == Failure::PowerLoss {
                    target.crashed(after)
                } else {
                    target.copy()
                };
                let is_store = left.files().contains_key("RUNLOG");
                let opened = is_store.then(|| Store::open_on(Arc::new(left.copy()), options()));
                if let Some(Err(error)) = opened {
                    assert!(error.to_string().contains("the last of the log"), "{error}");
                    unopened += 1;
                }
                store.backup(&left).unwrap();
                assert_eq!(numbers(&left).len(), 400, "{failure:?} after {after}");
                let is_unfinished = |name: &&String| name.ends_with(".tmp");
                assert_eq!(left.files().keys().find(is_unfinished), None);
                if done.is_ok() {
                    break;
                }
                after += 1;
            }
            assert!(after > 5, "{failure:?}: {after} operations");
            // Between the flushes of the two names, and not while what is behind the pack is copied.
            assert!(unopened <= 3, "{failure:?}: {unopened} of {after}");
        }
    }
}

/// A store that was restored from an earlier backup has lost what the later one has: that is never written over.
#[test]
fn a_backup_that_is_ahead_of_the_store_is_left_alone() {
    for (before, lost, after) in [
        (5, 8, 0),
        (5, 8, 2),
        (5, 8, 20),
        (150, 100, 0),
        (150, 100, 200),
    ] {
        let (storage, first, second) = (
            FaultyStorage::new(),
            FaultyStorage::new(),
            FaultyStorage::new(),
        );
        let store = open(&storage);
        append(&store, 0, before);
        store.backup(&first).unwrap();
        append(&store, before, lost);
        store.backup(&second).unwrap();
        let restored = open(&first);
        append(&restored, 1_000, after);
        let kept = second.files();
        for is_compacted in [false, true] {
            if is_compacted {
                restored.compact(CompactOptions::default()).unwrap();
            }
            let case = format!("{before}, {lost}, {after}, {is_compacted}");
            let error = restored.backup(&second).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Conflict, "{case}: {error}");
            assert!(second.files() == kept, "{case}");
        }
        // The store itself, compacted in its turn, has all of it.
        store.compact(CompactOptions::default()).unwrap();
        store.backup(&second).unwrap();
        assert_eq!(
            open(&second).last_position().unwrap(),
            store.last_position().unwrap()
        );
    }
}

/// What a compaction erased since has another checksum than in the backup, which has nothing more for that. With what was erased goes
/// what the backup has of it.
#[test]
fn a_backup_goes_on_after_any_of_its_records_was_erased() {
    for count in [1, 5, 150] {
        for erased in [0, count / 2, count - 1] {
            let (storage, target) = (FaultyStorage::new(), FaultyStorage::new());
            let store = open(&storage);
            append(&store, 1, count);
            store.backup(&target).unwrap();
            let mut records = store.read(STREAM, ReadOptions::default()).unwrap();
            let position = records
                .nth(usize::try_from(erased).unwrap())
                .unwrap()
                .unwrap()
                .position;
            store
                .commit(&Batch::new(Op::redactions(&[position], "secret")))
                .unwrap();
            store.compact(CompactOptions::default()).unwrap();
            store.backup(&target).unwrap();
            append(&store, count + 1, 3);
            store.backup(&target).unwrap();
            assert_eq!(verify(&target).unwrap().problems_count, 0);
            let copy = open(&target.copy());
            let read = copy.read(STREAM, ReadOptions::default()).unwrap();
            let redacted: Vec<bool> = read.map(|record| record.unwrap().redacted).collect();
            let expected: Vec<bool> = (0..count + 3).map(|number| number == erased).collect();
            assert_eq!(redacted, expected, "{count} records");
            let secret = vec![u8::try_from((erased + 1) % 251).unwrap(); 1_000];
            let holds = |bytes: &Vec<u8>| bytes.windows(1_000).any(|some| some == secret);
            assert!(!target.files().values().any(holds), "{count} records");
        }
    }
}

/// The first of the sealed segments of a store, and its length.
fn sealed(storage: &FaultyStorage) -> (String, u64) {
    let name = storage
        .list()
        .unwrap()
        .into_iter()
        .filter(|name| name.ends_with(".seg"))
        .min()
        .unwrap();
    let length = storage.open(&name, Access::Read).unwrap().len().unwrap();
    (name, length)
}

fn damage(storage: &FaultyStorage, name: &str, at: u64, length: usize) {
    storage
        .open(name, Access::Write)
        .unwrap()
        .write_at(at, &vec![0x5a; length])
        .unwrap();
}

#[test]
fn what_a_backup_has_damaged_is_copied_again() {
    let (storage, good) = (FaultyStorage::new(), FaultyStorage::new());
    let store = open(&storage);
    append(&store, 0, 300);
    let first = store.backup(&good).unwrap();
    let (name, length) = sealed(&good);
    // Its header, its first record, a quarter of its records, and what seals it.
    for (at, bytes) in [
        (8, 8),
        (64, 8),
        (length / 2, 16 << 10),
        (length - 8, 8),
        (length - 100, 100),
    ] {
        let target = good.copy();
        damage(&target, &name, at, bytes);
        assert_ne!(target.files(), good.files());
        let done = store.backup(&target).unwrap();
        assert_eq!(
            (done.segments_copied, done.segments_kept),
            (1, first.segments_copied - 1),
            "at {at}"
        );
        assert_eq!(target.files(), good.files(), "at {at}");
    }
    let target = good.copy();
    target
        .open(&name, Access::Write)
        .unwrap()
        .set_len(length / 2)
        .unwrap();
    store.backup(&target).unwrap();
    assert_eq!(target.files(), good.files(), "cut short");
    // Its last records and what seals it: it may be another history's, which is never written over.
    let target = good.copy();
    damage(&target, &name, length - 4_000, 4_000);
    let error = store.backup(&target).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(
        error.to_string().contains("or is damaged; verify it"),
        "{error}"
    );
}

#[test]
fn a_backup_that_verifies_finds_damage_of_any_byte() {
    let (storage, good) = (FaultyStorage::new(), FaultyStorage::new());
    let store = open(&storage);
    append(&store, 0, 300);
    let first = store.backup(&good).unwrap();
    let (name, length) = sealed(&good);
    let verified = BackupOptions { verify: true };
    assert_eq!(
        store.backup_with(&good, verified).unwrap().segments_kept,
        first.segments_copied,
        "nothing is damaged"
    );
    for at in (100..length).step_by(usize::try_from(length / 40).unwrap()) {
        let target = good.copy();
        damage(&target, &name, at, 1);
        let done = store.backup_with(&target, verified).unwrap();
        assert_eq!(done.segments_copied, 1, "at {at}");
        assert_eq!(target.files(), good.files(), "at {at}");
    }
}

/// A pack is copied as it lies there, and what is damaged in it is told: of its header, too, each time that it is looked at.
#[test]
fn damage_of_a_packs_header_is_told() {
    let storage = FaultyStorage::new();
    let store = open(&storage);
    append(&store, 0, 300);
    store.compact(CompactOptions::default()).unwrap();
    let name = storage
        .list()
        .unwrap()
        .into_iter()
        .find(|name| name.ends_with(".pack"));
    damage(&storage, &name.unwrap(), 172, 1);
    let (target, verified) = (FaultyStorage::new(), BackupOptions { verify: true });
    drop(store);
    let reader = open(&storage);
    for _ in 0..2 {
        let error = reader.backup_with(&target, verified).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
        assert!(error.to_string().contains("copy of the header"), "{error}");
    }
    let files = target.files();
    let is_pack = |name: &String| name.ends_with(".pack");
    assert!(files.keys().any(is_pack), "it was copied all the same");
}

/// Whatever breaks it off, a segment in the middle is there whole: the damaged one, or the new one.
#[test]
fn copying_again_that_is_cut_off_leaves_what_was_there() {
    let (storage, good) = (FaultyStorage::new(), FaultyStorage::new());
    let store = open(&storage);
    append(&store, 0, 300);
    store.backup(&good).unwrap();
    let (name, length) = sealed(&good);
    damage(&good, &name, length / 2, 1);
    for failure in [Failure::Io, Failure::PowerLoss] {
        let mut after = 0;
        loop {
            let target = good.copy();
            target.arm(Fault {
                after,
                failure,
                lasting: Lasting::ForGood,
            });
            let done = store.backup_with(&target, BackupOptions { verify: true });
            target.arm(None);
            let left = if failure == Failure::PowerLoss {
                target.crashed(after)
            } else {
                target.copy()
            };
            open(&left.copy()).close().unwrap();
            assert_eq!(
                left.files()[&name].len() as u64,
                length,
                "{failure:?} after {after}"
            );
            store
                .backup_with(&left, BackupOptions { verify: true })
                .unwrap();
            assert_eq!(numbers(&left).len(), 300);
            if done.is_ok() {
                break;
            }
            after += 1;
        }
    }
}

#[test]
fn the_only_whole_copy_is_not_written_over() {
    let (storage, target) = (FaultyStorage::new(), FaultyStorage::new());
    let store = open(&storage);
    append(&store, 0, 300);
    store.backup(&target).unwrap();
    let (name, length) = sealed(&storage);
    damage(&storage, &name, length / 2, 1);
    let kept = target.files();
    let error = store
        .backup_with(&target, BackupOptions { verify: true })
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert!(
        error.to_string().contains("the store's own is damaged"),
        "{error}"
    );
    assert_eq!(target.files(), kept);
}

/// The segments that a storage has, and what is in them.
fn segments(storage: &FaultyStorage) -> Vec<(String, Vec<u8>)> {
    storage
        .files()
        .into_iter()
        .filter(|(name, _)| name.ends_with(".seg"))
        .collect()
}

/// The message of a backup that found the store damaged.
#[track_caller]
fn damaged(store: &Store, target: &FaultyStorage, verify: bool) -> String {
    let error = store
        .backup_with(target, BackupOptions { verify })
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
    error.to_string()
}

#[test]
fn damage_of_the_store_is_told_and_the_rest_is_copied() {
    let good = FaultyStorage::new();
    let store = open(&good);
    append(&store, 0, 300);
    store.close().unwrap();
    let (name, length) = sealed(&good);
    // Both copies of its header, records, its index block, and the end of that.
    for at in [
        8,
        2048 + 8,
        4096,
        5000,
        length / 4,
        length / 2,
        length - 1000,
        length - 200,
        length - 8,
    ] {
        let (storage, target) = (good.copy(), FaultyStorage::new());
        let store = open(&storage);
        damage(&storage, &name, at, 1);
        let said = damaged(&store, &target, false);
        assert!(
            said.contains(&format!("{name}: offset ")),
            "at {at}: {said}"
        );
        assert!(
            said.contains("everything was copied, but the store is damaged"),
            "at {at}: {said}"
        );
        assert_eq!(segments(&target), segments(&storage), "at {at}");
        let said = damaged(&store, &target, true);
        assert!(
            said.contains(&format!("{name}: offset ")),
            "it has been copied already, at {at}: {said}"
        );
        assert_eq!(segments(&target), segments(&storage), "at {at}");
        // Where nothing is copied, and nothing compared, nothing is read.
        assert_eq!(store.backup(&target).unwrap().segments_copied, 0, "at {at}");
    }
}

#[test]
fn damage_of_several_segments_is_told_and_where_the_first_is() {
    let (storage, target) = (FaultyStorage::new(), FaultyStorage::new());
    let store = open(&storage);
    append(&store, 0, 300);
    let names: Vec<String> = segments(&storage)
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert!(names.len() > 3, "{names:?}");
    damage(&storage, &names[1], 4096 + 1100, 1);
    damage(&storage, &names[2], 5000, 1);
    // The one that is written to is read too.
    damage(&storage, names.last().unwrap(), 5000, 1);
    let said = damaged(&store, &target, false);
    assert!(said.contains(&format!("{}: offset ", names[1])), "{said}");
    assert!(said.contains("2 more segments are damaged"), "{said}");
    let found = segments(&target);
    assert_eq!(found.len(), names.len());
    assert_eq!(
        found[..names.len() - 1],
        segments(&storage)[..names.len() - 1]
    );
    append(&store, 300, 100);
    damaged(&store, &target, false);
    assert!(
        segments(&target).len() > names.len(),
        "it goes on from there"
    );
}

/// A backup has a segment's beginning whole, and the store's own was damaged there since.
#[test]
fn a_whole_beginning_is_not_written_over() {
    let (storage, target) = (FaultyStorage::new(), FaultyStorage::new());
    let store = OpenOptions {
        segment_bytes_max: 1 << 20,
        ..options()
    };
    let store = Store::open_on(Arc::new(storage.clone()), store).unwrap();
    append(&store, 0, 200);
    store.backup(&target).unwrap();
    let (name, _) = sealed(&storage);
    let kept = segments(&target);
    append(&store, 200, 100);
    damage(&storage, &name, 5000, 1);
    for verify in [false, true] {
        let said = damaged(&store, &target, verify);
        assert!(
            said.contains("isn't copied over") && said.contains(&format!("{name}: offset ")),
            "{said}"
        );
        assert_eq!(segments(&target), kept);
    }
    assert_eq!(numbers(&target).len(), 200);
}

/// Nor is a whole index block by a damaged one.
#[test]
fn a_whole_index_block_is_not_written_over() {
    let (storage, target) = (FaultyStorage::new(), FaultyStorage::new());
    let store = open(&storage);
    append(&store, 0, 300);
    store.backup(&target).unwrap();
    let (name, length) = sealed(&storage);
    for at in [length - 300, length - 8] {
        let before = storage.files()[&name][usize::try_from(at).unwrap()];
        damage(&storage, &name, at, 1);
        let kept = target.files();
        let said = damaged(&store, &target, false);
        assert!(said.contains("the store's own is damaged"), "{said}");
        assert_eq!(target.files(), kept, "at {at}");
        storage
            .open(&name, Access::Write)
            .unwrap()
            .write_at(at, &[before])
            .unwrap();
    }
}

#[test]
fn a_backup_inside_the_store_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::open(&path, options()).unwrap();
    append(&store, 0, 1);
    let before = std::fs::read_dir(&path).unwrap().count();
    for inside in ["backup", "a/b", ".", "../store/backup", "a/../b"] {
        let error = store
            .backup(&FsStorage::new(path.join(inside)))
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{inside}: {error}");
        assert!(
            error.to_string().contains("inside the store's own folder"),
            "{inside}: {error}"
        );
        assert_eq!(
            std::fs::read_dir(&path).unwrap().count(),
            before,
            "{inside}"
        );
    }
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(&path, folder.path().join("link")).unwrap();
        let error = store
            .backup(&FsStorage::new(folder.path().join("link/backup")))
            .unwrap_err();
        assert!(
            error.to_string().contains("inside the store's own folder"),
            "{error}"
        );
    }
    // Beside it, and around it by name alone.
    for beside in ["backup", "store-backup", "store/../another"] {
        store
            .backup(&FsStorage::new(folder.path().join(beside)))
            .unwrap();
    }
}
