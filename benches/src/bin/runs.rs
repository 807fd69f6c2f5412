//! First pages of runs in a store of a million beside those in a store of a thousand, measured in turns; and what
//! opening the million takes, in time and memory.

use std::{env, io, path::Path, process::ExitCode, time::Duration};

use runlog::blocking::Store;
use runlog_benches::{
    children,
    measure::{Paired, median},
    runs::{self, FILTERS, Opening},
    workload,
};

/// How many runs the two stores have.
const FEW: u32 = 1_000;
const MANY: u32 = 1_000_000;
const ROUNDS: usize = 15;
const SLICE: Duration = Duration::from_millis(100);

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let result = match arguments.split_first() {
        Some((first, rest)) if first == "child" => children::main(rest),
        None => measure(),
        Some(_) => Err(io::Error::other("usage: runs")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> io::Result<()> {
    let folder = workload::folder()?;
    let (few, many) = (folder.path().join("few"), folder.path().join("many"));
    for (path, count) in [(&few, FEW), (&many, MANY)] {
        eprintln!("making {count} runs, each with a session and an instance");
        runs::prepare(path, count)?;
    }
    pages(&few, &many)?;
    let program = env::current_exe()?;
    let openings = (0..5)
        .map(|_| children::open_runs(&program, &many))
        .collect::<io::Result<Vec<_>>>()?;
    let of = |figure: fn(&Opening) -> f64| median(&openings.iter().map(figure).collect::<Vec<_>>());
    println!(
        "\nopening {MANY} runs, each with a session and an instance, in a new process, medians of 5:"
    );
    println!(
        "the engine                      {:>8.0} ms",
        of(|opening| opening.engine_seconds * 1e3)
    );
    println!(
        "from there to the first page    {:>8.0} ms",
        of(|opening| opening.runs_seconds * 1e3)
    );
    println!(
        "from there to the first session {:>8.0} ms",
        of(|opening| opening.sessions_seconds * 1e3)
    );
    println!(
        "memory of a run                 {:>8.0} bytes",
        of(|opening| opening.runs_bytes) / f64::from(MANY)
    );
    println!(
        "of a session and its instance   {:>8.0} bytes",
        of(|opening| opening.sessions_bytes) / f64::from(MANY)
    );
    Ok(())
}

fn pages(few: &Path, many: &Path) -> io::Result<()> {
    let (few, many) = (
        Store::open(few).map_err(io::Error::other)?,
        Store::open(many).map_err(io::Error::other)?,
    );
    println!("first page of 50 runs, µs, medians of {ROUNDS} rounds in turns");
    println!(
        "{:<18} {:>10} {:>12}   ratio",
        "filtered by", "of 1,000", "of 1,000,000"
    );
    for name in FILTERS {
        let mut rounds = Paired::default();
        for _ in 0..ROUNDS {
            rounds.round(
                || runs::first_pages(&few, name, FEW, SLICE).map(|rate| 1e6 / rate),
                || runs::first_pages(&many, name, MANY, SLICE).map(|rate| 1e6 / rate),
            )?;
        }
        let (few, many) = (median(&rounds.floor), median(&rounds.store));
        println!(
            "{name:<18} {few:>10.1} {many:>12.1}   {:>5.2}",
            rounds.ratio()
        );
    }
    few.close().and(many.close()).map_err(io::Error::other)
}
