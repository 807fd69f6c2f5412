//! [`Rows`]: a section of an index block in its file, of which single elements are read.

use super::{SectionType, Table, partition_point};
use crate::{
    Result,
    format::{Field, Fields},
};

/// Reads bytes of the file from an offset.
pub(crate) type ReadAt<'r> = dyn Fn(u64, &mut [u8]) -> Result<()> + 'r;

/// Where a section begins, and how many elements it has.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub(super) offset: u64,
    pub(super) count: u32,
}

impl Rows {
    pub(super) fn of(table: &Table, kind: SectionType) -> Self {
        let section = table.find(kind);
        section.map_or(
            Self {
                offset: 0,
                count: 0,
            },
            |section| Self {
                offset: section.offset,
                count: section.count,
            },
        )
    }

    /// The element at a place, of so many bytes.
    pub(super) fn get<T: Field, const BYTES: usize>(
        &self,
        place: u32,
        read: &ReadAt<'_>,
    ) -> Result<T> {
        let mut bytes = [0; BYTES];
        read(self.offset + u64::from(place) * BYTES as u64, &mut bytes)?;
        Ok(Fields::new(&bytes).get())
    }

    /// The first place for which `is_before` is false.
    pub(super) fn partition_point(
        &self,
        mut is_before: impl FnMut(u32) -> Result<bool>,
    ) -> Result<u32> {
        let mut failed = None;
        let place = partition_point(self.count, |place| {
            failed.is_none()
                && is_before(place).unwrap_or_else(|error| {
                    failed = Some(error);
                    false
                })
        });
        failed.map_or(Ok(place), Err)
    }
}
