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
    index::checkpoint::Checkpoint,
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
        let found = self.end_of_records(segment, file_bytes, rest)?;
        let is_active = rest.is_empty() && segment.trailer().is_none() && found.damage.is_none();
        let header_after = rest.first().and_then(Slot::header);
        let next_position = match (segment.trailer(), header_after) {
            (Some(trailer), _) => Some(trailer.next_position),
            (None, Some(after)) => Some(after.base_position),
            (None, None) => found.next_position,
        };
        let (guide, guide_end) = self.guide(segment, own.as_ref(), found.end);
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
        let walked = self.walk(&task)?;
        if let Some(next) = next_position.filter(|next| *next <= limits::BASE_POSITION_MAX) {
            self.walker.durable.next_position = self.walker.durable.next_position.max(next);
        }
        if is_active {
            self.walker.report.torn_bytes = found.torn_bytes;
        }
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
        part.needs_index = match block {
            Ok(Some(own)) => self.check_block(segment, &own, &walked),
            _ if is_active => walked.has_strays,
            // A crash while the segment was sealed; the next writer does it again. Unless it can't.
            _ if self.is_half_sealed(segment, rest, own.is_some())? => {
                let expected = header_after.map(|after| after.predecessor_index_crc);
                walked.is_unknown || walked.has_strays || Some(self.draft_crc(&part)) != expected
            }
            missing => {
                let what = match missing {
                    Err(error) => format!("{error}; {MADE_AGAIN}"),
                    Ok(_) => found
                        .damage
                        .unwrap_or_else(|| format!("its index block is missing; {MADE_AGAIN}")),
                };
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

    /// Where the records of a segment end: as its trailer says, else the next segment, else opening, else what is in it.
    fn end_of_records(&self, segment: &Segment, file_bytes: u64, rest: &[Slot]) -> Result<Tail> {
        match (segment.trailer(), rest.first().and_then(Slot::header)) {
            (Some(trailer), _) => Ok(Tail::known(trailer.data_end)),
            (None, Some(after)) => Ok(Tail::known(after.predecessor_end.max(DATA_START))),
            (None, None) => match self.end {
                Some(end) => Ok(Tail::known(end)),
                None if rest.is_empty() => self.tail(segment, file_bytes),
                None => self.open_end(segment, file_bytes, rest),
            },
        }
    }

    /// The index that says what the records of a segment are, where they can't be read, and up to where it does: its own, or
    /// that which the checkpoint has of it.
    fn guide(
        &self,
        segment: &Segment,
        own: Option<&Arc<Block>>,
        end: u64,
    ) -> (Option<Arc<Block>>, u64) {
        if let Some(block) = own {
            return (Some(block.clone()), end);
        }
        let is_of = |saved: &&Checkpoint| {
            saved.end.segment == segment.id().0 && saved.end.salt == segment.header.salt
        };
        match self.saved.as_ref().filter(is_of) {
            Some(saved) => (
                saved.active_block(&segment.header).map(Arc::new),
                saved.end.offset,
            ),
            None => (None, 0),
        }
    }

    /// Reads the records of a segment; where the checkpoint ends in it, the checkpoint is held against them on the way.
    fn walk(&mut self, task: &Task<'_>) -> Result<Walked> {
        let ends_here = |saved: &mut Checkpoint| saved.end.segment == task.segment.id().0;
        self.walker.checkpoint = self.saved.take_if(ends_here);
        let walked = self.walker.walk(task)?;
        if let Some(saved) = self.walker.checkpoint.take() {
            self.saved = Some(saved);
        }
        Ok(walked)
    }

    /// Whether a crash may have left a segment half sealed, and nothing proves that it was sealed whole.
    fn is_half_sealed(&self, segment: &Segment, rest: &[Slot], has_block: bool) -> Result<bool> {
        // A checkpoint that was made behind it proves that it was, and keeps opening from doing it again.
        let is_before = |saved: &Checkpoint| saved.end.segment > segment.id().0;
        if has_block || self.saved.as_ref().is_some_and(is_before) {
            return Ok(false);
        }
        match rest {
            [
                Slot {
                    state: State::Usable(next),
                    ..
                },
            ] => is_half_written(segment, next),
            _ => Ok(false),
        }
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
