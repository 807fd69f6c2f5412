//! [`InPlace`]: looking up single rows of an index block in its file.
//!
//! The blocks and labels of many segments don't fit into the caches together, and a search by label that read each of them
//! again would read gigabytes. So where a cache has no room, only the rows that a search needs are read: 32 bytes of the filter
//! in each segment, and in those that pass it some thirty rows. What they name is checked like any other candidate.

use std::{
    ops::Range,
    sync::atomic::{AtomicU8, Ordering},
};

use super::{
    FILTER_ROW_BYTES, LABEL_ROW_BYTES, LabelPostings, LabelRow, Section, SectionType, StreamRows,
    Table,
    labels::is_in_filter_row,
    single_rows::{ReadAt, Rows},
};
use crate::{Label, Result, format::aligned};

/// Nothing was checked yet.
const UNCHECKED: u8 = 0;
/// The CRC of the filter was found right.
const FILTER_CHECKED: u8 = 1;
/// The whole block was found right.
const ALL_CHECKED: u8 = 2;

/// Where the sections of a block begin that a search by label needs.
pub(crate) struct InPlace {
    filter: Section,
    label_rows: Rows,
    label_postings: Rows,
    /// Where the records are that the labels name.
    pub(crate) streams: StreamRows,
    checked: AtomicU8,
}

impl InPlace {
    /// Of a block with this table; `None` if it has no labels.
    pub(crate) fn of(table: &Table) -> Option<Self> {
        Some(Self {
            filter: *table.find(SectionType::LABEL_FILTER)?,
            label_rows: Rows::of(table, SectionType::LABEL_ROWS),
            label_postings: Rows::of(table, SectionType::LABEL_POSTINGS),
            streams: StreamRows::of(table),
            checked: AtomicU8::new(UNCHECKED),
        })
    }

    /// The section of the filter, if its CRC wasn't checked yet, and where its bytes are, with the padding.
    pub(crate) fn filter_to_check(&self) -> Option<(&Section, Range<u64>)> {
        let start = self.filter.offset;
        let padded = aligned(usize::try_from(self.filter.bytes).unwrap_or(usize::MAX));
        (self.checked.load(Ordering::Acquire) == UNCHECKED)
            .then_some((&self.filter, start..start.saturating_add(padded as u64)))
    }

    pub(crate) fn filter_is_right(&self) {
        self.checked.fetch_max(FILTER_CHECKED, Ordering::Release);
    }

    /// Whether the rest of the block is still to be checked.
    pub(crate) fn is_to_check(&self) -> bool {
        self.checked.load(Ordering::Acquire) < ALL_CHECKED
    }

    pub(crate) fn all_is_right(&self) {
        self.checked.fetch_max(ALL_CHECKED, Ordering::Release);
    }

    /// Whether a record may have the label: `false` is certain.
    pub(crate) fn may_have(&self, label: Label, read: &ReadAt<'_>) -> Result<bool> {
        let mut row = [0; FILTER_ROW_BYTES];
        is_in_filter_row(label, self.filter.count as usize, |place| {
            let offset = self.filter.offset + place as u64 * FILTER_ROW_BYTES as u64;
            read(offset, &mut row)?;
            Ok(row)
        })
    }

    /// The postings of a label. O(log labels).
    pub(crate) fn find(&self, label: Label, read: &ReadAt<'_>) -> Result<LabelPostings> {
        let row = |place| {
            self.label_rows
                .get::<LabelRow, LABEL_ROW_BYTES>(place, read)
        };
        let place = self
            .label_rows
            .partition_point(|place| Ok(row(place)?.label < label))?;
        if place == self.label_rows.count || row(place)?.label != label {
            return Ok(LabelPostings::none());
        }
        let start = match place.checked_sub(1) {
            None => 0,
            Some(before) => row(before)?.end,
        };
        let end = row(place)?.end.min(self.label_postings.count);
        let mut bytes = vec![0; end.saturating_sub(start) as usize * 4];
        let offset = self.label_postings.offset + u64::from(start) * 4;
        read(offset, &mut bytes)?;
        Ok(LabelPostings::of(bytes.into()))
    }
}
