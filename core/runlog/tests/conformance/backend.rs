//! Claims about [`Backend`] itself.

use std::{collections::HashSet, sync::Arc, time::Duration};

use runlog::{ErrorKind, backend::Backend};
use runlog_engine::{
    Appended, Batch, Direction, Expected, Kind, NewRecord, Op, Position, ReadOptions, Record,
    Sequence, StreamId, limits,
};
use uuid::Uuid;

type Shared = Arc<dyn Backend>;

fn stream(number: u128) -> StreamId {
    StreamId(Uuid::from_u128(number))
}

fn append<'a>(to: StreamId, payloads: &[&'a str]) -> Op<'a> {
    expecting(to, Expected::Any, payloads)
}

fn expecting<'a>(to: StreamId, expected: Expected, payloads: &[&'a str]) -> Op<'a> {
    let records = payloads
        .iter()
        .map(|payload| NewRecord::data(payload.as_bytes()))
        .collect();
    Op::Append {
        stream: to,
        expected,
        records,
    }
}

fn truncate(of: StreamId, after: u64) -> Op<'static> {
    Op::Truncate {
        stream: of,
        expected: Expected::Any,
        after: Sequence(after),
    }
}

fn fork(parent: StreamId, at: u64, child: StreamId) -> Op<'static> {
    Op::Fork {
        parent,
        expected: Expected::Any,
        at: Sequence(at),
        child,
    }
}

async fn commit(backend: &Shared, ops: Vec<Op<'_>>) -> Appended {
    backend.commit(Batch::new(ops)).await.unwrap()
}

async fn refused(backend: &Shared, ops: Vec<Op<'_>>) -> ErrorKind {
    backend.commit(Batch::new(ops)).await.unwrap_err().kind()
}

async fn read(backend: &Shared, from: StreamId, mut options: ReadOptions) -> Vec<Record> {
    let mut records = Vec::new();
    loop {
        let page = backend.read(from, options.clone()).await.unwrap();
        records.extend(page.records);
        let Some(next) = page.next else {
            return records;
        };
        match options.direction {
            Direction::Forward => options.first = next,
            Direction::Backward => options.last = next,
        }
    }
}

async fn payloads(backend: &Shared, from: StreamId) -> Vec<String> {
    let records = read(backend, from, ReadOptions::default()).await;
    records
        .iter()
        .map(|record| String::from_utf8(record.payload.to_vec()).unwrap())
        .collect()
}

async fn last(backend: &Shared, of: StreamId) -> Option<u64> {
    backend
        .stream(of)
        .await
        .unwrap()
        .map(|info| info.last_sequence.0)
}

pub async fn a_batch_happens_whole_or_not_at_all(backend: Shared) {
    commit(&backend, vec![append(stream(1), &["a"])]).await;
    let ops = vec![
        append(stream(1), &["b"]),
        append(stream(2), &["c"]),
        fork(stream(1), 1, stream(3)),
        expecting(stream(1), Expected::Last(Sequence(7)), &["d"]),
    ];
    assert_eq!(refused(&backend, ops.clone()).await, ErrorKind::Conflict);
    assert_eq!(payloads(&backend, stream(1)).await, ["a"]);
    assert_eq!(
        (
            last(&backend, stream(2)).await,
            last(&backend, stream(3)).await
        ),
        (None, None)
    );

    let appended = commit(&backend, ops[..3].to_vec()).await;
    assert_eq!(appended.ops.len(), 3);
    assert_eq!(payloads(&backend, stream(1)).await, ["a", "b"]);
    assert_eq!(payloads(&backend, stream(2)).await, ["c"]);
    assert_eq!(payloads(&backend, stream(3)).await, ["a"]);
}

pub async fn sequences_are_dense_and_positions_grow(backend: Shared) {
    let mut position = Position::ZERO;
    for round in 0..5_u64 {
        for number in 1..=3 {
            let appended = commit(&backend, vec![append(stream(number), &["a", "b"])]).await;
            assert_eq!(appended.ops[0].last_sequence, Sequence(round * 2 + 2));
            assert!(
                appended.ops[0].position > position
                    && appended.last_position > appended.ops[0].position
            );
            assert!(!appended.repeated);
            position = appended.last_position;
        }
    }
    let records = read(&backend, stream(2), ReadOptions::default()).await;
    assert_eq!(
        records
            .iter()
            .map(|record| record.sequence.0)
            .collect::<Vec<_>>(),
        (1..=10).collect::<Vec<_>>()
    );
    assert!(records.is_sorted_by(|a, b| a.position < b.position && a.time_ms <= b.time_ms));
    assert!(records.iter().all(|record| record.stream == stream(2)));
}

pub async fn payload_and_metadata_come_back_byte_for_byte(backend: Shared) {
    let every_byte: Vec<u8> = (0..=255).collect();
    let large = vec![7; 3 << 20];
    let given: [(u8, &[u8], &[u8]); 4] = [
        (0, b"", b""),
        (1, b"m", &every_byte),
        (127, &every_byte, b"\0"),
        (5, b"", &large),
    ];
    let records = given
        .iter()
        .map(|(kind, meta, payload)| NewRecord {
            labels: &[],
            kind: Kind(*kind),
            meta,
            payload,
        })
        .collect();
    commit(
        &backend,
        vec![Op::Append {
            stream: stream(1),
            expected: Expected::Absent,
            records,
        }],
    )
    .await;
    let found = read(&backend, stream(1), ReadOptions::default()).await;
    assert_eq!(found.len(), given.len());
    for (record, (kind, meta, payload)) in found.iter().zip(given) {
        assert_eq!((record.kind, record.redacted), (Kind(kind), false));
        assert!(
            record.meta == meta && record.payload == payload,
            "kind {kind}"
        );
    }
}

pub async fn a_wrong_expectation_is_refused_and_writes_nothing(backend: Shared) {
    let one = stream(1);
    let with = |expected| vec![expecting(one, expected, &["x"])];
    assert_eq!(
        refused(&backend, with(Expected::Last(Sequence(1)))).await,
        ErrorKind::Conflict
    );
    assert_eq!(
        refused(&backend, with(Expected::Exists)).await,
        ErrorKind::NotFound
    );
    assert_eq!(last(&backend, one).await, None);
    commit(&backend, with(Expected::Last(Sequence::ZERO))).await;
    assert_eq!(
        refused(&backend, with(Expected::Last(Sequence::ZERO))).await,
        ErrorKind::Conflict
    );
    assert_eq!(
        refused(&backend, with(Expected::Absent)).await,
        ErrorKind::AlreadyExists
    );
    assert_eq!(last(&backend, one).await, Some(1));
    commit(&backend, with(Expected::Last(Sequence(1)))).await;
    commit(&backend, with(Expected::Exists)).await;
    let truncate = Op::Truncate {
        stream: one,
        expected: Expected::Last(Sequence(1)),
        after: Sequence(1),
    };
    let delete = Op::Delete {
        stream: one,
        expected: Expected::Last(Sequence(1)),
    };
    assert_eq!(refused(&backend, vec![truncate]).await, ErrorKind::Conflict);
    assert_eq!(refused(&backend, vec![delete]).await, ErrorKind::Conflict);
    assert_eq!(last(&backend, one).await, Some(3));
}

/// The position of a stream's last record, 0 when it has none: what a reader sees.
async fn last_at(backend: &Shared, of: StreamId) -> Position {
    let options = ReadOptions {
        direction: Direction::Backward,
        limit: 1,
        ..ReadOptions::default()
    };
    let page = backend.read(of, options).await.unwrap();
    page.records
        .first()
        .map_or(Position::ZERO, |record| record.position)
}

pub async fn a_position_tells_a_record_from_another_with_its_sequence(backend: Shared) {
    let (one, two) = (stream(1), stream(2));
    let at = |position| Expected::At(position);
    assert_eq!(
        refused(&backend, vec![expecting(one, at(Position(1)), &["x"])]).await,
        ErrorKind::Conflict
    );
    commit(
        &backend,
        vec![expecting(one, at(Position::ZERO), &["a", "b", "c"])],
    )
    .await;
    let seen = last_at(&backend, one).await;
    let first = Position(seen.0 - 2);
    // The same last sequence again, with another record.
    commit(&backend, vec![truncate(one, 2), append(one, &["d"])]).await;
    assert_eq!(last(&backend, one).await, Some(3));
    let steps = |expected| {
        [
            expecting(one, expected, &["x"]),
            Op::Truncate {
                stream: one,
                expected,
                after: Sequence(1),
            },
            Op::Fork {
                parent: one,
                expected,
                at: Sequence(1),
                child: two,
            },
            Op::Snapshot {
                stream: one,
                expected,
                sequence: Sequence(1),
                meta: b"",
                payload: b"s",
            },
            Op::Delete {
                stream: one,
                expected,
            },
        ]
    };
    for position in [seen, Position::ZERO, first, Position(u64::MAX)] {
        for op in steps(at(position)) {
            assert_eq!(
                refused(&backend, vec![op]).await,
                ErrorKind::Conflict,
                "{position}"
            );
        }
    }
    let now = last_at(&backend, one).await;
    let [append_x, truncate_to_1, fork_at_1, save, delete] = steps(at(now));
    commit(&backend, vec![save]).await;
    commit(&backend, vec![fork_at_1]).await;
    commit(&backend, vec![truncate_to_1]).await;
    assert_eq!(
        last_at(&backend, one).await,
        first,
        "the one that was left there"
    );
    // What a fork inherits has the position it had.
    commit(&backend, vec![expecting(two, at(first), &["e"])]).await;
    assert_eq!(refused(&backend, vec![append_x]).await, ErrorKind::Conflict);
    commit(
        &backend,
        vec![expecting(one, at(first), &["f"]), truncate(one, 0)],
    )
    .await;
    assert_eq!(refused(&backend, vec![delete]).await, ErrorKind::Conflict);
    commit(
        &backend,
        vec![Op::Delete {
            stream: one,
            expected: at(Position::ZERO),
        }],
    )
    .await;
    assert_eq!(payloads(&backend, two).await, ["a", "e"]);
}

pub async fn steps_of_a_batch_expect_the_positions_that_those_before_them_leave(backend: Shared) {
    let (one, two, three) = (stream(1), stream(2), stream(3));
    let at = |position| Expected::At(Position(position));
    let steps = |shift: u64| {
        vec![
            // Positions 1 to 4: the creation of the stream and three records.
            append(one, &["a", "b", "c"]),
            expecting(one, at(4 + shift), &[]),
            truncate(one, 2),
            expecting(one, at(3), &[]),
            // 6: the fork.
            fork(one, 1, two),
            truncate(one, 0),
            expecting(one, at(0), &["d"]),
            expecting(two, at(2), &["e"]),
            fork(two, 1, three),
            expecting(three, at(2), &[]),
            expecting(one, at(8), &["f"]),
        ]
    };
    assert_eq!(refused(&backend, steps(1)).await, ErrorKind::Conflict);
    assert_eq!(last(&backend, one).await, None);
    commit(&backend, steps(0)).await;
    assert_eq!(payloads(&backend, one).await, ["d", "f"]);
    assert_eq!(payloads(&backend, two).await, ["a", "e"]);
    assert_eq!(payloads(&backend, three).await, ["a"]);
}

pub async fn a_repeated_key_tells_that_what_it_wrote_was_truncated(backend: Shared) {
    let (one, two, three) = (stream(1), stream(2), stream(3));
    commit(
        &backend,
        vec![append(one, &["a", "b"]), append(three, &["there"])],
    )
    .await;
    let once = || Batch::new(vec![append(one, &["c", "d"]), append(two, &["e"])]).with_key(b"k");
    let first = backend.commit(once()).await.unwrap();
    let again = backend.commit(once()).await.unwrap();
    assert_eq!((first.truncated, again.truncated), (false, false));
    // A later record, and its truncation, take nothing of it.
    commit(&backend, vec![append(one, &["f"]), truncate(one, 4)]).await;
    assert!(!backend.commit(once()).await.unwrap().truncated);
    commit(&backend, vec![truncate(one, 3), append(one, &["another"])]).await;
    let again = backend.commit(once()).await.unwrap();
    assert_eq!(
        (again.repeated, again.truncated, &again.ops),
        (true, true, &first.ops)
    );
    assert_eq!(payloads(&backend, one).await, ["a", "b", "c", "another"]);

    let other = || Batch::new(vec![append(one, &["g"]), append(two, &["h"])]).with_key(b"other");
    backend.commit(other()).await.unwrap();
    commit(
        &backend,
        vec![Op::Delete {
            stream: two,
            expected: Expected::Any,
        }],
    )
    .await;
    assert!(
        backend.commit(other()).await.unwrap().truncated,
        "a stream it wrote to is gone"
    );
    commit(
        &backend,
        vec![Op::Delete {
            stream: one,
            expected: Expected::Any,
        }],
    )
    .await;
    assert_eq!(
        backend.commit(other()).await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
    // Not what a step is refused for that was done already.
    for key in [&b"k"[..], b"never used"] {
        let batch = Batch::new(vec![
            expecting(three, Expected::Absent, &[]),
            append(one, &["i"]),
        ])
        .with_key(key);
        assert_eq!(
            backend.commit(batch).await.unwrap_err().kind(),
            ErrorKind::NotFound
        );
    }
}

pub async fn what_a_batch_truncates_itself_is_not_told_as_truncated(backend: Shared) {
    let one = stream(1);
    let once = || Batch::new(vec![append(one, &["a", "b", "c"]), truncate(one, 2)]).with_key(b"k");
    backend.commit(once()).await.unwrap();
    assert!(!backend.commit(once()).await.unwrap().truncated);
    commit(&backend, vec![truncate(one, 1)]).await;
    assert!(backend.commit(once()).await.unwrap().truncated);
}

pub async fn a_fork_does_not_know_its_parents_keys(backend: Shared) {
    let once = |to| Batch::new(vec![append(to, &["a"])]).with_key(b"k");
    backend.commit(once(stream(1))).await.unwrap();
    commit(&backend, vec![fork(stream(1), 1, stream(2))]).await;
    assert!(!backend.commit(once(stream(2))).await.unwrap().repeated);
    assert!(backend.commit(once(stream(2))).await.unwrap().repeated);
    assert_eq!(payloads(&backend, stream(2)).await, ["a", "a"]);
}

pub async fn a_redacted_snapshot_gives_way_to_the_one_before(backend: Shared) {
    let one = stream(1);
    let save = |sequence, payload: &'static [u8]| Op::Snapshot {
        stream: one,
        expected: Expected::Any,
        sequence: Sequence(sequence),
        meta: b"m",
        payload,
    };
    commit(
        &backend,
        vec![
            append(one, &["a", "b"]),
            save(1, b"at 1"),
            save(2, b"at 2"),
            save(2, b"at 2 again"),
        ],
    )
    .await;
    let latest = async || backend.latest_snapshot(one, Sequence::MAX).await.unwrap();
    for expected in [&b"at 2 again"[..], b"at 2", b"at 1"] {
        let found = latest().await.unwrap();
        assert_eq!(found.payload, expected);
        commit(
            &backend,
            vec![Op::Redact {
                position: found.position,
                reason: "asked for",
            }],
        )
        .await;
    }
    assert_eq!(latest().await, None);
}

pub async fn a_repeated_key_returns_the_first_result(backend: Shared) {
    let once = |payload| {
        Batch::new(vec![
            append(stream(1), &[payload]),
            append(stream(2), &[payload]),
        ])
        .with_key(b"k")
    };
    let first = backend.commit(once("a")).await.unwrap();
    commit(&backend, vec![append(stream(1), &["b"])]).await;
    let again = backend.commit(once("c")).await.unwrap();
    assert_eq!((again.repeated, &again.ops), (true, &first.ops));
    assert_eq!(payloads(&backend, stream(1)).await, ["a", "b"]);
    assert_eq!(payloads(&backend, stream(2)).await, ["a"]);
}

pub async fn a_repeated_key_returns_what_a_mere_expectation_found(backend: Shared) {
    let (one, two) = (stream(1), stream(2));
    commit(&backend, vec![append(one, &["a", "b"])]).await;
    let steps = || {
        vec![
            expecting(one, Expected::Last(Sequence(2)), &[]),
            append(two, &["c"]),
            Op::Snapshot {
                stream: one,
                expected: Expected::Any,
                sequence: Sequence(1),
                meta: b"",
                payload: b"s",
            },
            expecting(stream(3), Expected::Absent, &[]),
        ]
    };
    let first = backend
        .commit(Batch::new(steps()).with_key(b"k"))
        .await
        .unwrap();
    commit(&backend, vec![append(one, &["d"])]).await;
    let again = backend
        .commit(Batch::new(steps()).with_key(b"k"))
        .await
        .unwrap();
    assert_eq!((again.repeated, &again.ops), (true, &first.ops));
    let sequences: Vec<u64> = again.ops.iter().map(|op| op.last_sequence.0).collect();
    assert_eq!(sequences, [2, 1, 1, 0]);
    let untold = Batch::new(vec![append(one, &[]), append(two, &["c"])]).with_key(b"other");
    assert_eq!(
        backend.commit(untold).await.unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
}

pub async fn a_key_belongs_to_its_stream(backend: Shared) {
    for number in 1..=2 {
        let batch = Batch::new(vec![append(stream(number), &["a"])]).with_key(b"same");
        assert!(!backend.commit(batch).await.unwrap().repeated);
    }
    let other = Batch::new(vec![append(stream(1), &["b"])]).with_key(b"other");
    assert!(!backend.commit(other).await.unwrap().repeated);
    assert_eq!(payloads(&backend, stream(1)).await, ["a", "b"]);
}

pub async fn truncated_records_do_not_come_back(backend: Shared) {
    let one = stream(1);
    commit(&backend, vec![append(one, &["a", "b", "c", "d"])]).await;
    let before = read(&backend, one, ReadOptions::default()).await;
    assert_eq!(
        commit(&backend, vec![truncate(one, 2)]).await.ops[0].last_sequence,
        Sequence(2)
    );
    assert_eq!(payloads(&backend, one).await, ["a", "b"]);
    commit(&backend, vec![append(one, &["e"])]).await;
    assert_eq!(payloads(&backend, one).await, ["a", "b", "e"]);
    let after = read(&backend, one, ReadOptions::default()).await;
    assert_eq!(after[..2], before[..2]);
    assert!(
        after[2].position > before[3].position,
        "a position is never used again"
    );
    assert_eq!(
        refused(&backend, vec![truncate(one, 4)]).await,
        ErrorKind::InvalidInput
    );
    commit(&backend, vec![truncate(one, 3)]).await;
    commit(&backend, vec![truncate(one, 0)]).await;
    assert_eq!(
        (
            payloads(&backend, one).await.len(),
            last(&backend, one).await
        ),
        (0, Some(0))
    );
}

pub async fn a_fork_keeps_what_it_shares(backend: Shared) {
    let (parent, child) = (stream(1), stream(2));
    commit(&backend, vec![append(parent, &["a", "b", "c"])]).await;
    let shared = read(&backend, parent, ReadOptions::default()).await;
    assert_eq!(
        commit(&backend, vec![fork(parent, 2, child)]).await.ops[0].last_sequence,
        Sequence(2)
    );
    commit(&backend, vec![truncate(parent, 0)]).await;
    assert_eq!(payloads(&backend, child).await, ["a", "b"]);
    commit(&backend, vec![append(parent, &["x", "y"])]).await;
    commit(
        &backend,
        vec![Op::Delete {
            stream: parent,
            expected: Expected::Any,
        }],
    )
    .await;
    let kept = read(&backend, child, ReadOptions::default()).await;
    assert_eq!(
        kept,
        shared[..2],
        "the same records: position, time, and the stream they were first appended to"
    );
}

pub async fn a_fork_and_its_parent_go_their_own_ways(backend: Shared) {
    let (parent, child, grandchild) = (stream(1), stream(2), stream(3));
    commit(
        &backend,
        vec![append(parent, &["a", "b"]), fork(parent, 1, child)],
    )
    .await;
    commit(
        &backend,
        vec![append(child, &["c"]), append(parent, &["p"])],
    )
    .await;
    commit(
        &backend,
        vec![fork(child, 2, grandchild), truncate(child, 1)],
    )
    .await;
    commit(
        &backend,
        vec![append(child, &["d", "e"]), append(grandchild, &["g"])],
    )
    .await;
    assert_eq!(payloads(&backend, parent).await, ["a", "b", "p"]);
    assert_eq!(payloads(&backend, child).await, ["a", "d", "e"]);
    assert_eq!(payloads(&backend, grandchild).await, ["a", "c", "g"]);
}

pub async fn forks_of_forks_read_to_any_depth(backend: Shared) {
    const DEPTH: u64 = 1_000;
    commit(&backend, vec![append(stream(1), &["0"])]).await;
    // A hundred at a time: what is claimed is the depth, and a flush for each would take a busy disk minutes.
    for first in (1..=DEPTH).step_by(100) {
        let steps = (first..first + 100).flat_map(|depth| {
            let (parent, child) = (stream(u128::from(depth)), stream(u128::from(depth + 1)));
            [fork(parent, depth, child), append(child, &["x"])]
        });
        commit(&backend, steps.collect()).await;
    }
    let deepest = stream(u128::from(DEPTH + 1));
    let records = read(&backend, deepest, ReadOptions::default()).await;
    assert_eq!(records.len() as u64, DEPTH + 1);
    assert!(records.is_sorted_by_key(|record| record.sequence));
    let backward = ReadOptions {
        direction: Direction::Backward,
        limit: 7,
        ..ReadOptions::default()
    };
    assert_eq!(
        read(&backend, deepest, backward).await.len() as u64,
        DEPTH + 1
    );
}

pub async fn a_refused_fork_makes_no_stream(backend: Shared) {
    commit(
        &backend,
        vec![append(stream(1), &["a"]), append(stream(2), &[])],
    )
    .await;
    assert_eq!(
        refused(&backend, vec![fork(stream(1), 2, stream(3))]).await,
        ErrorKind::InvalidInput
    );
    assert_eq!(
        refused(&backend, vec![fork(stream(9), 0, stream(3))]).await,
        ErrorKind::NotFound
    );
    assert_eq!(
        refused(&backend, vec![fork(stream(1), 1, stream(2))]).await,
        ErrorKind::AlreadyExists
    );
    assert_eq!(
        refused(&backend, vec![fork(stream(1), 1, stream(1))]).await,
        ErrorKind::AlreadyExists
    );
    assert_eq!(last(&backend, stream(3)).await, None);
    assert_eq!(
        last(&backend, stream(2)).await,
        Some(0),
        "an append of nothing makes an empty stream"
    );
}

pub async fn a_deleted_stream_is_gone_and_its_id_is_spent(backend: Shared) {
    let one = stream(1);
    commit(&backend, vec![append(one, &["a"])]).await;
    commit(
        &backend,
        vec![Op::Delete {
            stream: one,
            expected: Expected::Exists,
        }],
    )
    .await;
    assert_eq!(last(&backend, one).await, None);
    assert_eq!(
        backend
            .read(one, ReadOptions::default())
            .await
            .unwrap_err()
            .kind(),
        ErrorKind::NotFound
    );
    let again = |expected| vec![expecting(one, expected, &["b"])];
    for expected in [
        Expected::Any,
        Expected::Absent,
        Expected::Last(Sequence::ZERO),
        Expected::Exists,
    ] {
        assert_eq!(
            refused(&backend, again(expected)).await,
            ErrorKind::NotFound
        );
    }
    commit(&backend, vec![append(stream(2), &["c"])]).await;
    assert_eq!(
        refused(&backend, vec![fork(stream(2), 1, one)]).await,
        ErrorKind::AlreadyExists
    );
    assert_eq!(
        refused(&backend, vec![truncate(one, 0)]).await,
        ErrorKind::NotFound
    );
}

pub async fn the_latest_snapshot_is_the_one_at_or_before(backend: Shared) {
    let one = stream(1);
    let save = |sequence, payload: &'static [u8]| Op::Snapshot {
        stream: one,
        expected: Expected::Any,
        sequence: Sequence(sequence),
        meta: b"m",
        payload,
    };
    commit(
        &backend,
        vec![
            append(one, &["a", "b", "c", "d"]),
            save(2, b"at 2"),
            save(4, b"at 4"),
        ],
    )
    .await;
    commit(&backend, vec![save(2, b"at 2 again")]).await;
    let latest = async |of, at| {
        backend
            .latest_snapshot(of, at)
            .await
            .unwrap()
            .map(|found| found.payload.to_vec())
    };
    assert_eq!(latest(one, Sequence::MAX).await.unwrap(), b"at 4");
    assert_eq!(latest(one, Sequence(3)).await.unwrap(), b"at 2 again");
    assert_eq!(latest(one, Sequence(1)).await, None);
    assert_eq!(
        last(&backend, one).await,
        Some(4),
        "a snapshot is no record of the stream's own"
    );
    assert_eq!(
        refused(&backend, vec![save(5, b"")]).await,
        ErrorKind::InvalidInput
    );
    commit(&backend, vec![truncate(one, 3)]).await;
    assert_eq!(
        latest(one, Sequence::MAX).await.unwrap(),
        b"at 2 again",
        "a truncation takes what covers more"
    );
}

pub async fn a_redacted_payload_is_gone_from_forks_too(backend: Shared) {
    let records = vec![
        NewRecord {
            labels: &[],
            kind: Kind(3),
            meta: b"meta",
            payload: b"secret",
        },
        NewRecord::data(b"open"),
    ];
    let append = Op::Append {
        stream: stream(1),
        expected: Expected::Any,
        records,
    };
    let appended = commit(&backend, vec![append, fork(stream(1), 2, stream(2))]).await;
    let position = appended.ops[0].position;
    commit(
        &backend,
        vec![Op::Redact {
            position,
            reason: "asked for",
        }],
    )
    .await;
    for number in 1..=2 {
        let records = read(&backend, stream(number), ReadOptions::default()).await;
        let first = &records[0];
        assert_eq!(
            (first.redacted, first.kind, first.position),
            (true, Kind(3), position)
        );
        assert!(first.payload.is_empty() && first.meta.is_empty());
        assert_eq!(
            (records[1].redacted, &records[1].payload[..]),
            (false, &b"open"[..])
        );
    }
    let nothing = Op::Redact {
        position: Position(9_999),
        reason: "",
    };
    assert_eq!(refused(&backend, vec![nothing]).await, ErrorKind::NotFound);
}

pub async fn pages_give_every_record_once_in_both_directions(backend: Shared) {
    let records = (0..25)
        .map(|number| NewRecord {
            labels: &[],
            kind: Kind(number % 3),
            meta: b"",
            payload: b"x",
        })
        .collect();
    commit(
        &backend,
        vec![Op::Append {
            stream: stream(1),
            expected: Expected::Any,
            records,
        }],
    )
    .await;
    let found = async |options: ReadOptions| -> Vec<u64> {
        read(&backend, stream(1), options)
            .await
            .iter()
            .map(|record| record.sequence.0)
            .collect()
    };
    for limit in [1, 4, 25, 26, u64::MAX] {
        let forward = ReadOptions {
            limit,
            ..ReadOptions::default()
        };
        assert_eq!(found(forward.clone()).await, (1..=25).collect::<Vec<_>>());
        let backward = ReadOptions {
            direction: Direction::Backward,
            ..forward.clone()
        };
        assert_eq!(
            found(backward.clone()).await,
            (1..=25).rev().collect::<Vec<_>>()
        );
        let part = ReadOptions {
            first: Sequence(3),
            last: Sequence(9),
            ..backward
        };
        assert_eq!(found(part).await, (3..=9).rev().collect::<Vec<_>>());
        let of_kind = ReadOptions {
            kinds: vec![Kind(2)],
            ..forward
        };
        assert_eq!(
            found(of_kind).await,
            (1..=25)
                .filter(|sequence| (sequence - 1) % 3 == 2)
                .collect::<Vec<_>>()
        );
    }
    assert_eq!(
        found(ReadOptions {
            first: Sequence(26),
            ..ReadOptions::default()
        })
        .await,
        [0; 0]
    );
    assert_eq!(
        found(ReadOptions {
            first: Sequence(9),
            last: Sequence(3),
            ..ReadOptions::default()
        })
        .await,
        [0; 0]
    );
    assert_eq!(
        found(ReadOptions {
            first: Sequence::ZERO,
            last: Sequence(1),
            ..ReadOptions::default()
        })
        .await,
        [1]
    );
    let page = backend
        .read(
            stream(1),
            ReadOptions {
                limit: 25,
                ..ReadOptions::default()
            },
        )
        .await
        .unwrap();
    assert_eq!(
        (page.records.len(), page.next),
        (25, None),
        "the page that ends at the end says so"
    );
}

pub async fn a_page_of_large_payloads_is_bounded(backend: Shared) {
    let payload = vec![b'x'; 700 << 10];
    let records = vec![NewRecord::data(&payload); 6];
    commit(
        &backend,
        vec![Op::Append {
            stream: stream(1),
            expected: Expected::Any,
            records,
        }],
    )
    .await;
    let page = backend
        .read(stream(1), ReadOptions::default())
        .await
        .unwrap();
    assert!(
        page.records.len() <= 3 && page.next.is_some(),
        "{} records in one page",
        page.records.len()
    );
    assert_eq!(
        read(&backend, stream(1), ReadOptions::default())
            .await
            .len(),
        6
    );
}

pub async fn a_scan_gives_the_log_in_the_order_of_positions(backend: Shared) {
    for number in 1..=20 {
        commit(&backend, vec![append(stream(number % 4), &["a", "b"])]).await;
    }
    let mut found = Vec::new();
    let mut next = Some(Position::ZERO);
    while let Some(first) = next {
        let page = backend.scan(first, 7).await.unwrap();
        assert!(page.records.len() <= 7);
        found.extend(page.records);
        next = page.next;
    }
    assert!(found.is_sorted_by(|a, b| a.position < b.position));
    let data = found.iter().filter(|record| record.kind.is_data());
    let places: HashSet<_> = data
        .clone()
        .map(|record| (record.stream, record.sequence))
        .collect();
    assert_eq!((places.len(), data.count()), (40, 40));
    let from = found[30].position;
    assert_eq!(backend.scan(from, 1).await.unwrap().records[0], found[30]);
}

pub async fn input_over_a_limit_is_refused(backend: Shared) {
    let one = stream(1);
    let with = |record| {
        vec![Op::Append {
            stream: one,
            expected: Expected::Any,
            records: vec![record],
        }]
    };
    let meta = vec![0; limits::META_BYTES_MAX + 1];
    let engines_own = NewRecord {
        labels: &[],
        kind: Kind::TRUNCATE,
        ..NewRecord::data(b"")
    };
    assert_eq!(
        refused(&backend, with(engines_own)).await,
        ErrorKind::InvalidInput
    );
    assert_eq!(
        refused(
            &backend,
            with(NewRecord {
                labels: &[],
                meta: &meta,
                ..NewRecord::data(b"")
            })
        )
        .await,
        ErrorKind::TooLarge
    );
    let payload = vec![0; limits::PAYLOAD_BYTES_MAX + 1];
    assert_eq!(
        refused(&backend, with(NewRecord::data(&payload))).await,
        ErrorKind::TooLarge
    );
    let long = [0; limits::KEY_BYTES_MAX + 1];
    for key in [&b""[..], &long] {
        let batch = Batch::new(vec![append(one, &["a"])]).with_key(key);
        let kind = backend.commit(batch).await.unwrap_err().kind();
        assert!(
            matches!(kind, ErrorKind::InvalidInput | ErrorKind::TooLarge),
            "{kind:?}"
        );
    }
    let without_append = Batch::new(vec![truncate(one, 0)]).with_key(b"k");
    assert_eq!(
        backend.commit(without_append).await.unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
    assert_eq!(
        commit(&backend, Vec::new()).await.ops,
        [],
        "a batch of nothing does nothing"
    );
    assert_eq!(last(&backend, one).await, None);
}

#[expect(
    clippy::disallowed_methods,
    reason = "the other thread most likely waits by then; the claim holds either way"
)]
pub async fn a_waiter_is_told_of_the_next_append(backend: Shared) {
    let seen = commit(&backend, vec![append(stream(1), &["a"])])
        .await
        .last_position;
    assert_eq!(
        backend.wait_past(Position::ZERO).await.unwrap(),
        seen,
        "what is there already is told at once"
    );
    let writer = Arc::clone(&backend);
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        pollster::block_on(commit(&writer, vec![append(stream(1), &["b"])])).last_position
    });
    let told = backend.wait_past(seen).await.unwrap();
    assert!(told > seen);
    assert!(thread.join().unwrap() >= told);
}

pub async fn many_writers_lose_nothing(backend: Shared) {
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let backend = Arc::clone(&backend);
            std::thread::spawn(move || {
                for _ in 0..25 {
                    pollster::block_on(commit(&backend, vec![append(stream(1), &["x"])]));
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let records = read(&backend, stream(1), ReadOptions::default()).await;
    assert_eq!(
        records
            .iter()
            .map(|record| record.sequence.0)
            .collect::<Vec<_>>(),
        (1..=200).collect::<Vec<_>>()
    );
    assert!(records.is_sorted_by(|a, b| a.position < b.position));
}

pub async fn a_conflict_can_be_seen_by_whoever_is_told_of_it(backend: Shared) {
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let backend = Arc::clone(&backend);
            std::thread::spawn(move || pollster::block_on(count_up(backend)))
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(last(&backend, stream(1)).await, Some(100));
}

async fn count_up(backend: Shared) {
    let mut done = 0;
    while done < 25 {
        let believed = last(&backend, stream(1)).await.unwrap_or_default();
        let append = expecting(stream(1), Expected::Last(Sequence(believed)), &["x"]);
        match backend.commit(Batch::new(vec![append])).await {
            Ok(_) => done += 1,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Conflict);
                assert_ne!(
                    last(&backend, stream(1)).await.unwrap_or_default(),
                    believed,
                    "what conflicts is seen"
                );
            }
        }
    }
}

pub async fn steps_of_a_batch_see_those_before_them(backend: Shared) {
    let (one, two) = (stream(1), stream(2));
    let ops = vec![
        append(one, &["a", "b", "c"]),
        truncate(one, 1),
        expecting(one, Expected::Last(Sequence(1)), &["d"]),
        fork(one, 2, two),
        Op::Delete {
            stream: one,
            expected: Expected::Last(Sequence(2)),
        },
        append(two, &["e"]),
    ];
    commit(&backend, ops).await;
    assert_eq!(payloads(&backend, two).await, ["a", "d", "e"]);
    assert_eq!(last(&backend, one).await, None);
}

pub async fn what_is_not_there_is_not_found(backend: Shared) {
    let one = stream(1);
    assert_eq!(last(&backend, one).await, None);
    assert_eq!(
        backend
            .read(one, ReadOptions::default())
            .await
            .unwrap_err()
            .kind(),
        ErrorKind::NotFound
    );
    assert_eq!(
        backend
            .latest_snapshot(one, Sequence::MAX)
            .await
            .unwrap_err()
            .kind(),
        ErrorKind::NotFound
    );
    assert_eq!(
        refused(&backend, vec![truncate(one, 0)]).await,
        ErrorKind::NotFound
    );
    let snapshot = Op::Snapshot {
        stream: one,
        expected: Expected::Any,
        sequence: Sequence::ZERO,
        meta: b"",
        payload: b"",
    };
    assert_eq!(refused(&backend, vec![snapshot]).await, ErrorKind::NotFound);
    assert!(
        backend
            .scan(Position::FIRST, 10)
            .await
            .unwrap()
            .records
            .is_empty()
    );
    assert_ne!(backend.new_id(), backend.new_id());
}
