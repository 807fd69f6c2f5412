//! Chats beside the same rows in tables of SQLite with the indexes of the chat design: lists and saves, in turns, in one run.
//!
//! `cargo xtask bench-chats` builds and runs it; with parts of the names of rows, only those. It judges nothing.

mod kept;
mod sqlite;

use std::{
    env,
    hint::black_box,
    io,
    path::Path,
    process::{Command, ExitCode, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use runlog_benches::{
    measure::{Paired, median, rate},
    workload,
};

/// The messages of the chat that is long.
pub const MESSAGES: usize = 100_000;
/// The chats beside it, of a message each.
pub const CHATS: usize = 2_000;
/// The users who have them.
pub const USERS: usize = 100;
/// The messages of one request.
pub const REQUEST: usize = 10;
/// How many a page has.
pub const PAGE: usize = 50;
const ROUNDS: usize = 7;
const COLD_ROUNDS: usize = 5;
const SLICE: Duration = Duration::from_millis(100);
const WRITERS: usize = 32;

/// The chat that is long.
pub const LONG: &str = "long";

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Query {
    /// The first page of the long chat.
    First,
    /// Its last page.
    Last,
    /// The page in its middle, by an offset.
    Offset,
    /// The messages of one request.
    Request,
    /// The first page of a type that one message in a hundred has.
    Type,
    /// How many messages it has.
    Count,
    /// The chats of a user, the one with the latest message first.
    Chats,
    /// A message saved at its end, durable.
    Save,
    /// A message changed, durable.
    Update,
    /// The first page of the steps that failed, in all chats.
    Steps,
}

impl Query {
    const ALL: [(Self, &'static str); 10] = [
        (Self::First, "first page of 50 messages"),
        (Self::Last, "last page"),
        (Self::Offset, "page at offset 50,000"),
        (Self::Request, "messages of a request"),
        (Self::Type, "first 50 messages of a type"),
        (Self::Count, "count of messages"),
        (Self::Chats, "chats of a user by last message"),
        (Self::Steps, "first 50 steps that failed, in all chats"),
        (Self::Save, "one message saved, durable"),
        (Self::Update, "one message changed, durable"),
    ];

    fn writes(self) -> bool {
        matches!(self, Self::Save | Self::Update)
    }
}

/// What both keep chats in.
pub trait Chats: Send + Sync {
    /// Answers a query, and says how many rows it gave.
    fn ask(&self, query: Query) -> io::Result<usize>;
    /// Records a typical request of eleven rows in its two writes, in the writer's own chat.
    fn record(&self, writer: usize) -> io::Result<()>;
    /// Saves one message in the writer's own chat, durable.
    fn save(&self, writer: usize) -> io::Result<()>;
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["child", name, number, path] => cold(name, number, Path::new(path)),
        only => measure(&Only(only)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn open(name: &str, path: &Path) -> io::Result<Box<dyn Chats>> {
    Ok(match name {
        "runlog" => Box::new(kept::open(path)?),
        _ => Box::new(sqlite::open(path)?),
    })
}

/// The side of the new process: opens, and asks twice.
fn cold(name: &str, number: &str, path: &Path) -> io::Result<()> {
    let number: usize = number.parse().map_err(io::Error::other)?;
    let (query, _) = Query::ALL[number];
    let clock = Instant::now();
    let chats = open(name, path)?;
    let opened = clock.elapsed().as_secs_f64();
    let clock = Instant::now();
    black_box(chats.ask(query)?);
    let first = clock.elapsed().as_secs_f64();
    let clock = Instant::now();
    black_box(chats.ask(query)?);
    println!("{opened} {first} {}", clock.elapsed().as_secs_f64());
    Ok(())
}

/// Seconds that a new process takes to open, to answer once, and to answer again.
fn in_new_process(name: &str, number: usize, path: &Path) -> io::Result<[f64; 3]> {
    let output = Command::new(env::current_exe()?)
        .args(["child", name, &number.to_string()])
        .arg(path)
        .stderr(Stdio::inherit())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<f64> = text.split_whitespace().flat_map(str::parse).collect();
    let wrong = || io::Error::other(format!("the process of {name} said {text:?}"));
    numbers.try_into().map_err(|_| wrong())
}

/// The rows that were asked for; all if none was.
struct Only<'a>(&'a [&'a str]);

impl Only<'_> {
    fn wants(&self, name: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|part| name.contains(part))
    }
}

fn measure(only: &Only<'_>) -> io::Result<()> {
    let folder = workload::folder()?;
    let (ours, theirs) = (folder.path().join("runlog"), folder.path().join("sqlite"));
    eprintln!("making a chat of {MESSAGES} messages and {CHATS} more, twice");
    kept::fill(&ours)?;
    sqlite::fill(&theirs)?;
    println!(
        "\nin a new process, ms, medians of {COLD_ROUNDS}: opening, then the first and the second answer"
    );
    println!(
        "{:<42} {:>8} {:>8} {:>8}   {:>8} {:>8} {:>8}",
        "", "runlog", "", "", "SQLite", "", ""
    );
    let wanted = Query::ALL.iter().enumerate();
    for (number, (_, name)) in wanted.filter(|(_, (_, name))| only.wants(name)) {
        let mut found = [Vec::new(), Vec::new()];
        for _ in 0..COLD_ROUNDS {
            found[0].push(in_new_process("runlog", number, &ours)?);
            found[1].push(in_new_process("sqlite", number, &theirs)?);
        }
        let of = |side: usize, which: usize| {
            let figures: Vec<f64> = found[side].iter().map(|times| times[which] * 1e3).collect();
            median(&figures)
        };
        println!(
            "{name:<42} {:>8.2} {:>8.2} {:>8.3}   {:>8.2} {:>8.2} {:>8.3}",
            of(0, 0),
            of(0, 1),
            of(0, 2),
            of(1, 0),
            of(1, 1),
            of(1, 2)
        );
    }
    let (ours, theirs) = (open("runlog", &ours)?, open("sqlite", &theirs)?);
    println!("\nin a process that has asked before, µs, medians of {ROUNDS} rounds in turns");
    println!("{:<42} {:>10} {:>10}   ratio", "", "runlog", "SQLite");
    for (query, name) in Query::ALL.into_iter().filter(|(_, name)| only.wants(name)) {
        let timed = |chats: &dyn Chats| {
            let slice = if query.writes() { SLICE * 3 } else { SLICE };
            let asked = rate(slice, || {
                chats.ask(query).map(|rows| {
                    black_box(rows);
                    1
                })
            });
            asked.map(|rate| 1e6 / rate)
        };
        show(name, || timed(&*theirs), || timed(&*ours))?;
    }
    println!("\ndurable, each µs, medians of {ROUNDS} rounds in turns");
    println!("{:<42} {:>10} {:>10}   ratio", "", "runlog", "SQLite");
    for (writers, what) in [(1, "one writer"), (WRITERS, "32 writers")] {
        let saves = |chats: &dyn Chats| together(writers, |writer| chats.save(writer));
        let name = format!("a message, {what}");
        if only.wants(&name) {
            show(&name, || saves(&*theirs), || saves(&*ours))?;
        }
        let requests = |chats: &dyn Chats| together(writers, |writer| chats.record(writer));
        let name = format!("a request of 11 rows, {what}");
        if only.wants(&name) {
            show(&name, || requests(&*theirs), || requests(&*ours))?;
        }
    }
    Ok(())
}

/// Measures both in turns, and says how many times as long SQLite takes.
fn show(
    name: &str,
    theirs: impl Fn() -> io::Result<f64>,
    ours: impl Fn() -> io::Result<f64>,
) -> io::Result<()> {
    let mut rounds = Paired::default();
    for _ in 0..ROUNDS {
        rounds.round(&theirs, &ours)?;
    }
    println!(
        "{name:<42} {:>10.1} {:>10.1}   {:>5.2}",
        median(&rounds.store),
        median(&rounds.floor),
        1.0 / rounds.ratio()
    );
    Ok(())
}

/// Microseconds from one write to the next where so many threads write at once.
fn together(writers: usize, write: impl Fn(usize) -> io::Result<()> + Sync) -> io::Result<f64> {
    let rates = thread::scope(|scope| {
        let write = &write;
        let writers: Vec<_> = (0..writers)
            .map(|writer| scope.spawn(move || rate(SLICE * 4, || write(writer).map(|()| 1))))
            .collect();
        let ended = writers.into_iter().map(|writer| {
            let ended = writer.join();
            ended.unwrap_or_else(|_| Err(io::Error::other("a writer panicked")))
        });
        ended.collect::<io::Result<Vec<f64>>>()
    })?;
    Ok(1e6 / rates.iter().sum::<f64>())
}

/// The rows of message number `number` of the long chat: its request, its type, and its text.
pub fn message(number: usize) -> (String, &'static str, String) {
    let message_type = if number % 100 == 99 { "image" } else { "text" };
    let words = "what somebody wrote in a chat, as long as such messages mostly are ";
    (
        format!("req_{}", number / REQUEST),
        message_type,
        format!("{number} {}", words.repeat(3)),
    )
}

/// The message that is changed next, another each time.
pub fn changed() -> String {
    static LAST: AtomicUsize = AtomicUsize::new(0);
    format!("m{}", LAST.fetch_add(7919, Ordering::Relaxed) % MESSAGES)
}
