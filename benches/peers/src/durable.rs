//! Durable appends: one writer and many, alone and in batches, beside the writes and flushes of a plain file.

use std::{
    io,
    sync::{
        Barrier, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use runlog_benches::{
    floor::{self, ZeroFilled},
    measure::{per_second, rate},
};

use crate::{
    events::{EVENT_BYTES, Pool},
    run::{Better, FLOOR, Measured, Run},
    stores::{Promise, Store},
};

const fn row(name: &'static str) -> Measured {
    Measured {
        name,
        unit: "events/s",
        better: Better::Higher,
    }
}

/// The rows, and how many write at a time; the last has batches instead.
const ROWS: [(Measured, u32); 4] = [
    (row("durable, 1 writer"), 1),
    (row("durable, 8 writers"), 8),
    (row("durable, 64 writers"), 64),
    (row("durable, 1 writer, batches of 100"), BATCH),
];
const BATCH: u32 = 100;

pub fn measure(run: &mut Run) -> io::Result<()> {
    if !run.wants(&ROWS.map(|(row, _)| row)) {
        return Ok(());
    }
    let stores = run.open_all("durable", Promise::Durable);
    let mut file = ZeroFilled::create(&run.path("floor", ""), ZeroFilled::SIZE)?;
    let slice = run.settings.slice;
    for (measured, count) in ROWS {
        if !run.wants(&[measured]) {
            continue;
        }
        let is_batch = measured.name == ROWS[3].0.name;
        let turn = |run: &Run, store: &dyn Store| match is_batch {
            true => batches(store, &run.pool, slice),
            false => writers(store, &run.pool, count, slice),
        };
        // The first turn makes streams and whatever else is made once.
        for (name, store) in &stores {
            run.turn(measured.name, name, |run| turn(run, &**store));
        }
        run.rounds(measured.name, |run, _, peer| {
            let name = run.peers[peer].name;
            if peer == 0 {
                let events = floor::durable_events(&mut file, EVENT_BYTES, count as usize, slice)?;
                run.figure(measured, FLOOR, events);
            }
            if let Some(store) = stores.get(name) {
                let events = turn(run, &**store)?;
                run.figure(measured, name, events);
            }
            Ok(())
        });
    }
    for (name, store) in stores {
        run.turn("closing", name, |_| store.close());
        run.remove("durable", name)?;
    }
    Ok(())
}

fn batches(store: &dyn Store, pool: &Pool, slice: Duration) -> io::Result<f64> {
    let mut number = 0;
    rate(slice, || {
        store.append(0, &pool.batch(number, u64::from(BATCH)))?;
        number += u64::from(BATCH);
        Ok(u64::from(BATCH))
    })
}

/// Events a second of so many threads, each of which appends one to its own stream, waits for it, and goes on.
fn writers(store: &dyn Store, pool: &Pool, writers: u32, slice: Duration) -> io::Result<f64> {
    with_writers(store, pool, 0, writers, || thread::sleep(slice))
}

/// Events a second that threads append while `work` lasts; their streams begin with `first`.
pub fn with_writers(
    store: &dyn Store,
    pool: &Pool,
    first: u32,
    writers: u32,
    work: impl FnOnce(),
) -> io::Result<f64> {
    let (start, end, events) = (
        Barrier::new(writers as usize + 1),
        AtomicBool::new(false),
        AtomicU64::new(0),
    );
    let failed = Mutex::new(None);
    let rate = thread::scope(|scope| {
        for writer in 0..writers {
            let (start, end, events, failed) = (&start, &end, &events, &failed);
            scope.spawn(move || {
                let mut number = u64::from(writer) * 1000;
                start.wait();
                while !end.load(Ordering::Relaxed) {
                    if let Err(error) = store.append(first + writer, &[pool.event(number)]) {
                        if let Ok(mut failed) = failed.lock() {
                            *failed = Some(error);
                        }
                        return;
                    }
                    events.fetch_add(1, Ordering::Relaxed);
                    number += 1;
                }
            });
        }
        start.wait();
        let clock = Instant::now();
        work();
        let rate = per_second(events.load(Ordering::Relaxed), clock.elapsed());
        end.store(true, Ordering::Relaxed);
        rate
    });
    match failed
        .into_inner()
        .map_err(|_| io::Error::other("poisoned"))?
    {
        Some(error) => Err(error),
        None => Ok(rate),
    }
}
