//! Runlog beside the raw floors of this machine: both measured in turns, so that a disk that has a bad minute has it
//! for both. Prints a table with the targets of the design, or JSON with `--json`. It judges nothing: a missed target
//! is said, and the exit code stays 0.

use std::{
    env, io,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use runlog_benches::{
    children,
    floor::{self, Direct, ZeroFilled},
    measure::{Paired, median, per_second, rate, seconds},
    subject,
    workload::{self, EVENTS_PER_STREAM, PAYLOAD_BYTES, STREAMS},
};
use runlog_engine::Store;
use serde_json::{Value, json};

/// The events of the prepared store.
const EVENTS: u64 = STREAMS as u64 * EVENTS_PER_STREAM as u64;
/// The rate of plain copies of the machine that the target of buffered appends was set on.
const REFERENCE_COPY: f64 = 12e9;

const USAGE: &str = "usage: ratios [--json] [--quick] [--rounds N]";

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
    budget: Duration,
}

impl Settings {
    fn parse(arguments: &[String]) -> io::Result<Self> {
        let mut settings = Self { json: false, rounds: 7, budget: Duration::from_millis(500) };
        let mut rest = arguments.iter().map(String::as_str);
        while let Some(argument) = rest.next() {
            match argument {
                "--json" => settings.json = true,
                "--quick" => (settings.rounds, settings.budget) = (3, Duration::from_millis(200)),
                "--rounds" => {
                    let rounds = rest.next().and_then(|rounds| rounds.parse().ok()).filter(|rounds| *rounds > 0);
                    settings.rounds = rounds.ok_or_else(|| io::Error::other(USAGE))?;
                }
                _ => return Err(io::Error::other(USAGE)),
            }
        }
        Ok(settings)
    }
}

/// What a row is held against.
#[derive(Clone, Copy)]
enum Target {
    /// At least this share of the floor.
    Ratio(f64),
    /// At least so much, in the row's unit.
    AtLeast(f64),
    /// At most so much, in the row's unit.
    AtMost(f64),
    /// No target: told for the picture.
    None,
}

struct Row {
    operation: &'static str,
    unit: &'static str,
    rounds: Paired,
    /// Whether the worst round counts, where others take the middle one.
    worst: bool,
    target: Target,
}

impl Row {
    fn floor(&self) -> Option<f64> {
        (!self.rounds.floor.is_empty()).then(|| median(&self.rounds.floor))
    }

    fn store(&self) -> f64 {
        if self.worst { self.rounds.store.iter().copied().fold(f64::NAN, f64::max) } else { median(&self.rounds.store) }
    }

    fn ratio(&self) -> Option<f64> {
        (!self.rounds.floor.is_empty()).then(|| self.rounds.ratio())
    }

    fn is_met(&self) -> Option<bool> {
        match self.target {
            Target::Ratio(least) => self.ratio().map(|ratio| ratio >= least),
            Target::AtLeast(least) => Some(self.store() >= least),
            Target::AtMost(most) => Some(self.store() <= most),
            Target::None => None,
        }
    }

    fn cells(&self) -> [String; 7] {
        let number = |number: f64| match number {
            number if number.abs() >= 1000.0 => thousands(number),
            number if number.abs() >= 100.0 => format!("{number:.0}"),
            number => format!("{number:.2}"),
        };
        let target = match self.target {
            Target::Ratio(least) => format!("≥ {least:.2} ×"),
            Target::AtLeast(least) => format!("≥ {}", number(least)),
            Target::AtMost(most) => format!("≤ {}", number(most)),
            Target::None => String::new(),
        };
        let met = self.is_met().map_or("", |met| if met { "met" } else { "MISSED" });
        [
            self.operation.to_owned(),
            self.floor().map_or_else(String::new, number),
            number(self.store()),
            self.unit.to_owned(),
            self.ratio().map_or_else(String::new, |ratio| format!("{ratio:.2}")),
            target,
            met.to_owned(),
        ]
    }

    fn json(&self) -> Value {
        let (kind, value) = match self.target {
            Target::Ratio(least) => (Some("ratio_at_least"), Some(least)),
            Target::AtLeast(least) => (Some("at_least"), Some(least)),
            Target::AtMost(most) => (Some("at_most"), Some(most)),
            Target::None => (None, None),
        };
        json!({
            "operation": self.operation,
            "unit": self.unit,
            "floor": self.floor(),
            "runlog": self.store(),
            "ratio": self.ratio(),
            "target": { "kind": kind, "value": value },
            "met": self.is_met(),
            "rounds": { "floor": self.rounds.floor, "runlog": self.rounds.store },
        })
    }
}

fn measure(settings: &Settings) -> io::Result<()> {
    let folder = workload::folder()?;
    let memory_copy = floor::memory_copy(settings.budget);
    let file_system = workload::file_system(folder.path());
    if file_system == "tmpfs" {
        eprintln!("warning: {} is in memory: durable writes cost nothing there", folder.path().display());
    }
    let mut rows = appends(settings, folder.path(), memory_copy)?;
    rows.extend(openings_and_reads(settings, folder.path())?);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    if settings.json {
        let report = json!({
            "machine": {
                "cores": cores,
                "file_system": file_system,
                "memory_copy_bytes_per_second": memory_copy,
            },
            "rounds": settings.rounds,
            "seconds_per_round": settings.budget.as_secs_f64(),
            "rows": rows.iter().map(Row::json).collect::<Vec<_>>(),
        });
        println!("{report:#}");
        return Ok(());
    }
    println!(
        "{cores} cores, {file_system}, events of 1 KiB, medians of {} rounds, in turns with the floor",
        settings.rounds
    );
    print_table(&rows);
    println!(
        "\nMemory is copied at {:.1} GB/s here. The target of buffered appends is 1,000,000 events/s where it is copied\n\
         at 12 GB/s, and is scaled by that. Rows without a target are there for the picture.",
        memory_copy / 1e9
    );
    Ok(())
}

/// Appends beside floors that write the same bytes.
fn appends(settings: &Settings, folder: &Path, memory_copy: f64) -> io::Result<Vec<Row>> {
    let mut rows = Vec::new();
    let budget = settings.budget;
    let mut file = ZeroFilled::create(&folder.join("floor"), ZeroFilled::SIZE)?;
    let path = folder.join("appends");
    let store = subject::open(&path)?;
    for (operation, writers, least) in [
        ("durable append, 1 writer", 1_u32, 0.95),
        ("durable append, 8 writers", 8, 0.7),
        ("durable append, 64 writers", 64, 0.4),
    ] {
        progress(operation);
        let mut rounds = Paired::default();
        subject::durable_events(&store, writers, budget / 10)?;
        for _ in 0..settings.rounds {
            rounds.round(
                || floor::durable_events(&mut file, PAYLOAD_BYTES, writers as usize, budget),
                || subject::durable_events(&store, writers, budget),
            )?;
        }
        rows.push(Row { operation, unit: "events/s", rounds, worst: false, target: Target::Ratio(least) });
    }
    rows.push(batches(settings, &store, &mut file)?);
    if let Ok(mut direct) = Direct::create(&folder.join("direct")) {
        let operation = "durable append, 1 writer, floor of O_DIRECT";
        progress(operation);
        let mut rounds = Paired::default();
        for _ in 0..settings.rounds {
            rounds.round(
                || floor::direct_events(&mut direct, PAYLOAD_BYTES, 1, budget),
                || subject::durable_events(&store, 1, budget),
            )?;
        }
        rows.push(Row { operation, unit: "events/s", rounds, worst: false, target: Target::None });
    }
    subject::close(store)?;
    std::fs::remove_dir_all(path)?;
    rows.push(buffered(settings, folder, &mut file, memory_copy)?);
    Ok(rows)
}

fn batches(settings: &Settings, store: &Store, file: &mut ZeroFilled) -> io::Result<Row> {
    let operation = "durable append, batch of 100";
    progress(operation);
    let mut rounds = Paired::default();
    let (stream, payload) = (workload::stream(0), workload::payload(0));
    for _ in 0..settings.rounds {
        rounds.round(
            || floor::durable_events(file, PAYLOAD_BYTES, 100, settings.budget),
            || rate(settings.budget, || subject::append(store, stream, &payload, 100)),
        )?;
    }
    Ok(Row { operation, unit: "events/s", rounds, worst: false, target: Target::Ratio(0.8) })
}

fn buffered(settings: &Settings, folder: &Path, file: &mut ZeroFilled, memory_copy: f64) -> io::Result<Row> {
    const COUNT: u64 = 200_000;
    let operation = "buffered append, waited for at the end";
    progress(operation);
    let mut rounds = Paired::default();
    let payload = workload::payload(0);
    let path = folder.join("buffered");
    let store = subject::open_buffered(&path)?;
    subject::append_buffered(&store, COUNT / 10)?;
    for _ in 0..settings.rounds {
        rounds.round(
            || floor::buffered_events(file, &payload, settings.budget),
            || {
                seconds(|| subject::append_buffered(&store, COUNT))
                    .map(|took| per_second(COUNT, Duration::from_secs_f64(took)))
            },
        )?;
    }
    subject::close(store)?;
    std::fs::remove_dir_all(path)?;
    let target = Target::AtLeast(1e6 * memory_copy / REFERENCE_COPY);
    Ok(Row { operation, unit: "events/s", rounds, worst: false, target })
}

/// A store of a million events: opened after a kill and after a clean close, read, and weighed.
fn openings_and_reads(settings: &Settings, folder: &Path) -> io::Result<Vec<Row>> {
    let program = env::current_exe()?;
    let path = folder.join("million");
    let (mut killed, mut clean, mut resident) = (Paired::default(), Paired::default(), Paired::default());
    let mut overhead = Paired::default();
    progress("open, after a kill and after a clean close");
    // The first process writes all of the million and is killed; later ones are killed at other places of a segment.
    for (round, events) in std::iter::once(EVENTS).chain([1_000, 60_000, 30_000].into_iter().cycle()).enumerate() {
        if round as u64 >= settings.rounds.max(3) {
            break;
        }
        children::append_and_be_killed(&program, &path, events)?;
        killed.store.push(children::open(&program, &path)?.seconds * 1e3);
        let opening = children::open(&program, &path)?;
        clean.store.push(opening.seconds * 1e3);
        resident.store.push(opening.resident_bytes / f64::from(1 << 20));
        if round == 0 {
            #[expect(clippy::cast_precision_loss, reason = "a percentage needs no more than 53 bits")]
            let (used, payloads) = (workload::bytes_used(&path)? as f64, (EVENTS * PAYLOAD_BYTES as u64) as f64);
            overhead.store.push((used / payloads - 1.0) * 100.0);
        }
    }
    let mut rows = vec![
        Row {
            operation: "open 1M events, clean close",
            unit: "ms, worst",
            rounds: clean,
            worst: true,
            target: Target::AtMost(10.0),
        },
        Row {
            operation: "open 1M events, SIGKILL",
            unit: "ms, worst",
            rounds: killed,
            worst: true,
            target: Target::AtMost(50.0),
        },
        Row {
            operation: "resident memory once open",
            unit: "MiB, worst",
            rounds: resident,
            worst: true,
            target: Target::AtMost(64.0),
        },
        Row {
            operation: "overhead of a 1 KiB event",
            unit: "%",
            rounds: overhead,
            worst: false,
            target: Target::AtMost(4.0),
        },
    ];
    rows.extend(reads(settings, &path)?);
    Ok(rows)
}

/// One stream among a thousand, warm and cold, and all of the log, beside plain reads of the store's own files.
fn reads(settings: &Settings, path: &Path) -> io::Result<Vec<Row>> {
    progress("read and scan");
    let files = workload::files(path)?;
    let sizes = files.iter().map(|file| Ok((file.metadata()?.len(), file)));
    let largest: PathBuf = match sizes.collect::<io::Result<Vec<_>>>()?.into_iter().max() {
        Some((_, file)) => file.clone(),
        None => return Err(io::Error::other("the store has no files")),
    };
    let store = subject::open(path)?;
    let count = EVENTS_PER_STREAM as usize;
    let (mut warm, mut cold, mut scan) = (Paired::default(), Paired::default(), Paired::default());
    subject::scan(&store)?;
    for round in 0..settings.rounds {
        let stream = workload::stream(u32::try_from(round).unwrap_or(0) % STREAMS);
        let piece = PAYLOAD_BYTES + floor::FRAME_OVERHEAD_BYTES;
        let floor = || {
            floor::scattered_read(&largest, count, piece)
                .map(|took| per_second(count as u64, Duration::from_secs_f64(took)))
        };
        let read = || timed(|| subject::read(&store, stream));
        warm.round(floor, read)?;
        scan.round(
            || {
                let took = seconds(|| files.iter().try_for_each(|file| floor::sequential_read(file).map(drop)))?;
                Ok(per_second(EVENTS, Duration::from_secs_f64(took)))
            },
            || timed(|| subject::scan(&store)),
        )?;
    }
    for round in 0..settings.rounds {
        let stream = workload::stream(u32::try_from(round).unwrap_or(0) % STREAMS);
        workload::evict(path)?;
        cold.store.push(seconds(|| subject::read(&store, stream))? * 1e3);
    }
    subject::close(store)?;
    Ok(vec![
        Row {
            operation: "read 1 stream of 1,000, warm",
            unit: "events/s",
            rounds: warm,
            worst: false,
            target: Target::None,
        },
        Row { operation: "read 1 stream of 1,000, cold", unit: "ms", rounds: cold, worst: false, target: Target::None },
        Row { operation: "scan of all, warm", unit: "events/s", rounds: scan, worst: false, target: Target::None },
    ])
}

/// Events a second of something that counts its events.
fn timed(read: impl FnOnce() -> io::Result<u64>) -> io::Result<f64> {
    let start = std::time::Instant::now();
    let count = read()?;
    Ok(per_second(count, start.elapsed()))
}

fn progress(what: &str) {
    eprintln!("measuring: {what}");
}

fn print_table(rows: &[Row]) {
    let head = ["operation", "floor", "runlog", "unit", "ratio", "target", ""].map(str::to_owned);
    let table: Vec<[String; 7]> = std::iter::once(head).chain(rows.iter().map(Row::cells)).collect();
    let mut widths = [0; 7];
    for row in &table {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    println!();
    for row in &table {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            let padding = " ".repeat(width - cell.chars().count());
            let is_number = matches!(column, 1 | 2 | 4 | 5);
            line.push_str(&if is_number { format!("{padding}{cell}  ") } else { format!("{cell}{padding}  ") });
        }
        println!("{}", line.trim_end());
    }
}

/// A whole number with commas.
fn thousands(number: f64) -> String {
    let digits = format!("{:.0}", number.abs());
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if number < 0.0 { format!("-{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(store: &[f64], floor: &[f64], worst: bool, target: Target) -> Row {
        let rounds = Paired { floor: floor.to_vec(), store: store.to_vec() };
        Row { operation: "test", unit: "units", rounds, worst, target }
    }

    #[test]
    fn a_target_is_met_or_missed() {
        let ratio = |least| row(&[90.0, 9.0, 80.0], &[100.0, 10.0, 100.0], false, Target::Ratio(least)).is_met();
        assert_eq!((ratio(0.9), ratio(0.91)), (Some(true), Some(false)));
        assert_eq!(row(&[1.0, 60.0, 2.0], &[], true, Target::AtMost(50.0)).is_met(), Some(false));
        assert_eq!(row(&[1.0, 60.0, 2.0], &[], false, Target::AtMost(50.0)).is_met(), Some(true));
        assert_eq!(row(&[5.0], &[], false, Target::None).is_met(), None);
        assert_eq!(row(&[], &[], false, Target::AtMost(50.0)).is_met(), Some(false));
    }

    #[test]
    fn thousands_have_commas() {
        assert_eq!([0.4, 999.0, 1000.0, 1_234_567.0].map(thousands), ["0", "999", "1,000", "1,234,567"]);
    }
}
