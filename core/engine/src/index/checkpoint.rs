//! The checkpoint: the directory as it was at a place of the log, so that opening needn't apply everything
//! again. Rebuildable, and never trusted over the log.
//!
//! The one layout that bincode encodes, and this the one module that knows bincode: fixed-width little-endian
//! integers behind a header with magic, version, length and CRC.

use std::{collections::HashMap, sync::Arc};

use bincode::{Decode, Encode, config};

use super::{
    directory::Directory,
    lineage::Lineage,
    stream::{Forked, Location, Run, SnapshotRef, Stream},
    streams::Streams,
};
use crate::{
    SegmentId, StreamId, checksum,
    format::{
        Fields, VERSION, files,
        index::{Block, TRAILER_BYTES, Trailer},
        offset_to_units, segment, units_to_offset,
    },
    limits,
};

const MAGIC: [u8; 8] = *b"RUNLOGCP";
pub(crate) const HEADER_BYTES: usize = 32;

/// Where the log stood when the checkpoint was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub(crate) struct End {
    pub(crate) store: [u8; 16],
    /// The segment that was active, and its salt.
    pub(crate) segment: u32,
    pub(crate) salt: u32,
    /// Everything before this offset was durable and is in the checkpoint.
    pub(crate) offset: u64,
    pub(crate) records: u32,
    pub(crate) time_first_ms: u64,
    pub(crate) time_last_ms: u64,
    pub(crate) next_position: u64,
    /// The epoch of the writer.
    pub(crate) epoch: u32,
}

#[derive(Encode, Decode)]
struct Body {
    end: End,
    ranges: Vec<RangeEntry>,
    streams: Vec<StreamEntry>,
    redacted: Vec<u64>,
    active_index: Vec<u8>,
}

/// `below` is the place of the range below in the table, plus 1; 0 for none. It always comes before.
#[derive(Encode, Decode)]
struct RangeEntry {
    first_sequence: u32,
    source: u32,
    first_ordinal: u32,
    below: u32,
}

#[derive(Encode, Decode)]
struct StreamEntry {
    id: [u8; 16],
    ordinals: u32,
    tail_first_sequence: u32,
    tail_first_ordinal: u32,
    lineage: u32,
    runs: Vec<(u32, u32)>,
    snapshots: Vec<(u32, u32, u32, u64, u32, u32)>,
    forked: Option<(u32, u32, u32, u32)>,
    deleted: bool,
}

/// A checkpoint read back.
pub(crate) struct Checkpoint {
    pub(crate) end: End,
    pub(crate) directory: Directory,
    /// The index block of the active segment up to `end.offset`, as [`crate::format::index`] encodes it.
    pub(crate) active_index: Vec<u8>,
}

impl Checkpoint {
    /// The index of the active segment that it holds, if it checks and is of the segment with this header.
    pub(crate) fn active_block(&self, header: &segment::Header) -> Option<Block> {
        let (block, trailer) = self.active_index.split_last_chunk::<TRAILER_BYTES>()?;
        let length = self
            .end
            .offset
            .checked_add(self.active_index.len() as u64)?;
        let trailer = Trailer::decode(trailer, header, length).ok()??;
        let block = bytes::Bytes::copy_from_slice(block);
        Block::check(block, trailer, header.seed(), files::CHECKPOINT).ok()
    }
}

/// The bytes of a checkpoint of these streams and these redacted positions.
pub(crate) fn encode(
    end: End,
    streams: &Streams,
    redacted: Vec<u64>,
    active_index: Vec<u8>,
) -> Vec<u8> {
    let mut ranges = Ranges::default();
    let streams = streams
        .iter()
        .map(|stream| StreamEntry {
            id: *stream.id.as_bytes(),
            ordinals: stream.ordinals,
            tail_first_sequence: stream.tail_first_sequence,
            tail_first_ordinal: stream.tail_first_ordinal,
            lineage: ranges.add(stream.lineage.as_ref()),
            runs: stream
                .runs
                .iter()
                .map(|run| (run.segment.0, run.first_ordinal))
                .collect(),
            snapshots: stream.snapshots.iter().map(snapshot_entry).collect(),
            forked: stream.forked.map(|forked| {
                let Location { segment, offset } = forked.location;
                (forked.parent, forked.at, segment.0, offset_to_units(offset))
            }),
            deleted: stream.deleted,
        })
        .collect();
    let body = Body {
        end,
        ranges: ranges.entries,
        streams,
        redacted,
        active_index,
    };
    let body =
        bincode::encode_to_vec(body, configuration()).expect("encoding into memory can't fail");
    let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
    let crc = checksum::crc_of_parts(&[&bytes, &body]);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes.resize(HEADER_BYTES, 0);
    bytes.extend_from_slice(&body);
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

/// The checkpoint, or `None` for any bytes that aren't one: it is then rebuilt from the log.
pub(crate) fn decode(bytes: &[u8]) -> Option<Checkpoint> {
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
    let (body, length) = decode_body(body)?;
    if length != bytes.len() - HEADER_BYTES || !limits::is_next_position(body.end.next_position) {
        return None;
    }
    let mut ranges: Vec<Arc<Lineage>> = Vec::with_capacity(body.ranges.len());
    for entry in &body.ranges {
        let below = lookup(&ranges, entry.below)?;
        if below.is_none() && entry.first_sequence != 1 {
            return None;
        }
        ranges.push(Lineage::push(
            below,
            entry.first_sequence,
            entry.source,
            entry.first_ordinal,
        )?);
    }
    let streams = body
        .streams
        .into_iter()
        .zip(1..)
        .map(|(entry, number)| {
            stream(entry, &ranges).filter(|stream| stream.forked.is_none_or(|f| f.parent < number))
        })
        .collect::<Option<Vec<_>>>()?;
    let directory = Directory::from_parts(streams, body.redacted);
    Some(Checkpoint {
        end: body.end,
        directory,
        active_index: body.active_index,
    })
}

/// Whether a file of a length that begins with these bytes may be a checkpoint.
pub(crate) fn may_be_one(start: &[u8], length: u64) -> bool {
    let length = length.checked_sub(HEADER_BYTES as u64);
    start.len() >= HEADER_BYTES
        && start[..8] == MAGIC
        && Some(Fields::new(&start[16..]).get::<u64>()) == length
}

/// Whether bytes are no checkpoint of any build: then they are damaged. One of another version or encoding checks.
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

fn configuration() -> config::Configuration<config::LittleEndian, config::Fixint> {
    config::standard()
        .with_little_endian()
        .with_fixed_int_encoding()
}

/// Decodes within a limit that grows with the bytes there are: a length in them may claim anything, and is
/// given memory before it is found wrong.
fn decode_body(bytes: &[u8]) -> Option<(Body, usize)> {
    fn within<const BYTES_MAX: usize>(bytes: &[u8]) -> Option<(Body, usize)> {
        bincode::decode_from_slice(bytes, configuration().with_limit::<BYTES_MAX>()).ok()
    }
    match bytes.len() >> 17 {
        0 => within::<0x20_0000>(bytes),
        1..16 => within::<0x200_0000>(bytes),
        16..256 => within::<0x2000_0000>(bytes),
        _ => within::<0x7fff_ffff>(bytes),
    }
}

fn snapshot_entry(snapshot: &SnapshotRef) -> (u32, u32, u32, u64, u32, u32) {
    let Location { segment, offset } = snapshot.location;
    (
        snapshot.sequence,
        snapshot.source,
        snapshot.ordinal,
        snapshot.position,
        segment.0,
        offset_to_units(offset),
    )
}

fn stream(entry: StreamEntry, ranges: &[Arc<Lineage>]) -> Option<Stream> {
    let lineage = lookup(ranges, entry.lineage)?;
    let above = lineage.as_ref().map_or(0, |range| range.first_sequence);
    let count = entry
        .ordinals
        .checked_add(1)?
        .checked_sub(entry.tail_first_ordinal)?;
    let last = u64::from(entry.tail_first_sequence) + u64::from(count);
    let possible = entry.tail_first_sequence > above
        && (lineage.is_some() || entry.tail_first_sequence == 1)
        && entry.tail_first_ordinal != 0
        && entry.ordinals <= limits::ORDINAL_MAX
        && last <= limits::SEQUENCE_MAX + 1
        && entry.runs.is_sorted_by_key(|run| run.1);
    if !possible {
        return None;
    }
    let location = |segment, units| Location {
        segment: SegmentId(segment),
        offset: units_to_offset(units),
    };
    Some(Stream {
        ordinals: entry.ordinals,
        tail_first_sequence: entry.tail_first_sequence,
        tail_first_ordinal: entry.tail_first_ordinal,
        lineage,
        runs: entry
            .runs
            .into_iter()
            .map(|(segment, first_ordinal)| Run {
                segment: SegmentId(segment),
                first_ordinal,
            })
            .collect(),
        snapshots: entry
            .snapshots
            .into_iter()
            .map(
                |(sequence, source, ordinal, position, segment, units)| SnapshotRef {
                    sequence,
                    source,
                    ordinal,
                    position,
                    location: location(segment, units),
                },
            )
            .collect(),
        forked: entry.forked.map(|(parent, at, segment, units)| Forked {
            parent,
            at,
            location: location(segment, units),
        }),
        deleted: entry.deleted,
        ..Stream::new(StreamId::from_bytes(entry.id))
    })
}

/// `Some(None)` for no range, `None` for a place outside the table.
fn lookup(ranges: &[Arc<Lineage>], place: u32) -> Option<Option<Arc<Lineage>>> {
    match (place as usize).checked_sub(1) {
        None => Some(None),
        Some(index) => ranges.get(index).cloned().map(Some),
    }
}

/// Gives each shared range one place in the table, those below first.
#[derive(Default)]
struct Ranges {
    entries: Vec<RangeEntry>,
    places: HashMap<*const Lineage, u32>,
}

impl Ranges {
    fn add(&mut self, list: Option<&Arc<Lineage>>) -> u32 {
        let mut fresh = Vec::new();
        let mut next = list;
        let mut below = 0;
        while let Some(range) = next {
            if let Some(place) = self.places.get(&Arc::as_ptr(range)) {
                below = *place;
                break;
            }
            fresh.push(range);
            next = range.below();
        }
        for range in fresh.into_iter().rev() {
            self.entries.push(RangeEntry {
                first_sequence: range.first_sequence,
                source: range.source,
                first_ordinal: range.first_ordinal,
                below,
            });
            below = u32::try_from(self.entries.len()).expect("fewer ranges than records");
            self.places.insert(Arc::as_ptr(range), below);
        }
        below
    }
}
