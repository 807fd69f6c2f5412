//! What this machine can do without any store.

use std::io;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use runlog_benches::{
    floor::{Aligned, Direct, FRAME_OVERHEAD_BYTES, ZeroFilled},
    workload::{self, PAYLOAD_BYTES},
};

/// The bytes of one flush: one event, eight, sixty-four, and a batch of a hundred.
const EVENTS: [usize; 4] = [1, 8, 64, 100];

fn durable_writes(criterion: &mut Criterion) {
    let folder = workload::folder().expect("a folder for the floors");
    let mut group = criterion.benchmark_group("floor/write and flush");
    let mut file = ZeroFilled::create(&folder.path().join("buffered"), ZeroFilled::SIZE)
        .expect("a file of zeros");
    for events in EVENTS {
        let bytes = vec![0xa5; (PAYLOAD_BYTES + FRAME_OVERHEAD_BYTES) * events];
        group.throughput(Throughput::Elements(events as u64));
        group.bench_function(BenchmarkId::new("pwrite + fdatasync", events), |bencher| {
            bencher.iter(|| file.write_durably(&bytes).expect("a durable write"));
        });
    }
    match Direct::create(&folder.path().join("direct")) {
        Ok(mut file) => {
            for events in EVENTS {
                let blocks = Aligned::new((PAYLOAD_BYTES + FRAME_OVERHEAD_BYTES) * events);
                group.throughput(Throughput::Elements(events as u64));
                group.bench_function(BenchmarkId::new("O_DIRECT + O_DSYNC", events), |bencher| {
                    bencher.iter(|| file.write_durably(&blocks).expect("a durable write"));
                });
            }
        }
        Err(error) => no_direct_writes(&error),
    }
    group.finish();
}

fn no_direct_writes(error: &io::Error) {
    eprintln!("this file system has no direct writes, so they are not measured: {error}");
}

fn memory(criterion: &mut Criterion) {
    let payload = workload::payload(1);
    let mut buffer = vec![0; PAYLOAD_BYTES];
    let mut group = criterion.benchmark_group("floor/memory");
    group.throughput(Throughput::Bytes(PAYLOAD_BYTES as u64));
    group.bench_function("copy and CRC-32 of 1 KiB", |bencher| {
        bencher.iter(|| {
            buffer.copy_from_slice(std::hint::black_box(&payload));
            crc32fast::hash(&buffer)
        });
    });
    group.finish();
}

fn reads(criterion: &mut Criterion) {
    let folder = workload::folder().expect("a folder for the floors");
    let path = folder.path().join("read");
    drop(ZeroFilled::create(&path, ZeroFilled::SIZE).expect("a file of zeros"));
    let mut group = criterion.benchmark_group("floor/read, warm");
    group.throughput(Throughput::Bytes(ZeroFilled::SIZE));
    group.bench_function("64 MiB in a row", |bencher| {
        bencher.iter(|| runlog_benches::floor::sequential_read(&path).expect("a read"));
    });
    group.throughput(Throughput::Elements(1000));
    group.bench_function("1,000 scattered pieces of 1 KiB", |bencher| {
        bencher.iter(|| {
            runlog_benches::floor::scattered_read(&path, 1000, PAYLOAD_BYTES).expect("a read")
        });
    });
    group.finish();
}

criterion_group!(benches, durable_writes, memory, reads);
criterion_main!(benches);
