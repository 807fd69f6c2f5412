//! A piece of a checkpoint: the streams with a thousand consecutive numbers. It is checked whole when a store is
//! opened, and decoded into [`Stream`]s only when one of them is needed.
//!
//! Its fields are in lists ([`super::numbers`]), and most of these take a byte or nothing for each stream: to read and
//! check a million streams takes some milliseconds. A piece that passes the check can be decoded, so no error appears
//! after opening.

use std::{
    ops::{Range, RangeInclusive},
    sync::Arc,
};

use bytes::{BufMut, Bytes};

use super::{
    numbers::{self, Narrowest, Numbers},
    ranges::{self, RangeTable, Ranges},
    stream::{Forked, Location, Run, SnapshotRef, Stream},
};
use crate::{
    SegmentId, StreamId,
    format::{Fields, offset_to_units, units_to_offset},
    limits,
};

/// How many streams, runs, snapshots and forks there are.
const HEADER_BYTES: usize = 16;
const DELETED: u8 = 1;
const FORKED: u8 = 2;

/// A piece of a checkpoint that checks.
#[derive(Clone)]
pub(crate) struct Piece {
    bytes: Bytes,
    table: Arc<RangeTable>,
}

/// The bounds that the streams of a piece are checked against.
pub(crate) struct Bounds {
    /// The number of the piece's first stream.
    pub(crate) first: u32,
    /// How many streams it may have.
    pub(crate) streams: RangeInclusive<usize>,
    /// The last segment there is.
    pub(crate) last_segment: u32,
}

impl Piece {
    /// A piece of these bytes; `None` if they contain an impossible value.
    pub(crate) fn check(bytes: Bytes, table: &Arc<RangeTable>, bounds: &Bounds) -> Option<Self> {
        let rows = Rows::of(&bytes)?;
        if !bounds.streams.contains(&rows.ids.len()) {
            return None;
        }
        let mut next = Next::default();
        for (number, place) in (bounds.first..).zip(0..rows.ids.len()) {
            let row = rows.row(place, &mut next)?;
            rows.check(&row, number, table, bounds.last_segment)?;
        }
        (next == rows.end).then(|| Self {
            bytes,
            table: table.clone(),
        })
    }

    pub(crate) fn len(&self) -> usize {
        ids(&self.bytes).map_or(0, <[_]>::len)
    }

    /// The id of the stream at a place.
    pub(crate) fn id(&self, place: usize) -> Option<&[u8; 16]> {
        ids(&self.bytes)?.get(place)
    }

    /// Every id.
    pub(crate) fn ids(&self) -> &[[u8; 16]] {
        ids(&self.bytes).unwrap_or_default()
    }

    /// Its streams.
    pub(crate) fn decode(&self) -> Vec<Stream> {
        let rows = self.rows();
        let mut next = Next::default();
        let row = |place| rows.row(place, &mut next);
        let decoded = (0..rows.ids.len()).map_while(row);
        decoded.map(|row| rows.stream(&row, &self.table)).collect()
    }

    /// Writes it, with the places of ranges in the new checkpoint's table.
    pub(crate) fn write(&self, bytes: &mut Vec<u8>, ranges: &mut Ranges) {
        if self.rows().below.are_zero() {
            bytes.extend_from_slice(&self.bytes);
        } else {
            encode(&self.decode(), bytes, ranges);
        }
    }

    fn rows(&self) -> Rows<'_> {
        Rows::of(&self.bytes).expect("it checked")
    }
}

/// Writes a piece of these streams.
pub(crate) fn encode(streams: &[Stream], bytes: &mut Vec<u8>, ranges: &mut Ranges) {
    let below: Vec<u32> = streams
        .iter()
        .map(|stream| ranges.add(stream.lineage.as_ref()))
        .collect();
    let runs: Vec<&Run> = streams.iter().flat_map(|stream| &stream.runs).collect();
    let snapshots: Vec<&SnapshotRef> = streams
        .iter()
        .flat_map(|stream| &stream.snapshots)
        .collect();
    let forks: Vec<Forked> = streams.iter().filter_map(|stream| stream.forked).collect();
    for count in [streams.len(), runs.len(), snapshots.len(), forks.len()] {
        bytes.put_u32_le(size(count));
    }
    streams
        .iter()
        .for_each(|stream| bytes.put_slice(stream.id.as_bytes()));
    for stream in streams {
        let flag = |is_set: bool, flag| if is_set { flag } else { 0 };
        bytes.put_u8(flag(stream.deleted, DELETED) | flag(stream.forked.is_some(), FORKED));
    }
    let mut lists = Lists { bytes };
    lists.put(streams, Narrowest::Nothing, |stream| stream.ordinals);
    lists.put(streams, Narrowest::Nothing, |stream| {
        stream.tail_first_sequence
    });
    lists.put(streams, Narrowest::Nothing, |stream| {
        stream.tail_first_ordinal
    });
    lists.put(&below, Narrowest::Nothing, |below| *below);
    lists.put(streams, Narrowest::Nothing, |stream| {
        size(stream.runs.len())
    });
    lists.put(streams, Narrowest::Nothing, |stream| {
        size(stream.snapshots.len())
    });
    lists.put(&runs, Narrowest::Byte, |run| run.segment.0);
    lists.put(&runs, Narrowest::Byte, |run| run.first_ordinal);
    lists.put(&snapshots, Narrowest::Byte, |snapshot| snapshot.sequence);
    lists.put(&snapshots, Narrowest::Byte, |snapshot| snapshot.source);
    lists.put(&snapshots, Narrowest::Byte, |snapshot| snapshot.ordinal);
    lists.put(&snapshots, Narrowest::Byte, |snapshot| {
        (snapshot.position & 0xffff_ffff) as u32
    });
    lists.put(&snapshots, Narrowest::Byte, |snapshot| {
        (snapshot.position >> 32) as u32
    });
    lists.put(&snapshots, Narrowest::Byte, |snapshot| {
        snapshot.location.segment.0
    });
    lists.put(&snapshots, Narrowest::Byte, |snapshot| {
        offset_to_units(snapshot.location.offset)
    });
    lists.put(&forks, Narrowest::Byte, |forked| forked.parent);
    lists.put(&forks, Narrowest::Byte, |forked| forked.at);
    lists.put(&forks, Narrowest::Byte, |forked| forked.location.segment.0);
    lists.put(&forks, Narrowest::Byte, |forked| {
        offset_to_units(forked.location.offset)
    });
}

struct Lists<'a> {
    bytes: &'a mut Vec<u8>,
}

impl Lists<'_> {
    fn put<T>(&mut self, items: &[T], narrowest: Narrowest, field: impl Fn(&T) -> u32) {
        let numbers: Vec<u32> = items.iter().map(field).collect();
        numbers::put(self.bytes, &numbers, narrowest);
    }
}

/// No piece has as many of anything.
fn size(count: usize) -> u32 {
    u32::try_from(count).expect("fewer than there are records")
}

/// The ids, which follow the header.
fn ids(bytes: &[u8]) -> Option<&[[u8; 16]]> {
    let (count, _) = bytes.split_first_chunk()?;
    let length = (u32::from_le_bytes(*count) as usize).checked_mul(16)?;
    let ids = bytes.get(HEADER_BYTES..)?.get(..length)?;
    Some(ids.as_chunks().0)
}

/// The lists of a piece.
struct Rows<'a> {
    end: Next,
    ids: &'a [[u8; 16]],
    flags: &'a [u8],
    ordinals: Numbers<'a>,
    tail_first_sequence: Numbers<'a>,
    tail_first_ordinal: Numbers<'a>,
    below: Numbers<'a>,
    runs: Numbers<'a>,
    snapshots: Numbers<'a>,
    run_segment: Numbers<'a>,
    run_first_ordinal: Numbers<'a>,
    /// Sequence, source, ordinal, position in two halves, segment, offset in units.
    snapshot: [Numbers<'a>; 7],
    /// Parent, sequence, segment, offset in units.
    fork: [Numbers<'a>; 4],
}

/// How many runs, snapshots and forks the streams before have.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Next {
    run: usize,
    snapshot: usize,
    fork: usize,
}

/// Where a stream is in the lists.
struct Row {
    place: usize,
    runs: Range<usize>,
    snapshots: Range<usize>,
    fork: Option<usize>,
}

impl<'a> Rows<'a> {
    fn of(bytes: &'a [u8]) -> Option<Self> {
        let (header, mut rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let mut fields = Fields::new(header);
        let streams = fields.u32() as usize;
        let end = Next {
            run: fields.u32() as usize,
            snapshot: fields.u32() as usize,
            fork: fields.u32() as usize,
        };
        let ids = rest.split_off(..streams.checked_mul(16)?)?;
        let flags = rest.split_off(..streams)?;
        let mut list = |count, narrowest| Numbers::take(&mut rest, count, narrowest);
        let mut of_stream = || list(streams, Narrowest::Nothing);
        let rows = Self {
            end,
            ids: ids.as_chunks().0,
            flags,
            ordinals: of_stream()?,
            tail_first_sequence: of_stream()?,
            tail_first_ordinal: of_stream()?,
            below: of_stream()?,
            runs: of_stream()?,
            snapshots: of_stream()?,
            run_segment: list(end.run, Narrowest::Byte)?,
            run_first_ordinal: list(end.run, Narrowest::Byte)?,
            snapshot: lists(&mut rest, end.snapshot)?,
            fork: lists(&mut rest, end.fork)?,
        };
        rest.is_empty().then_some(rows)
    }

    /// The row at a place; `None` if its counts exceed the lists.
    #[inline]
    fn row(&self, place: usize, next: &mut Next) -> Option<Row> {
        let (run, snapshot) = (next.run, next.snapshot);
        next.run = run.checked_add(self.runs.at(place) as usize)?;
        next.snapshot = snapshot.checked_add(self.snapshots.at(place) as usize)?;
        let fork = (self.flags[place] & FORKED != 0).then_some(next.fork);
        next.fork += usize::from(fork.is_some());
        let is_there = next.run <= self.end.run
            && next.snapshot <= self.end.snapshot
            && next.fork <= self.end.fork;
        is_there.then_some(Row {
            place,
            runs: run..next.run,
            snapshots: snapshot..next.snapshot,
            fork,
        })
    }

    /// `None` if the fields contradict each other.
    #[inline]
    fn check(&self, row: &Row, number: u32, table: &RangeTable, last_segment: u32) -> Option<()> {
        let ordinals = self.ordinals.at(row.place);
        let tail_first_sequence = self.tail_first_sequence.at(row.place);
        let tail_first_ordinal = self.tail_first_ordinal.at(row.place);
        let lineage = ranges::lookup(table, self.below.at(row.place))?;
        let above = lineage.map_or(0, |range| range.first_sequence);
        let count = ordinals.checked_add(1)?.checked_sub(tail_first_ordinal)?;
        let last = u64::from(tail_first_sequence) + u64::from(count);
        let mut before = 0;
        let runs_rise = row.runs.clone().all(|run| {
            let first_ordinal = self.run_first_ordinal.at(run);
            let rises = before <= first_ordinal;
            before = first_ordinal;
            rises && (1..=last_segment).contains(&self.run_segment.at(run))
        });
        let possible = tail_first_sequence > above
            && (lineage.is_some() || tail_first_sequence == 1)
            && tail_first_ordinal != 0
            && ordinals <= limits::ORDINAL_MAX
            && last <= limits::SEQUENCE_MAX + 1
            && runs_rise
            && row.fork.is_none_or(|fork| self.fork[0].at(fork) < number)
            && self.flags[row.place] <= DELETED | FORKED;
        possible.then_some(())
    }

    fn stream(&self, row: &Row, table: &RangeTable) -> Stream {
        let run = |run| Run {
            segment: SegmentId(self.run_segment.at(run)),
            first_ordinal: self.run_first_ordinal.at(run),
        };
        let location = |segment, units| Location {
            segment: SegmentId(segment),
            offset: units_to_offset(units),
        };
        let snapshot = |place| {
            let [sequence, source, ordinal, low, high, segment, units] =
                self.snapshot.map(|list| list.at(place));
            SnapshotRef {
                sequence,
                source,
                ordinal,
                position: u64::from(low) | u64::from(high) << 32,
                location: location(segment, units),
            }
        };
        let forked = |place| {
            let [parent, at, segment, units] = self.fork.map(|list| list.at(place));
            Forked {
                parent,
                at,
                location: location(segment, units),
            }
        };
        let lineage = ranges::lookup(table, self.below.at(row.place)).flatten();
        Stream {
            id: StreamId::from_bytes(self.ids[row.place]),
            ordinals: self.ordinals.at(row.place),
            tail_first_sequence: self.tail_first_sequence.at(row.place),
            tail_first_ordinal: self.tail_first_ordinal.at(row.place),
            lineage: lineage.cloned(),
            runs: row.runs.clone().map(run).collect(),
            snapshots: row.snapshots.clone().map(snapshot).collect(),
            forked: row.fork.map(forked),
            deleted: self.flags[row.place] & DELETED != 0,
        }
    }
}

/// Lists with as many numbers each, from the front.
fn lists<'a, const N: usize>(bytes: &mut &'a [u8], count: usize) -> Option<[Numbers<'a>; N]> {
    let mut lists = [Numbers::default(); N];
    for list in &mut lists {
        *list = Numbers::take(bytes, count, Narrowest::Byte)?;
    }
    Some(lists)
}
