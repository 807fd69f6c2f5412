//! Runlog beside the raw floors of this machine: both measured alternately, so that a slow minute of the disk affects
//! both. Prints a table with the targets of the design, or JSON with `--json`. A missed target is reported, but the
//! exit code stays 0.

use std::{
    env, io,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use runlog::blocking::Store;
use runlog_benches::{
    children::{self, Writes},
    floor::{self, Direct, ZeroFilled},
    measure::{Paired, per_second, rate, seconds},
    request, subject,
    table::{self, Row, Target},
    workload::{self, EVENTS_PER_STREAM, PAYLOAD_BYTES, STREAMS},
};
use serde_json::json;

/// The events of the prepared store.
const EVENTS: u64 = STREAMS as u64 * EVENTS_PER_STREAM as u64;
/// The rate of plain copies of the machine that the target of buffered appends was set on.
const REFERENCE_COPY: f64 = 12e9;

const USAGE: &str = "usage: ratios [--json] [--quick] [--rounds N] [words of an operation]";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let result = match arguments.split_first() {
        Some((first, rest)) if first == "child" => children::main(rest),
        _ => Settings::parse(&arguments).and_then(|settings| measure(&settings)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

struct Settings {
    json: bool,
    rounds: u64,
    /// How long each side of a round of durable appends lasts: short, so that both sides meet the same disk.
    slice: Duration,
    filter: String,
}

impl Settings {
    /// Rounds of short slices: many, since what the disk does changes within a second.
    fn slices(
        &self,
        mut floor: impl FnMut() -> io::Result<f64>,
        mut store: impl FnMut() -> io::Result<f64>,
    ) -> io::Result<Paired> {
        let mut rounds = Paired::default();
        for _ in 0..self.rounds * 8 {
            rounds.round(&mut floor, &mut store)?;
        }
        Ok(rounds)
    }

    /// Whether an operation was requested; prints its name if it was.
    fn wants(&self, operation: &str) -> bool {
        let wanted = operation.contains(&self.filter);
        if wanted {
            eprintln!("measuring: {operation}");
        }
        wanted
    }

    /// Whether one of several operations that are measured together was requested.
    fn wants_any(&self, operations: &[&str]) -> bool {
        operations
            .iter()
            .filter(|operation| self.wants(operation))
            .count()
            > 0
    }

    fn parse(arguments: &[String]) -> io::Result<Self> {
        let mut settings = Self {
            json: false,
            rounds: 7,
            slice: Duration::from_millis(100),
            filter: String::new(),
        };
        let mut rest = arguments.iter().map(String::as_str);
        while let Some(argument) = rest.next() {
            match argument {
                "--json" => settings.json = true,
                "--quick" => (settings.rounds, settings.slice) = (3, Duration::from_millis(50)),
                "--rounds" => {
                    let rounds = rest
                        .next()
                        .and_then(|rounds| rounds.parse().ok())
                        .filter(|rounds| *rounds > 0);
                    settings.rounds = rounds.ok_or_else(|| io::Error::other(USAGE))?;
                }
                filter if !filter.starts_with('-') && settings.filter.is_empty() => {
                    filter.clone_into(&mut settings.filter)
                }
                _ => return Err(io::Error::other(USAGE)),
            }
        }
        Ok(settings)
    }
}

fn measure(settings: &Settings) -> io::Result<()> {
    let folder = workload::folder()?;
    let memory_copy = floor::memory_copy(Duration::from_millis(300));
    let file_system = workload::file_system(folder.path());
    if file_system == "tmpfs" {
        eprintln!(
            "warning: {} is in memory: durable writes cost nothing there",
            folder.path().display()
        );
    }
    let mut rows = durable_appends(settings, folder.path())?;
    if settings.wants(REQUEST) {
        rows.push(requests(settings, folder.path())?);
    }
    if settings.wants(BUFFERED) {
        rows.push(buffered_appends(settings, folder.path(), memory_copy)?);
    }
    let path = folder.path().join("million");
    if settings.wants_any(&[CLEAN, KILLED, KILLED_BUFFERED, RESIDENT, OVERHEAD]) {
        rows.extend(openings(settings, &path)?);
    }
    if settings.wants_any(&[WARM, COLD, SCAN]) {
        if !path.exists() {
            subject::prepare(&path).and_then(subject::close)?;
        }
        rows.extend(reads(settings, &path)?);
    }
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    if settings.json {
        let report = json!({
            "machine": {
                "cores": cores,
                "file_system": file_system,
                "memory_copy_bytes_per_second": memory_copy,
            },
            "rounds": settings.rounds,
            "rows": rows.iter().map(Row::json).collect::<Vec<_>>(),
        });
        println!("{report:#}");
        return Ok(());
    }
    println!(
        "{cores} cores, {file_system}, events of 1 KiB, medians of rounds in turns with the floor"
    );
    table::print(&rows);
    println!(
        "\nMemory is copied at {:.1} GB/s here. The target of buffered appends is 1,000,000 events/s where it is copied\n\
         at 12 GB/s, and is scaled by that. Rows without a target are there for the picture.",
        memory_copy / 1e9
    );
    Ok(())
}

/// Durable appends of one event by several waiting writers: the operation, the number of writers, the target.
const WRITERS: [(&str, u32, f64); 3] = [
    ("durable append, 1 writer", 1, 0.95),
    ("durable append, 8 writers", 8, 0.7),
    ("durable append, 64 writers", 64, 0.4),
];
const BATCHES: &str = "durable append, batch of 100";
const DIRECT: &str = "durable append, 1 writer, floor of O_DIRECT";
const REQUEST: &str = "request of 11 records, 2 writes by 11";
const BUFFERED: &str = "buffered append, waited for at the end";

/// Durable appends beside floors that write as many bytes and flush as often as they ideally would.
fn durable_appends(settings: &Settings, folder: &Path) -> io::Result<Vec<Row>> {
    let mut rows = Vec::new();
    let slice = settings.slice;
    let mut file = ZeroFilled::create(&folder.join("floor"), ZeroFilled::SIZE)?;
    let path = folder.join("durable");
    let store = subject::open(&path)?;
    // The disk's first writes of a run are slower than later ones.
    subject::durable_events(&store, 1, slice)?;
    for (operation, writers, least) in WRITERS {
        if settings.wants(operation) {
            let floor = || floor::durable_events(&mut file, PAYLOAD_BYTES, writers as usize, slice);
            let rounds =
                settings.slices(floor, || subject::durable_events(&store, writers, slice))?;
            rows.push(Row {
                operation,
                unit: "events/s",
                rounds,
                worst: false,
                target: Target::Ratio(least),
            });
        }
    }
    if settings.wants(BATCHES) {
        let (stream, payload) = (workload::stream(0), workload::payload(0));
        let floor = || floor::durable_events(&mut file, PAYLOAD_BYTES, 100, slice);
        let rounds = settings.slices(floor, || {
            rate(slice, || subject::append(&store, stream, &payload, 100))
        })?;
        rows.push(Row {
            operation: BATCHES,
            unit: "events/s",
            rounds,
            worst: false,
            target: Target::Ratio(0.8),
        });
    }
    if settings.wants(DIRECT) {
        match Direct::create(&folder.join("direct")) {
            Ok(mut direct) => {
                let floor = || floor::direct_events(&mut direct, PAYLOAD_BYTES, 1, slice);
                let rounds =
                    settings.slices(floor, || subject::durable_events(&store, 1, slice))?;
                rows.push(Row {
                    operation: DIRECT,
                    unit: "events/s",
                    rounds,
                    worst: false,
                    target: Target::None,
                });
            }
            Err(error) => eprintln!(
                "this file system has no direct writes, so they are not measured: {error}"
            ),
        }
    }
    subject::close(store)?;
    std::fs::remove_dir_all(path)?;
    Ok(rows)
}

/// A chat's typical request in two writes, beside the same in eleven: one for each message and step.
fn requests(settings: &Settings, folder: &Path) -> io::Result<Row> {
    let path = folder.join("chats");
    let store = Store::open(&path).map_err(io::Error::other)?;
    let chats = store.chats();
    let slice = settings.slice;
    request::per_second_for(&chats, slice, request::in_two_writes)?;
    let rounds = settings.slices(
        || request::per_second_for(&chats, slice, request::in_eleven_writes),
        || request::per_second_for(&chats, slice, request::in_two_writes),
    )?;
    store.close().map_err(io::Error::other)?;
    std::fs::remove_dir_all(path)?;
    Ok(Row {
        operation: REQUEST,
        unit: "requests/s",
        rounds,
        worst: false,
        target: Target::Ratio(2.0),
    })
}

/// Buffered appends beside a file that is written from memory 1 MiB at a time.
fn buffered_appends(settings: &Settings, folder: &Path, memory_copy: f64) -> io::Result<Row> {
    const COUNT: u64 = 1_000_000;
    let mut file = ZeroFilled::create(&folder.join("floor"), ZeroFilled::SIZE)?;
    let payload = workload::payload(0);
    let path = folder.join("buffered");
    // Each round fills a store of its own, removed before the next, so that all use the same memory; the first
    // one, which isn't counted, is given that memory by the machine below, and takes much longer for it.
    let round = || {
        let store = subject::open_buffered(&path)?;
        let rate = timed(|| subject::append_buffered(&store, COUNT).map(|()| COUNT))?;
        subject::close(store)?;
        std::fs::remove_dir_all(&path)?;
        Ok(rate)
    };
    round()?;
    let mut rounds = Paired::default();
    for _ in 0..settings.rounds {
        rounds.round(
            || floor::buffered_events(&mut file, &payload, Duration::from_millis(100)),
            round,
        )?;
    }
    let target = Target::AtLeast(1e6 * memory_copy / REFERENCE_COPY);
    Ok(Row {
        operation: BUFFERED,
        unit: "events/s",
        rounds,
        worst: false,
        target,
    })
}

const CLEAN: &str = "open 1M events, clean close";
const KILLED: &str = "open 1M events, SIGKILL";
const KILLED_BUFFERED: &str = "open 1M events, SIGKILL, unflushed";
const RESIDENT: &str = "resident memory once open";
const OVERHEAD: &str = "overhead of a 1 KiB event";
const WARM: &str = "read 1 stream of 1,000, warm";
const COLD: &str = "read 1 stream of 1,000, cold";
const SCAN: &str = "scan of all, warm";

/// A store of a million events that is opened after a kill and after a clean close.
fn openings(settings: &Settings, path: &Path) -> io::Result<Vec<Row>> {
    let program = env::current_exe()?;
    let (mut clean, mut killed, mut unflushed) = (Vec::new(), Vec::new(), Vec::new());
    let (mut resident, mut overhead) = (Vec::new(), Vec::new());
    let rounds = usize::try_from(settings.rounds.max(4)).unwrap_or(4);
    // The first process writes all of the million and is killed; later ones are killed at other places of a segment.
    let events = std::iter::once(EVENTS).chain([1_000, 60_000, 30_000].into_iter().cycle());
    for (round, events) in events.take(rounds).enumerate() {
        children::append_and_be_killed(&program, path, Writes::Buffered, events)?;
        unflushed.push(children::open(&program, path)?.seconds * 1e3);
        children::append_and_be_killed(&program, path, Writes::Durable, events.min(60_000))?;
        killed.push(children::open(&program, path)?.seconds * 1e3);
        let opening = children::open(&program, path)?;
        clean.push(opening.seconds * 1e3);
        resident.push(opening.resident_bytes / f64::from(1 << 20));
        if round == 0 {
            #[expect(
                clippy::cast_precision_loss,
                reason = "a percentage needs no more than 53 bits"
            )]
            let (used, payloads) = (
                workload::bytes_used(path)? as f64,
                ((EVENTS + 60_000) * PAYLOAD_BYTES as u64) as f64,
            );
            overhead.push((used / payloads - 1.0) * 100.0);
        }
    }
    let row = |operation, unit, store, most| {
        let rounds = Paired {
            floor: Vec::new(),
            store,
        };
        Row {
            operation,
            unit,
            rounds,
            worst: true,
            target: Target::AtMost(most),
        }
    };
    Ok(vec![
        row(CLEAN, "ms, worst", clean, 10.0),
        row(KILLED, "ms, worst", killed, 50.0),
        row(KILLED_BUFFERED, "ms, worst", unflushed, 50.0),
        row(RESIDENT, "MiB, worst", resident, 64.0),
        row(OVERHEAD, "%", overhead, 4.0),
    ])
}

/// One stream among a thousand, warm and cold, and all of the log, beside plain reads of the store's own files.
fn reads(settings: &Settings, path: &Path) -> io::Result<Vec<Row>> {
    let files = workload::files(path)?;
    let sizes = files.iter().map(|file| Ok((file.metadata()?.len(), file)));
    let largest: PathBuf = match sizes.collect::<io::Result<Vec<_>>>()?.into_iter().max() {
        Some((_, file)) => file.clone(),
        None => return Err(io::Error::other("the store has no files")),
    };
    let store = subject::open(path)?;
    let events = subject::scan(&store)?;
    let mut streams = (0..STREAMS).cycle().map(workload::stream);
    let mut stream = || streams.next().unwrap_or(workload::stream(0));
    let (mut warm, mut cold, mut scan) = (Paired::default(), Paired::default(), Paired::default());
    for _ in 0..settings.rounds {
        let (count, piece) = (
            EVENTS_PER_STREAM as usize,
            PAYLOAD_BYTES + floor::FRAME_OVERHEAD_BYTES,
        );
        warm.round(
            || timed(|| floor::scattered_read(&largest, count, piece).map(|_| count as u64)),
            || timed(|| subject::read(&store, stream())),
        )?;
        scan.round(
            || {
                timed(|| {
                    files
                        .iter()
                        .try_for_each(|file| floor::sequential_read(file).map(drop))
                        .map(|()| events)
                })
            },
            || timed(|| subject::scan(&store)),
        )?;
    }
    subject::close(store)?;
    for _ in 0..settings.rounds {
        // Pages that an open store has mapped would stay.
        workload::evict(path)?;
        let store = subject::open(path)?;
        cold.store
            .push(seconds(|| subject::read(&store, stream()))? * 1e3);
        subject::close(store)?;
    }
    let row = |operation, unit, rounds| Row {
        operation,
        unit,
        rounds,
        worst: false,
        target: Target::None,
    };
    Ok(vec![
        row(WARM, "events/s", warm),
        row(COLD, "ms", cold),
        row(SCAN, "events/s", scan),
    ])
}

/// Events a second of something that counts its events.
fn timed(read: impl FnOnce() -> io::Result<u64>) -> io::Result<f64> {
    let start = std::time::Instant::now();
    let count = read()?;
    Ok(per_second(count, start.elapsed()))
}
