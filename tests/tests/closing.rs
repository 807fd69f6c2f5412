//! A store is closed while others write to it, by several at once, from within what it wakes, or after a failed write:
//! whatever was acknowledged is there when it is opened again, nothing is acknowledged that the next writer doesn't see,
//! and nobody waits for ever.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::{
    sync::{
        Arc, Barrier, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use runlog_engine::{
    Batch, Commit, Durability, ErrorKind, Expected, NewRecord, Op, OpenOptions, Position,
    ReadOptions, Sequence, Store,
    storage::{FsStorage, MemoryStorage, Storage},
};
use runlog_tests::{
    budget::{self, Budget},
    faulty::{Call, Failure, Fault, FaultyStorage, Lasting},
    processes::{payload, stream},
    random::Random,
};

const THREADS: u64 = 8;
/// The stream of who opens the store next.
const NEXT: u64 = 1000;

fn options() -> OpenOptions {
    OpenOptions {
        segment_bytes_max: 1 << 20,
        ..OpenOptions::default()
    }
}

fn batch(thread: u64, sequence: u64, payload: &[u8]) -> Batch<'_> {
    Batch::new(vec![Op::Append {
        stream: stream(thread),
        expected: Expected::Last(Sequence(sequence - 1)),
        records: vec![NewRecord::data(payload)],
    }])
}

/// What a thread came to.
#[derive(Default)]
struct Written {
    /// Up to this sequence all was acknowledged.
    acknowledged: u64,
    /// How many appends that began after the store was closed were acknowledged.
    late: u64,
    /// Batches put in line when the store was about to be closed, and their sequences.
    in_line: Vec<(u64, Commit)>,
}

/// Appends until the store refuses.
fn write(store: &Store, thread: u64, closed: &AtomicBool) -> Written {
    let mut written = Written::default();
    for sequence in 1.. {
        let payload = payload(thread, sequence);
        let batch = batch(thread, sequence, &payload);
        let is_late = closed.load(Ordering::SeqCst);
        // Some are put in line, and some of those are waited for only after all is over.
        let done = match (sequence + thread) % 5 {
            0 => store
                .stage(&batch)
                .and_then(|commit| commit.wait())
                .map(Some),
            1 => store.stage(&batch).map(|commit| {
                written.in_line.push((sequence, commit));
                None
            }),
            _ => store.commit(&batch).map(Some),
        };
        match done {
            Ok(acknowledged) => {
                if acknowledged.is_some() {
                    written.acknowledged = sequence;
                }
                written.late += u64::from(is_late);
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
                break;
            }
        }
    }
    written
}

/// Eight threads write, `closers` close, and the store is opened by another handle the moment the first has returned.
fn round(storage: &Arc<dyn Storage>, seed: u64, closers: u64, budget: &Budget) {
    let mut random = Random::new(seed);
    let store = Store::open_on(storage.clone(), options()).expect("a new store");
    let closed = AtomicBool::new(false);
    let written = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (store, closed, written) = (&store, &closed, &written);
            scope.spawn(move || {
                let result = write(store, thread, closed);
                written
                    .lock()
                    .expect("no panic under this lock")
                    .push((thread, result));
            });
        }
        std::thread::sleep(Duration::from_micros(200 + random.below(3000)));
        for closer in 0..closers {
            let (store, closed) = (&store, &closed);
            scope.spawn(move || {
                store.close().expect("it closes");
                closed.store(true, Ordering::SeqCst);
                if closer == 0 {
                    let next = Store::open_on(storage.clone(), options()).expect("it was closed");
                    let payload = payload(NEXT, 1);
                    next.commit(&batch(NEXT, 1, &payload)).expect("it is open");
                    next.close().expect("it closes");
                }
            });
        }
    });
    let mut written = written.into_inner().expect("no panic under this lock");
    for (thread, written) in &mut written {
        assert_eq!(
            written.late, 0,
            "round {seed}: thread {thread} was acknowledged after the close"
        );
        for (sequence, commit) in std::mem::take(&mut written.in_line) {
            match poll(commit) {
                Poll::Ready(Ok(_)) => written.acknowledged = written.acknowledged.max(sequence),
                Poll::Ready(Err(error)) => {
                    panic!("round {seed}: thread {thread}, {sequence}: {error}")
                }
                Poll::Pending => {
                    panic!("round {seed}: thread {thread}: batch {sequence} is still in line")
                }
            }
        }
    }
    drop(store);
    written.push((
        NEXT,
        Written {
            acknowledged: 1,
            ..Written::default()
        },
    ));
    let store = Store::open_on(storage.clone(), options()).expect("it opens");
    let mut acknowledged = 0;
    for (thread, written) in &written {
        let found = store
            .read(stream(*thread), ReadOptions::default())
            .map(Iterator::collect::<Result<Vec<_>, _>>);
        let found = match found {
            Ok(records) => records.expect("it reads"),
            Err(_) => Vec::new(),
        };
        let count = found.len() as u64;
        assert_eq!(
            count, written.acknowledged,
            "round {seed}: thread {thread}: acknowledged, and there"
        );
        let sound = found
            .iter()
            .all(|record| record.payload == payload(*thread, record.sequence.0));
        assert!(sound, "round {seed}: thread {thread}: another payload");
        acknowledged += count;
    }
    assert!(
        runlog_engine::verify(&**storage)
            .expect("it reads")
            .is_sound()
    );
    budget.add("records acknowledged", acknowledged);
    budget.add("rounds", 1);
}

fn poll(commit: Commit) -> Poll<runlog_engine::Result<runlog_engine::Appended>> {
    let commit = std::pin::pin!(commit);
    commit.poll(&mut Context::from_waker(Waker::noop()))
}

fn rounds(
    name: &str,
    count: u64,
    storage: impl Fn() -> (Arc<dyn Storage>, Option<tempfile::TempDir>),
) {
    let budget = budget::of(name);
    let first = budget.seed() % 1_000_000;
    for seed in first.. {
        let (storage, folder) = storage();
        round(&storage, seed, 1 + seed % 3, &budget);
        drop(folder);
        if seed + 1 >= first + count && !budget.goes_on() {
            break;
        }
    }
}

#[test]
fn closing_beside_writers_loses_nothing_acknowledged_on_files() {
    rounds("closing on files", 60, || {
        let folder = tempfile::tempdir().expect("a folder");
        (
            Arc::new(FsStorage::new(folder.path().join("store"))),
            Some(folder),
        )
    });
}

#[test]
fn closing_beside_writers_loses_nothing_acknowledged_in_memory() {
    rounds("closing in memory", 60, || {
        (Arc::new(MemoryStorage::new()), None)
    });
}

#[test]
fn closing_beside_writers_loses_nothing_acknowledged_on_the_model() {
    rounds("closing on the model", 30, || {
        (Arc::new(FaultyStorage::new()), None)
    });
}

#[test]
fn threads_that_close_at_once_all_return_when_it_is_closed_and_without_an_error() {
    for seed in 0..200 {
        let storage = FaultyStorage::new();
        let store = Store::open_on(Arc::new(storage.clone()), options()).unwrap();
        let payload = payload(0, 1);
        store.commit(&batch(0, 1, &payload)).unwrap();
        let barrier = Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    barrier.wait();
                    store
                        .close()
                        .unwrap_or_else(|error| panic!("round {seed}: {error}"));
                    // Nobody is told that it is closed before it is.
                    let files = storage.files();
                    assert!(files.contains_key("CHECKPOINT"), "round {seed}");
                    assert!(
                        files["00000001.seg"].len() < 64 << 10,
                        "round {seed}: its room was not given back"
                    );
                });
            }
        });
        assert!(
            Store::open_on(Arc::new(storage), options())
                .unwrap()
                .recovery()
                .clean
        );
    }
}

/// Closes the store when it is woken, and counts it.
struct Closer {
    store: Store,
    closed: Mutex<Vec<runlog_engine::Result<()>>>,
}

impl Wake for Closer {
    fn wake(self: Arc<Self>) {
        let result = self.store.close();
        self.closed.lock().unwrap().push(result);
    }
}

#[test]
fn store_is_closed_by_what_it_wakes_on_whichever_thread_that_is() {
    for round in 0..40_u64 {
        let storage: Arc<dyn Storage> = Arc::new(FaultyStorage::new());
        let store = Store::open_on(storage.clone(), options()).unwrap();
        let closer = Arc::new(Closer {
            store: store.clone(),
            closed: Mutex::default(),
        });
        let waker = Waker::from(closer.clone());
        let mut context = Context::from_waker(&waker);
        let payload = payload(0, 1);
        let mut commit = Box::pin(store.stage(&batch(0, 1, &payload)).unwrap());
        // The flusher may have been faster.
        let is_pending = commit.as_mut().poll(&mut context).is_pending();
        if round.is_multiple_of(2) {
            // Ready only if what the commit woke has closed the store already.
            let _ = store.poll_past(Position(50), &mut context);
        }
        if !round.is_multiple_of(3) {
            store.close().unwrap();
        } else if is_pending {
            while closer.closed.lock().unwrap().is_empty() {
                std::thread::yield_now();
            }
        }
        store.close().unwrap();
        assert!(
            commit.as_mut().poll(&mut context).is_ready(),
            "round {round}"
        );
        drop(commit);
        let next = Store::open_on(storage, options()).unwrap();
        assert_eq!(
            next.read(stream(0), ReadOptions::default())
                .unwrap()
                .count(),
            1
        );
    }
}

#[test]
fn store_whose_writer_was_poisoned_is_closed_and_says_so_once() {
    for (call, lasting) in [
        (Call::WriteDurableAt, Lasting::Once),
        (Call::Sync, Lasting::ForGood),
    ] {
        let storage = FaultyStorage::new();
        let store = Store::open_on(Arc::new(storage.clone()), options()).unwrap();
        let payload = [payload(0, 1), payload(0, 2), payload(0, 3)];
        store.commit(&batch(0, 1, &payload[0])).unwrap();
        let trace = storage.take_trace();
        assert!(!trace.is_empty());
        let in_line = if call == Call::Sync {
            let written = batch(0, 2, &payload[1]).with_durability(Durability::Os);
            store.commit(&written).unwrap();
            storage.arm(Fault {
                after: 0,
                failure: Failure::Io,
                lasting,
            });
            store.sync().unwrap_err();
            None
        } else {
            // It is held in its write until another is in line behind it; then the write fails.
            storage.hold(call);
            let first = store.clone();
            let (batch_2, batch_3) = (batch(0, 2, &payload[1]), batch(0, 3, &payload[2]));
            Some(std::thread::scope(|scope| {
                let failed = scope.spawn(move || first.commit(&batch_2).unwrap_err().kind());
                storage.wait_held();
                let in_line = store.stage(&batch_3).unwrap();
                storage.arm(Fault {
                    after: 0,
                    failure: Failure::Io,
                    lasting,
                });
                storage.release();
                assert_eq!(failed.join().unwrap(), ErrorKind::OutcomeUnknown);
                in_line
            }))
        };
        assert_eq!(store.close().unwrap_err().kind(), ErrorKind::Poisoned);
        store.close().unwrap();
        if let Some(in_line) = in_line {
            let Poll::Ready(Err(error)) = poll(in_line) else {
                panic!("it is still in line")
            };
            assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
        }
        storage.arm(None);
        assert_eq!(
            store.commit(&batch(0, 9, &payload[0])).unwrap_err().kind(),
            ErrorKind::Closed
        );
        Store::open_on(Arc::new(storage), options()).unwrap();
    }
}

#[test]
fn file_that_can_not_be_cut_when_the_store_is_closed_is_told() {
    let mut told = 0;
    for after in 0.. {
        let storage = FaultyStorage::new();
        let store = Store::open_on(Arc::new(storage.clone()), options()).unwrap();
        let payload = payload(0, 1);
        store.commit(&batch(0, 1, &payload)).unwrap();
        storage.take_trace();
        storage.arm(Fault {
            after,
            failure: Failure::Io,
            lasting: Lasting::Once,
        });
        let closed = store.close();
        let hit = storage.hit();
        storage.arm(None);
        let Some(hit) = hit else { break };
        if hit.name.starts_with("00000001.seg") {
            assert_eq!(
                closed.expect_err("a segment's file").kind(),
                ErrorKind::Io,
                "{hit:?}"
            );
            told += 1;
        }
        store.close().unwrap();
        let next = Store::open_on(Arc::new(storage), options()).unwrap();
        assert_eq!(
            next.read(stream(0), ReadOptions::default())
                .unwrap()
                .count(),
            1,
            "{hit:?}"
        );
    }
    assert!(told >= 2, "its length is changed, and flushed");
}

#[test]
fn staged_batches_nobody_waits_for_are_written_when_the_last_handle_is_dropped() {
    let storage: Arc<dyn Storage> = Arc::new(FaultyStorage::new());
    for round in 0..20 {
        let store = Store::open_on(storage.clone(), options()).unwrap();
        for sequence in 1..=5 {
            let payload = payload(round, sequence);
            drop(store.stage(&batch(round, sequence, &payload)).unwrap());
        }
        drop(store);
        let store = Store::open_on(storage.clone(), options()).unwrap();
        assert_eq!(
            store
                .read(stream(round), ReadOptions::default())
                .unwrap()
                .count(),
            5
        );
    }
}

#[test]
fn subscription_of_a_closed_store_ends_after_the_rest_was_read() {
    let store = Store::open_on(Arc::new(MemoryStorage::new()), options()).unwrap();
    let payload = payload(0, 1);
    let mut subscription = store.subscribe(Position::FIRST);
    let mut context = Context::from_waker(Waker::noop());
    assert!(subscription.poll_next(&mut context).is_pending());
    store.commit(&batch(0, 1, &payload)).unwrap();
    store.close().unwrap();
    // The record of the stream's creation, and its own.
    for position in 1..=2 {
        let Poll::Ready(Ok(record)) = subscription.poll_next(&mut context) else {
            panic!("it was acknowledged")
        };
        assert_eq!(record.position, Position(position));
    }
    for _ in 0..2 {
        let Poll::Ready(Err(error)) = subscription.poll_next(&mut context) else {
            panic!("the store is closed")
        };
        assert_eq!(error.kind(), ErrorKind::Closed);
    }
    assert!(matches!(
        store.poll_past(Position(1), &mut context),
        Poll::Ready(Ok(Position(2)))
    ));
}
