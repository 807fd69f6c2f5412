//! The store on a real file system, where something happens to its folder, its files or the process: a folder that is
//! moved or removed, things that are no regular files, few descriptors, files that are shortened, signals.
//!
//! What would end the process or needs limits of its own runs in a child: the test starts itself again.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::{
    os::unix::{fs::FileTypeExt, net::UnixListener, process::ExitStatusExt},
    path::Path,
    process::{Command, ExitStatus, Stdio},
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use runlog_engine::{
    Durability, ErrorKind, Expected, NewRecord, OpenOptions, Position, Preallocation, Result,
    Store, storage::FsStorage, verify,
};
use runlog_tests::processes::stream;

const INSIDE: &str = "RUNLOG_TESTS_STORAGE_FOLDER";

fn options(durability: Durability) -> OpenOptions {
    OpenOptions {
        durability,
        segment_bytes_max: 64 << 10,
        preallocation: Preallocation::None,
        ..OpenOptions::default()
    }
}

fn payload(sequence: u64) -> Vec<u8> {
    vec![u8::try_from(sequence % 251).unwrap(); 3000]
}

/// Appends the records from one sequence to another, one by one.
fn append(store: &Store, sequences: std::ops::RangeInclusive<u64>) -> Result<()> {
    for sequence in sequences {
        store.append(
            stream(0),
            Expected::Any,
            &[NewRecord::data(&payload(sequence))],
        )?;
    }
    Ok(())
}

/// A store that was closed, with so many records.
fn make(folder: &Path, records: u64) {
    let store = Store::open(folder, options(Durability::Os)).unwrap();
    append(&store, 1..=records).unwrap();
    store.close().unwrap();
}

/// Everything is there, as two readers and `verify` see it.
fn check(folder: &Path, records: u64) {
    let verification = verify(&FsStorage::new(folder)).unwrap();
    assert!(verification.is_sound(), "{:?}", verification.problems);
    let store = Store::open(folder, options(Durability::Os).read_only()).unwrap();
    check_reads(&store, records);
    drop(store);
    Store::open(folder, options(Durability::Os))
        .unwrap()
        .close()
        .unwrap();
}

fn check_reads(store: &Store, records: u64) {
    let mut last = 0;
    for record in store.read(stream(0), Default::default()).unwrap() {
        let record = record.unwrap();
        assert_eq!(record.sequence.0, last + 1);
        last += 1;
        assert!(record.payload == payload(last), "sequence {last}");
    }
    assert_eq!(last, records);
}

/// Runs what may hang in a thread of its own, and fails instead.
fn in_time<T: Send + 'static>(what: &str, run: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(run()));
    receiver
        .recv_timeout(Duration::from_secs(20))
        .unwrap_or_else(|_| panic!("{what} hangs"))
}

/// The folder a child is given, in the child.
fn inside() -> Option<std::path::PathBuf> {
    std::env::var_os(INSIDE).map(Into::into)
}

/// Runs one test of this program again, in a child, after some words of the shell; how it ended and what it said.
fn child(test: &str, folder: &Path, before: &str, wrapper: &str) -> (ExitStatus, String) {
    let exe = std::env::current_exe().unwrap();
    let command =
        format!("{before} exec {wrapper} \"$0\" --exact {test} --nocapture --test-threads 1");
    let output = Command::new("sh")
        .arg("-c")
        .arg(command)
        .arg(exe)
        .env(INSIDE, folder)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    (output.status, said)
}

fn passes(test: &str, folder: &Path, before: &str) {
    let (status, said) = child(test, folder, before, "");
    assert!(
        status.success() && said.contains("1 passed"),
        "{status}: {said}"
    );
}

#[test]
fn store_made_where_a_moved_one_was_is_left_alone() {
    for durability in [Durability::Sync, Durability::Os] {
        let folder = tempfile::tempdir().unwrap();
        let (data, moved) = (folder.path().join("data"), folder.path().join("data.bak"));
        let first = Store::open(&data, options(durability)).unwrap();
        append(&first, 1..=30).unwrap();
        std::fs::rename(&data, &moved).unwrap();
        make(&data, 50);
        // It turns to new segments, which the second store has too, and is closed.
        append(&first, 31..=80).unwrap();
        check_reads(&first, 80);
        first.close().unwrap();
        drop(first);
        check(&data, 50);
        check(&moved, 80);
    }
}

#[test]
fn store_made_where_a_removed_one_was_is_left_alone() {
    for durability in [Durability::Sync, Durability::Os] {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let first = Store::open(&data, options(durability)).unwrap();
        append(&first, 1..=30).unwrap();
        std::fs::remove_dir_all(&data).unwrap();
        make(&data, 50);
        let refused = append(&first, 31..=80).unwrap_err();
        assert!(refused.to_string().contains("removed"), "{refused}");
        let refused = first.close().unwrap_err();
        assert!(
            refused.to_string().contains("removed") || refused.kind() == ErrorKind::Poisoned,
            "{refused}"
        );
        drop(first);
        check(&data, 50);
    }
}

#[test]
fn durable_append_to_a_file_that_was_removed_is_not_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let store = Store::open(&data, options(Durability::Sync)).unwrap();
    append(&store, 1..=3).unwrap();
    std::fs::remove_dir_all(&data).unwrap();
    let refused = append(&store, 4..=4).unwrap_err();
    assert!(refused.to_string().contains("removed"), "{refused}");
}

#[test]
fn what_is_no_regular_file_is_refused_at_once_and_named() {
    let names = [
        "00000001.seg",
        "00000002.seg",
        "RUNLOG",
        "CHECKPOINT",
        "WATERMARK",
        "LOCK",
    ];
    for name in names {
        for what in ["FIFO", "folder", "socket", "character device"] {
            let folder = tempfile::tempdir().unwrap();
            let data = folder.path().join("data");
            make(&data, 50);
            let path = data.join(name);
            let _ = std::fs::remove_file(&path);
            match what {
                "FIFO" => assert!(
                    Command::new("mkfifo")
                        .arg(&path)
                        .status()
                        .unwrap()
                        .success()
                ),
                "folder" => std::fs::create_dir(&path).unwrap(),
                "socket" => drop(UnixListener::bind(&path).unwrap()),
                _ => std::os::unix::fs::symlink("/dev/zero", &path).unwrap(),
            }
            assert!(what != "FIFO" || path.metadata().unwrap().file_type().is_fifo());
            let told = |error: runlog_engine::Error, who: &str| {
                let expected = format!("{name} is a {what}, not a regular file");
                assert!(error.to_string().contains(&expected), "{who}: {error}");
            };
            let open = |options: OpenOptions| {
                let data = data.clone();
                in_time(&format!("opening with {name} a {what}"), move || {
                    Store::open(data, options).map(drop)
                })
            };
            told(open(options(Durability::Os)).unwrap_err(), "a writer");
            if name == "LOCK" {
                continue;
            }
            told(
                open(options(Durability::Os).read_only()).unwrap_err(),
                "a reader",
            );
            let verified = {
                let data = data.clone();
                in_time(&format!("verifying with {name} a {what}"), move || {
                    verify(&FsStorage::new(data))
                })
            };
            told(verified.unwrap_err(), "verify");
        }
    }
}

#[test]
fn more_segments_than_descriptors_are_opened_read_verified_and_grown() {
    const NAME: &str = "more_segments_than_descriptors_are_opened_read_verified_and_grown";
    let Some(data) = inside() else {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        make(&data, 6000);
        assert!(std::fs::read_dir(&data).unwrap().count() > 290);
        return passes(NAME, &data, "ulimit -n 90;");
    };
    check(&data, 6000);
    let store = Store::open(&data, options(Durability::Os)).unwrap();
    append(&store, 6001..=9000).unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| check_reads(&store, 9000));
        }
    });
    assert_eq!(store.scan(Position::FIRST).unwrap().count(), 9001);
    store.close().unwrap();
    drop(store);
    check(&data, 9000);
}

#[test]
fn segments_shortened_under_a_reader_are_errors_and_the_process_lives() {
    const NAME: &str = "segments_shortened_under_a_reader_are_errors_and_the_process_lives";
    let Some(data) = inside() else {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        make(&data, 400);
        return passes(NAME, &data, "");
    };
    let store = Store::open(&data, options(Durability::Os).read_only()).unwrap();
    let before: Vec<_> = store
        .read(stream(0), Default::default())
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(store.scan(Position::FIRST).unwrap().count(), 401);
    // Whole pages are gone from the one, part of a page from the other; the third is empty.
    for (name, length) in [
        ("00000003.seg", 12288),
        ("00000004.seg", 20000),
        ("00000005.seg", 0),
    ] {
        let cut = Command::new("truncate")
            .arg("-s")
            .arg(length.to_string())
            .arg(data.join(name))
            .status();
        assert!(cut.unwrap().success());
    }
    for (record, sequence) in before.iter().zip(1..) {
        assert!(
            record.payload == payload(sequence),
            "what was given out has changed"
        );
    }
    let sequences = |from: u64| {
        let read = runlog_engine::ReadOptions {
            first: runlog_engine::Sequence(from),
            ..Default::default()
        };
        store.read(stream(0), read).unwrap()
    };
    let refused = sequences(1).find_map(Result::err).unwrap();
    assert!(
        refused.to_string().contains("00000003.seg: offset "),
        "{refused}"
    );
    assert!(
        refused.to_string().contains("the file ends before"),
        "{refused}"
    );
    let mut lost = 0;
    for sequence in 1..=400 {
        match sequences(sequence).next().unwrap() {
            Ok(record) => assert!(record.payload == payload(sequence)),
            Err(_) => lost += 1,
        }
    }
    // Three segments of twenty records each; some are before the cuts.
    assert!((40..60).contains(&lost), "{lost}");
    let refused = store
        .scan(Position::FIRST)
        .unwrap()
        .find_map(Result::err)
        .unwrap();
    assert!(
        refused.to_string().contains("00000003.seg: offset "),
        "{refused}"
    );
    assert!(!verify(&FsStorage::new(&data)).unwrap().is_sound());
}

#[test]
fn other_bus_errors_end_the_process_as_ever() {
    const NAME: &str = "other_bus_errors_end_the_process_as_ever";
    let Some(data) = inside() else {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        make(&data, 100);
        let (status, said) = child(NAME, &data, "ulimit -c 0;", "");
        assert_eq!(status.signal(), Some(7), "{status}: {said}");
        return;
    };
    let store = Store::open(&data, options(Durability::Os).read_only()).unwrap();
    check_reads(&store, 100);
    // The standard library's own handler takes the first for a fault that will come again.
    for _ in 0..10 {
        let _ = Command::new("kill")
            .arg("-BUS")
            .arg(std::process::id().to_string())
            .status();
        thread::sleep(Duration::from_millis(500));
    }
    panic!("still alive");
}

#[test]
fn closed_store_is_free_at_once_beside_threads_that_start_programs() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    Command::new("true").stdin(Stdio::null()).status().unwrap();
                }
            });
        }
        let refused: Vec<_> = (0..300)
            .filter_map(|_| {
                Store::open(&data, options(Durability::Os))
                    .and_then(|store| store.close())
                    .err()
            })
            .collect();
        done.store(true, Ordering::Relaxed);
        assert!(
            refused.is_empty(),
            "{} of 300: {}",
            refused.len(),
            refused[0]
        );
    });
}

#[test]
fn allocation_that_a_signal_interrupts_is_no_error() {
    const NAME: &str = "allocation_that_a_signal_interrupts_is_no_error";
    let Some(data) = inside() else {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let strace = |of: &str| {
            format!("strace -f -qq -o /dev/null -e trace=fallocate -e inject=fallocate:error={of}")
        };
        // Where the system lets nobody trace, nothing can be injected.
        let works = Command::new("sh")
            .arg("-c")
            .arg(format!("{}:when=1 true", strace("EINTR")))
            .output();
        if !works.is_ok_and(|output| output.status.success()) {
            println!("not run: strace doesn't work here");
            return;
        }
        let (status, said) = child(NAME, &data, "", &format!("{}:when=1..9+2", strace("EINTR")));
        assert!(
            status.success() && said.contains("1 passed"),
            "{status}: {said}"
        );
        return;
    };
    let options = OpenOptions {
        preallocation: Preallocation::Auto,
        ..options(Durability::Sync)
    };
    let store = Store::open(&data, options).unwrap();
    append(&store, 1..=100).unwrap();
    store.close().unwrap();
}

#[test]
fn large_file_that_is_no_checkpoint_is_not_read_into_memory() {
    const NAME: &str = "large_file_that_is_no_checkpoint_is_not_read_into_memory";
    let Some(data) = inside() else {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        make(&data, 50);
        let checkpoint = std::fs::File::create(data.join("CHECKPOINT")).unwrap();
        checkpoint.set_len(1 << 30).unwrap();
        return passes(NAME, &data, "ulimit -v 700000;");
    };
    let store = Store::open(&data, options(Durability::Os).read_only()).unwrap();
    check_reads(&store, 50);
}
