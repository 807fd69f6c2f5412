//! [`StreamPostings`]: where the records of one stream are in a sealed segment.

use std::sync::Arc;

use bytes::Bytes;

use super::segment::{Indexed, Segment};
use crate::{
    Result,
    format::{
        Fields,
        index::{Block, StreamRow, StreamRows},
        units_to_offset,
    },
};

/// How many postings of a pack are read at once, from a multiple of that on.
const PIECE_POSTINGS: u32 = 4096;

/// Where the records of one stream are in a sealed segment.
pub(crate) struct StreamPostings {
    row: StreamRow,
    index: Index,
}

enum Index {
    /// In memory, as a whole.
    Whole(Arc<Block>),
    /// In the blocks of a pack.
    InPack {
        segment: Arc<Segment>,
        rows: StreamRows,
        /// The postings that were read last, from this number in the row on.
        piece: Option<(u32, Bytes)>,
    },
}

impl Segment {
    /// The postings of a stream; `None` if the segment isn't sealed, or has no records of the stream.
    ///
    /// Of a pack only what is asked for is read: its index names every record twice and more, and decoding all of it takes
    /// longer than reading the stream. What is read was checked by the CRC of its block.
    pub(crate) fn postings_of(self: &Arc<Self>, stream: u32) -> Result<Option<StreamPostings>> {
        if let Some(rows) = self.rows_in_pack()? {
            let found = rows.find_stream(stream, &|offset, bytes| {
                bytes.copy_from_slice(&self.bytes_at(offset, bytes.len() as u64)?);
                Ok(())
            })?;
            let index = Index::InPack {
                segment: self.clone(),
                rows,
                piece: None,
            };
            return Ok(found.map(|row| StreamPostings { row, index }));
        }
        let Some(block) = self.block()? else {
            return Ok(None);
        };
        let found = block.find_stream(stream);
        Ok(found.map(|row| StreamPostings {
            row,
            index: Index::Whole(block),
        }))
    }

    /// Where the stream rows of a pack are, if its index isn't in memory anyway.
    fn rows_in_pack(&self) -> Result<Option<StreamRows>> {
        let Some(sealed) = self.sealed.as_ref().filter(|_| self.is_pack()) else {
            return Ok(None);
        };
        let Indexed::InFile(slot, _) = &sealed.block else {
            return Ok(None);
        };
        if slot.is_loaded() {
            return Ok(None);
        }
        if let Some(rows) = sealed.rows.get() {
            return Ok(Some(*rows));
        }
        let (table, _) = self.read_table(&sealed.trailer)?;
        Ok(Some(*sealed.rows.get_or_init(|| StreamRows::of(&table))))
    }
}

impl StreamPostings {
    /// The stream's number.
    pub(crate) fn stream(&self) -> u32 {
        self.row.stream
    }

    /// The offset of the record with an ordinal; `None` if the segment has none.
    pub(crate) fn offset(&mut self, ordinal: u32) -> Result<Option<u64>> {
        let row = &self.row;
        let (segment, rows, piece) = match &mut self.index {
            Index::Whole(block) => return Ok(block.posting(row, ordinal)),
            Index::InPack {
                segment,
                rows,
                piece,
            } => (segment, rows, piece),
        };
        let number = ordinal.checked_sub(row.first_ordinal);
        let Some(number) = number.filter(|number| *number < row.count) else {
            return Ok(None);
        };
        let first = number - number % PIECE_POSTINGS;
        let bytes = match piece {
            Some((from, bytes)) if *from == first => bytes,
            _ => {
                let end = first.saturating_add(PIECE_POSTINGS).min(row.count);
                let place = rows.place_of(row, first..end).ok_or_else(|| {
                    let message = format!(
                        "its index has no postings for the row of stream number {}",
                        row.stream
                    );
                    segment.damaged(rows.start(), message)
                })?;
                let bytes = segment.bytes_at(place.start, place.end - place.start)?;
                &piece.insert((first, bytes)).1
            }
        };
        let at = (number - first) as usize * 4;
        Ok(Some(units_to_offset(Fields::new(&bytes[at..]).get())))
    }
}
