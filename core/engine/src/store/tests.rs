#![allow(
    clippy::disallowed_methods,
    reason = "a test looks at the folder itself"
)]

use std::{
    task::{Context, Poll},
    time::Duration,
};

use super::*;
use crate::{
    Direction, Durability, ErrorKind, Kind, Missing, Preallocation, ReadOptions, Record,
    SystemHost, repair, verify,
};

pub(super) fn options() -> OpenOptions {
    OpenOptions {
        segment_bytes_max: 64 << 10,
        preallocation: Preallocation::None,
        ..OpenOptions::default()
    }
}

pub(super) fn payloads(store: &Store, stream: StreamId) -> Vec<String> {
    texts(store.read(stream, ReadOptions::default()).unwrap())
}

fn texts(records: impl Iterator<Item = Result<Record>>) -> Vec<String> {
    records
        .map(|record| String::from_utf8(record.unwrap().payload.to_vec()).unwrap())
        .collect()
}

pub(super) fn append(store: &Store, stream: StreamId, payload: &str) -> Appended {
    store
        .append(
            stream,
            Expected::Any,
            &[NewRecord::data(payload.as_bytes())],
        )
        .unwrap()
}

pub(super) fn stream(number: u128) -> StreamId {
    StreamId(uuid::Uuid::from_u128(number))
}

#[test]
fn appended_records_read_back_in_order() {
    let store = Store::in_memory(options()).unwrap();
    for index in 0..10 {
        append(&store, stream(1), &format!("a{index}"));
        append(&store, stream(2), &format!("b{index}"));
    }
    assert_eq!(payloads(&store, stream(2))[..3], ["b0", "b1", "b2"]);
    let options = ReadOptions {
        first: Sequence(3),
        last: Sequence(6),
        direction: Direction::Backward,
        limit: 3,
        ..ReadOptions::default()
    };
    assert_eq!(
        texts(store.read(stream(1), options).unwrap()),
        ["a5", "a4", "a3"]
    );
}

#[test]
fn batch_over_several_streams_is_refused_whole() {
    let store = Store::in_memory(options()).unwrap();
    append(&store, stream(1), "there");
    let record = [NewRecord::data(b"x")].to_vec();
    let op = |number, expected| Op::Append {
        stream: stream(number),
        expected,
        records: record.clone(),
    };
    let refused = store.commit(&Batch::new(vec![
        op(1, Expected::Any),
        op(2, Expected::Absent),
        Op::Truncate {
            stream: stream(1),
            expected: Expected::Any,
            after: Sequence(0),
        },
        op(1, Expected::Last(Sequence(5))),
    ]));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(payloads(&store, stream(1)), ["there"]);
    assert_eq!(store.stream(stream(2)).unwrap(), None);
    let last = store.last_position().unwrap();
    let appended = append(&store, stream(2), "next");
    assert_eq!(
        appended.last_position,
        Position(last.0 + 2),
        "the refused batch used no position"
    );
}

#[test]
fn same_key_returns_the_first_result() {
    let store = Store::in_memory(options()).unwrap();
    let batch = || {
        let records = vec![NewRecord::data(b"one"), NewRecord::data(b"two")];
        let other = Op::Append {
            stream: stream(9),
            expected: Expected::Any,
            records: vec![NewRecord::data(b"o")],
        };
        Batch::new(vec![
            other,
            Op::Append {
                stream: stream(1),
                expected: Expected::Any,
                records,
            },
        ])
        .with_key(b"request-1")
    };
    let first = store.commit(&batch()).unwrap();
    append(&store, stream(9), "between");
    let second = store.commit(&batch()).unwrap();
    assert!(second.repeated && !first.repeated);
    assert_eq!(
        (second.ops, second.last_position),
        (first.ops, first.last_position)
    );
    assert_eq!(payloads(&store, stream(1)), ["one", "two"]);
}

#[test]
fn stream_that_was_given_as_many_records_as_can_be_counted_takes_no_more() {
    let store = Store::in_memory(options()).unwrap();
    append(&store, stream(1), "one");
    // As if it had been truncated again and again.
    {
        let (mut writer, durable) = (store.shared().writer().unwrap(), store.shared().durable());
        writer.heads.get_mut(1, &durable.directory).ordinals = crate::limits::ORDINAL_MAX - 3;
    }
    let records = [NewRecord::data(b"x"); 4];
    let refused = store
        .append(stream(1), Expected::Any, &records)
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TooLarge, "{refused}");
    assert_eq!(payloads(&store, stream(1)), ["one"]);
    assert_eq!(
        append(&store, stream(2), "another stream").last_position,
        Position(4),
        "nothing was written"
    );
    store
        .append(stream(1), Expected::Any, &records[..3])
        .unwrap();
    assert_eq!(
        store
            .append(stream(1), Expected::Any, &records[..1])
            .unwrap_err()
            .kind(),
        ErrorKind::TooLarge
    );
}

#[test]
fn position_of_the_last_record_is_known_while_another_group_is_being_written() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("store"), options()).unwrap();
    let first = append(&store, stream(1), "first").last_position;
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            (0..300).for_each(|_| drop(append(&store, stream(2), "keeps a write under way")))
        });
        let two = || vec![NewRecord::data(b"x"), NewRecord::data(b"y")];
        let stage = |op| store.stage(&Batch::new(vec![op])).unwrap();
        while !other.is_finished() {
            let expected = Expected::At(first);
            let added = stage(Op::Append {
                stream: stream(1),
                expected,
                records: two(),
            });
            let last = added.appended().last_position;
            let expected = Expected::At(last);
            let one = stage(Op::Truncate {
                stream: stream(1),
                expected,
                after: Sequence(2),
            });
            let expected = Expected::At(Position(last.0 - 1));
            let none = stage(Op::Truncate {
                stream: stream(1),
                expected,
                after: Sequence(1),
            });
            [added, one, none]
                .into_iter()
                .for_each(|commit| drop(commit.wait().unwrap()));
        }
        other.join().unwrap();
    });
    assert_eq!(payloads(&store, stream(1)), ["first"]);
}

#[test]
fn position_that_a_repair_left_out_is_not_found_and_not_redacted() {
    let store = Store::in_memory(options()).unwrap();
    let large = vec![7; 20_000];
    while store.stat().unwrap().segments < 2 {
        store
            .append(stream(1), Expected::Any, &[NewRecord::data(&large)])
            .unwrap();
    }
    let lost = {
        let mut durable = store.shared().durable.write().unwrap();
        let active = durable.segments.pop().unwrap();
        let lost = active.header.base_position;
        let mut header = active.header;
        header.base_position += 3;
        durable
            .segments
            .push(Arc::new(crate::log::segment::Segment::unsealed(
                header,
                active.file.clone(),
            )));
        durable.next_position += 3;
        Position(lost)
    };
    assert_eq!(store.record(lost).unwrap(), None);
    assert_eq!(
        store.redact(lost, "asked for").unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

#[test]
fn position_of_the_last_record_is_known_again_after_reopening_and_in_line() {
    let storage: Arc<dyn Storage> = Arc::new(crate::storage::MemoryStorage::new());
    let store = Store::open_on(storage.clone(), options()).unwrap();
    let large = vec![7; 20_000];
    for _ in 0..9 {
        store
            .append(stream(1), Expected::Any, &[NewRecord::data(&large)])
            .unwrap();
    }
    store.close().unwrap();
    drop(store);
    let store = Store::open_on(storage, options()).unwrap();
    let at = |position| Expected::At(Position(position));
    let x = [NewRecord::data(b"x")];
    let refused = store.append(stream(1), at(9), &x).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    assert!(
        refused
            .to_string()
            .contains("position 9, but found it at position 10"),
        "{refused}"
    );
    assert_eq!(
        store.append(stream(1), at(10), &x).unwrap().last_position,
        Position(11)
    );
    // In line, one after the other, and none of them waited for.
    let stage = |op| store.stage(&Batch::new(vec![op])).unwrap();
    let append = |expected| Op::Append {
        stream: stream(1),
        expected,
        records: x.to_vec(),
    };
    let truncate = |expected, after| Op::Truncate {
        stream: stream(1),
        expected,
        after: Sequence(after),
    };
    let staged = [
        stage(append(at(11))),
        stage(append(at(12))),
        stage(truncate(at(13), 11)),
        stage(append(at(12))),
        stage(truncate(at(15), 3)),
        stage(append(at(4))),
        stage(Op::Fork {
            parent: stream(1),
            expected: at(17),
            at: Sequence(2),
            child: stream(2),
        }),
        stage(Op::Append {
            stream: stream(2),
            expected: at(3),
            records: x.to_vec(),
        }),
    ];
    assert_eq!(
        staged.map(|commit| commit.wait().unwrap().last_position.0),
        [12, 13, 14, 15, 16, 17, 18, 19]
    );
    let refused = store.append(stream(2), at(17), &x).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
}

#[test]
fn key_is_found_again_in_a_sealed_segment_and_after_reopening() {
    let storage: Arc<dyn Storage> = Arc::new(crate::storage::MemoryStorage::new());
    let store = Store::open_on(storage.clone(), options()).unwrap();
    let batch = || {
        let records = vec![NewRecord::data(b"keyed")];
        Batch::new(vec![Op::Append {
            stream: stream(1),
            expected: Expected::Any,
            records,
        }])
        .with_key(b"k")
    };
    let first = store.commit(&batch()).unwrap();
    for _ in 0..50 {
        append(&store, stream(1), &"x".repeat(4000));
    }
    assert!(store.stat().unwrap().segments > 2);
    assert_eq!(store.commit(&batch()).unwrap().ops, first.ops);
    drop(store);
    let store = Store::open_on(storage, options()).unwrap();
    assert_eq!(store.commit(&batch()).unwrap().ops, first.ops);
}

#[test]
fn store_that_was_just_made_is_clean() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("store"), options()).unwrap();
    assert!(store.recovery().clean);
    store.close().unwrap();
    assert!(
        Store::open(folder.path().join("store"), options())
            .unwrap()
            .recovery()
            .clean
    );
}

#[test]
fn store_of_many_segments_reopens_clean_without_reading_records() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::open(&path, options()).unwrap();
    for index in 0..600 {
        append(&store, stream(index % 7), &format!("{index:0>900}"));
    }
    let before: Vec<_> = (0..7)
        .map(|number| payloads(&store, stream(number)))
        .collect();
    let segments = store.stat().unwrap().segments;
    assert!(segments > 5);
    store.close().unwrap();
    let store = Store::open(&path, options()).unwrap();
    assert_eq!(
        store.recovery(),
        Recovery {
            clean: true,
            ..Recovery::default()
        }
    );
    assert_eq!(
        (0..7)
            .map(|number| payloads(&store, stream(number)))
            .collect::<Vec<_>>(),
        before
    );
    append(&store, stream(0), "more");
    drop(store);
    std::fs::remove_file(path.join("CHECKPOINT")).unwrap();
    let store = Store::open(&path, options()).unwrap();
    assert_eq!(store.recovery().index_blocks_read, segments - 1);
    assert_eq!(payloads(&store, stream(0)).last().unwrap(), "more");
    assert_eq!(
        store.scan(Position::FIRST).unwrap().count() as u64,
        store.last_position().unwrap().0
    );
}

#[test]
fn every_position_reads_as_the_record_that_was_given_it() {
    let store = Store::in_memory(options()).unwrap();
    for index in 0..300 {
        append(&store, stream(index % 3), &format!("{index:0>700}"));
    }
    let all: Vec<_> = store
        .scan(Position::FIRST)
        .unwrap()
        .collect::<Result<_>>()
        .unwrap();
    assert_eq!(all.len() as u64, store.last_position().unwrap().0);
    for (record, position) in all.iter().zip(1..) {
        assert_eq!(record.position, Position(position));
        assert_eq!(
            store.record(Position(position)).unwrap().as_ref(),
            Some(record)
        );
    }
    assert_eq!(store.record(Position(0)).unwrap(), None);
    assert_eq!(store.record(Position(all.len() as u64 + 1)).unwrap(), None);
}

#[test]
fn redacted_payload_is_gone_from_every_read_and_from_forks() {
    let store = Store::in_memory(options()).unwrap();
    let secret = append(&store, stream(1), "secret").ops[0].position;
    store.fork(stream(1), Sequence(1), stream(2)).unwrap();
    store.redact(secret, "asked for").unwrap();
    for stream in [stream(1), stream(2)] {
        let record = store
            .read(stream, ReadOptions::default())
            .unwrap()
            .next()
            .unwrap()
            .unwrap();
        assert!(record.redacted && record.payload.is_empty() && record.position == secret);
    }
    assert!(store.record(secret).unwrap().unwrap().payload.is_empty());
    assert_eq!(
        store.redact(Position(99), "").unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

#[test]
fn kinds_filter_what_a_read_gives() {
    let store = Store::in_memory(options()).unwrap();
    let records: Vec<_> = (0..6)
        .map(|index| NewRecord {
            labels: &[],
            kind: Kind(index % 3),
            meta: b"m",
            payload: b"p",
        })
        .collect();
    store.append(stream(1), Expected::Any, &records).unwrap();
    let options = ReadOptions {
        kinds: vec![Kind(2)],
        ..ReadOptions::default()
    };
    let sequences: Vec<_> = store
        .read(stream(1), options)
        .unwrap()
        .map(|record| record.unwrap().sequence.0)
        .collect();
    assert_eq!(sequences, [3, 6]);
    let refused = store.append(
        stream(1),
        Expected::Any,
        &[NewRecord {
            labels: &[],
            kind: Kind::FORK,
            meta: b"",
            payload: b"",
        }],
    );
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn staged_batches_are_acknowledged_in_order_by_threads_and_futures() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("store"), options()).unwrap();
    let commits: Vec<_> = (0..100)
        .map(|index| {
            let text = format!("{index}");
            let records = vec![NewRecord::data(text.as_bytes())];
            store
                .stage(&Batch::new(vec![Op::Append {
                    stream: stream(1),
                    expected: Expected::Any,
                    records,
                }]))
                .unwrap()
        })
        .collect();
    for (index, commit) in commits.into_iter().enumerate() {
        let appended = if index % 2 == 0 {
            commit.wait()
        } else {
            block_on(commit)
        };
        assert_eq!(
            appended.unwrap().ops[0].last_sequence,
            Sequence(index as u64 + 1)
        );
    }
    assert_eq!(payloads(&store, stream(1)).len(), 100);
}

fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        std::thread::park();
    }
}

#[test]
fn many_writers_share_flushes_and_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("store"), options()).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..16 {
            let store = store.clone();
            scope.spawn(move || {
                for index in 0..50 {
                    let durability = [Durability::Sync, Durability::Os][index % 2];
                    let text = format!("{index:0>500}");
                    let records = vec![NewRecord::data(text.as_bytes())];
                    let expected = Expected::Last(Sequence(index as u64));
                    let op = Op::Append {
                        stream: stream(writer),
                        expected,
                        records,
                    };
                    store
                        .commit(&Batch::new(vec![op]).with_durability(durability))
                        .unwrap();
                }
            });
        }
    });
    for writer in 0..16 {
        let expected: Vec<_> = (0..50).map(|index| format!("{index:0>500}")).collect();
        assert_eq!(payloads(&store, stream(writer)), expected);
    }
}

#[test]
fn subscription_sees_every_record_once_while_writers_append() {
    let store = Store::in_memory(options()).unwrap();
    append(&store, stream(1), "before");
    let mut subscription = store.subscribe(Position::FIRST);
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let store = store.clone();
            scope.spawn(move || {
                (0..100).for_each(|_| drop(append(&store, stream(writer), &"x".repeat(300))))
            });
        }
        let mut positions = Vec::new();
        // 401 records of data, and one of creation for each of the four streams.
        while positions.len() < 405 {
            let record = subscription
                .next_timeout(Duration::from_secs(60))
                .unwrap()
                .unwrap();
            positions.push(record.position.0);
        }
        assert_eq!(positions, (1..=405).collect::<Vec<_>>());
    });
    assert_eq!(subscription.next_timeout(Duration::ZERO).unwrap(), None);
    store.close().unwrap();
    assert_eq!(
        subscription
            .next_timeout(Duration::from_secs(60))
            .unwrap_err()
            .kind(),
        ErrorKind::Closed
    );
}

#[test]
fn closed_store_refuses_appends_and_still_reads() {
    let store = Store::in_memory(options()).unwrap();
    append(&store, stream(1), "x");
    store.close().unwrap();
    store.close().unwrap();
    let refused = store.append(stream(1), Expected::Any, &[NewRecord::data(b"y")]);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(payloads(&store, stream(1)), ["x"]);
}

#[test]
fn second_writer_is_refused_and_named_and_readers_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::open(&path, options()).unwrap();
    append(&store, stream(1), "one");
    let refused = Store::open(&path, options()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Locked);
    assert!(
        refused
            .to_string()
            .contains(&format!("process {}", std::process::id())),
        "{refused}"
    );
    let reader = Store::open(&path, options().read_only()).unwrap();
    assert_eq!(payloads(&reader, stream(1)), ["one"]);
    let has_writer = |store: &Store| store.stat().unwrap().has_writer;
    assert_eq!([&store, &reader].map(has_writer), [Some(true); 2]);
    if cfg!(unix) {
        // Also where somebody took the lock file for one that is left over.
        std::fs::remove_file(path.join("LOCK")).unwrap();
        assert_eq!(has_writer(&reader), Some(true));
    }
    for index in 0..300 {
        append(&store, stream(index % 5), &"x".repeat(1000));
        if index % 50 == 0 {
            assert_eq!(payloads(&reader, stream(1)), payloads(&store, stream(1)));
        }
    }
    assert_eq!(
        reader.last_position().unwrap(),
        store.last_position().unwrap()
    );
    let refused = reader
        .append(stream(1), Expected::Any, &[NewRecord::data(b"y")])
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnly);
    drop(store);
    assert_eq!(has_writer(&reader), Some(false));
    Store::open(&path, options()).unwrap();
}

#[test]
fn missing_and_foreign_folders_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let kind = |path: &std::path::Path, options| Store::open(path, options).unwrap_err().kind();
    let missing = OpenOptions {
        missing: Missing::Fail,
        ..options()
    };
    assert_eq!(
        kind(&folder.path().join("none"), missing.clone()),
        ErrorKind::NotFound
    );
    assert_eq!(kind(folder.path(), missing), ErrorKind::NotFound);
    assert_eq!(
        kind(folder.path(), options().read_only()),
        ErrorKind::NotFound
    );
    std::fs::write(folder.path().join("other.txt"), "x").unwrap();
    assert_eq!(kind(folder.path(), options()), ErrorKind::NotAStore);
    assert_eq!(
        kind(&folder.path().join("other.txt"), options()),
        ErrorKind::NotAStore
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    std::fs::write(folder.path().join("RUNLOG"), "something else").unwrap();
    assert_eq!(kind(folder.path(), options()), ErrorKind::NotAStore);
}

#[test]
fn oversize_is_refused_and_the_largest_is_not() {
    let store = Store::in_memory(options()).unwrap();
    let largest = vec![7; crate::limits::PAYLOAD_BYTES_MAX + 1];
    let append = |payload| store.append(stream(1), Expected::Any, &[NewRecord::data(payload)]);
    assert_eq!(append(&largest).unwrap_err().kind(), ErrorKind::TooLarge);
    append(&largest[1..]).unwrap();
    let read = store
        .read(stream(1), ReadOptions::default())
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    assert_eq!(read.payload.len(), largest.len() - 1);
}

#[test]
fn spares_made_in_the_background_never_touch_what_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let options = OpenOptions {
        segment_bytes_max: 256 << 10,
        ..OpenOptions::default()
    };
    let store = Store::open(&path, options.clone()).unwrap();
    // Batches of up to half a segment: the keeper makes spares as fast as the writer takes them.
    let payload = |index: usize| vec![u8::try_from(index % 251).unwrap(); (index * 7919) % 120_000];
    for index in 0..300 {
        store
            .append(
                stream(1),
                Expected::Any,
                &[NewRecord::data(&payload(index))],
            )
            .unwrap();
    }
    let check = |store: &Store| {
        for (index, record) in store
            .read(stream(1), ReadOptions::default())
            .unwrap()
            .enumerate()
        {
            assert!(record.unwrap().payload == payload(index), "record {index}");
        }
    };
    check(&store);
    drop(store);
    check(&Store::open(&path, options).unwrap());
    assert!(
        verify(&crate::storage::FsStorage::new(&path))
            .unwrap()
            .is_sound()
    );
}

#[test]
fn opening_decodes_no_stream_and_use_those_that_are_near() {
    let storage: Arc<dyn Storage> = Arc::new(crate::storage::MemoryStorage::new());
    let store = Store::open_on(storage.clone(), options()).unwrap();
    (1..=100).for_each(|number| drop(append(&store, stream(number), "of many")));
    // What the active segment has is looked at when it is opened.
    store.shared().turn().unwrap();
    store.close().unwrap();
    let store = Store::open_on(storage.clone(), options()).unwrap();
    let decoded = || store.shared().durable().directory.streams().decoded();
    assert_eq!(decoded(), 0);
    assert_eq!(payloads(&store, stream(50)), ["of many"]);
    assert_eq!(decoded(), 1);
    append(&store, stream(51), "in the same piece");
    append(&store, stream(20), "in another one");
    assert_eq!(decoded(), 2);
    append(&store, stream(101), "a new one");
    store.close().unwrap();
    assert_eq!(decoded(), 3);
    let store = Store::open_on(storage, options()).unwrap();
    assert_eq!(store.streams().unwrap().len(), 101);
    assert_eq!(payloads(&store, stream(20)), ["of many", "in another one"]);
}

/// Flips a bit in the index block of the first segment; the second one has a record, or none.
fn damaged_index_block(next_has_record: bool) -> (Arc<dyn Storage>, usize) {
    let storage = crate::storage::MemoryStorage::new();
    let store = Store::open_on(Arc::new(storage.clone()), options()).unwrap();
    let mut appended = 0;
    while store.stat().unwrap().segments < 2 {
        append(&store, stream(1), &"x".repeat(3000));
        appended += 1;
    }
    drop(store);
    storage.remove("CHECKPOINT").unwrap();
    storage.remove("END").unwrap();
    storage.remove("WATERMARK").unwrap();
    if !next_has_record {
        let second = storage
            .open("00000002.seg", crate::storage::Access::Write)
            .unwrap();
        second.set_len(4096).unwrap();
        appended -= 1;
    }
    let first = storage
        .open("00000001.seg", crate::storage::Access::Write)
        .unwrap();
    let offset = first.len().unwrap() - 660;
    let mut byte = [0];
    first.read_at(offset, &mut byte).unwrap();
    first.write_at(offset, &[byte[0] ^ 1]).unwrap();
    (Arc::new(storage), appended)
}

#[test]
fn index_block_cut_off_by_a_crash_is_made_again() {
    let (storage, appended) = damaged_index_block(false);
    let reader = Store::open_on(storage.clone(), options().read_only()).unwrap();
    assert_eq!(payloads(&reader, stream(1)).len(), appended);
    assert!(verify(&*storage).unwrap().is_sound());
    let store = Store::open_on(storage.clone(), options()).unwrap();
    assert_eq!(payloads(&store, stream(1)).len(), appended);
    append(&store, stream(1), "more");
    drop(store);
    let store = Store::open_on(storage, options()).unwrap();
    assert_eq!(payloads(&store, stream(1)).len(), appended + 1);
}

#[test]
fn damaged_index_block_that_was_durable_is_told_and_repaired_on_request() {
    let (storage, appended) = damaged_index_block(true);
    assert_eq!(
        Store::open_on(storage.clone(), options())
            .unwrap_err()
            .kind(),
        ErrorKind::Damaged
    );
    assert!(!verify(&*storage).unwrap().is_sound());
    let done = repair(&storage, "a test", &SystemHost).unwrap();
    assert!(!done.actions.is_empty() && done.left.is_empty(), "{done:?}");
    let store = Store::open_on(storage, options()).unwrap();
    assert_eq!(payloads(&store, stream(1)).len(), appended);
}

#[test]
fn second_writer_is_refused_although_the_lock_file_was_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::open(&path, options()).unwrap();
    std::fs::remove_file(path.join("LOCK")).unwrap();
    assert_eq!(
        Store::open(&path, options()).unwrap_err().kind(),
        ErrorKind::Locked
    );
    drop(store);
    Store::open(&path, options()).unwrap();
}

#[test]
fn acknowledged_records_that_are_gone_are_told_by_writer_and_reader_and_given_up_on_request() {
    let storage = crate::storage::MemoryStorage::new();
    let killed = Store::open_on(Arc::new(storage.clone()), options()).unwrap();
    for _ in 0..10 {
        append(&killed, stream(1), "acknowledged");
    }
    // As the process left it: no checkpoint, and then the last record is damaged.
    let copy = crate::storage::MemoryStorage::new();
    for name in storage.list().unwrap() {
        let (from, to) = (
            storage.open(&name, crate::storage::Access::Read).unwrap(),
            copy.create(&name).unwrap(),
        );
        let mut bytes = vec![0; from.len().unwrap().try_into().unwrap()];
        from.read_at(0, &mut bytes).unwrap();
        if name.ends_with(".seg") {
            let last = bytes.iter().rposition(|byte| *byte != 0).unwrap();
            bytes[last] ^= 1;
        }
        to.write_at(0, &bytes).unwrap();
    }
    let copy: Arc<dyn Storage> = Arc::new(copy);
    let writer = Store::open_on(copy.clone(), options()).unwrap_err();
    assert_eq!(writer.kind(), ErrorKind::Damaged);
    assert!(writer.to_string().contains("acknowledged"), "{writer}");
    assert_eq!(
        Store::open_on(copy.clone(), options().read_only())
            .unwrap_err()
            .kind(),
        ErrorKind::Damaged
    );
    assert!(!verify(&*copy).unwrap().is_sound());
    let done = repair(&copy, "a test", &SystemHost).unwrap();
    assert!(
        !done.actions.is_empty() && done.left.iter().all(|problem| problem.is_loss),
        "{done:?}"
    );
    let store = Store::open_on(copy, options()).unwrap();
    let read: Vec<_> = store
        .read(stream(1), ReadOptions::default())
        .unwrap()
        .collect();
    assert_eq!(read.iter().filter(|record| record.is_ok()).count(), 9);
    assert!(
        append(&store, stream(2), "after").last_position > Position(11),
        "no position is given out again"
    );
}

#[test]
fn missing_last_segment_is_told_by_all() {
    let storage = crate::storage::MemoryStorage::new();
    let store = Store::open_on(Arc::new(storage.clone()), options()).unwrap();
    while store.stat().unwrap().segments < 3 {
        append(&store, stream(1), &"x".repeat(3000));
    }
    drop(store);
    storage.remove("CHECKPOINT").unwrap();
    storage.remove("00000003.seg").unwrap();
    let storage: Arc<dyn Storage> = Arc::new(storage);
    assert_eq!(
        Store::open_on(storage.clone(), options())
            .unwrap_err()
            .kind(),
        ErrorKind::Damaged
    );
    assert_eq!(
        Store::open_on(storage.clone(), options().read_only())
            .unwrap_err()
            .kind(),
        ErrorKind::Damaged
    );
    assert!(!verify(&*storage).unwrap().is_sound());
}

#[test]
fn missing_index_block_that_was_durable_is_told_and_made_again_on_request() {
    for with_checkpoint in [true, false] {
        let storage = crate::storage::MemoryStorage::new();
        let store = Store::open_on(Arc::new(storage.clone()), options()).unwrap();
        let mut appended = 0;
        while store.stat().unwrap().segments < 4 {
            append(&store, stream(1), &"x".repeat(3000));
            appended += 1;
        }
        drop(store);
        if !with_checkpoint {
            storage.remove("CHECKPOINT").unwrap();
        }
        let second = storage
            .open("00000002.seg", crate::storage::Access::Write)
            .unwrap();
        second.set_len(second.len().unwrap() - 1).unwrap();
        let storage: Arc<dyn Storage> = Arc::new(storage);
        assert_eq!(
            Store::open_on(storage.clone(), options())
                .unwrap_err()
                .kind(),
            ErrorKind::Damaged
        );
        assert!(!verify(&*storage).unwrap().is_sound());
        let done = repair(&storage, "a test", &SystemHost).unwrap();
        assert!(!done.actions.is_empty() && done.left.is_empty(), "{done:?}");
        assert_eq!(
            payloads(&Store::open_on(storage, options()).unwrap(), stream(1)).len(),
            appended
        );
    }
}

#[test]
fn threads_that_wait_are_counted_once_each() {
    let store = Store::in_memory(options()).unwrap();
    for threads in [2, 3] {
        std::thread::scope(|scope| {
            for number in 0..threads {
                let store = &store;
                scope.spawn(move || {
                    for _ in 0..3000 {
                        append(store, stream(number), "x");
                        let seen = u128::from(store.shared().writer().unwrap().threads_seen);
                        assert!(seen <= threads, "{threads} threads write, {seen} were seen");
                    }
                });
            }
        });
    }
}

#[test]
fn staged_batches_are_written_by_who_stages_them_where_no_thread_can_be_started() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("store"), OpenOptions::default()).unwrap();
    store.shared().background.refuse_threads();
    let batch = |payload| {
        let records = vec![NewRecord::data(payload)];
        Batch::new(vec![Op::Append {
            stream: stream(1),
            expected: Expected::Any,
            records,
        }])
    };
    // Nobody waits for it.
    drop(store.stage(&batch(b"dropped")).unwrap());
    assert_eq!(payloads(&store, stream(1)), ["dropped"]);
    block_on(store.stage(&batch(b"awaited")).unwrap()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    block_on(store.stage(&batch(b"awaited")).unwrap()).unwrap();
                    drop(store.stage(&batch(b"dropped")).unwrap());
                }
            });
        }
    });
    // What is due is flushed by whoever calls next.
    store
        .commit(&batch(b"due").with_durability(Durability::Interval(1)))
        .unwrap();
    let is_flushed = || {
        let _ = store.last_position().unwrap();
        let writer = store.shared().writer().unwrap();
        writer.due.is_none() && writer.synced_end == writer.written_end
    };
    while !is_flushed() {
        std::thread::yield_now();
    }
    assert_eq!(payloads(&store, stream(1)).len(), 403);
    store.close().unwrap();
}

/// What the writer knows besides what is published.
/// What a writer knows: end, index bytes, position, heads, new ids and new keys.
type WriterState = (u64, u64, u64, Vec<(u32, u32, bool)>, usize, usize);

fn state(store: &Store) -> WriterState {
    let writer = store.shared().writer().unwrap();
    assert!(writer.open.is_none());
    let durable = store.shared().durable();
    let heads = (1..=u32::try_from(writer.heads.len()).unwrap())
        .map(|number| writer.heads.get(number, &durable.directory))
        .map(|head| (head.last_sequence, head.row_segment, head.deleted))
        .collect();
    let (ids, keys) = (writer.new_ids.len(), writer.new_keys.len());
    (
        writer.end,
        writer.next_position,
        writer.written_end,
        heads,
        ids,
        keys,
    )
}

#[test]
fn taken_back_batches_leave_no_trace_in_what_the_writer_knows() {
    let store = Store::in_memory(options()).unwrap();
    for number in 0..3 {
        append(&store, stream(number), "published");
    }
    store.delete(stream(2)).unwrap();
    let before = state(&store);
    {
        let shared = store.shared();
        // As if another thread was writing, so that what is staged stays so.
        let mut writer = shared.writer().unwrap();
        writer.phase.start_gathering();
        let durable = shared.durable();
        let steps = [
            Op::Append {
                stream: stream(9),
                expected: Expected::Absent,
                records: vec![NewRecord::data(b"new")],
            },
            Op::Append {
                stream: stream(1),
                expected: Expected::Any,
                records: vec![NewRecord::data(b"more")],
            },
            Op::Truncate {
                stream: stream(0),
                expected: Expected::Any,
                after: Sequence(0),
            },
            Op::Fork {
                parent: stream(1),
                expected: Expected::Any,
                at: Sequence(1),
                child: stream(8),
            },
            Op::Delete {
                stream: stream(1),
                expected: Expected::Any,
            },
        ];
        for step in steps {
            let batch = Batch::new(vec![step]);
            let batch = if matches!(batch.ops[0], Op::Append { .. }) {
                batch.with_key(b"key")
            } else {
                batch
            };
            let prepared = crate::store::staging::prepare::prepare(&batch).unwrap();
            let now_ms = shared.options.host.now_ms();
            let facts = crate::store::staging::facts::Facts::default();
            assert!(
                writer
                    .stage(
                        &durable,
                        &batch,
                        &prepared,
                        &facts,
                        Durability::Sync,
                        now_ms
                    )
                    .is_ok()
            );
        }
        assert!(
            writer
                .take_back(&durable)
                .is_some_and(|open| open.entries.records.len() >= 6)
        );
        writer.phase.end_gathering();
    }
    assert_eq!(state(&store), before);
    append(&store, stream(9), "again");
    assert_eq!(payloads(&store, stream(9)), ["again"]);
}

#[test]
fn a_key_of_a_batch_that_appends_nothing_is_refused_by_what_is_missing() {
    let store = Store::in_memory(OpenOptions::default()).unwrap();
    let [empty, full] = [store.new_id(), store.new_id()].map(StreamId);
    let append = |stream, expected, records| Op::Append {
        stream,
        expected,
        records,
    };
    let refused = |ops| {
        let batch = Batch::new(ops).with_key(b"key");
        let error = store.commit(&batch).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        error.to_string()
    };
    // With nothing in it, what it expects doesn't matter.
    for expected in [Expected::Any, Expected::Absent] {
        let message = refused(vec![append(empty, expected, vec![])]);
        assert!(message.contains("append at least one record"), "{message}");
    }
    let record = NewRecord::data(b"x");
    let message = refused(vec![
        append(empty, Expected::Any, vec![]),
        append(full, Expected::Any, vec![record]),
    ]);
    assert!(
        message.contains("which last sequence it expects"),
        "{message}"
    );
}
