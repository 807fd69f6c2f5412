//! [`LabelIndex`]: which records of a sealed segment have a label.
//!
//! Three sections: the labels in order, each with where its postings end; the postings, each the place of a record
//! among the postings of the segment; and a filter, so that a segment without a label is skipped after reading 32
//! bytes.

use bytes::Bytes;

use super::{
    FILTER_ROW_BYTES, FILTER_WORDS, LABEL_ROW_BYTES, LabelRow, Section, SectionType, Table,
    check_section, filter_rows, partition_point,
};
use crate::{
    Error, Label, Result,
    format::{Fields, aligned},
};

const FILTER_SALTS: [u32; FILTER_WORDS] = [
    0x47b6_137b,
    0x4497_4d91,
    0x8824_ad5b,
    0xa2b7_289d,
    0x7054_95c7,
    0x2df1_424b,
    0x9efc_4947,
    0x5c6b_fb31,
];

/// The filter row that a label belongs to, and the label's bit in each word of the row.
fn filter_bits(label: Label, rows: usize) -> (usize, [u32; FILTER_WORDS]) {
    let row = ((u128::from(label.0 >> 32) * rows as u128) >> 32) as usize;
    #[allow(clippy::cast_possible_truncation, reason = "the low half is meant")]
    let low = label.0 as u32;
    (
        row,
        FILTER_SALTS.map(|salt| 1 << (low.wrapping_mul(salt) >> 27)),
    )
}

fn has_bits(row: &[u8], bits: [u32; FILTER_WORDS]) -> bool {
    let words = row.as_chunks::<4>().0.iter();
    words
        .zip(bits)
        .all(|(word, bit)| u32::from_le_bytes(*word) & bit != 0)
}

/// Whether a filter of so many rows may have a label; `row` reads one of them.
pub(super) fn is_in_filter_row(
    label: Label,
    rows: usize,
    row: impl FnOnce(usize) -> Result<[u8; FILTER_ROW_BYTES]>,
) -> Result<bool> {
    if rows == 0 {
        return Ok(false);
    }
    let (place, bits) = filter_bits(label, rows);
    Ok(has_bits(&row(place)?, bits))
}

/// The filter of labels.
pub(super) fn filter(rows: &[LabelRow]) -> Vec<[u8; FILTER_ROW_BYTES]> {
    let mut filter = vec![[0; FILTER_ROW_BYTES]; filter_rows(rows.len())];
    for row in rows {
        let (place, bits) = filter_bits(row.label, filter.len());
        for (word, bit) in filter[place].as_chunks_mut::<4>().0.iter_mut().zip(bits) {
            *word = (u32::from_le_bytes(*word) | bit).to_le_bytes();
        }
    }
    filter
}

/// The labels of a sealed segment, as they lie on disk.
#[derive(Clone, Debug)]
pub(crate) struct LabelIndex {
    rows: Bytes,
    postings: Bytes,
    filter: Bytes,
}

impl LabelIndex {
    /// The labels in a block's sections, whose CRCs were found right; `section` gives the bytes of one. `None` for a segment without labels.
    pub(super) fn check(
        table: &Table,
        section: impl Fn(SectionType) -> Bytes,
        name: &str,
    ) -> Result<Option<Self>> {
        let count = |kind| table.find(kind).map_or(0, |section| section.count);
        let (rows, postings, filter) = (
            count(SectionType::LABEL_ROWS),
            count(SectionType::LABEL_POSTINGS),
            count(SectionType::LABEL_FILTER),
        );
        if (rows, postings, filter) == (0, 0, 0) {
            return Ok(None);
        }
        let index = Self {
            rows: section(SectionType::LABEL_ROWS),
            postings: section(SectionType::LABEL_POSTINGS),
            filter: section(SectionType::LABEL_FILTER),
        };
        let (mut last, mut end) = (None, 0);
        let rises = index.label_rows().all(|row| {
            let rises = last < Some(row.label) && row.end > end;
            (last, end) = (Some(row.label), row.end);
            rises
        });
        if !rises || end != postings || filter as usize != filter_rows(rows as usize) {
            let message = format!("{name}: the label sections of its index contradict each other");
            return Err(Error::damaged(message));
        }
        Ok(Some(index))
    }

    /// The labels in `bytes`, the sections of a block from `start` on; empty if no section of labels is among them.
    pub(crate) fn of(
        table: &Table,
        bytes: &Bytes,
        start: u64,
        seed: u32,
        name: &str,
    ) -> Result<Self> {
        let slice = |section: &Section| {
            let from = usize::try_from(section.offset - start).unwrap_or(usize::MAX);
            bytes.slice(from..from + usize::try_from(section.bytes).unwrap_or(usize::MAX))
        };
        for kind in [
            SectionType::LABEL_ROWS,
            SectionType::LABEL_POSTINGS,
            SectionType::LABEL_FILTER,
        ] {
            if let Some(section) = table.find(kind) {
                let from = usize::try_from(section.offset - start).unwrap_or(usize::MAX);
                let padded = aligned(usize::try_from(section.bytes).unwrap_or(usize::MAX));
                check_section(section, &bytes[from..from + padded], seed, name)?;
            }
        }
        let section = |kind| table.find(kind).map_or_else(Bytes::new, slice);
        let index = Self::check(table, section, name)?;
        Ok(index.unwrap_or_else(|| Self {
            rows: Bytes::new(),
            postings: Bytes::new(),
            filter: Bytes::new(),
        }))
    }

    fn row(&self, place: u32) -> LabelRow {
        Fields::new(&self.rows[place as usize * LABEL_ROW_BYTES..]).get()
    }

    fn count(&self) -> u32 {
        u32::try_from(self.rows.len() / LABEL_ROW_BYTES).unwrap_or(u32::MAX)
    }

    pub(super) fn label_rows(&self) -> impl Iterator<Item = LabelRow> + '_ {
        (0..self.count()).map(|place| self.row(place))
    }

    /// The bytes that it holds.
    pub(crate) fn weight(&self) -> usize {
        self.rows.len() + self.postings.len() + self.filter.len() + size_of::<Self>()
    }

    /// Whether the filter is the one of the rows.
    pub(super) fn has_right_filter(&self) -> bool {
        let rows: Vec<_> = self.label_rows().collect();
        rows.is_empty() || filter(&rows).concat() == self.filter
    }

    /// Whether a record may have the label: `false` is certain.
    fn may_have(&self, label: Label) -> bool {
        if self.filter.is_empty() {
            return false;
        }
        let (place, bits) = filter_bits(label, self.filter.len() / FILTER_ROW_BYTES);
        has_bits(
            &self.filter[place * FILTER_ROW_BYTES..][..FILTER_ROW_BYTES],
            bits,
        )
    }

    /// The postings of a label, by rising position. O(log labels).
    pub(crate) fn find(&self, label: Label) -> LabelPostings {
        let none = LabelPostings::none();
        if !self.may_have(label) {
            return none;
        }
        let count = self.count();
        let place = partition_point(count, |place| self.row(place).label < label);
        if place == count || self.row(place).label != label {
            return none;
        }
        let start = place
            .checked_sub(1)
            .map_or(0, |before| self.row(before).end);
        LabelPostings(
            self.postings
                .slice(start as usize * 4..self.row(place).end as usize * 4),
        )
    }

    pub(super) fn postings(&self) -> impl Iterator<Item = u32> + '_ {
        let words = self.postings.as_chunks::<4>().0.iter();
        words.map(|word| u32::from_le_bytes(*word))
    }
}

/// The places of the records that have a label, among the postings of their segment.
pub(crate) struct LabelPostings(Bytes);

impl LabelPostings {
    pub(crate) fn none() -> Self {
        Self(Bytes::new())
    }

    pub(super) fn of(bytes: Bytes) -> Self {
        Self(bytes)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len() / 4
    }

    pub(crate) fn get(&self, index: usize) -> Option<u32> {
        let bytes = self.0.get(index * 4..)?.first_chunk()?;
        Some(u32::from_le_bytes(*bytes))
    }

    /// The number of postings, which ascend by position, for which `is_before` is true.
    pub(crate) fn partition_point(&self, is_before: impl Fn(u32) -> Result<bool>) -> Result<usize> {
        // Places are numbers of 32 bits, so there are no more of them.
        let count = u32::try_from(self.len()).unwrap_or(u32::MAX);
        let mut failed = None;
        let found = partition_point(count, |index| {
            let is_before = self.get(index as usize).map_or(Ok(false), &is_before);
            failed.is_none()
                && is_before.unwrap_or_else(|error| {
                    failed = Some(error);
                    false
                })
        });
        failed.map_or(Ok(found as usize), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_passes_every_label_it_has_and_few_others() {
        let label = |number: u64| Label::of("test", number.to_le_bytes());
        let rows: Vec<LabelRow> = (0..1000)
            .map(|number| LabelRow {
                label: label(number),
                end: 1,
            })
            .collect();
        let index = LabelIndex {
            rows: Bytes::new(),
            postings: Bytes::new(),
            filter: filter(&rows).concat().into(),
        };
        assert!((0..1000).all(|number| index.may_have(label(number))));
        let passed = (1000..101_000).filter(|number| index.may_have(label(*number)));
        let passed = passed.count();
        assert!(passed < 500, "{passed} of 100,000 that it doesn't have");
    }
}
