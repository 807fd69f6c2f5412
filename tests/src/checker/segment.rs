//! Segments: where their records end, and the chain that they make.

use std::{borrow::Cow, collections::BTreeMap};

use super::{
    Files, Problem,
    header::{HEADER_BYTES, Header, Identity, RECORDS_BEGIN, Replaced},
    index::{self, Trailer},
    pack,
    packed::{self, Packed, Ranges, Receipt},
    parts::Part,
    record::{LogRecord, Refused, Whole},
    repaired,
};

const BATCH_BYTES_MAX: u64 = 128 << 20;
const BATCH_RECORDS_MAX: usize = 1 << 20;

/// What a segment's header and its records say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SegmentFacts {
    /// The number in its name; of a pack that of the first segment it stands for.
    pub id: u32,
    /// The number of the last segment it stands for.
    pub last_id: u32,
    /// 0 for a segment of the log, else a pack's.
    pub generation: u32,
    /// Its salt.
    pub salt: u32,
    /// What the CRCs of its records and its index continue.
    pub seed: u32,
    /// What the positions of its records count from.
    pub base_position: u64,
    /// The position after its last record's.
    pub next_position: u64,
    /// What its records' times count from.
    pub base_time_ms: u64,
    /// The time of its last record; 0 without records.
    pub last_time_ms: u64,
    /// The number that the first stream made in it gets.
    pub next_stream: u32,
    /// The epoch of the writer that made it.
    pub epoch: u32,
    /// How many records with a position it has.
    pub records: u32,
    /// Where its records end.
    pub data_end: u64,
    /// Whether it ends in an index block and a trailer.
    pub sealed: bool,
    /// Whether a repair made its index block.
    pub repaired: bool,
    /// What the next segment is to say of the one before it.
    pub(super) last_end: Replaced,
    pub(super) predecessor_index_crc: u32,
    pub(super) header: [u8; HEADER_BYTES],
    pub(super) trailer: Option<Trailer>,
}

impl SegmentFacts {
    /// Whether it is a pack.
    pub fn is_pack(&self) -> bool {
        self.generation > 0
    }

    /// Whether it is a pack that stands for a segment.
    pub(super) fn replaces(&self, segment: u32) -> bool {
        self.is_pack() && (self.id..=self.last_id).contains(&segment)
    }

    /// Whether it holds no record at all, not even a mark.
    pub(super) fn is_empty(&self) -> bool {
        self.data_end == RECORDS_BEGIN
    }
}

/// Everything the segments hold.
#[derive(Default)]
pub(super) struct Log<'a> {
    /// The file of each segment, or the image in the file of a pack.
    pub(super) bytes: Vec<Cow<'a, [u8]>>,
    /// What packs say of what they left out, by their first segment.
    pub(super) ranges: BTreeMap<u32, Ranges>,
    pub(super) receipts: Vec<Receipt>,
    pub(super) segments: Vec<SegmentFacts>,
    /// Those without a position too.
    pub(super) records: Vec<LogRecord>,
    /// Of data records in packs and in segments that were repaired, what the index says, by position.
    pub(super) ordinals: BTreeMap<u64, u32>,
    pub(super) torn_bytes: u64,
    pub(super) damaged_copies: Vec<Problem>,
}

impl Log<'_> {
    /// The pack that stands for a segment.
    pub(super) fn packed(&self, segment: u32) -> Option<&SegmentFacts> {
        self.segments.iter().find(|pack| pack.replaces(segment))
    }
}

pub(super) fn read_log<'a>(
    files: &'a Files,
    parts: &[Part],
    identity: &Identity,
) -> Result<Log<'a>, Problem> {
    let mut log = Log::default();
    let mut headers = Vec::new();
    for part in parts {
        let file = &files[&part.name];
        let header = Header::read(part, file, identity, &mut log.damaged_copies)?;
        log.bytes.push(if part.is_pack() {
            Cow::Owned(pack::image(&part.name, file, &header)?)
        } else {
            Cow::Borrowed(file)
        });
        headers.push(header);
    }
    for (place, part) in parts.iter().enumerate() {
        let header = &headers[place];
        header.check_follows(&part.name, log.segments.last())?;
        // An unsealed segment's is compared once its records are read, and a repair may have changed it.
        let before = log.segments.last();
        let before = before.filter(|before| before.sealed && !before.repaired);
        if let Some(before) = before
            && before.last_end.index_crc != header.predecessor_index_crc
        {
            let (expected, found) = (before.last_end.index_crc, header.predecessor_index_crc);
            let message =
                format!("predecessor's index CRC: expected {expected:08x}, found {found:08x}");
            return Err(Problem::new(&part.name, 120, message));
        }
        if part.is_pack() {
            read_pack(part, header, place, &mut log)?;
        } else {
            let next = headers.get(place + 1);
            read_segment(part, header, next, place, parts.len() - place, &mut log)?;
        }
    }
    if let [.., before, last] = &log.segments[..]
        && !before.sealed
        && !last.is_empty()
    {
        let name = &parts[parts.len() - 2].name;
        return Err(Problem::new(
            name,
            before.data_end,
            "not sealed, though the next segment has records",
        ));
    }
    Ok(log)
}

fn read_pack(part: &Part, header: &Header, place: usize, log: &mut Log<'_>) -> Result<(), Problem> {
    let name = part.name.as_str();
    let wrong = |at: u64, message: &str| Problem::new(name, at, message);
    let image = &log.bytes[place];
    let trailer = index::find_trailer(name, image, header)?
        .ok_or_else(|| wrong(image.len() as u64, "the image of a pack is not sealed"))?;
    if trailer.repaired {
        let message = "a pack whose index was made by a repair";
        return Err(wrong(trailer.data_end, message));
    }
    let packed = packed::read(name, image, header, &trailer)?;
    let Packed {
        records,
        ordinals,
        receipts,
        ranges,
    } = packed;
    for receipt in &receipts {
        let receipt = Receipt::read(name, receipt, header, trailer.next_position)?;
        log.receipts.push(receipt);
    }
    let replaced = header
        .replaced
        .ok_or_else(|| wrong(168, "not the header of a pack"))?;
    log.ranges.insert(part.from, ranges);
    log.ordinals.extend(ordinals);
    log.segments.push(SegmentFacts {
        id: part.from,
        last_id: part.to,
        generation: part.generation,
        salt: header.salt,
        seed: header.seed,
        base_position: header.base_position,
        next_position: trailer.next_position,
        base_time_ms: header.base_time_ms,
        last_time_ms: trailer.time_last_ms,
        next_stream: header.next_stream,
        epoch: header.epoch,
        records: trailer.records,
        data_end: trailer.data_end,
        sealed: true,
        repaired: false,
        last_end: replaced,
        predecessor_index_crc: header.predecessor_index_crc,
        header: header.bytes,
        trailer: Some(trailer),
    });
    log.records.extend(records);
    log.records.extend(receipts);
    Ok(())
}

/// `left` is how many segments there are from this one on.
fn read_segment(
    part: &Part,
    header: &Header,
    next: Option<&Header>,
    place: usize,
    left: usize,
    log: &mut Log<'_>,
) -> Result<(), Problem> {
    let name = part.name.as_str();
    let file = &*log.bytes[place];
    let trailer = index::find_trailer(name, file, header)?;
    let (records, data_end) = match (&trailer, next) {
        (Some(trailer), _) if trailer.repaired => {
            let (records, ordinals) = repaired::read(name, file, header, trailer)?;
            log.ordinals.extend(ordinals);
            (records, trailer.data_end)
        }
        (Some(trailer), _) => (
            read_to(name, file, header, trailer.data_end)?,
            trailer.data_end,
        ),
        (None, Some(next)) if left == 2 => (
            read_to(name, file, header, next.predecessor_end)?,
            next.predecessor_end,
        ),
        (None, Some(_)) => {
            return Err(Problem::new(
                name,
                file.len() as u64,
                "not sealed, and not one of the last two",
            ));
        }
        (None, None) => {
            let (records, torn_bytes) = read_unsealed(name, file, header)?;
            log.torn_bytes = torn_bytes;
            let end = records.last().map_or(RECORDS_BEGIN, LogRecord::end);
            (records, end)
        }
    };
    check_batches(name, &records)?;
    let count = records
        .iter()
        .filter(|record| record.has_position())
        .count();
    let count = u32::try_from(count).expect("a segment holds fewer than 2^32 records");
    log.segments.push(SegmentFacts {
        id: header.id,
        last_id: header.id,
        generation: 0,
        salt: header.salt,
        seed: header.seed,
        base_position: header.base_position,
        next_position: match &trailer {
            Some(trailer) => trailer.next_position,
            None => header.base_position + u64::from(count),
        },
        base_time_ms: header.base_time_ms,
        last_time_ms: records.last().map_or(0, |record| record.time_ms),
        next_stream: header.next_stream,
        epoch: header.epoch,
        records: count,
        data_end,
        sealed: trailer.is_some(),
        repaired: trailer.as_ref().is_some_and(|trailer| trailer.repaired),
        last_end: Replaced {
            end: data_end,
            salt: header.salt,
            index_crc: trailer.as_ref().map_or(0, |trailer| trailer.index_crc),
        },
        predecessor_index_crc: header.predecessor_index_crc,
        header: header.bytes,
        trailer,
    });
    log.records.extend(records);
    Ok(())
}

/// The problem of a whole record that can't be taken.
pub(super) fn refused(name: &str, offset: u64, refused: Refused) -> Problem {
    match refused {
        Refused::Newer(message) => Problem::new(name, offset, message).of_newer_build(),
        Refused::Wrong(message) => Problem::new(name, offset, message),
    }
}

/// The records up to an end that is known; anything else is damage.
fn read_to(name: &str, file: &[u8], header: &Header, end: u64) -> Result<Vec<LogRecord>, Problem> {
    let mut records: Vec<LogRecord> = Vec::new();
    let mut index = 0;
    let mut offset = RECORDS_BEGIN;
    while offset < end {
        let whole = Whole::read(file, header, offset, end)
            .map_err(|message| Problem::new(name, offset, message))?;
        let record = whole
            .understand(header)
            .map_err(|why| refused(name, offset, why))?;
        if record.index != index {
            let message = format!(
                "expected the record with index {index}, found {}",
                record.index
            );
            return Err(Problem::new(name, offset, message));
        }
        index += u32::from(record.has_position());
        offset = record.end();
        records.push(record);
    }
    if offset != end || records.last().is_some_and(|record| !record.is_batch_last()) {
        return Err(Problem::new(
            name,
            offset,
            format!("expected the end of a batch at {end}"),
        ));
    }
    Ok(records)
}

/// The records up to the end of the last whole batch, and how many bytes behind it a crash cut off.
fn read_unsealed(
    name: &str,
    file: &[u8],
    header: &Header,
) -> Result<(Vec<LogRecord>, u64), Problem> {
    let length = file.len() as u64;
    let mut records: Vec<LogRecord> = Vec::new();
    let mut batch = 0;
    let mut index = 0;
    let mut offset = RECORDS_BEGIN;
    while let Ok(whole) = Whole::read(file, header, offset, length) {
        // A whole record was written as it is: what isn't understood in it is not what a crash left.
        let record = whole
            .understand(header)
            .map_err(|why| refused(name, offset, why))?;
        let begin = records.get(batch).map_or(offset, |first| first.offset);
        let fits =
            record.end() - begin <= BATCH_BYTES_MAX && records.len() - batch < BATCH_RECORDS_MAX;
        if record.index != index || record.is_batch_first() != (records.len() == batch) || !fits {
            break;
        }
        index += u32::from(record.has_position());
        offset = record.end();
        let ends = record.is_batch_last();
        records.push(record);
        if ends {
            batch = records.len();
        }
    }
    records.truncate(batch);
    let end = records.last().map_or(RECORDS_BEGIN, LogRecord::end);
    let torn_bytes = look_behind(name, file, header, end)?;
    Ok((records, torn_bytes))
}

/// How many bytes from the end of the records on a crash left. That they are damaged, or a newer build's, is a problem.
fn look_behind(name: &str, file: &[u8], header: &Header, end: u64) -> Result<u64, Problem> {
    let tail = usize::try_from(end)
        .ok()
        .and_then(|end| file.get(end..))
        .unwrap_or_default();
    let torn_bytes = tail
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |place| place as u64 + 1);
    let mut damaged = None;
    for place in (end..end + torn_bytes).step_by(8) {
        let Ok(whole) = Whole::read(file, header, place, file.len() as u64) else {
            continue;
        };
        if let Some(unknown) = whole.unknown() {
            return Err(Problem::new(name, place, unknown).of_newer_build());
        }
        if whole.watermark() > end && damaged.is_none() {
            let message = format!(
                "damaged: the record at {place} says that {} was durable",
                whole.watermark()
            );
            damaged = Some(Problem::new(name, end, message));
        }
    }
    damaged.map_or(Ok(torn_bytes), Err)
}

/// That batches follow each other, keep to their limits, and that times and watermarks make sense. Of a batch that lost
/// records nobody knows where it began or ended.
fn check_batches(name: &str, records: &[LogRecord]) -> Result<(), Problem> {
    let mut begin = 0;
    let mut has_data = false;
    let mut before: Option<&LogRecord> = None;
    let mut time_ms = 0;
    for (place, record) in records.iter().enumerate() {
        let wrong = |message: String| Problem::new(name, record.offset, message);
        if record.lost {
            before = Some(record);
            continue;
        }
        let after_lost = before.is_some_and(|before| before.lost || before.end() != record.offset);
        if !after_lost && record.is_batch_first() != before.is_none_or(LogRecord::is_batch_last) {
            return Err(wrong(
                "a batch begins inside another, or goes on after its end".to_owned(),
            ));
        }
        if record.is_batch_first() || after_lost {
            (begin, has_data) = (place, false);
        }
        let batch_bytes = record.end() - records[begin].offset;
        if batch_bytes > BATCH_BYTES_MAX || place - begin >= BATCH_RECORDS_MAX {
            return Err(wrong(format!(
                "a batch of {batch_bytes} bytes or more, {} records",
                place - begin + 1
            )));
        }
        if record.time_ms < time_ms {
            return Err(wrong("an earlier time than the record before".to_owned()));
        }
        // What was durable when a record was written was written before its batch.
        if record.watermark > records[begin].offset {
            return Err(wrong(format!(
                "its watermark {} is not before its batch",
                record.watermark
            )));
        }
        if record.key.is_some() && (record.kind >= 128 || has_data) {
            return Err(wrong(
                "a key elsewhere than in the first data record of a batch".to_owned(),
            ));
        }
        has_data |= record.kind < 128;
        time_ms = record.time_ms;
        before = Some(record);
    }
    Ok(())
}
