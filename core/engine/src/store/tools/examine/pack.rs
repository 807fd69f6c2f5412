//! Checks a pack for consistency: its blocks, its records, and the index in its image.
//!
//! Dropped records can't be derived from a pack's records, so the log continues with the state of its index. The index
//! is checked as far as the records allow: it has to name each of them, and no others.

use std::collections::HashMap;

use bytes::Bytes;

use super::{
    examiner::{Examiner, Part},
    slots::wrong_copies,
    walker::Within,
};
use crate::{
    Kind, Label, Result, SegmentId,
    format::{
        index::{Block, DROPPED, KeyRow, SampleRow},
        record::{self, Header},
        segment::DATA_START,
        units_to_offset,
    },
    log::{
        dictionary::Dictionary,
        frame::Frame,
        pack::{DICTIONARY_COPIES, Image},
        scan::{Scan, is_damage},
        segment::Segment,
    },
    store::{published::batches::apply_block, segments::chain::checked_block},
    sync::Arc,
};

/// The most differences of one pack that are reported.
const DIFFERENCES_MAX: usize = 20;

/// What the records of a pack are, by where they lie in its image.
#[derive(Default)]
struct Found {
    records: HashMap<u64, Header>,
    /// Of those that have a position.
    samples: Vec<SampleRow>,
    keys: Vec<KeyRow>,
    /// Each label, with the index and the offset of its record.
    labels: Vec<(Label, u32, u64)>,
    /// What engine records say of ids and others: offset, id, other, target.
    said: HashMap<u64, ([u8; 16], u32, u64)>,
    data: usize,
    controls: usize,
}

impl Examiner<'_> {
    /// Reads a pack.
    pub(super) fn pack(&mut self, segment: &Arc<Segment>) -> Result<()> {
        let wrong = wrong_copies(segment)?;
        for (offset, what) in &wrong {
            self.walker
                .damaged(&segment.name, *offset as u64, what.clone());
        }
        self.check_header(segment);
        let damaged_table = segment.image().and_then(|image| image.damaged_table());
        if let Some(table) = damaged_table {
            let message = format!(
                "the table of its blocks is damaged, and their headers tell the same ({})",
                table.why
            );
            self.walker.damaged(&segment.name, table.offset, message);
        }
        for made in segment.image().into_iter().flat_map(|image| image.made()) {
            let message = "a block of its index is damaged, and its records tell what was in it";
            self.walker.damaged(&segment.name, made.offset, message);
        }
        let (is_readable, wrong_dictionaries) = self.blocks(segment)?;
        match segment.whole_block() {
            Err(error) if is_damage(&error) => {
                self.walker.damaged(&segment.name, 0, error.to_string());
            }
            whole => drop(whole?),
        }
        let block = match checked_block(segment)? {
            Ok(Some(block)) => Some(block),
            Ok(None) => None,
            Err(what) => {
                self.walker.lost(&segment.name, 0, what);
                None
            }
        };
        if let Some(block) = &block {
            if is_readable {
                self.records_of_pack(segment, block)?;
            }
            self.settle_before(segment, block)?;
            self.apply_pack(segment, block);
        }
        let (salt, end, index_crc) = segment.ending();
        self.walker.packs.push((segment.id(), segment.last_id()));
        self.parts.push(Part {
            // As the segment behind it sees it.
            header: crate::format::segment::Header {
                segment: segment.last_id(),
                salt,
                ..segment.header
            },
            is_header_made: false,
            segment: Some(segment.clone()),
            data_end: end.unwrap_or(DATA_START),
            next_position: self.walker.durable.next_position,
            index_crc,
            needs_index: false,
            has_losses: false,
            wrong_copies: wrong.into_iter().map(|(offset, _)| offset).collect(),
            wrong_dictionaries,
            shorten_to: None,
        });
        Ok(())
    }

    /// Reads every block; whether all of them can be, and which copies of the dictionary could be written again.
    fn blocks(&mut self, segment: &Segment) -> Result<(bool, Vec<usize>)> {
        let Some(image) = segment.image() else {
            return Ok((true, Vec::new()));
        };
        let mut is_readable = true;
        let wrong_dictionaries = self.dictionaries(segment, image)?;
        for place in 0..image.blocks() {
            match image.read_block(place) {
                Ok(_) => self.padding(segment, image, image.extent(place))?,
                Err(error) if is_damage(&error) => {
                    is_readable = false;
                    let message = format!("{error}; the records in this block are lost");
                    self.walker.lost(&segment.name, 0, message);
                }
                Err(error) => return Err(error),
            }
        }
        Ok((is_readable, wrong_dictionaries))
    }

    fn padding(&mut self, segment: &Segment, image: &Image, extent: (u64, u64)) -> Result<()> {
        if !image.has_plain_padding(extent)? {
            let message = "what fills the room behind a block is not zeros; no record is lost";
            let message = message.to_owned();
            self.walker.damaged(&segment.name, extent.1, message);
        }
        Ok(())
    }

    /// Reads every copy of the dictionary; gives those that are damaged. While one is whole, nothing is lost with the others; the blocks tell what
    /// is lost without any.
    fn dictionaries(&mut self, segment: &Segment, image: &Image) -> Result<Vec<usize>> {
        let mut wrong = Vec::new();
        let mut whole: Option<Bytes> = None;
        for copy in 0..DICTIONARY_COPIES {
            let Some((extent, read)) = image
                .dictionary_extent(copy)
                .zip(image.read_dictionary(copy))
            else {
                continue;
            };
            let what = match read {
                Ok(bytes) if whole.as_ref().is_some_and(|whole| *whole != bytes) => {
                    "it isn't the dictionary that the first copy is".to_owned()
                }
                Ok(bytes) if Dictionary::decode(&bytes).is_none() => {
                    "it is no dictionary of Zstandard's".to_owned()
                }
                Ok(bytes) => {
                    self.padding(segment, image, extent)?;
                    whole = Some(bytes);
                    continue;
                }
                Err(error) if is_damage(&error) => error.to_string(),
                Err(error) => return Err(error),
            };
            wrong.push(copy);
            let message = format!("a copy of the dictionary is damaged: {what}");
            self.walker.damaged(&segment.name, extent.0, message);
        }
        Ok(match whole {
            Some(_) => wrong,
            None => Vec::new(),
        })
    }

    /// Makes up for what was lost before a pack, as its header and its index tell: the streams that were made there, and how many records
    /// each was given.
    fn settle_before(&mut self, segment: &Segment, block: &Arc<Block>) -> Result<()> {
        // Of a whole store, no record of a stream is looked up for it.
        if !self.walker.has_open_gap() {
            return Ok(());
        }
        self.walker.begin_segment(segment);
        let within = Within {
            id: segment.id(),
            block: Some(block.clone()),
            ..Within::default()
        };
        let made_before = segment.header.next_stream;
        for row in block.stream_rows().filter(|row| row.stream < made_before) {
            // Where the first was dropped, a truncation may lie between it and the next, so that only its ordinal is known.
            let first = block.posting(&row, row.first_ordinal);
            let sequence = match first.filter(|offset| *offset != DROPPED) {
                Some(offset) => match segment.frame(offset, block.trailer().data_end) {
                    Ok(frame) => Some(frame.header.sequence),
                    Err(error) if is_damage(&error) => None,
                    Err(error) => return Err(error),
                },
                None => None,
            };
            let settled = match sequence {
                Some(sequence) => self.walker.settle(&within, row.stream, sequence),
                None => self.walker.settle_ordinal(row.stream, row.first_ordinal),
            };
            if let Err(what) = settled {
                self.walker.damaged(&segment.name, 0, what);
            }
        }
        Ok(())
    }

    /// Goes on with what the index of a pack says.
    fn apply_pack(&mut self, segment: &Segment, block: &Block) {
        let trailer = block.trailer();
        let walker = &mut self.walker;
        if let Err(error) = apply_block(&mut walker.durable, segment.id(), block, DATA_START) {
            walker.damaged(&segment.name, 0, error.to_string());
        }
        let durable = &mut walker.durable;
        durable.next_position = durable.next_position.max(trailer.next_position);
        if let Some((_, last_ms)) = segment.times_ms() {
            durable.last_time_ms = durable.last_time_ms.max(last_ms);
        }
        durable.epoch = durable.epoch.max(segment.header.epoch);
        walker.records += u64::from(trailer.records);
        walker.is_behind_pack = true;
    }

    fn records_of_pack(&mut self, segment: &Segment, block: &Block) -> Result<()> {
        let mut wrong = Vec::new();
        let found = self.read_pack(segment, block.trailer().data_end, &mut wrong)?;
        found.check(block, &mut wrong);
        if block.header_copy() != segment.header.encode() {
            wrong.push((
                0,
                "the header in its index is another than the pack's".to_owned(),
            ));
        }
        for (offset, what) in wrong.into_iter().take(DIFFERENCES_MAX) {
            self.walker.damaged(&segment.name, offset, what);
        }
        Ok(())
    }

    fn read_pack(
        &self,
        segment: &Segment,
        end: u64,
        wrong: &mut Vec<(u64, String)>,
    ) -> Result<Found> {
        let mut found = Found::default();
        let mut scan = Scan::of_file(segment, DATA_START, end);
        loop {
            match scan.next_of_any_kind() {
                Ok(Some(frame)) => self.add(&mut found, &frame, segment, wrong),
                Ok(None) => break,
                Err(error) if is_damage(&error) => {
                    wrong.push((scan.offset(), error.to_string()));
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        runlog_log::order::sort(&mut found.samples);
        runlog_log::order::sort(&mut found.keys);
        runlog_log::order::sort(&mut found.labels);
        Ok(found)
    }

    fn add(
        &self,
        found: &mut Found,
        frame: &Frame,
        segment: &Segment,
        wrong: &mut Vec<(u64, String)>,
    ) {
        let (header, offset) = (frame.header, frame.offset);
        if header.has_position() {
            found.samples.push(SampleRow {
                index: header.index,
                offset,
            });
        }
        let payload = frame.parts().map(|(_, payload)| payload);
        match header.kind {
            record::RECEIPT => match frame.key().filter(|key| !key.is_empty()) {
                Some(key) => found.keys.push(KeyRow {
                    stream: header.stream,
                    hash: self.walker.durable.key_hash(key),
                    offset,
                }),
                None => wrong.push((offset, "a receipt without a key".to_owned())),
            },
            kind if kind.is_data() => {
                found.data += 1;
                let labels = frame.labels();
                let labels = labels.map(|label| (label, header.index, offset));
                found.labels.extend(labels);
            }
            kind if header.has_position() => {
                found.controls += 1;
                let position = segment.header.base_position + u64::from(header.index);
                let said = payload.and_then(|payload| said_by(kind, &payload, position));
                match said {
                    Some(said) => drop(found.said.insert(offset, said)),
                    None => {
                        wrong.push((offset, "engine record with impossible content".to_owned()))
                    }
                }
            }
            _ => {}
        }
        found.records.insert(offset, header);
    }
}

/// The id, the other stream and the target that an engine record says.
fn said_by(kind: Kind, payload: &[u8], position: u64) -> Option<([u8; 16], u32, u64)> {
    Some(match kind {
        Kind::CREATE => (record::engine::decode_create(payload)?, 0, 0),
        Kind::FORK => {
            let (id, parent) = record::engine::decode_fork(payload)?;
            (id, parent, 0)
        }
        Kind::REDACT => {
            let (target, others) = record::engine::decode_redact(payload)?;
            (others, 0, target)
        }
        Kind::SNAPSHOT => ([0; 16], 0, position),
        _ => ([0; 16], 0, 0),
    })
}

impl Found {
    /// What the index block says otherwise.
    fn check(&self, block: &Block, wrong: &mut Vec<(u64, String)>) {
        let trailer = block.trailer();
        let counted = self.data + self.controls;
        if trailer.records as usize != counted {
            let message = format!(
                "its trailer counts {} records, but it has {counted}",
                trailer.records
            );
            wrong.push((trailer.data_end, message));
        }
        let samples: Vec<_> = block.samples_from(0).collect();
        if samples != self.samples {
            wrong.push((
                trailer.data_end,
                "its samples don't name every record in order".to_owned(),
            ));
        }
        let keys: Vec<_> = block.keys_all().collect();
        if keys != self.keys {
            wrong.push((
                trailer.data_end,
                "its keys are others than its receipts'".to_owned(),
            ));
        }
        self.check_labels(block, wrong);
        self.check_rows(block, wrong);
        self.check_controls(block, wrong);
    }

    fn check_labels(&self, block: &Block, wrong: &mut Vec<(u64, String)>) {
        let parts = block.parts();
        let named = parts.label_places().map(|(label, place)| {
            let units = parts.postings.get(place as usize).copied();
            (label, units.map(units_to_offset))
        });
        let found = self.labels.iter();
        let found = found.map(|(label, _, offset)| (*label, Some(*offset)));
        if !named.eq(found) {
            let message = "its labels are others than its records'".to_owned();
            wrong.push((block.trailer().data_end, message));
        }
        if !block.has_right_filter() {
            let message = "its label filter is not that of its labels".to_owned();
            wrong.push((block.trailer().data_end, message));
        }
    }

    fn check_rows(&self, block: &Block, wrong: &mut Vec<(u64, String)>) {
        let mut named = 0;
        for row in block.stream_rows() {
            let mut last = None;
            for ordinal in row.first_ordinal..row.first_ordinal.saturating_add(row.count) {
                let Some(offset) = block.posting(&row, ordinal).filter(|at| *at != DROPPED) else {
                    continue;
                };
                named += 1;
                let header = self.records.get(&offset);
                let is_it =
                    header.is_some_and(|found| found.stream == row.stream && found.kind.is_data());
                // Later records of a stream have higher positions.
                let index = header.map(|header| header.index);
                if !is_it || index <= last {
                    let message = format!(
                        "its index names record {ordinal} of stream number {} here, where that isn't",
                        row.stream
                    );
                    wrong.push((offset, message));
                }
                last = index;
            }
        }
        if named != self.data {
            wrong.push((
                block.trailer().data_end,
                format!(
                    "its index names {named} data records, but it has {}",
                    self.data
                ),
            ));
        }
    }

    fn check_controls(&self, block: &Block, wrong: &mut Vec<(u64, String)>) {
        let mut count = 0;
        for control in block.controls() {
            count += 1;
            let header = self.records.get(&control.offset);
            let said = self.said.get(&control.offset);
            let is_it = header.is_some_and(|header| {
                (header.kind, header.stream, header.sequence)
                    == (control.kind, control.stream, control.sequence)
            });
            let other = if control.kind == Kind::FORK {
                control.other
            } else {
                0
            };
            if !is_it || said != Some(&(control.id, other, control.target)) {
                let message = "its index says something else of the engine record here";
                wrong.push((control.offset, message.to_owned()));
            }
        }
        if count != self.controls {
            wrong.push((
                block.trailer().data_end,
                format!(
                    "its index names {count} engine records, but it has {}",
                    self.controls
                ),
            ));
        }
    }
}

/// The number of the pack that a segment is in, or its own.
pub(super) fn packed(packs: &[(SegmentId, SegmentId)], id: SegmentId) -> SegmentId {
    let after = packs.partition_point(|(first, _)| *first <= id);
    let found = after.checked_sub(1).map(|place| packs[place]);
    found
        .filter(|(_, last)| id <= *last)
        .map_or(id, |(first, _)| first)
}
