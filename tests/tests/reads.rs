//! What a read gives where a record is damaged, a read fails, or a snapshot was redacted; and that nobody waits for
//! the device because another reads.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::{
    io,
    ops::ControlFlow,
    sync::{Arc, Mutex, mpsc},
    thread,
    time::Duration,
};

use runlog_engine::{
    Batch, Direction, ErrorKind, Expected, NewRecord, Op, OpenOptions, Position, Preallocation,
    ReadOptions, Sequence, Store, StreamId,
    storage::{Access, MemoryStorage, Storage},
};
use runlog_tests::tapped::{self, Tap};

/// What happens to the next read of a file of the log.
#[derive(Default)]
enum Next {
    #[default]
    Reads,
    Fails,
    /// Tells that it began, then waits to be let go on.
    Waits(mpsc::Sender<()>, mpsc::Receiver<()>),
}

/// The next read of a segment fails or waits, when it is told to.
#[derive(Default)]
struct NextRead(Mutex<Next>);

/// Memory of which a test decides what happens to the next read of a segment.
type Tapped = tapped::Tapped<MemoryStorage, NextRead>;

impl NextRead {
    fn set(&self, next: Next) {
        *self.0.lock().unwrap() = next;
    }
}

impl Tap for NextRead {
    fn read(&self, name: &str, _offset: u64, _bytes: u64) -> io::Result<()> {
        if !name.contains(".seg") {
            return Ok(());
        }
        let next = std::mem::take(&mut *self.0.lock().unwrap());
        match next {
            Next::Reads => {}
            Next::Fails => return Err(io::Error::other("injected: this read fails")),
            Next::Waits(began, go_on) => {
                began.send(()).unwrap();
                let _ = go_on.recv();
            }
        }
        Ok(())
    }
}

fn options() -> OpenOptions {
    OpenOptions {
        segment_bytes_max: 64 << 10,
        preallocation: Preallocation::None,
        ..OpenOptions::default()
    }
}

fn stream(number: u8) -> StreamId {
    StreamId::from_bytes([number; 16])
}

fn payload(number: u64) -> String {
    format!("the payload of record {number:05}")
}

/// A store of so many records of one stream, each a batch of its own. Their sequences are 1, 2, 3, …, and their
/// positions one more.
fn store_of(storage: &Tapped, records: u64) -> Store {
    let store = Store::open_on(Arc::new(storage.clone()), options()).unwrap();
    for number in 1..=records {
        store
            .append(
                stream(1),
                Expected::Any,
                &[NewRecord::data(payload(number).as_bytes())],
            )
            .unwrap();
    }
    store
}

/// Damages the header of the record with a sequence.
fn damage(storage: &Tapped, number: u64) {
    let wanted = payload(number);
    let names = storage.list().unwrap();
    for name in names.iter().filter(|name| name.ends_with(".seg")) {
        let file = storage.storage().open(name, Access::Write).unwrap();
        let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
        file.read_at(0, &mut bytes).unwrap();
        if let Some(at) = bytes
            .windows(wanted.len())
            .position(|found| found == wanted.as_bytes())
        {
            file.write_at(at as u64 - 20, &[bytes[at - 20] ^ 0x55])
                .unwrap();
            return;
        }
    }
    panic!("no record {number}");
}

const RECORDS: u64 = 2000;
/// A sampled record and one that isn't, in a sealed segment; and one in the active one.
const DAMAGED: [u64; 3] = [127, 300, 1990];

fn damaged_store() -> Store {
    let storage = Tapped::default();
    let store = store_of(&storage, RECORDS);
    assert!(store.stat().unwrap().segments > 2);
    DAMAGED
        .into_iter()
        .for_each(|number| damage(&storage, number));
    store
}

/// The sequences that a read gave, and 0 for each error.
fn told(found: impl Iterator<Item = runlog_engine::Result<runlog_engine::Record>>) -> Vec<u64> {
    found
        .map(|found| match found {
            Ok(record) => record.sequence.0,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
                0
            }
        })
        .collect()
}

/// That every record was given once, but for an error in the place of each that is damaged.
fn assert_all_but_the_damaged(found: &[u64]) {
    let expected: Vec<u64> = (1..=RECORDS)
        .map(|number| if DAMAGED.contains(&number) { 0 } else { number })
        .collect();
    let differs = found
        .iter()
        .zip(&expected)
        .position(|(found, expected)| found != expected);
    assert_eq!((found.len(), differs), (expected.len(), None));
}

#[test]
fn scan_tells_a_damaged_record_once_and_gives_every_other() {
    let store = damaged_store();
    assert_all_but_the_damaged(&told(store.scan(Position(2)).unwrap().take(5000)));
    // Some are taken, and the others shown.
    let mut log = store.scan(Position(2)).unwrap();
    let mut found = told(log.by_ref().take(500));
    log.for_each_ref(|record| {
        found.extend(told(std::iter::once(
            record.map(|record| record.to_record()),
        )));
        ControlFlow::Continue(())
    });
    assert_all_but_the_damaged(&found);
}

#[test]
fn showing_that_is_stopped_goes_on_with_the_next_record() {
    let store = damaged_store();
    let (mut log, mut found) = (store.scan(Position(2)).unwrap(), Vec::new());
    let mut records = store.read(stream(1), ReadOptions::default()).unwrap();
    let mut read = Vec::new();
    while found.len() < 1999 {
        log.for_each_ref(|record| {
            found.push(record.map_or(0, |record| record.sequence.0));
            ControlFlow::Break(())
        });
        records.for_each_ref(|record| {
            read.push(record.map_or(0, |record| record.sequence.0));
            ControlFlow::Break(())
        });
        found.extend(told(log.by_ref().take(1)));
        read.extend(told(records.by_ref().take(1)));
    }
    found.extend(told(log));
    read.extend(told(records));
    assert_all_but_the_damaged(&found);
    assert_all_but_the_damaged(&read);
}

#[test]
fn next_readable_passes_what_is_damaged_and_nothing_else() {
    let store = damaged_store();
    let last = store.last_position().unwrap().0;
    for position in 1..=last + 1 {
        let is_readable = |at: &u64| store.record(Position(*at)).is_ok();
        let expected = (position..=last).find(is_readable).map(Position);
        let found = store.next_readable(Position(position)).unwrap();
        assert_eq!(found, expected, "from {position}");
    }
}

#[test]
fn subscription_tells_a_damaged_record_once_and_gives_every_other() {
    let store = damaged_store();
    let mut subscription = store.subscribe(Position(2));
    let next = || subscription.next_timeout(Duration::ZERO).transpose();
    assert_all_but_the_damaged(&told(std::iter::from_fn(next).take(5000)));
}

#[test]
fn stream_with_a_damaged_record_is_read_to_its_end_both_ways() {
    let store = damaged_store();
    assert_all_but_the_damaged(&told(
        store
            .read(stream(1), ReadOptions::default())
            .unwrap()
            .take(5000),
    ));
    let backward = ReadOptions {
        direction: Direction::Backward,
        ..ReadOptions::default()
    };
    let mut found = told(store.read(stream(1), backward).unwrap().take(5000));
    found.reverse();
    assert_all_but_the_damaged(&found);
}

#[test]
fn records_beside_a_damaged_one_are_found_by_their_positions_and_can_be_redacted() {
    let store = damaged_store();
    for number in 1..=RECORDS {
        let found = store.record(Position(number + 1));
        if DAMAGED.contains(&number) {
            let error = found.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Damaged);
            assert!(
                error
                    .to_string()
                    .contains(&format!("position {}", number + 1)),
                "{error}"
            );
        } else {
            assert_eq!(found.unwrap().unwrap().payload, payload(number));
        }
    }
    for number in DAMAGED {
        store.redact(Position(number), "before").unwrap();
        store.redact(Position(number + 2), "behind").unwrap();
        assert!(
            store
                .record(Position(number + 2))
                .unwrap()
                .unwrap()
                .redacted
        );
        let redacted = store.redact(Position(number + 1), "the damaged one itself");
        if number == 1990 {
            // Its segment has no index block yet, which would name it.
            assert_eq!(redacted.unwrap_err().kind(), ErrorKind::Damaged);
            continue;
        }
        redacted.unwrap();
        let found = store.record(Position(number + 1)).unwrap().unwrap();
        assert!(found.redacted && found.payload.is_empty());
    }
}

#[test]
fn subscription_goes_on_where_it_was_after_a_read_that_failed() {
    let storage = Tapped::default();
    let store = store_of(&storage, 300);
    let mut subscription = store.subscribe(Position(2));
    let mut found = Vec::new();
    for place in 0.. {
        if place % 50 == 7 {
            storage.tap().set(Next::Fails);
        }
        match subscription.next_timeout(Duration::ZERO) {
            Ok(Some(record)) => found.push(record.sequence.0),
            Ok(None) => break,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Io, "{error}"),
        }
        assert!(place < 1000);
    }
    assert_eq!(found, (1..=300).collect::<Vec<_>>());
}

#[test]
fn redacted_snapshot_gives_way_to_the_newest_one_before_it() {
    let storage = Tapped::default();
    let store = store_of(&storage, 9);
    let mut positions = Vec::new();
    for (sequence, state) in [(3, "at 3"), (6, "at 6"), (6, "at 6 again"), (9, "at 9")] {
        let saved = store
            .snapshot(stream(1), Sequence(sequence), state.as_bytes())
            .unwrap();
        positions.push(saved.last_position);
    }
    store.fork(stream(1), Sequence(9), stream(2)).unwrap();
    let latest = |of, at| {
        store
            .latest_snapshot(of, Sequence(at))
            .unwrap()
            .map(|found| found.payload)
    };
    assert_eq!(latest(stream(1), 9).unwrap(), "at 9");
    for (redacted, expected) in [
        (3, Some("at 6 again")),
        (2, Some("at 6")),
        (1, Some("at 3")),
        (0, None),
    ] {
        store.redact(positions[redacted], "asked for").unwrap();
        for of in [stream(1), stream(2)] {
            assert_eq!(
                latest(of, 9).as_deref(),
                expected.map(str::as_bytes),
                "{redacted}"
            );
        }
    }
}

/// Whether an append is acknowledged while a read of the log waits for the device.
fn append_passes(what: &str, work: impl FnOnce(&Store) + Send + 'static) {
    let storage = Tapped::default();
    let store = store_of(&storage, RECORDS);
    store.snapshot(stream(1), Sequence(5), b"state").unwrap();
    let first = store
        .append(
            stream(1),
            Expected::Any,
            &[NewRecord::data(&vec![7; 40_000])],
        )
        .unwrap();
    store
        .append(
            stream(1),
            Expected::Any,
            &[NewRecord::data(&vec![7; 40_000])],
        )
        .unwrap();
    store.close().unwrap();
    drop(store);
    // What was looked up before is in memory.
    let store = Store::open_on(Arc::new(storage.clone()), options()).unwrap();
    assert!(first.last_position > Position(RECORDS));
    let (began, begun) = mpsc::channel();
    let (go_on, gone_on) = mpsc::channel();
    storage.tap().set(Next::Waits(began, gone_on));
    let reader = store.clone();
    let reading = thread::spawn(move || work(&reader));
    begun
        .recv_timeout(Duration::from_secs(30))
        .unwrap_or_else(|_| panic!("{what} reads nothing"));
    let (done, is_done) = mpsc::channel();
    let writer = store.clone();
    let writing = thread::spawn(move || {
        writer
            .append(stream(2), Expected::Any, &[NewRecord::data(b"meanwhile")])
            .unwrap();
        done.send(()).unwrap();
    });
    let passed = is_done.recv_timeout(Duration::from_secs(5)).is_ok();
    go_on.send(()).unwrap();
    reading.join().unwrap();
    writing.join().unwrap();
    assert!(passed, "an append waits for {what}");
}

#[test]
fn append_does_not_wait_for_the_read_of_a_stream() {
    append_passes("a read", |store| {
        assert!(
            store
                .read(stream(1), ReadOptions::default())
                .unwrap()
                .next()
                .unwrap()
                .is_ok()
        );
    });
}

#[test]
fn append_does_not_wait_for_the_read_of_a_record() {
    append_passes("a record", |store| {
        drop(store.record(Position(5)).unwrap().unwrap())
    });
}

#[test]
fn append_does_not_wait_for_the_read_of_a_snapshot() {
    append_passes("a snapshot", |store| {
        drop(
            store
                .latest_snapshot(stream(1), Sequence::MAX)
                .unwrap()
                .unwrap(),
        )
    });
}

#[test]
fn append_does_not_wait_for_the_read_of_the_log() {
    append_passes("a scan", |store| {
        assert!(store.scan(Position(9)).unwrap().next().unwrap().is_ok())
    });
}

#[test]
fn append_does_not_wait_for_a_redaction_that_reads_its_record() {
    append_passes("a redaction", |store| {
        drop(store.redact(Position(5), "asked for").unwrap())
    });
}

#[test]
fn append_does_not_wait_for_a_key_to_be_looked_up() {
    append_passes("a key", |store| {
        let op = Op::Append {
            stream: stream(1),
            expected: Expected::Any,
            records: vec![NewRecord::data(b"once")],
        };
        assert!(
            !store
                .commit(&Batch::new(vec![op]).with_key(b"key"))
                .unwrap()
                .repeated
        );
    });
}

#[test]
fn key_of_a_deleted_stream_is_no_success() {
    let storage = Tapped::default();
    let store = store_of(&storage, 1);
    let once = || {
        let op = Op::Append {
            stream: stream(1),
            expected: Expected::Any,
            records: vec![NewRecord::data(b"once")],
        };
        store.commit(&Batch::new(vec![op]).with_key(b"key"))
    };
    once().unwrap();
    store.delete(stream(1)).unwrap();
    assert_eq!(once().unwrap_err().kind(), ErrorKind::NotFound);
}
