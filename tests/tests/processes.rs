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

use runlog_engine::{ErrorKind, OpenOptions, Position, ReadOptions, Store};
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
        let Some((thread, sequence)) = line.split_once(' ') else { continue };
        if let (Ok(thread), Ok(sequence)) = (thread.parse(), sequence.parse::<u64>()) {
            let last = acknowledged.entry(thread).or_insert(0);
            // The last line may have been cut within its number, which then is too small.
            *last = sequence.max(*last);
        }
    }
    child.wait().unwrap();
}

/// Everything acknowledged is there, nothing else but what directly follows, and the checker agrees.
fn check(folder: &Path, threads: u64, acknowledged: &BTreeMap<u64, u64>) -> u64 {
    let checked = checker::check(folder).unwrap();
    let store = Store::open(folder, OpenOptions::default()).unwrap();
    let mut records = 0;
    for thread in 0..threads {
        let mut sequence = 0;
        if store.stream(stream(thread)).unwrap().is_some() {
            for record in store.read(stream(thread), ReadOptions::default()).unwrap() {
                sequence += 1;
                let record = record.unwrap();
                assert_eq!(record.sequence.0, sequence);
                assert!(record.payload == payload(thread, sequence), "thread {thread}, sequence {sequence}");
            }
        }
        assert!(sequence >= acknowledged.get(&thread).copied().unwrap_or(0), "thread {thread} lost a record");
        records += sequence;
    }
    assert!(checked.records.len() as u64 >= records);
    records
}

#[test]
fn writer_killed_at_random_moments_loses_nothing_acknowledged() {
    let budget = budget::of("processes kills");
    let mut random = Random::new(budget.seed());
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut acknowledged = BTreeMap::new();
    let threads = 8;
    let mut kills = 0;
    while kills < 10 || budget.goes_on() {
        let writers = if kills % 2 == 0 { 1 } else { threads };
        kill_after(appender(folder.path(), writers), 1 + random.below(600), &mut acknowledged);
        let records = check(folder.path(), threads, &acknowledged);
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
    assert!(refused.to_string().contains(&format!("process {} ", child.id())), "{refused}");
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
        let record = subscription.next_timeout(Duration::from_secs(60)).unwrap().expect("the writer goes on");
        assert_eq!(record.position.0, position);
        if record.kind.is_data() {
            let thread = (0..4).find(|thread| stream(*thread) == record.stream).unwrap();
            assert!(record.payload == payload(thread, record.sequence.0));
        }
    }
    assert!(reader.stat().unwrap().segments > 1);
    child.kill().unwrap();
    child.wait().unwrap();
    drain.join().unwrap();
}
