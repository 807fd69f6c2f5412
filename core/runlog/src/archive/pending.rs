//! [`Pending`]: what the next batch of an import writes, as operations of the log.

use runlog_log::{Appended, Expected, Kind, NewRecord, Op, Position, Sequence, StreamId};

use super::lines::RecordLine;

/// The content of the next batch.
pub(super) enum Pending {
    Append(StreamId, Vec<RecordLine>),
    Empty(StreamId),
    Fork(StreamId, u64, StreamId),
    Snapshot(RecordLine),
    /// Two records without effect, so that the next record isn't mistaken for the message of the envelope before.
    Apart(StreamId, u64),
}

/// The operations that write it.
pub(super) fn ops_of(pending: &Pending) -> Vec<Op<'_>> {
    match pending {
        Pending::Append(stream, records) => {
            let before = records.first().map_or(0, |first| first.sequence - 1);
            let expected = Expected::Last(Sequence(before));
            vec![Op::Append {
                stream: *stream,
                expected,
                records: records.iter().map(new_record).collect(),
            }]
        }
        Pending::Empty(stream) => {
            vec![Op::Append {
                stream: *stream,
                expected: Expected::Absent,
                records: Vec::new(),
            }]
        }
        Pending::Fork(parent, at, child) => {
            vec![Op::Fork {
                parent: *parent,
                expected: Expected::Any,
                at: Sequence(*at),
                child: *child,
            }]
        }
        Pending::Snapshot(line) => vec![Op::Snapshot {
            stream: line.stream,
            expected: Expected::Exists,
            sequence: Sequence(line.sequence),
            meta: &line.meta,
            payload: &line.payload,
        }],
        Pending::Apart(stream, last) => {
            let truncate = Op::Truncate {
                stream: *stream,
                expected: Expected::Any,
                after: Sequence(*last),
            };
            vec![truncate.clone(), truncate]
        }
    }
}

/// The positions of what was written without its content.
pub(super) fn redacted_of(pending: &[Pending], appended: &Appended) -> Vec<Position> {
    let mut positions = Vec::new();
    let mut ops = appended.ops.iter();
    for pending in pending {
        let first = ops.next();
        match (pending, first) {
            (Pending::Append(_, records), Some(first)) => {
                let redacted = records.iter().zip(0..).filter(|(line, _)| line.redacted);
                positions.extend(redacted.map(|(_, at)| Position(first.position.0 + at)));
            }
            // It is two operations.
            (Pending::Apart(..), _) => drop(ops.next()),
            _ => {}
        }
    }
    positions
}

/// A line as the record to be written.
pub(super) fn new_record(line: &RecordLine) -> NewRecord<'_> {
    debug_assert!(
        line.kind < Kind::CREATE,
        "a line of another kind is refused when it is read"
    );
    NewRecord {
        labels: &line.labels,
        kind: line.kind,
        meta: &line.meta,
        payload: &line.payload,
    }
}
