//! What stays when a store is compacted, and what goes.

use std::{
    ops::ControlFlow,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use crate::{
    Batch, Codec, CompactOptions, CompactScope, Compaction, Direction, ErrorKind, Expected,
    FindOptions, Host, Kind, Label, NewRecord, Op, OpenOptions, Position, ReadOptions, Record,
    Sequence, Store, StreamId, SystemHost, limits,
    storage::{Access, MemoryStorage, Storage},
    sync::Arc,
};

const ALL: CompactOptions = CompactOptions {
    scope: CompactScope::All,
    codec: Codec::Zstd,
    dry_run: false,
    bytes_per_second: None,
};

fn options() -> OpenOptions {
    OpenOptions {
        segment_bytes_max: limits::SEGMENT_BYTES_MIN,
        ..OpenOptions::default()
    }
}

fn open(storage: &Arc<MemoryStorage>) -> Store {
    Store::open_on(storage.clone(), options()).unwrap()
}

fn open_reader(storage: &Arc<MemoryStorage>) -> Store {
    let mode = crate::Mode::ReadOnly;
    Store::open_on(storage.clone(), OpenOptions { mode, ..options() }).unwrap()
}

fn id(number: u32) -> StreamId {
    StreamId(uuid::Uuid::from_u128(u128::from(number)))
}

fn payload(stream: u32, number: u32) -> Vec<u8> {
    format!(
        "{{\"stream\":{stream},\"number\":{number},\"text\":\"{}\"}}",
        "word ".repeat(80)
    )
    .into_bytes()
}

fn append(store: &Store, stream: u32, numbers: std::ops::Range<u32>) {
    for number in numbers {
        let payload = payload(stream, number);
        let labels = [
            Label(u64::from(number % 7)),
            Label(1 << 40 | u64::from(stream)),
        ];
        let record = NewRecord {
            labels: &labels,
            ..NewRecord::data(&payload)
        };
        store.append(id(stream), Expected::Any, &[record]).unwrap();
    }
}

/// Everything that can be asked of a store.
#[derive(PartialEq, Debug)]
struct Answers {
    streams: Vec<(StreamId, u64, Vec<Record>)>,
    backward: Vec<Vec<Record>>,
    snapshots: Vec<(Position, Vec<u8>)>,
    records: Vec<Record>,
    /// By label, over the store from both ends, and in parts.
    found: Vec<Vec<Position>>,
}

fn answers(store: &Store) -> Answers {
    let read = |stream, direction| -> Vec<Record> {
        let options = ReadOptions {
            direction,
            ..ReadOptions::default()
        };
        let records = store.read(stream, options).unwrap();
        records.collect::<Result<_, _>>().unwrap()
    };
    let mut found = Answers {
        streams: Vec::new(),
        backward: Vec::new(),
        snapshots: Vec::new(),
        records: Vec::new(),
        found: Vec::new(),
    };
    for info in store.streams().unwrap() {
        let records = read(info.id, Direction::Forward);
        for record in &records {
            let again = store.record(record.position).unwrap().unwrap();
            assert_eq!((&again.payload, again.kind), (&record.payload, record.kind));
            found.records.push(again);
        }
        for at in 0..=info.last_sequence.0 {
            let snapshot = store.latest_snapshot(info.id, Sequence(at)).unwrap();
            found
                .snapshots
                .extend(snapshot.map(|found| (found.position, found.payload.to_vec())));
        }
        found.backward.push(read(info.id, Direction::Backward));
        found.streams.push((info.id, info.last_sequence.0, records));
    }
    let last = 600;
    for label in [0, 3, 6, 9, 1 << 40 | 2, 1 << 40 | 101] {
        for direction in [Direction::Forward, Direction::Backward] {
            for (first, last) in [(1, u64::MAX), (last / 3, last / 2), (last / 2, last)] {
                let options = FindOptions {
                    direction,
                    first: Position(first),
                    last: Position(last),
                    ..FindOptions::default()
                };
                let records = store.find(Label(label), options).unwrap();
                let positions = records.map(|record| record.unwrap().position);
                found.found.push(positions.collect());
            }
        }
    }
    found
}

/// Of the whole log, what is in some stream, and engine records.
fn scanned(store: &Store, live: &Answers) -> Vec<Record> {
    let is_live = |record: &Record| {
        let data = || {
            live.records
                .iter()
                .any(|other| other.position == record.position)
        };
        !record.kind.is_data() && record.kind != Kind::SNAPSHOT || data()
    };
    let records = store.scan(Position(1)).unwrap();
    records
        .map(Result::unwrap)
        .filter(|record| is_live(record))
        .collect()
}

/// A store with all that there is: truncations, forks, deleted streams, snapshots, redactions.
fn furnish(store: &Store) {
    for round in 0..12 {
        for stream in 1..=6 {
            append(store, stream, round * 10..round * 10 + 10);
        }
        let at = Sequence(u64::from(round) * 5 + 3);
        store.snapshot(id(1), at, b"state of 1").unwrap();
        store.snapshot(id(2), Sequence(2), b"again").unwrap();
        store
            .truncate(id(3), Sequence(u64::from(round) * 4))
            .unwrap();
        store
            .fork(id(3), Sequence(u64::from(round) * 3), id(100 + round))
            .unwrap();
        append(store, 100 + round, 0..3);
    }
    store.delete(id(4)).unwrap();
    store.delete(id(105)).unwrap();
    store.truncate(id(1), Sequence(40)).unwrap();
    let position = store.read(id(2), ReadOptions::default()).unwrap().nth(5);
    store
        .redact(position.unwrap().unwrap().position, "private")
        .unwrap();
}

fn files(storage: &MemoryStorage, ending: &str) -> usize {
    let names = storage.list().unwrap();
    names.iter().filter(|name| name.ends_with(ending)).count()
}

fn bytes(storage: &MemoryStorage) -> u64 {
    let names = storage.list().unwrap();
    let names = names
        .iter()
        .filter(|name| name.ends_with(".seg") || name.ends_with(".pack"));
    names
        .map(|name| {
            let file = storage.open(name, Access::Read).unwrap();
            file.len().unwrap()
        })
        .sum()
}

fn assert_sound(store: &Store) {
    let found = store.verify().unwrap();
    assert!(found.is_sound(), "{:#?}", found.problems);
}

#[test]
fn every_answer_is_the_same_before_and_after_and_when_opened_again() {
    let storage = Arc::new(MemoryStorage::new());
    let mut store = open(&storage);
    furnish(&store);
    let before = answers(&store);
    let log = scanned(&store, &before);
    for codec in [Codec::Plain, Codec::Lz4, Codec::Zstd] {
        let done = store.compact(CompactOptions { codec, ..ALL }).unwrap();
        assert_eq!(done.segments_left, 0);
        assert!(answers(&store) == before, "{codec:?}");
        assert!(scanned(&store, &before).starts_with(&log));
        assert_sound(&store);
        // More of all of it, so that the next compaction has something to do.
        append(&store, 6, 0..1);
        store
            .truncate(
                id(6),
                Sequence(before.streams.iter().find(|s| s.0 == id(6)).unwrap().1),
            )
            .unwrap();
        store.close().unwrap();
        let again = open(&storage);
        assert!(answers(&again) == before);
        // And without the checkpoint.
        again.close().unwrap();
        storage.remove("CHECKPOINT").unwrap();
        let again = open(&storage);
        assert!(answers(&again) == before);
        assert_sound(&again);
        again.close().unwrap();
        store = open(&storage);
    }
}

#[test]
fn what_nothing_refers_to_is_given_back() {
    let storage = Arc::new(MemoryStorage::new());
    let store = open(&storage);
    furnish(&store);
    let planned = store
        .compact(CompactOptions {
            dry_run: true,
            ..ALL
        })
        .unwrap();
    let reader = open_reader(&storage);
    let of_reader = |dry_run| reader.compact(CompactOptions { dry_run, ..ALL });
    assert_eq!(of_reader(true).unwrap(), planned);
    let refused = of_reader(false).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnly);
    let length = bytes(&storage);
    let done = store.compact(ALL).unwrap();
    assert_eq!(of_reader(true).unwrap(), Compaction::default());
    assert!(done.records_dropped > 200, "{done:?}");
    assert_eq!(done.payloads_erased, 1);
    let counts = |done: &Compaction| (done.records_dropped, done.payloads_erased);
    assert_eq!(
        counts(&planned),
        counts(&done),
        "a dry run counts what is written to, too"
    );
    assert!(
        bytes(&storage) < length / 3,
        "{} of {length}",
        bytes(&storage)
    );
    assert_eq!((files(&storage, ".pack"), files(&storage, ".seg")), (1, 1));
    let in_files = |name: &String| name.ends_with(".pack") || name.ends_with(".seg");
    let names = storage.list().unwrap();
    let sizes = names.iter().filter(|name| in_files(name)).map(|name| {
        let file = storage.open(name, Access::Read).unwrap();
        file.len().unwrap()
    });
    assert_eq!(store.stat().unwrap().segment_bytes, sizes.sum::<u64>());
    // What is left of a deleted stream is that its id was used.
    let refused = store.append(id(4), Expected::Any, &[NewRecord::data(b"x")]);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::NotFound);
    let again = store.compact(ALL).unwrap();
    assert_eq!(again, Compaction::default());
}

#[test]
fn dry_run_counts_what_is_only_in_the_segment_that_is_written_to() {
    let store = open(&Arc::new(MemoryStorage::new()));
    append(&store, 1, 0..20);
    append(&store, 2, 0..1);
    let snapshot = Sequence(20);
    store.snapshot(id(1), snapshot, b"state").unwrap();
    let secret = store.append(id(2), Expected::Any, &[NewRecord::data(b"secret")]);
    store
        .redact(secret.unwrap().last_position, "a secret")
        .unwrap();
    store.truncate(id(1), Sequence(5)).unwrap();
    let of = |scope| CompactOptions {
        scope,
        dry_run: true,
        ..ALL
    };
    let sealed = store.compact(of(CompactScope::Sealed)).unwrap();
    assert_eq!((sealed.records_dropped, sealed.files_before), (0, 0));
    let planned = store.compact(of(CompactScope::All)).unwrap();
    let done = store.compact(ALL).unwrap();
    assert_eq!((planned.records_dropped, planned.payloads_erased), (16, 1));
    assert_eq!((done.records_dropped, done.payloads_erased), (16, 1));
    assert_eq!(planned.files_before, done.files_before);
    assert!(planned.bytes_before > planned.bytes_after, "{planned:?}");
    let again = store.compact(of(CompactScope::All)).unwrap();
    assert_eq!(again, Compaction::default());
}

#[test]
fn redacted_payload_is_gone_from_every_file() {
    let storage = Arc::new(MemoryStorage::new());
    let store = open(&storage);
    let secret = b"the secret that nobody may find";
    let options = CompactOptions {
        codec: Codec::Plain,
        ..ALL
    };
    append(&store, 1, 0..5);
    let appended = store
        .append(id(1), Expected::Any, &[NewRecord::data(secret)])
        .unwrap();
    append(&store, 1, 5..10);
    let has_secret = || {
        let names = storage.list().unwrap();
        names.iter().any(|name| {
            let file = storage.open(name, Access::Read).unwrap();
            let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
            file.read_at(0, &mut bytes).unwrap();
            bytes.windows(secret.len()).any(|window| window == secret)
        })
    };
    store.compact(options).unwrap();
    assert!(has_secret());
    store.redact(appended.last_position, "private").unwrap();
    let done = store.compact(options).unwrap();
    assert_eq!(done.payloads_erased, 1);
    assert!(!has_secret());
    let record = store.record(appended.last_position).unwrap().unwrap();
    assert!(record.redacted && record.payload.is_empty());
    assert_eq!(store.compact(options).unwrap().payloads_erased, 0);
    assert_sound(&store);
}

#[test]
fn key_counts_as_before_with_the_same_answer() {
    let storage = Arc::new(MemoryStorage::new());
    let store = open(&storage);
    let commit = |key: &'static [u8], stream: u32, number: u32| {
        let payload = payload(stream, number);
        let ops = vec![
            Op::Append {
                stream: id(stream),
                expected: Expected::Any,
                records: vec![NewRecord::data(&payload), NewRecord::data(b"second")],
            },
            Op::Append {
                stream: id(9),
                expected: Expected::Any,
                records: vec![NewRecord::data(b"beside")],
            },
        ];
        store
            .commit(&Batch {
                key: Some(key),
                ..Batch::new(ops)
            })
            .unwrap()
    };
    let first = commit(b"one", 1, 1);
    commit(b"two", 2, 1);
    append(&store, 1, 0..300);
    store.truncate(id(1), Sequence(1)).unwrap();
    let expected = commit(b"one", 1, 1);
    assert!(expected.repeated && expected.truncated && !first.repeated);
    for _ in 0..3 {
        store.compact(ALL).unwrap();
        let repeated = commit(b"one", 1, 1);
        assert_eq!(repeated, expected);
        append(&store, 1, 0..3);
        store.truncate(id(1), Sequence(1)).unwrap();
    }
    let two = commit(b"two", 2, 1);
    assert!(two.repeated && !two.truncated);
    let fresh = commit(b"three", 1, 1);
    assert!(!fresh.repeated);
    assert_sound(&store);
}

#[test]
fn reading_that_is_under_way_ends_as_it_began() {
    let storage = Arc::new(MemoryStorage::new());
    let store = open(&storage);
    append(&store, 1, 0..400);
    let mut reading = store.read(id(1), ReadOptions::default()).unwrap();
    for number in 0..100 {
        let record = reading.next().unwrap().unwrap();
        assert_eq!(record.payload, payload(1, number));
    }
    store.truncate(id(1), Sequence(0)).unwrap();
    let kept = store.compact(ALL).unwrap();
    assert_eq!(kept.records_dropped, 0);
    for number in 100..400 {
        let record = reading.next().unwrap().unwrap();
        assert_eq!(record.payload, payload(1, number));
    }
    assert!(reading.next().is_none());
    drop(reading);
    let freed = store.compact(ALL).unwrap();
    assert_eq!(freed.records_dropped, 400);
}

#[test]
fn only_what_is_wholly_dead_goes_where_no_more_is_asked_for() {
    let storage = Arc::new(MemoryStorage::new());
    let store = open(&storage);
    append(&store, 1, 0..300);
    append(&store, 2, 0..300);
    store.delete(id(1)).unwrap();
    let dead = CompactOptions {
        scope: CompactScope::Dead,
        ..ALL
    };
    let before = answers(&store);
    let done = store.compact(dead).unwrap();
    assert!(
        done.files_before >= 1 && done.records_dropped > 100,
        "{done:?}"
    );
    assert!(done.bytes_after < 3 * 4096 * done.files_after);
    assert!(answers(&store) == before);
    assert_eq!(store.compact(dead).unwrap(), Compaction::default());
    let sparse = CompactOptions {
        scope: CompactScope::Sparse,
        ..ALL
    };
    store.truncate(id(2), Sequence(20)).unwrap();
    assert!(store.compact(sparse).unwrap().records_dropped > 50);
    assert_sound(&store);
}

#[test]
fn cancelled_compaction_leaves_the_store_as_it_was_or_further() {
    let storage = Arc::new(MemoryStorage::new());
    let store = open(&storage);
    furnish(&store);
    let before = answers(&store);
    let done = store
        .compact_with(ALL, &mut |_| ControlFlow::Break(()))
        .unwrap();
    assert!(done.is_cancelled && done.files_after == 0);
    assert_eq!(
        files(&storage, ".tmp"),
        usize::from(
            storage
                .list()
                .unwrap()
                .contains(&"spare.seg.tmp".to_owned())
        )
    );
    assert!(answers(&store) == before);
    let mut progress = Vec::new();
    let done = store.compact_with(ALL, &mut |at| {
        progress.push(at);
        ControlFlow::Continue(())
    });
    assert!(!done.unwrap().is_cancelled);
    assert!(answers(&store) == before);
    assert!(progress.is_sorted_by_key(|at| at.bytes_done));
    let end = progress.last().unwrap();
    assert!(end.bytes_total > 0 && end.bytes_done == end.bytes_total);
}

/// A host whose sleep is counted, and moves its clock.
#[derive(Debug)]
struct Sleeper {
    now_ms: AtomicU64,
    longest_ms: AtomicU64,
}

impl Host for Sleeper {
    fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::Relaxed)
    }

    fn random(&self, bytes: &mut [u8]) {
        SystemHost.random(bytes);
    }

    fn has_threads(&self) -> bool {
        false
    }

    fn sleep(&self, duration: Duration) {
        let ms = u64::try_from(duration.as_millis()).unwrap();
        self.now_ms.fetch_add(ms, Ordering::Relaxed);
        self.longest_ms.fetch_max(ms, Ordering::Relaxed);
    }
}

#[test]
fn slow_compaction_is_ended_within_a_pause() {
    let storage = Arc::new(MemoryStorage::new());
    let sleeper = Arc::new(Sleeper {
        now_ms: AtomicU64::new(1_700_000_000_000),
        longest_ms: AtomicU64::new(0),
    });
    let options = OpenOptions {
        host: sleeper.clone(),
        ..options()
    };
    let store = Store::open_on(storage.clone(), options).unwrap();
    furnish(&store);
    // A record takes minutes.
    let slow = CompactOptions {
        bytes_per_second: Some(10),
        ..ALL
    };
    let mut left = 20;
    let done = store.compact_with(slow, &mut |_| {
        left -= 1;
        if left > 0 {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    });
    assert!(done.unwrap().is_cancelled);
    assert_eq!(sleeper.longest_ms.load(Ordering::Relaxed), 100);
}

/// Damages one record of the stream that is gathered last, in every second segment; returns how many.
fn damage_every_second(storage: &MemoryStorage, stream: u32) -> u64 {
    let mut names = storage.list().unwrap();
    names.retain(|name| name.ends_with(".seg"));
    names.sort();
    // The last one is written to.
    names.pop();
    let mut damaged = 0;
    for name in names.iter().step_by(2) {
        let file = storage.open(name, Access::Write).unwrap();
        let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
        file.read_at(0, &mut bytes).unwrap();
        let wanted = format!("\"stream\":{stream},");
        let found = bytes
            .windows(wanted.len())
            .rposition(|at| at == wanted.as_bytes());
        let at = found.unwrap();
        file.write_at(at as u64, b"#").unwrap();
        damaged += 1;
    }
    damaged
}

#[test]
fn segments_that_are_not_damaged_are_not_copied_again_for_each_that_is() {
    for codec in [Codec::Lz4, Codec::Zstd] {
        let storage = Arc::new(MemoryStorage::new());
        let sleeper = Arc::new(Sleeper {
            now_ms: AtomicU64::new(1_700_000_000_000),
            longest_ms: AtomicU64::new(0),
        });
        let opened = || {
            let options = OpenOptions {
                host: sleeper.clone(),
                ..options()
            };
            Store::open_on(storage.clone(), options).unwrap()
        };
        let store = opened();
        let streams = 1..=7;
        let mut number = 0;
        while files(&storage, ".seg") < 62 {
            for stream in streams.clone() {
                append(&store, stream, number..number + 1);
            }
            number += 1;
        }
        store.close().unwrap();
        let damaged = damage_every_second(&storage, *streams.end());
        assert!(damaged >= 30, "{damaged}");
        let store = opened();
        let readable = || -> Vec<u64> {
            let records = store.scan(Position::FIRST).unwrap();
            let read = records.filter_map(Result::ok);
            read.map(|record| record.position.0).collect()
        };
        let before = readable();
        // That each stream was made is a record too.
        assert_eq!(before.len() as u64 + damaged, u64::from(number + 1) * 7);
        let (rate, began) = (1 << 20, sleeper.now_ms());
        let mut bytes = 0;
        let options = CompactOptions {
            scope: CompactScope::Sealed,
            codec,
            bytes_per_second: Some(rate),
            ..ALL
        };
        let done = store
            .compact_with(options, &mut |progress| {
                if bytes == 0 {
                    bytes = progress.bytes_total;
                }
                assert!(progress.bytes_done <= progress.bytes_total, "{progress:?}");
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(
            (done.segments_damaged, done.segments_left),
            (damaged, damaged)
        );
        assert!(done.files_before + 1 >= damaged, "{done:?}");
        assert!(readable() == before);
        // By the time it slept: read and written in vain up to the first damage, read to find all, read and written.
        let moved = (sleeper.now_ms() - began) * rate / 1_000;
        assert!(moved <= 5 * bytes, "{codec:?}: {moved} of {bytes}");
    }
}

#[test]
fn small_packs_are_taken_up_by_the_next() {
    let storage = Arc::new(MemoryStorage::new());
    let store = open(&storage);
    for round in 0..40 {
        append(&store, 1, round * 5..round * 5 + 5);
        store.compact(ALL).unwrap();
    }
    assert!(
        files(&storage, ".pack") <= 8,
        "{}",
        files(&storage, ".pack")
    );
    let before = answers(&store);
    assert_eq!(before.records.len(), 200);
    store.close().unwrap();
    assert!(answers(&open(&storage)) == before);
}

#[test]
fn reader_in_another_process_goes_on_across_compactions() {
    let storage = Arc::new(MemoryStorage::new());
    let store = open(&storage);
    append(&store, 1, 0..200);
    let reader = open_reader(&storage);
    let mut follower = reader.subscribe(Position(1));
    let mut reading = reader.read(id(1), ReadOptions::default()).unwrap();
    assert_eq!(reading.next().unwrap().unwrap().payload, payload(1, 0));
    let next = |follower: &mut crate::Subscription| follower.next_timeout(Duration::ZERO).unwrap();
    assert!(next(&mut follower).is_some());
    store.compact(ALL).unwrap();
    append(&store, 1, 200..400);
    store.compact(ALL).unwrap();
    let rest: Vec<_> = reading.map(|record| record.unwrap().payload).collect();
    assert_eq!(
        rest,
        (1..200)
            .map(|number| payload(1, number))
            .collect::<Vec<_>>()
    );
    let mut seen = 0;
    while let Some(record) = next(&mut follower) {
        assert_eq!(record.payload, payload(1, seen));
        seen += 1;
    }
    assert_eq!(seen, 400);
    assert_eq!(answers(&reader), answers(&store));
}

#[test]
fn backup_takes_packs_over_and_gives_up_what_they_stand_for() {
    let storage = Arc::new(MemoryStorage::new());
    let store = open(&storage);
    furnish(&store);
    let target = Arc::new(MemoryStorage::new());
    store.backup(&*target).unwrap();
    assert!(files(&target, ".seg") > 2);
    for round in 0..3 {
        store.compact(ALL).unwrap();
        append(&store, 6, round..round + 1);
        let done = store.backup(&*target).unwrap();
        assert!(done.segments_copied >= 1, "{done:?}");
        assert_eq!(
            (files(&target, ".seg"), files(&target, ".pack")),
            (1, files(&storage, ".pack"))
        );
        let copy = Arc::new(MemoryStorage::new());
        open(&target_copy(&target, &copy)).close().unwrap();
        assert!(answers(&open(&copy)) == answers(&store));
    }
    let again = store
        .backup_with(&*target, crate::BackupOptions { verify: true })
        .unwrap();
    assert!(
        again.segments_kept >= 1 && again.segments_copied == 0,
        "{again:?}"
    );
}

/// What is opened to be written to is no backup any more.
fn target_copy(from: &MemoryStorage, to: &Arc<MemoryStorage>) -> Arc<MemoryStorage> {
    for name in to.list().unwrap() {
        to.remove(&name).unwrap();
    }
    for name in from.list().unwrap() {
        let file = from.open(&name, Access::Read).unwrap();
        let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
        file.read_at(0, &mut bytes).unwrap();
        to.create(&name).unwrap().write_at(0, &bytes).unwrap();
    }
    to.clone()
}

#[test]
fn leftovers_of_a_compaction_that_was_cut_off_are_removed_by_the_next_writer() {
    let storage = Arc::new(MemoryStorage::new());
    let store = open(&storage);
    furnish(&store);
    store.close().unwrap();
    let kept: Vec<(String, Vec<u8>)> = storage
        .list()
        .unwrap()
        .into_iter()
        .filter(|name| name.ends_with(".seg"))
        .map(|name| {
            let file = storage.open(&name, Access::Read).unwrap();
            let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
            file.read_at(0, &mut bytes).unwrap();
            (name, bytes)
        })
        .collect();
    let store = open(&storage);
    let before = answers(&store);
    store
        .compact(CompactOptions {
            scope: CompactScope::Sealed,
            ..ALL
        })
        .unwrap();
    store.close().unwrap();
    for (name, bytes) in &kept[..kept.len() - 1] {
        storage.create(name).unwrap().write_at(0, bytes).unwrap();
    }
    let store = open(&storage);
    assert!(answers(&store) == before);
    assert_eq!(files(&storage, ".seg"), 1);
    assert_sound(&store);
}
