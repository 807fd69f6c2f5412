//! A process that appends records of known content and says so, to be killed: `appender FOLDER THREADS`.
//!
//! Prints a line `THREAD SEQUENCE` once the records up to that sequence are acknowledged. Each thread writes batches of
//! one to three records to a stream of its own, every third thread without flushing them; the payload of a record is told
//! by thread and sequence alone.

use std::io::Write;

use runlog_engine::{Batch, Durability, Expected, NewRecord, Op, OpenOptions, Sequence, Store};
use runlog_tests::processes::{payload, stream};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (folder, threads) = (
        arguments.next().ok_or("no folder")?,
        arguments.next().ok_or("no threads")?.parse()?,
    );
    let options = OpenOptions {
        segment_bytes_max: 1 << 20,
        ..OpenOptions::default()
    };
    let store = Store::open(folder, options)?;
    println!("open");
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let store = store.clone();
            scope.spawn(move || {
                let durability = if thread % 3 == 2 {
                    Durability::Os
                } else {
                    Durability::Sync
                };
                let mut last = store
                    .stream(stream(thread))
                    .expect("it reads")
                    .map_or(0, |info| info.last_sequence.0);
                loop {
                    let payloads: Vec<_> = (0..=last % 3)
                        .map(|next| payload(thread, last + 1 + next))
                        .collect();
                    let append = Op::Append {
                        stream: stream(thread),
                        expected: Expected::Last(Sequence(last)),
                        records: payloads
                            .iter()
                            .map(|payload| NewRecord::data(payload))
                            .collect(),
                    };
                    if store
                        .commit(&Batch::new(vec![append]).with_durability(durability))
                        .is_err()
                    {
                        return;
                    }
                    last += payloads.len() as u64;
                    let mut out = std::io::stdout().lock();
                    if writeln!(out, "{thread} {last}")
                        .and_then(|()| out.flush())
                        .is_err()
                    {
                        return;
                    }
                }
            });
        }
    });
    Ok(())
}
