//! A damaged store is exported as far as it can be read: what is missing is named in the archive, and by its import.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "in a test, a panic is the report"
)]
#![cfg(not(target_family = "wasm"))]

#[allow(dead_code, reason = "other tests use more of it")]
#[path = "archive/rich.rs"]
mod rich;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{BufRead, Cursor},
    ops::ControlFlow,
    path::Path,
};

use pollster::block_on;
use runlog::{
    Error, ErrorKind,
    agents::AGENTS_STREAM,
    archive::{self, Conflict, Imported, ImportedSession, LostRecords, Outcome, What},
    blocking::Store,
    engine::{self, StreamId, storage::FsStorage},
    flows::FLOWS_STREAM,
    log::{ReadOptions, Sequence},
    runs::{ListRuns, RUNS_STREAM},
    sessions::CATALOG_STREAM,
};
use runlog_model::kinds;
use serde_json::Value;

fn whole(store: &Store) -> runlog::Result<Vec<u8>> {
    let mut lines = Vec::new();
    archive::export(store, What::All, &mut |line| {
        lines.extend_from_slice(line);
        Ok::<(), Error>(())
    })?;
    Ok(lines)
}

fn readable(store: &Store) -> (Vec<u8>, Vec<LostRecords>) {
    let mut lines = Vec::new();
    let exported = archive::export_readable(store, What::All, &mut |line| {
        lines.extend_from_slice(line);
        Ok::<(), Error>(())
    });
    (lines, exported.unwrap().1)
}

fn import(store: &Store, lines: &[u8], strict: bool) -> runlog::Result<Imported> {
    let mut source = || Ok(Box::new(Cursor::new(lines.to_vec())) as Box<dyn BufRead>);
    archive::import(store, None, strict, &mut source)
}

/// The records of an archive by stream and sequence, those that a copy shares left out, and the lines of what is lost.
fn lines(archive: &[u8]) -> (BTreeMap<(String, u64), Value>, Vec<Value>) {
    let (mut records, mut lost) = (BTreeMap::new(), Vec::new());
    for line in archive
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        let line: Value = serde_json::from_slice(line).unwrap();
        match line["runlog"].as_str().unwrap() {
            "record" => {
                let stream = line["stream"].as_str().unwrap().to_owned();
                records.insert((stream, line["sequence"].as_u64().unwrap()), line);
            }
            "lost" => lost.push(line),
            _ => {}
        }
    }
    (records, lost)
}

/// The runs that are listed, of records by stream and sequence.
fn runs_of(records: &BTreeMap<(String, u64), Value>) -> BTreeSet<String> {
    let created = records
        .values()
        .filter(|line| line["kind"] == kinds::LISTED_RUN_CREATED);
    let ids = created.map(|line| line["payload"]["id"].as_str().unwrap());
    ids.map(str::to_owned).collect()
}

/// What can't be read of a stream.
fn unreadable(store: &Store, stream: StreamId) -> BTreeSet<u64> {
    let Some(info) = block_on(store.backend().stream(stream)).unwrap() else {
        return BTreeSet::new();
    };
    let is_lost = |sequence: &u64| {
        let options = ReadOptions {
            first: Sequence(*sequence),
            last: Sequence(*sequence),
            ..ReadOptions::default()
        };
        let read = block_on(store.backend().read(stream, options));
        read.is_err_and(|error| error.kind() == ErrorKind::Damaged)
    };
    (1..=info.last_sequence.0).filter(is_lost).collect()
}

fn copied(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// The sessions and the runs of a store, each of which can be looked at.
fn listed(store: &Store) -> (usize, usize) {
    let list = ListRuns {
        limit: 500,
        ..ListRuns::default()
    };
    let runs = store.runs().list(&list).unwrap().items;
    for run in &runs {
        store.runs().get(run.id).unwrap().unwrap();
    }
    let sessions = runlog::sessions::ListSessions {
        limit: 500,
        ..Default::default()
    };
    (
        store.list_sessions(&sessions).unwrap().items.len(),
        runs.len(),
    )
}

#[test]
fn what_can_be_read_of_a_damaged_store_is_exported_and_what_is_missing_is_told() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("original");
    let original = rich::open(&folder);
    rich::fill(&original);
    let sound = whole(&original).unwrap();
    let (same, lost) = readable(&original);
    assert!(same == sound && lost.is_empty(), "{lost:?}");
    let all = lines(&sound).0;
    let listed_there = listed(&original);
    original.close().unwrap();
    drop(original);
    let mut places = Vec::new();
    let lists = [CATALOG_STREAM, RUNS_STREAM, FLOWS_STREAM, AGENTS_STREAM];
    engine::salvage(&FsStorage::new(&folder), &mut |found| {
        let is_content = found.stream.is_some_and(|stream| !lists.contains(&stream));
        if is_content && found.kind.is_data() && !found.payload.is_empty() {
            places.push((found.file, found.offset));
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    let (mut damaged, mut cut, mut behind, mut completions) = (0, 0, 0, 0);
    let (mut unlisted, mut unlisted_whole) = (0, 0);
    for (number, (file, offset)) in places.iter().enumerate() {
        let folder = place.path().join(format!("damaged-{number}"));
        copied(&folder.with_file_name("original"), &folder);
        let path = folder.join(file);
        let mut bytes = fs::read(&path).unwrap();
        bytes[usize::try_from(*offset).unwrap() + 33] ^= 1;
        fs::write(&path, bytes).unwrap();
        let store = Store::open(&folder).unwrap();
        let exported = whole(&store);
        let (partial, lost) = readable(&store);
        let Err(error) = exported else {
            // Nothing has that record any more.
            assert!(lost.is_empty() && partial == sound, "{lost:?}");
            continue;
        };
        assert_eq!(error.kind(), ErrorKind::Damaged);
        damaged += 1;
        // Everything is in the archive, or named by it.
        let (records, lost_lines) = lines(&partial);
        assert_eq!(lost.len(), lost_lines.len());
        let mut missing = BTreeSet::new();
        for lost in lost.iter().filter(|lost| !lost.is_snapshot) {
            let unreadable = unreadable(&store, lost.stream);
            for sequence in lost.first..=lost.last {
                assert!(unreadable.contains(&sequence), "{lost:?}");
                missing.insert((lost.stream.to_string(), sequence));
            }
        }
        assert!(!missing.is_empty());
        let headless: BTreeSet<&str> = missing
            .iter()
            .filter(|(_, sequence)| *sequence == 1)
            .map(|(stream, _)| stream.as_str())
            .collect();
        let of_lists = lists.map(|stream| stream.to_string());
        for (key, line) in &all {
            match records.get(key) {
                Some(found) => assert_eq!(found, line),
                // A run is nothing without its beginning, and isn't listed.
                None if of_lists.contains(&key.0) => assert!(!headless.is_empty(), "{key:?}"),
                None => assert!(missing.contains(key), "{key:?}"),
            }
        }
        // A new store has each stream up to what is missing.
        let other = Store::in_memory();
        let strict = import(&other, &partial, true).unwrap_err();
        assert_eq!(strict.kind(), ErrorKind::Conflict);
        let imported = import(&other, &partial, false).unwrap();
        assert!(!imported.conflicts.is_empty());
        // Those that the lists of the archive left out are told, too, by the first reason that there is.
        let runs_told: BTreeSet<String> = runs_of(&all)
            .difference(&runs_of(&records))
            .cloned()
            .collect();
        for run in &runs_told {
            let tells = |it: &&Conflict| it.what.starts_with(&format!("run {run} of session "));
            assert_eq!(
                imported.conflicts.iter().filter(tells).count(),
                1,
                "run {run}: {:?}",
                imported.conflicts
            );
            unlisted += 1;
            unlisted_whole += usize::from(!headless.contains(run.as_str()));
        }
        for ((of, sequence), line) in &records {
            let stream: StreamId = of.parse::<uuid::Uuid>().unwrap().into();
            if lists.contains(&stream) || line["redacted"] == true {
                continue;
            }
            let options = ReadOptions {
                first: Sequence(*sequence),
                last: Sequence(*sequence),
                ..ReadOptions::default()
            };
            let read = block_on(other.backend().read(stream, options));
            let found = read.is_ok_and(|page| !page.records.is_empty());
            let is_behind = missing.iter().any(|(lost, at)| lost == of && at < sequence);
            // Of a copy, what it shares may be cut off.
            if is_behind {
                assert!(!found, "{of} {sequence}");
                behind += 1;
            }
            cut += usize::from(!found);
        }
        let (sessions, runs) = listed(&other);
        assert_eq!(sessions, listed_there.0);
        assert!(runs == listed_there.1 || !headless.is_empty());
        let end = || block_on(other.backend().maintenance().last_position()).unwrap();
        let before = end();
        let again = import(&other, &partial, false).unwrap();
        assert_eq!((again.conflicts, end()), (imported.conflicts, before));
        // The whole export, found later, completes it; but what a copy shares is never added to it.
        let completed = import(&other, &sound, false).unwrap();
        let is_of_copy = |what: &str| what.contains(" that ") && what.contains(" shares");
        assert!(
            completed.conflicts.iter().all(|it| is_of_copy(&it.what)),
            "{:?}",
            completed.conflicts
        );
        if completed.conflicts.is_empty() {
            assert_eq!(lines(&whole(&other).unwrap()).0.len(), all.len());
            // What is missing is no loss where it is there.
            let onto = import(&other, &partial, false).unwrap();
            let is_unchanged = |it: &ImportedSession| it.outcome == Outcome::Unchanged;
            assert!(onto.sessions.iter().all(is_unchanged));
            assert!(
                onto.conflicts
                    .iter()
                    .all(|it| it.what.contains("a state of"))
            );
            completions += 1;
        }
        fs::remove_dir_all(&folder).unwrap();
    }
    assert!(
        damaged > 20 && behind > 20 && cut >= behind && completions > 20,
        "{damaged} {behind} {cut} {completions}"
    );
    assert!(
        unlisted > unlisted_whole && unlisted_whole > 0,
        "{unlisted} {unlisted_whole}"
    );
}

#[test]
fn a_line_of_what_is_lost_that_cannot_be_is_refused() {
    let stream = "0198c7e0-0000-7000-8000-0000000000aa";
    let with = |lost: &str| {
        let archive = format!(
            r#"{{"runlog":"archive","version":2}}
{{"runlog":"stream","stream":"{stream}","of":"stream"}}
{{"runlog":"lost","stream":"{stream}",{lost}}}
{{"runlog":"record","stream":"{stream}","sequence":3,"position":9,"time_ms":1,"kind":1}}
{{"runlog":"end","streams":1,"records":1,"snapshots":0,"lost":1}}
"#
        );
        import(&Store::in_memory(), archive.as_bytes(), false)
    };
    let fits = with(r#""sequence":1,"last":2"#).unwrap();
    assert!(
        fits.conflicts[0].what.contains("1 record behind it"),
        "{fits:?}"
    );
    for lost in [
        r#""sequence":1"#,
        r#""sequence":2,"last":2"#,
        r#""sequence":1,"last":0"#,
        r#""sequence":1,"last":18446744073709551615"#,
        r#""sequence":0,"last":2"#,
        r#""sequence":1,"last":1"#,
    ] {
        let refused = with(lost).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{lost}: {refused}");
    }
}
