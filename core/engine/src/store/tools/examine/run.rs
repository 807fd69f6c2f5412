//! Examining a store: reading everything in order, and summing up what was found.

use super::{
    compare, ends,
    examiner::{Examiner, Part, Wrong},
    names::Names,
    pack_files,
    slot::{Slot, State},
    slots::{self, Slots},
    sources::{Sources, named_salts},
    walker::Walker,
};
use crate::{
    Error, Result, SegmentId,
    format::{
        files::{self, SegmentFile},
        segment::COPIES,
    },
    limits,
    log::segment::Segment,
    storage::Storage,
    store::{open::load::Loaded, segments::chain::checked_block},
    sync::Arc,
};

/// The result of opening the store.
pub(crate) enum View {
    /// It opens, with this state.
    Opened(Box<Loaded>),
    /// It doesn't.
    Refused(Error),
}

impl View {
    /// What was loaded; but not where the checkpoint stands for a pack whose index can't be read. Without the checkpoint,
    /// which a repair removes, the store wouldn't open, and what is lost is named by it.
    pub(crate) fn of(loaded: Loaded) -> Result<Self> {
        for segment in &loaded.durable.segments {
            if let Some(error) = pack_files::damage_of_index(segment)? {
                return Ok(Self::Refused(error));
            }
        }
        Ok(Self::Opened(Box::new(loaded)))
    }
}

/// Everything that was found.
pub(crate) struct Examined {
    pub(crate) walker: Walker,
    pub(crate) sources: Sources,
    /// The segments, in order. Empty where nothing has to be done to any.
    pub(crate) parts: Vec<Part>,
    /// Files to be put aside, and why.
    pub(crate) strays: Vec<(SegmentFile, String)>,
    /// Packs that have records, but no index to read them by, and what is wrong.
    pub(crate) without_index: Vec<(SegmentFile, String)>,
    /// Files that have the names of other segments, which are missing: which, and the segments that they are.
    pub(crate) misnamed: Vec<(SegmentId, SegmentId)>,
    /// Which of the small files don't match the log.
    pub(crate) wrong: Wrong,
    /// The log has to continue in a new segment, from this position on.
    pub(crate) next_segment: Option<u64>,
}

/// Reads everything. `progress` gets how many bytes were read, and of how many.
pub(crate) fn examine(
    storage: &dyn Storage,
    mut sources: Sources,
    view: View,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Examined> {
    let (slots, loaded, refused) = match view {
        View::Opened(loaded) => (of_opened(&loaded), Some(loaded), None),
        View::Refused(error) => (Slots::of(storage, &sources)?, None, Some(error)),
    };
    forget_packed(&mut sources, &slots);
    let names = match &refused {
        Some(_) => names_of(&slots, &sources)?,
        // The store opens, so any missing segments are covered by the checkpoint.
        None => Names::of(&sources),
    };
    let mut examiner = Examiner {
        walker: Walker::new(sources.identity.hash_key, names),
        parts: Vec::new(),
        end: loaded.as_ref().map(|loaded| loaded.durable.end),
        reached: sources.reached(),
        given: sources.next_position(),
        saved: sources.checkpoint.take(),
        sources: &sources,
        next_segment: None,
    };
    if let Some(why) = &sources.identity_lost {
        let message = format!("{why}; everything in it but the time stands in the segments, too");
        examiner.walker.damaged(files::IDENTITY, 0, message);
    }
    examiner.walker.stands = ends::stands(examiner.sources);
    let saved = examiner.saved.as_ref();
    examiner.walker.to_erase.extend(
        saved
            .into_iter()
            .flat_map(|saved| saved.directory.redacted().to_vec()),
    );
    for (file, why) in &slots.strays {
        let message = format!("it is no segment of this log: {why}");
        examiner.walker.damaged(&file.name(), 0, message);
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
    let found = &mut examiner.walker.report;
    (found.segments, found.bytes) = (slots.slots.len() as u64, total);
    if let Some(loaded) = &loaded {
        found.torn_bytes = loaded.report.torn_bytes;
    }
    if refused.is_some() {
        examiner.lost_tail();
    }
    let known = examiner
        .given
        .max(slots.stray_position.min(limits::BASE_POSITION_MAX));
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
    let mut without_index = Vec::new();
    for slot in slots {
        if let State::Lost(Some(unusable)) = slot.state {
            // Another file is made in the place of a stray.
            let list = match unusable.has_records {
                true => &mut without_index,
                false => &mut strays,
            };
            list.push((unusable.file, unusable.why));
        }
    }
    Ok(Examined {
        walker,
        sources,
        parts,
        strays,
        without_index,
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

/// What the small files say of segments that a pack took the place of can't be held against these any more.
fn forget_packed(sources: &mut Sources, slots: &Slots) {
    let is_packed = |id: SegmentId| {
        slots.slots.iter().any(|slot| match &slot.state {
            State::Usable(found) => found.is_pack() && (found.id()..=found.last_id()).contains(&id),
            _ => false,
        })
    };
    sources.end.take_if(|end| is_packed(end.segment));
    sources.watermark.take_if(|mark| is_packed(mark.segment));
    sources
        .checkpoint
        .take_if(|saved| is_packed(SegmentId(saved.end.segment)));
}

/// What is known of streams whose creation may be lost.
fn names_of(slots: &Slots, sources: &Sources) -> Result<Names> {
    let mut names = Names::of(sources);
    for slot in &slots.slots {
        if let State::Usable(segment) = &slot.state
            && let Some(block) = checked_block(segment)?.ok().flatten()
        {
            names.add_block(segment, &block);
        }
    }
    Ok(names)
}

impl Examiner<'_> {
    fn slot(&mut self, slots: &[Slot], place: usize) -> Result<()> {
        let slot = &slots[place];
        let rest = &slots[place + 1..];
        let next = rest.first();
        match &slot.state {
            State::Usable(segment) if segment.is_pack() => self.pack(segment),
            State::Usable(segment) => {
                let wrong = slots::wrong_copies(segment)?;
                for (offset, what) in &wrong {
                    self.walker
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
                self.walker.damaged(&name, 0, message);
                let segment = Arc::new(Segment::unsealed(header, file.clone()));
                self.segment(&segment, rest, COPIES.to_vec())
            }
            State::Lost(unusable) => {
                self.missing(slot.id, unusable.as_ref(), rest);
                Ok(())
            }
        }
    }

    /// The log ends in a segment that is sealed or has to be: it continues in a new one, after every assigned position.
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

/// Reports what only the whole shows.
fn finish(
    storage: &dyn Storage,
    walker: &mut Walker,
    loaded: Option<&Loaded>,
    refused: Option<&Error>,
) {
    walker.report.records = walker.records;
    if let Some(loaded) = loaded
        && walker.report.is_sound()
        && walker.gaps.is_empty()
    {
        let ours = &walker.durable;
        let theirs = &loaded.durable;
        let differ = compare::directories(&theirs.directory, &ours.directory, &walker.packs);
        let what = differ.or_else(|| {
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
            walker.damaged(&storage.describe(), 0, message);
        }
    }
    let gaps = std::mem::take(&mut walker.gaps);
    for gap in &gaps {
        walker.report.lost += u64::from(gap.missing);
        let what = gap.describe(&walker.durable.directory);
        walker.lost(&gap.file, gap.from, what);
    }
    walker.gaps = gaps;
    if let Some(error) = refused
        && walker.report.problems.iter().all(|problem| problem.is_loss)
    {
        walker.damaged(&storage.describe(), 0, error.to_string());
    }
}
