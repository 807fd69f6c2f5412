//! A record, from its bytes.

use super::{
    bytes::{crc_from, padded},
    header::Header,
};

const RECORD_HEADER_BYTES: u64 = 32;
const PAYLOAD_BYTES_MAX: usize = 64 << 20;
const META_BYTES_MAX: usize = 32 << 10;

const FIRST_OF_BATCH: u8 = 1;
const LAST_OF_BATCH: u8 = 2;
const HAS_KEY: u8 = 8;
const HAS_META: u8 = 16;
const HAS_FIELDS: u8 = 128;
const RESERVED: u8 = 0b0110_0000;

const FIELDS_BYTES_MAX: usize = 4096;
const LABELS: u8 = 1;
const LABELS_MAX: usize = 8;
/// Of an extension field: it must be understood.
const CRITICAL: u8 = 1;

pub(super) const PADDING: u8 = 134;
pub(super) const MARK: u8 = 135;
/// In packs only.
pub(super) const RECEIPT: u8 = 139;

/// A record as it was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogRecord {
    /// Its place in the log; of padding and marks that of the record after it.
    pub position: u64,
    /// The segment that holds it.
    pub segment: u32,
    /// Where it begins in the segment.
    pub offset: u64,
    /// Its position, less the segment's base position.
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
    /// The labels that it is found by, rising.
    pub labels: Vec<u64>,
    /// The key of its batch, in the record that carries it.
    pub key: Option<Vec<u8>>,
    /// Its metadata.
    pub meta: Vec<u8>,
    /// Its payload.
    pub payload: Vec<u8>,
    /// How many bytes it takes, padding included.
    pub bytes: u64,
    /// The field *crc*.
    pub crc: u32,
    /// Whether it was lost, and a repair kept what the index says of it: its kind, stream and place.
    pub lost: bool,
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

    /// Whether it takes a position: padding, marks and receipts don't.
    pub fn has_position(&self) -> bool {
        ![PADDING, MARK, RECEIPT].contains(&self.kind)
    }

    /// The epoch of the writer that a mark tells of.
    pub fn mark_epoch(&self) -> Option<u32> {
        let epoch = self
            .payload
            .first_chunk()
            .filter(|_| self.kind == MARK && !self.lost)?;
        Some(u32::from_le_bytes(*epoch))
    }

    /// The positions that a redaction is of; none of another record.
    pub fn targets(&self) -> Vec<u64> {
        let payload = self.payload.as_slice();
        let parts = payload
            .split_first_chunk::<8>()
            .filter(|_| self.kind == 133)
            .and_then(|(first, rest)| {
                Some((u64::from_le_bytes(*first), rest.first_chunk::<16>()?))
            });
        let Some((first, others)) = parts else {
            return Vec::new();
        };
        let mut targets = vec![first];
        for (byte, bits) in others.iter().enumerate() {
            for bit in (0..8).filter(|bit| bits & (1 << bit) != 0) {
                targets.push(first.saturating_add(1 + 8 * byte as u64 + bit));
            }
        }
        targets
    }

    pub(super) fn end(&self) -> u64 {
        self.offset + self.bytes
    }
}

/// A record whose check and CRC are right, before it is asked what it means.
pub(super) struct Whole<'a> {
    header: &'a [u8; 32],
    body: &'a [u8],
    padding: &'a [u8],
    offset: u64,
    end: u64,
    in_pack: bool,
}

/// Why a whole record cannot be taken.
#[derive(Debug)]
pub(super) enum Refused {
    /// It means something that this version doesn't know.
    Newer(String),
    /// It is not as any version says.
    Wrong(String),
}

impl<'a> Whole<'a> {
    /// The whole record at an offset, that ends at `limit` or before; else why there is none.
    pub(super) fn read(
        file: &'a [u8],
        segment: &Header,
        offset: u64,
        limit: u64,
    ) -> Result<Self, String> {
        let limit = limit.min(file.len() as u64);
        let begin = offset
            .checked_add(RECORD_HEADER_BYTES)
            .filter(|begin| *begin <= limit);
        let begin = begin.ok_or("no room for a record's header")?;
        let at = |place: u64| usize::try_from(place).expect("within the file");
        let header: &[u8; 32] = file[at(offset)..at(begin)].try_into().expect("32 bytes");
        let word = |place: usize| {
            u32::from_le_bytes(header[place..place + 4].try_into().expect("4 bytes"))
        };
        let h = crc_from(segment.seed, &[&offset.to_le_bytes(), &header[2..28]]);
        if header[..2] != h.to_le_bytes()[..2] {
            return Err("the header's check is wrong".to_owned());
        }
        let end = begin + padded(u64::from(word(4)));
        if end > limit {
            return Err(format!(
                "the record reaches to {end}, the file or its records to {limit}"
            ));
        }
        let padded_body = &file[at(begin)..at(end)];
        if word(28) != crc32fast::hash(padded_body) ^ h {
            return Err("the record's crc is wrong".to_owned());
        }
        let (body, padding) = padded_body.split_at(at(u64::from(word(4))));
        Ok(Self {
            header,
            body,
            padding,
            offset,
            end,
            in_pack: segment.replaced.is_some(),
        })
    }

    fn word(&self, place: usize) -> u32 {
        u32::from_le_bytes(self.header[place..place + 4].try_into().expect("4 bytes"))
    }

    pub(super) fn watermark(&self) -> u64 {
        u64::from(self.word(24)) * 8
    }

    /// What a newer build wrote into it.
    pub(super) fn unknown(&self) -> Option<String> {
        let (kind, flags) = (self.header[2], self.header[3]);
        if flags & RESERVED != 0 {
            return Some(format!("flags {:#x} of a record", flags & RESERVED));
        }
        if (136..192).contains(&kind) && !(self.in_pack && kind == RECEIPT) {
            return Some(format!("a record of kind {kind}"));
        }
        if self.padding.iter().any(|byte| *byte != 0) {
            return Some("the padding of a record is not zero".to_owned());
        }
        match read_fields(kind, flags, self.body) {
            Err(Refused::Newer(message)) => Some(message),
            _ => None,
        }
    }

    pub(super) fn understand(&self, segment: &Header) -> Result<LogRecord, Refused> {
        if let Some(unknown) = self.unknown() {
            return Err(Refused::Newer(unknown));
        }
        let (kind, flags) = (self.header[2], self.header[3]);
        let (labels, body) = read_fields(kind, flags, self.body)?;
        let (key, meta, payload) = read_body(flags, body).map_err(Refused::Wrong)?;
        let time_ms = segment.base_time_ms + u64::from(self.word(20));
        if time_ms >= 1 << 63 {
            return Err(Refused::Wrong("a time of 2^63 ms or more".to_owned()));
        }
        let record = LogRecord {
            position: segment.base_position + u64::from(self.word(8)),
            segment: segment.id,
            offset: self.offset,
            index: self.word(8),
            kind,
            flags,
            stream: self.word(12),
            sequence: self.word(16),
            time_ms,
            watermark: self.watermark(),
            labels,
            key,
            meta,
            payload,
            bytes: self.end - self.offset,
            crc: self.word(28),
            lost: false,
        };
        if [PADDING, MARK].contains(&kind)
            && (record.stream, record.sequence, flags) != (0, 0, FIRST_OF_BATCH | LAST_OF_BATCH)
        {
            let message = format!("padding or a mark with stream, sequence or flags: {record:?}");
            return Err(Refused::Wrong(message));
        }
        if kind == MARK && record.payload.len() < 8 {
            return Err(Refused::Wrong(
                "a mark without an epoch and a version".to_owned(),
            ));
        }
        Ok(record)
    }
}

/// The labels of a body, and what is behind its extension fields.
fn read_fields(kind: u8, flags: u8, body: &[u8]) -> Result<(Vec<u64>, &[u8]), Refused> {
    if flags & HAS_FIELDS == 0 {
        return Ok((Vec::new(), body));
    }
    let wrong = |message: &str| Refused::Wrong(format!("extension fields: {message}"));
    let (length, rest) = body
        .split_first_chunk()
        .ok_or_else(|| wrong("the body is too short for their length"))?;
    let length = usize::from(u16::from_le_bytes(*length));
    if length > FIELDS_BYTES_MAX {
        return Err(wrong(&format!("{length} bytes are over the limit")));
    }
    let (mut fields, rest) = rest
        .split_at_checked(length)
        .ok_or_else(|| wrong("they are longer than the body"))?;
    let (mut labels, mut last) = (Vec::new(), None);
    while !fields.is_empty() {
        let (number, field_flags, value, after) =
            split_field(fields).ok_or_else(|| wrong("their lengths do not add up"))?;
        if field_flags & !CRITICAL != 0 || number != LABELS && field_flags == CRITICAL {
            let message = format!("flags {field_flags:#x} of extension field {number} of a record");
            return Err(Refused::Newer(message));
        }
        if last >= Some(number) {
            return Err(wrong("their types do not rise"));
        }
        if number == LABELS {
            labels = read_labels(value).ok_or_else(|| {
                wrong("labels: expected 1 to 8 of 8 bytes, rising, none of them twice")
            })?;
            if kind >= 128 {
                return Err(wrong("only data records have labels"));
            }
        }
        (last, fields) = (Some(number), after);
    }
    Ok((labels, rest))
}

/// Type, flags and value of the first extension field, and what is behind it.
fn split_field(fields: &[u8]) -> Option<(u8, u8, &[u8], &[u8])> {
    let ([number, flags, low, high], rest) = fields.split_first_chunk()?;
    let (value, after) = rest.split_at_checked(usize::from(u16::from_le_bytes([*low, *high])))?;
    Some((*number, *flags, value, after))
}

fn read_labels(value: &[u8]) -> Option<Vec<u64>> {
    let (words, rest) = value.as_chunks::<8>();
    let labels: Vec<_> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let is_list = rest.is_empty()
        && (1..=LABELS_MAX).contains(&labels.len())
        && labels.is_sorted_by(|label, next| label < next);
    is_list.then_some(labels)
}

type Body = (Option<Vec<u8>>, Vec<u8>, Vec<u8>);

fn read_body(flags: u8, body: &[u8]) -> Result<Body, String> {
    let short = || "the body is too short for its key or metadata".to_owned();
    let mut rest = body;
    let mut key = None;
    if flags & HAS_KEY != 0 {
        let (length, after) = rest.split_first().ok_or_else(short)?;
        let (found, after) = after
            .split_at_checked(usize::from(*length))
            .ok_or_else(short)?;
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
        return Err(format!(
            "over a limit: {} bytes of metadata, {} of payload",
            meta.len(),
            rest.len()
        ));
    }
    Ok((key, meta, rest.to_vec()))
}
