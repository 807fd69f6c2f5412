//! Segments whose files are missing or unusable, and their replacements.

use super::{
    examiner::{Examiner, Part},
    gap::{self, Gap},
    slot::{Slot, Unusable},
    survey::Hole,
    tail::{MADE_PLACES_MAX, surplus},
};
use crate::{
    SegmentId, checksum,
    format::{
        aligned, files, offset_to_units,
        segment::{DATA_START, Header},
    },
    index::checkpoint::End,
    store::segments::chain::WITHOUT_INDEX,
};

impl Examiner<'_> {
    /// A segment whose file is missing, or can't be used: everything in it is lost. What its neighbours say of it makes
    /// another in its place.
    pub(super) fn missing(&mut self, id: SegmentId, file: Option<&Unusable>, rest: &[Slot]) {
        let what = file.map_or_else(|| "the file is missing".to_owned(), |file| file.why.clone());
        match file.filter(|file| file.has_records) {
            Some(file) => {
                let message = format!("{what}; {WITHOUT_INDEX}");
                let name = file.file.name();
                self.walker.damaged(&name, 0, message);
                self.walker.report.to_restore.push(name);
            }
            None => self.made_in_place(id, &what),
        }
        let start = DATA_START;
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
            self.made_in_place(SegmentId(last + 1), &what);
            let data_end = DATA_START + missing.min(MADE_PLACES_MAX) * gap::PLACE_BYTES;
            self.lost_segment(SegmentId(last + 1), what, data_end, base + missing, None);
        }
        if let Some(saved) = self.saved.take_if(|_| self.walker.has_open_gap()) {
            self.walker.checkpoint_wrong = self.walker.catch_up(&saved).err();
        }
    }

    fn made_in_place(&mut self, id: SegmentId, what: &str) {
        let message = format!(
            "{what}; a repair makes an empty one in its place, and everything else is readable then"
        );
        self.walker.damaged(&files::segment_name(id), 0, message);
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
        let start = DATA_START;
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
            wrong_dictionaries: Vec::new(),
            shorten_to: None,
        });
    }
}
