//! What the records of a store say, held against everything that is derived from them; and what it would take to mend
//! what doesn't agree. [`verify`](super::verify) tells it, [`repair`](super::repair) does it.
//!
//! Every record is read once, in order, and applied as if nothing else was there ([`walk`]). What the index blocks, the
//! checkpoint, the end marker, the watermark and opening say is then compared ([`compare`]). Where records can't be read,
//! an index block that checks names what was there; where there is none, later records tell what was lost ([`gap`]).
//!
//! At any time the directory is in memory, and of the index blocks the one of the segment that is read, and those that have
//! to be made again.

mod active;
mod compare;
mod draft;
mod ends;
mod gap;
mod guide;
mod lose;
mod names;
mod part;
mod report;
pub(crate) mod seed;
mod slots;
pub(crate) mod sources;
pub(crate) mod survey;
mod walk;

use std::sync::Arc;

pub(crate) use draft::Ends;
pub(crate) use part::Part;
pub(crate) use sources::Sources;
pub(crate) use walk::Walker;

use crate::{
    Error, Result, SegmentId,
    format::{
        files::{self, End},
        segment::{COPIES, Header},
    },
    index::checkpoint::Checkpoint,
    limits,
    log::segment::Segment,
    storage::Storage,
    store::recover::Loaded,
};
use part::checked_block;
use report::Report;
use slots::{Slot, Slots, State};

/// What opening made of the store.
pub(crate) enum View {
    /// It opens; the log is this far.
    Opened(Box<Loaded>),
    /// It doesn't.
    Refused(Error),
}

/// Everything that was found.
pub(crate) struct Examined {
    pub(crate) walker: Walker,
    pub(crate) sources: Sources,
    /// The segments, in order. Empty where nothing has to be done to any.
    pub(crate) parts: Vec<Part>,
    /// Files that are to be put aside, and why.
    pub(crate) strays: Vec<(SegmentId, String)>,
    /// Files that have the names of other segments, which are missing: which, and the segments that they are.
    pub(crate) misnamed: Vec<(SegmentId, SegmentId)>,
    /// Which of the small files say what isn't so.
    pub(crate) wrong: Wrong,
    /// The log goes on in a new segment, from this position on.
    pub(crate) next_segment: Option<u64>,
}

/// Which of the small files say what isn't so.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Wrong {
    pub(crate) end: bool,
    pub(crate) checkpoint: bool,
    pub(crate) watermark: bool,
}

/// Reads everything. `progress` is told how many of how many bytes were read.
pub(crate) fn examine(
    storage: &dyn Storage,
    mut sources: Sources,
    view: View,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Examined> {
    let mut report = Report::default();
    if let Some(why) = &sources.identity_lost {
        report.damaged(
            files::IDENTITY,
            0,
            format!("{why}; everything in it but the time stands in the segments, too"),
        );
    }
    let (slots, loaded, refused) = match view {
        View::Opened(loaded) => (of_opened(&loaded), Some(loaded), None),
        View::Refused(error) => (Slots::of(storage, &sources)?, None, Some(error)),
    };
    let names = match &refused {
        Some(_) => names(&slots, &sources)?,
        // It opens, so all that isn't there was behind a checkpoint.
        None => names::Names::of(&sources),
    };
    let mut examiner = Examiner {
        walker: Walker::new(sources.identity.hash_key, report, names),
        parts: Vec::new(),
        end: loaded.as_ref().map(|loaded| loaded.durable.end),
        reached: sources.reached(),
        given: sources.next_position(),
        saved: sources.checkpoint.take(),
        sources: &sources,
        next_segment: None,
    };
    examiner.walker.stands = ends::stands(examiner.sources);
    let saved = examiner.saved.as_ref();
    examiner.walker.to_erase.extend(
        saved
            .into_iter()
            .flat_map(|saved| saved.directory.redacted().to_vec()),
    );
    for (id, why) in &slots.strays {
        let message = format!("it is no segment of this log: {why}");
        examiner
            .walker
            .report
            .damaged(&files::segment_name(*id), 0, message);
    }
    let lengths: Vec<u64> = slots
        .slots
        .iter()
        .map(Slot::file_bytes)
        .collect::<Result<_>>()?;
    let (total, mut read) = (lengths.iter().sum(), 0);
    for (place, length) in lengths.iter().enumerate() {
        examiner.slot(&slots.slots, place)?;
        read += length;
        progress(read, total);
    }
    let found = &mut examiner.walker.report.found;
    (found.segments, found.bytes) = (slots.slots.len() as u64, total);
    if let Some(loaded) = &loaded {
        found.torn_bytes = loaded.report.torn_bytes;
    }
    if refused.is_some() {
        examiner.lost_tail();
    }
    let known = examiner
        .given
        .max(slots.stray_position.min(sources::POSITION_MAX));
    // Where only a checkpoint lets it open, which may be missing, it is made to open by itself.
    let mut last = examiner.parts.last_mut();
    let has_hole = last
        .as_ref()
        .is_some_and(|last| last.index_crc.is_none() && last.has_losses);
    if let Some(last) = last.take_if(|_| has_hole) {
        last.needs_index = true;
    }
    if refused.is_some() || has_hole {
        examiner.go_on_behind(known);
    }
    let Examiner {
        mut walker,
        parts,
        saved,
        next_segment,
        ..
    } = examiner;
    sources.checkpoint = saved;
    let wrong = ends::check(&mut walker, &mut sources, &parts, loaded.as_deref());
    finish(storage, &mut walker, loaded.as_deref(), refused.as_ref());
    let Slots {
        slots,
        mut strays,
        misnamed,
        ..
    } = slots;
    strays.extend(slots.into_iter().filter_map(|slot| match slot.state {
        // Another file is made in its place.
        State::Lost(Some(unusable)) => Some((slot.id, unusable.why)),
        _ => None,
    }));
    Ok(Examined {
        walker,
        sources,
        parts,
        strays,
        misnamed,
        wrong,
        next_segment,
    })
}

/// The slots of a store that opens.
fn of_opened(loaded: &Loaded) -> Slots {
    let slot = |segment: &Arc<Segment>| Slot {
        id: segment.id(),
        state: State::Usable(segment.clone()),
    };
    let slots = loaded.durable.segments.iter().map(slot).collect();
    Slots {
        slots,
        strays: Vec::new(),
        stray_position: 0,
        misnamed: Vec::new(),
    }
}

/// What is known of streams whose creation may be lost.
fn names(slots: &Slots, sources: &Sources) -> Result<names::Names> {
    let mut names = names::Names::of(sources);
    for slot in &slots.slots {
        if let State::Usable(segment) = &slot.state
            && let Some(block) = checked_block(segment)?.ok().flatten()
        {
            names.add_block(segment, &block);
        }
    }
    Ok(names)
}

impl Slot {
    fn file_bytes(&self) -> Result<u64> {
        let length = match &self.state {
            State::Usable(segment) => segment.file.len(),
            State::Headless { file, .. } => file.len(),
            State::Lost(_) => Ok(0),
        };
        let length = length
            .map_err(|error| Error::from_io(error, format!("measuring segment {}", self.id)))?;
        Ok(length.min(limits::SEGMENT_BYTES_MAX))
    }

    /// The header, where it is there.
    fn header(&self) -> Option<&Header> {
        match &self.state {
            State::Usable(segment) => Some(&segment.header),
            _ => None,
        }
    }
}

struct Examiner<'a> {
    walker: Walker,
    parts: Vec<Part>,
    /// Where the records of the last segment end, when the store opens.
    end: Option<u64>,
    /// The furthest place that the small files say was reached, and which of them does.
    reached: Option<((SegmentId, u64), &'static str)>,
    /// The position after the highest that they say was given.
    given: u64,
    saved: Option<Checkpoint>,
    sources: &'a Sources,
    next_segment: Option<u64>,
}

impl Examiner<'_> {
    fn slot(&mut self, slots: &[Slot], place: usize) -> Result<()> {
        let slot = &slots[place];
        let rest = &slots[place + 1..];
        let next = rest.first();
        match &slot.state {
            State::Usable(segment) => {
                let wrong = slots::wrong_copies(segment)?;
                for (offset, what) in &wrong {
                    self.walker
                        .report
                        .damaged(&segment.name, *offset as u64, what.clone());
                }
                self.check_header(segment);
                let copies = wrong.into_iter().map(|(offset, _)| offset).collect();
                self.segment(segment, rest, copies)
            }
            State::Headless { file, seed } => {
                let salt = next
                    .and_then(Slot::header)
                    .map(|header| header.predecessor_salt);
                let named = named_salts(self.saved.as_ref(), self.sources.end.as_ref());
                let named = named
                    .into_iter()
                    .flatten()
                    .find(|(segment, _)| *segment == slot.id);
                let salt = salt.or(named.map(|(_, salt)| salt)).unwrap_or(*seed);
                let header = self.missing_header(slot.id, salt, *seed);
                let name = files::segment_name(slot.id);
                let message = "every copy of its header is damaged; its records tell the seed, and its neighbours the rest";
                self.walker.report.damaged(&name, 0, message);
                let segment = Arc::new(Segment::unsealed(header, file.clone()));
                self.segment(&segment, rest, COPIES.to_vec())
            }
            State::Lost(why) => {
                let why = why.as_ref().map(|unusable| &unusable.why[..]);
                self.missing(slot.id, why, rest);
                Ok(())
            }
        }
    }

    /// The log ends in a segment that is sealed, or has to be: it goes on in a new one, behind every position that was given.
    fn go_on_behind(&mut self, known: u64) {
        let reached = self.walker.durable.next_position.max(known);
        let is_ended = self.parts.last().is_none_or(|last| {
            last.needs_index || last.index_crc.is_some() || last.segment.is_none()
        });
        if is_ended || known > self.walker.durable.next_position {
            self.next_segment = Some(reached);
            let Some(last) = self.parts.last_mut() else {
                return;
            };
            last.needs_index |= last.index_crc.is_none();
            if reached - last.header.base_position.min(reached) <= u64::from(u32::MAX)
                && last.needs_index
            {
                last.next_position = reached;
            }
        }
    }
}

/// Which segments the checkpoint and the end marker name, and what salts they say those have.
fn named_salts(saved: Option<&Checkpoint>, closed: Option<&End>) -> [Option<(SegmentId, u32)>; 2] {
    let saved = saved.map(|saved| (SegmentId(saved.end.segment), saved.end.salt));
    [saved, closed.map(|end| (end.segment, end.salt))]
}

/// Tells what is left to tell.
fn finish(
    storage: &dyn Storage,
    walker: &mut Walker,
    loaded: Option<&Loaded>,
    refused: Option<&Error>,
) {
    walker.report.found.records = walker.records;
    if let Some(loaded) = loaded
        && walker.report.found.is_sound()
        && walker.gaps.is_empty()
    {
        let ours = &walker.durable;
        let theirs = &loaded.durable;
        let what = compare::directories(&theirs.directory, &ours.directory).or_else(|| {
            let positions = (theirs.next_position, ours.next_position);
            (positions.0 != positions.1).then(|| {
                format!(
                    "it goes on with position {}, not {}",
                    positions.0, positions.1
                )
            })
        });
        if let Some(what) = what {
            let message = format!("what opening makes of it is not what the records give: {what}");
            walker.report.damaged(&storage.describe(), 0, message);
        }
    }
    for gap in &walker.gaps {
        walker.report.found.lost += gap.missing as u64;
        walker
            .report
            .lost(&gap.file, gap.from, gap.told(&walker.durable.directory));
    }
    if let Some(error) = refused
        && walker
            .report
            .found
            .problems
            .iter()
            .all(|problem| problem.is_loss)
    {
        walker
            .report
            .damaged(&storage.describe(), 0, error.to_string());
    }
}
