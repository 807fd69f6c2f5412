//! Measures the opening of a large store.
//!
//! `opening FOLDER STREAMS EVENTS` makes a store with this many events of 100 bytes in this many streams in a new
//! folder, a thousand streams at a time, and copies its files as a killed process would have left them. Then other
//! processes open it repeatedly: after a clean close, after the crash, and read-only; and make a few calls.

use std::{
    fs,
    io::{self, Write as _},
    path::Path,
    process::{Command, ExitCode},
    time::Instant,
};

use runlog_benches::{children, workload};
use runlog_engine::{
    Batch, Durability, Expected, NewRecord, Op, OpenOptions, ReadOptions, Store, StreamId,
};

/// How many streams are written to at a time, in turns.
const AT_WORK: usize = 1000;
const ROUNDS: usize = 5;
const PAYLOAD: [u8; 100] = [b'x'; 100];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        ["open", mode @ ("write" | "read"), store] => {
            open(Path::new(store), *mode == "read").map(|said| println!("{said}"))
        }
        [folder, streams, events] => measure(Path::new(folder), streams, events),
        _ => Err(io::Error::other("usage: opening FOLDER STREAMS EVENTS")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("opening: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(folder: &Path, streams: &str, events: &str) -> io::Result<()> {
    let streams: u64 = streams.parse().map_err(io::Error::other)?;
    let events: u64 = events.parse().map_err(io::Error::other)?;
    let (path, killed) = (folder.join("store"), folder.join("killed"));
    if !path.exists() {
        fs::create_dir_all(&path)?;
        let start = Instant::now();
        let store = Store::open(&path, options()).map_err(io::Error::other)?;
        fill(&store, streams, events)?;
        say("made", start);
        copy(&path, &killed)?;
        let start = Instant::now();
        store.close().map_err(io::Error::other)?;
        say("closed", start);
    }
    let again = folder.join("again");
    for _ in 0..ROUNDS {
        println!(
            "killed: {}",
            other_process(&killed_copy(&killed, &again)?, "write")?
        );
    }
    for _ in 0..ROUNDS {
        println!("reader: {}", other_process(&path, "read")?);
    }
    for _ in 0..ROUNDS {
        println!("clean: {}", other_process(&path, "write")?);
    }
    Ok(())
}

fn say(what: &str, start: Instant) {
    println!("{what}: {:.3} s", start.elapsed().as_secs_f64());
    let _ = io::stdout().flush();
}

fn options() -> OpenOptions {
    OpenOptions {
        durability: Durability::Os,
        ..OpenOptions::default()
    }
}

fn id(number: u64) -> StreamId {
    workload::stream(u32::try_from(number).unwrap_or(u32::MAX))
}

fn fill(store: &Store, streams: u64, events: u64) -> io::Result<()> {
    let each = events / streams;
    for first in (0..streams).step_by(AT_WORK) {
        let numbers = first..(first + AT_WORK as u64).min(streams);
        let ids: Vec<StreamId> = numbers.map(id).collect();
        for _ in 0..each {
            let op = |stream: &StreamId| Op::Append {
                stream: *stream,
                expected: Expected::Any,
                records: vec![NewRecord::data(&PAYLOAD)],
            };
            let batch = Batch::new(ids.iter().map(op).collect());
            store.commit(&batch).map_err(io::Error::other)?;
        }
    }
    Ok(())
}

/// The files as they are, without waiting for anything; what is sealed is not written again.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to)?;
    let mut names: Vec<_> = fs::read_dir(from)?
        .map(|entry| Ok(entry?.file_name()))
        .collect::<io::Result<_>>()?;
    names.sort();
    let segments = names
        .iter()
        .filter(|name| name.to_string_lossy().ends_with(".seg"))
        .count();
    for (place, name) in names.iter().enumerate() {
        match name.to_string_lossy().ends_with(".seg") && place + 3 < segments {
            true => fs::hard_link(from.join(name), to.join(name))?,
            false => drop(fs::copy(from.join(name), to.join(name))?),
        }
    }
    Ok(())
}

fn killed_copy(killed: &Path, again: &Path) -> io::Result<std::path::PathBuf> {
    copy(killed, again)?;
    Ok(again.to_path_buf())
}

fn other_process(store: &Path, mode: &str) -> io::Result<String> {
    let output = Command::new(std::env::current_exe()?)
        .args(["open", mode])
        .arg(store)
        .output()?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(io::Error::other(String::from_utf8_lossy(&output.stderr))),
    }
}

/// Opens a store, and makes a few calls.
fn open(path: &Path, read_only: bool) -> io::Result<String> {
    let ms = |start: Instant| start.elapsed().as_secs_f64() * 1000.0;
    let start = Instant::now();
    let options = if read_only {
        options().read_only()
    } else {
        options()
    };
    let store = Store::open(path, options).map_err(io::Error::other)?;
    let opened = ms(start);
    let (resident, own) = children::memory_bytes();
    let start = Instant::now();
    let mut records = store
        .read(id(0), ReadOptions::default())
        .map_err(io::Error::other)?;
    records
        .next()
        .transpose()
        .map_err(io::Error::other)?
        .ok_or_else(|| io::Error::other("the first stream has no record"))?;
    drop(records);
    let mut said = format!(
        "opened in {opened:.1} ms, {:.1} MiB resident, {:.1} MiB its own; one read {:.2} ms",
        resident / 1048576.0,
        own / 1048576.0,
        ms(start)
    );
    if !read_only {
        let start = Instant::now();
        store
            .append(id(0), Expected::Any, &[NewRecord::data(&PAYLOAD)])
            .map_err(io::Error::other)?;
        said += &format!(", one append {:.2} ms", ms(start));
        let start = Instant::now();
        store.close().map_err(io::Error::other)?;
        let bytes = fs::metadata(path.join("CHECKPOINT"))?.len();
        said += &format!(", close {:.1} ms; checkpoint {bytes} bytes", ms(start));
    }
    Ok(said)
}
