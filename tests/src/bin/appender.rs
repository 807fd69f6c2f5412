//! A process that appends records of known content and says so, to be killed: `appender FOLDER THREADS`.
//!
//! Prints a line `THREAD SEQUENCE` once a record is acknowledged. Thread n writes to stream n + 1; the payload of a record
//! is told by both numbers alone.

use std::io::Write;

use runlog_engine::{Expected, NewRecord, OpenOptions, Sequence, Store};
use runlog_tests::processes::{payload, stream};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (folder, threads) = (arguments.next().ok_or("no folder")?, arguments.next().ok_or("no threads")?.parse()?);
    let options = OpenOptions { segment_bytes_max: 1 << 20, ..OpenOptions::default() };
    let store = Store::open(folder, options)?;
    println!("open");
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let store = store.clone();
            scope.spawn(move || {
                let last = store.stream(stream(thread)).expect("it reads").map_or(0, |info| info.last_sequence.0);
                for sequence in last + 1.. {
                    let payload = payload(thread, sequence);
                    let expected = Expected::Last(Sequence(sequence - 1));
                    if store.append(stream(thread), expected, &[NewRecord::data(&payload)]).is_err() {
                        return;
                    }
                    let mut out = std::io::stdout().lock();
                    if writeln!(out, "{thread} {sequence}").and_then(|()| out.flush()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    Ok(())
}
