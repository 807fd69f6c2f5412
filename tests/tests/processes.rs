//! Several processes on one folder: a writer that is killed with SIGKILL again and again, a second writer, and a reader
//! that follows.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use runlog_engine::{
    ErrorKind, OpenOptions, Position, ReadOptions, Store, storage::FsStorage, verify,
};
use runlog_tests::{
    budget, checker,
    processes::{payload, stream},
    random::Random,
};

fn appender(folder: &Path, threads: u64) -> Child {
    Command::new(env!("CARGO_BIN_EXE_appender"))
        .arg(folder)
        .arg(threads.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Reads what the appender says until it has acknowledged so many records, then kills it; what it acknowledged last
/// for each thread, the lines that were on their way when it was killed included.
fn kill_after(mut child: Child, records: u64, acknowledged: &mut BTreeMap<u64, u64>) {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "open");
    for count in 1.. {
        if count == records {
            child.kill().unwrap();
        }
        let Some(Ok(line)) = lines.next() else { break };
        // A line that was cut off says nothing.
        let Some((thread, sequence)) = line.split_once(' ') else {
            continue;
        };
        if let (Ok(thread), Ok(sequence)) = (thread.parse(), sequence.parse::<u64>()) {
            let last = acknowledged.entry(thread).or_insert(0);
            // The last line may have been cut within its number, which then is too small.
            *last = sequence.max(*last);
        }
    }
    child.wait().unwrap();
}

/// Kills the appender so early that it may not have opened the store yet.
fn kill_early(mut child: Child, micros: u64) {
    std::thread::sleep(Duration::from_micros(micros));
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Everything acknowledged is there, and nothing but what directly follows it, as the checker reads it.
fn check(folder: &Path, acknowledged: &BTreeMap<u64, u64>) -> u64 {
    let checked = checker::check(folder).unwrap();
    let streams: BTreeMap<_, _> = checked.streams().into_iter().collect();
    for (thread, last) in acknowledged {
        let found = streams
            .get(stream(*thread).as_bytes())
            .map_or(0, |records| records.len() as u64);
        assert!(
            found >= *last,
            "thread {thread}: {last} records were acknowledged, {found} are there"
        );
    }
    for thread in 0..THREADS {
        for (sequence, position, _, _, found) in
            streams.get(stream(thread).as_bytes()).into_iter().flatten()
        {
            assert!(
                *found == payload(thread, *sequence),
                "thread {thread}, sequence {sequence}, position {position}"
            );
        }
    }
    let records: usize = streams.values().map(Vec::len).sum();
    assert_eq!(
        checked.last_position(),
        (records + streams.len()) as u64,
        "records of nobody"
    );
    records as u64
}

/// What the engine reads is what the checker read.
fn check_with_engine(folder: &Path) {
    let store = Store::open(folder, OpenOptions::default()).unwrap();
    for thread in 0..THREADS {
        let read = store
            .stream(stream(thread))
            .unwrap()
            .map(|info| store.read(info.id, ReadOptions::default()).unwrap());
        for (record, sequence) in read.into_iter().flatten().zip(1..) {
            let record = record.unwrap();
            assert_eq!(record.sequence.0, sequence);
            assert!(
                record.payload == payload(thread, sequence),
                "thread {thread}, sequence {sequence}"
            );
        }
    }
}

const THREADS: u64 = 8;

#[test]
fn writer_killed_at_random_moments_loses_nothing_acknowledged() {
    let budget = budget::of("processes kills");
    let mut random = Random::new(budget.seed());
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut acknowledged = BTreeMap::new();
    let kills_min = if budget::is_torture() { 300 } else { 15 };
    let mut kills = 0;
    while kills < kills_min || budget.goes_on() {
        let writers = if kills % 2 == 0 { 1 } else { THREADS };
        kill_after(
            appender(folder.path(), writers),
            1 + random.below(300),
            &mut acknowledged,
        );
        if kills % 2 == 1 {
            kill_early(appender(folder.path(), THREADS), random.below(8000));
            budget.add("kills", 1);
        }
        let records = check(folder.path(), &acknowledged);
        // Else the next writer recovers what this one left.
        if kills % 3 == 0 {
            check_with_engine(folder.path());
            check(folder.path(), &acknowledged);
        }
        kills += 1;
        budget.add("kills", 1);
        budget.add("records checked", records);
    }
}

#[test]
fn second_writer_is_refused_and_told_which_process_has_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = appender(folder.path(), 1);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "open");
    let refused = Store::open(folder.path(), OpenOptions::default()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Locked);
    assert!(
        refused
            .to_string()
            .contains(&format!("process {} ", child.id())),
        "{refused}"
    );
    child.kill().unwrap();
    child.wait().unwrap();
    Store::open(folder.path(), OpenOptions::default()).unwrap();
}

#[test]
fn reader_in_another_process_follows_over_segments_without_gap_or_repeat() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = appender(folder.path(), 4);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "open");
    let drain = std::thread::spawn(move || lines.count());
    let reader = Store::open(folder.path(), OpenOptions::default().read_only()).unwrap();
    let mut subscription = reader.subscribe(Position::FIRST);
    // More than a segment of 1 MiB.
    for position in 1..=3000 {
        let record = subscription
            .next_timeout(Duration::from_secs(60))
            .unwrap()
            .expect("the writer goes on");
        assert_eq!(record.position.0, position);
        if record.kind.is_data() {
            let thread = (0..4)
                .find(|thread| stream(*thread) == record.stream)
                .unwrap();
            assert!(record.payload == payload(thread, record.sequence.0));
        }
    }
    assert!(reader.stat().unwrap().segments > 1);
    child.kill().unwrap();
    child.wait().unwrap();
    drain.join().unwrap();
}

#[test]
fn reader_goes_on_with_the_next_writer_after_one_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged = BTreeMap::new();
    let mut reader = None;
    let mut seen = Vec::new();
    for _ in 0..4 {
        let child = appender(folder.path(), 4);
        kill_after(child, 200, &mut acknowledged);
        let store = reader.get_or_insert_with(|| {
            Store::open(folder.path(), OpenOptions::default().read_only()).unwrap()
        });
        let mut subscription = store.subscribe(Position(seen.len() as u64 + 1));
        while let Some(record) = subscription.next_timeout(Duration::ZERO).unwrap() {
            seen.push((record.position.0, record.sequence.0, record.payload));
        }
    }
    check(folder.path(), &acknowledged);
    let log = checker::check(folder.path()).unwrap();
    for ((position, sequence, found), record) in seen.iter().zip(&log.records) {
        let expected = (
            record.position,
            u64::from(record.sequence),
            &record.payload[..],
        );
        assert!(
            (*position, *sequence, &found[..]) == expected,
            "position {position}"
        );
    }
    // A record that was written when its writer was killed may not have been published yet; an acknowledged one was.
    assert!(seen.len() <= log.records.len());
    let acknowledged: u64 = acknowledged.values().sum();
    let records = log.records[..seen.len()]
        .iter()
        .filter(|record| record.kind < 128);
    assert!(records.count() as u64 >= acknowledged);
}

#[test]
fn verify_beside_a_writer_finds_nothing_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = appender(folder.path(), 4);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "open");
    let drain = std::thread::spawn(move || lines.count());
    let storage = FsStorage::new(folder.path());
    let mut records = 0;
    // Until it has met some segments.
    while records < 3000 {
        let verification = verify(&storage).unwrap();
        assert!(verification.is_sound(), "{:?}", verification.problems);
        assert!(
            verification.records >= records,
            "{} records, then {}",
            records,
            verification.records
        );
        records = verification.records;
    }
    child.kill().unwrap();
    child.wait().unwrap();
    drain.join().unwrap();
    assert!(verify(&storage).unwrap().is_sound());
}
