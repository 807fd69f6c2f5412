//! A store that is closed while threads append to it, and opened at once by another: what was acknowledged is there, what
//! begins after the close is refused, every commit comes to an end, and the next writer gets in.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use runlog_engine::{
    Batch, Commit, Durability, Expected, NewRecord, Op, OpenOptions, Sequence, Store,
};
use runlog_tests::{
    budget::{self, Budget},
    checker,
    processes::{payload, stream},
    random::Random,
};

const THREADS: u64 = 8;
/// The stream of whoever opens the store next.
const SUCCESSOR: u64 = 100;
/// A commit that takes longer is taken for one that never ends.
const PATIENCE: Duration = Duration::from_secs(10);

fn options() -> OpenOptions {
    OpenOptions {
        segment_bytes_max: 64 << 10,
        ..OpenOptions::default()
    }
}

/// What a thread was told until the store refused it.
#[derive(Default)]
struct Told {
    /// The last sequence that was acknowledged.
    acknowledged: u64,
    /// Whether an append that began after the close had returned was acknowledged.
    after_close: bool,
    /// A commit that didn't end.
    stuck: Option<String>,
}

/// How a thread waits for what it appends.
#[derive(Clone, Copy)]
enum Way {
    /// The call itself waits.
    Commit,
    /// The batch is put in line and waited for by the thread.
    Wait,
    /// The batch is put in line and awaited by a task, which nobody drives but a waker.
    Await,
}

/// Appends until the store refuses; several batches are in line at once where that can be.
fn append_until_refused(store: &Store, thread: u64, way: Way, closed: &AtomicBool) -> Told {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let mut told = Told::default();
    let durability = if thread.is_multiple_of(3) {
        Durability::Os
    } else {
        Durability::Sync
    };
    let mut sequence = 0;
    loop {
        let is_closed = closed.load(Ordering::SeqCst);
        let in_line = if matches!(way, Way::Commit) { 1 } else { 3 };
        let mut commits = Vec::new();
        for _ in 0..in_line {
            sequence += 1;
            let payload = payload(thread, sequence);
            let append = Op::Append {
                stream: stream(thread),
                expected: Expected::Last(Sequence(sequence - 1)),
                records: vec![NewRecord::data(&payload)],
            };
            let batch = Batch::new(vec![append]).with_durability(durability);
            match way {
                Way::Commit => commits.push(store.commit(&batch).map(|_| None)),
                Way::Wait | Way::Await => commits.push(store.stage(&batch).map(Some)),
            }
            if commits.last().is_some_and(Result::is_err) {
                break;
            }
        }
        let first = sequence + 1 - commits.len() as u64;
        for (commit, sequence) in commits.into_iter().zip(first..) {
            let ended = match (commit, way) {
                (Ok(Some(commit)), Way::Await) => {
                    let Ok(ended) =
                        runtime.block_on(async { tokio::time::timeout(PATIENCE, commit).await })
                    else {
                        told.stuck = Some(format!(
                            "thread {thread}: the commit of sequence {sequence} never ends"
                        ));
                        return told;
                    };
                    ended.map(drop)
                }
                (Ok(Some(commit)), _) => Commit::wait(commit).map(drop),
                (done, _) => done.map(drop),
            };
            if ended.is_err() {
                return told;
            }
            told.acknowledged = sequence;
            told.after_close |= is_closed;
        }
    }
}

/// A store with threads that append to it.
struct Busy {
    store: Store,
    closed: Arc<AtomicBool>,
    ends: mpsc::Receiver<(u64, Told)>,
}

impl Busy {
    fn new(folder: &Path) -> Self {
        let store = Store::open(folder, options()).unwrap();
        let closed = Arc::new(AtomicBool::new(false));
        let (sender, ends) = mpsc::channel();
        for thread in 0..THREADS {
            let (store, closed, sender) = (store.clone(), closed.clone(), sender.clone());
            let way = [Way::Commit, Way::Commit, Way::Wait, Way::Await]
                [usize::try_from(thread % 4).unwrap()];
            // Not scoped: one that hangs is left behind, and told.
            thread::spawn(move || {
                let told = append_until_refused(&store, thread, way, &closed);
                drop(store);
                let _ = sender.send((thread, told));
            });
        }
        Self {
            store,
            closed,
            ends,
        }
    }

    fn close(&self, wrong: &mut Vec<String>) {
        if let Err(error) = self.store.close() {
            wrong.push(format!("close: {error}"));
        }
        self.closed.store(true, Ordering::SeqCst);
    }

    /// What each thread was told, once all were refused.
    fn told(self, wrong: &mut Vec<String>) -> BTreeMap<u64, u64> {
        let mut acknowledged = BTreeMap::new();
        for _ in 0..THREADS {
            let Ok((thread, told)) = self.ends.recv_timeout(2 * PATIENCE) else {
                wrong.push(format!(
                    "of {THREADS} threads only {} come to an end",
                    acknowledged.len()
                ));
                break;
            };
            wrong.extend(told.stuck);
            if told.after_close {
                wrong.push(format!(
                    "thread {thread}: an append that began after the close was acknowledged"
                ));
            }
            acknowledged.insert(thread, told.acknowledged);
        }
        acknowledged
    }
}

/// Whatever was acknowledged is in the log, as it was written.
fn check(
    folder: &Path,
    acknowledged: &BTreeMap<u64, u64>,
    budget: &Budget,
    wrong: &mut Vec<String>,
) {
    let checked = match checker::check(folder) {
        Ok(checked) => checked,
        Err(problem) => {
            wrong.push(format!("the store is not sound: {problem}"));
            return;
        }
    };
    let streams: BTreeMap<_, _> = checked.streams().into_iter().collect();
    for (thread, last) in acknowledged {
        let records = streams
            .get(stream(*thread).as_bytes())
            .map(Vec::as_slice)
            .unwrap_or_default();
        if (records.len() as u64) < *last {
            let lost = last - records.len() as u64;
            budget.add("lost", lost);
            wrong.push(format!(
                "thread {thread}: {last} were acknowledged, the last {lost} of them are gone"
            ));
        }
        for (sequence, position, _, _, found) in records {
            if *found != payload(*thread, *sequence) {
                wrong.push(format!(
                    "thread {thread}: sequence {sequence}, position {position}, is another record"
                ));
            }
        }
        budget.add("acknowledged", *last);
    }
}

/// Rounds until the budget is spent; a round says what went wrong in it.
fn rounds(
    budget: &Budget,
    count: u64,
    mut round: impl FnMut(&Path, &mut Random, &mut Vec<String>),
) {
    let mut random = Random::new(budget.seed());
    let mut wrong = Vec::new();
    for number in 1.. {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let before = wrong.len();
        round(&folder.path().join("store"), &mut random, &mut wrong);
        wrong[before..]
            .iter_mut()
            .for_each(|wrong| *wrong = format!("round {number}: {wrong}"));
        budget.add("rounds", 1);
        if number >= count && !budget.goes_on() {
            break;
        }
    }
    budget.add("lost", 0);
    budget.add("errors", wrong.len() as u64);
    let told: Vec<_> = wrong.iter().take(10).map(String::as_str).collect();
    assert!(
        wrong.is_empty(),
        "{} went wrong:\n{}",
        wrong.len(),
        told.join("\n")
    );
}

#[test]
fn store_closed_under_threads_that_append_is_whole_for_the_next_in_this_process() {
    let budget = budget::of("close race in a process");
    rounds(&budget, 40, |folder, random, wrong| {
        let busy = Busy::new(folder);
        thread::sleep(Duration::from_micros(random.below(20_000)));
        busy.close(wrong);
        let mut acknowledged = BTreeMap::new();
        match Store::open(folder, options()) {
            Ok(next) => {
                for sequence in 1..=20 {
                    let payload = payload(SUCCESSOR, sequence);
                    match next.append(
                        stream(SUCCESSOR),
                        Expected::Any,
                        &[NewRecord::data(&payload)],
                    ) {
                        Ok(_) => drop(acknowledged.insert(SUCCESSOR, sequence)),
                        Err(error) => {
                            wrong.push(format!("the next writer: {error}"));
                            break;
                        }
                    }
                }
                acknowledged.extend(busy.told(wrong));
                if let Err(error) = next.close() {
                    wrong.push(format!("closing the next: {error}"));
                }
            }
            Err(error) => wrong.push(format!("opening after the close: {error}")),
        }
        check(folder, &acknowledged, &budget, wrong);
    });
}

#[test]
fn store_closed_under_threads_that_append_is_whole_for_a_process_that_waits() {
    let budget = budget::of("close race of processes");
    rounds(&budget, 25, |folder, random, wrong| {
        let busy = Busy::new(folder);
        let mut next = Command::new(env!("CARGO_BIN_EXE_closer"))
            .arg(folder)
            .args([SUCCESSOR.to_string(), "20".to_owned()])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(next.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "waits");
        thread::sleep(Duration::from_micros(random.below(20_000)));
        busy.close(wrong);
        let mut acknowledged = busy.told(wrong);
        let line = lines.next().and_then(Result::ok);
        let output = next.wait_with_output().unwrap();
        match line
            .as_deref()
            .and_then(|line| line.strip_prefix("acknowledged "))
        {
            Some(last) => drop(acknowledged.insert(SUCCESSOR, last.parse().unwrap())),
            None => wrong.push(format!(
                "the next process: {}",
                String::from_utf8_lossy(&output.stderr)
            )),
        }
        check(folder, &acknowledged, &budget, wrong);
    });
}

/// A child has every descriptor of its parent for the moment before it becomes another program, that of the lock too.
#[test]
fn store_can_be_opened_right_after_its_close_while_programs_are_started() {
    let budget = budget::of("close beside starting programs");
    let ends = Arc::new(AtomicBool::new(false));
    let starting: Vec<_> = (0..2)
        .map(|_| {
            let ends = ends.clone();
            thread::spawn(move || {
                let mut count = 0;
                while !ends.load(Ordering::SeqCst) {
                    Command::new("true").status().unwrap();
                    count += 1;
                }
                count
            })
        })
        .collect();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (mut refused, mut opens) = (Vec::new(), 0);
    while opens < 150 || budget.goes_on() {
        opens += 1;
        match Store::open(
            folder.path(),
            OpenOptions {
                durability: Durability::Os,
                ..options()
            },
        ) {
            Ok(store) => {
                store
                    .append(stream(0), Expected::Any, &[NewRecord::data(b"one more")])
                    .unwrap();
                store.close().unwrap();
            }
            Err(error) => refused.push(error.to_string()),
        }
    }
    ends.store(true, Ordering::SeqCst);
    budget.add(
        "programs",
        starting
            .into_iter()
            .map(|starting| starting.join().unwrap())
            .sum(),
    );
    budget.add("opens", opens);
    budget.add("refused", refused.len() as u64);
    assert!(
        refused.is_empty(),
        "{} of {opens} opens refused, such as: {}",
        refused.len(),
        refused[0]
    );
}

#[test]
fn threads_that_close_at_once_are_all_told_that_it_worked() {
    let budget = budget::of("close at once");
    rounds(&budget, 60, |folder, _, wrong| {
        let store = Store::open(folder, options()).unwrap();
        store
            .append(stream(0), Expected::Any, &[NewRecord::data(b"one")])
            .unwrap();
        let failures: Vec<_> = thread::scope(|scope| {
            let closing: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| store.close().err()))
                .collect();
            closing
                .into_iter()
                .filter_map(|closing| closing.join().unwrap())
                .collect()
        });
        wrong.extend(failures.into_iter().map(|error| format!("close: {error}")));
        match Store::open(folder, options()) {
            Ok(next) => next.close().unwrap(),
            Err(error) => wrong.push(format!("opening after the close: {error}")),
        }
    });
}
