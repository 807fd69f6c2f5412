//! What the image of a pack holds: records out of the order of their positions, receipts, and what it says of those that were
//! left out.

use std::collections::BTreeMap;

use super::{
    Problem,
    bytes::Cursor,
    header::{Header, RECORDS_BEGIN},
    index::{Block, TRAILER_BYTES, Trailer},
    record::{LogRecord, RECEIPT, Whole},
    segment::refused,
};

/// First and last record of a batch.
const ALONE: u8 = 1 | 2;
/// First record of an op, and what a body has.
const KEPT: u8 = 4 | 8 | 16 | 128;
const FIRST_OF_OP: u8 = 4;

/// What a batch with a key returned, as a pack keeps it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Receipt {
    /// The number of the stream that the key counts in.
    pub stream: u32,
    /// The key.
    pub key: Vec<u8>,
    /// What each op did, and the creation of streams before them.
    pub steps: Vec<ReceiptStep>,
    /// Stream, sequence and position of the last data record that it left there.
    pub left: Vec<(u32, u32, u64)>,
    pub(super) file: String,
    pub(super) offset: u64,
}

/// What an op did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReceiptStep {
    /// The kind of its first record.
    pub kind: u8,
    /// The number of its stream.
    pub stream: u32,
    /// How many records it wrote.
    pub records: u32,
    /// The last sequence that it left or spoke of.
    pub last_sequence: u32,
    /// The position of its first record.
    pub first: u64,
    /// The position of its last record.
    pub last: u64,
}

impl ReceiptStep {
    /// The sequence of the record with a position in it.
    fn sequence_at(&self, position: u64) -> Option<u64> {
        (self.first..=self.last)
            .contains(&position)
            .then(|| u64::from(self.last_sequence).checked_sub(self.last - position))?
    }
}

/// What a pack says of its range.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Ranges {
    pub(super) rows: BTreeMap<u32, Row>,
    /// The ordinals in the control rows of truncations, by offset.
    truncations: BTreeMap<u64, u32>,
}

/// The ordinals that a stream was given there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Row {
    pub(super) first_ordinal: u32,
    /// Where each is, in units of 8; 0 for one that was left out.
    pub(super) postings: Vec<u32>,
}

impl Row {
    /// The last ordinal.
    pub(super) fn last(&self) -> u32 {
        let count = u32::try_from(self.postings.len()).expect("counted by 32 bits");
        self.first_ordinal + (count - 1)
    }

    pub(super) fn is_gone(&self, ordinal: u32) -> bool {
        let place = ordinal.checked_sub(self.first_ordinal);
        place.is_some_and(|place| self.postings.get(place as usize) == Some(&0))
    }
}

impl Ranges {
    pub(super) fn truncation(&self, offset: u64) -> u32 {
        self.truncations.get(&offset).copied().unwrap_or(0)
    }
}

/// What was read of a pack.
pub(super) struct Packed {
    /// By rising position.
    pub(super) records: Vec<LogRecord>,
    /// The ordinals of data records, by position.
    pub(super) ordinals: BTreeMap<u64, u32>,
    pub(super) receipts: Vec<LogRecord>,
    pub(super) ranges: Ranges,
}

/// Reads the records in an image.
pub(super) fn read(
    name: &str,
    image: &[u8],
    header: &Header,
    trailer: &Trailer,
) -> Result<Packed, Problem> {
    let begin = usize::try_from(trailer.data_end).expect("within the image");
    let block = &image[begin..image.len() - TRAILER_BYTES];
    let block = Block::read(name, block, trailer, header.seed)?;
    let ranges = read_ranges(name, &block)?;
    let mut places = BTreeMap::new();
    for (stream, row) in &ranges.rows {
        for (posting, ordinal) in row.postings.iter().zip(u64::from(row.first_ordinal)..) {
            if *posting != 0 {
                let ordinal = u32::try_from(ordinal).expect("a row was checked");
                places.insert(u64::from(*posting) * 8, (*stream, ordinal));
            }
        }
    }
    let mut packed = Packed {
        records: Vec::new(),
        ordinals: BTreeMap::new(),
        receipts: Vec::new(),
        ranges,
    };
    let mut before = None;
    let mut offset = RECORDS_BEGIN;
    while offset < trailer.data_end {
        let wrong = |message: &str| Problem::new(name, offset, message);
        let whole = Whole::read(image, header, offset, trailer.data_end)
            .map_err(|message| Problem::new(name, offset, message))?;
        let record = whole
            .understand(header)
            .map_err(|why| refused(name, offset, why))?;
        let order = match record.kind {
            RECEIPT => (2, 0, 0),
            0..128 => {
                let place = places.get(&offset);
                let (stream, ordinal) = place
                    .filter(|(stream, _)| *stream == record.stream)
                    .ok_or_else(|| wrong("no posting of its stream names this record"))?;
                packed.ordinals.insert(record.position, *ordinal);
                (1, u64::from(*stream), *ordinal)
            }
            _ => (0, record.position, 0),
        };
        // Receipts are in any order.
        if before > Some(order) || before == Some(order) && order.0 < 2 {
            return Err(wrong("a record out of its place in a pack"));
        }
        if record.flags & !KEPT != ALONE || record.watermark != 0 {
            return Err(wrong(
                "a record of a pack is a batch by itself, without a watermark",
            ));
        }
        if !record.has_position() && record.kind != RECEIPT {
            return Err(wrong("padding or a mark in a pack"));
        }
        (before, offset) = (Some(order), record.end());
        match record.kind {
            RECEIPT => packed.receipts.push(record),
            _ => packed.records.push(record),
        }
    }
    packed.records.sort_by_key(|record| record.position);
    packed.check_order(name, header, trailer)?;
    Ok(packed)
}

impl Packed {
    /// That each position and time is in the range, and stands once.
    fn check_order(&self, name: &str, header: &Header, trailer: &Trailer) -> Result<(), Problem> {
        let (mut next, mut time_ms) = (header.base_position, trailer.time_first_ms);
        for record in &self.records {
            let wrong = |message: String| Err(Problem::new(name, record.offset, message));
            if record.position < next || record.position >= trailer.next_position {
                let found = record.position;
                let end = trailer.next_position;
                return wrong(format!("position {found} twice, or not before {end}"));
            }
            if record.time_ms < time_ms || record.time_ms > trailer.time_last_ms {
                return wrong("a time out of its order, or not of the range".to_owned());
            }
            (next, time_ms) = (record.position + 1, record.time_ms);
        }
        let end = trailer.data_end;
        let positions = trailer.next_position.checked_sub(header.base_position);
        let positions = positions.filter(|positions| *positions <= u64::from(u32::MAX));
        let positions =
            positions.ok_or_else(|| Problem::new(name, end, "more positions than a pack has"))?;
        if trailer
            .time_last_ms
            .checked_sub(trailer.time_first_ms.min(header.base_time_ms))
            .is_none_or(|span| span > u64::from(u32::MAX))
        {
            return Err(Problem::new(
                name,
                end,
                "times further apart than a pack has",
            ));
        }
        let rows = self.ranges.rows.values().flat_map(|row| &row.postings);
        let gone = rows.filter(|posting| **posting == 0).count() as u64;
        let missing = positions - self.records.len() as u64;
        if gone > missing {
            let message = format!("{gone} records were left out of {missing} missing positions");
            return Err(Problem::new(name, end, message));
        }
        Ok(())
    }
}

fn read_ranges(name: &str, block: &Block<'_>) -> Result<Ranges, Problem> {
    let [rows, postings, _, steps, ..] = block.sections;
    let count = rows.count;
    let mut ranges = Ranges::default();
    let mut rows = Cursor::new(name, rows.offset, rows.bytes);
    let mut postings = Cursor::new(name, postings.offset, postings.bytes);
    for _ in 0..count {
        let at = rows.offset();
        let wrong = |message: &str| Problem::new(name, at, message);
        let (stream, first_ordinal, count) = (rows.u32()?, rows.u32()?, rows.u32()?);
        rows.take(20)?;
        if count == 0 || first_ordinal.checked_add(count - 1).is_none() {
            return Err(wrong("a stream row of no ordinals, or of too many"));
        }
        let postings = (0..count)
            .map(|_| postings.u32())
            .collect::<Result<Vec<_>, _>>()?;
        let row = Row {
            first_ordinal,
            postings,
        };
        if ranges.rows.insert(stream, row).is_some() {
            return Err(wrong("a second row of a stream"));
        }
    }
    let count = steps.count;
    let mut steps = Cursor::new(name, steps.offset, steps.bytes);
    for _ in 0..count {
        let kind = steps.u8()?;
        steps.take(11)?;
        let (ordinal, offset) = (steps.u32()?, u64::from(steps.u32()?) * 8);
        steps.take(28)?;
        if kind == 130 {
            ranges.truncations.insert(offset, ordinal);
        }
    }
    Ok(ranges)
}

impl Receipt {
    /// What the record of a receipt says, which is of a batch in a pack that ends before `next_position`.
    pub(super) fn read(
        name: &str,
        record: &LogRecord,
        header: &Header,
        next_position: u64,
    ) -> Result<Self, Problem> {
        let wrong =
            |message: &str| Problem::new(name, record.offset, format!("receipt: {message}"));
        let key = record.key.clone().ok_or_else(|| wrong("without a key"))?;
        if (record.index, record.sequence) != (0, 0)
            || record.time_ms != header.base_time_ms
            || !record.meta.is_empty()
        {
            return Err(wrong("with an index, a sequence, a time or metadata"));
        }
        let mut cursor = Cursor::new(name, record.offset, &record.payload);
        let (steps, left) = (cursor.u32()?, cursor.u32()?);
        let bytes = u64::from(steps) * 32 + u64::from(left) * 16;
        if bytes != cursor.rest() as u64 {
            return Err(wrong("its counts are not those of its payload"));
        }
        let mut receipt = Self {
            stream: record.stream,
            key,
            steps: Vec::new(),
            left: Vec::new(),
            file: name.to_owned(),
            offset: record.offset,
        };
        for _ in 0..steps {
            let kind = cursor.u8()?;
            cursor.zeros(3)?;
            receipt.steps.push(ReceiptStep {
                kind,
                stream: cursor.u32()?,
                records: cursor.u32()?,
                last_sequence: cursor.u32()?,
                first: cursor.u64()?,
                last: cursor.u64()?,
            });
        }
        for _ in 0..left {
            let rest = (cursor.u32()?, cursor.u32()?, cursor.u64()?);
            receipt.left.push(rest);
        }
        receipt
            .check_steps(header.base_position, next_position)
            .map_err(|message| wrong(&message))?;
        Ok(receipt)
    }

    /// That the records of its steps follow each other in the pack's range, and that what is left is of them.
    fn check_steps(&self, base_position: u64, next_position: u64) -> Result<(), String> {
        let mut next = None;
        for step in &self.steps {
            let count = step.last.checked_sub(step.first).map(|less| less + 1);
            let follows = next.is_none_or(|next| next == step.first);
            if !follows
                || count != Some(u64::from(step.records))
                || step.kind >= 128 && step.records != 1
                || step.first < base_position
                || step.last >= next_position
            {
                return Err(format!("an impossible step {step:?}"));
            }
            next = Some(step.last + 1);
        }
        let first = self.steps.iter().find(|step| step.kind < 128);
        if first.is_none_or(|first| first.stream != self.stream) {
            return Err("the key is not of the first stream that it appended to".to_owned());
        }
        if !self.left.is_sorted_by(|rest, next| rest.0 < next.0) {
            return Err("what is left is not by rising stream".to_owned());
        }
        for (stream, sequence, position) in &self.left {
            let mut steps = self.steps.iter();
            let is_of = |step: &ReceiptStep| {
                step.kind < 128
                    && step.stream == *stream
                    && step.sequence_at(*position) == Some(u64::from(*sequence))
            };
            if !steps.any(is_of) {
                return Err(format!("position {position} is left, of none of its steps"));
            }
        }
        Ok(())
    }

    /// The position of the record that carries the key.
    pub(super) fn key_position(&self) -> u64 {
        let mut steps = self.steps.iter();
        steps
            .find(|step| step.kind < 128)
            .map_or(0, |step| step.first)
    }

    /// Compares it with those records of the batch that are there.
    pub(super) fn check(&self, records: &[LogRecord]) -> Result<(), Problem> {
        for step in &self.steps {
            let begin = records.partition_point(|record| record.position < step.first);
            let end = records.partition_point(|record| record.position <= step.last);
            for record in &records[begin..end] {
                let sequence = match record.kind {
                    128 | 132 | 133 => Some(0),
                    _ => step.sequence_at(record.position),
                };
                let sequence_found = match record.kind {
                    128 | 132 | 133 => Some(u64::from(step.last_sequence)),
                    _ => Some(u64::from(record.sequence)),
                };
                let is_first = record.position == step.first;
                let is_of = record.stream == step.stream
                    && sequence == sequence_found
                    && (record.kind < 128) == (step.kind < 128)
                    && (!is_first || record.kind == step.kind)
                    && (record.kind >= 128 || (record.flags & FIRST_OF_OP != 0) == is_first)
                    && (record.position != self.key_position()
                        || record.key.as_ref() == Some(&self.key));
                if !is_of {
                    let position = record.position;
                    let message =
                        format!("receipt: position {position} is not as it says: {step:?}");
                    return Err(Problem::new(&self.file, self.offset, message));
                }
            }
        }
        Ok(())
    }
}
