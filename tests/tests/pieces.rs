//! Checkpoints of several pieces: more streams than one piece has.

use std::sync::Arc;

use runlog_engine::{
    Durability, Expected, NewRecord, OpenOptions, Sequence, Store, StreamId, storage::Storage,
};
use runlog_tests::{checker, faulty::FaultyStorage};

const STREAMS: u128 = 2500;

fn stream(number: u128) -> StreamId {
    StreamId::from(uuid::Uuid::from_u128(number))
}

fn open(storage: &FaultyStorage) -> Store {
    let options = OpenOptions {
        segment_bytes_max: 64 << 10,
        durability: Durability::Os,
        ..OpenOptions::default()
    };
    Store::open_on(Arc::new(storage.clone()), options).expect("a store that opens")
}

fn append(store: &Store, number: u128, count: usize) {
    let records = vec![NewRecord::data(b"of many"); count];
    let appended = store.append(stream(number), Expected::Any, &records);
    appended.expect("an append");
}

/// All that is listed, and the first record of each stream.
fn listed(store: &Store) -> Vec<String> {
    let told = |info: runlog_engine::StreamInfo| {
        let first = store.read(info.id, runlog_engine::ReadOptions::default());
        let first = first
            .expect("a stream")
            .next()
            .map(|record| record.expect("a record").position);
        format!("{info:?} {first:?}")
    };
    store
        .streams()
        .expect("a list")
        .into_iter()
        .map(told)
        .collect()
}

#[test]
fn many_streams_are_the_same_from_the_checkpoint_as_from_the_log() {
    let storage = FaultyStorage::default();
    let store = open(&storage);
    for number in 1..=STREAMS {
        append(&store, number, 1 + usize::from(number % 3 == 0));
    }
    store.close().unwrap();
    drop(store);
    // Then one here and one there is changed, by writers that open it anew.
    for round in 0..3 {
        let store = open(&storage);
        assert_eq!(store.recovery().index_blocks_read, 0, "from the checkpoint");
        for number in [1 + round, 1024, 1025, 1500 + round, STREAMS] {
            append(&store, number, 2);
        }
        let parent = stream(1026 + round);
        let fork = |to: u128| store.fork(parent, Sequence(1), stream(to));
        fork(STREAMS + 10 + round).unwrap();
        store
            .truncate(stream(3 * (round + 1)), Sequence(1))
            .unwrap();
        store
            .snapshot(stream(2049 + round), Sequence(1), b"state")
            .unwrap();
        store.delete(stream(700 + round)).unwrap();
        let secret = store.append(stream(9), Expected::Any, &[NewRecord::data(b"secret")]);
        store
            .redact(secret.unwrap().last_position, "a secret")
            .unwrap();
        store.close().unwrap();
        drop(store);
        let checked = checker::check_files(&storage.files(), None).unwrap();
        assert!(checked.checkpoint.is_some());
        let store = open(&storage);
        let from_checkpoint = listed(&store);
        assert_eq!(from_checkpoint.len() as u128, STREAMS);
        drop(store);
        let bare = FaultyStorage::from_files(&storage.files());
        bare.remove("CHECKPOINT").unwrap();
        assert_eq!(listed(&open(&bare)), from_checkpoint);
    }
}
