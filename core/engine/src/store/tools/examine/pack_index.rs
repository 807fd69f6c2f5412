//! Making the index of a pack again from its records.
//!
//! What was left out of a pack leaves no trace in its records, so they don't tell all of its index in every case. What was made is
//! taken only if it is what was written, byte for byte: the CRCs in the trailer tell, or those of the damaged blocks.

use bytes::Bytes;

use super::slot::{Slot, State};
use crate::{
    Kind, Label, Result,
    format::{
        files::{Identity, SegmentFile},
        index::{ControlRow, Ends, KeyRow, Labelled, Parts, SampleRow, StreamRow, Trailer},
        offset_to_units, record,
        segment::{DATA_START, Header},
    },
    index::NumberMap,
    log::{
        frame::Frame,
        pack::MadeBlock,
        scan::{Scan, is_damage},
        segment::Segment,
    },
    storage::{Access, IoContext, Storage},
    store::{
        published::{batches::apply_block, durable::Durable},
        segments::chain::checked_block,
    },
};

/// A pack whose index is damaged, with that index made again; `None` if its records don't tell it. `next` is the file behind it.
pub(super) fn made_again(
    storage: &dyn Storage,
    file: SegmentFile,
    next: Option<SegmentFile>,
    identity: &Identity,
    before: &[Slot],
) -> Result<Option<Segment>> {
    let open = |file| Segment::open_file(storage, file, Access::Read, &identity.store);
    let make = || {
        let Some(next) = next.map(open).transpose()? else {
            return Ok(None);
        };
        let Some(durable) = state_before(identity, before)? else {
            return Ok(None);
        };
        make(&open(file)?, &next.header, durable)
    };
    match make() {
        Err(error) if is_damage(&error) => Ok(None),
        made => made,
    }
}

fn make(segment: &Segment, next: &Header, mut durable: Durable) -> Result<Option<Segment>> {
    let Some(image) = segment.image() else {
        return Ok(None);
    };
    let Some(found) = Found::of(segment, &durable)? else {
        return Ok(None);
    };
    let (data_end, records) = (found.data_end, found.placed.len());
    let trailer = match segment.trailer() {
        Some(trailer) if segment.index_error().is_none() => Some(*trailer),
        _ => None,
    };
    let made_trailer = || {
        let ends = Ends {
            data_end,
            next_position: next.base_position,
            next_stream: next.next_stream,
            repaired: false,
        };
        let records = u32::try_from(records).unwrap_or(u32::MAX);
        Trailer::new(&segment.header, &ends, records, found.times_ms)
    };
    let of_index = trailer.unwrap_or_else(made_trailer);
    let Some(parts) = parts_of(segment, found, &mut durable)? else {
        return Ok(None);
    };
    let (index, _) = parts.encode(of_index, &segment.header);
    let index = Bytes::from(index);
    if of_index.data_end != data_end || data_end + index.len() as u64 != segment.file_bytes()? {
        return Ok(None);
    }
    let mut made: Vec<MadeBlock> = Vec::new();
    for place in 0..image.blocks() {
        let (from, to) = image.image_extent(place);
        if from < data_end {
            continue;
        }
        let within = |offset: u64| usize::try_from(offset - data_end).unwrap_or(usize::MAX);
        let raw = index.slice(within(from)..within(to));
        match image.read_block(place) {
            Ok(there) if there == raw => continue,
            Ok(_) => return Ok(None),
            Err(error) if is_damage(&error) => {}
            Err(error) => return Err(error),
        }
        let context = || format!("making a block of {} again", segment.name);
        let Some(block) = image.make_block(place, raw).with_context(context)? else {
            return Ok(None);
        };
        if trailer.is_none() && !image.is_told_by_file(&block).with_context(context)? {
            return Ok(None);
        }
        made.push(block);
    }
    if made.is_empty() {
        return Ok(None);
    }
    segment.with_made_blocks(image.with_made(made)).map(Some)
}

/// The streams as the files before tell them by their index blocks, if each has one that checks.
fn state_before(identity: &Identity, before: &[Slot]) -> Result<Option<Durable>> {
    let mut durable = Durable::new(identity.hash_key);
    for slot in before {
        let State::Usable(segment) = &slot.state else {
            return Ok(None);
        };
        let Some(block) = checked_block(segment)?.ok().flatten() else {
            return Ok(None);
        };
        apply_block(&mut durable, segment.id(), &block, DATA_START)?;
    }
    Ok(Some(durable))
}

/// A record of the pack that has a position.
struct Placed {
    index: u32,
    offset: u64,
    kind: Kind,
    stream: u32,
    sequence: u32,
    labels: Vec<Label>,
}

/// The records of a pack.
struct Found {
    /// By rising position.
    placed: Vec<Placed>,
    keys: Vec<KeyRow>,
    times_ms: Option<(u64, u64)>,
    /// Where they end.
    data_end: u64,
}

impl Found {
    /// Those up to the first bytes that are no record; `None` if a receipt has no key.
    fn of(segment: &Segment, durable: &Durable) -> Result<Option<Self>> {
        let mut found = Self {
            placed: Vec::new(),
            keys: Vec::new(),
            times_ms: None,
            data_end: DATA_START,
        };
        let mut scan = Scan::of_file(segment, DATA_START, segment.file_bytes()?);
        loop {
            found.data_end = scan.offset();
            let frame = match scan.next_of_any_kind() {
                Ok(Some(frame)) => frame,
                Err(error) if !is_damage(&error) => return Err(error),
                _ => break,
            };
            let (header, offset) = (&frame.header, frame.offset);
            if header.kind == record::RECEIPT {
                let Some(key) = frame.key() else {
                    return Ok(None);
                };
                found.keys.push(KeyRow {
                    stream: header.stream,
                    hash: durable.key_hash(key),
                    offset,
                });
            }
            if header.has_position() {
                let time_ms = segment.header.time_ms(header.time_delta_ms);
                let (first, last) = found.times_ms.unwrap_or((time_ms, time_ms));
                found.times_ms = Some((first.min(time_ms), last.max(time_ms)));
                found.placed.push(Placed {
                    index: header.index,
                    offset,
                    kind: header.kind,
                    stream: header.stream,
                    sequence: header.sequence,
                    labels: frame.labels().collect(),
                });
            }
        }
        runlog_log::order::sort_by_key(&mut found.placed, |placed| placed.index);
        runlog_log::order::sort(&mut found.keys);
        Ok(Some(found))
    }
}

/// The index as the records tell it, if no data record was left out; `None` if they contradict what comes before.
fn parts_of(segment: &Segment, found: Found, durable: &mut Durable) -> Result<Option<Parts>> {
    let mut parts = Parts {
        keys: found.keys,
        ..Parts::default()
    };
    let mut rows: Vec<(StreamRow, Vec<u32>)> = Vec::new();
    let mut row_of = NumberMap::<usize>::default();
    let mut labels = Vec::new();
    for placed in found.placed {
        let (offset, stream) = (placed.offset, placed.stream);
        let index = placed.index;
        parts.samples.push(SampleRow { index, offset });
        durable.next_position = segment
            .header
            .base_position
            .saturating_add(u64::from(index));
        if !placed.kind.is_data() {
            let frame = segment.frame(offset, found.data_end)?;
            let Some(control) = control_of(durable, segment, &frame)? else {
                return Ok(None);
            };
            parts.controls.push(control);
            continue;
        }
        let applied = durable
            .directory
            .apply_data(stream, placed.sequence, segment.id());
        let Ok(ordinal) = applied else {
            return Ok(None);
        };
        let row = *row_of.entry(stream).or_insert_with(|| {
            let row = StreamRow {
                stream,
                first_ordinal: ordinal,
                count: 0,
                postings_start: 0,
                id: durable.directory.streams().id_bytes(stream),
            };
            rows.push((row, Vec::new()));
            rows.len() - 1
        });
        rows[row].1.push(offset_to_units(offset));
        labels.extend(placed.labels.into_iter().map(|label| Labelled {
            label,
            stream,
            ordinal,
            offset,
        }));
    }
    runlog_log::order::sort_by_key(&mut rows, |(row, _)| row.stream);
    for (row, postings) in rows {
        let length = |all: &[u32]| u32::try_from(all.len()).unwrap_or(u32::MAX);
        parts.stream_rows.push(StreamRow {
            count: length(&postings),
            postings_start: length(&parts.postings),
            ..row
        });
        parts.postings.extend(postings);
    }
    parts.set_labels(labels);
    Ok(Some(parts))
}

/// The control row of an engine record, which is applied.
fn control_of(
    durable: &mut Durable,
    segment: &Segment,
    frame: &Frame,
) -> Result<Option<ControlRow>> {
    let Some(mut control) = durable.control_of(frame) else {
        return Ok(None);
    };
    durable.directory.complete_control(&mut control);
    durable.directory.apply_control(&control, segment.id())?;
    Ok(Some(control))
}
