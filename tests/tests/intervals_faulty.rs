//! A batch of `Durability::Interval` is flushed when its time is over, whatever the store's own setting is, and whether
//! there are threads or not: a loss of power takes none that is older.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use runlog_engine::{
    Batch, Durability, ErrorKind, Expected, NewRecord, Op, OpenOptions, Position, ReadOptions,
    Store, StreamId,
};
use runlog_tests::{
    faulty::{Call, Failure, Fault, FaultyStorage, Lasting},
    host::TestHost,
    script::stream,
};

const STORES: [Durability; 3] = [
    Durability::Sync,
    Durability::Os,
    Durability::Interval(3_600_000),
];

/// Longer than anything takes; nothing is said of how long it takes.
const PATIENCE: Duration = Duration::from_secs(60);

fn open(storage: &FaultyStorage, durability: Durability, host: &TestHost) -> Store {
    let options = OpenOptions {
        durability,
        segment_bytes_max: 64 << 10,
        host: Arc::new(host.clone()),
        ..OpenOptions::default()
    };
    Store::open_on(Arc::new(storage.clone()), options).expect("a store")
}

fn append(store: &Store, stream: StreamId, durability: Durability) {
    let append = Op::Append {
        stream,
        expected: Expected::Any,
        records: vec![NewRecord::data(b"payload")],
    };
    store
        .commit(&Batch::new(vec![append]).with_durability(durability))
        .expect("it is open");
}

/// How many records a stream has after a loss of power now, at least.
fn survive(storage: &FaultyStorage, stream: StreamId) -> usize {
    let count = |seed| {
        let store = open(
            &storage.crashed(seed),
            Durability::Sync,
            &TestHost::new(seed),
        );
        store
            .read(stream, ReadOptions::default())
            .map_or(0, Iterator::count)
    };
    (0..12).map(count).min().expect("some")
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    assert!(happens(done), "{what}: not after {PATIENCE:?}");
}

fn happens(done: impl Fn() -> bool) -> bool {
    let since = Instant::now();
    while !done() {
        if since.elapsed() > PATIENCE {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

#[test]
fn batch_is_flushed_after_its_own_interval_whatever_the_store_says() {
    for durability in STORES {
        let storage = FaultyStorage::new();
        let store = open(&storage, durability, &TestHost::new(1).with_threads());
        append(&store, stream(1), Durability::Sync);
        append(&store, stream(2), Durability::Interval(3_600_000));
        append(&store, stream(1), Durability::Interval(5));
        wait_until("flushed", || survive(&storage, stream(1)) == 2);
        assert_eq!(survive(&storage, stream(2)), 1, "what was before it too");
        append(&store, stream(1), Durability::Interval(5));
        wait_until("flushed again", || survive(&storage, stream(1)) == 3);
    }
}

#[test]
fn batch_of_a_store_with_an_interval_is_flushed_after_it() {
    let storage = FaultyStorage::new();
    let store = open(
        &storage,
        Durability::Interval(5),
        &TestHost::new(1).with_threads(),
    );
    for count in 1..5 {
        append(&store, stream(1), Durability::Interval(5));
        wait_until("flushed", || survive(&storage, stream(1)) == count);
    }
    // One that is only written waits for another.
    append(&store, stream(1), Durability::Os);
    assert_eq!(store.stat().expect("it reads").last_position, Position(6));
}

#[test]
fn interval_is_kept_while_a_segment_is_made_ahead_of_need() {
    let storage = FaultyStorage::new();
    let store = open(&storage, Durability::Sync, &TestHost::new(1).with_threads());
    append(&store, stream(1), Durability::Sync);
    // The next segment is made from half a segment on, and that takes for ever here.
    storage.hold(Call::Allocate);
    let payload = vec![7; 40_000];
    store
        .append(stream(2), Expected::Any, &[NewRecord::data(&payload)])
        .expect("it is open");
    storage.wait_held();
    append(&store, stream(1), Durability::Interval(5));
    let is_flushed = happens(|| survive(&storage, stream(1)) == 2);
    storage.release();
    assert!(is_flushed, "not after {PATIENCE:?}");
    store.close().expect("it closes");
}

#[test]
fn many_writers_that_never_flush_do_not_keep_the_flush_waiting() {
    let storage = FaultyStorage::new();
    let store = open(&storage, Durability::Os, &TestHost::new(1).with_threads());
    append(&store, stream(9), Durability::Sync);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 1..=3 {
            let (store, stop) = (&store, &stop);
            scope.spawn(move || {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    append(store, stream(number), Durability::Os);
                }
            });
        }
        append(&store, stream(9), Durability::Interval(5));
        wait_until("flushed", || survive(&storage, stream(9)) == 2);
        for _ in 0..20 {
            store.sync().expect("it is open");
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

/// Something is asked of the store.
type Call1 = (&'static str, fn(&Store));

#[test]
fn without_threads_the_next_call_of_any_kind_flushes_what_is_due() {
    let calls: [Call1; 6] = [
        ("append", |store| append(store, stream(3), Durability::Os)),
        ("stage", |store| {
            let records = vec![NewRecord::data(b"staged")];
            let append = Op::Append {
                stream: stream(3),
                expected: Expected::Any,
                records,
            };
            drop(
                store
                    .stage(&Batch::new(vec![append]).with_durability(Durability::Os))
                    .expect("it is open"),
            );
        }),
        ("read", |store| {
            drop(
                store
                    .read(stream(1), ReadOptions::default())
                    .expect("it reads"),
            )
        }),
        ("stream", |store| {
            assert!(store.stream(stream(1)).expect("it reads").is_some())
        }),
        ("poll", |store| {
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(store.poll_past(Position(1000), &mut context).is_pending());
        }),
        ("subscription", |store| {
            let mut subscription = store.subscribe(Position(1000));
            assert!(
                subscription
                    .next_timeout(Duration::ZERO)
                    .expect("it reads")
                    .is_none()
            );
        }),
    ];
    for durability in STORES {
        for (name, call) in calls {
            let host = TestHost::new(1);
            let storage = FaultyStorage::new();
            let store = open(&storage, durability, &host);
            append(&store, stream(1), Durability::Sync);
            append(&store, stream(1), Durability::Interval(1000));
            host.pass_ms(900);
            append(&store, stream(1), Durability::Interval(5000));
            call(&store);
            assert!(
                survive(&storage, stream(1)) < 3,
                "{durability:?}, {name}: flushed too early"
            );
            host.pass_ms(100);
            call(&store);
            assert_eq!(survive(&storage, stream(1)), 3, "{durability:?}, {name}");
            // Nothing is due any more, and later batches have their own time.
            append(&store, stream(1), Durability::Interval(1000));
            call(&store);
            assert!(
                survive(&storage, stream(1)) < 4,
                "{durability:?}, {name}: flushed too early"
            );
            // A clock that was turned back tells nothing, and waiting longer would be too long.
            host.turn_back_ms(50_000);
            call(&store);
            assert_eq!(
                survive(&storage, stream(1)),
                4,
                "{durability:?}, {name}: the clock was turned back"
            );
        }
    }
}

#[test]
fn flush_of_an_interval_that_fails_poisons() {
    let storage = FaultyStorage::new();
    let store = open(&storage, Durability::Sync, &TestHost::new(1).with_threads());
    append(&store, stream(1), Durability::Sync);
    storage.arm(Fault {
        after: 2,
        failure: Failure::Io,
        lasting: Lasting::ForGood,
    });
    // The first two operations are its write and the watermark's.
    append(&store, stream(1), Durability::Interval(5));
    wait_until("failed", || {
        storage.hit().is_some_and(|hit| hit.call == Call::Sync)
    });
    wait_until("poisoned", || {
        let refused = store
            .append(stream(1), Expected::Any, &[NewRecord::data(b"x")])
            .expect_err("a flush failed");
        refused.kind() == ErrorKind::Poisoned
    });
}
