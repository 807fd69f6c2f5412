//! Conversations at rest: what they take on disk once each store has compacted them, and how long it takes to read one.
//!
//! `at-rest FILE [BYTES]`: [conversations](runlog_benches::conversations) like those of a file of JSON lines, each with
//! a list of `messages`, until the messages have so many bytes, 1 GB unless given. Fifty are at work at a time, as agents are:
//! each adds a message in turn. Disk takes the same in every run, so there is one round.

use std::{
    collections::VecDeque,
    fs::{self, File},
    io::{self, BufWriter, Read as _, Write as _},
    path::{Path, PathBuf},
    time::Instant,
};

use runlog_benches::{
    conversations::{Conversations, next},
    measure::median,
    workload,
};

use crate::{
    USAGE,
    run::bytes_on_disk,
    stores::{Peer, Promise, Store},
};

const STORES: &[&str] = &["Runlog", "SQLite", "RocksDB", "fjall"];
const AT_WORK: usize = 50;
const BYTES: usize = 1_000_000_000;
/// How many conversations are read once all is compacted.
const READS: usize = 300;
/// The level of zstd that is its default, and RocksDB's.
const LEVEL: i32 = 3;

pub fn main(arguments: &[&str]) -> io::Result<()> {
    let usage = || io::Error::other(USAGE);
    let (file, bytes) = match arguments {
        [file] => (file, BYTES),
        [file, bytes] => (file, bytes.parse().map_err(|_| usage())?),
        _ => return Err(usage()),
    };
    let text = fs::read_to_string(file)?;
    let folder = workload::folder()?;
    println!(
        "| | bytes on disk for each of payload | compacted in, s | one conversation read, µs |"
    );
    println!("| --- | ---: | ---: | ---: |");
    for name in STORES {
        match Peer::named(name) {
            Ok(peer) => at_rest(peer, &folder.path().join(name), &text, bytes)?,
            Err(error) => eprintln!("{error}"),
        }
        fs::remove_dir_all(folder.path().join(name)).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })?;
    }
    files_of_zstd(folder.path(), &text, bytes)
}

fn at_rest(peer: &Peer, path: &Path, text: &str, bytes: usize) -> io::Result<()> {
    let store = (peer.open)(path, Promise::Buffered)?;
    let written = write(&*store, text, bytes)?;
    store.sync()?;
    let clock = Instant::now();
    store.compact()?;
    let compacted = clock.elapsed().as_secs_f64();
    // What a store gives back only when it is closed counts as given back.
    store.close()?;
    let disk = bytes_on_disk(path)?;
    let store = (peer.open)(path, Promise::Buffered)?;
    let micros = read(written.conversations, |number| {
        let mut seen = 0;
        store.read(number, &mut |event| seen += event.len())?;
        Ok(seen)
    })?;
    row(
        peer.name,
        disk,
        written,
        &format!("{compacted:.1}"),
        &format!("{micros:.0}"),
    );
    store.close()
}

/// What was written: so many conversations, whose messages have so many bytes.
#[derive(Clone, Copy)]
struct Written {
    conversations: u32,
    bytes: usize,
}

fn write(store: &dyn Store, text: &str, bytes: usize) -> io::Result<Written> {
    let mut made = Conversations::new(text)?;
    let mut at_work: VecDeque<(u32, VecDeque<String>)> = VecDeque::new();
    let mut written = Written {
        conversations: 0,
        bytes: 0,
    };
    loop {
        while at_work.len() < AT_WORK && written.bytes < bytes {
            let Some(line) = made.next() else { break };
            at_work.push_back((written.conversations, messages(&line)?.into()));
            written.conversations += 1;
        }
        let Some((number, mut rest)) = at_work.pop_front() else {
            return Ok(written);
        };
        if let Some(message) = rest.pop_front() {
            store.append(number, &[message.as_bytes()])?;
            written.bytes += message.len();
            at_work.push_back((number, rest));
        }
    }
}

/// The messages of a line, each as JSON.
fn messages(line: &str) -> io::Result<Vec<String>> {
    let mut line: serde_json::Value = serde_json::from_str(line)?;
    match line["messages"].take() {
        serde_json::Value::Array(messages) => {
            Ok(messages.iter().map(ToString::to_string).collect())
        }
        _ => Err(io::Error::other("a line has no list of messages")),
    }
}

/// The median time of reading a conversation, in microseconds.
fn read(conversations: u32, mut read: impl FnMut(u32) -> io::Result<usize>) -> io::Result<f64> {
    let mut state = 88_172_645_463_325_252;
    let mut took = Vec::with_capacity(READS);
    for _ in 0..READS {
        let number = (next(&mut state) % u64::from(conversations.max(1))) as u32;
        let clock = Instant::now();
        let bytes = read(number)?;
        took.push(clock.elapsed().as_secs_f64() * 1e6);
        if bytes == 0 {
            return Err(io::Error::other(format!("conversation {number} is empty")));
        }
    }
    Ok(median(&took))
}

/// The same as JSON lines: a compressed file for each conversation, and one for all, of which none can be read alone.
fn files_of_zstd(folder: &Path, text: &str, bytes: usize) -> io::Result<()> {
    let (each, all) = (folder.join("each"), folder.join("all"));
    fs::create_dir_all(&each)?;
    fs::create_dir_all(&all)?;
    let file_of = |number: u32| -> PathBuf { each.join(format!("{number}.jsonl.zst")) };
    let whole = BufWriter::new(File::create(all.join("all.jsonl.zst"))?);
    let mut whole = zstd::Encoder::new(whole, LEVEL)?;
    let mut written = Written {
        conversations: 0,
        bytes: 0,
    };
    for line in Conversations::new(text)? {
        if written.bytes >= bytes {
            break;
        }
        let mut lines = String::new();
        for message in messages(&line)? {
            written.bytes += message.len();
            lines.push_str(&message);
            lines.push('\n');
        }
        whole.write_all(lines.as_bytes())?;
        let packed = zstd::encode_all(lines.as_bytes(), LEVEL)?;
        fs::write(file_of(written.conversations), packed)?;
        written.conversations += 1;
    }
    whole.finish()?.flush()?;
    let micros = read(written.conversations, |number| {
        let mut lines = String::new();
        zstd::Decoder::new(File::open(file_of(number))?)?.read_to_string(&mut lines)
    })?;
    rustix::fs::sync();
    row(
        "a JSONL.zst for each",
        bytes_on_disk(&each)?,
        written,
        "",
        &format!("{micros:.0}"),
    );
    row("one JSONL.zst", bytes_on_disk(&all)?, written, "", "");
    Ok(())
}

fn row(name: &str, disk: f64, written: Written, compacted: &str, micros: &str) {
    println!(
        "| {name} | {:.3} | {compacted} | {micros} |",
        disk / written.bytes as f64
    );
    eprintln!(
        "{name}: {:.1} MB for {} conversations of {:.1} MB",
        disk / 1e6,
        written.conversations,
        written.bytes as f64 / 1e6
    );
}
