//! What is looked up in the segments that become a pack.

use std::collections::BTreeMap;

use super::throttle::{Outcome, damaged_at};
use crate::{
    Result,
    format::{
        index::{KeyRow, StreamRow},
        record::Flags,
    },
    log::segment::Segment,
    store::written::{of_receipt_at, read_batch},
    sync::Arc,
};

/// The rows of one stream in the sources, in order.
#[derive(Default)]
pub(super) struct Rows {
    pub(super) id: [u8; 16],
    /// The place of the source, and the row there.
    pub(super) rows: Vec<(usize, StreamRow)>,
}

/// The rows of every stream in these sources, by rising number: so the data of a pack is gathered.
pub(super) fn rows_by_stream(sources: &[Arc<Segment>]) -> Outcome<BTreeMap<u32, Rows>> {
    let mut streams: BTreeMap<u32, Rows> = BTreeMap::new();
    for (place, source) in sources.iter().enumerate() {
        let Some(block) = damaged_at(place, source.block())? else {
            continue;
        };
        for row in block.stream_rows() {
            let rows = streams.entry(row.stream).or_default();
            rows.id = row.id;
            rows.rows.push((place, row));
        }
    }
    Ok(streams)
}

/// The key and the receipt of a keyed batch, from the batch or from an earlier receipt.
pub(super) fn receipt(source: &Segment, end: u64, row: &KeyRow) -> Result<(Vec<u8>, Vec<u8>)> {
    let lost = || source.damaged(row.offset, "its index names a keyed batch here");
    if source.is_pack() {
        let frame = source.frame(row.offset, end)?;
        let written = of_receipt_at(source, &frame)?;
        let key = frame.key().filter(|key| !key.is_empty()).ok_or_else(lost)?;
        return Ok((key.to_vec(), written.to_receipt()));
    }
    let mut key = None;
    let (written, _) = read_batch(source, row.offset, end, |frame| {
        let header = &frame.header;
        if header.flags.has(Flags::KEY) && header.stream == row.stream && key.is_none() {
            key = frame.key().map(<[u8]>::to_vec);
        }
        false
    })?;
    let key = key.filter(|key| !key.is_empty()).ok_or_else(lost)?;
    Ok((key, written.to_receipt()))
}
