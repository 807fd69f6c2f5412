//! Reads of a store of a million events of 1 KiB in a thousand streams, the records of each scattered over all of it.

use std::time::{Duration, Instant};

use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use runlog_benches::{
    subject,
    workload::{self, EVENTS_PER_STREAM, PAYLOAD_BYTES, STREAMS},
};

fn reads(criterion: &mut Criterion) {
    let folder = workload::folder().expect("a folder for the store");
    let path = folder.path().join("million");
    subject::prepare(&path)
        .and_then(subject::close)
        .expect("a prepared store");
    let store = subject::open(&path).expect("the prepared store");
    let streams = || (0..STREAMS).cycle().map(workload::stream);

    let mut group = criterion.benchmark_group("read");
    group
        .throughput(Throughput::Elements(u64::from(EVENTS_PER_STREAM)))
        .sampling_mode(SamplingMode::Flat);
    let mut next = streams();
    group
        .sample_size(20)
        .bench_function("1 stream of 1,000, warm", |bencher| {
            bencher.iter(|| read_all(&store, next.next().expect("endless")));
        });
    let events = u64::from(STREAMS) * u64::from(EVENTS_PER_STREAM);
    group
        .sample_size(10)
        .throughput(Throughput::Bytes(events * PAYLOAD_BYTES as u64));
    group.bench_function("scan of all, warm", |bencher| {
        bencher.iter(|| {
            assert_eq!(
                subject::scan(&store).expect("a scan"),
                events,
                "the scan is incomplete"
            )
        });
    });
    subject::close(store).expect("a clean close");

    group.throughput(Throughput::Elements(u64::from(EVENTS_PER_STREAM)));
    group
        .sample_size(10)
        .bench_function("1 stream of 1,000, cold", |bencher| {
            bencher.iter_custom(|count| {
                let mut spent = Duration::ZERO;
                for _ in 0..count {
                    // Pages that an open store has mapped would stay.
                    workload::evict(&path).expect("an empty page cache");
                    let store = subject::open(&path).expect("the prepared store");
                    let clock = Instant::now();
                    read_all(&store, next.next().expect("endless"));
                    spent += clock.elapsed();
                    subject::close(store).expect("a clean close");
                }
                spent
            });
        });
    group.finish();
}

fn read_all(store: &runlog_engine::Store, stream: runlog_engine::StreamId) {
    let count = subject::read(store, stream).expect("a read");
    assert_eq!(
        count,
        u64::from(EVENTS_PER_STREAM),
        "the stream is incomplete"
    );
}

criterion_group!(benches, reads);
criterion_main!(benches);
