//! A fixed piece of work with every kind of step, over several segments, for sweeps.

use bytes::Bytes;
use runlog_engine::{Codec, CompactOptions, CompactScope, Durability, Expected, Label, StreamId};

use crate::{
    driver::Leave,
    model::{Item, Step, Work},
};

/// A step of the script.
#[derive(Clone, Debug)]
pub enum Line {
    /// A batch.
    Commit(Work),
    /// A flush of all that was only written.
    Sync,
    /// The store is left and opened again.
    Leave(Leave),
    /// Everything is read.
    Read,
    /// What is in use of all that was written is put into packs.
    Compact(CompactOptions),
    /// So many milliseconds pass.
    Pass(u64),
}

/// The streams that the script writes to.
pub fn stream(number: u8) -> StreamId {
    StreamId::from_bytes([number; 16])
}

fn item(kind: u8, byte: u8, bytes: usize) -> Item {
    let payload: Vec<u8> = (0..bytes)
        .map(|place| byte.wrapping_add((place / 7).to_le_bytes()[0]))
        .collect();
    let meta = if byte.is_multiple_of(2) {
        Bytes::from_static(br#"{"at":"start"}"#)
    } else {
        Bytes::new()
    };
    Item {
        kind,
        labels: Vec::new(),
        meta,
        payload: payload.into(),
    }
}

fn append(number: u8, sizes: &[usize]) -> Step {
    let records = sizes.iter().zip(0..).map(|(bytes, kind)| {
        let byte = number.wrapping_mul(31) + kind;
        // Some of the streams that the long scripts have.
        let labels = match (number, kind) {
            (6 | 9, 1) | (_, 2) => vec![Label(7), Label::of("stream", [number])],
            _ => Vec::new(),
        };
        Item {
            labels,
            ..item(kind, byte, *bytes)
        }
    });
    Step::Append {
        stream: stream(number),
        expected: Expected::Any,
        records: records.collect(),
    }
}

fn batch(steps: Vec<Step>) -> Line {
    Line::Commit(Work {
        steps,
        ..Work::default()
    })
}

fn os(steps: Vec<Step>) -> Line {
    Line::Commit(Work {
        steps,
        durability: Some(Durability::Os),
        ..Work::default()
    })
}

fn keyed(key: &[u8], steps: Vec<Step>) -> Line {
    Line::Commit(Work {
        steps,
        key: Some(key.to_vec()),
        ..Work::default()
    })
}

fn snapshot(number: u8, sequence: u64, bytes: usize) -> Step {
    Step::Snapshot {
        stream: stream(number),
        expected: Expected::Any,
        sequence,
        state: item(129, number, bytes),
    }
}

fn truncate(number: u8, after: u64) -> Step {
    Step::Truncate {
        stream: stream(number),
        expected: Expected::Exists,
        after,
    }
}

fn fork(parent: u8, at: u64, child: u8) -> Step {
    Step::Fork {
        parent: stream(parent),
        expected: Expected::Any,
        at,
        child: stream(child),
    }
}

fn redact(position: u64) -> Step {
    redact_many(position, 0)
}

fn redact_many(position: u64, others: u128) -> Step {
    Step::Redact {
        position,
        others,
        reason: "asked for".to_owned(),
    }
}

/// Every kind of step once or more, in small records, with nothing that leaves the store.
pub fn every_kind() -> Vec<Line> {
    vec![
        batch(vec![append(1, &[10, 200, 0])]),
        keyed(b"once", vec![append(2, &[700]), append(1, &[30])]),
        os(vec![append(1, &[1000, 20])]),
        batch(vec![snapshot(1, 4, 100)]),
        os(vec![fork(1, 3, 3)]),
        batch(vec![append(3, &[5]), truncate(1, 2), append(1, &[8, 9])]),
        keyed(b"once", vec![append(2, &[700]), append(1, &[30])]),
        // Behind the third are another record of its stream, and one after the creation of another.
        batch(vec![redact_many(3, 0b1001)]),
        batch(vec![append(4, &[])]),
        batch(vec![
            append(5, &[4040]),
            Step::Delete {
                stream: stream(4),
                expected: Expected::Any,
            },
        ]),
    ]
}

/// About 30 steps over several segments of 64 KiB, the store being left in several ways.
pub fn long() -> Vec<Line> {
    let mut lines = every_kind();
    lines.extend([
        os(vec![append(6, &[20_000])]),
        batch(vec![append(1, &[3000; 6])]),
        os(vec![append(6, &[9000, 9000])]),
        keyed(b"second", vec![append(2, &[300])]),
        batch(vec![append(6, &[30_000]), snapshot(6, 2, 2000)]),
        os(vec![append(7, &[100])]),
        Line::Sync,
        os(vec![append(7, &[100, 100])]),
        Line::Leave(Leave::Close),
        batch(vec![fork(6, 2, 8), append(8, &[50])]),
        os(vec![append(7, &[40_000])]),
        batch(vec![truncate(7, 1)]),
        batch(vec![append(9, &[70_000])]),
        Line::Leave(Leave::Kill),
        os(vec![append(9, &[100])]),
        Line::Pass(60 * 24 * 3_600_000),
        batch(vec![append(9, &[200])]),
        keyed(b"second", vec![append(2, &[300])]),
        batch(vec![redact(2), snapshot(8, 0, 10)]),
        Line::Leave(Leave::CloseWithoutCheckpoint),
        os(vec![append(1, &[4000; 12])]),
        batch(vec![
            append(2, &[10_000, 10]),
            Step::Delete {
                stream: stream(6),
                expected: Expected::Any,
            },
        ]),
        os(vec![append(1, &[60])]),
        Line::Read,
    ]);
    lines
}

/// Compactions between truncations, forks, deletions, keyed batches and redactions, the store being left in several ways.
pub fn compactions() -> Vec<Line> {
    let compact = |scope, codec| {
        Line::Compact(CompactOptions {
            scope,
            codec,
            ..CompactOptions::default()
        })
    };
    let mut lines = every_kind();
    lines.extend([
        compact(CompactScope::All, Codec::Zstd),
        os(vec![append(6, &[30_000, 9000]), append(7, &[9000, 9000])]),
        batch(vec![snapshot(6, 2, 2000), append(6, &[30_000])]),
        os(vec![fork(7, 1, 8), truncate(7, 0)]),
        // What was given up before is only written, not flushed.
        compact(CompactScope::Sealed, Codec::Plain),
        Line::Leave(Leave::Kill),
        keyed(b"second", vec![append(2, &[300]), append(7, &[20_000])]),
        os(vec![Step::Delete {
            stream: stream(6),
            expected: Expected::Any,
        }]),
        compact(CompactScope::Dead, Codec::Lz4),
        Line::Leave(Leave::CloseWithoutCheckpoint),
        os(vec![append(9, &[100, 60_000])]),
        compact(CompactScope::All, Codec::Lz4),
        keyed(b"second", vec![append(2, &[300]), append(7, &[20_000])]),
        batch(vec![append(9, &[200]), truncate(9, 1)]),
        Line::Leave(Leave::Close),
        compact(CompactScope::All, Codec::Zstd),
        batch(vec![append(1, &[60])]),
        Line::Read,
    ]);
    lines
}

/// More that was only written than opening makes durable again, with a store that is left by its process on the way.
pub fn long_tail() -> Vec<Line> {
    vec![
        batch(vec![append(1, &[100])]),
        os(vec![append(2, &[700_000])]),
        os(vec![append(3, &[400_000, 10])]),
        Line::Sync,
        os(vec![append(2, &[1_100_000])]),
        Line::Leave(Leave::Kill),
        batch(vec![append(2, &[30])]),
    ]
}

/// Batches that are only written fill up 64 KiB of room, and one that is to be flushed needs more of it.
pub fn end_of_room() -> Vec<Line> {
    vec![
        os(vec![append(2, &[25_000])]),
        os(vec![append(3, &[20_000, 10])]),
        os(vec![append(2, &[9000])]),
        batch(vec![append(1, &[9000])]),
        batch(vec![append(1, &[30])]),
    ]
}

/// Every kind of step in three segments, which `pass` ends; the last batches have several records and pages.
pub fn in_three_segments(pass: &Line) -> Vec<Line> {
    let mut lines = every_kind();
    // Short ones do, where each byte is to be damaged.
    lines
        .retain(|line| !matches!(line, Line::Commit(work) if work.steps.iter().any(Step::is_long)));
    lines.extend([
        batch(vec![append(4, &[]), append(5, &[4])]),
        batch(vec![Step::Delete {
            stream: stream(4),
            expected: Expected::Any,
        }]),
        pass.clone(),
        batch(vec![append(1, &[40, 7]), append(2, &[])]),
        os(vec![append(7, &[100, 1, 2, 3])]),
        batch(vec![snapshot(7, 2, 20), fork(7, 3, 8), append(8, &[9])]),
        keyed(b"in the middle", vec![append(3, &[64])]),
        batch(vec![redact(2), truncate(7, 1), fork(1, 0, 9)]),
        pass.clone(),
        batch(vec![append(1, &[20])]),
        keyed(b"at the end", vec![append(2, &[10, 11]), append(10, &[30])]),
        batch(vec![
            snapshot(1, 3, 15),
            truncate(1, 3),
            fork(8, 2, 11),
            redact(1),
        ]),
        batch(vec![Step::Delete {
            stream: stream(5),
            expected: Expected::Any,
        }]),
        batch(vec![append(1, &[300, 300, 0, 300])]),
    ]);
    lines
}
