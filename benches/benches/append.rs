//! Appends of events of 1 KiB: durable ones by 1, 8 and 64 writers and in batches, and buffered ones.

use std::{
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use criterion::{
    BenchmarkId, Criterion, SamplingMode, Throughput, criterion_group, criterion_main,
};
use runlog_benches::{subject, workload};
use runlog_engine::Store;

fn durable(criterion: &mut Criterion) {
    let folder = workload::folder().expect("a folder for the store");
    let store = subject::open(folder.path()).expect("a new store");
    let mut group = criterion.benchmark_group("append, durable");
    group
        .throughput(Throughput::Elements(1))
        .sampling_mode(SamplingMode::Flat)
        .sample_size(20);
    for writers in [1_u32, 8, 64] {
        group.bench_function(BenchmarkId::new("waiting writers", writers), |bencher| {
            bencher.iter_custom(|events| time_of_writers(&store, writers, events));
        });
    }
    group.throughput(Throughput::Elements(100));
    group.bench_function("batch of 100", |bencher| {
        let (stream, payload) = (workload::stream(0), workload::payload(0));
        bencher.iter(|| subject::append(&store, stream, &payload, 100).expect("a durable append"));
    });
    group.finish();
    subject::close(store).expect("a clean close");
}

/// How long so many threads take for so many events between them, each waiting for each of its own.
fn time_of_writers(store: &Store, writers: u32, events: u64) -> Duration {
    let start = Barrier::new(writers as usize + 1);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..writers)
            .map(|writer| {
                let start = &start;
                // The first ones take what cannot be divided.
                let share = events / u64::from(writers)
                    + u64::from(u64::from(writer) < events % u64::from(writers));
                scope.spawn(move || {
                    let (stream, payload) = (
                        workload::stream(writer),
                        workload::payload(u64::from(writer)),
                    );
                    start.wait();
                    for _ in 0..share {
                        subject::append(store, stream, &payload, 1).expect("a durable append");
                    }
                })
            })
            .collect();
        start.wait();
        let clock = Instant::now();
        for thread in threads {
            thread.join().expect("a writer");
        }
        clock.elapsed()
    })
}

fn buffered(criterion: &mut Criterion) {
    const EVENTS: u64 = 100_000;
    let folder = workload::folder().expect("a folder for the store");
    let store = subject::open_buffered(folder.path()).expect("a new store");
    let mut group = criterion.benchmark_group("append, buffered");
    group
        .throughput(Throughput::Elements(EVENTS))
        .sampling_mode(SamplingMode::Flat)
        .sample_size(10);
    group.bench_function("100,000 events, waited for at the end", |bencher| {
        bencher.iter(|| subject::append_buffered(&store, EVENTS).expect("buffered appends"));
    });
    group.finish();
    subject::close(store).expect("a clean close");
}

criterion_group!(benches, durable, buffered);
criterion_main!(benches);
