//! The ranges of a checkpoint: a list that streams share is stored once.

use std::{collections::HashMap, sync::Arc};

use bytes::BufMut;

use super::lineage::Lineage;
use crate::format::Fields;

pub(crate) const RANGE_BYTES: usize = 16;

/// The ranges of a checkpoint that was read.
pub(crate) type RangeTable = Vec<Arc<Lineage>>;

/// Decodes the table; `None` if it is impossible.
pub(crate) fn decode(bytes: &[u8]) -> Option<RangeTable> {
    let (entries, rest) = bytes.as_chunks::<RANGE_BYTES>();
    let mut table: RangeTable = Vec::with_capacity(entries.len());
    for entry in entries {
        let mut fields = Fields::new(entry);
        let (first_sequence, source) = (fields.u32(), fields.u32());
        let (first_ordinal, below) = (fields.u32(), lookup(&table, fields.u32())?);
        if below.is_none() && first_sequence != 1 {
            return None;
        }
        table.push(Lineage::push(
            below.cloned(),
            first_sequence,
            source,
            first_ordinal,
        )?);
    }
    rest.is_empty().then_some(table)
}

/// The range at a place, from 1. `Some(None)` for 0, `None` for a place outside the table.
pub(crate) fn lookup(table: &RangeTable, place: u32) -> Option<Option<&Arc<Lineage>>> {
    match (place as usize).checked_sub(1) {
        None => Some(None),
        Some(index) => table.get(index).map(Some),
    }
}

/// Gives each shared range one place in the table, those below first.
#[derive(Default)]
pub(crate) struct Ranges {
    /// First sequence, source, first ordinal, and the place of the range below, from 1: 0 for none.
    pub(crate) bytes: Vec<u8>,
    places: HashMap<*const Lineage, u32>,
}

impl Ranges {
    /// The place of a list, from 1; 0 for none.
    pub(crate) fn add(&mut self, list: Option<&Arc<Lineage>>) -> u32 {
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
            self.bytes.put_u32_le(range.first_sequence);
            self.bytes.put_u32_le(range.source);
            self.bytes.put_u32_le(range.first_ordinal);
            self.bytes.put_u32_le(below);
            below =
                u32::try_from(self.bytes.len() / RANGE_BYTES).expect("fewer ranges than records");
            self.places.insert(Arc::as_ptr(range), below);
        }
        below
    }
}
