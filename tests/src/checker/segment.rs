//! Segments and the records in them.

use super::{
    Files, Problem,
    bytes::{Cursor, crc_from, padded},
    index::{self, Trailer},
};

const HEADER_BYTES: u64 = 4096;
const RECORD_HEADER_BYTES: u64 = 32;
const PAYLOAD_BYTES_MAX: usize = 64 << 20;
const META_BYTES_MAX: usize = 32 << 10;
const BATCH_BYTES_MAX: u64 = 128 << 20;
const BATCH_RECORDS_MAX: usize = 1 << 20;

const FIRST_OF_BATCH: u8 = 1;
const LAST_OF_BATCH: u8 = 2;
const HAS_KEY: u8 = 8;
const HAS_META: u8 = 16;
const RESERVED: u8 = 0b1110_0000;

/// What a segment's header and its records say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SegmentFacts {
    /// The number in its name.
    pub id: u32,
    /// Its salt.
    pub salt: u32,
    /// The position of its first record.
    pub base_position: u64,
    /// What its records' times count from.
    pub base_time_ms: u64,
    /// The time of its last record; 0 without records.
    pub last_time_ms: u64,
    /// The number that the first stream made in it gets.
    pub next_stream: u32,
    /// How many records it has.
    pub records: u32,
    /// Where its records end.
    pub data_end: u64,
    /// Whether it ends in an index block and a trailer.
    pub sealed: bool,
    pub(super) trailer: Option<Trailer>,
}

/// A record as it was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogRecord {
    /// Its place in the log.
    pub position: u64,
    /// The segment that holds it.
    pub segment: u32,
    /// Where it begins in the segment.
    pub offset: u64,
    /// Its place in the segment.
    pub index: u32,
    /// What it is.
    pub kind: u8,
    /// Its flags.
    pub flags: u8,
    /// The number of its stream.
    pub stream: u32,
    /// Its sequence, or the one it speaks of.
    pub sequence: u32,
    /// When it was written.
    pub time_ms: u64,
    /// Up to where the segment was durable by then.
    pub watermark: u64,
    /// The key of its batch, in the record that carries it.
    pub key: Option<Vec<u8>>,
    /// Its metadata.
    pub meta: Vec<u8>,
    /// Its payload.
    pub payload: Vec<u8>,
    /// How many bytes it takes, padding included.
    pub bytes: u64,
}

impl LogRecord {
    /// Whether it is the first of its batch.
    pub fn is_batch_first(&self) -> bool {
        self.flags & FIRST_OF_BATCH != 0
    }

    /// Whether it is the last of its batch.
    pub fn is_batch_last(&self) -> bool {
        self.flags & LAST_OF_BATCH != 0
    }

    fn end(&self) -> u64 {
        self.offset + self.bytes
    }
}

/// Everything the segments hold.
#[derive(Default)]
pub(super) struct Log {
    pub(super) segments: Vec<SegmentFacts>,
    pub(super) records: Vec<LogRecord>,
    pub(super) torn_bytes: u64,
}

pub(super) fn read_log(files: &Files, names: &[String], store: &[u8; 16]) -> Result<Log, Problem> {
    let mut log = Log::default();
    let headers: Vec<Header> = names
        .iter()
        .zip(1..)
        .map(|(name, id)| Header::read(name, &files[name], id, store))
        .collect::<Result<_, _>>()?;
    for (place, name) in names.iter().enumerate() {
        let header = &headers[place];
        header.check_follows(name, log.segments.last())?;
        read_segment(name, &files[name], header, headers.get(place + 1), names.len() - place, &mut log)?;
    }
    if let [.., before, last] = &log.segments[..]
        && !before.sealed
        && last.records > 0
    {
        let name = &names[names.len() - 2];
        return Err(Problem::new(name, before.data_end, "not sealed, though the next segment has records"));
    }
    Ok(log)
}

struct Header {
    id: u32,
    base_position: u64,
    base_time_ms: u64,
    predecessor_end: u64,
    salt: u32,
    predecessor_salt: u32,
    next_stream: u32,
}

impl Header {
    fn read(name: &str, bytes: &[u8], id: u32, store: &[u8; 16]) -> Result<Self, Problem> {
        let mut cursor = Cursor::new(name, 0, bytes);
        cursor.expect(b"RUNLOGSG", "magic")?;
        cursor.expect(&1_u32.to_le_bytes(), "format version")?;
        cursor.expect(&id.to_le_bytes(), "segment id")?;
        cursor.expect(store, "store id")?;
        let header = Self {
            id,
            base_position: cursor.u64()?,
            base_time_ms: cursor.u64()?,
            predecessor_end: cursor.u64()?,
            salt: cursor.u32()?,
            predecessor_salt: cursor.u32()?,
            next_stream: cursor.u32()?,
        };
        cursor.zeros(4024)?;
        cursor.crc()?;
        Ok(header)
    }

    fn check_follows(&self, name: &str, before: Option<&SegmentFacts>) -> Result<(), Problem> {
        let expected = match before {
            None => (1, 0, 0),
            Some(before) => (before.base_position + u64::from(before.records), before.data_end, before.salt),
        };
        let earliest = before.map_or(0, |before| before.base_time_ms.max(before.last_time_ms));
        if self.base_time_ms < earliest {
            let message = format!("base time: {} is before {earliest} in the segment before", self.base_time_ms);
            return Err(Problem::new(name, 40, message));
        }
        let found = (self.base_position, self.predecessor_end, self.predecessor_salt);
        if expected == found {
            return Ok(());
        }
        let message =
            format!("base position, predecessor end, predecessor salt: expected {expected:?}, found {found:?}");
        Err(Problem::new(name, 32, message))
    }
}

/// `left` is how many segments there are from this one on.
fn read_segment(
    name: &str,
    bytes: &[u8],
    header: &Header,
    next: Option<&Header>,
    left: usize,
    log: &mut Log,
) -> Result<(), Problem> {
    let trailer = index::find_trailer(name, bytes, header.id, header.salt, header.base_position)?;
    let known_end = match (&trailer, next) {
        (Some(trailer), _) => Some(trailer.data_end),
        (None, Some(next)) if left == 2 => Some(next.predecessor_end),
        (None, Some(_)) => {
            return Err(Problem::new(name, bytes.len() as u64, "not sealed, and not one of the last two"));
        }
        (None, None) => None,
    };
    let records = match known_end {
        Some(end) => read_to(name, bytes, header, end)?,
        None => {
            let (records, torn_bytes) = read_unsealed(name, bytes, header)?;
            log.torn_bytes = torn_bytes;
            records
        }
    };
    check_batches(name, &records)?;
    let data_end = records.last().map_or(HEADER_BYTES, LogRecord::end);
    log.segments.push(SegmentFacts {
        id: header.id,
        salt: header.salt,
        base_position: header.base_position,
        base_time_ms: header.base_time_ms,
        last_time_ms: records.last().map_or(0, |record| record.time_ms),
        next_stream: header.next_stream,
        records: u32::try_from(records.len()).expect("a segment holds fewer than 2^32 records"),
        data_end,
        sealed: trailer.is_some(),
        trailer,
    });
    log.records.extend(records);
    Ok(())
}

/// The records up to an end that is known; anything else is damage.
fn read_to(name: &str, bytes: &[u8], header: &Header, end: u64) -> Result<Vec<LogRecord>, Problem> {
    let mut records: Vec<LogRecord> = Vec::new();
    let mut offset = HEADER_BYTES;
    while offset < end {
        let record = read_record(bytes, header, offset, end).map_err(|message| Problem::new(name, offset, message))?;
        check_index(&record, records.len()).map_err(|message| Problem::new(name, offset, message))?;
        offset = record.end();
        records.push(record);
    }
    if offset != end || records.last().is_some_and(|record| !record.is_batch_last()) {
        return Err(Problem::new(name, offset, format!("expected the end of a batch at {end}")));
    }
    Ok(records)
}

/// The records up to the end of the last whole batch, and how many bytes behind it a crash cut off.
fn read_unsealed(name: &str, bytes: &[u8], header: &Header) -> Result<(Vec<LogRecord>, u64), Problem> {
    let length = bytes.len() as u64;
    let mut records: Vec<LogRecord> = Vec::new();
    let mut whole = 0;
    let mut offset = HEADER_BYTES;
    while let Ok(record) = read_record(bytes, header, offset, length) {
        let follows =
            check_index(&record, records.len()).is_ok() && record.is_batch_first() == (records.len() == whole);
        if !follows {
            break;
        }
        offset = record.end();
        let ends = record.is_batch_last();
        records.push(record);
        if ends {
            whole = records.len();
        }
    }
    records.truncate(whole);
    let end = records.last().map_or(HEADER_BYTES, LogRecord::end);
    let tail = usize::try_from(end).ok().and_then(|end| bytes.get(end..)).unwrap_or_default();
    let torn_bytes = tail.iter().rposition(|byte| *byte != 0).map_or(0, |place| place as u64 + 1);
    for place in (end..end + torn_bytes).step_by(8) {
        if let Ok(proof) = read_record(bytes, header, place, length)
            && proof.watermark > end
        {
            let message = format!("damaged: the record at {place} says that {} was durable", proof.watermark);
            return Err(Problem::new(name, end, message));
        }
    }
    Ok((records, torn_bytes))
}

fn check_index(record: &LogRecord, expected: usize) -> Result<(), String> {
    if record.index as usize == expected {
        return Ok(());
    }
    Err(format!("expected the record with index {expected}, found {}", record.index))
}

fn read_record(bytes: &[u8], segment: &Header, offset: u64, limit: u64) -> Result<LogRecord, String> {
    let limit = limit.min(bytes.len() as u64);
    let at = |place: u64| usize::try_from(place).map_err(|_| "out of reach".to_owned());
    let header = at(offset)
        .and_then(|start| Ok(start..at(offset + RECORD_HEADER_BYTES)?))
        .ok()
        .filter(|_| offset + RECORD_HEADER_BYTES <= limit)
        .and_then(|range| bytes.get(range))
        .ok_or("no room for a record's header")?;
    let word = |place: usize| u32::from_le_bytes(header[place..place + 4].try_into().expect("4 bytes"));
    let h = crc_from(segment.salt, &[&offset.to_le_bytes(), &header[2..28]]);
    if header[..2] != h.to_le_bytes()[..2] {
        return Err("the header's check is wrong".to_owned());
    }
    let (kind, flags) = (header[2], header[3]);
    let end = offset + RECORD_HEADER_BYTES + padded(u64::from(word(4)));
    if end > limit {
        return Err(format!("the record reaches to {end}, the file or its records to {limit}"));
    }
    let padded_body = &bytes[at(offset + RECORD_HEADER_BYTES)?..at(end)?];
    if word(28) != crc32fast::hash(padded_body) ^ h {
        return Err("the record's crc is wrong".to_owned());
    }
    let (body, padding) = padded_body.split_at(word(4) as usize);
    if padding.iter().any(|byte| *byte != 0) || flags & RESERVED != 0 {
        return Err("padding or a reserved flag is not zero".to_owned());
    }
    let (key, meta, payload) = read_body(flags, body)?;
    Ok(LogRecord {
        position: segment.base_position + u64::from(word(8)),
        segment: segment.id,
        offset,
        index: word(8),
        kind,
        flags,
        stream: word(12),
        sequence: word(16),
        time_ms: segment.base_time_ms + u64::from(word(20)),
        watermark: u64::from(word(24)) * 8,
        key,
        meta,
        payload,
        bytes: end - offset,
    })
}

type Body = (Option<Vec<u8>>, Vec<u8>, Vec<u8>);

fn read_body(flags: u8, body: &[u8]) -> Result<Body, String> {
    let short = || "the body is too short for its key or metadata".to_owned();
    let mut rest = body;
    let mut key = None;
    if flags & HAS_KEY != 0 {
        let (length, after) = rest.split_first().ok_or_else(short)?;
        let (found, after) = after.split_at_checked(usize::from(*length)).ok_or_else(short)?;
        if found.is_empty() {
            return Err("an empty key".to_owned());
        }
        (key, rest) = (Some(found.to_vec()), after);
    }
    let mut meta = Vec::new();
    if flags & HAS_META != 0 {
        let (length, after) = rest.split_first_chunk().ok_or_else(short)?;
        let length = usize::from(u16::from_le_bytes(*length));
        let (found, after) = after.split_at_checked(length).ok_or_else(short)?;
        (meta, rest) = (found.to_vec(), after);
    }
    if meta.len() > META_BYTES_MAX || rest.len() > PAYLOAD_BYTES_MAX {
        return Err(format!("over a limit: {} bytes of metadata, {} of payload", meta.len(), rest.len()));
    }
    Ok((key, meta, rest.to_vec()))
}

/// That batches follow each other, keep to their limits, and that times and watermarks make sense.
fn check_batches(name: &str, records: &[LogRecord]) -> Result<(), Problem> {
    let mut begin = 0;
    let mut before: Option<&LogRecord> = None;
    for (place, record) in records.iter().enumerate() {
        let wrong = |message: String| Problem::new(name, record.offset, message);
        if record.is_batch_first() != before.is_none_or(LogRecord::is_batch_last) {
            return Err(wrong("a batch begins inside another, or goes on after its end".to_owned()));
        }
        if record.is_batch_first() {
            begin = place;
        }
        let batch_bytes = record.end() - records[begin].offset;
        if batch_bytes > BATCH_BYTES_MAX || place - begin >= BATCH_RECORDS_MAX {
            return Err(wrong(format!("a batch of {batch_bytes} bytes or more, {} records", place - begin + 1)));
        }
        if before.is_some_and(|before| before.time_ms > record.time_ms) {
            return Err(wrong("an earlier time than the record before".to_owned()));
        }
        // What was durable when a record was written was written before its batch.
        if record.watermark > records[begin].offset {
            return Err(wrong(format!("its watermark {} is not before its batch", record.watermark)));
        }
        let carries = records[begin..place].iter().all(|earlier| earlier.kind >= 128);
        if record.key.is_some() && (record.kind >= 128 || !carries) {
            return Err(wrong("a key elsewhere than in the first data record of a batch".to_owned()));
        }
        before = Some(record);
    }
    Ok(())
}
