//! Readers beside a writer: while one thread appends with labels, forks, truncates, deletes, redacts and turns segments, and
//! another compacts, others ask everything that can be asked, by the writer's handle and by one as another process has it.
//! What is written is decided before, so each answer is held against what the store was between question and answer.

use std::{
    ops::ControlFlow,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use runlog_engine::{
    Codec, CompactOptions, CompactScope, Durability, ErrorKind, FindOptions, Label, OpenOptions,
    Position, Preallocation, ReadOptions, Record, RecordRef, Result, Sequence, Snapshot, Store,
    StreamId, StreamInfo,
    storage::{FsStorage, Storage},
};
use runlog_tests::{
    beside::{
        Follower, Handle, History, Looker, Progress, Reads, Records, Shape, Stalls, stalling,
    },
    budget::{self, Budget},
    compare::{Same, same},
    faulty::FaultyStorage,
    host::TestHost,
};

/// Who waits for news waits so long at most: then it was never woken.
const NEWS_MAX: Duration = Duration::from_secs(120);

/// How many batches are worth a compaction.
const COMPACTED_EACH: u64 = 8;

/// Records that are shown in passing are collected first.
fn shown(
    show: impl FnOnce(&mut dyn FnMut(Result<RecordRef<'_>>) -> ControlFlow<()>),
) -> Result<Records> {
    let mut records = Vec::new();
    show(&mut |record| {
        records.push(record.map(|record| record.to_record()));
        ControlFlow::Continue(())
    });
    Ok(Box::new(records.into_iter()))
}

struct Asked(Store);

impl Reads for Asked {
    fn read(&self, stream: StreamId, options: ReadOptions) -> Result<Records> {
        Ok(Box::new(self.0.read(stream, options)?))
    }

    fn read_shown(&self, stream: StreamId, options: ReadOptions) -> Result<Records> {
        let mut reader = self.0.read(stream, options)?;
        shown(|see| reader.for_each_ref(see))
    }

    fn find(&self, label: Label, options: FindOptions) -> Result<Records> {
        Ok(Box::new(self.0.find(label, options)?))
    }

    fn scan(&self, first: Position) -> Result<Records> {
        Ok(Box::new(self.0.scan(first)?))
    }

    fn scan_shown(&self, first: Position) -> Result<Records> {
        let mut reader = self.0.scan(first)?;
        shown(|see| reader.for_each_ref(see))
    }

    fn record(&self, position: Position) -> Result<Option<Record>> {
        self.0.record(position)
    }

    fn stream(&self, stream: StreamId) -> Result<Option<StreamInfo>> {
        self.0.stream(stream)
    }

    fn streams(&self) -> Result<Vec<StreamInfo>> {
        self.0.streams()
    }

    fn last_position(&self) -> Result<Position> {
        self.0.last_position()
    }

    fn latest_snapshot(
        &self,
        stream: StreamId,
        at_or_before: Sequence,
    ) -> Result<Option<Snapshot>> {
        self.0.latest_snapshot(stream, at_or_before)
    }
}

/// Where a history is written, and who is at it.
struct Scene<'h> {
    history: &'h History,
    progress: Arc<Progress>,
    storage: Stalls,
    options: OpenOptions,
    is_over: AtomicBool,
    /// How often the readers have looked.
    looks: AtomicU64,
    readers: AtomicUsize,
    wrong: Mutex<Vec<String>>,
    given: AtomicU64,
    compactions: AtomicU64,
}

impl Scene<'_> {
    fn reader(&self) -> Store {
        let storage = Arc::new(self.storage.clone());
        Store::open_on(storage, self.options.clone().read_only()).expect("a sound store opens")
    }

    /// Does a thread's work; the first that finds something wrong ends all, and wakes who waits for news.
    fn run(&self, store: &Store, work: impl FnOnce() -> Same) {
        if let Err(wrong) = work()
            && !self.is_over.swap(true, Ordering::SeqCst)
        {
            let mut all = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
            all.push(wrong);
            drop(all);
            let _ = store.close();
        }
    }

    /// Whether there were as many compactions as so many batches are worth.
    fn is_compacted(&self, batches: usize) -> bool {
        self.compactions.load(Ordering::SeqCst) * COMPACTED_EACH > batches as u64
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Writes all, no faster than is looked at it and compacted.
    fn write(&self, store: &Store, looks_each: u64) -> Same {
        for group in &self.history.groups {
            let mut staged = Vec::new();
            for nth in group.clone() {
                let work = &self.history.works[nth];
                self.progress.begin(nth + 1);
                let found = if group.len() == 1 {
                    store.commit(&work.batch())
                } else {
                    store.stage(&work.batch()).map(|commit| {
                        let appended = commit.appended().clone();
                        staged.push((nth, commit));
                        appended
                    })
                };
                same(
                    format_args!("outcome of {work:?}"),
                    &found.map_err(|error| error.kind()),
                    &self.history.expected[nth],
                )?;
            }
            for (nth, commit) in staged {
                commit.wait().map_err(|error| format!("waiting: {error}"))?;
                self.progress.acknowledge(nth + 1);
            }
            self.progress.acknowledge(group.end);
            let wanted = group.end as u64 * looks_each;
            while self.looks.load(Ordering::SeqCst) < wanted
                && self.readers.load(Ordering::SeqCst) > 0
                && !self.storage.is_stalled_long()
                && !self.is_over()
            {
                thread::yield_now();
            }
            while !self.is_compacted(group.end.saturating_sub(4))
                && !self.storage.is_stalled_long()
                && !self.is_over()
            {
                thread::yield_now();
            }
            if self.is_over() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn look(&self, store: Store, handle: Handle, seed: u64) -> Same {
        stalling(if handle == Handle::Writer { 40 } else { 20 });
        let mut looker = Looker::new(Asked(store), handle, self.history, &self.progress, seed);
        let done = loop {
            if self.is_over() {
                break looker.finish();
            }
            if self.progress.acknowledged() == self.history.last_version() {
                break looker.look_at_all();
            }
            let looked = looker.look();
            self.looks.fetch_add(1, Ordering::SeqCst);
            if looked.is_err() {
                break looked;
            }
        };
        self.readers.fetch_sub(1, Ordering::SeqCst);
        self.given.fetch_add(looker.given, Ordering::SeqCst);
        done
    }

    fn follow(&self, store: &Store, waits: Duration) -> Same {
        // One that doesn't wait looks often.
        stalling(if waits.is_zero() { 8 } else { 100 });
        let mut subscription = store.subscribe(Position::FIRST);
        let mut follower = Follower::new(self.history, &self.progress);
        while !follower.is_done() && !self.is_over() {
            let mut is_woken = true;
            follower.follow(|| {
                let next = subscription.next_timeout(waits);
                is_woken = waits.is_zero() || !matches!(next, Ok(None));
                next
            })?;
            if !is_woken {
                return Err("a thread that waits for news is never woken".to_owned());
            }
        }
        Ok(())
    }

    /// As a task that is woken.
    fn await_records(&self, store: &Store) -> Same {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .map_err(|error| error.to_string())?;
        let mut subscription = store.subscribe(Position::FIRST);
        let mut follower = Follower::new(self.history, &self.progress);
        while !follower.is_done() && !self.is_over() {
            let mut is_woken = true;
            follower.follow(|| {
                let next = std::future::poll_fn(|context| subscription.poll_next(context));
                let next = runtime.block_on(async { tokio::time::timeout(NEWS_MAX, next).await });
                is_woken = next.is_ok();
                next.ok().transpose()
            })?;
            if !is_woken {
                return Err("a task that waits for news is never woken".to_owned());
            }
        }
        Ok(())
    }

    fn compact(&self, store: &Store) -> Same {
        stalling(200);
        for nth in 0.. {
            let options = CompactOptions {
                scope: [
                    CompactScope::Sealed,
                    CompactScope::Dead,
                    CompactScope::All,
                    CompactScope::Sparse,
                ][nth % 4],
                codec: [Codec::Lz4, Codec::Zstd, Codec::Plain][nth % 3],
                dry_run: false,
                bytes_per_second: None,
            };
            store
                .compact(options)
                .map_err(|error| format!("compaction: {:?}: {error}", error.kind()))?;
            self.compactions.fetch_add(1, Ordering::SeqCst);
            while self.is_compacted(self.progress.acknowledged()) {
                if self.is_over() || self.progress.acknowledged() == self.history.last_version() {
                    return Ok(());
                }
                thread::yield_now();
            }
        }
        Ok(())
    }
}

/// How a history is written.
#[derive(Clone, Copy, Debug)]
struct Manner {
    durability: Durability,
    segment_bytes_max: u64,
    looks_each: u64,
}

fn write_beside_readers(
    storage: Arc<dyn Storage>,
    shape: Shape,
    manner: Manner,
    seed: u64,
    budget: &Budget,
) {
    let history = History::new(shape, seed);
    let progress = Arc::new(Progress::default());
    // In one half of the histories the writer keeps step with those who look, in the other it leaves them behind.
    let long_each = if seed.is_multiple_of(2) { 0 } else { 12 };
    let storage = Stalls::new(storage, progress.clone(), history.last_version(), long_each);
    let options = OpenOptions {
        durability: manner.durability,
        segment_bytes_max: manner.segment_bytes_max,
        preallocation: Preallocation::None,
        ..OpenOptions::with_host(Arc::new(TestHost::new(seed).with_threads()))
    };
    let store = Store::open_on(Arc::new(storage.clone()), options.clone()).expect("a new store");
    let scene = Scene {
        history: &history,
        progress,
        storage,
        options,
        is_over: AtomicBool::new(false),
        looks: AtomicU64::new(0),
        readers: AtomicUsize::new(4),
        wrong: Mutex::default(),
        given: AtomicU64::new(0),
        compactions: AtomicU64::new(0),
    };
    let (scene, own) = (&scene, &store);
    // Threads of another process share one too.
    let other = &scene.reader();
    thread::scope(|scope| {
        for nth in 1..=4 {
            scope.spawn(move || {
                let (store, handle) = match nth % 2 {
                    0 => (own, Handle::Writer),
                    _ => (other, Handle::ReadOnly),
                };
                scene.run(own, || scene.look(store.clone(), handle, seed ^ nth));
            });
        }
        scope.spawn(|| scene.run(own, || scene.follow(own, NEWS_MAX)));
        scope.spawn(|| scene.run(own, || scene.follow(&scene.reader(), Duration::ZERO)));
        scope.spawn(|| scene.run(own, || scene.await_records(own)));
        scope.spawn(|| scene.run(own, || scene.compact(own)));
        scene.run(own, || scene.write(own, manner.looks_each));
    });
    let wrong = scene.wrong.lock().unwrap_or_else(PoisonError::into_inner);
    let told: Vec<_> = wrong
        .iter()
        .map(|told| told.chars().take(4000).collect::<String>())
        .collect();
    assert!(
        told.is_empty(),
        "seed {seed}, {shape:?}, {manner:?}:\n{}",
        told.join("\n")
    );
    let count = |of: &AtomicU64| of.load(Ordering::SeqCst);
    budget.add("batches", history.last_version() as u64);
    budget.add("looks", count(&scene.looks));
    budget.add("records given", count(&scene.given));
    budget.add("compactions", count(&scene.compactions));
    drop(wrong);
    store.close().expect("nothing fails");
    let again = Store::open_on(Arc::new(scene.storage.clone()), scene.options.clone());
    let again = again.expect("it was closed");
    let mut looker = Looker::new(
        Asked(again.clone()),
        Handle::Writer,
        &history,
        &scene.progress,
        seed,
    );
    looker
        .look_at_all()
        .expect("what it was before it was closed");
    assert!(again.verify().expect("it reads").is_sound());
    assert_eq!(
        again.close().map_err(|error| error.kind()),
        Ok::<(), ErrorKind>(())
    );
}

fn check(
    name: &str,
    histories: u64,
    shape: Shape,
    manner: Manner,
    storage: impl Fn() -> Arc<dyn Storage>,
) {
    let budget = budget::of(name);
    loop {
        let seed = budget.seed();
        for nth in 0..histories {
            write_beside_readers(storage(), shape, manner, seed + nth, &budget);
        }
        if !budget.goes_on() {
            break;
        }
    }
}

/// Segments turn every few batches.
const TURNING: Shape = Shape {
    works: 250,
    streams: 8,
    records_max: 5,
    payload_bytes_max: 3000,
    other_than_append: 3,
};

/// Segments have more records than are looked up at a time.
const MANY: Shape = Shape {
    works: 80,
    streams: 4,
    records_max: 100,
    payload_bytes_max: 12,
    other_than_append: 5,
};

#[test]
fn readers_beside_a_writer_that_turns_segments_see_what_was_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let stores = AtomicU64::new(0);
    let manner = Manner {
        durability: Durability::Os,
        segment_bytes_max: 64 << 10,
        looks_each: 6,
    };
    check("beside, in a folder", 14, TURNING, manner, || {
        let name = stores.fetch_add(1, Ordering::Relaxed).to_string();
        Arc::new(FsStorage::new(folder.path().join(name)))
    });
}

#[test]
fn readers_beside_a_writer_see_what_was_there_without_maps() {
    let manner = Manner {
        durability: Durability::Sync,
        segment_bytes_max: 64 << 10,
        looks_each: 6,
    };
    check("beside, without maps", 14, TURNING, manner, || {
        Arc::new(FaultyStorage::new())
    });
}

#[test]
fn readers_beside_a_writer_of_many_small_records_see_what_was_there() {
    let manner = Manner {
        durability: Durability::Os,
        segment_bytes_max: 512 << 10,
        looks_each: 5,
    };
    check("beside, many", 4, MANY, manner, || {
        Arc::new(FaultyStorage::new())
    });
}
