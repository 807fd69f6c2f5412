//! [`Walker`]: reads the records of one segment after the other, applies what they say, and makes every index block anew
//! on the way. It goes on behind what can't be read.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use super::{
    compare,
    draft::Draft,
    gap::{Gap, Lost, index_of},
    guide::{Guide, Named, named_at},
    lose::{Mentions, NOWHERE},
    names::Names,
    report::Report,
    survey::{Hole, Padded, Piece, Survey},
};
use crate::{
    Kind, Result, SegmentId,
    format::{
        index::{Block, KeyRow, StepRow},
        newer,
        record::{self, Flags},
        segment::HEADER_BYTES,
    },
    index::{
        NumberMap,
        checkpoint::{Checkpoint, End},
        directory::Location,
    },
    log::segment::{Frame, Segment},
    store::durable::Durable,
};

/// What is to be read.
pub(crate) struct Task<'a> {
    pub(crate) segment: &'a Segment,
    /// Where its records end.
    pub(crate) to: u64,
    /// How long its file is.
    pub(crate) file_bytes: u64,
    /// The position after its last record's, where something tells it.
    pub(crate) next_position: Option<u64>,
    /// An index block of it that checks: its own, or what a checkpoint says of its beginning.
    pub(crate) block: Option<Arc<Block>>,
    /// Up to where the block says everything.
    pub(crate) block_end: u64,
}

/// What came of reading a segment.
pub(crate) struct Walked {
    /// Why its index block is not what the records give, in short, as far as that was seen on the way.
    pub(crate) contradiction: Option<String>,
    /// Whether some of it can't be read.
    pub(crate) has_holes: bool,
    /// Whether something in it can't be read, and no index block says what it was.
    pub(crate) is_unknown: bool,
    /// Whether whole records were left out, because they contradict what comes before.
    pub(crate) has_strays: bool,
}

/// A place of the log that something else speaks of, and what was found there.
pub(crate) struct Stand {
    pub(crate) segment: SegmentId,
    pub(crate) offset: u64,
    pub(crate) seen: Option<Seen>,
}

/// How the log stands at a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    pub(crate) next_position: u64,
    /// Of the last record in the segment that has a position.
    pub(crate) last_record: Option<(u64, u32)>,
    pub(crate) epoch: u32,
    /// Whether something before it, in the same segment, is lost.
    pub(crate) is_behind_loss: bool,
}

/// The log as its records give it, so far.
pub(crate) struct Walker {
    pub(crate) durable: Durable,
    pub(crate) report: Report,
    /// The index block of the segment that is read, and of those before that need a new one.
    pub(crate) drafts: BTreeMap<SegmentId, Draft>,
    pub(crate) gaps: Vec<Gap>,
    /// The last gap of which nothing tells what was in it: what later records show to be lost was lost there.
    pub(super) open: Option<usize>,
    /// The newest place of each stream of which there was a record since the first gap, lost ones included.
    pub(super) last_places: NumberMap<Location>,
    /// Where each stream was truncated of which no data record came since.
    pub(super) truncated: NumberMap<Location>,
    /// Where steps behind the first gap speak of each stream.
    pub(super) mentions: NumberMap<Mentions>,
    /// Where the last stream was made.
    pub(super) last_creation: Location,
    /// The streams of which a record came since.
    pub(super) settled: HashSet<u32>,
    pub(super) names: Names,
    pub(crate) stands: Vec<Stand>,
    /// A checkpoint that is to be held against the log at its place.
    pub(crate) checkpoint: Option<Checkpoint>,
    pub(crate) checkpoint_wrong: Option<String>,
    /// The positions that the checkpoint says are redacted.
    pub(crate) to_erase: HashSet<u64>,
    /// Those of them that were found: their streams and sequences.
    pub(super) erased: BTreeMap<u64, (u32, u32)>,
    pub(crate) records: u64,
    /// The epoch of the last mark.
    marked_epoch: u32,
}

/// The state of reading one segment.
pub(super) struct Within {
    pub(super) id: SegmentId,
    /// The index that the next record has.
    expected: u32,
    pub(super) block: Option<Arc<Block>>,
    guide: Option<Guide>,
    given: Option<HashMap<u64, u32>>,
    /// Where the batch began that is under way.
    batch: Option<u64>,
    is_behind_hole: bool,
    time_delta_ms: u32,
    is_marked_late: bool,
    last_record: Option<(u64, u32)>,
    walked: Walked,
}

impl Within {
    fn contradict(&mut self, what: String) {
        self.walked.contradiction.get_or_insert(what);
        (self.block, self.guide) = (None, None);
    }

    /// How many records a stream had been given by the step at an offset, as far as the segment's own index says.
    pub(super) fn given_by(&mut self, offset: u64) -> Option<u32> {
        let block = self.block.as_ref()?;
        let given = self.given.get_or_insert_with(|| {
            let tells = |step: &StepRow| {
                step.kind == Kind::TRUNCATE
                    || step.kind == Kind::SNAPSHOT && step.other == step.stream
            };
            block
                .steps()
                .filter(tells)
                .map(|step| (step.offset, step.ordinal))
                .collect()
        });
        given.get(&offset).copied()
    }
}

impl Walker {
    pub(crate) fn new(hash_key: [u8; 16], report: Report, names: Names) -> Self {
        Self {
            durable: Durable::new(hash_key),
            report,
            drafts: BTreeMap::new(),
            gaps: Vec::new(),
            open: None,
            last_places: NumberMap::default(),
            truncated: NumberMap::default(),
            mentions: NumberMap::default(),
            last_creation: NOWHERE,
            settled: HashSet::new(),
            names,
            stands: Vec::new(),
            checkpoint: None,
            checkpoint_wrong: None,
            to_erase: HashSet::new(),
            erased: BTreeMap::new(),
            records: 0,
            marked_epoch: 0,
        }
    }

    /// Reads the next segment.
    pub(crate) fn walk(&mut self, task: &Task<'_>) -> Result<Walked> {
        let segment = task.segment;
        let walked = Walked {
            contradiction: None,
            has_holes: false,
            is_unknown: false,
            has_strays: false,
        };
        let mut within = Within {
            id: segment.id(),
            expected: 0,
            block: task.block.clone(),
            guide: None,
            given: None,
            batch: None,
            is_behind_hole: false,
            time_delta_ms: 0,
            is_marked_late: false,
            last_record: None,
            walked,
        };
        self.drafts.insert(within.id, Draft::default());
        self.durable.next_position = self.durable.next_position.max(segment.header.base_position);
        let source = Padded::new(segment, task.file_bytes);
        let readable_to = task.to.min(source.end());
        let mut survey = Survey::new(&source, segment.seed, HEADER_BYTES as u64, readable_to);
        let mut hole: Option<Hole> = None;
        while let Some(piece) = survey.next()? {
            match piece {
                Piece::Hole(found) => hole = Some(found),
                Piece::Record(frame) => {
                    if let Some(unknown) = frame.header.unknown() {
                        return Err(newer(
                            &format!("{}: offset {}", segment.name, frame.offset),
                            &unknown,
                        ));
                    }
                    self.next_record(task, &mut within, hole.take(), &frame);
                }
            }
        }
        if readable_to.max(HEADER_BYTES as u64) < task.to {
            let from = hole
                .as_ref()
                .map_or(readable_to.max(HEADER_BYTES as u64), |hole| hole.from);
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
            self.report
                .damaged(&task.segment.name, frame.offset, message);
            within.walked.has_strays = true;
            return;
        }
        if hole.is_some() || index > within.expected {
            self.pass(task, within, hole, Some(index), frame.offset);
        }
        self.stand(task.segment, within, frame.offset);
        self.record(task, within, frame);
    }

    /// Notes how the log stands at an offset, if something speaks of it.
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
        // Where records are lost whose meaning nobody knows, the checkpoint may know more than the log.
        if !is_unknown {
            let draft = self.drafts.get(&segment.id());
            let wrong = draft.and_then(|draft| {
                compare::checkpoint(&checkpoint, segment, &self.durable, draft, &seen)
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
            self.report.damaged(
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
        if self.marked_epoch < self.durable.epoch && self.gaps.is_empty() && !within.is_marked_late
        {
            let message = format!(
                "a record of epoch {}, before the mark of its writer",
                self.durable.epoch
            );
            self.report.damaged(&segment.name, frame.offset, message);
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
            _ => self.step(within, frame),
        };
        if let Err(what) = done {
            self.report.damaged(
                &segment.name,
                frame.offset,
                format!("{what}; it is left out of its stream"),
            );
            within.walked.has_strays = true;
        }
        let time_ms = segment
            .header
            .base_time_ms
            .saturating_add(u64::from(header.time_delta_ms));
        self.durable.last_time_ms = self.durable.last_time_ms.max(time_ms);
        self.durable.next_position = position.saturating_add(1);
        self.draft(within.id)
            .add_record(header.index, frame.offset, time_ms);
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
                None => self.report.damaged(
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
            self.report
                .damaged(&task.segment.name, frame.offset, message);
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
            self.report.damaged(
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
            }
            _ => {
                let message = format!(
                    "a mark of epoch {epoch:?}, after epoch {}",
                    self.durable.epoch
                );
                self.report
                    .damaged(&task.segment.name, frame.offset, message);
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
        self.draft(within.id)
            .add_data(number, ordinal, frame.offset);
        self.set_place(
            number,
            Location {
                segment: within.id,
                offset: frame.offset,
            },
        );
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

    fn step(&mut self, within: &mut Within, frame: &Frame) -> std::result::Result<(), String> {
        self.settle_step(within, frame)?;
        let mut step = self
            .durable
            .step_of(frame)
            .ok_or_else(|| "an engine record with impossible content".to_owned())?;
        self.durable.directory.complete_step(&mut step);
        self.apply_step(within.id, &step)?;
        self.draft(within.id).add_step(step);
        self.step_at(
            &step,
            Location {
                segment: within.id,
                offset: frame.offset,
            },
        );
        Self::check_named(within, frame.offset, Named::Step(step));
        Ok(())
    }

    pub(super) fn apply_step(
        &mut self,
        segment: SegmentId,
        step: &StepRow,
    ) -> std::result::Result<(), String> {
        self.durable
            .directory
            .apply_step(step, segment)
            .map_err(|error| error.to_string())
    }

    /// Holds a record against what the index names at its place, once that is followed.
    fn check_named(within: &mut Within, offset: u64, found: Named) {
        let Some(guide) = &mut within.guide else {
            return;
        };
        if !guide.covers(offset + 1) {
            return;
        }
        match guide.next_below(offset + 1) {
            Some((at, named)) if at == offset && named == found => {}
            named => {
                let what = format!(
                    "at offset {offset} is {}, but it names {}",
                    found.told(),
                    named_at(named)
                );
                within.contradict(what);
            }
        }
    }

    /// Goes behind bytes that can't be read, up to the record with an index at `to`.
    fn pass(
        &mut self,
        task: &Task<'_>,
        within: &mut Within,
        hole: Option<Hole>,
        index: Option<u32>,
        to: u64,
    ) {
        let hole = hole.unwrap_or_else(|| Hole {
            from: to,
            to,
            why: "records are missing here, without a byte between those before and behind"
                .to_owned(),
        });
        self.follow_index(task, within, hole.from);
        let first_position = task
            .segment
            .header
            .base_position
            .saturating_add(u64::from(within.expected));
        let missing = index.map_or(0, |index| index.saturating_sub(within.expected));
        let mut gap = Gap::new(task.segment, &hole, first_position, missing);
        let is_known = self.lose_named(within, &mut gap);
        gap.unnamed = u64::from(missing).saturating_sub(gap.named);
        within.expected = index.unwrap_or(within.expected);
        within.is_behind_hole = true;
        within.walked.has_holes = true;
        self.gaps.push(gap);
        if !is_known {
            within.walked.is_unknown = true;
            self.open = Some(self.gaps.len() - 1);
            self.settled.clear();
        }
    }

    /// Begins to follow the index block of the segment from the first hole on, if it agrees with the records before.
    fn follow_index(&mut self, task: &Task<'_>, within: &mut Within, from: u64) {
        if within.guide.is_some() {
            return;
        }
        let Some(block) = &within.block else { return };
        let draft = self.drafts.entry(within.id).or_default();
        match compare::below(draft, block, from.min(task.block_end)) {
            None => within.guide = Some(Guide::new(block, from, task.block_end)),
            Some(what) => within.contradict(what),
        }
    }

    /// Applies what the index names in a gap. Whether it names everything there was.
    fn lose_named(&mut self, within: &mut Within, gap: &mut Gap) -> bool {
        let Some(mut guide) = within.guide.take() else {
            return false;
        };
        let mut counted = None;
        while let Some((offset, named)) = guide.next_below(gap.to) {
            let done = if offset < gap.from {
                Err(format!(
                    "it names {} at offset {offset}, where the records have none",
                    named.told()
                ))
            } else {
                self.lose_one(within, named, offset, gap)
            };
            if let Err(what) = done {
                within.contradict(what);
                return false;
            }
            // What an earlier repair placed where something else is lost has no position of its own.
            if counted.replace(offset) != Some(offset) {
                self.draft(within.id).add_lost();
            }
        }
        gap.next_place = gap.next_place.max(guide.end.min(gap.to));
        let is_known = guide.covers(gap.to);
        within.guide = Some(guide);
        is_known
    }

    fn lose_one(
        &mut self,
        within: &mut Within,
        named: Named,
        offset: u64,
        gap: &mut Gap,
    ) -> std::result::Result<(), String> {
        match named {
            Named::Data { stream, ordinal } => {
                self.settle_ordinal(stream, ordinal)?;
                let last = self
                    .durable
                    .directory
                    .stream(stream)
                    .map_or(0, |stream| stream.last_sequence());
                let given =
                    self.durable
                        .directory
                        .apply_data(stream, last.saturating_add(1), within.id);
                let given = given.map_err(|error| error.to_string())?;
                if given != ordinal {
                    return Err(format!(
                        "it names record {ordinal} of stream number {stream}, expected {given}"
                    ));
                }
                self.draft(within.id).add_data(stream, ordinal, offset);
                self.set_place(
                    stream,
                    Location {
                        segment: within.id,
                        offset,
                    },
                );
                gap.add(Lost {
                    stream,
                    kind: Kind::DATA,
                    first: last.saturating_add(1),
                    last: last.saturating_add(1),
                });
            }
            Named::Step(step) => {
                if matches!(step.kind, Kind::CREATE | Kind::FORK)
                    && step.stream > self.durable.directory.next_number()
                {
                    self.create_lost(step.stream - 1)?;
                }
                self.apply_step(within.id, &step)?;
                self.draft(within.id).add_step(step);
                self.step_at(
                    &step,
                    Location {
                        segment: within.id,
                        offset,
                    },
                );
                gap.add(Lost {
                    stream: step.stream,
                    kind: step.kind,
                    first: step.sequence,
                    last: step.sequence,
                });
            }
        }
        Ok(())
    }

    pub(super) fn draft(&mut self, segment: SegmentId) -> &mut Draft {
        self.drafts.entry(segment).or_default()
    }
}
