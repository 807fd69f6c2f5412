//! Measures compaction and labels.
//!
//! `compaction conversations FILE BYTES` writes this many bytes of [conversations](runlog_benches::conversations) like
//! those in a file of JSON lines. `compaction find FOLDER` makes
//! a store of a million records with labels and prints how long a search by label takes, before and after a compaction.
//! `compaction find FOLDER RECORDS` makes one of so many short records, and doesn't compact it; `compaction look FOLDER RECORDS`
//! searches one that is there.

use std::{
    io::{self, BufWriter, Write},
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use runlog_benches::{
    conversations::{Conversations, next},
    measure::median,
};
use runlog_engine::{
    Batch, CompactOptions, Durability, Expected, FindOptions, Label, Mode, NewRecord, Op,
    OpenOptions, Store, StreamId,
};

const RECORDS: u64 = 1_000_000;
const TOGETHER: u64 = 1000;
const STREAMS: u64 = 1000;
/// How many records share a label.
const SHARED: u64 = 10;
const LOOKS: u64 = 20_000;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        ["conversations", file, bytes] => conversations(Path::new(file), bytes),
        ["find", folder] => find(Path::new(folder), RECORDS, 4),
        ["find", folder, records] => match records.parse() {
            Ok(records) => find(Path::new(folder), records, 1),
            Err(error) => Err(io::Error::other(error)),
        },
        ["look", folder, records] => match records.parse() {
            Ok(records) => look_again(Path::new(folder), records),
            Err(error) => Err(io::Error::other(error)),
        },
        _ => Err(io::Error::other(
            "usage: compaction conversations FILE BYTES | compaction find FOLDER [RECORDS] | compaction look FOLDER RECORDS",
        )),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("compaction: {error}");
            ExitCode::FAILURE
        }
    }
}

fn conversations(file: &Path, bytes: &str) -> io::Result<()> {
    let wanted: usize = bytes.parse().map_err(io::Error::other)?;
    let text = std::fs::read_to_string(file)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let mut written = 0;
    for line in Conversations::new(&text)? {
        if written >= wanted {
            break;
        }
        out.write_all(line.as_bytes())?;
        out.write_all(b"\n")?;
        written += line.len() + 1;
    }
    out.flush()
}

fn stream(number: u64) -> StreamId {
    StreamId::from_bytes(u128::from(number + 1).to_be_bytes())
}

/// The label that ten records far from each other have.
fn label(number: u64) -> Label {
    Label((number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Each record has the payload's words so often.
fn find(folder: &Path, records: u64, words: usize) -> io::Result<()> {
    let labels = records / SHARED;
    let options = OpenOptions {
        durability: Durability::Os,
        ..OpenOptions::default()
    };
    let store = Store::open(folder, options).map_err(io::Error::other)?;
    let payload = "words of a message that somebody wrote, as JSON would have them ".repeat(words);
    for first in (0..records).step_by(TOGETHER.try_into().unwrap_or(1)) {
        let labelled: Vec<[Label; 1]> = (first..first + TOGETHER)
            .map(|number| [label(number % labels)])
            .collect();
        let records: Vec<NewRecord<'_>> = labelled
            .iter()
            .map(|labels| NewRecord {
                labels,
                ..NewRecord::data(payload.as_bytes())
            })
            .collect();
        let op = Op::Append {
            stream: stream(first / TOGETHER % STREAMS),
            expected: Expected::Any,
            records,
        };
        store
            .commit(&Batch::new(vec![op]))
            .map_err(io::Error::other)?;
    }
    println!("as written: {}", look(&store, labels)?);
    if records > RECORDS {
        return store.close().map_err(io::Error::other);
    }
    store
        .compact(CompactOptions::default())
        .map_err(io::Error::other)?;
    println!("compacted: {}", look(&store, labels)?);
    store.close().map_err(io::Error::other)
}

fn look_again(folder: &Path, records: u64) -> io::Result<()> {
    let options = OpenOptions {
        mode: Mode::ReadOnly,
        ..OpenOptions::default()
    };
    let store = Store::open(folder, options).map_err(io::Error::other)?;
    println!("{}", look(&store, records / SHARED)?);
    Ok(())
}

/// How long it takes to find the first record of a label, all ten, the newest, and none.
fn look(store: &Store, labels: u64) -> io::Result<String> {
    let all = FindOptions::default();
    let first = FindOptions {
        limit: 1,
        ..all.clone()
    };
    let newest = FindOptions {
        direction: runlog_engine::Direction::Backward,
        ..first.clone()
    };
    let mut told: Vec<String> = Vec::new();
    for (what, options, base, expected) in [
        ("the first", first, 0, 1),
        ("the newest", newest, 0, 1),
        ("all 10", all.clone(), 0, SHARED),
        ("none", all, labels, 0),
    ] {
        let mut state = 88_172_645_463_325_252;
        let mut slices = Vec::new();
        for _ in 0..5 {
            let clock = Instant::now();
            for _ in 0..LOOKS / 5 {
                let wanted = label(base + next(&mut state) % labels);
                let records = store
                    .find(wanted, options.clone())
                    .map_err(io::Error::other)?;
                let count = records.filter(Result::is_ok).count() as u64;
                if count != expected {
                    return Err(io::Error::other(format!("found {count}, not {expected}")));
                }
            }
            slices.push(micros(clock.elapsed()) / (LOOKS / 5) as f64);
        }
        told.push(format!("{what} {:.1} µs", median(&slices)));
    }
    Ok(told.join(", "))
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
