//! On real file systems of their own: a full one, and one that cannot be written to.
//!
//! Each needs a mount, which is made in a mount namespace that ends with the process, as root or with a user namespace.
//! Where the system allows neither, the tests were not run: this harness, which speaks as the usual one does, counts them
//! as ignored and says why.

use std::{
    panic::catch_unwind,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use runlog_engine::{
    Batch, Durability, ErrorKind, Expected, NewRecord, Op, OpenOptions, Position, Preallocation, Store,
    storage::FsStorage, verify,
};
use runlog_tests::{
    checker,
    processes::{payload, stream},
};

const INSIDE: &str = "RUNLOG_TESTS_MOUNT_NAMESPACE";

type Test = (&'static str, fn());

const TESTS: [Test; 4] = [
    ("full_device_is_told_and_loses_nothing_acknowledged", full_device),
    ("appends_go_on_without_reopening_once_space_was_made", space_made),
    ("last_room_is_used_although_files_usually_grow_by_more", last_room),
    ("store_that_cannot_be_written_to_is_read_and_refuses_writers", read_only),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut filters = arguments.iter().filter(|argument| !argument.starts_with('-')).peekable();
    let chosen =
        |(name, _): &&Test| filters.clone().peek().is_none() || filters.clone().any(|part| name.contains(part));
    let tests: Vec<Test> = TESTS.iter().filter(chosen).copied().collect();
    let filtered = TESTS.len() - tests.len();
    let _ = filters.next();
    if arguments.iter().any(|argument| argument == "--list") {
        tests.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    if std::env::var_os(INSIDE).is_some() {
        return run(&tests, filtered);
    }
    match namespace() {
        Some(flags) => {
            let exe = std::env::current_exe().expect("this program has a path");
            let status = Command::new("unshare").arg(flags).arg(exe).args(&arguments).env(INSIDE, "1").status();
            ExitCode::from(if status.is_ok_and(|status| status.success()) { 0 } else { 101 })
        }
        None => {
            tests
                .iter()
                .for_each(|(name, _)| println!("test {name} ... ignored, not run: this system lets nobody mount"));
            result(true, 0, 0, tests.len(), filtered);
            ExitCode::SUCCESS
        }
    }
}

fn result(is_ok: bool, passed: usize, failed: usize, ignored: usize, filtered: usize) {
    let word = if is_ok { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {word}. {passed} passed; {failed} failed; {ignored} ignored; 0 measured; {filtered} filtered \
         out; finished in 0.00s\n"
    );
}

fn run(tests: &[Test], filtered: usize) -> ExitCode {
    println!("\nrunning {} tests", tests.len());
    let mut failed = 0;
    for (name, test) in tests {
        let word = if catch_unwind(test).is_ok() { "ok" } else { "FAILED" };
        failed += usize::from(word == "FAILED");
        println!("test {name} ... {word}");
    }
    result(failed == 0, tests.len() - failed, failed, 0, filtered);
    ExitCode::from(if failed == 0 { 0 } else { 101 })
}

/// How to get a mount namespace in which a mount works, if there is a way.
fn namespace() -> Option<&'static str> {
    let works = |flags: &&str| {
        let folder = tempfile::tempdir().expect("a folder");
        let mount = Command::new("unshare").args([flags, "mount", "-t", "tmpfs", "none"]).arg(folder.path()).output();
        mount.is_ok_and(|output| output.status.success())
    };
    ["-m", "-rm"].into_iter().find(works)
}

fn mount(arguments: &[&str], folder: &Path) {
    let output = Command::new("mount").args(arguments).arg(folder).output().expect("it was run before");
    assert!(output.status.success(), "mount {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A file system in memory, of some MiB.
struct Device {
    folder: tempfile::TempDir,
}

impl Device {
    fn new(mebibytes: u32) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        mount(&["-t", "tmpfs", "-o", &format!("size={mebibytes}m"), "none"], folder.path());
        Self { folder }
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    fn options(&self, durability: Durability, preallocation: Preallocation) -> OpenOptions {
        OpenOptions { durability, preallocation, segment_bytes_max: 1 << 20, ..OpenOptions::default() }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l"]).arg(self.folder.path()).status();
    }
}

/// Appends until it fails: how many appends were acknowledged before, and the kind of error.
fn fill(store: &Store, from: u64) -> (u64, ErrorKind) {
    for sequence in from + 1.. {
        let payload = payload(0, sequence);
        if let Err(error) = store.append(stream(0), Expected::Any, &[NewRecord::data(&payload)]) {
            return (sequence - 1, error.kind());
        }
    }
    unreachable!("a device is full some time")
}

/// All that was acknowledged is there, and at most one more.
fn check(folder: &Path, acknowledged: u64, more: u64) -> u64 {
    let checked = checker::check(folder).expect("a sound store");
    let streams = checked.streams();
    let records = &streams.first().expect("one stream").1;
    for (sequence, _, _, _, found) in records {
        assert!(*found == payload(0, *sequence), "sequence {sequence}");
    }
    let count = records.len() as u64;
    assert!(
        (acknowledged..=acknowledged + more).contains(&count),
        "{acknowledged} were acknowledged, {count} are there"
    );
    count
}

fn full_device() {
    let setups = [
        (Durability::Sync, Preallocation::Auto),
        (Durability::Sync, Preallocation::None),
        (Durability::Os, Preallocation::Auto),
        (Durability::Os, Preallocation::None),
    ];
    for (durability, preallocation) in setups {
        let device = Device::new(6);
        let store = Store::open(device.store(), device.options(durability, preallocation)).expect("there is room");
        let (acknowledged, kind) = fill(&store, 0);
        assert!(acknowledged > 1000, "{acknowledged}");
        assert_eq!(kind, ErrorKind::StorageFull, "{durability:?}, {preallocation:?}");
        assert_eq!(store.read(stream(0), Default::default()).expect("it reads").count() as u64, acknowledged);
        let _ = store.close();
        drop(store);
        let count = check(&device.store(), acknowledged, 0);
        // It is still full, and still reads.
        let reader = device.options(durability, preallocation).read_only();
        let reader = Store::open(device.store(), reader).expect("reading takes no room");
        assert_eq!(reader.read(stream(0), Default::default()).expect("it reads").count() as u64, count);
        println!("{durability:?}, {preallocation:?}: {count} records, then {kind:?}");
    }
}

fn space_made() {
    for durability in [Durability::Sync, Durability::Os] {
        for preallocation in [Preallocation::Auto, Preallocation::None] {
            let device = Device::new(6);
            let ballast = |bytes: usize| {
                // As much of it as there is room for.
                let path = device.folder.path().join("ballast");
                let _ = std::fs::write(&path, vec![1; bytes]);
                path
            };
            let path = ballast(3 << 20);
            let options = device.options(durability, preallocation);
            let store = Store::open(device.store(), options.clone()).expect("there is room");
            let (acknowledged, kind) = fill(&store, 0);
            assert_eq!(kind, ErrorKind::StorageFull);
            // Refused again and again, it goes on when there is room; and so twice.
            assert_eq!(fill(&store, acknowledged).1, ErrorKind::StorageFull);
            std::fs::remove_file(&path).expect("it can be removed");
            let (acknowledged_more, kind) = fill(&store, acknowledged);
            assert_eq!(kind, ErrorKind::StorageFull);
            assert!(acknowledged_more > acknowledged + 500, "{acknowledged}, then {acknowledged_more}");
            // A store that is closed on a full device gives back what room it has left, and is opened again with none.
            let _ = store.close();
            drop(store);
            check(&device.store(), acknowledged_more, 0);
            let _ = ballast(6 << 20);
            let acknowledged_more = match Store::open(device.store(), options.clone()) {
                Ok(store) => fill(&store, acknowledged_more).0,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
                    acknowledged_more
                }
            };
            std::fs::remove_file(&path).expect("it can be removed");
            let store = Store::open(device.store(), options).expect("there is room again");
            let records = store.read(stream(0), Default::default()).expect("it reads").count() as u64;
            assert_eq!(records, acknowledged_more);
        }
    }
}

/// A device that has room for a little more, but not for as much as a file usually grows by.
fn last_room() {
    let device = Device::new(6);
    let options = OpenOptions::default;
    let store = Store::open(device.store(), options()).expect("there is room");
    let record = NewRecord::data(b"small");
    store.append(stream(0), Expected::Any, &[record.clone()]).expect("there is room");
    store.close().expect("it closes");
    drop(store);
    std::fs::write(device.folder.path().join("ballast"), vec![1; 5 << 20]).expect("there is room");
    let store = Store::open(device.store(), options()).expect("nothing has to be written");
    for _ in 0..100 {
        store.append(stream(0), Expected::Any, &[record.clone()]).expect("there is room for a little");
    }
    store.close().expect("it closes");
}

fn read_only() {
    let device = Device::new(16);
    let options = device.options(Durability::Sync, Preallocation::Auto);
    let store = Store::open(device.store(), options.clone()).expect("a new store");
    for sequence in 1..=2000 {
        let payload = payload(0, sequence);
        let append =
            Op::Append { stream: stream(0), expected: Expected::Any, records: vec![NewRecord::data(&payload)] };
        store.commit(&Batch::new(vec![append])).expect("there is room");
    }
    // As a crash leaves it, and as it is closed.
    let crashed = device.folder.path().join("crashed");
    let copied = Command::new("cp").arg("-r").args([device.store(), crashed.clone()]).status();
    assert!(copied.is_ok_and(|status| status.success()));
    store.close().expect("it closes");
    drop(store);
    mount(&["-o", "remount,ro"], device.folder.path());
    for folder in [device.store(), crashed] {
        let refused = Store::open(&folder, options.clone()).expect_err("nothing can be written");
        assert_eq!(refused.kind(), ErrorKind::ReadOnly, "{refused}");
        let reader = Store::open(&folder, options.clone().read_only()).expect("it reads");
        assert_eq!(reader.scan(Position::FIRST).expect("it reads").count(), 2001);
        let refused = reader.append(stream(0), Expected::Any, &[]).expect_err("a reader");
        assert_eq!(refused.kind(), ErrorKind::ReadOnly);
        assert!(verify(&FsStorage::new(&folder)).expect("it reads").is_sound());
        check(&folder, 2000, 0);
    }
    let absent = Store::open(device.folder.path().join("none"), options).expect_err("nothing can be made");
    assert_eq!(absent.kind(), ErrorKind::ReadOnly, "{absent}");
}
