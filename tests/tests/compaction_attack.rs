//! Compaction under attack: whatever is asked before it, during it and after it is answered alike; and a pack that is
//! damaged, cut, swapped or made up is told of, and never believed.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::{
    collections::BTreeMap,
    path::Path,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use runlog_engine::{
    Batch, Codec, CompactOptions, CompactScope, Compaction, ErrorKind, Expected, Kind, Label,
    NewRecord, Op, OpenOptions, Position, ReadOptions, Record, Result, Sequence, Store, StreamId,
    salvage,
    storage::{FsStorage, MemoryStorage, Storage},
    verify,
};
use runlog_tests::{
    alike,
    answers::{answers, difference, line},
    budget,
    checker::{self, Files},
    command,
    faulty::{Call, Failure, Fault, FaultyStorage, Lasting},
    processes::{payload, stream},
    random::Random,
};

const LABELS: u64 = 5;
const CODECS: [Codec; 3] = [Codec::Plain, Codec::Lz4, Codec::Zstd];
const SCOPES: [CompactScope; 4] = [
    CompactScope::Dead,
    CompactScope::Sparse,
    CompactScope::Sealed,
    CompactScope::All,
];

fn options() -> OpenOptions {
    OpenOptions {
        durability: runlog_engine::Durability::Os,
        segment_bytes_max: 64 << 10,
        auto_compact: false,
        ..OpenOptions::default()
    }
}

fn compact(store: &Store, scope: CompactScope, codec: Codec) -> Result<Compaction> {
    store.compact(CompactOptions {
        scope,
        codec,
        ..CompactOptions::default()
    })
}

fn all(store: &Store) -> Compaction {
    compact(store, CompactScope::All, Codec::Zstd).unwrap()
}

/// A batch with a key, to be sent again.
struct Keyed {
    key: Vec<u8>,
    /// Streams, and what each is given.
    appends: Vec<(StreamId, Vec<u8>)>,
    truncate: Option<(StreamId, Sequence)>,
}

impl Keyed {
    fn commit(&self, store: &Store) -> Result<runlog_engine::Appended> {
        let append = |(stream, payload): &'_ (StreamId, Vec<u8>)| (*stream, payload.clone());
        let appends: Vec<_> = self.appends.iter().map(append).collect();
        let mut ops: Vec<Op<'_>> = appends
            .iter()
            .map(|(stream, payload)| Op::Append {
                stream: *stream,
                expected: Expected::Any,
                records: vec![NewRecord::data(payload), NewRecord::data(b"and another")],
            })
            .collect();
        if let Some((stream, after)) = self.truncate {
            ops.push(Op::Truncate {
                stream,
                expected: Expected::Any,
                after,
            });
        }
        store.commit(&Batch::new(ops).with_key(&self.key))
    }
}

/// Does one thing of those that there are. What the store refuses is no step.
fn step(store: &Store, random: &mut Random, next: &mut u64, keyed: &mut Vec<Keyed>) {
    let streams = store.streams().unwrap();
    let any = |random: &mut Random| streams.get(random.place(streams.len().max(1))).cloned();
    *next += 1;
    let fresh = stream(*next);
    let Some(info) = any(random).filter(|_| !random.one_in(12)) else {
        store
            .append(fresh, Expected::Any, &[NewRecord::data(b"the first")])
            .unwrap();
        return;
    };
    let at = Sequence(random.below(info.last_sequence.0 + 1));
    match random.below(16) {
        0 => drop(store.truncate(info.id, at).unwrap()),
        1 | 2 => drop(store.fork(info.id, at, fresh).unwrap()),
        3 => drop(store.snapshot(info.id, at, &payload(*next, 1)).unwrap()),
        4 if random.one_in(3) => drop(store.delete(info.id).unwrap()),
        5 => {
            let position = Position(1 + random.below(store.last_position().unwrap().0));
            // Some records can't be redacted, or were given up.
            let _ = store.redact(position, "private");
        }
        6 | 7 => {
            let mut appends = vec![(info.id, payload(*next, 2))];
            if let Some(other) = any(random).filter(|other| other.id != info.id) {
                appends.push((other.id, payload(*next, 3)));
            }
            let truncate = random.one_in(3).then_some((info.id, at));
            let batch = Keyed {
                key: next.to_le_bytes().to_vec(),
                appends,
                truncate,
            };
            batch.commit(store).unwrap();
            keyed.push(batch);
        }
        _ => {
            let count = 1 + random.place(6);
            let payloads: Vec<_> = (0..count).map(|n| payload(*next, n as u64)).collect();
            let mut labels: Vec<_> = (0..LABELS).map(Label).collect();
            labels.retain(|_| random.one_in(3));
            let records: Vec<_> = payloads
                .iter()
                .map(|payload| NewRecord {
                    kind: Kind(random.place(4).to_le_bytes()[0]),
                    meta: &payload[..payload.len().min(9)],
                    labels: &labels,
                    ..NewRecord::data(payload)
                })
                .collect();
            store.append(info.id, Expected::Any, &records).unwrap();
        }
    }
}

fn repeated(store: &Store, keyed: &[Keyed]) -> Vec<String> {
    let told = |batch: &Keyed| match batch.commit(store) {
        Ok(found) => {
            assert!(found.repeated, "a key was forgotten");
            format!("{found:?}")
        }
        Err(error) => format!("{:?}", error.kind()),
    };
    // Of a deleted stream the key counts no more, and the batch would be written again, or refused.
    let is_there = |batch: &&Keyed| store.stream(batch.appends[0].0).unwrap().is_some();
    keyed.iter().filter(is_there).map(told).collect()
}

fn assert_same(before: &[String], after: &[String], when: &str) {
    if let Some(difference) = difference(before, after) {
        panic!("{when}: {difference}");
    }
}

#[test]
fn random_histories_answer_alike_after_every_compaction_and_opening() {
    let budget = budget::of("compaction histories");
    let mut random = Random::new(budget.seed());
    let mut rounds = 0;
    while rounds < 3 || budget.goes_on() {
        rounds += 1;
        let storage = Arc::new(MemoryStorage::new());
        let (mut next, mut keyed) = (0, Vec::new());
        let mut store = Store::open_on(storage.clone(), options()).unwrap();
        // Much that is alike, for packs with a dictionary, which later ones take up.
        if rounds % 3 == 1 {
            alike::fill(&store, 10_000, alike::ENOUGH, LABELS);
        }
        for round in 0..6 {
            for _ in 0..120 {
                step(&store, &mut random, &mut next, &mut keyed);
            }
            let when = format!("round {rounds}.{round}");
            let (before, keys) = (answers(&store, LABELS).unwrap(), repeated(&store, &keyed));
            let scope = SCOPES[random.place(4)];
            compact(&store, scope, CODECS[random.place(3)]).unwrap();
            assert_same(&before, &answers(&store, LABELS).unwrap(), &when);
            assert_eq!(keys, repeated(&store, &keyed), "{when}");
            let found = store.verify().unwrap();
            assert!(found.is_sound(), "{when}: {:?}", found.problems);
            if random.one_in(2) {
                store.close().unwrap();
            }
            if random.one_in(2) {
                let _ = storage.remove("CHECKPOINT");
            }
            drop(store);
            let reader = Store::open_on(storage.clone(), options().read_only()).unwrap();
            assert_same(
                &before,
                &answers(&reader, LABELS).unwrap(),
                &format!("{when}, read only"),
            );
            drop(reader);
            store = Store::open_on(storage.clone(), options()).unwrap();
            assert_same(
                &before,
                &answers(&store, LABELS).unwrap(),
                &format!("{when}, opened"),
            );
            assert_eq!(keys, repeated(&store, &keyed), "{when}, opened");
        }
        budget.add("histories", 1);
        // A backup has the same, and what is salvaged has every live record.
        let before = answers(&store, LABELS).unwrap();
        let target = Arc::new(MemoryStorage::new());
        store.backup(&*target).unwrap();
        assert!(verify(&*target).unwrap().is_sound());
        let copy = Store::open_on(target.clone(), options()).unwrap();
        assert_same(&before, &answers(&copy, LABELS).unwrap(), "the backup");
        let live = live(&store);
        let mut salvaged = BTreeMap::new();
        salvage(&*storage, &mut |found| {
            salvaged.extend(found.position.map(|at| (at.0, found.payload.to_vec())));
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
        for (position, record) in live {
            assert_eq!(
                salvaged.get(&position),
                Some(&record.payload.to_vec()),
                "{position}"
            );
        }
    }
}

/// Every record that some stream has, by position.
fn live(store: &Store) -> BTreeMap<u64, Record> {
    let mut live = BTreeMap::new();
    for info in store.streams().unwrap() {
        for record in store.read(info.id, ReadOptions::default()).unwrap() {
            let record = record.unwrap();
            live.insert(record.position.0, record);
        }
    }
    live
}

#[test]
fn reading_that_began_before_a_redaction_never_gives_an_empty_payload_for_what_was_written() {
    for count in [300, 3000] {
        let store = Store::open_on(Arc::new(MemoryStorage::new()), options()).unwrap();
        for number in 0..count {
            let text = format!("record {number} {}", "x".repeat(40));
            store
                .append(
                    stream(0),
                    Expected::Any,
                    &[NewRecord::data(text.as_bytes())],
                )
                .unwrap();
        }
        let last = store.last_position().unwrap();
        let mut one = store.read(stream(0), ReadOptions::default()).unwrap();
        let mut other = store.read(stream(0), ReadOptions::default()).unwrap();
        let mut log = store.scan(Position::FIRST).unwrap();
        one.next().unwrap().unwrap();
        log.next().unwrap().unwrap();
        store.redact(last, "private").unwrap();
        assert_eq!(all(&store).payloads_erased, 1);
        let is_honest = |redacted: bool, payload: &[u8]| redacted == payload.is_empty();
        for record in one.by_ref() {
            let record = record.unwrap();
            assert!(is_honest(record.redacted, &record.payload), "{record:?}");
        }
        other.for_each_ref(|record| {
            let record = record.unwrap();
            assert!(is_honest(record.redacted, record.payload), "{record:?}");
            std::ops::ControlFlow::Continue(())
        });
        for record in log.by_ref() {
            let record = record.unwrap();
            let is_data = record.kind.is_data();
            assert!(
                !is_data || is_honest(record.redacted, &record.payload),
                "{record:?}"
            );
        }
    }
}

/// A small store whose log is one pack and an active segment.
fn packed(codec: Codec) -> (Files, Vec<String>) {
    let storage = FaultyStorage::new();
    let store = Store::open_on(Arc::new(storage.clone()), options()).unwrap();
    for number in 0..24_u64 {
        let text = format!("{{\"role\":\"user\",\"number\":{number}}}");
        let labels = [Label(number % LABELS)];
        let record = NewRecord {
            labels: &labels,
            ..NewRecord::data(text.as_bytes())
        };
        let batch = vec![Op::Append {
            stream: stream(number % 3),
            expected: Expected::Any,
            records: vec![record],
        }];
        let key = number.to_le_bytes();
        store.commit(&Batch::new(batch).with_key(&key)).unwrap();
    }
    store.snapshot(stream(0), Sequence(4), b"state").unwrap();
    store.fork(stream(0), Sequence(3), stream(7)).unwrap();
    store.truncate(stream(1), Sequence(5)).unwrap();
    store.delete(stream(2)).unwrap();
    compact(&store, CompactScope::All, codec).unwrap();
    store
        .append(
            stream(0),
            Expected::Any,
            &[NewRecord::data(b"behind the pack")],
        )
        .unwrap();
    let told = answers(&store, LABELS).unwrap();
    store.close().unwrap();
    (storage.files(), told)
}

/// A store of conversations that are alike, so that its pack has a dictionary, and an active segment.
fn packed_with_dictionary() -> (Files, Vec<String>) {
    let storage = FaultyStorage::new();
    let store = Store::open_on(Arc::new(storage.clone()), options()).unwrap();
    alike::fill(&store, 0, alike::ENOUGH, LABELS);
    store.fork(stream(0), Sequence(3), stream(70)).unwrap();
    store.delete(stream(2)).unwrap();
    let before = answers(&store, LABELS).unwrap();
    let done = all(&store);
    assert_eq!(done.files_after, 1);
    assert_same(
        &before,
        &answers(&store, LABELS).unwrap(),
        "with a dictionary",
    );
    store.close().unwrap();
    let files = storage.files();
    assert!(alike::has_dictionary(&files[&name_of_pack(&files)]));
    (files, before)
}

/// Asks a damaged store all there is to ask. Whatever it gives was written; and what it doesn't give, it says. `true` when
/// nothing was missing.
fn interrogate(files: &Files, expected: &BTreeMap<u64, String>, when: &str) -> bool {
    let storage = Arc::new(FaultyStorage::from_files(files));
    let is_sound = verify(&*storage).is_ok_and(|found| found.is_sound());
    let store = match Store::open_on(storage.clone(), options().read_only()) {
        Ok(store) => store,
        Err(_) => {
            assert!(!is_sound, "{when}: it is sound, but can't be opened");
            return false;
        }
    };
    let mut is_whole = true;
    let mut see = |record: Result<Record>| match record {
        Ok(record) => {
            let was = expected.get(&record.position.0);
            assert_eq!(was, Some(&line(&record)), "{when}");
        }
        Err(_) => is_whole = false,
    };
    let mut found = 0;
    for info in store.streams().unwrap_or_default() {
        if let Ok(records) = store.read(info.id, ReadOptions::default()) {
            let records: Vec<_> = records.collect();
            let has_error = records.iter().any(Result::is_err);
            assert!(
                has_error || records.len() as u64 == info.last_sequence.0,
                "{when}: records are missing, and nothing is said of them"
            );
            found += records.len();
            records.into_iter().for_each(|record| match record {
                // A fork shows the record of its parent as its own.
                Ok(record) if record.stream != info.id => {}
                record => see(record),
            });
        }
        let _ = store.latest_snapshot(info.id, info.last_sequence);
    }
    let _ = found;
    if let Ok(records) = store.scan(Position::FIRST) {
        records.for_each(&mut see);
    }
    for label in 0..LABELS {
        let found = store.find(Label(label), Default::default()).unwrap();
        found.for_each(&mut see);
    }
    for position in 1..=store.last_position().unwrap_or(Position(0)).0 {
        match store.record(Position(position)) {
            Ok(Some(record)) => see(Ok(record)),
            Ok(None) => {}
            Err(error) => see(Err(error)),
        }
    }
    assert!(
        !is_sound || is_whole,
        "{when}: it is sound, but can't be read"
    );
    let _ = salvage(&*storage, &mut |found| {
        let at = found.position.map_or(0, |position| position.0);
        // Beside data it gives engine records, of which the scan leaves some out.
        let is_known = at == 0 || expected.contains_key(&at) || !found.kind.is_data();
        assert!(is_known, "{when}: {at} was never written");
        std::ops::ControlFlow::Continue(())
    });
    is_whole && is_sound
}

/// By position, the line of each record that the scan gives.
fn lines(files: &Files) -> BTreeMap<u64, String> {
    let storage = Arc::new(FaultyStorage::from_files(files));
    let store = Store::open_on(storage, options().read_only()).unwrap();
    let records = store.scan(Position::FIRST).unwrap().map(Result::unwrap);
    records
        .map(|record| (record.position.0, line(&record)))
        .collect()
}

fn name_of_pack(files: &Files) -> String {
    files
        .keys()
        .find(|name| name.ends_with(".pack"))
        .unwrap()
        .clone()
}

#[test]
fn every_changed_byte_of_a_pack_is_noticed_or_means_nothing() {
    let budget = budget::of("compaction bytes");
    let mut random = Random::new(budget.seed());
    for codec in CODECS {
        let (files, _) = packed(codec);
        let expected = lines(&files);
        assert!(interrogate(&files, &expected, "untouched"));
        let name = name_of_pack(&files);
        let length = files[&name].len();
        let unread = |at: usize| (512..2048).contains(&at) || (2560..4096).contains(&at);
        for at in (0..length).filter(|at| !unread(*at)) {
            if !budget::is_torture() && !random.one_in(10) {
                continue;
            }
            if budget.is_used_up() {
                break;
            }
            let mut damaged = files.clone();
            damaged.get_mut(&name).unwrap()[at] ^= 1 << random.place(8);
            let when = format!("{codec:?}, byte {at} of {length}");
            assert!(
                !interrogate(&damaged, &expected, &when),
                "{when}: nobody noticed"
            );
            budget.add("bytes", 1);
        }
    }
}

#[test]
fn store_with_a_damaged_pack_is_repaired_as_far_as_it_can_be_and_never_made_worse() {
    let mut random = Random::new(budget::of("compaction repairs").seed());
    let (files, _) = packed(Codec::Lz4);
    let expected = lines(&files);
    let name = name_of_pack(&files);
    let length = files[&name].len();
    let mut mended = 0;
    for _ in 0..if budget::is_torture() { 2000 } else { 60 } {
        let at = random.place(length);
        let mut damaged = files.clone();
        damaged.get_mut(&name).unwrap()[at] ^= 1 << random.place(8);
        let storage = FaultyStorage::from_files(&damaged);
        let as_dyn: Arc<dyn Storage> = Arc::new(storage.clone());
        let before = verify(&*as_dyn).map_or(u64::MAX, |found| found.lost);
        let repaired = runlog_engine::repair(&as_dyn, "a test", &runlog_engine::SystemHost);
        let when = format!("byte {at}");
        if let Ok(found) = repaired
            && let Ok(verified) = verify(&*as_dyn)
        {
            assert!(verified.lost <= before, "{when}: {found:?}");
            mended += 1;
            assert_eq!(
                verified.problems.is_empty(),
                found.left.is_empty(),
                "{when}: {found:?} {verified:?}"
            );
        }
        interrogate(&storage.files(), &expected, &when);
    }
    assert!(mended > 0, "no repair ever ended");
}

#[test]
fn pack_that_was_cut_anywhere_is_noticed() {
    let mut random = Random::new(budget::of("compaction cuts").seed());
    for codec in CODECS {
        let (files, _) = packed(codec);
        let expected = lines(&files);
        let name = name_of_pack(&files);
        for length in 0..files[&name].len() {
            if !budget::is_torture() && !random.one_in(24) {
                continue;
            }
            let mut damaged = files.clone();
            damaged.get_mut(&name).unwrap().truncate(length);
            let when = format!("{codec:?}, {length} bytes");
            assert!(
                !interrogate(&damaged, &expected, &when),
                "{when}: nobody noticed"
            );
            let mut longer = files.clone();
            longer
                .get_mut(&name)
                .unwrap()
                .resize(files[&name].len() + 8 + length, 0);
            assert!(
                !interrogate(&longer, &expected, &when),
                "{when} more: nobody noticed"
            );
        }
    }
}

#[test]
fn salvage_gives_what_the_whole_blocks_of_a_damaged_pack_hold() {
    for codec in CODECS {
        let storage = FaultyStorage::new();
        let store = Store::open_on(Arc::new(storage.clone()), options()).unwrap();
        let text = |number: u64| {
            format!("{number} {:x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).repeat(60)
        };
        for number in 0..1500 {
            let text = text(number);
            store
                .append(
                    stream(number % 3),
                    Expected::Any,
                    &[NewRecord::data(text.as_bytes())],
                )
                .unwrap();
        }
        compact(&store, CompactScope::All, codec).unwrap();
        let live = live(&store);
        store.close().unwrap();
        let files = storage.files();
        let name = name_of_pack(&files);
        let length = files[&name].len();
        let given = |files: &Files| {
            let mut given = BTreeMap::new();
            let storage = FaultyStorage::from_files(files);
            let summary = salvage(&storage, &mut |found| {
                let at = found.position.map_or(0, |position| position.0);
                if let Some(record) = live.get(&at) {
                    assert_eq!(found.payload, record.payload, "{codec:?}");
                    given.insert(at, ());
                }
                std::ops::ControlFlow::Continue(())
            });
            (given.len(), summary.unwrap())
        };
        let (count, summary) = given(&files);
        assert_eq!(
            (count, summary.unreadable_bytes),
            (live.len(), 0),
            "{codec:?}"
        );
        assert!(summary.notes.is_empty(), "{:?}", summary.notes);
        // One block, the footer, the table and both headers, each alone.
        for (from, to) in [
            (length / 2, length / 2 + 8),
            (length - 40, length - 30),
            (length - 100, length),
            (0, 4096),
        ] {
            let mut damaged = files.clone();
            damaged.get_mut(&name).unwrap()[from..to].fill(0xa5);
            let (count, summary) = given(&damaged);
            let most = if from == length / 2 {
                live.len() / 2
            } else {
                live.len()
            };
            assert!(
                count >= most,
                "{codec:?}: {count} of {} with {from}",
                live.len()
            );
            assert!(
                !summary.notes.is_empty(),
                "{codec:?}: nothing is said of {from}"
            );
        }
        // Cut in the middle, and with what it replaced still there.
        let mut cut = files.clone();
        cut.get_mut(&name).unwrap().truncate(length / 2);
        assert!(given(&cut).0 > live.len() / 5, "{codec:?}");
    }
}

#[test]
fn changed_byte_of_one_dictionary_is_noticed_and_mended_and_costs_no_record() {
    let budget = budget::of("compaction dictionaries");
    let mut random = Random::new(budget.seed());
    let (files, before) = packed_with_dictionary();
    checker::check_files(&files, None).unwrap();
    let name = name_of_pack(&files);
    let [first, second] = alike::dictionaries(&files[&name]);
    assert_eq!(first.len(), second.len());
    for case in 0..if budget::is_torture() { 4000 } else { 12 } {
        let copy = if case % 2 == 0 { &first } else { &second };
        // The headers of both, and any place behind.
        let at = copy.start + random.place(if case < 8 { 32 } else { copy.len() });
        let mut damaged = files.clone();
        damaged.get_mut(&name).unwrap()[at] ^= 1 << random.place(8);
        let when = format!("byte {at} of the dictionaries at {first:?} and {second:?}");
        assert!(checker::check_files(&damaged, None).is_err(), "{when}");
        let storage = FaultyStorage::from_files(&damaged);
        let as_dyn: Arc<dyn Storage> = Arc::new(storage.clone());
        let found = verify(&*as_dyn).unwrap();
        assert!(!found.is_sound(), "{when}");
        assert!(
            !found.problems.iter().any(|problem| problem.is_loss),
            "{when}: {found:?}"
        );
        let store = Store::open_on(as_dyn.clone(), options().read_only()).unwrap();
        assert_same(&before, &answers(&store, LABELS).unwrap(), &when);
        drop(store);
        let mended = runlog_engine::repair(&as_dyn, "a test", &runlog_engine::SystemHost).unwrap();
        // Only what fills the room behind it is left, which costs nothing.
        if mended.left.is_empty() {
            assert_eq!(storage.files()[&name], files[&name], "{when}");
        } else {
            assert!(at + 8 > copy.end, "{when}: {:?}", mended.left);
        }
        budget.add("bytes", 1);
    }
}

#[test]
fn pack_whose_dictionaries_are_both_damaged_gives_what_does_not_need_them_and_says_the_rest() {
    let (files, _) = packed_with_dictionary();
    let expected = lines(&files);
    let name = name_of_pack(&files);
    let [first, second] = alike::dictionaries(&files[&name]);
    let rest = |copy: &std::ops::Range<usize>| copy.start + 32..copy.end;
    let spoiled = |with: &dyn Fn(&mut [u8])| {
        let mut damaged = files.clone();
        let pack = damaged.get_mut(&name).unwrap();
        with(&mut pack[rest(&first)]);
        with(&mut pack[rest(&second)]);
        damaged
    };
    let mut random = Random::new(3);
    let mut noise = vec![0; first.len() - 32];
    random.fill(&mut noise);
    for (what, damaged) in [
        ("zeros", spoiled(&|bytes| bytes.fill(0))),
        ("noise", spoiled(&|bytes| bytes.copy_from_slice(&noise))),
        ("a bit", spoiled(&|bytes| bytes[9] ^= 1)),
    ] {
        assert!(!interrogate(&damaged, &expected, what), "{what}");
        assert!(checker::check_files(&damaged, None).is_err(), "{what}");
        let storage = FaultyStorage::from_files(&damaged);
        let found = verify(&storage).unwrap();
        assert!(
            found.problems.iter().any(|problem| problem.is_loss),
            "{what}: {found:?}"
        );
        let mut given = 0;
        let summary = salvage(&storage, &mut |_| {
            given += 1;
            std::ops::ControlFlow::Continue(())
        });
        let notes = summary.unwrap().notes.join("\n");
        assert!(
            notes.contains("no copy of the dictionary"),
            "{what}: {notes}"
        );
        assert!(given < expected.len(), "{what}: {given}");
        // Repairing doesn't make it worse, and what it leaves is told.
        let as_dyn: Arc<dyn Storage> = Arc::new(storage.clone());
        if let Ok(mended) = runlog_engine::repair(&as_dyn, "a test", &runlog_engine::SystemHost) {
            assert!(!mended.left.is_empty(), "{what}");
        }
        // What needs it is refused in a compaction, and the pack stays.
        let store = Store::open_on(as_dyn, options()).unwrap();
        store
            .append(stream(500), Expected::Any, &[NewRecord::data(b"goes on")])
            .unwrap();
        store.truncate(stream(0), Sequence(0)).unwrap();
        let _ = compact(&store, CompactScope::All, Codec::Zstd);
        assert!(storage.files().contains_key(&name), "{what}");
    }
}

#[test]
fn salvage_decodes_with_either_dictionary_without_header_and_table() {
    let (files, _) = packed_with_dictionary();
    let expected = lines(&files);
    let name = name_of_pack(&files);
    let pack = &files[&name];
    let [first, second] = alike::dictionaries(pack);
    let length = pack.len();
    for (what, gone) in [
        ("the headers", [0..4096, 0..0]),
        ("the first dictionary", [first.clone(), 0..0]),
        (
            "the second dictionary and the table",
            [second.start..length, 0..0],
        ),
        ("headers and first dictionary", [0..first.end, 0..0]),
        ("headers and table", [0..4096, second.end..length]),
    ] {
        let mut damaged = files.clone();
        for range in gone {
            damaged.get_mut(&name).unwrap()[range].fill(0xa5);
        }
        let storage = FaultyStorage::from_files(&damaged);
        let mut given = BTreeMap::new();
        let summary = salvage(&storage, &mut |found| {
            if let Some(at) = found.position.filter(|at| expected.contains_key(&at.0)) {
                given.insert(at.0, ());
            }
            std::ops::ControlFlow::Continue(())
        });
        // Nothing is lost with one dictionary alone.
        let is_told = !summary.unwrap().notes.is_empty();
        assert_eq!(is_told, what != "the first dictionary", "{what}");
        assert_eq!(given.len(), expected.len(), "{what}");
    }
}

#[test]
fn power_lost_at_any_point_of_writing_a_pack_with_a_dictionary_loses_nothing() {
    let budget = budget::of("compaction power");
    let mut random = Random::new(budget.seed());
    let storage = FaultyStorage::new();
    let store = Store::open_on(Arc::new(storage.clone()), options()).unwrap();
    alike::fill(&store, 0, alike::ENOUGH, LABELS);
    let before = answers(&store, LABELS).unwrap();
    store.close().unwrap();
    let files = storage.files();
    let (mut lost, mut done) = (0, 0);
    for case in 0..if budget::is_torture() { 500 } else { 8 } {
        let storage = FaultyStorage::from_files(&files);
        let store = Store::open_on(Arc::new(storage.clone()), options()).unwrap();
        storage.arm(Fault {
            after: if case == 0 {
                u64::MAX
            } else {
                random.below(240)
            },
            failure: Failure::PowerLoss,
            lasting: Lasting::ForGood,
        });
        let compacted = compact(&store, CompactScope::Sealed, Codec::Zstd);
        storage.arm(None);
        if compacted.is_ok() {
            done += 1;
        } else {
            lost += 1;
        }
        let left = storage.crashed(case);
        drop(store);
        let when = format!("case {case}: {compacted:?}");
        let store = Store::open_on(Arc::new(left.clone()), options()).unwrap();
        assert_same(&before, &answers(&store, LABELS).unwrap(), &when);
        assert!(store.verify().unwrap().is_sound(), "{when}");
        let packs = left.files();
        let packs: Vec<_> = packs
            .iter()
            .filter(|(name, _)| name.ends_with(".pack"))
            .collect();
        assert!(
            packs.iter().all(|(_, pack)| alike::has_dictionary(pack)),
            "{when}"
        );
        assert!(compacted.is_err() || !packs.is_empty(), "{when}");
        store.close().unwrap();
    }
    assert!(lost > 0 && done > 0, "{lost} lost, {done} done");
}

#[test]
fn compaction_leaves_a_damaged_segment_as_it_is_and_does_all_others() {
    for what in ["a record", "an index"] {
        let storage = FaultyStorage::new();
        let store = Store::open_on(Arc::new(storage.clone()), options()).unwrap();
        for number in 0..700_u64 {
            let text = alike::message(number);
            let record = NewRecord::data(text.as_bytes());
            store
                .append(stream(number % 7), Expected::Any, &[record])
                .unwrap();
        }
        store.close().unwrap();
        let mut files = storage.files();
        let segments: Vec<String> = files
            .keys()
            .filter(|name| name.ends_with(".seg"))
            .cloned()
            .collect();
        assert!(segments.len() > 4, "{segments:?}");
        let third = files.get_mut(&segments[2]).unwrap();
        let at = match what {
            "a record" => 20_000,
            _ => third.len() - 128 - 512 - 64,
        };
        third[at] ^= 4;
        let left = third.clone();
        let _ = files.remove("CHECKPOINT");
        let expected = |storage: &FaultyStorage| {
            let store = Store::open_on(Arc::new(storage.clone()), options().read_only()).unwrap();
            let records = store.scan(Position::FIRST).unwrap();
            let told =
                records.map(|record| record.map_or("damaged".to_owned(), |record| line(&record)));
            let mut told: Vec<String> = told.collect();
            told.dedup();
            told
        };
        let storage = FaultyStorage::from_files(&files);
        let Ok(store) = Store::open_on(Arc::new(storage.clone()), options()) else {
            // Without a checkpoint the index is needed to open.
            assert_eq!(what, "an index");
            continue;
        };
        let before = expected(&storage);
        let mut last = 0;
        let done = store
            .compact_with(CompactOptions::default(), &mut |at| {
                assert!(
                    last <= at.bytes_done && at.bytes_done <= at.bytes_total,
                    "{at:?}"
                );
                last = at.bytes_done;
                std::ops::ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(
            (done.segments_damaged, done.segments_left),
            (1, 1),
            "{what}"
        );
        assert_eq!(done.files_after, 2, "{what}: {done:?}");
        assert_eq!(expected(&storage), before, "{what}");
        assert_eq!(storage.files()[&segments[2]], left, "{what}");
        // Again there is nothing more to do, and it says the same.
        let again = all(&store);
        assert_eq!(
            (again.files_before, again.segments_damaged),
            (0, 1),
            "{what}: {again:?}"
        );
        store.close().unwrap();
    }
}

#[test]
fn build_that_does_not_know_dictionaries_would_refuse_a_pack_with_one_by_its_bit() {
    let (mut files, _) = packed_with_dictionary();
    let name = name_of_pack(&files);
    let pack = files.get_mut(&name).unwrap();
    // The next bit, which nobody knows yet.
    for start in [0, 2048] {
        pack[start + 88] |= 1 << 5;
        let crc = crc32fast::hash(&pack[start..start + 508]);
        pack[start + 508..start + 512].copy_from_slice(&crc.to_le_bytes());
    }
    let storage = Arc::new(FaultyStorage::from_files(&files));
    let error = Store::open_on(storage, options()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::UnsupportedVersion);
    assert!(error.to_string().contains("feature bit 5"), "{error}");
}

#[test]
fn pack_of_another_place_or_store_or_under_another_name_is_refused() {
    let (files, _) = packed(Codec::Zstd);
    let (others, _) = packed(Codec::Zstd);
    let expected = lines(&files);
    let name = name_of_pack(&files);
    let pack = files[&name].clone();
    let mut swapped = files.clone();
    swapped.insert(name.clone(), others[&name_of_pack(&others)].clone());
    assert!(!interrogate(&swapped, &expected, "another store's"));
    for other in [
        "00000001-00000002.1.pack",
        "00000001-00000001.2.pack",
        "00000002-00000002.1.pack",
        "00000001.seg",
    ] {
        let mut renamed = files.clone();
        renamed.remove(&name);
        renamed.insert(other.to_owned(), pack.clone());
        assert!(!interrogate(&renamed, &expected, other), "{other}");
        let mut both = files.clone();
        if !both.contains_key(other) {
            both.insert(other.to_owned(), pack.clone());
            interrogate(&both, &expected, &format!("{other} beside it"));
        }
    }
    // A pack that goes further than the log does, and one of nothing.
    for bytes in [Vec::new(), vec![0; 4096], pack[..600].to_vec()] {
        let mut made_up = files.clone();
        made_up.insert("00000001-00000001.9.pack".to_owned(), bytes);
        assert!(!interrogate(&made_up, &expected, "made up"));
    }
}

#[test]
fn dry_run_changes_no_byte_and_a_second_compaction_has_nothing_to_do() {
    let storage = FaultyStorage::new();
    let store = Store::open_on(Arc::new(storage.clone()), options()).unwrap();
    let (mut random, mut next, mut keyed) = (Random::new(3), 0, Vec::new());
    for _ in 0..400 {
        step(&store, &mut random, &mut next, &mut keyed);
    }
    let before = storage.files();
    for scope in SCOPES {
        let options = CompactOptions {
            scope,
            dry_run: true,
            ..CompactOptions::default()
        };
        store.compact(options).unwrap();
        assert!(storage.files() == before, "{scope:?}");
    }
    all(&store);
    let after = storage.files();
    assert_eq!(all(&store), Compaction::default());
    assert!(storage.files().keys().eq(after.keys()));
    store.close().unwrap();
}

/// A device with a store of some history, the same each time.
fn worked() -> (FaultyStorage, Store) {
    let storage = FaultyStorage::new();
    let store = Store::open_on(Arc::new(storage.clone()), options()).unwrap();
    let (mut random, mut next, mut keyed) = (Random::new(5), 0, Vec::new());
    for _ in 0..300 {
        step(&store, &mut random, &mut next, &mut keyed);
    }
    (storage, store)
}

#[test]
fn device_that_is_full_at_any_point_of_a_compaction_costs_nothing() {
    let mut refused = 0;
    for room in (100..260_000).step_by(if budget::is_torture() { 500 } else { 20_000 }) {
        let (storage, store) = worked();
        let before = answers(&store, LABELS).unwrap();
        let used: usize = storage.files().values().map(Vec::len).sum();
        storage.limit_room(used as u64 / 4 + room);
        if let Err(error) = compact(&store, CompactScope::Sealed, Codec::Plain) {
            assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
            refused += 1;
        }
        storage.limit_room(None);
        assert_same(&before, &answers(&store, LABELS).unwrap(), "full");
        all(&store);
        assert_same(
            &before,
            &answers(&store, LABELS).unwrap(),
            "with room again",
        );
        assert!(store.verify().unwrap().is_sound());
    }
    assert!(refused > 0, "the device was never full");
}

/// What most users of a full device do: they delete, and compact. One pack for all of it would have no room.
#[test]
fn device_that_is_full_of_deleted_streams_is_freed() {
    let storage = FaultyStorage::new();
    let store = Store::open_on(Arc::new(storage.clone()), options()).unwrap();
    let text = "x".repeat(2000);
    let mut streams = Vec::new();
    for _ in 0..200 {
        let stream = StreamId(store.new_id());
        for number in 0..20 {
            let payload = format!("{number} {text}");
            let record = NewRecord::data(payload.as_bytes());
            store.append(stream, Expected::Any, &[record]).unwrap();
        }
        streams.push(stream);
    }
    let is_kept = |at: usize| at % 10 == 9 || at > 180;
    for (at, stream) in streams.iter().enumerate() {
        if !is_kept(at) {
            store.delete(*stream).unwrap();
        }
    }
    let before = answers(&store, LABELS).unwrap();
    let used = || storage.files().values().map(Vec::len).sum::<usize>() as u64;
    let (full, files) = (used(), storage.files().len());
    storage.leave_room(100_000);
    let done = store
        .compact(CompactOptions {
            scope: CompactScope::All,
            codec: Codec::Plain,
            ..CompactOptions::default()
        })
        .unwrap();
    assert!(storage.files().len() < files);
    assert!(used() < full / 3, "{} of {full} are left: {done:?}", used());
    assert_same(&before, &answers(&store, LABELS).unwrap(), "full");
    // There is room for what comes.
    let payload = text.as_bytes();
    for _ in 0..100 {
        store
            .append(streams[9], Expected::Any, &[NewRecord::data(payload)])
            .unwrap();
    }
    assert!(store.verify().unwrap().is_sound());
}

/// Copy-on-write file systems need room to remove a file.
#[test]
fn device_too_full_to_remove_what_a_pack_replaced_costs_nothing() {
    let mut refused = 0;
    for after in 0.. {
        let (storage, store) = worked();
        let before = answers(&store, LABELS).unwrap();
        storage.arm(Fault {
            after,
            failure: Failure::Full,
            lasting: Lasting::Once,
        });
        let result = compact(&store, CompactScope::Sealed, Codec::Plain);
        let Some(hit) = storage.hit() else {
            break;
        };
        if hit.call == Call::Remove {
            let error = result.expect_err("it has not removed all");
            assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
            assert_same(&before, &answers(&store, LABELS).unwrap(), "full");
            all(&store);
            assert_same(&before, &answers(&store, LABELS).unwrap(), "with room");
            assert!(store.verify().unwrap().is_sound());
            store.close().unwrap();
            let store = Store::open_on(Arc::new(storage), options()).unwrap();
            assert_same(&before, &answers(&store, LABELS).unwrap(), "opened again");
            refused += 1;
        }
    }
    assert!(refused > 0, "no removal was refused");
}

/// The space of the next segment is made ahead of need. Compaction needs less, and gives more back.
#[test]
fn room_taken_for_the_next_segment_is_there_for_a_compaction() {
    const SPARE: &str = "spare.seg.tmp";
    let storage = FaultyStorage::new();
    let options = OpenOptions {
        durability: runlog_engine::Durability::Sync,
        ..options()
    };
    let store = Store::open_on(Arc::new(storage.clone()), options).unwrap();
    let stream = StreamId(store.new_id());
    let payload = [1; 1000];
    let append = || {
        store
            .append(stream, Expected::Any, &[NewRecord::data(&payload)])
            .unwrap()
    };
    for _ in 0..100 {
        append();
    }
    for _ in 0..1000 {
        if storage.files().contains_key(SPARE) {
            break;
        }
        thread::sleep(Duration::from_millis(5));
    }
    store.truncate(stream, Sequence(30)).unwrap();
    let before = answers(&store, LABELS).unwrap();
    storage.leave_room(1000);
    assert!(storage.files().contains_key(SPARE), "no space was made");
    let done = compact(&store, CompactScope::Sealed, Codec::Plain).unwrap();
    assert!(done.bytes_after < done.bytes_before, "{done:?}");
    assert_same(&before, &answers(&store, LABELS).unwrap(), "full");
}

/// The active segment can't be sealed before what is sealed has given room back.
#[test]
fn compaction_that_makes_room_for_itself_first_tells_of_all_that_it_does() {
    let storage = FaultyStorage::new();
    let store = Store::open_on(Arc::new(storage.clone()), options()).unwrap();
    let (kept, given_up) = (StreamId(store.new_id()), StreamId(store.new_id()));
    for number in 0..180 {
        let stream = if number % 30 == 0 { kept } else { given_up };
        store
            .append(stream, Expected::Any, &[NewRecord::data(&[1; 1000])])
            .unwrap();
    }
    store.delete(given_up).unwrap();
    let before = answers(&store, LABELS).unwrap();
    let live = 6 * 1000;
    storage.leave_room(12_000);
    let mut told: Vec<runlog_engine::CompactProgress> = Vec::new();
    let done = store
        .compact_with(
            CompactOptions {
                scope: CompactScope::All,
                codec: Codec::Plain,
                ..CompactOptions::default()
            },
            &mut |progress| {
                told.push(progress);
                std::ops::ControlFlow::Continue(())
            },
        )
        .unwrap();
    let ends = told.iter().filter(|at| at.bytes_done == at.bytes_total);
    assert!(ends.count() > 1, "it did all at once: {told:?}");
    assert!(
        told.is_sorted_by_key(|at| (at.bytes_done, at.bytes_total)),
        "{told:?}"
    );
    let last = told.last().unwrap();
    assert!(
        last.bytes_done == last.bytes_total && last.bytes_done > live,
        "{told:?}"
    );
    assert_eq!(done.records_dropped, 174, "{done:?}");
    assert_same(&before, &answers(&store, LABELS).unwrap(), "full");
}

/// How many segments and packs a folder has, and how many bytes they take.
fn taken_by_segments(storage: &FaultyStorage) -> (u64, u64) {
    let files = storage.files();
    let segments = files
        .iter()
        .filter(|(name, _)| name.ends_with(".seg") || name.ends_with(".pack"));
    segments.fold((0, 0), |(count, bytes), (_, file)| {
        (count + 1, bytes + file.len() as u64)
    })
}

/// Compacts a store again and again on a device that has little room, gets some, and fails in between.
fn compact_on_a_full_device(seed: u64) -> u64 {
    let mut random = Random::new(seed);
    let mut storage = FaultyStorage::new();
    let open = |storage: &FaultyStorage| Store::open_on(Arc::new(storage.clone()), options());
    let mut store = open(&storage).unwrap();
    let (mut next, mut keyed, mut refused) = (0, Vec::new(), 0);
    for round in 0..8 {
        storage.arm(None);
        storage.limit_room(None);
        for _ in 0..random.place(150) {
            step(&store, &mut random, &mut next, &mut keyed);
        }
        for info in store.streams().unwrap() {
            if random.one_in(5) {
                store.delete(info.id).unwrap();
            }
        }
        store.sync().unwrap();
        let before = answers(&store, LABELS).unwrap();
        let reader = random.one_in(3).then(|| {
            let options = OpenOptions {
                mode: runlog_engine::Mode::ReadOnly,
                ..options()
            };
            Store::open_on(Arc::new(storage.clone()), options).unwrap()
        });
        let is_faulty = random.one_in(3);
        if is_faulty {
            let lasting = [Lasting::Once, Lasting::ForGood][random.place(2)];
            storage.arm(Fault {
                after: random.below(60),
                failure: Failure::Full,
                lasting,
            });
        } else {
            storage.leave_room(random.below(100_000));
        }
        let (scope, codec) = (SCOPES[random.place(4)], CODECS[random.place(3)]);
        let when = format!("seed {seed}, round {round}, {scope:?}, {codec:?}");
        let files = taken_by_segments(&storage);
        let cancel_after = random.one_in(4).then(|| random.place(30));
        let mut told = 0;
        let mut last = None;
        let result = store.compact_with(
            CompactOptions {
                scope,
                codec,
                ..CompactOptions::default()
            },
            &mut |progress| {
                assert!(
                    progress.bytes_done <= progress.bytes_total,
                    "{when}: {progress:?}"
                );
                last = Some(progress);
                told += 1;
                match cancel_after {
                    Some(after) if told > after => std::ops::ControlFlow::Break(()),
                    _ => std::ops::ControlFlow::Continue(()),
                }
            },
        );
        match &result {
            Ok(done) => {
                let after = taken_by_segments(&storage);
                if scope < CompactScope::All && !is_faulty {
                    assert_eq!(
                        files.0 + done.files_after,
                        after.0 + done.files_before,
                        "{when}"
                    );
                    assert_eq!(
                        files.1 + done.bytes_after,
                        after.1 + done.bytes_before,
                        "{when}"
                    );
                }
                if !done.is_cancelled {
                    let last = last.unwrap();
                    assert_eq!(last.bytes_done, last.bytes_total, "{when}");
                    let dry = store
                        .compact(CompactOptions {
                            scope,
                            dry_run: true,
                            ..CompactOptions::default()
                        })
                        .unwrap();
                    assert_eq!(dry, Compaction::default(), "{when}");
                }
            }
            Err(error) => {
                let is_poisoned = is_faulty && error.kind() == ErrorKind::Poisoned;
                assert!(
                    is_poisoned || error.kind() == ErrorKind::StorageFull,
                    "{when}: {error}"
                );
                refused += 1;
            }
        }
        let told = answers(&store, LABELS)
            .unwrap_or_else(|error| panic!("{when}: {error}; {:?}; {result:?}", storage.hit()));
        assert_same(&before, &told, &when);
        if let Some(reader) = reader {
            let told = answers(&reader, LABELS)
                .unwrap_or_else(|error| panic!("{when}, another process: {error}; {result:?}"));
            assert_same(&before, &told, &when);
        }
        let crashed = storage.crashed(random.next_u64());
        let opened = open(&crashed).unwrap_or_else(|error| panic!("{when}: {error}"));
        assert_same(
            &before,
            &answers(&opened, LABELS).unwrap(),
            &format!("{when}, crashed"),
        );
        drop(opened);
        storage.arm(None);
        storage.limit_room(None);
        let again = compact(&store, scope, codec);
        let is_uncertain = again.is_err();
        if let Err(error) = again {
            // A flush of the log failed: it isn't known what of it is durable.
            let is_poisoned = is_faulty && error.kind() == ErrorKind::Poisoned;
            assert!(is_poisoned, "{when}: {error}");
        }
        assert_same(
            &before,
            &answers(&store, LABELS).unwrap(),
            &format!("{when}, with room"),
        );
        let found = store.verify().unwrap();
        assert!(found.is_sound(), "{when}: {found:?}");
        if is_uncertain || random.one_in(3) {
            if random.one_in(2) {
                let closed = store.close();
                assert!(is_faulty || closed.is_ok(), "{when}: {closed:?}");
            } else {
                drop(store);
                storage = storage.crashed(random.next_u64());
            }
            store = open(&storage).unwrap_or_else(|error| panic!("{when}: {error}"));
            assert_same(
                &before,
                &answers(&store, LABELS).unwrap(),
                &format!("{when}, reopened"),
            );
        }
    }
    storage.arm(None);
    storage.limit_room(None);
    all(&store);
    assert!(store.verify().unwrap().is_sound());
    refused
}

#[test]
fn compactions_on_a_device_that_is_full_now_and_then_lose_nothing() {
    let budget = budget::of("compactions on a full device");
    let first = budget.seed() % 1_000_000;
    for seed in first.. {
        budget.add("compactions refused", compact_on_a_full_device(seed));
        if seed >= first + 20 && !budget.goes_on() {
            break;
        }
    }
}

#[test]
fn one_large_record_and_streams_of_one_record_are_packed() {
    let large = if budget::is_torture() {
        60 << 20
    } else {
        5 << 20
    };
    let many = if budget::is_torture() { 100_000 } else { 5_000 };
    let options = OpenOptions {
        segment_bytes_max: 128 << 20,
        ..options()
    };
    let storage = Arc::new(MemoryStorage::new());
    let store = Store::open_on(storage.clone(), options.clone()).unwrap();
    let mut random = Random::new(9);
    let mut bytes = vec![0; large];
    random.fill(&mut bytes);
    store
        .append(stream(0), Expected::Any, &[NewRecord::data(&bytes)])
        .unwrap();
    for number in 1..=many {
        store
            .append(
                stream(number),
                Expected::Any,
                &[NewRecord::data(&number.to_le_bytes())],
            )
            .unwrap();
    }
    all(&store);
    assert!(store.verify().unwrap().is_sound());
    store.close().unwrap();
    let store = Store::open_on(storage, options).unwrap();
    let read = |number| -> Vec<Record> {
        let records = store.read(stream(number), ReadOptions::default()).unwrap();
        records.map(Result::unwrap).collect()
    };
    assert!(read(0)[0].payload == bytes);
    for number in 1..=many {
        let records = read(number);
        assert_eq!(records.len(), 1);
        assert_eq!(records[0].payload, &number.to_le_bytes()[..]);
    }
    assert_eq!(store.streams().unwrap().len() as u64, many + 1);
}

#[test]
fn compactions_beside_appends_readings_and_each_other_and_a_close_lose_nothing() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = Store::open(folder.path(), options()).unwrap();
    let is_over = AtomicBool::new(false);
    let time = Duration::from_millis(if budget::is_torture() { 20_000 } else { 1500 });
    let appended = thread::scope(|scope| {
        let reader = scope.spawn(|| {
            // As another process would.
            let reader = Store::open(folder.path(), options().read_only()).unwrap();
            let mut log = reader.subscribe(Position::FIRST);
            let (mut seen, mut reads) = (0, 0);
            while !is_over.load(Ordering::Relaxed) {
                while let Some(record) = log.next_timeout(Duration::from_millis(1)).unwrap() {
                    assert!(record.position.0 > seen, "{record:?} after {seen}");
                    seen = record.position.0;
                }
                for number in 0..4 {
                    let Ok(records) = reader.read(stream(number), ReadOptions::default()) else {
                        continue;
                    };
                    for (record, sequence) in records.zip(1..) {
                        let record = record.unwrap();
                        assert_eq!(record.sequence.0, sequence);
                        assert!(record.payload == payload(number, sequence));
                        reads += 1;
                    }
                }
            }
            reads
        });
        let compactors: Vec<_> = (0..2)
            .map(|nth| {
                let (store, is_over) = (&store, &is_over);
                scope.spawn(move || {
                    let mut packed = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        let codec = CODECS[(nth + packed) % 3];
                        packed += 1;
                        match compact(store, SCOPES[(nth + packed) % 4], codec) {
                            Ok(_) => {}
                            Err(error) => {
                                assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
                                break;
                            }
                        }
                    }
                    packed
                })
            })
            .collect();
        let since = Instant::now();
        let mut appended = 0_u64;
        while since.elapsed() < time {
            appended += 1;
            for number in 0..4 {
                let payload = payload(number, appended);
                store
                    .append(stream(number), Expected::Any, &[NewRecord::data(&payload)])
                    .unwrap();
            }
            if appended.is_multiple_of(50) {
                let fork = stream(100 + appended);
                store.fork(stream(0), Sequence(appended / 2), fork).unwrap();
                store.truncate(fork, Sequence(1)).unwrap();
                store.delete(fork).unwrap();
            }
        }
        // In the middle of one.
        store.close().unwrap();
        is_over.store(true, Ordering::Relaxed);
        assert!(
            compactors
                .into_iter()
                .map(|it| it.join().unwrap())
                .sum::<usize>()
                > 2
        );
        assert!(reader.join().unwrap() > 0);
        appended
    });
    drop(store);
    let store = Store::open(folder.path(), options()).unwrap();
    for number in 0..4 {
        let records = store.read(stream(number), ReadOptions::default()).unwrap();
        let records: Vec<_> = records.map(Result::unwrap).collect();
        assert_eq!(records.len() as u64, appended);
        for record in records {
            assert!(record.payload == payload(number, record.sequence.0));
        }
    }
    assert!(store.verify().unwrap().is_sound());
    store.close().unwrap();
}

fn start_compaction(folder: &Path, scope: &str, codec: &str) -> std::process::Child {
    Command::new(command::runlog())
        .args(["compact", "--scope", scope, "--codec", codec, "--store"])
        .arg(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn command_killed_in_the_middle_of_a_compaction_loses_nothing() {
    let budget = budget::of("compaction kills");
    let mut random = Random::new(budget.seed());
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (mut next, mut keyed) = (0, Vec::new());
    // What the command writes when it first meets a store.
    drop(Store::open(folder.path(), options()).unwrap());
    assert!(
        start_compaction(folder.path(), "all", "zstd")
            .wait()
            .unwrap()
            .success()
    );
    let since = Instant::now();
    start_compaction(folder.path(), "all", "zstd")
        .wait()
        .unwrap();
    let mut longest = since.elapsed();
    let (mut rounds, mut killed) = (0, 0);
    while rounds < 12 || (budget.goes_on() && rounds < 10_000) {
        rounds += 1;
        let store = Store::open(folder.path(), options()).unwrap();
        if store.streams().unwrap().len() > 60 {
            for info in store.streams().unwrap().iter().skip(10) {
                store.delete(info.id).unwrap();
            }
            keyed.clear();
        }
        for _ in 0..60 {
            step(&store, &mut random, &mut next, &mut keyed);
        }
        let before = answers(&store, LABELS).unwrap();
        store.close().unwrap();
        let (scope, codec) = (
            ["all", "sealed"][random.place(2)],
            ["zstd", "lz4", "plain"][random.place(3)],
        );
        let mut child = start_compaction(folder.path(), scope, codec);
        let nanos = u64::try_from(longest.as_nanos()).unwrap();
        thread::sleep(Duration::from_nanos(random.below(nanos * 5 / 4)));
        child.kill().unwrap();
        if !child.wait().unwrap().success() {
            killed += 1;
        }
        let when = format!("round {rounds}");
        let reader = Store::open(folder.path(), options().read_only()).unwrap();
        assert_same(&before, &answers(&reader, LABELS).unwrap(), &when);
        drop(reader);
        if random.one_in(3) {
            let found = verify(&FsStorage::new(folder.path())).unwrap();
            assert!(found.is_sound(), "{when}: {:?}", found.problems);
        }
        if random.one_in(4) {
            let since = Instant::now();
            assert!(
                start_compaction(folder.path(), "all", "zstd")
                    .wait()
                    .unwrap()
                    .success()
            );
            longest = since.elapsed();
        }
        let store = Store::open(folder.path(), options()).unwrap();
        assert_same(&before, &answers(&store, LABELS).unwrap(), &when);
        let folder_has_rest = std::fs::read_dir(folder.path())
            .unwrap()
            .flatten()
            .any(|entry| entry.file_name().to_string_lossy().ends_with(".pack.tmp"));
        assert!(!folder_has_rest, "{when}: an unfinished pack was left");
        store.close().unwrap();
    }
    budget.add("kills", killed);
    budget.add("rounds", rounds);
}

#[test]
fn reader_in_another_place_that_began_before_an_erasure_is_honest() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = Store::open(folder.path(), options()).unwrap();
    for number in 0..3000_u64 {
        let text = format!("record {number} {}", "x".repeat(60));
        store
            .append(
                stream(0),
                Expected::Any,
                &[NewRecord::data(text.as_bytes())],
            )
            .unwrap();
    }
    let last = store.last_position().unwrap();
    let reader = Store::open(folder.path(), options().read_only()).unwrap();
    let mut records = reader.read(stream(0), ReadOptions::default()).unwrap();
    records.next().unwrap().unwrap();
    store.redact(last, "private").unwrap();
    assert_eq!(all(&store).payloads_erased, 1);
    // Now it knows of the pack, and the reading goes on in that.
    assert!(reader.record(last).is_ok());
    reader.last_position().unwrap();
    let mut count = 1;
    for record in records {
        let record = record.unwrap();
        assert_eq!(record.redacted, record.payload.is_empty(), "{record:?}");
        count += 1;
    }
    assert_eq!(count, 3000);
}

#[test]
fn backup_over_one_that_goes_further_in_a_pack_is_refused() {
    let source = Arc::new(MemoryStorage::new());
    let store = Store::open_on(source.clone(), options()).unwrap();
    let fill = |store: &Store, count| {
        for number in 0..count {
            store
                .append(
                    stream(0),
                    Expected::Any,
                    &[NewRecord::data(&payload(0, number))],
                )
                .unwrap();
        }
    };
    fill(&store, 20);
    // The store as it was, put back later.
    let old = Arc::new(MemoryStorage::new());
    store.backup(&*old).unwrap();
    fill(&store, 300);
    all(&store);
    let target = Arc::new(MemoryStorage::new());
    store.backup(&*target).unwrap();
    let newest = target
        .list()
        .unwrap()
        .into_iter()
        .filter(|name| name.ends_with(".seg"))
        .max();
    target.remove(&newest.unwrap()).unwrap();
    let old = Store::open_on(old, options()).unwrap();
    let refused = old.backup(&*target).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
}

/// Where the blocks of a pack lie in its file.
fn blocks(pack: &[u8]) -> Vec<std::ops::Range<usize>> {
    let four = |at: usize| u32::from_le_bytes(pack[at..at + 4].try_into().unwrap()) as usize;
    let footer = pack.len() - 64;
    let (table, count) = (four(footer + 24), four(footer + 32));
    let starts = (0..count).map(|row| 8 * four(table + 8 * row));
    starts
        .map(|start| start..start + 32 + four(start + 8))
        .collect()
}

/// The files, with a changed byte in each of these blocks of the pack.
fn with_damaged_blocks(files: &Files, places: &[usize]) -> Files {
    let (name, mut damaged) = (name_of_pack(files), files.clone());
    let blocks = blocks(&files[&name]);
    for place in places {
        damaged.get_mut(&name).unwrap()[blocks[*place].end - 1] ^= 1;
    }
    damaged
}

fn repair(storage: &FaultyStorage) -> Result<runlog_engine::Repair> {
    let as_dyn: Arc<dyn Storage> = Arc::new(storage.clone());
    runlog_engine::repair(&as_dyn, "a test", &runlog_engine::SystemHost)
}

/// Opens a store read-only and for writing, and appends; the pack's records are damaged, the one behind it can be read.
fn assert_opens(files: &Files, expected: &BTreeMap<u64, String>, when: &str) {
    assert!(!interrogate(files, expected, when), "{when}");
    let storage = FaultyStorage::from_files(files);
    for (is_writer, options) in [(false, options().read_only()), (true, options())] {
        let store = Store::open_on(Arc::new(storage.clone()), options)
            .unwrap_or_else(|error| panic!("{when}: {error}"));
        let last = *expected.keys().last().unwrap();
        for at in expected.keys() {
            match store.record(Position(*at)) {
                Ok(record) => assert!(*at == last && record.is_some(), "{when}: {at}"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Damaged, "{when}: {at}"),
            }
        }
        let found = store.verify().unwrap();
        assert!(
            found.problems.iter().any(|problem| problem.is_loss),
            "{when}: {found:?}"
        );
        if is_writer {
            let record = NewRecord::data(b"written after the damage");
            let at = store.append(stream(0), Expected::Any, &[record]).unwrap();
            assert_eq!(
                at.ops[0].position.0,
                store.last_position().unwrap().0,
                "{when}"
            );
            compact(&store, CompactScope::All, Codec::Zstd).unwrap();
            assert!(
                store.record(at.ops[0].position).unwrap().is_some(),
                "{when}"
            );
            store.close().unwrap();
        }
    }
}

#[test]
fn changed_byte_among_the_records_of_a_small_pack_does_not_keep_the_store_from_opening() {
    for codec in CODECS {
        let (mut files, _) = packed(codec);
        checker::check_files(&files, None).unwrap();
        let expected = lines(&files);
        for when in ["with a checkpoint", "without a checkpoint"] {
            let damaged = with_damaged_blocks(&files, &[0]);
            assert_opens(&damaged, &expected, &format!("{codec:?} {when}"));
            files.remove("CHECKPOINT");
        }
    }
}

#[test]
fn store_opens_by_its_checkpoint_where_nothing_of_a_pack_can_be_read() {
    for codec in CODECS {
        let (files, _) = packed(codec);
        let expected = lines(&files);
        for places in [&[0, 1, 2, 3][..], &[0, 3], &[0, 2], &[0, 1]] {
            let damaged = with_damaged_blocks(&files, places);
            assert_opens(
                &damaged,
                &expected,
                &format!("{codec:?}, blocks {places:?}"),
            );
        }
    }
}

#[test]
fn pack_of_which_nothing_can_be_read_is_put_aside_by_a_repair() {
    for codec in CODECS {
        let (mut files, _) = packed(codec);
        let expected = lines(&files);
        let last = *expected.keys().last().unwrap();
        for when in ["with a checkpoint", "without a checkpoint"] {
            let when = format!("{codec:?} {when}");
            let damaged = with_damaged_blocks(&files, &[0, 1, 2, 3]);
            let storage = FaultyStorage::from_files(&damaged);
            let before = verify(&storage).unwrap();
            assert!(
                before.problems.iter().any(|problem| problem.is_loss),
                "{when}: {before:?}"
            );
            let done = repair(&storage).unwrap_or_else(|error| panic!("{when}: {error}"));
            assert!(
                done.left.iter().all(|problem| problem.is_loss),
                "{when}: {done:?}"
            );
            assert!(!done.left.is_empty(), "{when}");
            let name = name_of_pack(&files);
            assert!(
                done.actions.iter().any(|action| action.starts_with(&name)),
                "{done:?}"
            );
            let after = storage.files();
            assert!(
                after.values().any(|bytes| *bytes == damaged[&name]),
                "{when}"
            );
            // Without a checkpoint nothing names the streams that were created in it.
            if files.contains_key("CHECKPOINT") {
                interrogate(&after, &expected, &when);
            }
            let store = Store::open_on(Arc::new(storage), options()).unwrap();
            assert!(store.record(Position(last)).unwrap().is_some(), "{when}");
            for at in 1..last {
                let error = store.record(Position(at)).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Damaged, "{when}");
            }
            let record = NewRecord::data(b"written after the repair");
            let at = store.append(stream(0), Expected::Any, &[record]).unwrap();
            assert!(at.ops[0].position.0 > last, "{when}");
            files.remove("CHECKPOINT");
        }
    }
}

#[test]
fn pack_that_has_records_but_no_index_is_told_of_and_left_where_it_is() {
    let (mut files, _) = packed(Codec::Zstd);
    files.remove("CHECKPOINT");
    let expected = lines(&files);
    let name = name_of_pack(&files);
    // The index, its table, the trailer; and the footer and a block's header, which would tell the same.
    let mut damaged = files.clone();
    let pack = damaged.get_mut(&name).unwrap();
    let (length, trailer) = (pack.len(), blocks(pack)[3].start);
    pack[length - 30] ^= 1;
    pack[trailer] ^= 1;
    let cases = [
        with_damaged_blocks(&files, &[1]),
        with_damaged_blocks(&files, &[2]),
        with_damaged_blocks(&files, &[3]),
        damaged,
    ];
    for (case, damaged) in cases.into_iter().enumerate() {
        let storage = FaultyStorage::from_files(&damaged);
        let refused = Store::open_on(Arc::new(storage.clone()), options()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Damaged, "{case}: {refused}");
        let found = verify(&storage).unwrap();
        let is_told = |file: &str| found.problems.iter().any(|problem| problem.file == file);
        assert!(is_told(&name), "{case}: {found:?}");
        let error = repair(&storage).unwrap_err();
        assert!(
            error.to_string().contains("runlog salvage"),
            "{case}: {error}"
        );
        assert_eq!(storage.files()[&name], damaged[&name], "{case}");
        let mut given = 0;
        salvage(&storage, &mut |found| {
            let at = found.position.map_or(0, |at| at.0);
            given += usize::from(expected.contains_key(&at));
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
        assert!(given >= expected.len(), "{case}: {given}");
        // Moved elsewhere, as the error says.
        storage.remove(&name).unwrap();
        let done = repair(&storage).unwrap();
        assert!(
            done.left.iter().all(|problem| problem.is_loss),
            "{case}: {done:?}"
        );
        Store::open_on(Arc::new(storage), options()).unwrap();
    }
}

#[test]
fn files_that_an_unreadable_pack_replaced_are_kept_and_taken_up_again_by_a_repair() {
    let storage = FaultyStorage::new();
    let store = Store::open_on(Arc::new(storage.clone()), options()).unwrap();
    for number in 0..300_u64 {
        let text = format!("{number} {}", "x".repeat(400));
        let record = NewRecord::data(text.as_bytes());
        store
            .append(stream(number % 3), Expected::Any, &[record])
            .unwrap();
    }
    let before = answers(&store, LABELS).unwrap();
    let whole = storage.files();
    let done = compact(&store, CompactScope::Sealed, Codec::Zstd).unwrap();
    assert!(done.files_after < done.files_before);
    store.close().unwrap();
    drop(store);
    let mut files = storage.files();
    let name = name_of_pack(&files);
    let all: Vec<_> = (0..blocks(&files[&name]).len()).collect();
    files = with_damaged_blocks(&files, &all);
    for (name, bytes) in whole.into_iter().filter(|(name, _)| name.ends_with(".seg")) {
        files.entry(name).or_insert(bytes);
    }
    let storage = FaultyStorage::from_files(&files);
    // A writer that opens it by the checkpoint leaves them there.
    drop(Store::open_on(Arc::new(storage.clone()), options()).unwrap());
    let done = repair(&storage).unwrap();
    assert!(done.left.is_empty(), "{done:?}");
    assert!(!storage.files().contains_key(&name), "{done:?}");
    let store = Store::open_on(Arc::new(storage), options()).unwrap();
    assert_same(&before, &answers(&store, LABELS).unwrap(), "repaired");
}

#[test]
fn damaged_table_of_a_pack_costs_nothing_and_is_written_again_by_a_repair() {
    for (mut files, before) in [packed(Codec::Zstd), packed_with_dictionary()] {
        files.remove("CHECKPOINT");
        let name = name_of_pack(&files);
        let length = files[&name].len();
        for back in 1..=64 + 3 * 8 {
            let mut damaged = files.clone();
            damaged.get_mut(&name).unwrap()[length - back] ^= 1;
            let storage = FaultyStorage::from_files(&damaged);
            let reader = Store::open_on(Arc::new(storage.clone()), options().read_only());
            let reader = reader.unwrap_or_else(|error| panic!("{back}: {error}"));
            assert_same(&before, &answers(&reader, LABELS).unwrap(), "with damage");
            drop(reader);
            let found = verify(&storage).unwrap();
            assert!(!found.is_sound(), "{back}");
            let is_loss = found.problems.iter().any(|problem| problem.is_loss);
            assert!(!is_loss, "{back}: {found:?}");
            let done = repair(&storage).unwrap();
            assert!(done.left.is_empty(), "{back}: {done:?}");
            assert_eq!(storage.files()[&name], files[&name], "{back}");
        }
    }
}

#[test]
fn file_that_claims_to_stand_for_all_segments_there_can_be_takes_no_more_memory_than_another() {
    let (mut files, _) = packed(Codec::Zstd);
    let last = files
        .keys()
        .filter_map(|name| name.strip_suffix(".seg"))
        .filter_map(|number| number.parse::<u32>().ok())
        .max()
        .unwrap();
    let name = format!("{:08}-{}.1.pack", last + 1, u32::MAX);
    files.insert(name.clone(), vec![7; 5000]);
    let storage = FaultyStorage::from_files(&files);
    let found = verify(&storage).unwrap();
    let names_it = |problem: &runlog_engine::Problem| problem.file == name;
    assert!(found.problems.iter().any(names_it), "{found:?}");
    let done = repair(&storage).unwrap();
    assert!(
        done.actions.iter().any(|action| action.starts_with(&name)),
        "{done:?}"
    );
    assert!(verify(&storage).unwrap().is_sound());
}

/// Three packs and what is written behind them, each with new streams, and with more of the older ones.
fn packed_thrice() -> Files {
    let storage = FaultyStorage::new();
    let store = Store::open_on(Arc::new(storage.clone()), options()).unwrap();
    let mut written = 0_u64;
    // Each much less than the one before, so that none is taken up into the next.
    for (round, records) in [(0_u64, 1600_u64), (1, 400), (2, 150), (3, 20)] {
        for number in 0..records {
            let text = alike::message(written);
            written += 1;
            // The first of the streams of this round and of those before.
            let of_round = number % (round + 1);
            let record = NewRecord::data(text.as_bytes());
            // The fourth of the first round is deleted.
            let of_these = if round > 0 && of_round == 0 {
                number % 3
            } else {
                number % 7
            };
            let stream = stream(100 * of_round + of_these);
            store.append(stream, Expected::Any, &[record]).unwrap();
        }
        if round == 0 {
            store.fork(stream(1), Sequence(30), stream(1000)).unwrap();
            store.truncate(stream(2), Sequence(100)).unwrap();
            store.delete(stream(3)).unwrap();
        }
        if round < 3 {
            compact(&store, CompactScope::Sealed, Codec::Zstd).unwrap();
        }
    }
    store.close().unwrap();
    storage.files()
}

#[test]
fn any_pack_of_several_may_be_lost_and_the_store_goes_on_without_it() {
    let whole = packed_thrice();
    let expected: Vec<String> = lines(&whole).into_values().collect();
    let packs: Vec<&String> = whole
        .keys()
        .filter(|name| name.ends_with(".pack"))
        .collect();
    assert_eq!(packs.len(), 3, "{:?}", whole.keys());
    for pack in packs {
        for has_checkpoint in [true, false] {
            let what = format!("without {pack}, checkpoint: {has_checkpoint}");
            let mut files = whole.clone();
            let removed = files.remove(pack).unwrap();
            if !has_checkpoint {
                files.remove("CHECKPOINT");
            }
            let storage = FaultyStorage::from_files(&files);
            repair(&storage).unwrap_or_else(|error| panic!("{what}: {error}"));
            let left = readable(&storage).unwrap_or_else(|error| panic!("{what}: {error}"));
            let lost: Vec<usize> = (0..expected.len())
                .filter(|place| !left.contains(&expected[*place]))
                .collect();
            // What is lost lay together. Without a checkpoint, later records may be in streams whose ids are lost.
            let range = lost.first().copied().unwrap()..=lost.last().copied().unwrap();
            assert!(lost.len() < expected.len(), "{what}");
            assert!(
                !has_checkpoint || lost.len() == range.count(),
                "{what}: {lost:?}"
            );
            let store = Store::open_on(Arc::new(storage.clone()), options()).unwrap();
            for number in [1, 1_000_000] {
                let record = NewRecord::data(b"goes on");
                store
                    .append(stream(number), Expected::Any, &[record])
                    .unwrap_or_else(|error| panic!("{what}: {error}"));
            }
            store.close().unwrap();
            let mut files = storage.files();
            files.insert(pack.clone(), removed);
            let storage = FaultyStorage::from_files(&files);
            repair(&storage).unwrap_or_else(|error| panic!("{what}, restored: {error}"));
            let again = readable(&storage).unwrap_or_else(|error| panic!("{what}: {error}"));
            let missing: Vec<_> = expected
                .iter()
                .filter(|line| !again.contains(*line))
                .collect();
            assert!(missing.is_empty(), "{what}, restored: {missing:?}");
        }
    }
}

/// Every record that can be read.
fn readable(storage: &FaultyStorage) -> Result<std::collections::BTreeSet<String>> {
    let store = Store::open_on(Arc::new(storage.clone()), options().read_only())?;
    let records = store.scan(Position::FIRST)?;
    Ok(records
        .filter_map(|record| record.ok().map(|record| line(&record)))
        .collect())
}
