//! Readers beside a writer and a compaction, under schedulers that decide which thread goes on at each lock: what is read is
//! what was there at some time between the question and the answer.
//!
//! The histories and what is asked are those of tests/tests/beside.rs, where threads of the system run, and readers are held up
//! where they read a file. Here they are also held up between two locks.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::{
    ops::ControlFlow,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use runlog_shuttle::{
    Codec, CompactOptions, CompactScope, Durability, FindOptions, Host, Label, OpenOptions,
    Position, ReadOptions, Record, RecordRef, Result, Sequence, Snapshot, Store, StreamId,
    StreamInfo, storage::MemoryStorage,
};
use runlog_tests::beside::{Follower, Handle, History, Looker, Progress, Reads, Records, Shape};
use shuttle::{
    Config, Runner,
    scheduler::{PctScheduler, RandomScheduler},
    thread,
};

/// How many histories there are.
const HISTORIES: u64 = 8;
/// How often a reader looks at most.
const LOOKS_MAX: u64 = 150;
/// How many compactions there are.
const COMPACTIONS: usize = 4;

const SHAPE: Shape = Shape {
    works: 12,
    streams: 4,
    records_max: 4,
    payload_bytes_max: 12_000,
    other_than_append: 3,
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

struct Asked(Store);

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

/// Each schedule takes another history and asks other things.
fn read_beside_a_writer() {
    static HISTORY: OnceLock<Vec<History>> = OnceLock::new();
    static NTH: AtomicU64 = AtomicU64::new(0);
    let histories =
        HISTORY.get_or_init(|| (0..HISTORIES).map(|it| History::new(SHAPE, it)).collect());
    let nth = NTH.fetch_add(1, Ordering::Relaxed);
    let history = &histories[usize::try_from(nth % HISTORIES).unwrap()];
    let progress = Progress::default();
    let storage = MemoryStorage::new();
    let options = OpenOptions {
        segment_bytes_max: 64 << 10,
        durability: Durability::Os,
        ..OpenOptions::with_host(Arc::new(StillHost::default()))
    };
    let store = Store::open_on(Arc::new(storage.clone()), options.clone()).unwrap();
    let reader = Store::open_on(Arc::new(storage.clone()), options.read_only()).unwrap();
    let (progress, store) = (&progress, &store);
    let at_work = &AtomicU64::new(2);
    let look = |store: Store, handle: Handle, seed: u64| {
        let mut looker = Looker::new(Asked(store), handle, history, progress, seed);
        for _ in 0..LOOKS_MAX {
            if at_work.load(Ordering::SeqCst) == 0 {
                break;
            }
            thread::yield_now();
            looker
                .look()
                .unwrap_or_else(|wrong| panic!("history {nth}: {wrong}"));
        }
        looker
            .finish()
            .unwrap_or_else(|wrong| panic!("history {nth}: {wrong}"));
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            for (version, work) in (1..).zip(&history.works) {
                progress.begin(version);
                let found = store.commit(&work.batch()).map_err(|error| error.kind());
                assert_eq!(found, history.expected[version - 1]);
                progress.acknowledge(version);
            }
            at_work.fetch_sub(1, Ordering::SeqCst);
        });
        scope.spawn(|| look(store.clone(), Handle::Writer, 2 * nth));
        if nth.is_multiple_of(2) {
            scope.spawn(|| look(reader, Handle::ReadOnly, 2 * nth + 1));
        } else {
            scope.spawn(|| {
                let mut subscription = store.subscribe(Position::FIRST);
                let mut follower = Follower::new(history, progress);
                for _ in 0..LOOKS_MAX {
                    thread::yield_now();
                    let follow = || subscription.next_timeout(Duration::ZERO);
                    follower
                        .follow(follow)
                        .unwrap_or_else(|wrong| panic!("history {nth}: {wrong}"));
                }
            });
        }
        scope.spawn(|| {
            for nth in 1..=COMPACTIONS {
                // Each has something to compact, if the writer comes that far meanwhile.
                let begun = nth * history.last_version() / COMPACTIONS;
                for _ in 0..100 {
                    if progress.acknowledged() < begun {
                        thread::yield_now();
                    }
                }
                let options = CompactOptions {
                    scope: CompactScope::All,
                    codec: Codec::Plain,
                    dry_run: false,
                    bytes_per_second: None,
                };
                store.compact(options).unwrap();
            }
            at_work.fetch_sub(1, Ordering::SeqCst);
        });
    });
    store.close().unwrap();
}

fn config() -> Config {
    let mut config = Config::new();
    // The engine's frames are larger than what Shuttle has in mind.
    config.stack_size = 1 << 20;
    config
}

#[test]
fn readers_beside_a_writer_see_what_was_there_whatever_the_schedule() {
    const SCHEDULES: usize = 150;
    let torture = std::env::var("RUNLOG_TORTURE")
        .ok()
        .and_then(|seconds| seconds.parse().ok())
        .map(Duration::from_secs);
    let since = Instant::now();
    let seed = match torture {
        Some(_) => u64::from(std::process::id()),
        None => 20_260_101,
    };
    let mut schedules = 0;
    for round in 0.. {
        let random = RandomScheduler::new_from_seed(seed + round, SCHEDULES);
        schedules += Runner::new(random, config()).run(read_beside_a_writer);
        let pct = PctScheduler::new_from_seed(seed + round, 5, SCHEDULES);
        schedules += Runner::new(pct, config()).run(read_beside_a_writer);
        if torture.is_none_or(|torture| since.elapsed() > torture) {
            break;
        }
    }
    println!("reads: {schedules} schedules");
}
