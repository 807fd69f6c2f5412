//! Reads one segment, and checks it against the log before it.

use super::{
    compare,
    examiner::{Examiner, Part},
    slot::{Slot, State},
    tail::Tail,
    walker::{Task, Walked},
};
use crate::{
    Result,
    format::{
        files,
        index::{Block, Ends},
        segment::{COPIES, DATA_START},
    },
    limits,
    log::segment::Segment,
    store::segments::chain::{checked_block, is_half_written},
    sync::Arc,
};

const MADE_AGAIN: &str = "a repair makes it again from the records";

impl Examiner<'_> {
    /// Checks the header of a segment against the log before it.
    pub(super) fn check_header(&mut self, segment: &Segment) {
        let header = &segment.header;
        let durable = &self.walker.durable;
        let before = self.parts.last();
        let mut wrong = Vec::new();
        // Streams may be left out only behind what was repaired or can't be read.
        let is_behind_loss = before.is_some_and(|part| part.has_losses || part.needs_index)
            || !self.walker.gaps.is_empty();
        let (next, base) = (durable.next_position, header.base_position);
        if base < next {
            wrong.push(format!("its base position is {base}, expected {next}"));
        }
        let (expected, found) = (durable.directory.next_number(), header.next_stream);
        if found < expected || found > expected && !is_behind_loss {
            wrong.push(format!("its next stream is {found}, expected {expected}"));
        }
        let earliest = durable
            .last_time_ms
            .max(before.map_or(0, |part| part.header.base_time_ms));
        if header.base_time_ms < earliest {
            wrong.push(format!(
                "its base time is {}, before {earliest} in the segment before",
                header.base_time_ms
            ));
        }
        if header.epoch < durable.epoch || header.epoch == 0 {
            wrong.push(format!(
                "its epoch is {}, after epoch {}",
                header.epoch, durable.epoch
            ));
        }
        if header.hash_key != self.sources.identity.hash_key {
            wrong.push(format!(
                "its hash key is another than that in {}",
                files::IDENTITY
            ));
        }
        if let Some(crc) = before
            .filter(|part| !part.needs_index && !part.has_losses)
            .and_then(|part| part.index_crc)
            && crc != header.predecessor_index_crc
        {
            let named = header.predecessor_index_crc;
            wrong.push(format!(
                "it follows an index block with the CRC {named:08x}, but that has {crc:08x}"
            ));
        }
        if base > next {
            let message = format!(
                "positions {next} to {} are lost: nothing is known of them",
                base - 1
            );
            self.walker.lost(&segment.name, 0, message);
            self.walker.report.lost += base - next;
        }
        for what in wrong {
            self.walker.damaged(&segment.name, 0, what);
        }
        self.walker.durable.epoch = self.walker.durable.epoch.max(header.epoch);
    }

    /// Reads a segment that has a header, and holds its index block against it. `rest` are those behind it.
    pub(super) fn segment(
        &mut self,
        segment: &Arc<Segment>,
        rest: &[Slot],
        wrong_copies: Vec<usize>,
    ) -> Result<()> {
        let is_header_made = wrong_copies.len() == COPIES.len() && segment.trailer().is_none();
        let length = segment.file_bytes()?;
        let is_too_long = length > limits::SEGMENT_BYTES_MAX;
        if is_too_long {
            let message = format!(
                "{length} bytes long, but a segment has at most {}",
                limits::SEGMENT_BYTES_MAX
            );
            self.walker
                .damaged(&segment.name, limits::SEGMENT_BYTES_MAX, message);
        }
        let file_bytes = length.min(limits::SEGMENT_BYTES_MAX);
        let block = checked_block(segment)?;
        let own = block.as_ref().ok().cloned().flatten();
        let next = rest.first();
        let header_after = next.and_then(Slot::header);
        let found = match (segment.trailer(), header_after) {
            (Some(trailer), _) => Tail::known(trailer.data_end),
            (None, Some(after)) => Tail::known(after.predecessor_end.max(DATA_START)),
            (None, None) if self.end.is_some() => Tail::known(self.end.unwrap_or(DATA_START)),
            (None, None) if rest.is_empty() => self.tail(segment, file_bytes)?,
            (None, None) => self.open_end(segment, file_bytes, rest)?,
        };
        let is_last = rest.is_empty();
        let is_active = is_last && segment.trailer().is_none() && found.damage.is_none();
        let next_position = match (segment.trailer(), header_after) {
            (Some(trailer), _) => Some(trailer.next_position),
            (None, Some(after)) => Some(after.base_position),
            (None, None) => found.next_position,
        };
        let (guide, guide_end) = match (&own, self.saved.as_ref()) {
            (Some(block), _) => (Some(block.clone()), found.end),
            (None, Some(saved))
                if saved.end.segment == segment.id().0 && saved.end.salt == segment.header.salt =>
            {
                (
                    saved.active_block(&segment.header).map(Arc::new),
                    saved.end.offset,
                )
            }
            _ => (None, 0),
        };
        if self
            .saved
            .as_ref()
            .is_some_and(|saved| saved.end.segment == segment.id().0)
        {
            self.walker.checkpoint = self.saved.take();
        }
        let task = Task {
            segment,
            to: found.end,
            file_bytes,
            next_position,
            block: guide,
            block_end: guide_end.min(found.end),
        };
        if !is_header_made {
            self.walker.begin_segment(segment);
        }
        let walked = self.walker.walk(&task)?;
        if let Some(saved) = self.walker.checkpoint.take() {
            self.saved = Some(saved);
        }
        if let Some(next) = next_position.filter(|next| *next <= limits::BASE_POSITION_MAX) {
            self.walker.durable.next_position = self.walker.durable.next_position.max(next);
        }
        if is_active {
            self.walker.report.torn_bytes = found.torn_bytes;
        }
        let is_unproven = match next.map(|next| &next.state) {
            // A checkpoint that was made behind it proves that it was sealed, and keeps opening from doing it again.
            _ if self
                .saved
                .as_ref()
                .is_some_and(|saved| saved.end.segment > segment.id().0) =>
            {
                false
            }
            Some(State::Usable(next)) if rest.len() == 1 => {
                own.is_none() && is_half_written(segment, next)?
            }
            _ => false,
        };
        let mut part = Part {
            header: segment.header,
            is_header_made,
            segment: Some(segment.clone()),
            data_end: found.end,
            next_position: self.walker.durable.next_position,
            index_crc: segment
                .trailer()
                .filter(|_| own.is_some())
                .map(|trailer| trailer.index_crc),
            needs_index: false,
            has_losses: walked.has_holes
                || segment.trailer().is_some_and(|trailer| trailer.repaired),
            wrong_copies,
            wrong_dictionaries: Vec::new(),
            shorten_to: is_too_long.then(|| {
                found
                    .quiet_from
                    .unwrap_or(limits::SEGMENT_BYTES_MAX)
                    .max(found.end)
            }),
        };
        part.needs_index = match (&own, &block) {
            (Some(own), _) => self.check_block(segment, own, &walked),
            (None, _) if is_active => walked.has_strays,
            // A crash while the segment was sealed; the next writer does it again. Unless it can't.
            (None, _) if is_unproven => {
                let expected = header_after.map(|after| after.predecessor_index_crc);
                walked.is_unknown || walked.has_strays || Some(self.draft_crc(&part)) != expected
            }
            (None, Err(error)) => {
                self.walker
                    .damaged(&segment.name, found.end, format!("{error}; {MADE_AGAIN}"));
                true
            }
            (None, Ok(_)) => {
                let what = found
                    .damage
                    .clone()
                    .unwrap_or_else(|| format!("its index block is missing; {MADE_AGAIN}"));
                self.walker.damaged(&segment.name, found.end, what);
                true
            }
        };
        // That of one that a crash left half sealed may be needed.
        if !part.needs_index && part.index_crc.is_some() {
            self.walker.drafts.remove(&segment.id());
        }
        self.parts.push(part);
        Ok(())
    }

    /// Whether the index block of a segment is not what its records give.
    fn check_block(&mut self, segment: &Segment, block: &Block, walked: &Walked) -> bool {
        let Some(trailer) = segment.trailer() else {
            return false;
        };
        let directory = &self.walker.durable.directory;
        let id_of = |number| directory.streams().id_bytes(number);
        let draft = self.walker.drafts.entry(segment.id()).or_default();
        let mut wrong: Vec<String> = walked.contradiction.clone().into_iter().collect();
        if wrong.is_empty() {
            wrong = compare::blocks(
                &block.parts(),
                &draft.parts(id_of),
                walked.has_holes,
                trailer.repaired,
            );
            if !block.has_right_filter() {
                wrong.push("its label filter is not that of its labels".to_owned());
            }
            let ends = Ends {
                data_end: trailer.data_end,
                next_position: trailer
                    .base_position
                    .saturating_add(u64::from(draft.records())),
                next_stream: directory.next_number(),
                repaired: trailer.repaired,
            };
            let ours = draft.trailer(&segment.header, &ends);
            wrong.extend(compare::trailers(trailer, &ours, walked.has_holes));
            if block.header_copy() != segment.header.encode() {
                wrong.push("the header in it is another than the segment's".to_owned());
            }
            if wrong.is_empty() && !walked.has_holes {
                let (_, crc) = draft.parts(id_of).encode(ours, &segment.header);
                wrong.extend(
                    (crc != trailer.index_crc)
                        .then(|| "bytes in it that say nothing are not zero".to_owned()),
                );
            }
        }
        for what in &wrong {
            let message = format!("its index block is not what its records give: {what}");
            self.walker
                .damaged(&segment.name, trailer.data_end, message);
        }
        !wrong.is_empty() || walked.is_unknown
    }

    /// The CRC of the index block that the records of a segment give.
    fn draft_crc(&mut self, part: &Part) -> u32 {
        let directory = &self.walker.durable.directory;
        let id_of = |number| directory.streams().id_bytes(number);
        let draft = self.walker.drafts.entry(part.header.segment).or_default();
        let ends = Ends {
            data_end: part.data_end,
            next_position: part.next_position,
            next_stream: directory.next_number(),
            repaired: false,
        };
        draft
            .parts(id_of)
            .encode(draft.trailer(&part.header, &ends), &part.header)
            .1
    }
}
