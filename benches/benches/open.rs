//! Opening a store of a million events of 1 KiB: after a clean close, and after its process was killed. Each opening
//! is that of a new process, and its time is taken in there.

use std::{path::Path, time::Duration};

use criterion::{Criterion, SamplingMode, criterion_group, criterion_main};
use runlog_benches::{
    children::{self, Writes},
    subject, workload,
};

/// The program that plays the other process.
const PROGRAM: &str = env!("CARGO_BIN_EXE_ratios");
/// The events that are written before each kill: about half a segment.
const EVENTS: u64 = 30_000;

fn openings(criterion: &mut Criterion) {
    let (program, folder) = (
        Path::new(PROGRAM),
        workload::folder().expect("a folder for the store"),
    );
    let path = folder.path().join("million");
    subject::prepare(&path)
        .and_then(subject::close)
        .expect("a prepared store");
    let open = || {
        Duration::from_secs_f64(
            children::open(program, &path)
                .expect("an opened store")
                .seconds,
        )
    };

    let mut group = criterion.benchmark_group("open 1M events");
    group
        .sampling_mode(SamplingMode::Flat)
        .sample_size(10)
        .warm_up_time(Duration::from_millis(1));
    // Criterion takes the time inside for the time outside, and would start hundreds of processes for each sample.
    group.measurement_time(Duration::from_millis(10));
    group.bench_function("after a clean close", |bencher| {
        bencher.iter_custom(|count| (0..count).map(|_| open()).sum());
    });
    group.bench_function("after SIGKILL", |bencher| {
        bencher.iter_custom(|count| {
            (0..count)
                .map(|_| {
                    children::append_and_be_killed(program, &path, Writes::Durable, EVENTS)
                        .expect("a killed process");
                    open()
                })
                .sum()
        });
    });
    group.finish();
}

criterion_group!(benches, openings);
criterion_main!(benches);
