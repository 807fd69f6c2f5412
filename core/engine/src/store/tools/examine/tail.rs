//! The end of the records of an unsealed segment, and whether the bytes after it are a torn write or damage.

use super::{
    examiner::Examiner,
    gap,
    slot::{Slot, State},
    survey::{self, Padded, Piece, Survey},
};
use crate::{
    Result, SegmentId,
    format::{files, newer, record::Flags, segment::DATA_START},
    log::segment::Segment,
};

/// At most this many lost records get places that are made for them: their index must fit behind them.
pub(super) const MADE_PLACES_MAX: u64 = 4 << 20;

/// Where the records of a segment end.
pub(super) struct Tail {
    pub(super) end: u64,
    /// Why what can't be read, or is missing, was durable.
    pub(super) damage: Option<String>,
    pub(super) torn_bytes: u64,
    /// From here on all bytes are zero, where that was looked for.
    pub(super) quiet_from: Option<u64>,
    /// The position behind its last record's, lost ones included, where something says it.
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
    let start = DATA_START;
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
        if let Some(unknown) = frame.unknown() {
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
pub(super) fn surplus(rest: &[Slot], position: u64) -> u64 {
    let lost = rest
        .iter()
        .take_while(|slot| matches!(slot.state, State::Lost(_)))
        .count();
    let Some(next) = rest.get(lost).and_then(Slot::header).filter(|_| lost > 0) else {
        return 0;
    };
    // Of the last of them it is known where it ends.
    let places = next.predecessor_end.saturating_sub(DATA_START) / gap::PLACE_BYTES;
    next.base_position
        .saturating_sub(position)
        .saturating_sub(places)
        .min(MADE_PLACES_MAX)
}

impl Examiner<'_> {
    /// The end of the last segment's records. If nothing proves the segment durable beyond the last whole batch, the
    /// rest is a torn write. Otherwise every whole record is kept, those of incomplete batches too.
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
        let named = saved.and_then(|saved| {
            saved
                .active_block(&segment.header)
                .map(|_| saved.end.offset)
        });
        let end = last_end.max(named.unwrap_or(0));
        let damage = format!(
            "whole batches end at offset {batches_end}, but more was durable: {proof}; a repair goes on behind it"
        );
        // How much was lost of it and how much of segments behind it is unknown; of these the checkpoint may know more.
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

    /// Where the records of a segment end that is followed by lost ones, and has lost what says its end. How much was lost of it
    /// and how much of those is unknown: it gets what has no place there.
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
        let reach = self.reach_of(segment);
        let end =
            (last_end + surplus * gap::PLACE_BYTES).max(reach.map_or(0, |(offset, _)| offset));
        let next_position = (stands + surplus).max(reach.map_or(0, |(_, next)| next));
        Ok(Tail {
            quiet_from: Some(quiet_from),
            next_position: Some(next_position),
            ..Tail::known(end)
        })
    }

    /// How far a segment reached, as far as the small files say: offset, and the position behind that.
    fn reach_of(&self, segment: &Segment) -> Option<(u64, u64)> {
        let named = (segment.id(), segment.header.salt);
        let saved = self.saved.as_ref().map(|saved| &saved.end);
        let saved = saved.filter(|end| (SegmentId(end.segment), end.salt) == named);
        let closed = self
            .sources
            .end
            .as_ref()
            .filter(|end| (end.segment, end.salt) == named);
        let reach = [
            saved.map(|end| (end.offset, end.next_position)),
            closed.map(|end| (end.offset, end.next_position)),
        ];
        reach.into_iter().flatten().max()
    }
}
