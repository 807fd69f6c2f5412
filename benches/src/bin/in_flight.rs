//! `in_flight FOLDER WINDOW`: durable appends of 1 KiB with this many in flight, from Rust, as a reference for bindings
//! in other languages.
//!
//! Each line on standard input says for how many milliseconds to append; the answer is a line with the events a second.

use std::{
    collections::VecDeque,
    io::{self, BufRead, Write},
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use runlog_benches::{
    measure::per_second,
    subject,
    workload::{STREAMS, payload, stream},
};
use runlog_engine::{Batch, Commit, Expected, NewRecord, Op, Store};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, window] = arguments.as_slice() else {
        eprintln!("usage: in_flight FOLDER WINDOW");
        return ExitCode::from(2);
    };
    match answer(Path::new(folder), window) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("in_flight: {error}");
            ExitCode::FAILURE
        }
    }
}

fn answer(folder: &Path, window: &str) -> io::Result<()> {
    let window = window.parse().map_err(io::Error::other)?;
    let store = subject::open(folder)?;
    for line in io::stdin().lock().lines() {
        let budget = Duration::from_millis(line?.trim().parse().map_err(io::Error::other)?);
        let clock = Instant::now();
        let events = append_for(&store, window, budget)?;
        println!("{}", per_second(events, clock.elapsed()));
        io::stdout().flush()?;
    }
    subject::close(store)
}

/// Appends events one to a batch, the streams in turns, with `window` of them not acknowledged yet; returns how many.
fn append_for(store: &Store, window: usize, budget: Duration) -> io::Result<u64> {
    let payloads: Vec<Vec<u8>> = (0..64).map(payload).collect();
    let mut streams = (0..STREAMS).cycle().map(stream);
    let mut waiting = VecDeque::with_capacity(window);
    let wait = |commit: Option<Commit>| {
        commit.map_or(Ok(()), |it| it.wait().map(drop).map_err(io::Error::other))
    };
    let clock = Instant::now();
    let mut events = 0;
    for payload in payloads.iter().cycle() {
        if waiting.len() == window {
            wait(waiting.pop_front())?;
        }
        if events % 64 == 0 && clock.elapsed() >= budget {
            break;
        }
        let append = Op::Append {
            stream: streams.next().unwrap_or(stream(0)),
            expected: Expected::Any,
            records: vec![NewRecord::data(payload)],
        };
        waiting.push_back(
            store
                .stage(&Batch::new(vec![append]))
                .map_err(io::Error::other)?,
        );
        events += 1;
    }
    waiting
        .into_iter()
        .try_for_each(|commit| wait(Some(commit)))?;
    Ok(events)
}
