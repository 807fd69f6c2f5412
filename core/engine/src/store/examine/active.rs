//! The last segment of a store that doesn't open: where its records end, and whether that is what a crash left or damage.

use super::{
    Examiner, Part, compare,
    gap::{self, Gap},
    slots::{Slot, State},
    survey::{self, Hole, Padded, Piece, Survey},
};
use crate::{
    Result, SegmentId, checksum,
    format::{
        aligned, files, newer, offset_to_units,
        record::Flags,
        segment::{HEADER_BYTES, Header},
    },
    index::checkpoint::End,
    log::segment::Segment,
};

/// So many lost records get places that are made for them: their index must fit behind them.
const MADE_PLACES_MAX: u64 = 4 << 20;

/// Where the records of a segment end.
pub(super) struct Tail {
    pub(super) end: u64,
    /// Why what can't be read, or is missing, was durable.
    pub(super) damage: Option<String>,
    pub(super) torn_bytes: u64,
    /// From here on all bytes are zero, where that was looked for.
    pub(super) quiet_from: Option<u64>,
    /// The position behind its last record's, lost ones included, where something tells it.
    pub(super) next_position: Option<u64>,
}

/// What a segment has, whatever lies between.
struct Whole {
    quiet_from: u64,
    /// Where the whole batches from its beginning on end.
    batches_end: u64,
    last_end: u64,
    /// The index behind its last record's.
    expected: u32,
    /// Whether its last batch has no end.
    is_unended: bool,
    /// The record that proves the most durable, and up to where.
    proof: Option<(u64, u64)>,
}

impl Tail {
    pub(super) fn known(end: u64) -> Self {
        Self {
            end,
            damage: None,
            torn_bytes: 0,
            quiet_from: None,
            next_position: None,
        }
    }
}

/// What is whole of a segment.
fn whole(segment: &Segment, file_bytes: u64) -> Result<Whole> {
    let start = HEADER_BYTES as u64;
    let source = Padded::new(segment, file_bytes);
    let quiet_from = survey::last_nonzero(segment, start.min(file_bytes), file_bytes)?;
    let mut survey = Survey::new(&source, segment.seed, start, source.end()).quiet_from(quiet_from);
    let mut found = Whole {
        quiet_from,
        batches_end: start,
        last_end: start,
        expected: 0,
        is_unended: false,
        proof: None,
    };
    let mut is_whole = true;
    while let Some(piece) = survey.next()? {
        let Piece::Record(frame) = piece else {
            is_whole = false;
            continue;
        };
        let header = &frame.header;
        if let Some(unknown) = header.unknown() {
            return Err(newer(
                &format!("{}: offset {}", segment.name, frame.offset),
                &unknown,
            ));
        }
        is_whole &= header.index == found.expected
            && header.flags.has(Flags::BATCH_FIRST) != found.is_unended;
        found.is_unended = !header.flags.has(Flags::BATCH_LAST);
        found.expected = header
            .index
            .saturating_add(u32::from(header.has_position()));
        found.last_end = frame.end();
        if is_whole && !found.is_unended {
            found.batches_end = frame.end();
        }
        if found
            .proof
            .is_none_or(|(_, watermark)| header.watermark > watermark)
        {
            found.proof = Some((frame.offset, header.watermark));
        }
    }
    Ok(found)
}

/// How many of the records from a position on have no place in the lost segments between it and the next that is there.
fn surplus(rest: &[Slot], position: u64) -> u64 {
    let lost = rest
        .iter()
        .take_while(|slot| matches!(slot.state, State::Lost(_)))
        .count();
    let Some(next) = rest.get(lost).and_then(Slot::header).filter(|_| lost > 0) else {
        return 0;
    };
    // Of the last of them it is known where it ends.
    let places = next.predecessor_end.saturating_sub(HEADER_BYTES as u64) / gap::PLACE_BYTES;
    next.base_position
        .saturating_sub(position)
        .saturating_sub(places)
        .min(MADE_PLACES_MAX)
}

impl Examiner<'_> {
    /// Where the records of the last segment end. Where nothing proves that more was durable than whole batches reach, the
    /// rest is what a crash left. Otherwise every whole record stays, those of batches that lost others too.
    pub(super) fn tail(&self, segment: &Segment, file_bytes: u64) -> Result<Tail> {
        let Whole {
            quiet_from,
            batches_end,
            last_end,
            expected,
            proof,
            is_unended,
        } = whole(segment, file_bytes)?;
        let by_record = proof.filter(|(_, watermark)| *watermark > batches_end).map(|(offset, watermark)| {
            format!("the record at offset {offset} says that all before offset {watermark} was durable")
        });
        let reached = self
            .reached
            .filter(|(place, _)| *place > (segment.id(), batches_end));
        let by_file = reached.map(|((id, offset), file)| {
            format!(
                "{file} says that the log had reached offset {offset} of {}",
                files::segment_name(id)
            )
        });
        let positions = self.given;
        let stands = segment
            .header
            .base_position
            .saturating_add(u64::from(expected));
        let by_position =
            (positions > stands).then(|| format!("positions up to {} were given", positions - 1));
        let Some(proof) = by_record.or(by_file).or(by_position) else {
            let torn_bytes = quiet_from.saturating_sub(batches_end);
            let quiet_from = Some(quiet_from);
            return Ok(Tail {
                torn_bytes,
                quiet_from,
                ..Tail::known(batches_end)
            });
        };
        // What the checkpoint names reaches as far as it does.
        let saved = self
            .saved
            .as_ref()
            .filter(|saved| SegmentId(saved.end.segment) == segment.id());
        let named =
            saved.and_then(|saved| compare::active_block(saved, segment).map(|_| saved.end.offset));
        let end = last_end.max(named.unwrap_or(0));
        let damage = format!(
            "whole batches end at offset {batches_end}, but more was durable: {proof}; a repair goes on behind it"
        );
        // What was lost of it and what of segments behind it, nobody knows; of these the checkpoint may know more.
        let is_followed = self
            .saved
            .as_ref()
            .is_some_and(|saved| saved.end.segment > segment.id().0);
        let next_position = match (is_followed, is_unended) {
            (false, _) => Some(self.given),
            // A batch without its end went on here.
            (true, true) => Some(stands.saturating_add(1)),
            (true, false) => None,
        };
        let end = if is_followed && is_unended {
            end + gap::PLACE_BYTES
        } else {
            end
        };
        Ok(Tail {
            end,
            damage: Some(damage),
            torn_bytes: 0,
            quiet_from: Some(quiet_from),
            next_position,
        })
    }

    /// Where the records of a segment end that is followed by lost ones, and has lost what tells its end. What was lost of it
    /// and what in those, nobody knows: it gets what has no place there.
    pub(super) fn open_end(
        &self,
        segment: &Segment,
        file_bytes: u64,
        rest: &[Slot],
    ) -> Result<Tail> {
        let Whole {
            quiet_from,
            last_end,
            expected,
            is_unended,
            ..
        } = whole(segment, file_bytes)?;
        let stands = segment
            .header
            .base_position
            .saturating_add(u64::from(expected));
        // A batch without its end went on here.
        let surplus = surplus(rest, stands).max(u64::from(is_unended));
        let told = self.told_of(segment);
        let end = (last_end + surplus * gap::PLACE_BYTES).max(told.map_or(0, |(offset, _)| offset));
        let next_position = (stands + surplus).max(told.map_or(0, |(_, next)| next));
        Ok(Tail {
            quiet_from: Some(quiet_from),
            next_position: Some(next_position),
            ..Tail::known(end)
        })
    }

    /// How far a segment reached, as far as the small files tell: offset, and the position behind that.
    fn told_of(&self, segment: &Segment) -> Option<(u64, u64)> {
        let named = (segment.id(), segment.header.salt);
        let saved = self.saved.as_ref().map(|saved| &saved.end);
        let saved = saved.filter(|end| (SegmentId(end.segment), end.salt) == named);
        let closed = self
            .sources
            .end
            .as_ref()
            .filter(|end| (end.segment, end.salt) == named);
        let told = [
            saved.map(|end| (end.offset, end.next_position)),
            closed.map(|end| (end.offset, end.next_position)),
        ];
        told.into_iter().flatten().max()
    }

    /// A segment whose file is missing, or can't be used: everything in it is lost. What its neighbours tell of it makes
    /// another in its place.
    pub(super) fn missing(&mut self, id: SegmentId, why: Option<&str>, rest: &[Slot]) {
        let what = why.map_or_else(|| "the file is missing".to_owned(), str::to_owned);
        let start = HEADER_BYTES as u64;
        let base = self.walker.durable.next_position;
        let next = rest.first().and_then(Slot::header);
        let Some(next) = next else {
            let surplus = surplus(rest, base);
            self.lost_segment(
                id,
                what,
                start + surplus * gap::PLACE_BYTES,
                base + surplus,
                None,
            );
            return;
        };
        let data_end = next.predecessor_end.max(start) / aligned(1) as u64 * aligned(1) as u64;
        self.lost_segment(id, what, data_end, next.base_position.max(base), Some(next));
        self.catch_up_before(next);
    }

    /// Catches up with a checkpoint that was made in the segments that are lost before this one.
    fn catch_up_before(&mut self, next: &Header) {
        let lost = self
            .parts
            .iter()
            .rev()
            .take_while(|part| part.segment.is_none());
        let first = lost
            .last()
            .map_or(next.segment, |part| part.header.segment)
            .0;
        let is_there = |end: &End| {
            let is_last = end.segment + 1 == next.segment.0;
            (first..next.segment.0).contains(&end.segment)
                && (!is_last || end.salt == next.predecessor_salt)
        };
        if let Some(saved) = self.saved.take_if(|saved| is_there(&saved.end)) {
            self.walker.checkpoint_wrong = self.walker.catch_up(&saved).err();
        }
    }

    /// What the checkpoint knows of the end of the log, where the segments don't reach it: a segment with nothing in it keeps
    /// that for the log.
    pub(super) fn lost_tail(&mut self) {
        let last = self.parts.last().map_or(0, |part| part.header.segment.0);
        let Some(saved) = self.saved.as_ref().filter(|saved| saved.end.segment > last) else {
            return;
        };
        let base = self.walker.durable.next_position;
        let missing = saved.end.next_position.saturating_sub(base);
        if missing > 0 {
            let what = format!(
                "{} says that the log went on up to position {}",
                files::CHECKPOINT,
                base + missing - 1
            );
            let data_end = HEADER_BYTES as u64 + missing.min(MADE_PLACES_MAX) * gap::PLACE_BYTES;
            self.lost_segment(SegmentId(last + 1), what, data_end, base + missing, None);
        }
        if let Some(saved) = self.saved.take_if(|_| self.walker.has_open_gap()) {
            self.walker.checkpoint_wrong = self.walker.catch_up(&saved).err();
        }
    }

    fn lost_segment(
        &mut self,
        id: SegmentId,
        what: String,
        data_end: u64,
        next_position: u64,
        next: Option<&Header>,
    ) {
        let name = files::segment_name(id);
        let message = format!(
            "{what}; a repair makes an empty one in its place, and everything else is readable then"
        );
        self.walker.report.damaged(&name, 0, message);
        let start = HEADER_BYTES as u64;
        let salt = next.map_or(offset_to_units(start) ^ id.0, |next| next.predecessor_salt);
        let seed = checksum::crc_from(salt, &id.0.to_le_bytes());
        let mut header = self.missing_header(id, salt, seed);
        if let Some(next) = next {
            header.base_time_ms = header.base_time_ms.min(next.base_time_ms);
        }
        let base = header.base_position;
        let missing = u32::try_from(next_position.saturating_sub(base)).unwrap_or(0);
        let hole = Hole {
            from: start,
            to: data_end,
            why: what,
        };
        self.walker
            .lose_segment(Gap::of(id, name, &hole, base, missing));
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
