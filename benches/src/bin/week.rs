//! A week of an agent platform in fast motion: the latency of appends from the first day to the last, and the disk
//! space that deleted sessions still take.
//!
//! `week [RUNS]`, 10,000 runs a day unless given. Fifty runs are active at a time, each in a session of its own, with
//! messages, results of tools and the deltas of what was streamed; one in a hundred is copied when it ends. Sessions
//! expire two days after their last event, deltas an hour after their whole text. A second thread deletes them each
//! hour and compacts sealed segments each night, while runs continue. The clock is simulated, appends and the disk are
//! real: each message is durable when its append returns.
//!
//! A day passes in less than a minute, so that second thread works beside half of the appends; in a real day it would
//! beside one in thousands. Hence the latencies are also given by what it does meanwhile.

use std::{
    collections::VecDeque,
    error::Error,
    os::unix::fs::MetadataExt,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use runlog::{
    Durability, NewMessage, NewRun, NewSession, RawJson, Role, SessionId, StoreOptions,
    blocking::{FlowRun, RunRecorder, Store},
    engine::{Host, SystemHost},
    flows::RuntimeEvent,
    log::{CompactOptions, CompactScope},
    retention::RetentionPolicy,
    sessions::CopySession,
};
use runlog_benches::workload::Random;

const DAYS: u64 = 7;
const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;
const KEPT_MS: u64 = 2 * DAY_MS;
/// How many runs are active at a time.
const TOGETHER: usize = 50;
/// How many times a run calls its model.
const TURNS: u32 = 8;
/// How many deltas of an answer are streamed.
const DELTAS: u32 = 10;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// A simulated clock, advanced by the runs.
struct Clock(AtomicU64);

impl Host for Clock {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn random(&self, bytes: &mut [u8]) {
        SystemHost.random(bytes);
    }

    fn has_threads(&self) -> bool {
        true
    }

    fn process_id(&self) -> u32 {
        std::process::id()
    }
}

/// An active run.
struct AtWork {
    recorder: RunRecorder,
    flow: FlowRun,
    session: SessionId,
    turns_left: u32,
    bytes: u64,
}

/// The text of a session that ended.
struct Ended {
    at_ms: u64,
    bytes: u64,
}

/// What the second thread does.
const IDLE: u8 = 0;
const RETAINS: u8 = 1;
const COMPACTS: u8 = 2;

/// How long an append took, in seconds, and what the second thread did when it began.
#[derive(Clone, Copy)]
struct Append {
    took: f64,
    beside: u8,
}

/// The working time of the second thread.
#[derive(Clone, Copy, Default)]
struct Tended {
    retained: Duration,
    compacted: Duration,
}

/// The platform: its clock, its active runs, and the recorded text.
struct Platform {
    store: Store,
    clock: Arc<Clock>,
    random: Random,
    at_work: VecDeque<AtWork>,
    ended: VecDeque<Ended>,
    started: u64,
    tending: Arc<AtomicU8>,
    appends: Vec<Append>,
}

fn main() -> Result<()> {
    let runs = std::env::args()
        .nth(1)
        .map_or(Ok(10_000), |runs| runs.parse())?;
    let folder = runlog_benches::workload::folder()?;
    let path = folder.path().join("store");
    let clock = Arc::new(Clock(AtomicU64::new(1_767_225_600_000)));
    let options = StoreOptions {
        host: clock.clone(),
        ..StoreOptions::default()
    };
    let store = Store::open_with(&path, options)?;
    let mut platform = Platform {
        store: store.clone(),
        clock,
        random: Random::new(7),
        at_work: VecDeque::new(),
        ended: VecDeque::new(),
        started: 0,
        tending: Arc::default(),
        appends: Vec::new(),
    };
    println!("{runs} runs a day, sessions are kept for two days");
    println!(
        "| day | appends | p50 µs | p99 µs | p99 alone | p99 beside retention | p99 beside compaction | longest ms | said in two days, MB | disk, MB | disk / said | retain s | compact s |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for day in 1..=DAYS {
        let tended = platform.day(runs)?;
        let (said, disk) = (platform.said_in_two_days(), disk_bytes(&path)?);
        let all = platform.took(None);
        let beside = [IDLE, RETAINS, COMPACTS].map(|what| platform.took(Some(what)));
        let [alone, retained, compacted] = beside.each_ref().map(|took| at(took, 99) * 1e6);
        println!(
            "| {day} | {} | {:.0} | {:.0} | {alone:.0} | {retained:.0} | {compacted:.0} | {:.1} | {:.1} | {:.1} | {:.2} | {:.1} | {:.1} |",
            all.len(),
            at(&all, 50) * 1e6,
            at(&all, 99) * 1e6,
            at(&all, 100) * 1e3,
            megabytes(said),
            megabytes(disk),
            megabytes(disk) / megabytes(said),
            tended.retained.as_secs_f64(),
            tended.compacted.as_secs_f64(),
        );
        platform.appends.clear();
    }
    store.compact(CompactOptions::default())?;
    println!("compacted whole: {:.1} MB", megabytes(disk_bytes(&path)?));
    store.close()?;
    Ok(())
}

impl Platform {
    /// A day: a second thread tends the store while runs come and go.
    fn day(&mut self, runs: u64) -> Result<Tended> {
        let store = self.store.clone();
        let doing = self.tending.clone();
        let (hours, hour) = mpsc::channel::<u64>();
        let tending = thread::spawn(move || -> Result<Tended> {
            let mut tended = Tended::default();
            for hour in hour {
                let policy = RetentionPolicy {
                    older_than_ms: Some(KEPT_MS),
                    ..RetentionPolicy::default()
                };
                let start = Instant::now();
                doing.store(RETAINS, Ordering::Relaxed);
                store.retain(&policy)?;
                let deltas = RetentionPolicy {
                    deltas_older_than_ms: Some(HOUR_MS),
                    ..RetentionPolicy::default()
                };
                store.retain(&deltas)?;
                tended.retained += start.elapsed();
                // At three in the night.
                if hour == 3 {
                    let start = Instant::now();
                    doing.store(COMPACTS, Ordering::Relaxed);
                    store.compact(CompactOptions {
                        scope: CompactScope::Sealed,
                        ..CompactOptions::default()
                    })?;
                    tended.compacted += start.elapsed();
                }
                doing.store(IDLE, Ordering::Relaxed);
            }
            Ok(tended)
        });
        let mut told = 0;
        for run in 0..runs {
            let hour = run * 24 / runs;
            while told <= hour {
                hours.send(told)?;
                told += 1;
            }
            self.clock.0.fetch_add(DAY_MS / runs, Ordering::Relaxed);
            self.start()?;
            if self.at_work.len() > TOGETHER {
                // Runs take turns, as if all were at work at once: those that have few turns left end among others.
                for _ in 0..=TURNS {
                    self.turn()?;
                }
            }
        }
        drop(hours);
        tending.join().expect("a thread that doesn't panic")
    }

    fn start(&mut self) -> Result<()> {
        let new = NewRun::in_new_session(NewSession::titled("a question"), "assistant");
        let recorder = self.store.runs().start(new)?;
        let flow = FlowRun::create(&self.store, Some(recorder.id()))?;
        let session = recorder.run().session_id;
        let mut run = AtWork {
            recorder,
            flow,
            session,
            turns_left: TURNS,
            bytes: 0,
        };
        self.say(&mut run, Role::User, 40)?;
        self.started += 1;
        self.at_work.push_back(run);
        Ok(())
    }

    /// One turn of the run that waited longest: an answer that is streamed, then kept, and the question that follows it.
    fn turn(&mut self) -> Result<()> {
        let Some(mut run) = self.at_work.pop_front() else {
            return Ok(());
        };
        if run.turns_left == 0 {
            return self.end(&run);
        }
        run.turns_left -= 1;
        let mut whole = String::new();
        let mut events = Vec::new();
        for place in 0..=DELTAS {
            let (event_type, text) = match place {
                DELTAS => ("agent:text", whole.clone()),
                _ => ("agent:text:delta", self.words(6)),
            };
            whole.push_str(&text);
            let event = serde_json::json!({ "type": event_type, "timestamp": self.clock.now_ms(), "runId": "r", "nodeId": "answer", "content": text });
            run.bytes += event.to_string().len() as u64;
            events.push(RuntimeEvent::parse(event.to_string())?);
        }
        // A lost delta is no loss after a power failure: the message follows.
        run.flow.record_all(&events, Some(Durability::Os))?;
        self.say(&mut run, Role::Assistant, 60)?;
        self.say(&mut run, Role::User, 120)?;
        self.at_work.push_back(run);
        Ok(())
    }

    fn end(&mut self, run: &AtWork) -> Result<()> {
        run.recorder.complete(None)?;
        if self.started.is_multiple_of(100) {
            self.store
                .copy_session(run.session, &CopySession::default())?;
        }
        self.ended.push_back(Ended {
            at_ms: self.clock.now_ms(),
            bytes: run.bytes,
        });
        Ok(())
    }

    fn say(&mut self, run: &mut AtWork, role: Role, words: u32) -> Result<()> {
        let said = RawJson::string(&self.words(words));
        run.bytes += said.as_str().len() as u64;
        let beside = self.tending.load(Ordering::Relaxed);
        let start = Instant::now();
        run.recorder.record_message(NewMessage::new(role, said))?;
        self.appends.push(Append {
            took: start.elapsed().as_secs_f64(),
            beside,
        });
        Ok(())
    }

    /// Words, some of which come more often than others, as they do.
    fn words(&mut self, count: u32) -> String {
        let mut text = String::new();
        for _ in 0..count {
            let random = self.random.next();
            let rare = random >> 60 == 0;
            let word = (random >> 8) % if rare { 1 << 20 } else { 1 << 9 };
            // A syllable for each four bits.
            for place in 0..5 {
                text.push_str(SYLLABLES[usize::try_from(word >> (4 * place) & 15).unwrap_or(0)]);
            }
            text.push(' ');
        }
        text
    }

    fn said_in_two_days(&mut self) -> u64 {
        let from = self.clock.now_ms().saturating_sub(KEPT_MS);
        while self.ended.front().is_some_and(|ended| ended.at_ms < from) {
            self.ended.pop_front();
        }
        let ended: u64 = self.ended.iter().map(|ended| ended.bytes).sum();
        ended + self.at_work.iter().map(|run| run.bytes).sum::<u64>()
    }

    /// How long the day's appends took, sorted: all, or those that began beside something.
    fn took(&self, beside: Option<u8>) -> Vec<f64> {
        let mut took: Vec<f64> = self
            .appends
            .iter()
            .filter(|append| beside.is_none_or(|beside| append.beside == beside))
            .map(|append| append.took)
            .collect();
        took.sort_by(f64::total_cmp);
        took
    }
}

/// The value below which so many hundredths of sorted ones lie; 0 of none.
fn at(sorted: &[f64], hundredths: usize) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get(last * hundredths / 100).copied().unwrap_or(0.0)
}

const SYLLABLES: [&str; 16] = [
    "ra", "ter", "in", "lo", "sha", "ment", "ke", "ing", "pro", "da", "ve", "un", "is", "tor",
    "le", "com",
];

/// What the files of a folder take of the disk.
fn disk_bytes(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for file in runlog_benches::workload::files(folder)? {
        bytes += std::fs::metadata(file)?.blocks() * 512;
    }
    Ok(bytes)
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
