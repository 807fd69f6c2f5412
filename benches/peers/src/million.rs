//! A store of a million events: how fast it is filled, opened, read and scanned, and how large it is.

use std::{
    fs::{self, File},
    hint::black_box,
    io::{self, Write as _},
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::Instant,
};

use runlog_benches::{
    floor,
    measure::per_second,
    workload::{Random, evict},
};

use crate::{
    child, durable,
    events::{EVENT_BYTES, Pool},
    run::{Better, FLOOR, Measured, Run, bytes_on_disk},
    stores::{Has, Promise, Store},
};

/// The events of each stream.
const EVENTS_PER_STREAM: u64 = 1000;
const BATCH: u64 = 100;
/// So many streams are read for one figure of warm reads.
const WARM_STREAMS: u32 = 20;
/// What is appended before a store is killed, durably.
const KILLED_AFTER: u64 = 10_000;

const fn row(name: &'static str, unit: &'static str, better: Better) -> Measured {
    Measured { name, unit, better }
}

const BATCHES: Measured = row(
    "1 M events, batches of 100, synced at the end",
    "thousand/s",
    Better::Higher,
);
const BATCHES_DISK: Measured = row(
    "1 M in batches: bytes on disk for each of payload",
    "bytes",
    Better::Lower,
);
const SINGLE: Measured = row(
    "1 M events, one by one over 1,000 streams, synced at the end",
    "thousand/s",
    Better::Higher,
);
const SINGLE_DISK: Measured = row(
    "1 M one by one: bytes on disk for each of payload",
    "bytes",
    Better::Lower,
);
const CLEAN: Measured = row("open 1 M cold, closed before", "ms", Better::Lower);
const KILLED: Measured = row("open 1 M cold, killed before", "ms", Better::Lower);
const COLD: Measured = row("one stream of 1,000 in 1 M, cold", "ms", Better::Lower);
const WARM: Measured = row("one stream of 1,000 in 1 M, warm", "ms", Better::Lower);
const COMPACTED_COLD: Measured = row(
    "one stream of 1,000 in 1 M, compacted, cold",
    "ms",
    Better::Lower,
);
const COMPACTED_WARM: Measured = row(
    "one stream of 1,000 in 1 M, compacted, warm",
    "ms",
    Better::Lower,
);
const SCAN_COLD: Measured = row("scan of 1 M, cold", "GB/s", Better::Higher);
const SCAN_WARM: Measured = row("scan of 1 M, warm", "GB/s", Better::Higher);
const MIXED_WRITES: Measured = row(
    "8 durable writers beside 4 readers: appends",
    "events/s",
    Better::Higher,
);
const MIXED_READS: Measured = row(
    "8 durable writers beside 4 readers: reads",
    "events/s",
    Better::Higher,
);

pub fn measure(run: &mut Run) -> io::Result<()> {
    if run.wants(&[BATCHES, BATCHES_DISK]) {
        in_batches(run)?;
    }
    if !run.wants(&[
        SINGLE,
        SINGLE_DISK,
        CLEAN,
        KILLED,
        COLD,
        WARM,
        SCAN_COLD,
        SCAN_WARM,
        MIXED_WRITES,
        MIXED_READS,
        COMPACTED_COLD,
        COMPACTED_WARM,
    ]) {
        return Ok(());
    }
    fill(run)?;
    if run.wants(&[CLEAN]) {
        openings(run, CLEAN);
    }
    if run.wants(&[COLD, WARM, SCAN_COLD, SCAN_WARM]) {
        reads(run);
    }
    if run.wants(&[MIXED_WRITES, MIXED_READS]) {
        mixed(run);
    }
    // Late, since what is appended before each kill stays.
    if run.wants(&[KILLED]) {
        openings(run, KILLED);
    }
    if run.wants(&[COMPACTED_COLD, COMPACTED_WARM]) {
        compacted_reads(run);
    }
    for peer in 0..run.peers.len() {
        run.remove("million", run.peers[peer].name)?;
    }
    fs::remove_file(run.path("raw", "")).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })
}

fn events(run: &Run) -> u64 {
    u64::from(run.settings.streams) * EVENTS_PER_STREAM
}

fn thousand_per_second(events: u64, clock: Instant) -> f64 {
    per_second(events, clock.elapsed()) / 1e3
}

/// Each round fills a store of its own. A round before them is left out: it is given its memory by the machine below.
fn in_batches(run: &mut Run) -> io::Result<()> {
    let count = events(run);
    let what = BATCHES.name;
    for round in 0..=run.settings.rounds {
        eprintln!(
            "{what}: round {round} of {}, the first left out",
            run.settings.rounds
        );
        let seconds = raw_file(run)?;
        if round > 0 {
            run.figure(BATCHES, FLOOR, count as f64 / seconds / 1e3);
        }
        for place in 0..run.peers.len() {
            let peer = (place + round) % run.peers.len();
            let (name, open, has) = (
                run.peers[peer].name,
                run.peers[peer].open,
                run.peers[peer].has,
            );
            if has == Has::Entries {
                continue;
            }
            let path = run.path("batches", name);
            run.turn(what, name, |run| {
                let clock = Instant::now();
                let store = open(&path, Promise::Buffered)?;
                for batch in 0..count / BATCH {
                    let stream = u32::try_from(batch % u64::from(run.settings.streams))
                        .map_err(io::Error::other)?;
                    store.append(stream, &run.pool.batch(batch * BATCH, BATCH))?;
                }
                store.sync()?;
                let rate = thousand_per_second(count, clock);
                store.close()?;
                if round > 0 {
                    run.figure(BATCHES, name, rate);
                    run.figure(
                        BATCHES_DISK,
                        name,
                        bytes_on_disk(&path)? / (count as f64 * EVENT_BYTES as f64),
                    );
                }
                Ok(())
            });
            run.remove("batches", name)?;
        }
    }
    Ok(())
}

/// The same bytes into one plain file, a mebibyte at a time, and one flush; says in how many seconds.
fn raw_file(run: &Run) -> io::Result<f64> {
    let count = events(run);
    let clock = Instant::now();
    let mut file = File::create(run.path("raw", ""))?;
    let mut buffer = Vec::with_capacity((1 << 20) + 2 * EVENT_BYTES);
    for number in 0..count {
        buffer.extend_from_slice(&[0xa5; floor::FRAME_OVERHEAD_BYTES]);
        buffer.extend_from_slice(run.pool.event(number));
        if buffer.len() >= 1 << 20 {
            file.write_all(&buffer)?;
            buffer.clear();
        }
    }
    file.write_all(&buffer)?;
    file.sync_data()?;
    Ok(clock.elapsed().as_secs_f64())
}

/// Stores whose streams are scattered over all of them, one event here and one there, as many agents at once write them.
fn fill(run: &mut Run) -> io::Result<()> {
    let count = events(run);
    raw_file(run)?;
    for peer in 0..run.peers.len() {
        let (name, open, has) = (
            run.peers[peer].name,
            run.peers[peer].open,
            run.peers[peer].has,
        );
        if has == Has::Entries {
            continue;
        }
        eprintln!("{}: {name}", SINGLE.name);
        let path = run.path("million", name);
        run.turn(SINGLE.name, name, |run| {
            let clock = Instant::now();
            let store = open(&path, Promise::Buffered)?;
            for number in 0..count {
                let stream = u32::try_from(number % u64::from(run.settings.streams))
                    .map_err(io::Error::other)?;
                store.append(stream, &[run.pool.event(number)])?;
            }
            store.sync()?;
            let rate = thousand_per_second(count, clock);
            store.close()?;
            run.figure(SINGLE, name, rate);
            run.figure(
                SINGLE_DISK,
                name,
                bytes_on_disk(&path)? / (count as f64 * EVENT_BYTES as f64),
            );
            Ok(())
        });
    }
    Ok(())
}

/// Openings in new processes, nothing of the files in memory.
fn openings(run: &mut Run, measured: Measured) {
    run.rounds(measured.name, |run, _, peer| {
        let (name, path) = (
            run.peers[peer].name,
            run.path("million", run.peers[peer].name),
        );
        if !run.has(SINGLE, name) {
            return Ok(());
        }
        if measured.name == KILLED.name {
            child::append_and_be_killed(name, &path, KILLED_AFTER)?;
        }
        evict(&path)?;
        run.figure(measured, name, child::open(name, &path)? * 1e3);
        Ok(())
    });
}

/// One pass over all, nothing in memory, and again; streams out of what is in memory then; one stream with nothing in it.
fn reads(run: &mut Run) {
    let mut random = Random::new(11);
    run.rounds("reads", |run, _, peer| {
        let (name, open) = (run.peers[peer].name, run.peers[peer].open);
        let path = run.path("million", name);
        if peer == 0 {
            raw_reads(run)?;
        }
        if !run.has(SINGLE, name) {
            return Ok(());
        }
        let mut stream =
            || u32::try_from(random.next() % u64::from(run.settings.streams)).unwrap_or(0);
        let streams: Vec<u32> = (0..=WARM_STREAMS).map(|_| stream()).collect();
        evict(&path)?;
        let store = open(&path, Promise::Buffered)?;
        for measured in [SCAN_COLD, SCAN_WARM] {
            match scan(&*store, events(run)) {
                Ok(rate) => run.figure(measured, name, rate),
                Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
                Err(error) => return Err(error),
            }
        }
        if run.peers[peer].has == Has::Streams {
            read(&*store, streams[0])?;
            run.figure(WARM, name, each(&*store, &streams[1..])?);
            store.close()?;
            evict(&path)?;
            let store = open(&path, Promise::Buffered)?;
            run.figure(COLD, name, each(&*store, &streams[..1])?);
            store.close()?;
        } else {
            store.close()?;
        }
        evict(&path)
    });
}

/// Streams of the stores that compact themselves, once they have: one with nothing in memory, then others twice, the second time counts.
fn compacted_reads(run: &mut Run) {
    let mut random = Random::new(12);
    let mut are_compacted = vec![false; run.peers.len()];
    run.rounds("compacted", |run, _, peer| {
        let (name, open) = (run.peers[peer].name, run.peers[peer].open);
        if run.peers[peer].has != Has::Streams || !run.has(SINGLE, name) {
            return Ok(());
        }
        let path = run.path("million", name);
        if !are_compacted[peer] {
            let store = open(&path, Promise::Buffered)?;
            match store.compact() {
                Err(error) if error.kind() == io::ErrorKind::Unsupported => return store.close(),
                compacted => compacted?,
            }
            store.close()?;
            are_compacted[peer] = true;
        }
        let mut stream =
            || u32::try_from(random.next() % u64::from(run.settings.streams)).unwrap_or(0);
        let streams: Vec<u32> = (0..=WARM_STREAMS).map(|_| stream()).collect();
        evict(&path)?;
        let store = open(&path, Promise::Buffered)?;
        run.figure(COMPACTED_COLD, name, each(&*store, &streams[..1])?);
        each(&*store, &streams[1..])?;
        run.figure(COMPACTED_WARM, name, each(&*store, &streams[1..])?);
        store.close()
    });
}

/// Milliseconds that reading each of some streams takes.
fn each(store: &dyn Store, streams: &[u32]) -> io::Result<f64> {
    let clock = Instant::now();
    for stream in streams {
        read(store, *stream)?;
    }
    Ok(clock.elapsed().as_secs_f64() * 1e3 / streams.len() as f64)
}

/// The same of one plain file.
fn raw_reads(run: &mut Run) -> io::Result<()> {
    let path = run.path("raw", "");
    let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
    let (count, piece) = (
        EVENTS_PER_STREAM as usize,
        EVENT_BYTES + floor::FRAME_OVERHEAD_BYTES,
    );
    let forget = || -> io::Result<()> {
        let file = File::open(&path)?;
        file.sync_all()?;
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        Ok(())
    };
    drop(folder);
    forget()?;
    run.figure(
        COLD,
        FLOOR,
        floor::scattered_read(&path, count, piece)? * 1e3,
    );
    forget()?;
    run.figure(SCAN_COLD, FLOOR, floor::sequential_read(&path)? / 1e9);
    run.figure(SCAN_WARM, FLOOR, floor::sequential_read(&path)? / 1e9);
    run.figure(
        WARM,
        FLOOR,
        floor::scattered_read(&path, count, piece)? * 1e3,
    );
    forget()
}

/// Reads a stream, and makes sure that it is whole.
fn read(store: &dyn Store, stream: u32) -> io::Result<()> {
    let mut seen = 0;
    store.read(stream, &mut |event| {
        black_box((event.first(), event.last()));
        seen += 1;
    })?;
    if seen == EVENTS_PER_STREAM {
        Ok(())
    } else {
        Err(io::Error::other(format!(
            "stream {stream} gave {seen} events"
        )))
    }
}

/// Reads everything, makes sure that all of it comes, and says how many gigabytes of payload a second.
fn scan(store: &dyn Store, least: u64) -> io::Result<f64> {
    let (mut seen, mut bytes) = (0, 0);
    let clock = Instant::now();
    store.scan(&mut |event| {
        black_box((event.first(), event.last()));
        seen += 1;
        bytes += event.len() as u64;
    })?;
    if seen < least {
        return Err(io::Error::other(format!("the scan gave {seen} events")));
    }
    Ok(per_second(bytes, clock.elapsed()) / 1e9)
}

/// Eight threads append durably while four replay streams.
fn mixed(run: &mut Run) {
    let stores = run.open_all("million", Promise::Durable);
    run.rounds("8 durable writers beside 4 readers", |run, _, peer| {
        let name = run.peers[peer].name;
        let is_filled = run.has(SINGLE, name) && run.peers[peer].has == Has::Streams;
        let Some(store) = stores.get(name).filter(|_| is_filled) else {
            return Ok(());
        };
        let (writes, reads) = beside(
            &**store,
            &run.pool,
            run.settings.streams,
            run.settings.slice * 3,
        )?;
        run.figure(MIXED_WRITES, name, writes);
        run.figure(MIXED_READS, name, reads);
        Ok(())
    });
    for (name, store) in stores {
        run.turn("closing", name, |_| store.close());
    }
}

fn beside(
    store: &dyn Store,
    pool: &Pool,
    streams: u32,
    slice: std::time::Duration,
) -> io::Result<(f64, f64)> {
    let (end, events) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut reads = 0.0;
    let writes = durable::with_writers(store, pool, streams, 8, || {
        let clock = Instant::now();
        thread::scope(|scope| {
            for reader in 0..4 {
                let (end, events) = (&end, &events);
                scope.spawn(move || {
                    let mut random = Random::new(reader);
                    while !end.load(Ordering::Relaxed) {
                        let stream = u32::try_from(random.next() % u64::from(streams)).unwrap_or(0);
                        if read(store, stream).is_ok() {
                            events.fetch_add(EVENTS_PER_STREAM, Ordering::Relaxed);
                        }
                    }
                });
            }
            thread::sleep(slice);
            reads = per_second(events.load(Ordering::Relaxed), clock.elapsed());
            end.store(true, Ordering::Relaxed);
        });
    })?;
    Ok((writes, reads))
}
