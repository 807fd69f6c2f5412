//! What is found by a label: in every segment, in order, in pages, in streams and forks, and only what is still there.

use super::*;
use crate::{
    Batch, ErrorKind, Expected, NewRecord, Op, OpenOptions, Position, Preallocation, Sequence,
    Store, StreamId, limits, storage::MemoryStorage,
};

fn options() -> OpenOptions {
    OpenOptions {
        segment_bytes_max: limits::SEGMENT_BYTES_MIN,
        preallocation: Preallocation::None,
        ..OpenOptions::default()
    }
}

fn stream(number: u128) -> StreamId {
    StreamId(uuid::Uuid::from_u128(number))
}

/// Appends a record of some size with labels. Its position.
fn append(store: &Store, to: StreamId, bytes: usize, labels: &[Label]) -> u64 {
    let payload = vec![b'x'; bytes];
    let record = NewRecord {
        labels,
        ..NewRecord::data(&payload)
    };
    let op = Op::Append {
        stream: to,
        expected: Expected::Any,
        records: vec![record],
    };
    store.commit(&Batch::new(vec![op])).unwrap().ops[0]
        .position
        .0
}

fn found(store: &Store, label: Label, options: FindOptions) -> Vec<u64> {
    let found = store.find(label, options).unwrap();
    found.map(|record| record.unwrap().position.0).collect()
}

fn in_stream(number: u128) -> FindOptions {
    FindOptions {
        stream: Some(stream(number)),
        ..FindOptions::default()
    }
}

/// A store of several segments: each record has a label of its own, every third one that many have, and none every fifth.
fn filled() -> (Arc<MemoryStorage>, Store, Vec<u64>) {
    let storage = Arc::new(MemoryStorage::new());
    let store = Store::open_on(storage.clone(), options()).unwrap();
    let positions = fill(&store);
    (storage, store, positions)
}

fn fill(store: &Store) -> Vec<u64> {
    let positions = (0..400_u64)
        .map(|number| {
            let labels = match number {
                _ if number % 5 == 4 => vec![],
                _ if number % 3 == 0 => vec![Label::of("many", "x"), own(number)],
                _ => vec![own(number)],
            };
            append(store, stream(u128::from(number % 7) + 1), 900, &labels)
        })
        .collect();
    assert!(store.stat().unwrap().segments > 4);
    positions
}

fn own(number: u64) -> Label {
    Label::of("own", number.to_le_bytes())
}

fn expected_many(positions: &[u64], of: impl Fn(u64) -> bool) -> Vec<u64> {
    let numbers = (0..400_u64).rev();
    let many = numbers.filter(|number| number % 3 == 0 && number % 5 != 4 && of(*number));
    many.map(|number| positions[usize::try_from(number).unwrap()])
        .collect()
}

fn check_filled(store: &Store, positions: &[u64]) {
    for number in 0..400_u64 {
        let expected: &[u64] = match number % 5 {
            4 => &[],
            _ => &[positions[usize::try_from(number).unwrap()]],
        };
        assert_eq!(
            found(store, own(number), FindOptions::default()),
            expected,
            "{number}"
        );
    }
    let many = Label::of("many", "x");
    let mut expected = expected_many(positions, |_| true);
    assert_eq!(found(store, many, FindOptions::default()), expected);
    expected.reverse();
    let oldest_first = FindOptions {
        direction: Direction::Forward,
        ..FindOptions::default()
    };
    assert_eq!(found(store, many, oldest_first), expected);
    for number in 0..7 {
        let expected = expected_many(positions, |other| u128::from(other % 7) == number);
        assert_eq!(
            found(store, many, in_stream(number + 1)),
            expected,
            "{number}"
        );
    }
    assert!(found(store, Label::of("none", "x"), FindOptions::default()).is_empty());
}

#[test]
fn records_are_found_in_every_segment_and_after_every_way_of_opening() {
    let (storage, store, positions) = filled();
    check_filled(&store, &positions);
    let reader = Store::open_on(storage.clone(), options().read_only()).unwrap();
    check_filled(&reader, &positions);
    drop(reader);
    store.close().unwrap();
    let store = Store::open_on(storage.clone(), options()).unwrap();
    check_filled(&store, &positions);
    store.close().unwrap();
    use crate::storage::Storage;
    storage.remove("CHECKPOINT").unwrap();
    check_filled(&Store::open_on(storage, options()).unwrap(), &positions);
}

/// Searches as if the cache of labels had no room.
fn in_place(search: impl FnOnce()) {
    crate::log::blocks::IN_PLACE.set(true);
    search();
    crate::log::blocks::IN_PLACE.set(false);
}

#[test]
fn rows_that_are_read_in_place_give_the_same() {
    in_place(|| {
        records_are_found_in_every_segment_and_after_every_way_of_opening();
        pages_in_both_directions_are_the_whole();
        what_is_not_there_any_more_is_not_found();
        search_begun_before_a_compaction_has_what_is_left_of_segments_that_a_pack_replaced();
        // In files, which are mapped.
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("store"), options()).unwrap();
        let positions = fill(&store);
        check_filled(&store, &positions);
        store.close().unwrap();
        let store = Store::open(folder.path().join("store"), options()).unwrap();
        check_filled(&store, &positions);
        store.compact(crate::CompactOptions::default()).unwrap();
        check_filled(&store, &positions);
    });
}

#[test]
fn damaged_labels_that_are_read_in_place_are_told_and_other_segments_searched() {
    use crate::storage::{Access, Storage};
    let (storage, store, positions) = filled();
    store.close().unwrap();
    let whole = positions.len();
    for damaged in 0..3 {
        let copy = MemoryStorage::new();
        for name in storage.list().unwrap() {
            let from = storage.open(&name, Access::Read).unwrap();
            let mut bytes = vec![0; usize::try_from(from.len().unwrap()).unwrap()];
            from.read_at(0, &mut bytes).unwrap();
            if name == "00000002.seg" {
                // A bit of each of the sections of labels in turn: they are the last ones before the table.
                let end = bytes.len() - 128 - 512 - 32 * 6;
                bytes[end - [40, 600, 1500][damaged]] ^= 1;
            }
            copy.create(&name).unwrap().write_at(0, &bytes).unwrap();
        }
        let store = Store::open_on(Arc::new(copy), options()).unwrap();
        in_place(|| {
            let many = Label::of("many", "x");
            let (mut found, mut failed) = (0, 0);
            for record in store.find(many, FindOptions::default()).unwrap() {
                match record {
                    Ok(_) => found += 1,
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
                        failed += 1;
                    }
                }
            }
            assert_eq!(failed, 1, "{damaged}");
            let all = expected_many(&positions, |_| true).len();
            assert!(
                found > all / 2 && found < all && all < whole,
                "{damaged}: {found}"
            );
        });
    }
}

#[test]
fn pages_in_both_directions_are_the_whole() {
    let (_, store, positions) = filled();
    let many = Label::of("many", "x");
    let expected = expected_many(&positions, |_| true);
    for size in [1, 3, 50] {
        let (mut newest, mut oldest) = (Vec::new(), Vec::new());
        let (mut first, mut last) = (Position::ZERO, Position(u64::MAX));
        loop {
            let page = found(
                &store,
                many,
                FindOptions {
                    last,
                    limit: size,
                    ..FindOptions::default()
                },
            );
            let Some(end) = page.last() else { break };
            last = Position(end - 1);
            newest.extend(page);
        }
        loop {
            let options = FindOptions {
                direction: Direction::Forward,
                first,
                limit: size,
                ..FindOptions::default()
            };
            let page = found(&store, many, options);
            let Some(end) = page.last() else { break };
            first = Position(end + 1);
            oldest.extend(page);
        }
        assert_eq!(newest, expected);
        oldest.reverse();
        assert_eq!(oldest, expected);
    }
}

#[test]
fn what_is_not_there_any_more_is_not_found() {
    let store = Store::open_on(Arc::new(MemoryStorage::new()), options()).unwrap();
    let label = Label::of("a", "b");
    let positions: Vec<u64> = (0..6)
        .map(|_| append(&store, stream(1), 10, &[label]))
        .collect();
    let other = append(&store, stream(2), 10, &[label]);
    store.fork(stream(1), Sequence(4), stream(3)).unwrap();
    let child = append(&store, stream(3), 10, &[label]);
    store.truncate(stream(1), Sequence(2)).unwrap();
    let again = append(&store, stream(1), 10, &[label]);
    assert_eq!(
        found(&store, label, FindOptions::default()),
        [again, child, other, positions[1], positions[0]],
        "what only a fork has is found in the fork"
    );
    assert_eq!(
        found(&store, label, in_stream(1)),
        [again, positions[1], positions[0]]
    );
    let shared = [
        child,
        positions[3],
        positions[2],
        positions[1],
        positions[0],
    ];
    assert_eq!(found(&store, label, in_stream(3)), shared);
    store.redact(Position(positions[1]), "why").unwrap();
    store.delete(stream(2)).unwrap();
    assert_eq!(
        found(&store, label, FindOptions::default()),
        [again, child, positions[0]]
    );
    assert_eq!(
        found(&store, label, in_stream(3)),
        [child, positions[3], positions[2], positions[0]]
    );
    store.delete(stream(1)).unwrap();
    assert_eq!(found(&store, label, FindOptions::default()), [child]);
    assert_eq!(
        found(&store, label, in_stream(3)),
        [child, positions[3], positions[2], positions[0]]
    );
    let error = store.find(label, in_stream(1)).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn record_has_a_few_labels_and_each_once() {
    let store = Store::open_on(Arc::new(MemoryStorage::new()), options()).unwrap();
    let labels: Vec<Label> = (0..9).map(Label).collect();
    let record = |labels| NewRecord {
        labels,
        ..NewRecord::data(b"x")
    };
    let refused = store.append(stream(1), Expected::Any, &[record(&labels)]);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::TooLarge);
    let twice = [&labels[..8], &labels[..8]].concat();
    store
        .append(stream(1), Expected::Any, &[record(&twice)])
        .unwrap();
    for label in &labels {
        let expected = usize::from(label.0 < 8);
        assert_eq!(
            found(&store, *label, FindOptions::default()).len(),
            expected
        );
    }
}

#[test]
fn record_without_labels_is_as_long_as_before() {
    let store = Store::open_on(Arc::new(MemoryStorage::new()), options()).unwrap();
    append(&store, stream(1), 1000, &[]);
    let before = store.stat().unwrap().used_bytes;
    append(&store, stream(1), 1000, &[]);
    let without = store.stat().unwrap().used_bytes - before;
    append(&store, stream(1), 1000, &[Label(1)]);
    let with = store.stat().unwrap().used_bytes - before - without;
    assert_eq!((without, with), (1032, 1032 + 16));
}

#[test]
fn many_records_of_one_label_in_the_active_segment_are_found_in_turns() {
    let options = OpenOptions {
        segment_bytes_max: 4 << 20,
        ..options()
    };
    let store = Store::open_on(Arc::new(MemoryStorage::new()), options).unwrap();
    let label = Label(3);
    let labels = [label];
    let records = vec![
        NewRecord {
            labels: &labels,
            ..NewRecord::data(b"x")
        };
        CANDIDATES_MAX * 2 + 3
    ];
    store.append(stream(1), Expected::Any, &records).unwrap();
    for direction in [Direction::Forward, Direction::Backward] {
        let mut all = found(
            &store,
            label,
            FindOptions {
                direction,
                ..FindOptions::default()
            },
        );
        if direction == Direction::Backward {
            all.reverse();
        }
        assert_eq!(all.len(), records.len());
        assert!(all.is_sorted_by(|one, next| one < next));
    }
}

#[test]
fn what_was_acknowledged_is_found_while_others_append_and_segments_are_sealed() {
    const RECORDS: u64 = 6_000;
    let store = Store::open_on(Arc::new(MemoryStorage::new()), options()).unwrap();
    let label = Label::of("many", "x");
    let acknowledged = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let appending = scope.spawn(|| {
            for _ in 0..RECORDS {
                let position = append(&store, stream(1), 300, &[label]);
                acknowledged.lock().unwrap().push(position);
            }
        });
        let mut number = 0;
        while !appending.is_finished() {
            let before = acknowledged.lock().unwrap().clone();
            number += 1;
            let direction = match number % 2 {
                0 => Direction::Forward,
                _ => Direction::Backward,
            };
            let first = before[before.len().saturating_sub(40)..].first();
            let options = FindOptions {
                direction,
                first: Position(first.copied().unwrap_or(1)),
                ..FindOptions::default()
            };
            // No error either.
            let mut all = found(&store, label, options);
            all.sort_unstable();
            let expected = &before[before.len().saturating_sub(40)..];
            assert_eq!(&all[..expected.len().min(all.len())], expected);
        }
    });
}

#[test]
fn each_damaged_record_of_the_active_segment_is_reported_once_and_the_others_are_found() {
    use crate::storage::Storage;
    const RECORDS: usize = CANDIDATES_MAX * 2 + 500;
    let options = OpenOptions {
        segment_bytes_max: 4 << 20,
        ..options()
    };
    let storage = MemoryStorage::new();
    let store = Store::open_on(Arc::new(storage.clone()), options).unwrap();
    let label = Label(3);
    let labels = [label];
    for number in 0..RECORDS {
        let payload = format!("<<{number:06}>>");
        let record = NewRecord {
            labels: &labels,
            ..NewRecord::data(payload.as_bytes())
        };
        store.append(stream(1), Expected::Any, &[record]).unwrap();
    }
    let file = storage
        .open("00000001.seg", crate::storage::Access::Write)
        .unwrap();
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_at(0, &mut bytes).unwrap();
    let damaged = CANDIDATES_MAX - 300..CANDIDATES_MAX + 400;
    for number in damaged.clone() {
        let payload = format!("<<{number:06}>>");
        let at = memchr(&bytes, payload.as_bytes());
        file.write_at(at, b"[").unwrap();
    }
    for direction in [Direction::Forward, Direction::Backward] {
        let options = FindOptions {
            direction,
            ..FindOptions::default()
        };
        let (mut whole, mut failed) = (0, 0);
        for found in store.find(label, options).unwrap() {
            *(if found.is_ok() {
                &mut whole
            } else {
                &mut failed
            }) += 1;
        }
        assert_eq!(
            (whole, failed),
            (RECORDS - damaged.len(), damaged.len()),
            "{direction:?}"
        );
    }
}

#[test]
fn damaged_record_is_reported_once_by_a_search_that_begins_a_segment_again() {
    use crate::storage::Storage;
    let storage = MemoryStorage::new();
    let store = Store::open_on(Arc::new(storage.clone()), options()).unwrap();
    let label = Label(3);
    let labels = [label];
    for number in 0..20 {
        let payload = format!("<<{number:06}>>");
        let record = NewRecord {
            labels: &labels,
            ..NewRecord::data(payload.as_bytes())
        };
        store.append(stream(1), Expected::Any, &[record]).unwrap();
    }
    let file = storage
        .open("00000001.seg", crate::storage::Access::Write)
        .unwrap();
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_at(0, &mut bytes).unwrap();
    for number in [3, 4, 5] {
        let at = memchr(&bytes, format!("<<{number:06}>>").as_bytes());
        file.write_at(at, b"[").unwrap();
    }
    for direction in [Direction::Forward, Direction::Backward] {
        let options = FindOptions {
            direction,
            ..FindOptions::default()
        };
        let mut search = store.find(label, options).unwrap();
        let (mut whole, mut failed) = (0, 0);
        while let Some(found) = search.next() {
            *(if found.is_ok() {
                &mut whole
            } else {
                &mut failed
            }) += 1;
            // As when a pack has replaced the segment.
            search.current = None;
            search.segments.clear();
        }
        assert_eq!((whole, failed), (17, 3), "{direction:?}");
    }
}

/// Where some bytes are.
fn memchr(bytes: &[u8], wanted: &[u8]) -> u64 {
    let found = bytes.windows(wanted.len()).position(|it| it == wanted);
    found.unwrap() as u64
}

#[test]
fn search_begun_before_a_compaction_has_what_is_left_of_segments_that_a_pack_replaced() {
    let many = Label::of("many", "x");
    // From any record of the first segment, which has the number that the pack gets.
    for first in [5, 20, 40, 60] {
        let (_, store, positions) = filled();
        let from = positions[first];
        let options = FindOptions {
            first: Position(from),
            ..FindOptions::default()
        };
        let expected: Vec<u64> = expected_many(&positions, |_| true)
            .into_iter()
            .filter(|position| *position >= from)
            .collect();
        let mut search = store.find(many, options).unwrap();
        let mut found = vec![search.next().unwrap().unwrap().position.0];
        let all = crate::CompactOptions {
            scope: crate::CompactScope::All,
            ..crate::CompactOptions::default()
        };
        assert!(store.compact(all).unwrap().files_after > 0);
        found.extend(search.map(|record| record.unwrap().position.0));
        assert_eq!(found, expected, "from {from}");
    }
}
