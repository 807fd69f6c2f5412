//! The last segment of a store that doesn't open: where its records end, and whether that is what a crash left or damage.

use super::{
    Examiner, Part, compare,
    gap::Gap,
    survey::{self, Hole, Piece, Source, Survey},
};
use crate::{
    Result, SegmentId, checksum,
    format::{
        aligned, files, newer, offset_to_units,
        record::Flags,
        segment::{HEADER_BYTES, Header},
    },
    log::segment::Segment,
};

/// Where the records of a segment end.
pub(super) struct Tail {
    pub(super) end: u64,
    /// Why what can't be read, or is missing, was durable.
    pub(super) damage: Option<String>,
    pub(super) torn_bytes: u64,
    /// From here on all bytes are zero, where that was looked for.
    pub(super) quiet_from: Option<u64>,
}

impl Tail {
    pub(super) fn known(end: u64) -> Self {
        Self { end, damage: None, torn_bytes: 0, quiet_from: None }
    }
}

impl Examiner<'_> {
    /// Where the records of the last segment end. Where nothing proves that more was durable than whole batches reach, the
    /// rest is what a crash left. Otherwise every whole record stays, those of batches that lost others too.
    pub(super) fn tail(&self, segment: &Segment, file_bytes: u64) -> Result<Tail> {
        let start = HEADER_BYTES as u64;
        let source: &dyn Source = segment;
        let quiet_from = survey::last_nonzero(source, start.min(file_bytes), file_bytes)?;
        let readable_to = file_bytes - file_bytes % aligned(1) as u64;
        let mut survey = Survey::new(source, segment.seed, start, readable_to).quiet_from(quiet_from);
        let (mut whole_end, mut last_end) = (start, start);
        let (mut expected, mut in_batch, mut is_whole) = (0_u32, false, true);
        let mut proof: Option<(u64, u64)> = None;
        while let Some(piece) = survey.next()? {
            let Piece::Record(frame) = piece else {
                is_whole = false;
                continue;
            };
            let header = &frame.header;
            if let Some(unknown) = header.unknown() {
                return Err(newer(&format!("{}: offset {}", segment.name, frame.offset), &unknown));
            }
            is_whole &= header.index == expected && header.flags.has(Flags::BATCH_FIRST) != in_batch;
            in_batch = !header.flags.has(Flags::BATCH_LAST);
            expected = header.index.saturating_add(u32::from(header.has_position()));
            last_end = frame.end();
            if is_whole && !in_batch {
                whole_end = frame.end();
            }
            if proof.is_none_or(|(_, watermark)| header.watermark > watermark) {
                proof = Some((frame.offset, header.watermark));
            }
        }
        let by_record = proof.filter(|(_, watermark)| *watermark > whole_end).map(|(offset, watermark)| {
            format!("the record at offset {offset} says that all before offset {watermark} was durable")
        });
        let reached = self.reached.filter(|(place, _)| *place > (segment.id(), whole_end));
        let by_file = reached.map(|((id, offset), file)| {
            format!("{file} says that the log had reached offset {offset} of {}", files::segment_name(id))
        });
        let positions = self.given;
        let stands = segment.header.base_position.saturating_add(u64::from(expected));
        let by_position = (positions > stands).then(|| format!("positions up to {} were given", positions - 1));
        let Some(proof) = by_record.or(by_file).or(by_position) else {
            let torn_bytes = quiet_from.saturating_sub(whole_end);
            return Ok(Tail { end: whole_end, damage: None, torn_bytes, quiet_from: Some(quiet_from) });
        };
        // What the checkpoint names reaches as far as it does.
        let saved = self.saved.as_ref().filter(|saved| SegmentId(saved.end.segment) == segment.id());
        let named = saved.and_then(|saved| compare::active_block(saved, segment).map(|_| saved.end.offset));
        let end = last_end.max(named.unwrap_or(0));
        let damage = format!(
            "whole batches end at offset {whole_end}, but more was durable: {proof}; a repair goes on behind it"
        );
        Ok(Tail { end, damage: Some(damage), torn_bytes: 0, quiet_from: Some(quiet_from) })
    }

    /// A segment whose file is missing, or can't be used: everything in it is lost. What its neighbours tell of it makes
    /// another in its place.
    pub(super) fn missing(&mut self, id: SegmentId, why: Option<&str>, next: Option<&Header>) {
        let name = files::segment_name(id);
        let what = why.map_or_else(|| "the file is missing".to_owned(), str::to_owned);
        let message = format!("{what}; a repair makes an empty one in its place, and everything else is readable then");
        self.walker.report.damaged(&name, 0, message);
        let start = HEADER_BYTES as u64;
        let data_end =
            next.map_or(start, |next| next.predecessor_end.max(start) / aligned(1) as u64 * aligned(1) as u64);
        let salt = next.map_or(offset_to_units(start) ^ id.0, |next| next.predecessor_salt);
        let seed = checksum::crc_from(salt, &id.0.to_le_bytes());
        let mut header = self.missing_header(id, salt, seed);
        if let Some(next) = next {
            header.base_time_ms = header.base_time_ms.min(next.base_time_ms);
        }
        let base = header.base_position;
        let missing = next.and_then(|next| u32::try_from(next.base_position.checked_sub(base)?).ok()).unwrap_or(0);
        let hole = Hole { from: start, to: data_end, why: what };
        self.walker.lose_segment(Gap::of(id, name, &hole, base, missing));
        self.walker.durable.next_position = base.saturating_add(u64::from(missing));
        self.parts.push(Part {
            header,
            is_header_made: true,
            segment: None,
            data_end,
            next_position: self.walker.durable.next_position,
            index_crc: None,
            needs_index: true,
            has_losses: true,
            wrong_copies: Vec::new(),
            shorten_to: None,
        });
    }
}
