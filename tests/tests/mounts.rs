//! On real file systems of their own: a full one, one that cannot be written to, and one on a device that can't be read.
//!
//! Each needs a mount, which is made in a mount namespace that ends with the process, as root or with a user namespace.
//! Where the system allows neither, the tests were not run: this harness, which speaks as the usual one does, counts them
//! as ignored and says why.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use runlog_engine::{
    Batch, Durability, ErrorKind, Expected, NewRecord, Op, OpenOptions, Position, Preallocation,
    Store, storage::FsStorage, verify,
};
use runlog_tests::{
    mounts::{
        self, BTRFS, Device, EXT4, FileSystem, Mount, NotRun, TMPFS, Test, XFS, check, fill,
        succeeds,
    },
    processes::{payload, stream},
};

const TESTS: [Test; 14] = [
    ("full_device_is_told_and_loses_nothing_acknowledged", || {
        full_device(&TMPFS)
    }),
    (
        "full_device_is_told_and_loses_nothing_acknowledged_on_ext4",
        || full_device(&EXT4),
    ),
    (
        "full_device_is_told_and_loses_nothing_acknowledged_on_xfs",
        || full_device(&XFS),
    ),
    (
        "full_device_is_told_and_loses_nothing_acknowledged_on_btrfs",
        || full_device(&BTRFS),
    ),
    (
        "appends_go_on_without_reopening_once_space_was_made",
        || space_made(&TMPFS),
    ),
    (
        "appends_go_on_without_reopening_once_space_was_made_on_ext4",
        || space_made(&EXT4),
    ),
    (
        "appends_go_on_without_reopening_once_space_was_made_on_xfs",
        || space_made(&XFS),
    ),
    (
        "appends_go_on_without_reopening_once_space_was_made_on_btrfs",
        || space_made(&BTRFS),
    ),
    ("last_room_of_a_device_is_used", || last_room(&TMPFS)),
    ("last_room_of_a_device_is_used_on_ext4", || last_room(&EXT4)),
    ("last_room_of_a_device_is_used_on_xfs", || last_room(&XFS)),
    ("last_room_of_a_device_is_used_on_btrfs", || {
        last_room(&BTRFS)
    }),
    (
        "store_that_cannot_be_written_to_is_read_and_refuses_writers",
        read_only,
    ),
    (
        "device_that_cannot_be_read_is_an_error_and_the_process_lives",
        unreadable,
    ),
];

fn main() -> ExitCode {
    mounts::main(&TESTS)
}

fn full_device(kind: &FileSystem) -> Result<(), NotRun> {
    let setups = [
        (Durability::Sync, Preallocation::Auto),
        (Durability::Sync, Preallocation::None),
        (Durability::Os, Preallocation::Auto),
        (Durability::Os, Preallocation::None),
    ];
    for (durability, preallocation) in setups {
        let device = Device::of(kind, 6)?;
        let store = Store::open(device.store(), device.options(durability, preallocation))
            .expect("there is room");
        let (acknowledged, kind) = fill(&store, 0);
        assert!(acknowledged > 1000, "{acknowledged}");
        // Where room is made ahead the append is refused; where files grow a write may have failed half way.
        let is_told = match preallocation {
            Preallocation::Auto => kind == ErrorKind::StorageFull,
            Preallocation::None => {
                matches!(kind, ErrorKind::StorageFull | ErrorKind::OutcomeUnknown)
            }
        };
        assert!(is_told, "{durability:?}, {preallocation:?}: {kind:?}");
        assert_eq!(
            store
                .read(stream(0), Default::default())
                .expect("it reads")
                .count() as u64,
            acknowledged
        );
        let _ = store.close();
        drop(store);
        let count = check(&device.store(), acknowledged, 1);
        // It is still full, and still reads.
        let reader = device.options(durability, preallocation).read_only();
        let reader = Store::open(device.store(), reader).expect("reading takes no room");
        let read = reader
            .read(stream(0), Default::default())
            .expect("it reads")
            .count() as u64;
        // One of which nobody knows whether it was written is not shown before a writer has made it durable.
        assert!(
            (acknowledged..=count).contains(&read),
            "{acknowledged} were acknowledged, {count} are there, {read} read"
        );
        println!("{durability:?}, {preallocation:?}: {count} records, then {kind:?}");
    }
    Ok(())
}

fn space_made(kind: &FileSystem) -> Result<(), NotRun> {
    for durability in [Durability::Sync, Durability::Os] {
        for preallocation in [Preallocation::Auto, Preallocation::None] {
            let device = Device::of(kind, 7)?;
            let spare = device.mount.folder().join("spare");
            fs::write(&spare, vec![1; 1 << 20]).expect("there is room");
            let ballast = |bytes: usize| {
                // As much of it as there is room for.
                let path = device.mount.folder().join("ballast");
                let _ = fs::write(&path, vec![1; bytes]);
                path
            };
            let path = ballast(3 << 20);
            let options = device.options(durability, preallocation);
            let store = Store::open(device.store(), options.clone()).expect("there is room");
            let (acknowledged, kind) = fill(&store, 0);
            assert_eq!(kind, ErrorKind::StorageFull);
            // Refused again and again, it goes on when there is room; and so twice. The system may have found a little
            // room meanwhile.
            let (acknowledged, kind) = fill(&store, acknowledged);
            assert_eq!(kind, ErrorKind::StorageFull);
            fs::remove_file(&path).expect("it can be removed");
            let (acknowledged_more, kind) = fill(&store, acknowledged);
            assert_eq!(kind, ErrorKind::StorageFull);
            assert!(
                acknowledged_more > acknowledged + 500,
                "{acknowledged}, then {acknowledged_more}"
            );
            // A store that is closed on a full device gives back what room it has left, and is opened again with none.
            let _ = store.close();
            drop(store);
            check(&device.store(), acknowledged_more, 0);
            let path = ballast(6 << 20);
            let acknowledged_more = match Store::open(device.store(), options.clone()) {
                Ok(store) => fill(&store, acknowledged_more).0,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
                    acknowledged_more
                }
            };
            // Where there was no room even for its name it isn't there.
            let _ = fs::remove_file(&path);
            fs::remove_file(&spare).expect("it can be removed");
            let store = Store::open(device.store(), options).expect("there is room again");
            let records = store
                .read(stream(0), Default::default())
                .expect("it reads")
                .count() as u64;
            assert_eq!(records, acknowledged_more);
        }
    }
    Ok(())
}

/// A device that has room for a little more, but not for as much as a file usually grows by.
fn last_room(kind: &FileSystem) -> Result<(), NotRun> {
    let device = Device::of(kind, 6)?;
    let options = OpenOptions::default;
    let store = Store::open(device.store(), options()).expect("there is room");
    let record = NewRecord::data(b"small");
    store
        .append(stream(0), Expected::Any, &[record])
        .expect("there is room");
    store.close().expect("it closes");
    drop(store);
    let ballast = device.mount.folder().join("ballast");
    fs::write(&ballast, vec![1; 5 << 20]).expect("there is room");
    // Until it is written back, a file system holds more for it than it takes, and what was freed isn't free yet.
    let synced = Command::new("sync").status();
    assert!(synced.expect("there is sync").success());
    let store = Store::open(device.store(), options()).expect("nothing has to be written");
    for _ in 0..100 {
        store
            .append(stream(0), Expected::Any, &[record])
            .expect("there is room for a little");
    }
    store.close().expect("it closes");
    Ok(())
}

fn read_only() -> Result<(), NotRun> {
    let device = Device::new(16);
    let options = device.options(Durability::Sync, Preallocation::Auto);
    let store = Store::open(device.store(), options.clone()).expect("a new store");
    for sequence in 1..=2000 {
        let payload = payload(0, sequence);
        let append = Op::Append {
            stream: stream(0),
            expected: Expected::Any,
            records: vec![NewRecord::data(&payload)],
        };
        store
            .commit(&Batch::new(vec![append]))
            .expect("there is room");
    }
    // As a crash leaves it, and as it is closed.
    let crashed = device.mount.folder().join("crashed");
    let copied = Command::new("cp")
        .arg("-r")
        .args([device.store(), crashed.clone()])
        .status();
    assert!(copied.is_ok_and(|status| status.success()));
    store.close().expect("it closes");
    drop(store);
    device.mount.remount("ro").expect("it can be");
    for folder in [device.store(), crashed] {
        let refused = Store::open(&folder, options.clone()).expect_err("nothing can be written");
        assert_eq!(refused.kind(), ErrorKind::ReadOnly, "{refused}");
        let reader = Store::open(&folder, options.clone().read_only()).expect("it reads");
        assert_eq!(
            reader.scan(Position::FIRST).expect("it reads").count(),
            2001
        );
        let refused = reader
            .append(stream(0), Expected::Any, &[])
            .expect_err("a reader");
        assert_eq!(refused.kind(), ErrorKind::ReadOnly);
        assert!(
            verify(&FsStorage::new(&folder))
                .expect("it reads")
                .is_sound()
        );
        check(&folder, 2000, 0);
    }
    let absent =
        Store::open(device.mount.folder().join("none"), options).expect_err("nothing can be made");
    assert_eq!(absent.kind(), ErrorKind::ReadOnly, "{absent}");
    Ok(())
}

/// Where a file begins on the device that it is on, in bytes.
fn place_of(path: &Path) -> Option<u64> {
    let extents = Command::new("filefrag").arg("-v").arg(path).output().ok()?;
    let extents = String::from_utf8_lossy(&extents.stdout).into_owned();
    let first = extents
        .lines()
        .find(|line| line.trim_start().starts_with("0:"))?;
    first
        .split(':')
        .nth(2)?
        .trim()
        .split("..")
        .next()?
        .parse::<u64>()
        .ok()
        .map(|block| block * 4096)
}

/// A device whose bytes are a file, which is cut: what lies behind the cut can't be read.
fn unreadable() -> Result<(), NotRun> {
    let folder = tempfile::tempdir().expect("a folder");
    let (image, disk) = (folder.path().join("image"), folder.path().join("disk"));
    let cut = |bytes| {
        fs::File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&image)?
            .set_len(bytes)
    };
    cut(32 << 20).expect("there is room");
    fs::create_dir(&disk).expect("there is room");
    succeeds(
        Command::new("mkfs.ext4")
            .args(["-q", "-F", "-b", "4096", "-O", "^has_journal"])
            .arg(&image),
    )
    .map_err(NotRun)?;
    let place: PathBuf = disk.join("store");
    let options = OpenOptions {
        durability: Durability::Os,
        segment_bytes_max: 256 << 10,
        preallocation: Preallocation::None,
        ..OpenOptions::default()
    };
    let mounted = Mount::image(&image, "rw", &disk).map_err(NotRun)?;
    let store = Store::open(&place, options.clone()).expect("there is room");
    for sequence in 1..=4000 {
        let payload = payload(0, sequence);
        store
            .append(stream(0), Expected::Any, &[NewRecord::data(&payload)])
            .expect("there is room");
    }
    store.close().expect("it closes");
    drop(store);
    // Nothing of it is in memory afterwards.
    drop(mounted);
    let _mounted = Mount::image(&image, "rw", &disk).map_err(NotRun)?;
    let store = Store::open(&place, options.read_only()).expect("it reads");
    assert!(store.stat().expect("it reads").segments > 3);
    let second = place_of(&place.join("00000002.seg"));
    let second =
        second.ok_or_else(|| NotRun("filefrag doesn't tell where a file is".to_owned()))?;
    let read = || store.read(stream(0), Default::default()).expect("it reads");
    // The beginning is in memory from here on, wherever the first segment is.
    assert!(read().take(10).all(|record| record.is_ok()));
    cut(second + 12 * 4096).expect("it can be cut");
    let count = read().take_while(Result::is_ok).count() as u64;
    assert!(count > 0 && count < 4000, "{count} records were read");
    let error = read().find_map(Result::err).expect("an error");
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert!(
        error.to_string().contains(".seg: reading ") && error.to_string().contains("at offset "),
        "{error}"
    );
    let error = store
        .scan(Position::FIRST)
        .expect("it reads")
        .find_map(Result::err)
        .expect("an error");
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    let error = verify(&FsStorage::new(&place)).expect_err("it can't be read");
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    Ok(())
}
