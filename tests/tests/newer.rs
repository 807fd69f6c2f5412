//! What a newer build wrote is told as that, by the engine as by the page: it is not damage, and nothing of it is
//! repaired, cut or overwritten.

use std::sync::Arc;

use runlog_engine::{ErrorKind, OpenOptions, Position, Store, storage::Storage};
use runlog_tests::{
    checker::{self, Files},
    damage::{Found, Left, Victim, victim},
    faulty::FaultyStorage,
    forge::{self, HEADER_BYTES, TRAILER_BYTES},
};

/// A store with one thing in it that this version doesn't know, under checks that are right.
struct Newer {
    what: String,
    files: Files,
    read: Read,
}

/// When the engine has to read it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Read {
    /// At opening.
    Opening,
    /// When the record with this position is asked for.
    Record(u64),
    /// Never, but to verify: it is a mark.
    Never,
}

fn newer(victim: &Victim, what: String, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> Newer {
    let mut files = victim.files.clone();
    change(files.get_mut(name).expect("it has the file"));
    Newer {
        what,
        files,
        read: Read::Opening,
    }
}

/// Structures whose CRC is in their last 4 bytes.
fn structures(victim: &Victim) -> Vec<Newer> {
    let mut all = Vec::new();
    let small = [
        ("RUNLOG", &[8, 40, 47, 80, 123]),
        ("END", &[8, 80, 99, 100, 123]),
    ];
    for (name, places) in small
        .into_iter()
        .filter(|(name, _)| victim.files.contains_key(*name))
    {
        for place in places {
            all.push(newer(
                victim,
                format!("byte {place} of {name}"),
                name,
                |bytes| {
                    bytes[*place] ^= 0x40;
                    forge::structure(bytes);
                },
            ));
        }
    }
    for name in victim.files.keys().filter(|name| name.ends_with(".seg")) {
        for place in [8, 68, 69, 70, 88, 95, 124, 128, 132, 136, 151, 168, 507] {
            all.push(newer(
                victim,
                format!("byte {place} of the header of {name}"),
                name,
                |bytes| {
                    bytes[place] ^= 0x40;
                    forge::header(&mut bytes[..]);
                },
            ));
        }
    }
    for name in victim.sealed() {
        for place in [8, 68, 71, 92, 123] {
            all.push(newer(
                victim,
                format!("byte {place} of the trailer of {name}"),
                name,
                |bytes| {
                    let start = bytes.len() - TRAILER_BYTES;
                    bytes[start + place] ^= 0x40;
                    forge::trailer(bytes);
                },
            ));
        }
    }
    all
}

/// Every record with each unknown flag and some unknown kinds.
fn records(victim: &Victim) -> Vec<Newer> {
    let checked = checker::check_files(&victim.files, None).expect("it is whole");
    let mut all = Vec::new();
    for record in checked.records.iter().chain(&checked.marks) {
        let segment = &checked.segments[record.segment as usize - 1];
        let name = format!("{:08}.seg", record.segment);
        let start = usize::try_from(record.offset).expect("small");
        for (place, value) in [
            (3, record.flags | 32),
            (3, record.flags | 64),
            (2, 136),
            (2, 191),
        ] {
            let what = format!("byte {place} of the record at {start} of {name} is {value}");
            let mut made = newer(victim, what, &name, |bytes| {
                bytes[start + place] = value;
                forge::record(bytes, start, segment.seed);
            });
            // What the checkpoint covers is as little read at opening as what is sealed.
            if segment.sealed || victim.files.contains_key("CHECKPOINT") {
                made.read = if record.has_position() {
                    Read::Record(record.position)
                } else {
                    Read::Never
                };
            }
            all.push(made);
        }
    }
    all
}

/// That the segments hold what they held, but for what is behind the records.
fn same_segments(before: &Files, after: &Files) -> Result<(), String> {
    for (name, bytes) in before
        .iter()
        .filter(|(name, _)| name.ends_with(".seg") || *name == "RUNLOG")
    {
        let kept = bytes
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |last| last + 1);
        if after.get(name).and_then(|after| after.get(..kept)) != Some(&bytes[..kept]) {
            return Err(format!("{name} was changed"));
        }
    }
    match after.keys().find(|name| name.starts_with("cut-")) {
        None => Ok(()),
        Some(name) => Err(format!("{name} was cut")),
    }
}

fn examine(victim: &Victim, newer: &Newer) -> Result<(), String> {
    match checker::check_files(&newer.files, None) {
        Err(problem) if problem.is_newer() => {}
        checked => {
            return Err(format!(
                "the checker: {:?}",
                checked.map(|checked| checked.records.len())
            ));
        }
    }
    let storage = FaultyStorage::from_files(&newer.files);
    match (victim.examine(&storage)?, newer.read) {
        (Found::Refused(error), _) if error.kind() == ErrorKind::UnsupportedVersion => {}
        (Found::Opened { refused: 1.., .. }, Read::Record(position)) => {
            let store = Store::open_on(
                Arc::new(storage.clone()),
                OpenOptions::default().read_only(),
            );
            let read = store.and_then(|store| store.record(Position(position)));
            if !read
                .as_ref()
                .is_err_and(|error| error.kind() == ErrorKind::UnsupportedVersion)
            {
                return Err(format!("read as {read:?}"));
            }
        }
        (Found::Opened { .. }, Read::Never) => {}
        (found, _) => return Err(format!("found {found:?}")),
    }
    same_segments(&newer.files, &storage.files()).map_err(|error| format!("opening: {error}"))?;
    victim.examine_as_reader(&storage)?;
    let verified = runlog_engine::verify(&storage as &dyn Storage);
    if verified.is_ok_and(|verified| verified.is_sound()) {
        return Err("verify finds it sound".to_owned());
    }
    let shared: Arc<dyn Storage> = Arc::new(storage.clone());
    // Whether it refuses or finds nothing to do.
    drop(runlog_engine::repair(
        &shared,
        "a person",
        &runlog_engine::SystemHost,
    ));
    same_segments(&newer.files, &storage.files()).map_err(|error| format!("repair: {error}"))
}

fn try_all(left: Left) {
    let victim = victim(left);
    let mut all = structures(&victim);
    all.extend(records(&victim));
    assert!(all.len() > 200);
    let failed = |newer: &Newer| {
        examine(&victim, newer)
            .err()
            .map(|error| format!("{}: {error}", newer.what))
    };
    let wrong: Vec<_> = all.iter().filter_map(failed).collect();
    let told: Vec<_> = wrong.iter().take(30).map(String::as_str).collect();
    assert!(
        wrong.is_empty(),
        "{} of {} went wrong:\n{}",
        wrong.len(),
        all.len(),
        told.join("\n")
    );
}

#[test]
fn newer_builds_bytes_in_a_closed_store_are_told_and_left_alone() {
    try_all(Left::Closed);
}

#[test]
fn newer_builds_bytes_after_a_crash_are_told_and_left_alone() {
    try_all(Left::Crashed);
}

/// One copy of a header is enough; a sealed segment has a third.
#[test]
fn damaged_copy_of_a_header_is_passed_over() {
    for left in [Left::Closed, Left::Crashed] {
        let victim = victim(left);
        for name in victim.files.keys().filter(|name| name.ends_with(".seg")) {
            for start in forge::HEADER_COPIES {
                let storage =
                    victim.changed(name, |bytes| bytes[start..start + HEADER_BYTES].fill(0xff));
                let found = victim.examine(&storage).unwrap();
                assert!(
                    victim.is_whole(&found),
                    "{name}, copy at {start}: {found:?}"
                );
            }
            let mut files = victim.files.clone();
            let bytes = files.get_mut(name).unwrap();
            for start in forge::HEADER_COPIES {
                bytes[start] ^= 1;
            }
            let found = victim.examine(&FaultyStorage::from_files(&files)).unwrap();
            let is_sealed = victim.sealed().contains(&name.as_str());
            assert_eq!(
                victim.is_whole(&found),
                is_sealed,
                "{name} without a header in front: {found:?}"
            );
            assert_eq!(
                checker::check_files(&files, None).is_ok(),
                is_sealed,
                "{name}"
            );
        }
    }
}
