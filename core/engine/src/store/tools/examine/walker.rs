//! [`Walker`]: the state of the log derived from its records so far, and the state of reading one segment.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{draft::Draft, gap::Gap, guide::Guide, names::Names, stand::Stand};
use crate::{
    Kind, Problem, SegmentId, Verification,
    format::index::{Block, ControlRow},
    index::{NumberMap, checkpoint::Checkpoint, stream::Location},
    log::segment::Segment,
    store::published::durable::Durable,
    sync::Arc,
};

/// The most problems that are reported one by one; the rest are counted.
const PROBLEMS_MAX: usize = 1000;

/// What is to be read.
pub(crate) struct Task<'a> {
    pub(crate) segment: &'a Segment,
    /// Where its records end.
    pub(crate) to: u64,
    /// How long its file is.
    pub(crate) file_bytes: u64,
    /// The position after its last record's, where something says it.
    pub(crate) next_position: Option<u64>,
    /// An index block of it that checks: its own, or what a checkpoint says of its beginning.
    pub(crate) block: Option<Arc<Block>>,
    /// Up to where the block says everything.
    pub(crate) block_end: u64,
}

/// What came of reading a segment.
#[derive(Default)]
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

/// The log as its records give it, so far.
pub(crate) struct Walker {
    pub(crate) durable: Durable,
    pub(crate) report: Verification,
    /// The index block of the segment that is read, and of those before that need a new one.
    pub(crate) drafts: BTreeMap<SegmentId, Draft>,
    pub(crate) gaps: Vec<Gap>,
    /// The last gap of which it is unknown what was in it: what later records show to be lost was lost there.
    pub(super) open: Option<usize>,
    /// The newest place of each stream of which there was a record since the first gap, lost ones included.
    pub(super) last_places: NumberMap<Location>,
    /// Where each stream was truncated of which no data record came since.
    pub(super) truncated: NumberMap<Location>,
    /// Where engine records behind the first gap speak of each stream.
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
    pub(super) marked_epoch: u32,
    /// The segments that packs stand for: the first and the last of each.
    pub(crate) packs: Vec<(SegmentId, SegmentId)>,
    /// A pack has no marks: until the next one it isn't known which writer is at work.
    pub(super) is_behind_pack: bool,
}

/// The state of reading one segment.
#[derive(Default)]
pub(super) struct Within {
    pub(super) id: SegmentId,
    /// The index that the next record has.
    pub(super) expected: u32,
    pub(super) block: Option<Arc<Block>>,
    pub(super) guide: Option<Guide>,
    pub(super) given: Option<HashMap<u64, u32>>,
    /// Where the batch that is being read began.
    pub(super) batch: Option<u64>,
    pub(super) is_behind_hole: bool,
    pub(super) time_delta_ms: u32,
    pub(super) is_marked_late: bool,
    pub(super) last_record: Option<(u64, u32)>,
    pub(super) walked: Walked,
}

impl Within {
    /// A place in the segment.
    pub(super) fn at(&self, offset: u64) -> Location {
        Location {
            segment: self.id,
            offset,
        }
    }

    pub(super) fn contradict(&mut self, what: String) {
        self.walked.contradiction.get_or_insert(what);
        (self.block, self.guide) = (None, None);
    }

    /// How many records a stream had been given by the engine record at an offset, as far as the segment's own index says.
    pub(super) fn given_by(&mut self, offset: u64) -> Option<u32> {
        let block = self.block.as_ref()?;
        let given = self.given.get_or_insert_with(|| {
            let counts = |control: &ControlRow| {
                control.kind == Kind::TRUNCATE
                    || control.kind == Kind::SNAPSHOT && control.other == control.stream
            };
            block
                .controls()
                .filter(counts)
                .map(|control| (control.offset, control.ordinal))
                .collect()
        });
        given.get(&offset).copied()
    }
}

impl Walker {
    pub(crate) fn new(hash_key: [u8; 16], names: Names) -> Self {
        Self {
            durable: Durable::new(hash_key),
            report: Verification::default(),
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
            packs: Vec::new(),
            is_behind_pack: false,
        }
    }

    /// Something is not as it should be.
    pub(super) fn damaged(&mut self, file: &str, offset: u64, message: impl Into<String>) {
        self.add_problem(file, offset, message.into(), false);
    }

    /// Something can't be read, and no repair brings it back.
    pub(super) fn lost(&mut self, file: &str, offset: u64, message: impl Into<String>) {
        self.add_problem(file, offset, message.into(), true);
    }

    fn add_problem(&mut self, file: &str, offset: u64, message: String, is_loss: bool) {
        self.report.problems_count += 1;
        if self.report.problems.len() < PROBLEMS_MAX {
            self.report.problems.push(Problem {
                file: file.to_owned(),
                offset,
                message,
                is_loss,
            });
        }
    }

    pub(super) fn draft(&mut self, segment: SegmentId) -> &mut Draft {
        self.drafts.entry(segment).or_default()
    }

    pub(super) fn apply_control(
        &mut self,
        segment: SegmentId,
        control: &ControlRow,
    ) -> Result<(), String> {
        self.durable
            .directory
            .apply_control(control, segment)
            .map_err(|error| error.to_string())
    }

    /// Whether something is lost and it is unknown what it was.
    pub(super) fn has_open_gap(&self) -> bool {
        self.open.is_some()
    }

    pub(super) fn last_sequence(&self, number: u32) -> u32 {
        self.durable
            .directory
            .stream(number)
            .map_or(0, |stream| stream.last_sequence())
    }

    /// How many data records a stream was given.
    pub(super) fn given(&self, number: u32) -> u32 {
        self.durable
            .directory
            .stream(number)
            .map_or(0, |stream| stream.ordinals)
    }
}

/// Where engine records speak of sequences of a stream, which it must have reached by then.
#[derive(Default)]
pub(super) struct Mentions(Vec<(u32, Location)>);

impl Mentions {
    /// What is said further on of a sequence as high says all that this does.
    pub(super) fn add(&mut self, sequence: u32, location: Location) {
        self.0
            .retain(|(other, at)| *other > sequence || *at > location);
        self.0.push((sequence, location));
    }

    /// The newest that speaks of a sequence behind another.
    pub(super) fn last_behind(&self, sequence: u32) -> Location {
        let behind = self.0.iter().filter(|(other, _)| *other > sequence);
        behind
            .map(|(_, location)| *location)
            .max()
            .unwrap_or(NOWHERE)
    }
}

/// Before every record.
pub(super) const NOWHERE: Location = Location {
    segment: SegmentId(0),
    offset: 0,
};
