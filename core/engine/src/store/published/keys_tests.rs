use super::*;
use crate::{
    Appended, Batch, Expected, NewRecord, Op, OpenOptions, Preallocation, Store, StreamId,
    log::blocks,
};

fn options() -> OpenOptions {
    OpenOptions {
        segment_bytes_max: 64 << 10,
        preallocation: Preallocation::None,
        ..OpenOptions::default()
    }
}

fn stream(number: u8) -> StreamId {
    StreamId::from_bytes([number; 16])
}

fn append(store: &Store, to: u8, key: &str, bytes: usize) -> Appended {
    let payload = vec![7; bytes];
    let records = vec![NewRecord::data(&payload)];
    let op = Op::Append {
        stream: stream(to),
        expected: Expected::Any,
        records,
    };
    store
        .commit(&Batch::new(vec![op]).with_key(key.as_bytes()))
        .unwrap()
}

#[test]
fn key_is_told_from_others_without_a_look_into_the_segments() {
    let store = Store::in_memory(options()).unwrap();
    for number in 0..60 {
        append(&store, 1, &format!("key {number}"), 30_000);
    }
    assert!(store.stat().unwrap().segments > 25);
    append(&store, 1, "the first gathers what is in the segments", 1);
    blocks::BLOCK_LOOKS.set(0);
    for number in 0..1000 {
        assert!(!append(&store, 1, &format!("another {number}"), 1).repeated);
    }
    let turns = 1;
    assert!(
        blocks::BLOCK_LOOKS.get() <= 2 * turns,
        "{} looks",
        blocks::BLOCK_LOOKS.get()
    );
    for number in (0..60).rev() {
        assert!(append(&store, 1, &format!("key {number}"), 1).repeated);
    }
}

#[test]
fn cache_keeps_what_was_asked_for_last_and_no_more_than_it_may() {
    let mut cache = KeyCache::default();
    let hashes = |stream: u32| {
        (0..100_000)
            .map(|hash| hash * 1000 + u64::from(stream))
            .collect::<HashSet<u64>>()
    };
    for stream in 1..=20 {
        cache.add(stream, SegmentId(0), SegmentId(5), Some(hashes(stream)));
        assert!(cache.cost <= HASHES_MAX);
        // The first is asked for again and again.
        assert!(matches!(cache.answer(1, 1, SegmentId(5)), Answer::Ask));
        assert!(matches!(cache.answer(1, 2, SegmentId(5)), Answer::Absent));
    }
    assert_eq!(cache.by_use.len(), cache.streams.len());
    assert!(
        cache.streams.contains_key(&1)
            && cache.streams.contains_key(&20)
            && !cache.streams.contains_key(&2)
    );
    assert!(matches!(
        cache.answer(20, 7, SegmentId(9)),
        Answer::Gather(SegmentId(5))
    ));
    cache.add(20, SegmentId(5), SegmentId(9), Some(HashSet::from([7])));
    assert!(matches!(cache.answer(20, 7, SegmentId(9)), Answer::Ask));
    assert!(matches!(cache.answer(20, 20, SegmentId(9)), Answer::Ask));
    cache.add(20, SegmentId(5), SegmentId(9), Some(HashSet::from([8])));
    assert!(
        matches!(cache.answer(20, 8, SegmentId(9)), Answer::Absent),
        "it was gathered by another thread already"
    );
    cache.add(21, SegmentId(0), SegmentId(9), None);
    assert!(
        matches!(cache.answer(21, 8, SegmentId(9)), Answer::Ask),
        "too many to keep"
    );
}

#[test]
fn keys_of_many_streams_are_found_in_the_segments_and_in_the_active_one() {
    let store = Store::in_memory(options()).unwrap();
    for round in 0..40 {
        for to in 1..5 {
            append(&store, to, &format!("key {round}"), 2000);
            if round % 7 == usize::from(to) {
                assert!(append(&store, to, &format!("key {}", round / 2), 2000).repeated);
            }
        }
    }
    for round in 0..40 {
        for to in 1..5 {
            assert!(append(&store, to, &format!("key {round}"), 9).repeated);
            assert!(!append(&store, to, &format!("key {to} {round}"), 9).repeated);
        }
    }
}
