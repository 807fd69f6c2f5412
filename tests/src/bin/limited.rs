//! A process for a shell that limits it first: `limited make FOLDER SEGMENTS` or `limited use FOLDER RECORDS TURNS`.
//!
//! `make` appends so many records, each of which begins a segment. `use` opens the store, reads everything, verifies, and
//! appends so many more.

use std::{path::Path, sync::Arc};

use runlog_engine::{
    Durability, Expected, NewRecord, OpenOptions, Position, Preallocation, ReadOptions, Sequence,
    Store, storage::FsStorage, verify,
};
use runlog_tests::{host::TestHost, processes::stream};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["make", folder, segments] => make(Path::new(folder), segments.parse()?),
        ["use", folder, records, turns] => {
            use_all(Path::new(folder), records.parse()?, turns.parse()?)
        }
        _ => Err("expected make or use".into()),
    }
}

/// Longer than the times of one segment's records may lie apart, so that files are small and many.
const BETWEEN_RECORDS_MS: u64 = 60 * 24 * 3_600_000;

fn options(host: &TestHost) -> OpenOptions {
    OpenOptions {
        segment_bytes_max: 64 << 10,
        durability: Durability::Os,
        preallocation: Preallocation::None,
        host: Arc::new(host.clone()),
        ..OpenOptions::default()
    }
}

fn host(records: u64) -> TestHost {
    let host = TestHost::new(records).with_threads();
    host.pass_ms(records * BETWEEN_RECORDS_MS);
    host
}

fn payload(sequence: u64) -> Vec<u8> {
    sequence.to_le_bytes().repeat(100)
}

fn append(store: &Store, host: &TestHost, sequence: u64) -> Outcome<()> {
    let payload = payload(sequence);
    host.pass_ms(BETWEEN_RECORDS_MS);
    store.append(
        stream(0),
        Expected::Last(Sequence(sequence - 1)),
        &[NewRecord::data(&payload)],
    )?;
    Ok(())
}

fn make(folder: &Path, segments: u64) -> Outcome<()> {
    let host = host(0);
    let store = Store::open(folder, options(&host))?;
    (1..=segments).try_for_each(|sequence| append(&store, &host, sequence))?;
    let found = store.stat()?.segments;
    if found < segments {
        return Err(format!("{found} segments were made, not {segments}").into());
    }
    Ok(store.close()?)
}

fn use_all(folder: &Path, records: u64, turns: u64) -> Outcome<()> {
    let host = host(records);
    let reader = Store::open(folder, options(&host).read_only())?;
    read_all(&reader, records)?;
    let found = verify(&FsStorage::new(folder))?;
    if !found.is_sound() {
        return Err(format!("not sound: {:?}", found.problems.first()).into());
    }
    let store = Store::open(folder, options(&host))?;
    (records + 1..=records + turns).try_for_each(|sequence| append(&store, &host, sequence))?;
    read_all(&store, records + turns)?;
    read_all(&reader, records + turns)?;
    Ok(store.close()?)
}

fn read_all(store: &Store, records: u64) -> Outcome<()> {
    let mut count = 0;
    for (record, sequence) in store.read(stream(0), ReadOptions::default())?.zip(1..) {
        if record?.payload != payload(sequence) {
            return Err(format!("sequence {sequence} has another payload").into());
        }
        count = sequence;
    }
    // The record that makes the stream is one more.
    let scanned = store
        .scan(Position::FIRST)?
        .try_fold(0, |count, record| record.map(|_| count + 1))?;
    if (count, scanned) != (records, records + 1) {
        return Err(format!(
            "{count} and {scanned} records are read, {records} and one more are there"
        )
        .into());
    }
    Ok(())
}
