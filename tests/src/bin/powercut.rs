//! A process that works on a store whose disk is recorded: `powercut FOLDER TALLY START PAST SEED THREADS OPERATIONS`.
//!
//! Each thread does so many operations after those of the past, and prints a line `THREAD NUMBER POSITION EVENTS` when
//! one was acknowledged, with a `durable` behind it if it was so as durable: EVENTS is how far the recording was just
//! then, so the acknowledgement came no later than that. At the end the store is closed.

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use std::{io::Write, path::Path, sync::Arc};

    use runlog_engine::{OpenOptions, Store, storage::FsStorage};
    use runlog_tests::{powercut::work::Past, restarted::Restarted, tally::Tally};

    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, tally, start, past, seed, threads, operations] = &arguments[..] else {
        return Err("expected seven arguments".into());
    };
    let tally = Tally::open(Path::new(tally))?;
    let (past, seed): (Past, u64) = (past.parse()?, seed.parse()?);
    let (threads, operations): (u64, u64) = (threads.parse()?, operations.parse()?);
    let storage = Restarted::new(FsStorage::new(folder), start.parse()?);
    let options = OpenOptions {
        segment_bytes_max: 64 << 10,
        ..OpenOptions::default()
    };
    let store = Store::open_on(Arc::new(storage), options)?;
    let acknowledged = |thread: u64, number: u64, position: u64, is_durable: bool| {
        let events = tally.get().expect("the tally is there");
        let durable = if is_durable { " durable" } else { "" };
        let mut out = std::io::stdout().lock();
        writeln!(out, "{thread} {number} {position} {events}{durable}")
            .and_then(|()| out.flush())
            .expect("it is read");
    };
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (store, past, acknowledged) = (&store, &past, &acknowledged);
            scope.spawn(move || {
                let mut state = past.state(thread);
                for number in 1..=operations {
                    let operation = state.next(seed, thread, number);
                    let position = operation
                        .run(store)
                        .unwrap_or_else(|error| panic!("{operation:?}: {error}"));
                    acknowledged(thread, number, position, operation.is_durable());
                    if number.is_multiple_of(64) {
                        store.sync().expect("it is flushed");
                        acknowledged(thread, number, position, true);
                    }
                }
            });
        }
    });
    let last = store.last_position()?.0;
    store.close()?;
    acknowledged(0, operations, last, true);
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn main() {}
