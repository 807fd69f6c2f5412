//! Group commit and close, under schedulers that decide in which order threads run: nothing acknowledged is lost, every
//! commit gets its result, nobody waits for ever.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::{Duration, Instant},
};

use runlog_shuttle::{
    Batch, Commit, Durability, ErrorKind, Expected, Host, NewRecord, Op, OpenOptions, Position,
    ReadOptions, Sequence, Store, StreamId, storage::MemoryStorage,
};
use shuttle::{
    Config, Runner,
    scheduler::{PctScheduler, RandomScheduler},
    thread,
};

/// A clock that stands still, and randomness that is always the same.
#[derive(Default)]
struct StillHost(AtomicU64);

impl Host for StillHost {
    fn now_ms(&self) -> u64 {
        1_767_225_600_000
    }

    fn random(&self, bytes: &mut [u8]) {
        for byte in bytes {
            *byte = self.0.fetch_add(1, Ordering::Relaxed).to_le_bytes()[0];
        }
    }

    fn has_threads(&self) -> bool {
        true
    }
}

fn open(storage: &MemoryStorage) -> Store {
    let options = OpenOptions {
        segment_bytes_max: 64 << 10,
        ..OpenOptions::with_host(Arc::new(StillHost::default()))
    };
    Store::open_on(Arc::new(storage.clone()), options).expect("nobody has it")
}

fn stream(number: u8) -> StreamId {
    StreamId::from_bytes([number; 16])
}

fn batch(number: u8, payload: &[u8]) -> Batch<'_> {
    let records = vec![NewRecord::data(payload)];
    Batch::new(vec![Op::Append {
        stream: stream(number),
        expected: Expected::Any,
        records,
    }])
}

fn count(store: &Store, number: u8) -> usize {
    match store.read(stream(number), ReadOptions::default()) {
        Ok(records) => records.inspect(|record| assert!(record.is_ok())).count(),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
            0
        }
    }
}

fn poll(commit: &mut Commit) -> Poll<runlog_shuttle::Result<runlog_shuttle::Appended>> {
    std::pin::Pin::new(commit).poll(&mut Context::from_waker(Waker::noop()))
}

/// What a writer had acknowledged, and what it left in line.
#[derive(Default)]
struct Written {
    acknowledged: usize,
    in_line: Vec<Commit>,
}

/// Appends in every way there is, until it is done or refused. Payloads of `bytes` bytes.
fn write(store: &Store, number: u8, bytes: usize) -> Written {
    let mut written = Written::default();
    let payload = vec![number; bytes];
    for turn in 0..4 {
        let durability = if turn % 2 == 0 {
            Durability::Sync
        } else {
            Durability::Os
        };
        let batch = batch(number, &payload).with_durability(durability);
        let done = match (turn + usize::from(number)) % 4 {
            0 => store.commit(&batch).map(|_| written.acknowledged += 1),
            1 => store
                .stage(&batch)
                .and_then(Commit::wait)
                .map(|_| written.acknowledged += 1),
            2 => store.stage(&batch).map(|mut commit| {
                // Awaited once, and then left.
                match poll(&mut commit) {
                    Poll::Ready(result) => {
                        result.expect("memory doesn't fail");
                        written.acknowledged += 1;
                    }
                    Poll::Pending => written.in_line.push(commit),
                }
            }),
            _ => store
                .stage(&batch)
                .and_then(shuttle::future::block_on)
                .map(|_| written.acknowledged += 1),
        };
        match done {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Closed => break,
            Err(error) => panic!("{error}"),
        }
    }
    written
}

/// Two write, two close, and the first to have closed opens the store again and appends.
fn close_beside_writers(bytes: usize) {
    let storage = MemoryStorage::new();
    let store = open(&storage);
    store.commit(&batch(0, b"first")).expect("it is open");
    let writers: Vec<_> = (1..=2)
        .map(|number| {
            let store = store.clone();
            thread::spawn(move || write(&store, number, bytes))
        })
        .collect();
    let is_reopened = Arc::new(AtomicBool::new(false));
    let closers: Vec<_> = (0..2)
        .map(|_| {
            let (store, storage, is_reopened) =
                (store.clone(), storage.clone(), is_reopened.clone());
            thread::spawn(move || {
                store.close().expect("memory doesn't fail");
                if !is_reopened.swap(true, Ordering::SeqCst) {
                    let next = open(&storage);
                    next.commit(&batch(9, &vec![9; bytes])).expect("it is open");
                    next.close().expect("memory doesn't fail");
                }
            })
        })
        .collect();
    closers
        .into_iter()
        .for_each(|closer| closer.join().expect("no panic"));
    let mut written: Vec<_> = writers
        .into_iter()
        .map(|writer| writer.join().expect("no panic"))
        .collect();
    for written in &mut written {
        for mut commit in std::mem::take(&mut written.in_line) {
            match poll(&mut commit) {
                Poll::Ready(result) => {
                    drop(result.expect("what was in line is written before it is closed"))
                }
                Poll::Pending => panic!("a batch is in line for ever"),
            }
            written.acknowledged += 1;
        }
    }
    drop(store);
    let store = open(&storage);
    assert_eq!(count(&store, 9), 1, "of who opened it next");
    for (number, written) in (1..).zip(&written) {
        assert_eq!(
            count(&store, number),
            written.acknowledged,
            "stream {number}: there, and acknowledged"
        );
    }
    assert!(
        runlog_shuttle::verify(&storage)
            .expect("it reads")
            .is_sound()
    );
}

/// Three threads write to one stream, each expecting what it saw last, while another flushes.
fn writers_of_one_stream() {
    let storage = MemoryStorage::new();
    let store = open(&storage);
    let writers: Vec<_> = (0..3_u8)
        .map(|number| {
            let store = store.clone();
            thread::spawn(move || {
                let mut appended = 0;
                for turn in 0..3 {
                    let last = store
                        .stream(stream(0))
                        .expect("it reads")
                        .map_or(Sequence::ZERO, |s| s.last_sequence);
                    let durability =
                        [Durability::Sync, Durability::Os, Durability::Interval(5)][turn];
                    let records = vec![NewRecord::data(&[1; 40])];
                    let append = Op::Append {
                        stream: stream(0),
                        expected: Expected::Last(last),
                        records,
                    };
                    let batch = Batch::new(vec![append]).with_durability(durability);
                    let done = if number == 0 {
                        store.stage(&batch).and_then(shuttle::future::block_on)
                    } else {
                        store.commit(&batch)
                    };
                    match done {
                        Ok(done) => {
                            assert_eq!(done.ops[0].last_sequence, last.next());
                            appended += 1;
                        }
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
                    }
                }
                appended
            })
        })
        .collect();
    store.sync().expect("memory doesn't fail");
    let appended: usize = writers
        .into_iter()
        .map(|writer| writer.join().expect("no panic"))
        .sum();
    assert!(appended >= 3, "one of those that conflict goes on");
    drop(store);
    assert_eq!(count(&open(&storage), 0), appended);
}

struct Closer(Store);

impl Wake for Closer {
    fn wake(self: Arc<Self>) {
        self.0.close().expect("memory doesn't fail");
    }
}

/// Who is woken closes the store, on whichever thread that is, while another closes it too.
fn close_by_what_is_woken() {
    let storage = MemoryStorage::new();
    let store = open(&storage);
    let waker = Waker::from(Arc::new(Closer(store.clone())));
    let mut context = Context::from_waker(&waker);
    let mut commit = store.stage(&batch(1, b"in line")).expect("it is open");
    let mut subscription = store.subscribe(Position(20));
    // It may be closed already: the flusher thread wakes who waits for news.
    let _ = subscription.poll_next(&mut context);
    let _ = std::pin::Pin::new(&mut commit).poll(&mut context);
    let other = {
        let store = store.clone();
        thread::spawn(move || {
            let written = write(&store, 2, 100);
            store.close().expect("memory doesn't fail");
            written
        })
    };
    store.close().expect("memory doesn't fail");
    let mut written = other.join().expect("no panic");
    store.close().expect("memory doesn't fail");
    assert!(poll(&mut commit).is_ready());
    for commit in &mut written.in_line {
        assert!(poll(commit).is_ready());
    }
    let acknowledged = written.acknowledged + written.in_line.len();
    drop((commit, subscription, written, waker, store));
    let store = open(&storage);
    assert_eq!([count(&store, 1), count(&store, 2)], [1, acknowledged]);
}

fn config() -> Config {
    let mut config = Config::new();
    // The engine's frames are larger than what Shuttle has in mind.
    config.stack_size = 512 << 10;
    config
}

/// Runs under random schedules and under those of few preemptions, for a moment, or for as long as `RUNLOG_TORTURE` says.
fn check(name: &str, iterations: usize, scenario: fn()) {
    let torture = std::env::var("RUNLOG_TORTURE")
        .ok()
        .and_then(|seconds| seconds.parse().ok())
        .map(Duration::from_secs);
    let since = Instant::now();
    let seed = if torture.is_some() {
        u64::from(std::process::id())
    } else {
        20_260_101
    };
    let mut schedules = 0;
    for round in 0.. {
        let random = RandomScheduler::new_from_seed(seed + round, iterations);
        schedules += Runner::new(random, config()).run(scenario);
        let pct = PctScheduler::new_from_seed(seed + round, 3, iterations);
        schedules += Runner::new(pct, config()).run(scenario);
        if torture.is_none_or(|torture| since.elapsed() > torture) {
            break;
        }
    }
    println!("{name}: {schedules} schedules");
}

#[test]
fn close_beside_writers_loses_nothing_acknowledged() {
    check("close", 150, || close_beside_writers(100));
}

#[test]
fn close_beside_writers_that_turn_segments_loses_nothing_acknowledged() {
    check("close and segments", 60, || close_beside_writers(20_000));
}

#[test]
fn conflicting_writers_of_one_stream_are_told_the_truth() {
    check("one stream", 150, writers_of_one_stream);
}

#[test]
fn store_is_closed_by_what_it_wakes() {
    check("close by what is woken", 150, close_by_what_is_woken);
}

/// What these schedules are worth: a close that takes another look at nothing is found out.
#[test]
fn close_that_does_not_wait_for_what_is_under_way_is_found_out() {
    // In a process of its own, because the fault is one for all threads.
    const INSIDE: &str = "RUNLOG_SHUTTLE_FAULT";
    let name = "close_that_does_not_wait_for_what_is_under_way_is_found_out";
    if std::env::var_os(INSIDE).is_none() {
        let own = std::env::current_exe().unwrap();
        let output = std::process::Command::new(own)
            .args(["--exact", name, "--nocapture"])
            .env(INSIDE, "1")
            .output();
        let output = output.unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned()
            + &String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{told}");
        return;
    }
    runlog_shuttle::faults::close_early(true);
    let found = |scheduler: u64| {
        let run = || match scheduler {
            0 => Runner::new(RandomScheduler::new_from_seed(1, 2000), config())
                .run(|| close_beside_writers(100)),
            _ => Runner::new(PctScheduler::new_from_seed(1, 3, 2000), config())
                .run(|| close_beside_writers(100)),
        };
        let told = std::panic::catch_unwind(run).expect_err("it is found out");
        let told = told
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| told.downcast_ref().map(|told: &&str| (*told).to_owned()));
        told.unwrap_or_default()
    };
    for (scheduler, name) in [(0, "random schedules"), (1, "schedules of few preemptions")] {
        println!("found by {name}: {}", found(scheduler));
    }
}
