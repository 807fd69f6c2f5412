//! The hot paths, each done a number of times that the caller says: `instructions PATH COUNT`.
//!
//! `cargo xtask bench --check` has a path's instructions counted for two such numbers. What is left of the second count
//! when the first is taken from it is what so many more cost, without what comes before and after. So that two runs do the same,
//! time and randomness are made up, and there are no threads.

use std::{
    env,
    error::Error,
    hint::black_box,
    ops::ControlFlow,
    path::Path,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use runlog_engine::{
    Durability, Expected, Host, Kind, NewRecord, OpenOptions, Position, ReadOptions, Record,
    RecordRef, Sequence, Store, StreamId, storage::MemoryStorage,
};
use runlog_model::{ContextEvent, EventOptions, InstanceId, MessageFold, NewContextEvent, RawJson};
use uuid::Uuid;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The paths, in the order in which they are told.
const PATHS: [&str; 9] = [
    "append, buffered",
    "append, durable",
    "append, buffered, batch of 100",
    "read a stream, active segment",
    "read a stream, sealed segments",
    "scan",
    "scan, for_each_ref",
    "read a stream, for_each_ref",
    "fold",
];
const EVENT_BYTES: usize = 1024;
const STREAMS: u64 = 20;
const BATCH: usize = 100;

/// A host that makes time and randomness up, the same in each run.
struct MadeUp(AtomicU64);

impl Host for MadeUp {
    fn now_ms(&self) -> u64 {
        1_700_000_000_000 + self.0.fetch_add(1, Ordering::Relaxed) / 16
    }

    fn random(&self, bytes: &mut [u8]) {
        let mut state = self
            .0
            .fetch_add(1, Ordering::Relaxed)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            | 1;
        for byte in bytes {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *byte = state.to_le_bytes()[3];
        }
    }

    fn has_threads(&self) -> bool {
        false
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["list"] => {
            PATHS.iter().for_each(|path| println!("{path}"));
            Ok(())
        }
        [path, count] => count
            .parse()
            .map_err(Into::into)
            .and_then(|count| walk(path, count)),
        _ => Err("usage: instructions list | PATH COUNT".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Goes so many times along a path, a thousand events each time.
fn walk(path: &str, count: u64) -> Result<()> {
    let folder = tempfile::tempdir()?;
    match path {
        "append, buffered" => append(&in_memory(Durability::Os)?, count * 1000, 1),
        "append, durable" => append(&in_memory(Durability::Sync)?, count * 1000, 1),
        "append, buffered, batch of 100" => {
            append(&in_memory(Durability::Os)?, count * 1000, BATCH)
        }
        "read a stream, active segment" => {
            let store = in_memory(Durability::Os)?;
            append(&store, 20 * 1000, 1)?;
            read(&store, count)
        }
        "read a stream, sealed segments" => read(&sealed(folder.path())?, count),
        "scan" => scan(&sealed(folder.path())?, count),
        "scan, for_each_ref" => {
            let store = sealed(folder.path())?;
            for _ in 0..count {
                let (mut log, mut seen) = (store.scan(Position::FIRST)?, Seen::default());
                log.for_each_ref(|record| seen.see(record));
                seen.end(1000)?;
            }
            Ok(())
        }
        "read a stream, for_each_ref" => {
            let store = sealed(folder.path())?;
            for number in 0..count {
                let (mut records, mut seen) = (
                    store.read(stream(number), ReadOptions::default())?,
                    Seen::default(),
                );
                records.for_each_ref(|record| seen.see(record));
                seen.end(1000)?;
            }
            Ok(())
        }
        "fold" => fold(count),
        _ => Err(format!("there is no path {path}").into()),
    }
}

fn options(durability: Durability) -> OpenOptions {
    OpenOptions {
        durability,
        ..OpenOptions::with_host(Arc::new(MadeUp(AtomicU64::new(0))))
    }
}

fn in_memory(durability: Durability) -> Result<Store> {
    Ok(Store::open_on(
        Arc::new(MemoryStorage::new()),
        options(durability),
    )?)
}

/// A store of 20,000 events in files, of which all but the last thousands are in sealed segments.
fn sealed(folder: &Path) -> Result<Store> {
    let path = folder.join("store");
    let small = |durability| OpenOptions {
        segment_bytes_max: 4 << 20,
        ..options(durability)
    };
    let store = Store::open(&path, small(Durability::Os))?;
    append(&store, STREAMS * 1000, 1)?;
    store.close()?;
    Ok(Store::open(&path, small(Durability::Os))?)
}

fn stream(number: u64) -> StreamId {
    StreamId(Uuid::from_u128(u128::from(number % STREAMS) + 1))
}

fn append(store: &Store, events: u64, batch: usize) -> Result<()> {
    let payload = vec![0x5a; EVENT_BYTES];
    let records = vec![NewRecord::data(&payload); batch];
    for number in 0..events / batch as u64 {
        black_box(store.append(stream(number), Expected::Any, &records)?);
    }
    Ok(())
}

fn read(store: &Store, count: u64) -> Result<()> {
    for number in 0..count {
        let mut seen = 0;
        for record in store.read(stream(number), ReadOptions::default())? {
            black_box(record?.payload.len());
            seen += 1;
        }
        expect(seen, 1000)?;
    }
    Ok(())
}

fn scan(store: &Store, count: u64) -> Result<()> {
    for _ in 0..count {
        let mut seen = 0;
        for record in store.scan(Position::FIRST)?.take(1000) {
            black_box(record?.payload.len());
            seen += 1;
        }
        expect(seen, 1000)?;
    }
    Ok(())
}

/// What was shown: a thousand records at most.
#[derive(Default)]
struct Seen {
    records: u64,
    failed: Option<runlog_engine::Error>,
}

impl Seen {
    fn see(&mut self, record: runlog_engine::Result<RecordRef<'_>>) -> ControlFlow<()> {
        match record {
            Ok(record) => {
                black_box(record.payload.len());
                self.records += 1;
            }
            Err(error) => self.failed = Some(error),
        }
        if self.records == 1000 || self.failed.is_some() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    fn end(self, wanted: u64) -> Result<()> {
        match self.failed {
            Some(error) => Err(error.into()),
            None => expect(self.records, wanted),
        }
    }
}

fn fold(count: u64) -> Result<()> {
    let messages = [
        r#"{"role":"user","content":"What is in the file?"}"#,
        r#"{"role":"assistant","content":"I look.","tool_calls":[{"id":"call_1","type":"function","function":{"name":"read","arguments":"{}"}}]}"#,
        r#"{"role":"tool","tool_call_id":"call_1","content":"one line"}"#,
        r#"{"role":"assistant","content":"It has one line."}"#,
    ];
    let mut records: Vec<Record> = Vec::new();
    for text in messages {
        let json = RawJson::parse(text.to_owned())?;
        for event in NewContextEvent::of_message(json, &EventOptions::default())? {
            records.push(Record {
                stream: stream(0),
                position: Position(records.len() as u64 + 1),
                sequence: Sequence(records.len() as u64 + 1),
                time_ms: 5,
                kind: Kind(event.kind.byte()),
                redacted: false,
                lost: false,
                meta: Bytes::from(event.encode_meta()?),
                payload: event.content.clone().into_bytes(),
            });
        }
    }
    for _ in 0..count {
        let (mut fold, mut seen) = (MessageFold::new(), 0);
        let mut messages = Vec::new();
        for record in records.iter().cycle().take(1000) {
            let event = ContextEvent::decode(InstanceId(Uuid::nil()), record)?;
            fold.push(&event, &mut messages)?;
            seen += black_box(&messages).len() as u64;
            messages.clear();
        }
        expect(seen, 800)?;
    }
    Ok(())
}

fn expect(found: u64, wanted: u64) -> Result<()> {
    if found == wanted {
        Ok(())
    } else {
        Err(format!("{found} events came, not {wanted}").into())
    }
}
