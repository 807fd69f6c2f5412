//! A process that waits until it can open a store to write: `closer FOLDER THREAD RECORDS`.
//!
//! It tries to open the store until no other has it, appends so many records to the stream of the thread, closes, and
//! prints a line `acknowledged SEQUENCE`. An error other than that another has the store ends it.

use runlog_engine::{ErrorKind, Expected, NewRecord, OpenOptions, Sequence, Store};
use runlog_tests::processes::{payload, stream};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, thread, records] = &arguments[..] else {
        return Err("expected three arguments".into());
    };
    let (thread, records): (u64, u64) = (thread.parse()?, records.parse()?);
    println!("waits");
    let store = loop {
        match Store::open(
            folder,
            OpenOptions {
                segment_bytes_max: 64 << 10,
                ..OpenOptions::default()
            },
        ) {
            Ok(store) => break store,
            Err(error) if error.kind() == ErrorKind::Locked => std::thread::yield_now(),
            Err(error) => return Err(error.into()),
        }
    };
    let last = store
        .stream(stream(thread))?
        .map_or(0, |info| info.last_sequence.0);
    for sequence in last + 1..=last + records {
        let payload = payload(thread, sequence);
        store.append(
            stream(thread),
            Expected::Last(Sequence(sequence - 1)),
            &[NewRecord::data(&payload)],
        )?;
    }
    store.close()?;
    println!("acknowledged {}", last + records);
    Ok(())
}
