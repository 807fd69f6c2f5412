//! [`StreamRows`]: looking up single stream rows and postings of an index block in its file.

use std::ops::Range;

use super::{
    STREAM_ROW_BYTES, SectionType, StreamRow, Table,
    single_rows::{ReadAt, Rows},
};
use crate::{Result, format::units_to_offset};

/// How many bytes a posting takes.
const POSTING_BYTES: u64 = 4;

/// Where the sections of a block begin that tell where the records of a stream are.
#[derive(Clone, Copy)]
pub(crate) struct StreamRows {
    stream_rows: Rows,
    postings: Rows,
}

impl StreamRows {
    /// Of a block with this table.
    pub(crate) fn of(table: &Table) -> Self {
        Self {
            stream_rows: Rows::of(table, SectionType::STREAM_ROWS),
            postings: Rows::of(table, SectionType::POSTINGS),
        }
    }

    /// The offset of the record at a place among the postings.
    pub(crate) fn offset_at(&self, place: u32, read: &ReadAt<'_>) -> Result<Option<u64>> {
        if place >= self.postings.count {
            return Ok(None);
        }
        let units: u32 = self.postings.get::<u32, 4>(place, read)?;
        Ok(Some(units_to_offset(units)))
    }

    /// The stream and the ordinal of the record at a place among the postings. O(log rows).
    pub(crate) fn ordinal_at(&self, place: u32, read: &ReadAt<'_>) -> Result<Option<(u32, u32)>> {
        let after = self
            .stream_rows
            .partition_point(|row| Ok(self.stream_row(row, read)?.postings_start <= place))?;
        let Some(before) = after.checked_sub(1) else {
            return Ok(None);
        };
        let row = self.stream_row(before, read)?;
        let nth = place.saturating_sub(row.postings_start);
        Ok((nth < row.count).then(|| (row.stream, row.first_ordinal.saturating_add(nth))))
    }

    /// The row of a stream, if the segment holds data of it. O(log rows).
    pub(crate) fn find_stream(&self, stream: u32, read: &ReadAt<'_>) -> Result<Option<StreamRow>> {
        let place = self
            .stream_rows
            .partition_point(|place| Ok(self.stream_row(place, read)?.stream < stream))?;
        if place == self.stream_rows.count {
            return Ok(None);
        }
        Ok(Some(self.stream_row(place, read)?).filter(|row| row.stream == stream))
    }

    /// Where some postings of a row are in the file: those with these numbers in the row. `None` for a row that contradicts the
    /// block.
    pub(crate) fn place_of(&self, row: &StreamRow, numbers: Range<u32>) -> Option<Range<u64>> {
        let at = |number: u32| {
            let place = u64::from(row.postings_start) + u64::from(number);
            (number <= row.count && place <= u64::from(self.postings.count))
                .then(|| self.postings.offset + place * POSTING_BYTES)
        };
        Some(at(numbers.start)?..at(numbers.end)?)
    }

    /// Where the stream rows begin in the file.
    pub(crate) fn start(&self) -> u64 {
        self.stream_rows.offset
    }

    fn stream_row(&self, place: u32, read: &ReadAt<'_>) -> Result<StreamRow> {
        self.stream_rows
            .get::<StreamRow, STREAM_ROW_BYTES>(place, read)
    }
}
