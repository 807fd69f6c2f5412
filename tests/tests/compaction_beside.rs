//! Compactions beside appends, other readers and lost power on a device whose room comes and goes: nothing acknowledged is
//! lost, nothing but a full device is told, and once there is room everything goes on without opening the store again.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use runlog_engine::{
    Codec, CompactOptions, CompactScope, Compaction, Durability, Error, ErrorKind, Expected,
    NewRecord, OpenOptions, Preallocation, ReadOptions, Result, Sequence, Store, StreamId,
};
use runlog_tests::{
    budget,
    faulty::FaultyStorage,
    processes::{payload, stream},
    random::Random,
};

fn options() -> OpenOptions {
    OpenOptions {
        segment_bytes_max: 64 << 10,
        ..OpenOptions::default()
    }
}

fn open(storage: &FaultyStorage, options: OpenOptions) -> Store {
    Store::open_on(Arc::new(storage.clone()), options).unwrap()
}

fn compact(store: &Store, scope: CompactScope) -> Result<Compaction> {
    store.compact(CompactOptions {
        scope,
        codec: Codec::Lz4,
        ..CompactOptions::default()
    })
}

/// What an append expects, which is refused if a record before it is missing or one behind it is there.
fn after(last: u64) -> Expected {
    match last {
        0 => Expected::Absent,
        last => Expected::Last(Sequence(last)),
    }
}

/// What the threads of [`beside_work`] were told.
#[derive(Default)]
struct Told {
    /// The last sequence of each stream that was acknowledged.
    acknowledged: Vec<u64>,
    refused: u64,
    packs: u64,
}

/// An error that a full device may cause. Where the power goes, any.
fn is_refusal(error: &Error, storage: &FaultyStorage) -> bool {
    error.kind() == ErrorKind::StorageFull || storage.is_powerless()
}

/// Appends until it is over; the last sequence that was acknowledged, and how many were refused.
fn append_beside(
    store: &Store,
    thread: u64,
    from: u64,
    storage: &FaultyStorage,
    is_over: &AtomicBool,
) -> (u64, u64) {
    let (mut last, mut refused) = (from, 0);
    while !is_over.load(Ordering::Relaxed) && !storage.is_powerless() {
        let payload = payload(thread, last + 1);
        let record = NewRecord::data(&payload);
        match store.append(stream(thread), after(last), &[record]) {
            Ok(_) => last += 1,
            Err(error) => {
                assert!(is_refusal(&error, storage), "append {}: {error}", last + 1);
                refused += 1;
                thread::yield_now();
            }
        }
    }
    (last, refused)
}

/// Streams that are written and given up again, so that there is something to compact.
fn waste_beside(store: &Store, storage: &FaultyStorage, is_over: &AtomicBool) {
    loop {
        let wasted = StreamId(store.new_id());
        for sequence in 0..30 {
            if is_over.load(Ordering::Relaxed) || storage.is_powerless() {
                return;
            }
            let payload = payload(9, sequence);
            let record = NewRecord::data(&payload);
            if let Err(error) = store.append(wasted, Expected::Any, &[record]) {
                assert!(is_refusal(&error, storage), "{error}");
                thread::yield_now();
            }
        }
        if let Err(error) = store.delete(wasted) {
            let is_absent = error.kind() == ErrorKind::NotFound;
            assert!(is_absent || is_refusal(&error, storage), "{error}");
        }
    }
}

/// Whether a store has the records of these streams, at least up to what was acknowledged of each.
fn assert_has(store: &Store, acknowledged: &[u64], when: &str) {
    for (thread, acknowledged) in (0..).zip(acknowledged) {
        let mut last = 0;
        if store.stream(stream(thread)).unwrap().is_some() {
            for record in store.read(stream(thread), ReadOptions::default()).unwrap() {
                let record = record.unwrap_or_else(|error| panic!("{when}: {error}"));
                last += 1;
                assert_eq!(record.sequence.0, last, "{when}");
                assert!(record.payload == payload(thread, last), "{when}: {last}");
            }
        }
        assert!(
            last >= *acknowledged,
            "{when}: stream {thread} has {last} of {acknowledged}"
        );
    }
}

/// Appends, wastes, reads and compacts at once on a device whose room comes and goes; maybe until the power goes.
fn beside_work(
    store: &Store,
    storage: &FaultyStorage,
    acknowledged: &[u64],
    random: &mut Random,
    loses_power: bool,
) -> Told {
    let is_over = AtomicBool::new(false);
    let scopes: Vec<CompactScope> = (0..8)
        .map(|_| {
            [
                CompactScope::Dead,
                CompactScope::Sparse,
                CompactScope::Sealed,
                CompactScope::All,
            ][random.place(4)]
        })
        .collect();
    let rooms: Vec<Option<u64>> = (0..12)
        .map(|_| (!random.one_in(4)).then(|| random.below(120_000)))
        .collect();
    thread::scope(|scope| {
        let is_over = &is_over;
        let appenders: Vec<_> = (0..)
            .zip(acknowledged)
            .map(|(thread, from)| {
                scope.spawn(move || append_beside(store, thread, *from, storage, is_over))
            })
            .collect();
        scope.spawn(|| waste_beside(store, storage, is_over));
        let reader = scope.spawn(|| {
            // As another process would.
            let reader = Store::open_on(Arc::new(storage.clone()), options().read_only());
            while !is_over.load(Ordering::Relaxed) {
                let Ok(reader) = &reader else { return };
                for thread in 0..acknowledged.len() as u64 {
                    let Ok(records) = reader.read(stream(thread), ReadOptions::default()) else {
                        continue;
                    };
                    for (record, sequence) in records.zip(1..) {
                        match record {
                            Ok(record) => assert!(record.payload == payload(thread, sequence)),
                            Err(error) => {
                                assert!(storage.is_powerless(), "read {sequence}: {error}");
                                return;
                            }
                        }
                    }
                }
            }
        });
        let compactor = scope.spawn(|| {
            let mut packs = 0;
            for scope in scopes.iter().cycle() {
                if is_over.load(Ordering::Relaxed) || storage.is_powerless() {
                    break;
                }
                match compact(store, *scope) {
                    Ok(done) => packs += done.files_after,
                    Err(error) => assert!(is_refusal(&error, storage), "{scope:?}: {error}"),
                }
            }
            packs
        });
        for room in rooms {
            match room {
                Some(bytes) => storage.leave_room(bytes),
                None => storage.limit_room(None),
            }
            thread::sleep(Duration::from_millis(15));
        }
        if loses_power {
            storage.cut_power();
        }
        is_over.store(true, Ordering::Relaxed);
        let mut told = Told::default();
        for appender in appenders {
            let (last, refused) = appender.join().unwrap();
            told.acknowledged.push(last);
            told.refused += refused;
        }
        reader.join().unwrap();
        told.packs = compactor.join().unwrap();
        told
    })
}

#[test]
fn appends_and_compactions_beside_each_other_on_a_device_that_is_full_now_and_then_lose_nothing() {
    let budget = budget::of("compactions beside appends on a full device");
    let first = budget.seed() % 1_000_000;
    let (mut refused, mut packs) = (0, 0);
    for seed in first.. {
        let mut random = Random::new(seed);
        let options = OpenOptions {
            durability: [Durability::Sync, Durability::Os][random.place(2)],
            preallocation: [Preallocation::Auto, Preallocation::None][random.place(2)],
            auto_compact: random.one_in(2),
            ..options()
        };
        let mut storage = FaultyStorage::new();
        let mut store = open(&storage, options.clone());
        let mut acknowledged = vec![0; 3];
        for round in 0..3 {
            // With another durability that may cost what was acknowledged.
            let loses_power = options.durability == Durability::Sync && random.one_in(2);
            let when =
                format!("seed {seed}, round {round}, power lost: {loses_power}, {options:?}");
            let told = beside_work(&store, &storage, &acknowledged, &mut random, loses_power);
            (refused, packs) = (refused + told.refused, packs + told.packs);
            if loses_power {
                drop(store);
                storage = storage.crashed(random.next_u64());
                store = open(&storage, options.clone());
                assert_has(&store, &told.acknowledged, &when);
                // What was written and not acknowledged may be there.
                acknowledged = (0..3)
                    .map(|thread| {
                        let info = store.stream(stream(thread)).unwrap();
                        info.map_or(0, |info| info.last_sequence.0)
                    })
                    .collect();
                continue;
            }
            // Once there is room everything goes on without opening it anew.
            storage.limit_room(None);
            for (thread, last) in (0..).zip(&told.acknowledged) {
                let payload = payload(thread, last + 1);
                let expected = after(*last);
                store
                    .append(stream(thread), expected, &[NewRecord::data(&payload)])
                    .unwrap_or_else(|error| panic!("{when}: {error}"));
            }
            acknowledged = told.acknowledged.iter().map(|last| last + 1).collect();
            compact(&store, CompactScope::All).unwrap_or_else(|error| panic!("{when}: {error}"));
            assert_has(&store, &acknowledged, &when);
            let found = store.verify().unwrap();
            assert!(found.is_sound(), "{when}: {found:?}");
        }
        store.close().unwrap();
        drop(store);
        let store = open(&storage, options);
        assert_has(&store, &acknowledged, &format!("seed {seed}, opened again"));
        budget.add("stores", 1);
        if seed >= first + 4 && !budget.goes_on() {
            break;
        }
    }
    assert!(refused > 0 && packs > 0, "{refused} {packs}");
}
