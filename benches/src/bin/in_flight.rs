//! What the Rust API reaches where JavaScript is measured beside it: `cargo xtask bench-js` runs it in its rounds.
//!
//! Prints one JSON object: events a second, for events of 1 KiB that are durable with 1,000 in flight, durable one by
//! one, and buffered in batches of 256.

use std::{env, path::PathBuf, time::Instant};

use runlog_engine::{Batch, Durability, Expected, NewRecord, Op, OpenOptions, Store, StreamId};

const EVENT_BYTES: usize = 1024;
const IN_FLIGHT: usize = 1000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = PathBuf::from(env::args_os().nth(1).ok_or("usage: in_flight FOLDER [ROUNDS]")?);
    let rounds: usize = env::args().nth(2).map_or(Ok(50), |rounds| rounds.parse())?;
    let store = Store::open(folder.join("in-flight"), OpenOptions::default())?;
    let stream = StreamId(store.new_id());
    let event = vec![b'x'; EVENT_BYTES];
    let append = |records: Vec<NewRecord<'static>>| Op::Append { stream, expected: Expected::Any, records };
    let event: &'static [u8] = event.leak();
    let one = || Batch::new(vec![append(vec![NewRecord::data(event)])]);

    let one_by_one = rate(rounds * 20, || {
        for _ in 0..rounds * 20 {
            store.commit(&one())?;
        }
        Ok(())
    })?;
    let in_flight = rate(rounds * IN_FLIGHT, || {
        for _ in 0..rounds {
            let commits: Vec<_> = (0..IN_FLIGHT).map(|_| store.stage(&one())).collect::<Result<_, _>>()?;
            for commit in commits {
                commit.wait()?;
            }
        }
        Ok(())
    })?;
    store.close()?;
    let options = OpenOptions { durability: Durability::Os, ..OpenOptions::default() };
    let store = Store::open(folder.join("buffered"), options)?;
    let many = vec![NewRecord::data(event); 256];
    let buffered = rate(rounds * 4 * 256, || {
        for _ in 0..rounds * 4 {
            store.commit(&Batch::new(vec![append(many.clone())]))?;
        }
        Ok(())
    })?;
    store.close()?;
    println!("{{\"inFlight\":{in_flight:.0},\"oneByOne\":{one_by_one:.0},\"buffered\":{buffered:.0}}}");
    Ok(())
}

fn rate(count: usize, work: impl FnOnce() -> runlog_engine::Result<()>) -> runlog_engine::Result<f64> {
    let start = Instant::now();
    work()?;
    Ok(count as f64 / start.elapsed().as_secs_f64())
}
