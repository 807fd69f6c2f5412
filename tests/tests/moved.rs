//! What people do to the folder of a store while a process has it open: it is moved or removed and another store made in
//! its place, a file of it can't be written any more, a file that doesn't belong is left in it.

#![cfg(unix)]

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use runlog_engine::{
    Batch, Durability, Expected, NewRecord, Op, OpenOptions, Store, storage::FsStorage, verify,
};
use runlog_tests::{
    checker,
    processes::{payload, stream},
};

fn options() -> OpenOptions {
    OpenOptions {
        segment_bytes_max: 64 << 10,
        durability: Durability::Os,
        ..OpenOptions::default()
    }
}

/// Appends records of a thread from a sequence on; the last that was acknowledged, and the error that ended it.
fn append(
    store: &Store,
    thread: u64,
    sequences: std::ops::RangeInclusive<u64>,
) -> (u64, Option<String>) {
    let mut last = sequences.start() - 1;
    for sequence in sequences {
        let payload = payload(thread, sequence);
        let append = Op::Append {
            stream: stream(thread),
            expected: Expected::Any,
            records: vec![NewRecord::data(&payload)],
        };
        match store.commit(&Batch::new(vec![append])) {
            Ok(_) => last = sequence,
            Err(error) => return (last, Some(error.to_string())),
        }
    }
    (last, None)
}

/// A store is whole: it verifies, the checker finds nothing, and it holds exactly these records of a thread.
fn assert_whole(folder: &Path, thread: u64, records: u64) {
    let verified = verify(&FsStorage::new(folder)).expect("it can be read");
    assert!(verified.is_sound(), "{:?}", verified.problems);
    let checked = checker::check(folder).unwrap_or_else(|problem| panic!("{problem}"));
    let streams = checked.streams();
    let found = streams
        .iter()
        .find(|(id, _)| id == stream(thread).as_bytes())
        .map(|(_, records)| &records[..]);
    let found = found.unwrap_or_default();
    assert_eq!(found.len() as u64, records);
    assert!(
        found
            .iter()
            .all(|(sequence, _, _, _, bytes)| *bytes == payload(thread, *sequence)),
        "another's records"
    );
    let store =
        Store::open(folder, options()).unwrap_or_else(|error| panic!("it doesn't open: {error}"));
    assert_eq!(
        store
            .stream(stream(thread))
            .expect("it reads")
            .expect("it is there")
            .last_sequence
            .0,
        records
    );
}

/// One writer is idle while its folder gives way to another store; then it goes on and closes. The other is as it was.
fn another_in_its_place(give_way: impl Fn(&Path), records_of_first: u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("data");
    let first = Store::open(&place, options()).expect("a new store");
    assert_eq!(append(&first, 0, 1..=20), (20, None));
    give_way(&place);
    let second = Store::open(&place, options()).expect("another store in its place");
    // Some segments.
    assert_eq!(append(&second, 1, 1..=150), (150, None));
    second.close().expect("it closes");
    drop(second);
    assert!(
        verify(&FsStorage::new(&place))
            .expect("it can be read")
            .segments
            > 2
    );
    // The first may go on in the folder that it has, or be refused; either way it leaves the other alone.
    let (_, error) = append(&first, 0, 21..=20 + records_of_first);
    let closed = first.close();
    drop(first);
    println!("the first after {records_of_first} more: {error:?}, closed: {closed:?}");
    assert_whole(&place, 1, 150);
}

fn moved(place: &Path) {
    fs::rename(place, place.with_extension("bak")).expect("it can be moved");
}

fn removed(place: &Path) {
    fs::remove_dir_all(place).expect("it can be removed");
}

#[test]
fn writer_whose_folder_was_moved_leaves_the_store_made_in_its_place_alone_when_it_turns_a_segment()
{
    another_in_its_place(moved, 100);
}

#[test]
fn writer_whose_folder_was_moved_leaves_the_store_made_in_its_place_alone_when_it_closes() {
    another_in_its_place(moved, 0);
}

#[test]
fn writer_whose_folder_was_removed_leaves_the_store_made_in_its_place_alone_when_it_turns_a_segment()
 {
    another_in_its_place(removed, 100);
}

#[test]
fn writer_whose_folder_was_removed_leaves_the_store_made_in_its_place_alone_when_it_closes() {
    another_in_its_place(removed, 0);
}

/// What stands in the way of the file through which other processes follow is told by the writer, when it is opened, when
/// it appends or when it is closed; or it is no obstacle. Those who follow aren't left behind in silence.
fn stands_in_the_way(prepare: impl Fn(&Path)) {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("data");
    let store = Store::open(&place, options()).expect("a new store");
    assert_eq!(append(&store, 0, 1..=10), (10, None));
    store.close().expect("it closes");
    drop(store);
    prepare(&place.join("WATERMARK"));
    let store = match Store::open(&place, options()) {
        Err(error) => return println!("opening tells: {error}"),
        Ok(store) => store,
    };
    // One that follows from now on.
    let reader = Store::open(&place, options().read_only());
    let (acknowledged, error) = append(&store, 0, 11..=60);
    if let Some(error) = error {
        return println!("appending tells: {error}");
    }
    let seen = reader.and_then(|reader| {
        Ok(reader
            .stream(stream(0))?
            .map_or(0, |info| info.last_sequence.0))
    });
    match (seen, store.stat().and_then(|_| store.close())) {
        (Err(error), _) => println!("the reader is told: {error}"),
        (Ok(seen), _) if seen >= acknowledged => println!("the reader sees {seen}"),
        (Ok(_), Err(error)) => println!("closing or its figures tell: {error}"),
        (Ok(seen), Ok(())) => {
            panic!("{acknowledged} were acknowledged, a reader sees {seen}, and nobody is told")
        }
    }
}

#[test]
fn writer_that_cannot_publish_because_of_a_folder_says_so() {
    stands_in_the_way(|file| {
        let _ = fs::remove_file(file);
        fs::create_dir(file).expect("a folder");
    });
}

#[test]
fn writer_that_cannot_publish_because_it_may_not_write_says_so() {
    stands_in_the_way(|file| {
        fs::set_permissions(file, fs::Permissions::from_mode(0o000)).expect("it is ours");
        if fs::OpenOptions::new().write(true).open(file).is_ok() {
            // Root may, but not to a program that runs.
            fs::remove_file(file).expect("it is ours");
            std::os::unix::fs::symlink(std::env::current_exe().expect("a path"), file)
                .expect("a link");
            assert!(fs::OpenOptions::new().write(true).open(file).is_err());
        }
    });
}

/// A store of two segments, with a copy of the first under another name: whoever reads and whoever writes say the same
/// of it.
fn stray_segment(name: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("data");
    let store = Store::open(&place, options()).expect("a new store");
    let mut last = 0;
    while store.stat().expect("it reads").segments < 2 {
        assert_eq!(append(&store, 0, last + 1..=last + 1), (last + 1, None));
        last += 1;
    }
    store.close().expect("it closes");
    drop(store);
    fs::copy(place.join("00000001.seg"), place.join(name)).expect("there is room");
    let verified = verify(&FsStorage::new(&place)).map(|found| found.is_sound());
    let read = Store::open(&place, options().read_only()).map(drop);
    let written = Store::open(&place, options()).map(|store| drop(store.close()));
    println!("{name}: verify {verified:?}, reader {read:?}, writer {written:?}");
    let verified = verified.unwrap_or(false);
    assert_eq!(
        verified,
        written.is_ok(),
        "verify: sound is {verified}; a writer: {written:?}"
    );
    assert_eq!(
        read.is_ok(),
        written.is_ok(),
        "a reader: {read:?}; a writer: {written:?}"
    );
}

#[test]
fn verify_and_a_writer_agree_on_a_stray_segment_behind_a_gap() {
    stray_segment("00000004.seg");
}

#[test]
fn verify_and_a_writer_agree_on_a_stray_segment_far_behind() {
    stray_segment("99999999.seg");
}
