//! Reads the records of a segment in order, applies them, and rebuilds its index block.

use super::{
    compare,
    draft::Draft,
    gap::index_of,
    guide::Named,
    stand::Seen,
    survey::{Hole, Padded, Piece, Survey},
    walker::{Task, Walked, Walker, Within},
};
use crate::{
    Result,
    format::{
        index::{KeyRow, Labelled},
        newer,
        record::{self, Flags},
        segment::DATA_START,
    },
    index::checkpoint::{Checkpoint, End},
    log::{frame::Frame, segment::Segment},
};

impl Walker {
    /// Reads the next segment.
    pub(crate) fn walk(&mut self, task: &Task<'_>) -> Result<Walked> {
        let segment = task.segment;
        let mut within = Within {
            id: segment.id(),
            block: task.block.clone(),
            ..Within::default()
        };
        self.drafts.insert(within.id, Draft::default());
        self.durable.next_position = self.durable.next_position.max(segment.header.base_position);
        let source = Padded::new(segment, task.file_bytes);
        let readable_to = task.to.min(source.end());
        let mut survey = Survey::new(&source, segment.seed, DATA_START, readable_to);
        let mut hole: Option<Hole> = None;
        while let Some(piece) = survey.next()? {
            match piece {
                Piece::Hole(found) => hole = Some(found),
                Piece::Record(frame) => {
                    if let Some(unknown) = frame.unknown() {
                        return Err(newer(
                            &format!("{}: offset {}", segment.name, frame.offset),
                            &unknown,
                        ));
                    }
                    self.next_record(task, &mut within, hole.take(), &frame);
                }
            }
        }
        if readable_to.max(DATA_START) < task.to {
            let from = hole
                .as_ref()
                .map_or(readable_to.max(DATA_START), |hole| hole.from);
            hole = Some(Hole {
                from,
                to: task.to,
                why: format!("the file ends at offset {}", task.file_bytes),
            });
        }
        let end_index = task.next_position.and_then(|next| index_of(segment, next));
        if hole.is_some() || end_index.is_some_and(|end| end > within.expected) {
            self.pass(task, &mut within, hole, end_index, task.to);
        }
        self.stand(segment, &within, task.to);
        self.check_batch_ended(task, &within);
        Ok(within.walked)
    }

    fn next_record(
        &mut self,
        task: &Task<'_>,
        within: &mut Within,
        hole: Option<Hole>,
        frame: &Frame,
    ) {
        let index = frame.header.index;
        if index < within.expected {
            let message = format!(
                "expected record {} of the segment, found record {index}; it is left out of its stream",
                within.expected
            );
            self.damaged(&task.segment.name, frame.offset, message);
            within.walked.has_strays = true;
            return;
        }
        if hole.is_some() || index > within.expected {
            self.pass(task, within, hole, Some(index), frame.offset);
        }
        self.stand(task.segment, within, frame.offset);
        self.record(task, within, frame);
    }

    /// Records the state of the log at an offset, if another file names it.
    fn stand(&mut self, segment: &Segment, within: &Within, offset: u64) {
        let seen = Seen {
            next_position: segment
                .header
                .base_position
                .saturating_add(u64::from(within.expected)),
            last_record: within.last_record,
            epoch: self.durable.epoch,
            is_behind_loss: within.walked.has_holes,
        };
        for stand in &mut self.stands {
            if (stand.segment, stand.offset) == (segment.id(), offset) && stand.seen.is_none() {
                stand.seen = Some(seen);
            }
        }
        let is_unknown = self.open.is_some();
        // Its place may be within what is lost.
        let is_there = |end: &End| end.offset == offset || is_unknown && end.offset < offset;
        let is_of = |end: &End| (end.segment, end.salt) == (segment.id().0, segment.header.salt);
        let is_met =
            |checkpoint: &mut Checkpoint| is_of(&checkpoint.end) && is_there(&checkpoint.end);
        let Some(checkpoint) = self.checkpoint.take_if(is_met) else {
            return;
        };
        // Where records are lost whose meaning is unknown, the checkpoint may know more than the log.
        if !is_unknown {
            let draft = self.drafts.get(&segment.id());
            let wrong = draft.and_then(|draft| {
                compare::checkpoint(
                    &checkpoint,
                    segment,
                    &self.durable,
                    draft,
                    &seen,
                    &self.packs,
                )
            });
            self.checkpoint_wrong = wrong;
        } else {
            self.checkpoint_wrong = self.catch_up(&checkpoint).err();
        }
    }

    fn record(&mut self, task: &Task<'_>, within: &mut Within, frame: &Frame) {
        let (header, segment) = (&frame.header, task.segment);
        let batch = self.batch_of(task, within, frame);
        if header.time_delta_ms < within.time_delta_ms {
            self.damaged(
                &segment.name,
                frame.offset,
                "its time is before that of the record before",
            );
        }
        within.time_delta_ms = within.time_delta_ms.max(header.time_delta_ms);
        if !header.has_position() {
            if header.kind == record::MARK {
                self.mark(task, frame);
            }
            return;
        }
        // The mark may be what is lost.
        if self.marked_epoch < self.durable.epoch
            && self.gaps.is_empty()
            && !within.is_marked_late
            && !self.is_behind_pack
        {
            let message = format!(
                "a record of epoch {}, before the mark of its writer",
                self.durable.epoch
            );
            self.damaged(&segment.name, frame.offset, message);
            within.is_marked_late = true;
        }
        within.expected = header.index.saturating_add(1);
        within.last_record = Some((frame.offset, header.crc_field(segment.seed, frame.offset)));
        self.records += 1;
        let position = segment
            .header
            .base_position
            .saturating_add(u64::from(header.index));
        if self.to_erase.contains(&position) {
            self.erased
                .insert(position, (header.stream, header.sequence));
        }
        self.durable.next_position = position;
        let done = match header.kind {
            _ if header.is_skipped() => Ok(()),
            kind if kind.is_data() => self.data(within, frame),
            _ => self.control(within, frame),
        };
        if let Err(what) = done {
            self.damaged(
                &segment.name,
                frame.offset,
                format!("{what}; it is left out of its stream"),
            );
            within.walked.has_strays = true;
        }
        let time_ms = segment.header.time_ms(header.time_delta_ms);
        self.durable.last_time_ms = self.durable.last_time_ms.max(time_ms);
        self.durable.next_position = position.saturating_add(1);
        self.draft(within.id)
            .add_record(header.index, frame.offset, time_ms);
        if !frame.has_possible_extension() {
            self.damaged(
                &segment.name,
                frame.offset,
                "a record with impossible extension fields",
            );
        }
        if header.flags.has(Flags::KEY) {
            match frame.key() {
                Some(key) => {
                    let row = KeyRow {
                        stream: header.stream,
                        hash: self.durable.key_hash(key),
                        offset: batch,
                    };
                    self.draft(within.id).add_key(row);
                }
                None => self.damaged(
                    &segment.name,
                    frame.offset,
                    "a record with an impossible key",
                ),
            }
        }
    }

    /// Where the batch of a record begins. Of one that lost its beginning, the first record that is there.
    fn batch_of(&mut self, task: &Task<'_>, within: &mut Within, frame: &Frame) -> u64 {
        let flags = frame.header.flags;
        let first = flags.has(Flags::BATCH_FIRST);
        let is_behind_hole = std::mem::take(&mut within.is_behind_hole);
        if !is_behind_hole && first != within.batch.is_none() {
            let message = "a batch begins inside another, or goes on after its end";
            self.damaged(&task.segment.name, frame.offset, message);
        }
        if first || is_behind_hole {
            within.batch = None;
        }
        let begin = *within.batch.get_or_insert(frame.offset);
        if flags.has(Flags::BATCH_LAST) {
            within.batch = None;
        }
        begin
    }

    fn check_batch_ended(&mut self, task: &Task<'_>, within: &Within) {
        if let Some(begin) = within
            .batch
            .filter(|_| !within.is_behind_hole && !within.walked.is_unknown)
        {
            self.damaged(
                &task.segment.name,
                begin,
                "a batch begins here and has no end",
            );
        }
    }

    fn mark(&mut self, task: &Task<'_>, frame: &Frame) {
        let epoch = frame
            .parts()
            .and_then(|(_, payload)| record::engine::decode_mark(&payload));
        match epoch {
            Some(epoch) if epoch >= self.durable.epoch && epoch > self.marked_epoch => {
                (self.durable.epoch, self.marked_epoch) = (epoch, epoch);
                self.is_behind_pack = false;
            }
            _ => {
                let message = format!(
                    "a mark of epoch {epoch:?}, after epoch {}",
                    self.durable.epoch
                );
                self.damaged(&task.segment.name, frame.offset, message);
            }
        }
    }

    fn data(&mut self, within: &mut Within, frame: &Frame) -> std::result::Result<(), String> {
        let (number, sequence) = (frame.header.stream, frame.header.sequence);
        self.settle(within, number, sequence)?;
        let ordinal = self
            .durable
            .directory
            .apply_data(number, sequence, within.id)
            .map_err(|error| error.to_string())?;
        let draft = self.draft(within.id);
        draft.add_data(number, ordinal, frame.offset);
        for label in frame.labels() {
            draft.add_label(Labelled {
                label,
                stream: number,
                ordinal,
                offset: frame.offset,
            });
        }
        self.set_place(number, within.at(frame.offset));
        Self::check_named(
            within,
            frame.offset,
            Named::Data {
                stream: number,
                ordinal,
            },
        );
        Ok(())
    }

    fn control(&mut self, within: &mut Within, frame: &Frame) -> std::result::Result<(), String> {
        self.settle_control(within, frame)?;
        let mut control = self
            .durable
            .control_of(frame)
            .ok_or_else(|| "an engine record with impossible content".to_owned())?;
        self.durable.directory.complete_control(&mut control);
        self.apply_control(within.id, &control)?;
        self.draft(within.id).add_control(control);
        self.control_at(&control, within.at(frame.offset));
        Self::check_named(within, frame.offset, Named::Control(control));
        Ok(())
    }
}
