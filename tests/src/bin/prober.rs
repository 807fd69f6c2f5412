//! A process that tries something on a store that may hurt: `prober read|write|verify|repair FOLDER`.
//!
//! Prints a line with the most bytes of memory it had at one time, and what came of it: whatever that is, it is an answer.

use std::{path::Path, sync::Arc};

use runlog_engine::{
    Expected, NewRecord, OpenOptions, Position, Result, Store,
    storage::{FsStorage, Storage},
};
use runlog_tests::{memory, processes::stream};

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [way, folder] = &arguments[..] else {
        panic!("expected a way and a folder")
    };
    let folder = Path::new(folder);
    let options = OpenOptions {
        segment_bytes_max: 64 << 10,
        ..OpenOptions::default()
    };
    let outcome = match way.as_str() {
        "read" => Store::open(folder, options.read_only()).and_then(|store| read_all(&store)),
        "write" => Store::open(folder, options).and_then(|store| {
            store.append(stream(7), Expected::Any, &[NewRecord::data(b"one more")])?;
            let read = read_all(&store);
            store.close().and(read)
        }),
        "verify" => runlog_engine::verify(&FsStorage::new(folder))
            .map(|found| format!("{:?}", found.problems.first())),
        "repair" => {
            let storage: Arc<dyn Storage> = Arc::new(FsStorage::new(folder));
            runlog_engine::repair(&storage, "a person", &runlog_engine::SystemHost)
                .map(|repair| format!("{:?}", repair.actions))
        }
        _ => panic!("no way {way}"),
    };
    let told = outcome.unwrap_or_else(|error| format!("{:?}: {error}", error.kind()));
    println!("{} {told}", memory::peak_bytes());
}

fn read_all(store: &Store) -> Result<String> {
    let damaged = store
        .scan(Position::FIRST)?
        .take(100_000)
        .filter(Result::is_err)
        .count();
    for info in store.streams()? {
        store
            .read(info.id, runlog_engine::ReadOptions::default())?
            .take(100_000)
            .for_each(drop);
    }
    store.stat()?;
    Ok(format!("read, {damaged} errors"))
}
