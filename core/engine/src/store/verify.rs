//! `verify`: reads every byte of a store and tells every damage; and `repair`, for what a person asked to
//! be repaired.

use std::{collections::HashMap, sync::Arc};

use super::{
    chain, checkpoints,
    recover::{self, Look},
    watermark,
};
use crate::{
    Error, ErrorKind, Position, Result, SegmentId, StreamId,
    format::{
        files::{self, Identity},
        index::{Parts, SAMPLE_EVERY, SampleRow},
        offset_to_units,
        record::Flags,
        segment::HEADER_BYTES,
    },
    log::{
        scan::{self, Scan, SearchBudget},
        segment::{Frame, Segment},
    },
    storage::{Access, Storage},
};

/// At most so many problems are told one by one; the rest are counted.
const PROBLEMS_MAX: usize = 1000;

/// What [`verify`] found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Verification {
    /// How many segments there are.
    pub segments: u64,
    /// How many records were read and found whole.
    pub records: u64,
    /// How many bytes were read.
    pub bytes: u64,
    /// Bytes after the last whole batch that a crash cut off, never acknowledged: no damage.
    pub torn_bytes: u64,
    /// Each damage, at most 1,000 of them.
    pub problems: Vec<Problem>,
    /// How many problems there are.
    pub problems_count: u64,
}

/// One damage.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The file.
    pub file: String,
    /// Where in the file.
    pub offset: u64,
    /// What was expected and what was found, and which records are lost by it.
    pub message: String,
}

/// What [`repair`] did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Repair {
    /// What was done, a line each.
    pub actions: Vec<String>,
    /// What is still damaged: records in sealed segments, which are never cut.
    pub left: Vec<Problem>,
}

impl Verification {
    fn add(&mut self, file: &str, offset: u64, message: impl Into<String>) {
        self.problems_count += 1;
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(Problem { file: file.to_owned(), offset, message: message.into() });
        }
    }

    /// Whether nothing is damaged.
    pub fn is_sound(&self) -> bool {
        self.problems_count == 0
    }
}

/// Reads every byte of a store, also beside a writer, and tells every damage. Changes nothing.
///
/// # Errors
/// Those of reading: [`NotFound`](ErrorKind::NotFound), [`NotAStore`](ErrorKind::NotAStore),
/// [`Io`](ErrorKind::Io). Damage is no error: it is in the [`Verification`].
pub fn verify(storage: &dyn Storage) -> Result<Verification> {
    verify_with(storage, &mut |_, _| {})
}

/// The same as [`verify`]; `progress` is told how many of how many bytes were read.
///
/// # Errors
/// As [`verify`].
pub fn verify_with(storage: &dyn Storage, progress: &mut dyn FnMut(u64, u64)) -> Result<Verification> {
    let identity = super::open::read_identity(storage)?;
    let limit = watermark::read_proven(storage, &identity.store)?;
    let mut found = Verification::default();
    let ids = segment_ids(storage, limit.map(|limit| limit.segment))?;
    let total: u64 = ids.iter().filter_map(|id| length_of(storage, *id)).sum();
    let mut before = 0;
    for (index, id) in ids.iter().enumerate() {
        found.segments += 1;
        let name = files::segment_name(*id);
        let segment = match Segment::open(storage, *id, Access::Read, &identity.store) {
            Ok(segment) => segment,
            Err(error) if matches!(error.kind(), ErrorKind::Damaged | ErrorKind::UnsupportedVersion) => {
                found.add(&name, 0, error.to_string());
                continue;
            }
            Err(error) => return Err(error),
        };
        if let Some(next) = ids.get(index + 1) {
            let next = Segment::open(storage, *next, Access::Read, &identity.store).ok();
            whole_segment(&segment, next.as_ref(), &mut found)?;
        }
        found.bytes += length_of(storage, *id).unwrap_or(0);
        before += length_of(storage, *id).unwrap_or(0);
        progress(before, total);
    }
    // The rest, the active segment among it, is what opening checks: that segments follow each other, that
    // the checkpoint agrees, and that each record of the active segment does.
    unsealed(storage, &identity, limit, &mut found)?;
    Ok(found)
}

fn segment_ids(storage: &dyn Storage, last: Option<SegmentId>) -> Result<Vec<SegmentId>> {
    let names = storage.list().map_err(|error| Error::from_io(error, format!("listing {}", storage.describe())))?;
    let mut ids: Vec<_> = names.iter().filter_map(|name| files::segment_of_name(name)).collect();
    ids.retain(|id| last.is_none_or(|last| *id <= last));
    ids.sort_unstable();
    Ok(ids)
}

fn length_of(storage: &dyn Storage, id: SegmentId) -> Option<u64> {
    storage.open(&files::segment_name(id), Access::Read).ok()?.len().ok()
}

fn length_of_file(segment: &Segment) -> Result<u64> {
    segment.file.len().map_err(|error| Error::from_io(error, format!("measuring {}", segment.name)))
}

/// Checks the records of a segment that another follows: against each other, and against its index block.
fn whole_segment(segment: &Segment, next: Option<&Segment>, found: &mut Verification) -> Result<()> {
    let trailer = segment.trailer().copied();
    let unproven = match next {
        Some(next) => chain::is_half_written(segment, next)?,
        None => false,
    };
    let Some(end) = trailer.map(|trailer| trailer.data_end).or(next.map(|next| next.header.predecessor_end)) else {
        found.add(&segment.name, 0, "it has no index block, and the next segment can't tell where its records end");
        return Ok(());
    };
    let parts = match segment.block() {
        Ok(Some(block)) => block.parts(),
        Ok(None) if unproven => Parts::default(),
        Ok(None) => {
            found.add(&segment.name, end, "its index block is missing; a repair makes it again from the records");
            Parts::default()
        }
        Err(error) if error.kind() == ErrorKind::Damaged => {
            if !unproven {
                found.add(&segment.name, end, error.to_string());
            }
            Parts::default()
        }
        Err(error) => return Err(error),
    };
    let mut check = Check::new(segment, &parts, end);
    check.run(found)?;
    if !parts.stream_rows.is_empty() || !parts.steps.is_empty() {
        check.tell_lost(found);
    }
    Ok(())
}

/// The walk over one sealed segment.
struct Check<'a> {
    segment: &'a Segment,
    parts: &'a Parts,
    end: u64,
    /// By offset: which row's posting it is, and the ordinal.
    postings: HashMap<u32, (usize, u32)>,
    steps: HashMap<u64, ()>,
    seen: u64,
}

impl<'a> Check<'a> {
    fn new(segment: &'a Segment, parts: &'a Parts, end: u64) -> Self {
        let mut postings = HashMap::with_capacity(parts.postings.len());
        for (place, row) in parts.stream_rows.iter().enumerate() {
            for index in 0..row.count {
                if let Some(units) = parts.postings.get((row.postings_start + index) as usize) {
                    postings.insert(*units, (place, row.first_ordinal + index));
                }
            }
        }
        let steps = parts.steps.iter().map(|step| (step.offset, ())).collect();
        Self { segment, parts, end, postings, steps, seen: 0 }
    }

    fn run(&mut self, found: &mut Verification) -> Result<()> {
        let mut offset = HEADER_BYTES as u64;
        let mut in_batch = false;
        let mut budget = SearchBudget::of(self.end);
        while offset < self.end {
            let mut scan = Scan::of_file(self.segment, offset, self.end);
            let stopped = loop {
                match scan.next() {
                    Ok(Some(frame)) => self.frame(&frame, &mut in_batch, found),
                    Ok(None) => break None,
                    Err(error) if error.kind() == ErrorKind::Damaged => break Some(error),
                    Err(error) => return Err(error),
                }
            };
            let Some(error) = stopped else { break };
            let at = scan.offset();
            let mut next = None;
            // The file may be shorter than its records were.
            let length = length_of_file(self.segment)?;
            scan::search(self.segment, at + 8, self.end.min(length), &mut budget, |whole| {
                next = Some(whole);
                false
            })?;
            let until = next.map_or(self.end, |whole| whole.offset);
            found.add(&self.segment.name, at, format!("{error}; {} bytes are unreadable", until - at));
            if let Some(whole) = next {
                self.seen = u64::from(whole.header.index);
                in_batch = !whole.header.flags.has(Flags::BATCH_FIRST);
            }
            offset = until;
        }
        let records = self.segment.trailer().map_or(self.seen, |trailer| u64::from(trailer.records));
        if self.seen != records && found.is_sound() {
            let message = format!("the trailer says {records} records, but there are {}", self.seen);
            found.add(&self.segment.name, self.end, message);
        }
        Ok(())
    }

    fn frame(&mut self, frame: &Frame, in_batch: &mut bool, found: &mut Verification) {
        let header = &frame.header;
        let name = &self.segment.name;
        if u64::from(header.index) != self.seen {
            found.add(name, frame.offset, format!("expected record {}, found record {}", self.seen, header.index));
        }
        if header.flags.has(Flags::BATCH_FIRST) == *in_batch {
            found.add(name, frame.offset, "a batch begins inside another, or goes on after its end");
        }
        *in_batch = !header.flags.has(Flags::BATCH_LAST);
        self.seen = u64::from(header.index) + 1;
        found.records += 1;
        if self.parts.stream_rows.is_empty() && self.parts.steps.is_empty() {
            return;
        }
        let units = offset_to_units(frame.offset);
        if header.kind.is_data() {
            let row = self.postings.remove(&units).map(|(place, _)| self.parts.stream_rows[place].stream);
            if row != Some(header.stream) {
                let message = format!("the index does not name this record of stream number {}", header.stream);
                found.add(name, frame.offset, message);
            }
        } else if self.steps.remove(&frame.offset).is_none() {
            found.add(
                name,
                frame.offset,
                format!("the index does not name this engine record of kind {}", header.kind.0),
            );
        }
        let sampled = header.index.is_multiple_of(SAMPLE_EVERY);
        let sample = SampleRow { index: header.index, offset: frame.offset };
        if sampled && self.parts.samples.get((header.index / SAMPLE_EVERY) as usize) != Some(&sample) {
            found.add(name, frame.offset, format!("the index samples record {} elsewhere", header.index));
        }
    }

    /// Which records the index names that could not be read.
    fn tell_lost(&self, found: &mut Verification) {
        let mut lost: HashMap<usize, (u32, u32, u32)> = HashMap::new();
        for (place, ordinal) in self.postings.values() {
            let entry = lost.entry(*place).or_insert((0, u32::MAX, 0));
            *entry = (entry.0 + 1, entry.1.min(*ordinal), entry.2.max(*ordinal));
        }
        for (place, (count, first, last)) in lost {
            let id = StreamId::from_bytes(self.parts.stream_rows[place].id);
            let message =
                format!("lost {count} records of stream {id}, between the {first}th and the {last}th it was given");
            found.add(&self.segment.name, self.end, message);
        }
        if !self.steps.is_empty() {
            let message = format!("lost {} engine records; what they did is kept in the index", self.steps.len());
            found.add(&self.segment.name, self.end, message);
        }
    }
}

/// Checks what opening checks, and each record of the last segment.
fn unsealed(
    storage: &dyn Storage,
    identity: &Identity,
    limit: Option<files::Watermark>,
    found: &mut Verification,
) -> Result<()> {
    match recover::load(storage, identity, Access::Read, Look::Reader(limit)) {
        Ok(loaded) => {
            found.torn_bytes = loaded.report.torn_bytes;
            // A writer may have sealed it by now; nobody else has read it here then.
            let Some(active) = loaded.durable.active() else { return Ok(()) };
            let mut scan = Scan::of_file(active, HEADER_BYTES as u64, loaded.durable.end);
            loop {
                match scan.next() {
                    Ok(Some(_)) => found.records += 1,
                    Ok(None) => return Ok(()),
                    Err(error) if error.kind() == ErrorKind::Damaged => {
                        found.add(&active.name, scan.offset(), error.to_string());
                        return Ok(());
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Err(error) if error.kind() == ErrorKind::Damaged => {
            if found.is_sound() {
                found.add(&storage.describe(), 0, error.to_string());
            }
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Repairs what can be repaired without losing anything that is readable, and cuts the active segment where
/// it is damaged, after saving the cut bytes in a file beside the segments. Sealed segments are never cut.
///
/// # Errors
/// [`Locked`](ErrorKind::Locked) while a writer has the store; those of [`verify`]; those of writing.
pub fn repair(storage: &Arc<dyn Storage>, holder: &str) -> Result<Repair> {
    let identity = super::open::read_identity(&**storage)?;
    let lock = super::open::lock(&**storage, holder)?;
    let mut repair = Repair::default();
    let ids = segment_ids(&**storage, None)?;
    if let Some(last) = ids.last() {
        let segment = Segment::open(&**storage, *last, Access::Write, &identity.store)?;
        if segment.trailer().is_none() {
            cut_damage(&**storage, &identity, &segment, &mut repair)?;
        }
    }
    make_indexes(&**storage, &identity, &mut repair)?;
    drop(lock);
    repair.left = verify(&**storage)?.problems;
    Ok(repair)
}

/// Makes missing and damaged index blocks again, where every record is whole.
fn make_indexes(storage: &dyn Storage, identity: &Identity, repair: &mut Repair) -> Result<()> {
    let mut loaded = match recover::load(storage, identity, Access::Write, Look::Mend) {
        Ok(loaded) => loaded,
        Err(error) if error.kind() == ErrorKind::Damaged => return Ok(()),
        Err(error) => return Err(error),
    };
    let names = loaded.plan.to_be_sealed();
    if names.is_empty() {
        return Ok(());
    }
    forget(storage, files::CHECKPOINT)?;
    loaded.plan.apply(storage, &mut loaded.durable)?;
    repair.actions.extend(names.into_iter().map(|name| format!("{name}: made its index block again from its records")));
    Ok(())
}

fn forget(storage: &dyn Storage, name: &str) -> Result<()> {
    match storage.remove(name) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::from_io(error, format!("removing {name}"))),
    }
}

/// Cuts the active segment after its last whole batch, if what is behind it was durable and is damaged or gone.
fn cut_damage(storage: &dyn Storage, identity: &Identity, segment: &Segment, repair: &mut Repair) -> Result<()> {
    let length = length_of_file(segment)?;
    let mut scan = Scan::of_file(segment, HEADER_BYTES as u64, length);
    let mut end = HEADER_BYTES as u64;
    let mut last = Position(segment.header.base_position.saturating_sub(1));
    while let Ok(Some(frame)) = scan.next() {
        if frame.header.flags.has(Flags::BATCH_LAST) {
            end = frame.end();
            last = Position(segment.header.base_position + u64::from(frame.header.index));
        }
    }
    let beyond = |place: (SegmentId, u64)| place > (segment.id(), end);
    let published =
        watermark::read_proven(storage, &identity.store)?.filter(|mark| beyond((mark.segment, mark.offset)));
    let saved_end = recover::checkpoint_reached(storage, &identity.store)?.filter(|place| beyond(*place));
    let is_proven = match recover::check_torn(segment, end, length, None) {
        Ok(()) => published.is_some() || saved_end.is_some(),
        Err(error) if error.kind() == ErrorKind::Damaged => true,
        Err(error) => return Err(error),
    };
    if !is_proven {
        return Ok(());
    }
    let bytes = segment.bytes_at(end, length - end)?;
    let kept = bytes.len() - bytes.iter().rev().take_while(|byte| **byte == 0).count();
    let mut action = format!("{}: the log now ends at offset {end}, with position {last}", segment.name);
    if let Some(published) = published {
        action += &format!("; records up to position {} had been acknowledged", published.position);
    }
    if kept > 0 {
        let saved = format!("cut-{:08}-{end}.bin", segment.id().0);
        checkpoints::replace_file(storage, &saved, &bytes[..kept])?;
        action += &format!("; the {kept} bytes that were cut are saved in {saved}");
    }
    forget(storage, files::CHECKPOINT)?;
    forget(storage, files::WATERMARK)?;
    recover::cut(segment, end, end + kept as u64).map_err(|error| Error::from_io(error, "cutting the damage"))?;
    repair.actions.push(action);
    Ok(())
}
