//! [`LostPlaces`]: the positions of records that an index block names and that can't be read.
//!
//! A redaction names a position. So that reads can pass over a lost record once it was redacted, its position must be known
//! without its bytes. Its place among the records of the damaged range tells it, since the index block names the offset of every
//! record and positions count up. In a block that a repair made, which places lost records by what tells of them, a position
//! found so is one of the damaged range's, and always the same: of several lost records, one may be taken for another. So a
//! repair redacts positions only [as long as they can't be read](crate::Position::if_lost).

use std::collections::HashMap;

use bytes::Bytes;

use super::{
    place::{Place, index_in},
    published::durable::Durable,
};
use crate::{
    Kind, Result,
    format::{
        index::{Block, DROPPED},
        record,
        segment::HEADER_BYTES,
    },
    log::{
        frame::{Frame, READ_BYTES},
        scan::{Scan, is_damage},
        segment::Segment,
    },
    sync::{Arc, RwLock, read},
};

/// The watermark of a header that stands for one that is lost: no segment is so long.
const LOST: u64 = u64::MAX;

/// The records of one segment that can't be read, by offset.
pub(super) struct LostPlaces {
    /// Identifies the segment: a pack may have the number of another segment.
    seed: u32,
    by_offset: HashMap<u64, LostPlace>,
}

/// A record that can't be read.
#[derive(Clone, Copy)]
pub(super) struct LostPlace {
    pub(super) position: u64,
    /// The number of its stream and its ordinal there; `None` for a record of the engine.
    pub(super) data: Option<(u32, u32)>,
}

impl LostPlaces {
    /// Those of a segment, of which this reads every byte; none of an active one, which has no index block yet.
    ///
    /// # Errors
    /// Those of reading the file and its index block.
    pub(super) fn of(segment: &Segment, end: u64) -> Result<Self> {
        let by_offset = match segment.block()? {
            None => HashMap::new(),
            Some(block) if segment.is_pack() => in_pack(segment, &block),
            Some(block) => in_log(segment, &block, end)?,
        };
        Ok(Self {
            seed: segment.seed,
            by_offset,
        })
    }

    /// The same, unless it is kept from the look-up before.
    pub(super) fn kept<'k>(
        kept: &'k mut Option<Self>,
        segment: &Segment,
        end: u64,
    ) -> Result<&'k Self> {
        let places = match kept.take().filter(|kept| kept.seed == segment.seed) {
            Some(places) => places,
            None => Self::of(segment, end)?,
        };
        Ok(kept.insert(places))
    }

    pub(super) fn at(&self, offset: u64) -> Option<LostPlace> {
        self.by_offset.get(&offset).copied()
    }

    pub(super) fn with_position(&self, position: u64) -> Option<LostPlace> {
        self.by_offset
            .values()
            .find(|place| place.position == position)
            .copied()
    }
}

/// The header of the record at an offset, if it can be read. At the place of a lost record may be that of another.
pub(super) fn header_at(
    segment: &Segment,
    offset: u64,
    end: u64,
) -> Result<Option<record::Header>> {
    let header = segment
        .first_bytes(offset, end)
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
    let lost = LostPlaces::of(segment, place.end)?.with_position(place.position);
    if let Some((source, ordinal)) = lost.and_then(|lost| lost.data) {
        let view = read(durable)
            .directory
            .stream(source)
            .map(|stream| stream.view(source));
        // None where only a fork still has it.
        let sequence = view.and_then(|view| view.sequence_of(source, ordinal));
        let index = index_in(segment, place.position);
        return Ok(Some(lost_header(source, sequence.unwrap_or(0), index)));
    }
    if segment.is_pack() || lost.is_some() {
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

/// Every record of a pack has a sample, which says its position.
fn in_pack(segment: &Segment, block: &Block) -> HashMap<u64, LostPlace> {
    let data: HashMap<u64, (u32, u32)> = data_of(block).collect();
    let places = block.samples_from(0).map(|sample| {
        let position = segment.header.base_position + u64::from(sample.index);
        let data = data.get(&sample.offset).copied();
        (sample.offset, LostPlace { position, data })
    });
    places.collect()
}

fn in_log(segment: &Segment, block: &Arc<Block>, end: u64) -> Result<HashMap<u64, LostPlace>> {
    let mut named: Vec<(u64, Option<(u32, u32)>)> = data_of(block)
        .map(|(offset, data)| (offset, Some(data)))
        .chain(block.controls().map(|control| (control.offset, None)))
        .collect();
    runlog_log::order::sort_by_key(&mut named, |(offset, _)| *offset);
    let base = segment.header.base_position;
    let mut places = HashMap::new();
    let mut scan = Scan::new(segment, HEADER_BYTES as u64, end);
    let mut expected = 0_u32;
    loop {
        let from = scan.offset();
        match scan.next_of_any_kind() {
            Ok(None) => return Ok(places),
            Ok(Some(frame)) => {
                if frame.header.has_position() {
                    expected = frame.header.index.saturating_add(1);
                }
            }
            Err(error) if is_damage(&error) => {
                let next = scan.pass_damage(expected)?;
                let begun = |at: u64| named.partition_point(|(offset, _)| *offset < at);
                let lost = named.get(begun(from)..begun(scan.offset()));
                for (position, (offset, data)) in
                    (base + u64::from(expected)..).zip(lost.into_iter().flatten())
                {
                    let data = *data;
                    places.insert(*offset, LostPlace { position, data });
                }
                match next {
                    None => return Ok(places),
                    Some(header) => expected = header.index,
                }
            }
            Err(error) => return Err(error),
        }
    }
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
