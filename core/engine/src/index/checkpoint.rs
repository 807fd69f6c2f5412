//! The checkpoint: a copy of the directory at one place of the log, so that opening applies only the records after it.
//! It can be rebuilt from the log, and is never trusted over it.
//!
//! The streams are in pieces ([`super::piece`]): all are checked when it is read, and each is decoded when it is needed.

use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes};

use super::{
    directory::Directory,
    piece::{Bounds, Piece},
    ranges::{self, RANGE_BYTES, Ranges},
    redacted::Redacted,
    streams::{PIECE_STREAMS, Streams},
};
use crate::{
    checksum,
    format::{
        Fields, VERSION, files,
        index::{Block, TRAILER_BYTES, Trailer},
        segment,
    },
    limits,
};

const MAGIC: [u8; 8] = *b"RUNLOGCP";
pub(crate) const HEADER_BYTES: usize = 32;
const END_BYTES: usize = 64;

/// The place of the log that the checkpoint covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct End {
    pub(crate) store: [u8; 16],
    /// The segment that was active, and its salt.
    pub(crate) segment: u32,
    pub(crate) salt: u32,
    /// Everything before this offset was durable and is covered by the checkpoint.
    pub(crate) offset: u64,
    pub(crate) records: u32,
    pub(crate) time_first_ms: u64,
    pub(crate) time_last_ms: u64,
    pub(crate) next_position: u64,
    /// The epoch of the writer.
    pub(crate) epoch: u32,
}

impl End {
    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.put_slice(&self.store);
        bytes.put_u32_le(self.segment);
        bytes.put_u32_le(self.salt);
        bytes.put_u64_le(self.offset);
        bytes.put_u32_le(self.records);
        bytes.put_u64_le(self.time_first_ms);
        bytes.put_u64_le(self.time_last_ms);
        bytes.put_u64_le(self.next_position);
        bytes.put_u32_le(self.epoch);
    }

    fn get(fields: &mut Fields<'_>) -> Self {
        Self {
            store: fields.take(),
            segment: fields.get(),
            salt: fields.get(),
            offset: fields.get(),
            records: fields.get(),
            time_first_ms: fields.get(),
            time_last_ms: fields.get(),
            next_position: fields.get(),
            epoch: fields.get(),
        }
    }
}

/// A checkpoint read back.
pub(crate) struct Checkpoint {
    pub(crate) end: End,
    pub(crate) directory: Directory,
    /// The index block of the active segment up to `end.offset`, as [`crate::format::index`] encodes it.
    pub(crate) active_index: Bytes,
}

impl Checkpoint {
    /// The index block of the active segment, if its CRCs are right and it belongs to the segment with this header.
    pub(crate) fn active_block(&self, header: &segment::Header) -> Option<Block> {
        let (block, trailer) = self.active_index.split_last_chunk::<TRAILER_BYTES>()?;
        let length = self
            .end
            .offset
            .checked_add(self.active_index.len() as u64)?;
        let trailer = Trailer::decode(trailer, header, length).ok()??;
        let block = self.active_index.slice_ref(block);
        Block::check(block, trailer, header.seed(), files::CHECKPOINT).ok()
    }
}

/// The bytes of a checkpoint of these streams and these redacted positions, in words.
pub(crate) fn encode(
    end: End,
    streams: &Streams,
    redacted: &[(u64, u64)],
    active_index: &[u8],
) -> Vec<u8> {
    let mut ranges = Ranges::default();
    let mut bytes = Vec::with_capacity(streams.len() * 64 + active_index.len() + 256);
    bytes.put_slice(&MAGIC);
    bytes.put_u32_le(VERSION);
    bytes.put_bytes(0, HEADER_BYTES - bytes.len());
    end.put(&mut bytes);
    bytes.put_u64_le(streams.pieces().count() as u64);
    for piece in streams.pieces() {
        let start = bytes.len();
        bytes.put_u64_le(0);
        piece.write(&mut bytes, &mut ranges);
        let length = (bytes.len() - start - 8) as u64;
        bytes[start..start + 8].copy_from_slice(&length.to_le_bytes());
    }
    bytes.put_u64_le((ranges.bytes.len() / RANGE_BYTES) as u64);
    bytes.append(&mut ranges.bytes);
    bytes.put_u64_le(redacted.len() as u64);
    for (number, word) in redacted {
        bytes.put_u64_le(*number);
        bytes.put_u64_le(*word);
    }
    bytes.put_u64_le(active_index.len() as u64);
    bytes.put_slice(active_index);
    let body = (bytes.len() - HEADER_BYTES) as u64;
    bytes[16..24].copy_from_slice(&body.to_le_bytes());
    let crc = checksum::crc_of_parts(&[&bytes[..24], &bytes[HEADER_BYTES..]]);
    bytes[24..28].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// How long the file is that begins with this header; `None` for bytes that begin no checkpoint.
pub(crate) fn announced_bytes(header: &[u8; HEADER_BYTES]) -> Option<u64> {
    let mut fields = Fields::new(header);
    let known = fields.take::<8>() == MAGIC && fields.u32() == VERSION && fields.u32() == 0;
    known
        .then(|| fields.get::<u64>())
        .and_then(|body| body.checked_add(HEADER_BYTES as u64))
}

/// The checkpoint, or `None` for any bytes that aren't one: it is then rebuilt from the log. `secret` is the store's.
pub(crate) fn decode(bytes: &Bytes, secret: &[u8; 16]) -> Option<Checkpoint> {
    let (header, body) = bytes.split_at_checked(HEADER_BYTES)?;
    let mut fields = Fields::new(header);
    let known = fields.take::<8>() == MAGIC && fields.u32() == VERSION && fields.u32() == 0;
    let whole = known && fields.get::<u64>() == body.len() as u64;
    if !whole
        || fields.u32() != checksum::crc_of_parts(&[&header[..24], body])
        || header[28..] != [0; 4]
    {
        return None;
    }
    decode_body(bytes.slice(HEADER_BYTES..), secret)
}

fn decode_body(mut bytes: Bytes, secret: &[u8; 16]) -> Option<Checkpoint> {
    let end = End::get(&mut Fields::new(&take(&mut bytes, END_BYTES as u64, 1)?));
    let count = bytes.try_get_u64_le().ok()?;
    // Not allocated ahead: the count is not trusted.
    let mut pieces = Vec::new();
    for _ in 0..count {
        let length = bytes.try_get_u64_le().ok()?;
        pieces.push(take(&mut bytes, length, 1)?);
    }
    let ranges = list(&mut bytes, RANGE_BYTES)?;
    let redacted = list(&mut bytes, 16)?;
    let active_index = list(&mut bytes, 1)?;
    if !bytes.is_empty() || !limits::is_next_position(end.next_position) {
        return None;
    }
    let table = Arc::new(ranges::decode(&ranges)?);
    let last = pieces.len().saturating_sub(1);
    let mut streams = Streams::default();
    for (place, piece) in pieces.into_iter().enumerate() {
        let bounds = Bounds {
            first: u32::try_from(streams.len() + 1).ok()?,
            streams: 1..=PIECE_STREAMS,
            last_segment: end.segment,
        };
        let piece = Piece::check(piece, &table, &bounds)?;
        if piece.len() < PIECE_STREAMS && place != last {
            return None;
        }
        streams.push_piece(piece);
    }
    let pairs = redacted.as_chunks::<8>().0.as_chunks::<2>().0.iter();
    let words =
        pairs.map(|[number, word]| (u64::from_le_bytes(*number), u64::from_le_bytes(*word)));
    let redacted = Redacted::of_words(words)?;
    Some(Checkpoint {
        end,
        directory: Directory::from_parts(secret, streams, redacted),
        active_index,
    })
}

/// A list from the front: its element count, then its elements.
fn list(bytes: &mut Bytes, size: usize) -> Option<Bytes> {
    let count = bytes.try_get_u64_le().ok()?;
    take(bytes, count, size)
}

/// `count` elements from the front; `None` if there are fewer.
fn take(bytes: &mut Bytes, count: u64, size: usize) -> Option<Bytes> {
    let length = usize::try_from(count).ok()?.checked_mul(size)?;
    (length <= bytes.len()).then(|| bytes.split_to(length))
}

/// Whether a file of a length that begins with these bytes may be a checkpoint.
pub(crate) fn may_be_one(start: &[u8], length: u64) -> bool {
    let length = length.checked_sub(HEADER_BYTES as u64);
    start.len() >= HEADER_BYTES
        && start[..8] == MAGIC
        && Some(Fields::new(&start[16..]).get::<u64>()) == length
}

/// Whether bytes are damaged, and not a checkpoint of any build: one of another version or encoding has a right CRC.
pub(crate) fn is_damaged(bytes: &[u8]) -> bool {
    let Some((header, body)) = bytes.split_at_checked(HEADER_BYTES) else {
        return true;
    };
    let mut fields = Fields::new(header);
    let magic = fields.take::<8>();
    let (length, crc) = (
        Fields::new(&header[16..]).get::<u64>(),
        Fields::new(&header[24..]).u32(),
    );
    magic != MAGIC
        || length != body.len() as u64
        || crc != checksum::crc_of_parts(&[&header[..24], body])
}

#[cfg(test)]
#[path = "checkpoint_tests.rs"]
mod tests;
