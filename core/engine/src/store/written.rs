//! [`Written`]: a logged batch with an idempotency key. In a segment of the log it is read from the batch's own
//! records; a pack stores a receipt of it, because its records are scattered there.

use std::collections::HashMap;

use super::place::position_of;
use crate::{
    Kind, OpResult, Position, Result, Sequence,
    format::{
        receipt::{self, LeftRow, StepRow},
        record::{self, Flags},
    },
    log::{frame::Frame, scan::Scan, segment::Segment},
    sync::Arc,
};

/// One op of a batch, as the log has it. The creation of a stream counts as an op.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    pub(crate) kind: Kind,
    pub(crate) stream: u32,
    pub(crate) records: usize,
    pub(crate) result: OpResult,
    pub(crate) last_position: Position,
}

/// A batch, as the log has it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Written {
    pub(crate) steps: Vec<Step>,
    /// By stream: sequence and position of the last of those of its data records that it didn't truncate or delete itself.
    pub(crate) left: HashMap<u32, (u32, u64)>,
    /// Where those lie, in a segment of the log: its seed, and the offset.
    pub(crate) places: HashMap<u32, (u32, u64)>,
}

impl Written {
    /// The payload of its receipt.
    pub(crate) fn to_receipt(&self) -> Vec<u8> {
        let count = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let step = |step: &Step| StepRow {
            kind: step.kind,
            stream: step.stream,
            records: count(step.records as u64),
            last_sequence: count(step.result.last_sequence.0),
            position: step.result.position.0,
            last_position: step.last_position.0,
        };
        let left = |(stream, (sequence, position)): (&u32, &(u32, u64))| LeftRow {
            stream: *stream,
            sequence: *sequence,
            position: *position,
        };
        let steps: Vec<_> = self.steps.iter().map(step).collect();
        let mut left: Vec<_> = self.left.iter().map(left).collect();
        runlog_log::order::sort_by_key(&mut left, |row| row.stream);
        receipt::encode(&steps, &left)
    }

    fn of_receipt(payload: &[u8]) -> Option<Self> {
        let (steps, left) = receipt::decode(payload)?;
        // Positions begin at 1, and each op has its last record where it has its first, or behind.
        let is_possible = |row: &StepRow| row.position > 0 && row.last_position >= row.position;
        if !steps.iter().all(is_possible) {
            return None;
        }
        let step = |row: StepRow| Step {
            kind: row.kind,
            stream: row.stream,
            records: row.records as usize,
            result: OpResult {
                position: Position(row.position),
                last_sequence: Sequence(u64::from(row.last_sequence)),
            },
            last_position: Position(row.last_position),
        };
        let left = left
            .into_iter()
            .map(|row| (row.stream, (row.sequence, row.position)));
        Some(Self {
            steps: steps.into_iter().map(step).collect(),
            left: left.collect(),
            places: HashMap::new(),
        })
    }
}

/// The batch that begins, or whose receipt is, at an offset, if it has this key in this stream.
pub(crate) fn written_at(
    segment: &Arc<Segment>,
    offset: u64,
    end: u64,
    stream: u32,
    key: &[u8],
) -> Result<Option<Written>> {
    if segment.is_pack() {
        let frame = segment.frame(offset, end)?;
        let is_it = frame.header.stream == stream && frame.key() == Some(key);
        return if is_it {
            of_receipt_at(segment, &frame).map(Some)
        } else {
            Ok(None)
        };
    }
    let is_it = |frame: &Frame| {
        let header = &frame.header;
        header.flags.has(Flags::KEY) && header.stream == stream && frame.key() == Some(key)
    };
    let (written, matches) = read_batch(segment, offset, end, is_it)?;
    Ok(matches.then_some(written))
}

/// The receipt that a record of a pack is.
pub(crate) fn of_receipt_at(segment: &Segment, frame: &Frame) -> Result<Written> {
    let written = frame
        .parts()
        .filter(|_| frame.header.kind == record::RECEIPT)
        .and_then(|(_, payload)| Written::of_receipt(&payload));
    written.ok_or_else(|| segment.damaged(frame.offset, "expected the receipt of a batch here"))
}

/// The batch that begins at an offset of a segment of the log, and whether one of its records is as asked.
pub(crate) fn read_batch(
    segment: &Segment,
    offset: u64,
    end: u64,
    mut is_it: impl FnMut(&Frame) -> bool,
) -> Result<(Written, bool)> {
    let mut scan = Scan::new(segment, offset, end);
    let mut steps: Vec<Step> = Vec::new();
    let mut left: HashMap<u32, Vec<(u32, u64, u64)>> = HashMap::new();
    let mut matches = false;
    while let Some(frame) = scan.next()? {
        let header = &frame.header;
        let position = Position(position_of(segment, &frame));
        matches |= is_it(&frame);
        let last_sequence = match header.kind {
            Kind::CREATE | Kind::DELETE | Kind::REDACT => Sequence::ZERO,
            _ => Sequence(u64::from(header.sequence)),
        };
        let left = left.entry(header.stream).or_default();
        match header.kind {
            Kind::TRUNCATE => {
                let kept = left.partition_point(|(sequence, ..)| *sequence <= header.sequence);
                left.truncate(kept);
            }
            Kind::DELETE => left.clear(),
            kind if kind.is_data() => {
                left.push((header.sequence, position.0, frame.offset));
            }
            _ => {}
        }
        match steps
            .last_mut()
            .filter(|_| header.kind.is_data() && !header.flags.has(Flags::OP_FIRST))
        {
            Some(step) => {
                step.result.last_sequence = last_sequence;
                step.last_position = position;
                step.records += 1;
            }
            None => steps.push(Step {
                kind: header.kind,
                stream: header.stream,
                records: 1,
                result: OpResult {
                    position,
                    last_sequence,
                },
                last_position: position,
            }),
        }
        if header.flags.has(Flags::BATCH_LAST) {
            break;
        }
    }
    // Of each stream the last record: a truncation that took an earlier one took it too.
    let mut written = Written {
        steps,
        ..Written::default()
    };
    for (stream, records) in left {
        if let Some((sequence, position, offset)) = records.last() {
            written.left.insert(stream, (*sequence, *position));
            written.places.insert(stream, (segment.seed, *offset));
        }
    }
    Ok((written, matches))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receipt_of_impossible_positions_is_refused() {
        let step = |position, last_position| Step {
            kind: Kind::DATA,
            stream: 1,
            records: 1,
            result: OpResult {
                position: Position(position),
                last_sequence: Sequence(1),
            },
            last_position: Position(last_position),
        };
        let read = |step| {
            let written = Written {
                steps: vec![step],
                ..Written::default()
            };
            Written::of_receipt(&written.to_receipt())
        };
        assert!(read(step(3, 3)).is_some() && read(step(3, 9)).is_some());
        assert!(read(step(0, 0)).is_none() && read(step(3, 2)).is_none());
    }
}
