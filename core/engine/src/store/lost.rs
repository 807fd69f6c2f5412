//! [`LostPlaces`]: the positions of records that an index block names and that can't be read.
//!
//! A redaction names a position. So that reads can pass over a lost record once it was redacted, its position must be known
//! without its bytes. Its place among the records of the damaged range tells it, since the index block names the offset of every
//! record and positions count up. In a block that a repair made, which places lost records by what tells of them, a position
//! found so is one of the damaged range's, and always the same: of several lost records, one may be taken for another. So a
//! repair redacts positions only [as long as they can't be read](crate::Position::if_lost).

use bytes::Bytes;

use super::{
    place::{Place, index_in},
    published::durable::Durable,
};
use crate::{
    Kind, Result,
    format::{
        index::{Block, DROPPED},
        offset_to_units, record,
        segment::HEADER_BYTES,
        units_to_offset,
    },
    log::{
        frame::{Frame, READ_BYTES},
        scan::{Scan, is_damage},
        segment::Segment,
    },
    sync::{Arc, Mutex, RwLock, lock, read},
};

/// The watermark of a header that stands for one that is lost: no segment is so long.
const LOST: u64 = u64::MAX;

/// The records of one segment that can't be read.
pub(crate) struct LostPlaces {
    /// Identifies the segment: a pack may have the number of another segment.
    seed: u32,
    base_position: u64,
    /// By offset in units: the place of each in the segment. Of a pack, of which every record has a sample, also those that can
    /// be read.
    places: Vec<(u32, u32)>,
    block: Option<Arc<Block>>,
}

impl LostPlaces {
    /// Those of a segment, of which this reads every byte; none of an active one, which has no index block yet.
    ///
    /// # Errors
    /// Those of reading the file and its index block.
    pub(super) fn of(segment: &Segment, end: u64) -> Result<Self> {
        let block = segment.block()?;
        let mut places = match &block {
            None => Vec::new(),
            Some(block) if segment.is_pack() => {
                let samples = block.samples_from(0);
                samples
                    .map(|sample| (offset_to_units(sample.offset), sample.index))
                    .collect()
            }
            Some(block) => in_log(segment, block, end)?,
        };
        runlog_log::order::sort(&mut places);
        Ok(Self {
            seed: segment.seed,
            base_position: segment.header.base_position,
            places,
            block,
        })
    }

    /// The same for a record at an offset, unless it is kept from the look-up before, or from one of another read of the store: each may
    /// be of one record. A record that could be read then isn't among those that were found.
    pub(super) fn kept<'k>(
        kept: &'k mut Option<Arc<Self>>,
        of_store: &Mutex<Option<Arc<Self>>>,
        segment: &Segment,
        end: u64,
        offset: u64,
    ) -> Result<&'k Self> {
        let is_of = |places: &Arc<Self>| places.seed == segment.seed;
        if let Some(places) = kept.take().filter(is_of) {
            return Ok(kept.insert(places));
        }
        let there = lock(of_store).clone().filter(is_of);
        let places = match there.filter(|places| places.at(offset).is_some()) {
            Some(places) => places,
            None => {
                let places = Arc::new(Self::of(segment, end)?);
                *lock(of_store) = Some(places.clone());
                places
            }
        };
        Ok(kept.insert(places))
    }

    /// The position of the record at an offset.
    pub(super) fn at(&self, offset: u64) -> Option<u64> {
        let units = offset_to_units(offset);
        let found = self
            .places
            .binary_search_by_key(&units, |(units, _)| *units);
        let (_, index) = self.places.get(found.ok()?)?;
        Some(self.base_position.saturating_add(u64::from(*index)))
    }

    /// The number of the stream of the data record with a position, and its ordinal there. It looks at every posting.
    pub(super) fn data_with_position(&self, position: u64) -> Option<(u32, u32)> {
        let index = u32::try_from(position.checked_sub(self.base_position)?).ok()?;
        let (units, _) = self.places.iter().find(|(_, found)| *found == index)?;
        let offset = units_to_offset(*units);
        data_of(self.block.as_deref()?).find_map(|(found, data)| (found == offset).then_some(data))
    }

    /// Whether a record has the position.
    fn has_position(&self, position: u64) -> bool {
        let index = position.checked_sub(self.base_position);
        self.places
            .iter()
            .any(|(_, found)| Some(u64::from(*found)) == index)
    }
}

/// The header of the record at an offset, if it can be read. At the place of a lost record may be that of another.
pub(super) fn header_at(
    segment: &Segment,
    offset: u64,
    end: u64,
) -> Result<Option<record::Header>> {
    let bytes = record::HEADER_BYTES as u64;
    if offset < HEADER_BYTES as u64 || end.saturating_sub(offset) < bytes {
        return Ok(None);
    }
    let header = segment
        .bytes_at(offset, bytes)
        .and_then(|bytes| segment.header_in(&bytes, offset, end));
    match header {
        Ok(header) => Ok(Some(header).filter(record::Header::has_position)),
        Err(error) if is_damage(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The header of a data record that can't be read, as far as it is known: that of its bytes if it is whole, else its stream and
/// its sequence. `None` if the position is that of no such record, or its stream doesn't have it any more.
pub(super) fn header_of_lost(
    place: &Place,
    durable: &RwLock<Durable>,
) -> Result<Option<record::Header>> {
    let segment = &place.segment;
    let lost = LostPlaces::of(segment, place.end)?;
    if let Some((source, ordinal)) = lost.data_with_position(place.position) {
        let view = read(durable)
            .directory
            .stream(source)
            .map(|stream| stream.view(source));
        // None where only a fork still has it.
        let sequence = view.and_then(|view| view.sequence_of(source, ordinal));
        let index = index_in(segment, place.position);
        return Ok(Some(lost_header(source, sequence.unwrap_or(0), index)));
    }
    if segment.is_pack() || lost.has_position(place.position) {
        return Ok(None);
    }
    // Without an index block, the header tells it.
    let header = header_at(segment, place.scan(READ_BYTES)?.offset(), place.end)?;
    Ok(header.filter(|header| header.index == index_in(segment, place.position)))
}

/// The header that stands for one that is lost.
pub(super) fn lost_header(stream: u32, sequence: u32, index: u32) -> record::Header {
    record::Header {
        kind: Kind::DATA,
        flags: record::Flags::default(),
        body_bytes: 0,
        index,
        stream,
        sequence,
        time_delta_ms: 0,
        watermark: 0,
        body_crc: 0,
    }
}

/// Whether a frame stands for a record that is lost.
pub(super) fn is_lost(frame: &Frame) -> bool {
    frame.header.watermark == LOST
}

/// The frame that stands for a record that is lost: without a body, at an offset for messages.
pub(super) fn frame_of(header: record::Header, offset: u64) -> Frame {
    Frame {
        offset,
        header: record::Header {
            watermark: LOST,
            ..header
        },
        body: Bytes::new(),
    }
}

/// The records that a block names in the damaged ranges of its segment: each offset, in units, and the place in the segment.
fn in_log(segment: &Segment, block: &Block, end: u64) -> Result<Vec<(u32, u32)>> {
    // Where each range begins and ends, and the place of its first record.
    let mut ranges: Vec<(u64, u64, u32)> = Vec::new();
    let mut scan = Scan::new(segment, HEADER_BYTES as u64, end);
    let mut expected = 0_u32;
    loop {
        let from = scan.offset();
        match scan.next_of_any_kind() {
            Ok(None) => break,
            Ok(Some(frame)) => {
                if frame.header.has_position() {
                    expected = frame.header.index.saturating_add(1);
                }
            }
            Err(error) if is_damage(&error) => {
                let next = scan.pass_damage(expected)?;
                ranges.push((from, scan.offset(), expected));
                match next {
                    None => break,
                    Some(header) => expected = header.index,
                }
            }
            Err(error) => return Err(error),
        }
    }
    let range_of = |offset: u64| {
        let next = ranges.partition_point(|(from, ..)| *from <= offset);
        next.checked_sub(1).filter(|at| offset < ranges[*at].1)
    };
    let data = data_of(block).map(|(offset, _)| offset);
    let engine = block.controls().map(|control| control.offset);
    let mut named: Vec<(u64, usize)> = data
        .chain(engine)
        .filter_map(|offset| Some((offset, range_of(offset)?)))
        .collect();
    runlog_log::order::sort(&mut named);
    let mut places = Vec::with_capacity(named.len());
    for of_range in named.chunk_by(|one, other| one.1 == other.1) {
        for (nth, (offset, range)) in (0_u32..).zip(of_range) {
            let index = ranges[*range].2.saturating_add(nth);
            places.push((offset_to_units(*offset), index));
        }
    }
    Ok(places)
}

/// The data records that a block names: the offset of each, the number of its stream and its ordinal.
fn data_of(block: &Block) -> impl Iterator<Item = (u64, (u32, u32))> + '_ {
    block.stream_rows().flat_map(move |row| {
        (0..row.count).filter_map(move |nth| {
            let ordinal = row.first_ordinal.checked_add(nth)?;
            let offset = block.posting(&row, ordinal)?;
            (offset != DROPPED).then_some((offset, (row.stream, ordinal)))
        })
    })
}
