use std::{collections::BTreeSet, sync::Arc};

use runlog_engine::{
    OpenOptions,
    storage::{Access, Allocation, File, Storage},
};

use super::{Call, Failure, Fault, FaultyStorage, Lasting};
use crate::{
    driver::{Driver, Leave, Place},
    host::TestHost,
    script::{self, Line},
};

const NAME: &str = "file";

/// A storage with one durable file of these bytes.
fn with_file(bytes: &[u8]) -> (FaultyStorage, Arc<dyn File>) {
    let storage = FaultyStorage::from_files(&[(NAME.to_owned(), bytes.to_vec())].into());
    let file = storage.open(NAME, Access::Write).unwrap();
    (storage, file)
}

/// What the file can be after a crash, over many seeds; `None` for one that is not there.
fn outcomes(storage: &FaultyStorage) -> BTreeSet<Option<Vec<u8>>> {
    (0..400)
        .map(|seed| storage.crashed(seed).files().remove(NAME))
        .collect()
}

fn some(bytes: &[u8]) -> Option<Vec<u8>> {
    Some(bytes.to_vec())
}

fn fails_once(failure: Failure) -> Fault {
    Fault {
        after: 0,
        failure,
        lasting: Lasting::Once,
    }
}

#[test]
fn write_that_nothing_flushed_is_dropped_kept_cut_and_mixed_by_sector() {
    let (storage, file) = with_file(&[0; 2048]);
    file.write_at(0, &[1; 2048]).unwrap();
    let outcomes = outcomes(&storage);
    assert!(outcomes.contains(&some(&[0; 2048])));
    assert!(outcomes.contains(&some(&[1; 2048])));
    let bytes: Vec<_> = outcomes.into_iter().flatten().collect();
    assert!(bytes.iter().any(|bytes| {
        bytes[0] == 1
            && bytes[2047] == 0
            && !bytes
                .iter()
                .filter(|b| **b == 1)
                .count()
                .is_multiple_of(512)
    }));
    assert!(
        bytes.iter().any(|bytes| bytes[..512] == [0; 512]
            && bytes[512..1024] == [1; 512]
            && bytes[1024] == 0)
    );
}

#[test]
fn writes_that_nothing_flushed_are_kept_in_no_order() {
    let (storage, file) = with_file(b"--");
    file.write_at(0, b"a").unwrap();
    file.write_at(1, b"b").unwrap();
    assert_eq!(
        outcomes(&storage),
        [b"--", b"a-", b"-b", b"ab"].map(|bytes| some(bytes)).into()
    );
}

#[test]
fn length_and_bytes_of_a_longer_file_are_kept_one_without_the_other() {
    let (storage, file) = with_file(b"");
    file.write_at(0, b"a").unwrap();
    assert_eq!(outcomes(&storage), [&b""[..], b"\0", b"a"].map(some).into());
    file.sync().unwrap();
    file.set_len(3).unwrap();
    assert_eq!(outcomes(&storage), [&b"a"[..], b"a\0\0"].map(some).into());
}

#[test]
fn flush_makes_one_file_durable_and_no_name() {
    let storage = FaultyStorage::new();
    let file = storage.create(NAME).unwrap();
    file.write_at(0, b"a").unwrap();
    file.sync().unwrap();
    assert_eq!(outcomes(&storage), [None, some(b"a")].into());
    storage.sync_dir().unwrap();
    assert_eq!(outcomes(&storage), [some(b"a")].into());
    let other = storage.create("other").unwrap();
    other.write_at(0, b"b").unwrap();
    file.sync().unwrap();
    storage.sync_dir().unwrap();
    let others: BTreeSet<_> = (0..100)
        .map(|seed| storage.crashed(seed).files()["other"].clone())
        .collect();
    assert!(others.contains(&Vec::new()) && others.contains(&b"b"[..]));
}

#[test]
fn durable_write_makes_its_own_range_durable_and_nothing_else() {
    let (storage, file) = with_file(b"----");
    file.write_at(0, b"aaa").unwrap();
    file.write_durable_at(1, b"B").unwrap();
    let outcomes = outcomes(&storage);
    assert!(outcomes.contains(&some(b"-B--")) && outcomes.contains(&some(b"aBa-")));
    assert!(outcomes.iter().flatten().all(|bytes| bytes[1] == b'B'));
}

#[test]
fn rename_leaves_the_old_name_or_the_new_one_and_may_come_without_what_was_before_it() {
    let storage = FaultyStorage::from_files(&[(NAME.to_owned(), b"old".to_vec())].into());
    let file = storage.create("new").unwrap();
    file.write_at(0, b"new").unwrap();
    file.sync().unwrap();
    storage.rename("new", NAME).unwrap();
    assert_eq!(outcomes(&storage), [some(b"old"), some(b"new")].into());
    storage.remove(NAME).unwrap();
    assert_eq!(
        outcomes(&storage),
        [None, some(b"old"), some(b"new")].into()
    );
}

#[test]
fn failed_flush_forgets_so_that_the_next_makes_nothing_durable() {
    for failure in [Failure::Io, Failure::Full] {
        let (storage, file) = with_file(b"-");
        file.write_at(0, b"a").unwrap();
        storage.arm(fails_once(failure));
        file.sync().unwrap_err();
        file.sync().unwrap();
        assert_eq!(storage.files()[NAME], b"a");
        assert_eq!(outcomes(&storage), [some(b"-")].into());
        file.write_at(0, b"a").unwrap();
        file.sync().unwrap();
        assert_eq!(outcomes(&storage), [some(b"a")].into());
    }
}

#[test]
fn filling_with_zeros_that_fails_forgets_as_a_flush_does_and_reserving_does_not() {
    for (allocation, left) in [
        (Allocation::ZeroFill, &b"-"[..]),
        (Allocation::Reserve, b"a"),
    ] {
        let (storage, file) = with_file(b"-");
        file.write_at(0, b"a").unwrap();
        storage.arm(fails_once(Failure::Io));
        file.allocate(1, 9, allocation).unwrap_err();
        file.set_len(1).unwrap();
        file.sync().unwrap();
        assert_eq!(outcomes(&storage), [some(left)].into(), "{allocation:?}");
    }
}

#[test]
fn lost_power_fails_everything_after_it_and_what_it_met_is_undecided() {
    let (storage, file) = with_file(b"-");
    storage.arm(fails_once(Failure::PowerLoss));
    file.write_durable_at(0, b"a").unwrap_err();
    assert!(file.sync().is_err() && storage.list().is_err() && storage.create("other").is_err());
    assert_eq!(outcomes(&storage), [some(b"-"), some(b"a")].into());
}

#[test]
fn handles_of_a_process_that_is_gone_do_nothing() {
    let (storage, file) = with_file(b"-");
    let lock = storage.lock("LOCK", "first").unwrap();
    storage.kill();
    assert!(file.write_at(0, b"a").is_err());
    let _second = storage.lock("LOCK", "second").unwrap();
    drop(lock);
    let refused = storage.lock("LOCK", "third").err().and_then(Result::ok);
    assert_eq!(refused.as_deref(), Some("second"));
}

#[test]
fn fault_for_good_hits_every_operation_from_the_nth_on() {
    let (storage, file) = with_file(b"-");
    storage.arm(Fault {
        after: 2,
        failure: Failure::Io,
        lasting: Lasting::ForGood,
    });
    assert!(file.len().is_ok() && file.sync().is_ok());
    assert!(file.len().is_err() && file.sync().is_err() && storage.list().is_err());
    assert_eq!(storage.injected(), 3);
    storage.arm(Fault {
        after: 0,
        failure: Failure::Full,
        lasting: Lasting::ForGood,
    });
    assert!(file.len().is_ok());
    assert_eq!(
        file.write_at(0, b"a").unwrap_err().kind(),
        std::io::ErrorKind::StorageFull
    );
}

/// Does the script and lets the power go after each line; the first difference, if there is any.
fn caught(lie: Option<Call>) -> Option<String> {
    let storage = FaultyStorage::new();
    storage.arm(lie.map(|call| Fault {
        after: 0,
        failure: Failure::Lie(call),
        lasting: Lasting::ForGood,
    }));
    let options = OpenOptions {
        segment_bytes_max: 64 << 10,
        ..OpenOptions::default()
    };
    let mut driver =
        Driver::new(Place::Faulty(storage.clone()), TestHost::new(1), options).unwrap();
    for (seed, line) in script::long().iter().enumerate() {
        let done = match line {
            Line::Commit(work) => driver.commit(work),
            Line::Sync => driver.sync(),
            Line::Leave(leave) => driver.leave_and_reopen(*leave),
            Line::Read => driver.check(),
            Line::Compact(options) => driver.try_compact(*options).map(drop),
            Line::Pass(ms) => {
                driver.host.pass_ms(*ms);
                Ok(())
            }
        };
        let crashes = 0..20;
        let after = |crash| {
            driver
                .after_crash(&storage, seed as u64 * 100 + crash)
                .peek()
        };
        if let Err(difference) = done.and_then(|()| crashes.into_iter().try_for_each(after)) {
            return Some(difference);
        }
    }
    driver.leave_and_reopen(Leave::Close).err()
}

#[test]
fn storage_that_lies_is_noticed_and_one_that_does_not_is_not() {
    assert_eq!(caught(None), None);
    for call in [Call::Sync, Call::SyncDir, Call::WriteDurableAt] {
        assert!(
            caught(Some(call)).is_some(),
            "a lying {call:?} went unnoticed"
        );
    }
}
