//! Readers beside a writer: when they look, and how they read the segment that grows.

use std::{
    ops::ControlFlow,
    sync::Arc,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use crate::{
    Batch, Durability, Expected, NewRecord, Op, OpenOptions, Position, Preallocation, ReadOptions,
    Store, StreamId,
    storage::FsStorage,
    store::{files::watermark, open::entry, scan::LogReader},
};

fn options() -> OpenOptions {
    OpenOptions {
        preallocation: Preallocation::None,
        ..OpenOptions::default()
    }
}

fn append(store: &Store, stream: StreamId, text: &[u8]) {
    store
        .append(stream, Expected::Any, &[NewRecord::data(text)])
        .unwrap();
}

fn last(store: &Store, stream: StreamId) -> u64 {
    store.stream(stream).unwrap().unwrap().last_sequence.0
}

#[test]
fn as_of_now_sees_what_was_there_looks_no_more_and_waits_for_more_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let writer = Store::open(&path, options()).unwrap();
    let stream = StreamId(writer.new_id());
    append(&writer, stream, b"one");
    let reader = Store::open(&path, options().read_only()).unwrap();
    append(&writer, stream, b"two");
    let now = reader.as_of_now().unwrap();
    assert_eq!(last(&now, stream), 2);
    append(&writer, stream, b"three");
    let read = |store: &Store| store.read(stream, ReadOptions::default()).unwrap().count();
    assert_eq!((last(&now, stream), read(&now)), (2, 2));
    assert_eq!(
        now.scan(Position(1)).unwrap().count(),
        3,
        "with the stream's creation"
    );
    assert!(now.record(Position(4)).unwrap().is_none());
    let seen = now.last_position().unwrap();
    assert_eq!(seen, Position(3));
    let found = now.wait_past(seen, Duration::from_secs(60)).unwrap();
    assert_eq!(found, Position(4));
    append(&writer, stream, b"four");
    assert_eq!(
        last(&reader, stream),
        4,
        "the reader itself looks with each call"
    );
    assert_eq!(
        last(&now, stream),
        4,
        "what the reader came to see is there"
    );
    assert_eq!(last(&writer.as_of_now().unwrap(), stream), 4);
}

#[test]
fn a_writer_as_of_now_goes_on_writing() {
    let writer = Store::in_memory(options()).unwrap();
    let stream = StreamId(writer.new_id());
    let now = writer.as_of_now().unwrap();
    append(&now, stream, b"one");
    assert_eq!((last(&now, stream), last(&writer, stream)), (1, 1));
}

#[test]
fn readers_read_what_the_active_segment_has_grown_by_since_they_first_read_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let writer = Store::open(&path, options()).unwrap();
    let reader = Store::open(&path, options().read_only()).unwrap();
    let stream = StreamId(writer.new_id());
    let payloads: Vec<Vec<u8>> = (0..300_usize)
        .map(|number| vec![u8::try_from(number % 251).unwrap(); number * 37 % 9_000])
        .collect();
    for (number, payload) in payloads.iter().enumerate() {
        append(&writer, stream, payload);
        if number % 20 == 0 {
            let records = reader.read(stream, ReadOptions::default()).unwrap();
            let read: Vec<_> = records.map(|record| record.unwrap().payload).collect();
            assert_eq!(read, payloads[..=number]);
            let scanned = reader.scan(Position(2)).unwrap();
            let scanned: Vec<_> = scanned.map(|record| record.unwrap().payload).collect();
            assert_eq!(scanned, payloads[..=number]);
        }
    }
}

#[test]
fn threads_that_look_at_the_same_time_each_see_what_was_acknowledged_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let writer = Store::open(&path, options()).unwrap();
    let reader = Store::open(&path, options().read_only()).unwrap();
    let stream = StreamId(writer.new_id());
    let acknowledged = AtomicU64::new(0);
    append(&writer, stream, b"first");
    acknowledged.store(1, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let (acknowledged, reader) = (&acknowledged, &reader);
        for _ in 0..4 {
            scope.spawn(move || {
                while acknowledged.load(Ordering::SeqCst) < 400 {
                    let before = acknowledged.load(Ordering::SeqCst);
                    let now = reader.as_of_now().unwrap();
                    assert!(last(&now, stream) >= before);
                    assert!(last(reader, stream) >= before);
                }
            });
        }
        for number in 2..=400_u64 {
            let records = vec![NewRecord::data(b"more")];
            let op = Op::Append {
                stream,
                expected: Expected::Any,
                records,
            };
            let batch = Batch::new(vec![op]).with_durability(Durability::Os);
            writer.commit(&batch).unwrap();
            acknowledged.store(number, Ordering::SeqCst);
        }
    });
}

#[test]
fn segment_that_was_sealed_since_the_look_is_read_no_further_than_was_seen() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let options = OpenOptions {
        segment_bytes_max: 64 << 10,
        durability: Durability::Os,
        ..options()
    };
    let writer = Store::open(&path, options.clone()).unwrap();
    let storage = Arc::new(FsStorage::new(&path));
    let (reader, _) = entry::open(storage.clone(), options.read_only()).unwrap();
    let grow_to = |segments: u64| {
        while writer.stat().unwrap().segments < segments {
            // Each makes a stream.
            append(&writer, StreamId(writer.new_id()), &[0; 9000]);
        }
    };
    grow_to(2);
    let seen = watermark::read(&*storage, &reader.identity.store)
        .unwrap()
        .unwrap();
    let position = writer.last_position().unwrap();
    grow_to(3);
    reader.follow_to(&seen).unwrap();
    let scanned: Vec<_> = LogReader::new(reader.clone(), Position(1)).collect();
    let last = scanned.last().unwrap().as_ref().unwrap();
    assert_eq!(last.position, position, "{scanned:?}");
    // And on from there.
    reader.refresh().unwrap();
    let scanned = LogReader::new(reader, position.next());
    let scanned: Vec<_> = scanned.map(|record| record.unwrap().position).collect();
    let rest = position.0 + 1..=writer.last_position().unwrap().0;
    assert_eq!(scanned, rest.map(Position).collect::<Vec<_>>());
}

#[test]
fn who_follows_is_told_of_what_another_read_found_behind_a_compaction() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let options = OpenOptions {
        segment_bytes_max: crate::limits::SEGMENT_BYTES_MIN,
        ..options()
    };
    let writer = Store::open(&path, options.clone()).unwrap();
    let stream = StreamId(writer.new_id());
    for _ in 0..300 {
        append(&writer, stream, &[b'x'; 700]);
    }
    let reader = Store::open(&path, options.read_only()).unwrap();
    let records = reader.read(stream, ReadOptions::default()).unwrap();
    let last = reader.last_position().unwrap();
    let mut following = reader.subscribe(last.next());
    let nothing = following.next_timeout(Duration::ZERO).unwrap();
    assert!(nothing.is_none());
    let all = crate::CompactOptions {
        scope: crate::CompactScope::All,
        ..crate::CompactOptions::default()
    };
    assert!(writer.compact(all).unwrap().files_after > 0);
    append(&writer, stream, b"after");
    // What was removed can't be opened again: the read loads what there is instead, and with it the new record.
    FsStorage::close_for_reading();
    crate::clear_caches();
    assert_eq!(records.map(Result::unwrap).count(), 300);
    assert_eq!(reader.shared().watch.position(), last.0 + 1);
    let next = following.next_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!(next.unwrap().position, last.next());
}

/// How many files of a folder this process has open or mapped that were removed.
#[cfg(target_os = "linux")]
#[allow(
    clippy::disallowed_methods,
    reason = "what the system says of this process is in files"
)]
fn open_and_removed(folder: &std::path::Path) -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut found: std::collections::BTreeSet<String> = maps.lines().map(str::to_owned).collect();
    for entry in std::fs::read_dir("/proc/self/fd").unwrap().flatten() {
        if let Ok(target) = std::fs::read_link(entry.path()) {
            found.insert(target.display().to_string());
        }
    }
    let folder = folder.to_str().unwrap();
    let is_removed = |name: &&String| name.contains(folder) && name.ends_with(" (deleted)");
    found.iter().filter(is_removed).count()
}

#[test]
fn reader_lets_go_of_what_a_compaction_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let options = OpenOptions {
        segment_bytes_max: crate::limits::SEGMENT_BYTES_MIN,
        ..options()
    };
    let writer = Store::open(&path, options.clone()).unwrap();
    let kept = StreamId(writer.new_id());
    let fill = || {
        let given_up = StreamId(writer.new_id());
        for _ in 0..200 {
            append(&writer, kept, &[b'x'; 700]);
            append(&writer, given_up, &[b'y'; 700]);
        }
        given_up
    };
    let mut given_up = fill();
    let reader = Store::open(&path, options.read_only()).unwrap();
    for round in 1..=3 {
        let payloads = |store: &Store| -> Vec<Vec<u8>> {
            let records = store.scan(Position(1)).unwrap();
            records
                .map(|record| record.unwrap().payload.to_vec())
                .collect()
        };
        assert_eq!(payloads(&reader), payloads(&writer));
        writer.delete(given_up).unwrap();
        let compacted = writer.compact_with(crate::CompactOptions::default(), &mut |_| {
            // The reader goes on to the new segment before a pack is there, so that it looks for nothing in files that are gone.
            reader.last_position().unwrap();
            ControlFlow::Continue(())
        });
        assert!(compacted.unwrap().records_dropped > 0);
        // Nothing was appended since: what the compaction did is news by itself.
        let read = payloads(&reader);
        assert_eq!(read, payloads(&writer), "round {round}");
        let left = read
            .iter()
            .filter(|payload| payload.starts_with(b"y"))
            .count();
        assert!(left < 200, "round {round}: {left}");
        #[cfg(target_os = "linux")]
        assert_eq!(open_and_removed(&path), 0, "round {round}");
        given_up = fill();
        assert_eq!(last(&reader, kept), 200 * (round + 1));
    }
}
