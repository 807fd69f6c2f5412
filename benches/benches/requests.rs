//! A typical request of a chat, 11 records, in two durable writes and in eleven.

use criterion::{BatchSize, Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use runlog::{blocking::Store, chats::Chat};
use runlog_benches::{request, workload};

fn requests(criterion: &mut Criterion) {
    let folder = workload::folder().expect("a folder for the store");
    let store = Store::open(folder.path()).expect("a new store");
    let chats = store.chats();
    let mut group = criterion.benchmark_group("request of 11 records, durable");
    group
        .throughput(Throughput::Elements(1))
        .sampling_mode(SamplingMode::Flat)
        .sample_size(20);
    let ways: [(_, fn(&_, &_) -> _); 2] = [
        ("2 writes", request::in_two_writes),
        ("11 writes", request::in_eleven_writes),
    ];
    for (name, record) in ways {
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                || {
                    chats
                        .create_chat(Chat::new("weather"))
                        .expect("a chat")
                        .chat_id
                },
                |chat| record(&chats, &chat).expect("a request"),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
    store.close().expect("a clean close");
}

criterion_group!(benches, requests);
criterion_main!(benches);
