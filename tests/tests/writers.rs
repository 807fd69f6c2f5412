//! Many threads write, the power goes in the middle of it, and none of them had anything acknowledged that is gone.

use std::sync::{Arc, Mutex};

use runlog_engine::{
    Batch, Durability, ErrorKind, Expected, NewRecord, Op, OpenOptions, Sequence, Store,
};
use runlog_tests::{
    budget::{self, Budget},
    checker,
    faulty::{Call, Failure, Fault, FaultyStorage, Lasting},
    host::TestHost,
    processes::{payload, stream},
    random::Random,
};

const THREADS: u64 = 8;

fn options() -> OpenOptions {
    OpenOptions {
        segment_bytes_max: 64 << 10,
        ..OpenOptions::default()
    }
}

/// Appends records to a stream of its own until one fails; the last that was acknowledged as durable.
fn write(store: &Store, thread: u64) -> u64 {
    let mut durable = 0;
    for sequence in 1.. {
        let durability = if (sequence + thread).is_multiple_of(3) {
            Durability::Os
        } else {
            Durability::Sync
        };
        let payload = payload(thread, sequence);
        let append = Op::Append {
            stream: stream(thread),
            expected: Expected::Last(Sequence(sequence - 1)),
            records: vec![NewRecord::data(&payload)],
        };
        let batch = Batch::new(vec![append]).with_durability(durability);
        // Some are put in line, and waited for at once.
        let done = if sequence.is_multiple_of(5) {
            store.stage(&batch).and_then(|commit| commit.wait())
        } else {
            store.commit(&batch)
        };
        match done {
            Ok(_) if durability == Durability::Sync => durable = sequence,
            Ok(_) => {}
            Err(_) => break,
        }
    }
    durable
}

/// What a loss of power may have left: whole, and with all that was acknowledged as durable.
fn check(storage: &FaultyStorage, durable: &[u64]) -> Result<(), String> {
    let store = Store::open_on(Arc::new(storage.clone()), options())
        .map_err(|error| format!("open: {error}"))?;
    drop(store);
    let checked =
        checker::check_files(&storage.files(), None).map_err(|problem| problem.to_string())?;
    for (thread, durable) in (0..).zip(durable) {
        let streams = checked.streams();
        let records = streams
            .iter()
            .find(|(id, _)| id == stream(thread).as_bytes())
            .map(|(_, records)| &records[..]);
        let records = records.unwrap_or_default();
        if (records.len() as u64) < *durable {
            return Err(format!(
                "thread {thread}: {durable} were acknowledged, {} are there",
                records.len()
            ));
        }
        if records
            .iter()
            .any(|(sequence, _, _, _, found)| *found != payload(thread, *sequence))
        {
            return Err(format!("thread {thread}: another payload"));
        }
    }
    Ok(())
}

fn round(seed: u64, budget: &Budget) {
    let mut random = Random::new(seed);
    let storage = FaultyStorage::new();
    let store = Store::open_on(Arc::new(storage.clone()), options()).expect("a new store");
    storage.arm(Fault {
        after: random.below(400),
        failure: Failure::PowerLoss,
        lasting: Lasting::Once,
    });
    let durable = Mutex::new(vec![0; usize::try_from(THREADS).expect("few")]);
    std::thread::scope(|scope| {
        for (thread, place) in (0..THREADS).zip(0..) {
            let (store, durable) = (&store, &durable);
            scope.spawn(move || {
                let last = write(store, thread);
                durable.lock().expect("no panic under this lock")[place] = last;
            });
        }
    });
    drop(store);
    let durable = durable.into_inner().expect("no panic under this lock");
    for crash in 0..4 {
        check(&storage.crashed(seed * 10 + crash), &durable)
            .unwrap_or_else(|error| panic!("round {seed}, crash {crash}: {error}"));
        budget.add("crashes survived", 1);
    }
    budget.add("records acknowledged as durable", durable.iter().sum());
}

#[test]
fn loss_of_power_under_many_writers_loses_nothing_acknowledged() {
    let budget = budget::of("writers loss of power");
    let first = budget.seed() % 1_000_000;
    for seed in first.. {
        round(seed, &budget);
        if seed >= first + 40 && !budget.goes_on() {
            break;
        }
    }
}

/// A group is flushed while the next one gathers; both are acknowledged. Then one bit of the first is flipped: that is
/// damage, which the group behind it proves, and no torn tail.
#[test]
fn damage_before_the_last_group_is_told_although_that_gathered_while_the_one_before_was_flushed() {
    for in_line in [1, 20] {
        let storage = FaultyStorage::new();
        let options = || OpenOptions {
            host: Arc::new(TestHost::new(1)),
            ..options()
        };
        let store = Store::open_on(Arc::new(storage.clone()), options()).expect("a new store");
        let append = |thread, payload| {
            let records = vec![NewRecord::data(payload)];
            Batch::new(vec![Op::Append {
                stream: stream(thread),
                expected: Expected::Any,
                records,
            }])
        };
        store.commit(&append(0, b"before")).expect("it is open");
        let first = vec![0x5a; 2000];
        storage.hold(Call::WriteDurableAt);
        let commits: Vec<_> = std::thread::scope(|scope| {
            let writer = scope.spawn(|| store.commit(&append(1, &first)).expect("it is open"));
            storage.wait_held();
            let commits = (0..in_line)
                .map(|_| store.stage(&append(2, b"behind")).expect("it is open"))
                .collect();
            storage.release();
            writer.join().expect("no panic");
            commits
        });
        for commit in commits {
            commit.wait().expect("it is written");
        }
        let crashed = storage.crashed(0);
        let mut files = crashed.files();
        let active = files.get_mut("00000001.seg").expect("the first segment");
        let place = active
            .windows(100)
            .position(|bytes| bytes == [0x5a; 100])
            .expect("the payload")
            + 1000;
        active[place] ^= 1;
        let damaged = FaultyStorage::from_files(&files);
        let error =
            Store::open_on(Arc::new(damaged), options()).expect_err("what was durable is damaged");
        assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
    }
}
