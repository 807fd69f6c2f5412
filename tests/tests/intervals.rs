//! Appends that are flushed at most so many milliseconds later: once that time has passed, a loss of power takes nothing
//! of them, whatever the store's own durability is and whether or not anything follows.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use runlog_engine::{Batch, Durability, Expected, NewRecord, Op, OpenOptions, Store};
use runlog_tests::{
    budget::{self, Budget},
    checker,
    faulty::FaultyStorage,
    processes::{payload, stream},
};

const INTERVAL: Durability = Durability::Interval(20);
/// Long past the interval, so that a busy machine fails nothing.
const PATIENCE: Duration = Duration::from_secs(5);
/// In how many ways the power goes at one moment.
const LOSSES: u64 = 12;

fn options(durability: Durability) -> OpenOptions {
    OpenOptions {
        durability,
        segment_bytes_max: 64 << 10,
        ..OpenOptions::default()
    }
}

fn append(store: &Store, sequence: u64, durability: Option<Durability>) {
    let payload = payload(0, sequence);
    let append = Op::Append {
        stream: stream(0),
        expected: Expected::Any,
        records: vec![NewRecord::data(&payload)],
    };
    let batch = Batch {
        durability,
        ..Batch::new(vec![append])
    };
    // Some are put in line and waited for.
    if sequence.is_multiple_of(2) {
        store
            .stage(&batch)
            .and_then(|commit| commit.wait())
            .expect("a sound storage");
    } else {
        store.commit(&batch).expect("a sound storage");
    }
}

/// How many records are there after the power went now, at worst.
fn left(storage: &FaultyStorage) -> u64 {
    let left = |seed| {
        let after = storage.crashed(seed);
        drop(
            Store::open_on(Arc::new(after.clone()), options(Durability::Sync))
                .expect("what is left is sound"),
        );
        let checked = checker::check_files(&after.files(), None).expect("what is left is sound");
        checked
            .streams()
            .iter()
            .find(|(id, _)| id == stream(0).as_bytes())
            .map_or(0, |(_, records)| records.len() as u64)
    };
    (0..LOSSES).map(left).min().unwrap_or(0)
}

/// Waits until a loss of power would take none of so many records.
fn becomes_durable(storage: &FaultyStorage, records: u64) -> Result<(), String> {
    let since = Instant::now();
    loop {
        let found = left(storage);
        if found >= records {
            return Ok(());
        }
        if since.elapsed() > PATIENCE {
            return Err(format!(
                "{records} were acknowledged {} ms ago, {found} are durable",
                PATIENCE.as_millis()
            ));
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Appends with a durability of the store's and of the batch's; what went wrong.
fn idle_afterwards(
    of_store: Durability,
    of_batch: Option<Durability>,
    budget: &Budget,
) -> Result<(), String> {
    let storage = FaultyStorage::new();
    let store = Store::open_on(Arc::new(storage.clone()), options(of_store)).expect("a new store");
    let mut records = 0;
    // One, a few, and more than a segment.
    for count in [1, 7, 60] {
        (0..count).for_each(|_| {
            records += 1;
            append(&store, records, of_batch);
        });
        becomes_durable(&storage, records)?;
    }
    budget.add("records acknowledged", records);
    Ok(())
}

#[test]
fn batch_with_an_interval_is_durable_after_it_whatever_the_store_is_and_though_nothing_follows() {
    let budget = budget::of("intervals of batches");
    let mut wrong = Vec::new();
    loop {
        for of_store in [
            Durability::Sync,
            Durability::Os,
            Durability::Interval(60_000),
            Durability::Interval(5),
        ] {
            if let Err(error) = idle_afterwards(of_store, Some(INTERVAL), &budget) {
                wrong.push(format!("store {of_store:?}, batch {INTERVAL:?}: {error}"));
            }
            budget.add("setups", 1);
        }
        if !budget.goes_on() || !wrong.is_empty() {
            break;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn store_with_an_interval_flushes_what_has_no_durability_of_its_own() {
    let budget = budget::of("intervals of stores");
    idle_afterwards(INTERVAL, None, &budget).unwrap_or_else(|error| panic!("{error}"));
}

/// The interval counts from the batch, not from the last of what follows it.
#[test]
fn batch_with_an_interval_is_durable_after_it_though_others_follow_all_the_time() {
    let budget = budget::of("intervals under load");
    let storage = FaultyStorage::new();
    let store =
        Store::open_on(Arc::new(storage.clone()), options(Durability::Os)).expect("a new store");
    let ends = AtomicBool::new(false);
    let outcome = thread::scope(|scope| {
        scope.spawn(|| {
            // Below the interval, and not more than a segment in all.
            while !ends.load(Ordering::SeqCst) {
                let append = store.append(stream(1), Expected::Any, &[NewRecord::data(b"")]);
                append.expect("a sound storage");
                thread::sleep(Duration::from_millis(8));
            }
        });
        append(&store, 1, Some(INTERVAL));
        let outcome = becomes_durable(&storage, 1);
        ends.store(true, Ordering::SeqCst);
        outcome
    });
    budget.add("records acknowledged", 1);
    outcome.unwrap_or_else(|error| panic!("{error}"));
}
