//! Examining a store: reading everything in order, and summing up what was found.

use super::{
    compare, ends,
    examiner::{Examiner, Part, Wrong},
    names::Names,
    pack_files,
    slot::{Slot, State, Unusable},
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

/// Files, and what is wrong with each.
type Files = Vec<(SegmentFile, String)>;

/// Everything that was found.
pub(crate) struct Examined {
    pub(crate) walker: Walker,
    pub(crate) sources: Sources,
    /// The segments, in order. Empty where nothing has to be done to any.
    pub(crate) parts: Vec<Part>,
    /// Files to be put aside, and why.
    pub(crate) strays: Files,
    /// Packs that have records, but no index to read them by, and what is wrong.
    pub(crate) without_index: Files,
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
    examiner.begin(&slots.strays);
    examiner.read(&slots.slots, progress)?;
    if let Some(loaded) = &loaded {
        examiner.walker.report.torn_bytes = loaded.report.torn_bytes;
    }
    if refused.is_some() {
        examiner.lost_tail();
    }
    examiner.end_log(
        refused.is_some(),
        slots.stray_position.min(limits::BASE_POSITION_MAX),
    );
    let Examiner {
        mut walker,
        parts,
        saved,
        next_segment,
        ..
    } = examiner;
    sources.checkpoint = saved;
    let wrong = ends::check(&mut walker, &sources, &parts, loaded.as_deref());
    finish(storage, &mut walker, loaded.as_deref(), refused.as_ref());
    let Slots {
        slots,
        mut strays,
        misnamed,
        ..
    } = slots;
    let (without_index, unusable) = without_use(slots);
    strays.extend(unusable);
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

/// The files that can't be used: packs that have records but no index, and others, in whose place another file is made.
fn without_use(slots: Vec<Slot>) -> (Files, Files) {
    let unusable = slots.into_iter().filter_map(|slot| match slot.state {
        State::Lost(unusable) => unusable,
        _ => None,
    });
    let (with_records, others): (Vec<_>, Vec<_>) =
        unusable.partition(|unusable| unusable.has_records);
    let named = |list: Vec<Unusable>| list.into_iter().map(|one| (one.file, one.why)).collect();
    (named(with_records), named(others))
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
    /// Reports what is known before any segment is read.
    fn begin(&mut self, strays: &[(SegmentFile, String)]) {
        if let Some(why) = &self.sources.identity_lost {
            let message =
                format!("{why}; everything in it but the time stands in the segments, too");
            self.walker.damaged(files::IDENTITY, 0, message);
        }
        self.walker.stands = ends::stands(self.sources);
        let saved = self.saved.as_ref();
        self.walker.to_erase.extend(
            saved
                .into_iter()
                .flat_map(|saved| saved.directory.redacted().to_vec()),
        );
        for (file, why) in strays {
            let message = format!("it is no segment of this log: {why}");
            self.walker.damaged(&file.name(), 0, message);
        }
    }

    /// Reads the segments in order. `progress` gets how many bytes were read, and of how many.
    fn read(&mut self, slots: &[Slot], progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        let lengths: Vec<u64> = slots.iter().map(Slot::file_bytes).collect::<Result<_>>()?;
        let (total, mut read) = (lengths.iter().sum(), 0);
        for (place, length) in lengths.iter().enumerate() {
            self.slot(slots, place)?;
            read += length;
            progress(read, total);
        }
        let found = &mut self.walker.report;
        (found.segments, found.bytes) = (slots.len() as u64, total);
        Ok(())
    }

    /// Says how the log goes on behind its last segment. `stray_position` is the position after the highest of files that
    /// are no segments of it.
    fn end_log(&mut self, is_refused: bool, stray_position: u64) {
        // Where only a checkpoint lets it open, which may be missing, it is made to open by itself.
        let last = self.parts.last_mut();
        let hole = last.filter(|last| last.index_crc.is_none() && last.has_losses);
        let has_hole = hole.is_some();
        if let Some(last) = hole {
            last.needs_index = true;
        }
        if is_refused || has_hole {
            self.go_on_behind(self.given.max(stray_position));
        }
    }

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
