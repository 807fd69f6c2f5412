//! The store that is measured: the few calls that benchmarks make of it, in one place.

use std::{
    collections::VecDeque,
    io,
    path::Path,
    sync::{
        Barrier,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use runlog_engine::{
    Batch, Durability, Expected, NewRecord, Op, OpenOptions, Position, ReadOptions, Store, StreamId,
};

use crate::{
    measure::per_second,
    workload::{EVENTS_PER_STREAM, STREAMS, payload, stream},
};

/// The most buffered appends that wait at one time.
const STAGED_MAX: usize = 1 << 16;

/// Opens a store to write, or makes it.
///
/// # Errors
///
/// Those of the engine.
pub fn open(path: &Path) -> io::Result<Store> {
    Store::open(path, OpenOptions::default()).map_err(io::Error::other)
}

/// The same for appends that are acknowledged once the operating system has them.
///
/// # Errors
///
/// Those of the engine.
pub fn open_buffered(path: &Path) -> io::Result<Store> {
    Store::open(
        path,
        OpenOptions {
            durability: Durability::Os,
            ..OpenOptions::default()
        },
    )
    .map_err(io::Error::other)
}

/// Appends records to a stream at once, and returns when they are durable.
///
/// # Errors
///
/// Those of the engine.
pub fn append(store: &Store, stream: StreamId, payload: &[u8], count: usize) -> io::Result<u64> {
    let records = vec![NewRecord::data(payload); count];
    store
        .append(stream, Expected::Any, &records)
        .map_err(io::Error::other)?;
    Ok(count as u64)
}

/// Durable events per second of this many threads, each of which appends one event at a time to its own stream and
/// waits for it.
///
/// # Errors
///
/// The first error of a thread.
pub fn durable_events(store: &Store, writers: u32, budget: Duration) -> io::Result<f64> {
    let (start, end) = (Barrier::new(writers as usize + 1), AtomicBool::new(false));
    let events = AtomicU64::new(0);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..writers)
            .map(|writer| {
                let (start, end, events) = (&start, &end, &events);
                scope.spawn(move || {
                    let (stream, payload) = (stream(writer), payload(u64::from(writer)));
                    start.wait();
                    while !end.load(Ordering::Relaxed) {
                        events.fetch_add(append(store, stream, &payload, 1)?, Ordering::Relaxed);
                    }
                    Ok::<_, io::Error>(())
                })
            })
            .collect();
        start.wait();
        let clock = Instant::now();
        thread::sleep(budget);
        let (events, elapsed) = (events.load(Ordering::Relaxed), clock.elapsed());
        end.store(true, Ordering::Relaxed);
        for thread in threads {
            thread
                .join()
                .map_err(|_| io::Error::other("a writer panicked"))??;
        }
        Ok(per_second(events, elapsed))
    })
}

/// Appends `count` events of 1 KiB without waiting for each, one to a batch, the streams in turns, and returns when
/// the store has acknowledged them all.
///
/// # Errors
///
/// Those of the engine.
pub fn append_buffered(store: &Store, count: u64) -> io::Result<()> {
    let payloads: Vec<Vec<u8>> = (0..64).map(payload).collect();
    let streams: Vec<StreamId> = (0..STREAMS).map(stream).collect();
    let mut waiting = VecDeque::with_capacity(STAGED_MAX);
    for ((stream, payload), _) in streams
        .iter()
        .cycle()
        .zip(payloads.iter().cycle())
        .zip(0..count)
    {
        if waiting.len() == STAGED_MAX {
            wait_for(waiting.pop_front())?;
        }
        let records = vec![NewRecord::data(payload)];
        let append = Op::Append {
            stream: *stream,
            expected: Expected::Any,
            records,
        };
        waiting.push_back(
            store
                .stage(&Batch::new(vec![append]))
                .map_err(io::Error::other)?,
        );
    }
    waiting
        .into_iter()
        .try_for_each(|commit| wait_for(Some(commit)))
}

/// Appends `count` events of 1 KiB, or a little more, in durable batches of 100, the streams in turns.
///
/// # Errors
///
/// Those of the engine.
pub fn append_in_batches(store: &Store, count: u64) -> io::Result<()> {
    let mut streams = (0..STREAMS).cycle().map(stream);
    let mut appended = 0;
    while appended < count {
        let stream = streams.next().unwrap_or(stream(0));
        appended += append(store, stream, &payload(appended), 100)?;
    }
    Ok(())
}

fn wait_for(commit: Option<runlog_engine::Commit>) -> io::Result<()> {
    commit.map_or(Ok(()), |commit| {
        commit.wait().map(drop).map_err(io::Error::other)
    })
}

/// Makes a store of a [million events](crate::workload), the records of each stream scattered over all of it.
///
/// # Errors
///
/// Those of the engine.
pub fn prepare(path: &Path) -> io::Result<Store> {
    let store = open_buffered(path)?;
    append_buffered(&store, u64::from(STREAMS) * u64::from(EVENTS_PER_STREAM))?;
    Ok(store)
}

/// Reads one stream from its start to its end; says how many records of data it had.
///
/// # Errors
///
/// Those of the engine.
pub fn read(store: &Store, stream: StreamId) -> io::Result<u64> {
    count(
        store
            .read(stream, ReadOptions::default())
            .map_err(io::Error::other)?,
    )
}

/// Reads every record of a store in the order of the log; says how many of data it had.
///
/// # Errors
///
/// Those of the engine.
pub fn scan(store: &Store) -> io::Result<u64> {
    count(store.scan(Position::FIRST).map_err(io::Error::other)?)
}

/// Looks at the first and last byte of each payload, as the least that a reader does.
fn count(
    records: impl Iterator<Item = runlog_engine::Result<runlog_engine::Record>>,
) -> io::Result<u64> {
    let mut count = 0;
    for record in records {
        let record = record.map_err(io::Error::other)?;
        std::hint::black_box((record.payload.first(), record.payload.last()));
        count += u64::from(record.kind.is_data());
    }
    Ok(count)
}

/// Closes a store, so that its next opening has nothing to recover.
///
/// # Errors
///
/// Those of the engine.
pub fn close(store: Store) -> io::Result<()> {
    store.close().map_err(io::Error::other)
}
