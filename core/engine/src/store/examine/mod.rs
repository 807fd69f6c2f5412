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
mod names;
mod report;
pub(crate) mod seed;
mod slots;
pub(crate) mod sources;
pub(crate) mod survey;
mod walk;

use std::sync::Arc;

pub(crate) use draft::Ends;
pub(crate) use sources::Sources;
pub(crate) use walk::Walker;

use crate::{
    Error, ErrorKind, Result, SegmentId,
    format::{
        Features, WRITER_VERSION,
        files::{self, End},
        index::Block,
        segment::{COPIES, HEADER_BYTES, Header},
    },
    index::checkpoint::Checkpoint,
    limits,
    log::segment::Segment,
    storage::Storage,
    store::{chain, recover::Loaded},
};
use report::Report;
use slots::{Slot, Slots, State};
use walk::{Task, Walked};

/// What opening made of the store.
pub(crate) enum View {
    /// It opens; the log is this far.
    Opened(Box<Loaded>),
    /// It doesn't.
    Refused(Error),
}

/// One segment, and what has to be done to it.
pub(crate) struct Part {
    pub(crate) header: Header,
    /// Whether there was no header, so that this one was made.
    pub(crate) is_header_made: bool,
    /// `None` when its file is missing, or can't be used.
    pub(crate) segment: Option<Arc<Segment>>,
    pub(crate) data_end: u64,
    pub(crate) next_position: u64,
    /// The CRC of its index block as it stays.
    pub(crate) index_crc: Option<u32>,
    /// Its index block is to be made again: its draft is kept.
    pub(crate) needs_index: bool,
    /// Whether something in it is, or was, lost.
    pub(crate) has_losses: bool,
    /// Where copies of its header are to be written again.
    pub(crate) wrong_copies: Vec<usize>,
    /// The file is longer than a segment can be; it is to be so long.
    pub(crate) shorten_to: Option<u64>,
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
        report.damaged(files::IDENTITY, 0, format!("{why}; everything in it but the time stands in the segments, too"));
    }
    let (slots, loaded, refused) = match view {
        View::Opened(loaded) => (of_opened(&loaded), Some(loaded), None),
        View::Refused(error) => (Slots::of(storage, &sources)?, None, Some(error)),
    };
    let names = match &refused {
        Some(_) => names(&slots, &sources)?,
        // Where everything is there, nothing has to be named.
        None => names::Names::new(sources.identity.store),
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
    examiner.walker.to_erase.extend(saved.into_iter().flat_map(|saved| saved.directory.redacted().to_vec()));
    for (id, why) in &slots.strays {
        let message = format!("it is no segment of this log: {why}");
        examiner.walker.report.damaged(&files::segment_name(*id), 0, message);
    }
    let lengths: Vec<u64> = slots.slots.iter().map(Slot::file_bytes).collect::<Result<_>>()?;
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
    let known = examiner.given.max(slots.stray_position.min(sources::POSITION_MAX));
    // Where only a checkpoint lets it open, which may be missing, it is made to open by itself.
    let has_hole = examiner.parts.last().is_some_and(|last| last.index_crc.is_none() && last.has_losses);
    if refused.is_some() || has_hole {
        examiner.go_on_behind(known);
    }
    let Examiner { mut walker, parts, saved, next_segment, .. } = examiner;
    sources.checkpoint = saved;
    let wrong = ends::check(&mut walker, &mut sources, &parts, loaded.as_deref());
    finish(storage, &mut walker, loaded.as_deref(), refused.as_ref());
    let Slots { slots, mut strays, misnamed, .. } = slots;
    strays.extend(slots.into_iter().filter_map(|slot| match slot.state {
        // Another file is made in its place.
        State::Lost(Some(unusable)) => Some((slot.id, unusable.why)),
        _ => None,
    }));
    Ok(Examined { walker, sources, parts, strays, misnamed, wrong, next_segment })
}

/// The slots of a store that opens.
fn of_opened(loaded: &Loaded) -> Slots {
    let slot = |segment: &Arc<Segment>| Slot { id: segment.id(), state: State::Usable(segment.clone()) };
    let slots = loaded.durable.segments.iter().map(slot).collect();
    Slots { slots, strays: Vec::new(), stray_position: 0, misnamed: Vec::new() }
}

/// What is known of streams whose creation may be lost.
fn names(slots: &Slots, sources: &Sources) -> Result<names::Names> {
    let mut names = names::Names::new(sources.identity.store);
    for slot in &slots.slots {
        if let State::Usable(segment) = &slot.state
            && let Some(block) = checked_block(segment)?.ok().flatten()
        {
            names.add_block(&block);
        }
    }
    if let Some(checkpoint) = &sources.checkpoint {
        names.add_checkpoint(checkpoint);
    }
    Ok(names)
}

/// The index block of a segment; `Ok(Err(_))` when it doesn't check.
fn checked_block(segment: &Segment) -> Result<std::result::Result<Option<Arc<Block>>, String>> {
    match segment.block() {
        Ok(block) => Ok(Ok(block)),
        Err(error) if error.kind() == ErrorKind::Damaged => Ok(Err(error.to_string())),
        Err(error) => Err(error),
    }
}

impl Slot {
    fn file_bytes(&self) -> Result<u64> {
        let length = match &self.state {
            State::Usable(segment) => segment.file.len(),
            State::Headless { file, .. } => file.len(),
            State::Lost(_) => Ok(0),
        };
        let length = length.map_err(|error| Error::from_io(error, format!("measuring segment {}", self.id)))?;
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
        let next = slots.get(place + 1);
        match &slot.state {
            State::Usable(segment) => {
                let wrong = slots::wrong_copies(segment)?;
                for (offset, what) in &wrong {
                    self.walker.report.damaged(&segment.name, *offset as u64, what.clone());
                }
                self.check_header(segment);
                let copies = wrong.into_iter().map(|(offset, _)| offset).collect();
                self.segment(segment, next, slots.len() - place, copies)
            }
            State::Headless { file, seed } => {
                let salt = next.and_then(Slot::header).map(|header| header.predecessor_salt);
                let named = named_salts(self.saved.as_ref(), self.sources.end.as_ref());
                let named = named.into_iter().flatten().find(|(segment, _)| *segment == slot.id);
                let salt = salt.or(named.map(|(_, salt)| salt)).unwrap_or(*seed);
                let header = self.missing_header(slot.id, salt, *seed);
                let name = files::segment_name(slot.id);
                let message =
                    "every copy of its header is damaged; its records tell the seed, and its neighbours the rest";
                self.walker.report.damaged(&name, 0, message);
                let segment = Arc::new(Segment::unsealed(header, file.clone()));
                self.segment(&segment, next, slots.len() - place, COPIES.to_vec())
            }
            State::Lost(why) => {
                let why = why.as_ref().map(|unusable| &unusable.why[..]);
                self.missing(slot.id, why, next.and_then(Slot::header));
                Ok(())
            }
        }
    }

    /// A header for a segment that has none: what its neighbours and the log before it give.
    fn missing_header(&self, id: SegmentId, salt: u32, seed: u32) -> Header {
        let identity = &self.sources.identity;
        let before = self.parts.last();
        Header {
            store: identity.store,
            segment: id,
            salt,
            uuid: seed::uuid_for(&identity.store, salt, seed),
            base_position: self.walker.durable.next_position,
            base_time_ms: self.walker.durable.last_time_ms.max(before.map_or(0, |part| part.header.base_time_ms)),
            predecessor_end: before.map_or(0, |part| part.data_end),
            predecessor_salt: before.map_or(0, |part| part.header.salt),
            predecessor_index_crc: before.and_then(|part| part.index_crc).unwrap_or(0),
            next_stream: self.walker.durable.directory.next_number(),
            features: Features { incompatible: 0, read_only_compatible: 0, compatible: 0 },
            epoch: self.walker.durable.epoch.max(1),
            writer_version: WRITER_VERSION,
            hash_key: identity.hash_key,
        }
    }

    /// Holds the header of a segment against the log before it.
    fn check_header(&mut self, segment: &Segment) {
        let header = &segment.header;
        let durable = &self.walker.durable;
        let before = self.parts.last();
        let mut wrong = Vec::new();
        // Streams may be left out only behind what was repaired or can't be read.
        let is_behind_loss =
            before.is_some_and(|part| part.has_losses || part.needs_index) || !self.walker.gaps.is_empty();
        let (next, base) = (durable.next_position, header.base_position);
        if base < next {
            wrong.push(format!("its base position is {base}, expected {next}"));
        }
        let (expected, found) = (durable.directory.next_number(), header.next_stream);
        if found < expected || found > expected && !is_behind_loss {
            wrong.push(format!("its next stream is {found}, expected {expected}"));
        }
        let earliest = durable.last_time_ms.max(before.map_or(0, |part| part.header.base_time_ms));
        if header.base_time_ms < earliest {
            wrong.push(format!("its base time is {}, before {earliest} in the segment before", header.base_time_ms));
        }
        if header.epoch < durable.epoch || header.epoch == 0 {
            wrong.push(format!("its epoch is {}, after epoch {}", header.epoch, durable.epoch));
        }
        if header.hash_key != self.sources.identity.hash_key {
            wrong.push(format!("its hash key is another than that in {}", files::IDENTITY));
        }
        if let Some(crc) = before.filter(|part| !part.needs_index && !part.has_losses).and_then(|part| part.index_crc)
            && crc != header.predecessor_index_crc
        {
            let named = header.predecessor_index_crc;
            wrong.push(format!("it follows an index block with the CRC {named:08x}, but that has {crc:08x}"));
        }
        if base > next {
            let message = format!("positions {next} to {} are lost: nothing is known of them", base - 1);
            self.walker.report.lost(&segment.name, 0, message);
            self.walker.report.found.lost += base - next;
        }
        for what in wrong {
            self.walker.report.damaged(&segment.name, 0, what);
        }
        self.walker.durable.epoch = self.walker.durable.epoch.max(header.epoch);
    }

    /// Reads a segment that has a header, and holds its index block against it. `left` is how many there are from it on.
    fn segment(
        &mut self,
        segment: &Arc<Segment>,
        next: Option<&Slot>,
        left: usize,
        wrong_copies: Vec<usize>,
    ) -> Result<()> {
        let is_header_made = wrong_copies.len() == COPIES.len() && segment.trailer().is_none();
        let length =
            segment.file.len().map_err(|error| Error::from_io(error, format!("measuring {}", segment.name)))?;
        let is_too_long = length > limits::SEGMENT_BYTES_MAX;
        if is_too_long {
            let message = format!("{length} bytes long, but a segment has at most {}", limits::SEGMENT_BYTES_MAX);
            self.walker.report.damaged(&segment.name, limits::SEGMENT_BYTES_MAX, message);
        }
        let file_bytes = length.min(limits::SEGMENT_BYTES_MAX);
        let block = checked_block(segment)?;
        let own = block.as_ref().ok().cloned().flatten();
        let header_after = next.and_then(Slot::header);
        let found = match (segment.trailer(), header_after) {
            (Some(trailer), _) => active::Tail::known(trailer.data_end),
            (None, Some(after)) => active::Tail::known(after.predecessor_end.max(HEADER_BYTES as u64)),
            (None, None) if self.end.is_some() => active::Tail::known(self.end.unwrap_or(HEADER_BYTES as u64)),
            (None, None) => self.tail(segment, file_bytes)?,
        };
        let is_last = left == 1;
        let is_active = is_last && segment.trailer().is_none() && found.damage.is_none();
        let next_position = match (segment.trailer(), header_after) {
            (Some(trailer), _) => Some(trailer.next_position),
            (None, Some(after)) => Some(after.base_position),
            (None, None) if is_active => None,
            (None, None) => Some(self.given),
        };
        let (guide, guide_end) = match (&own, self.saved.as_ref()) {
            (Some(block), _) => (Some(block.clone()), found.end),
            (None, Some(saved)) if saved.end.segment == segment.id().0 && saved.end.salt == segment.header.salt => {
                (compare::active_block(saved, segment).map(Arc::new), saved.end.offset)
            }
            _ => (None, 0),
        };
        if self.saved.as_ref().is_some_and(|saved| saved.end.segment == segment.id().0) {
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
        let walked = self.walker.walk(&task)?;
        if let Some(saved) = self.walker.checkpoint.take() {
            self.saved = Some(saved);
        }
        if let Some(next) = next_position.filter(|next| *next <= sources::POSITION_MAX) {
            self.walker.durable.next_position = self.walker.durable.next_position.max(next);
        }
        if is_active {
            self.walker.report.found.torn_bytes = found.torn_bytes;
        }
        let is_unproven = match next.map(|next| &next.state) {
            Some(State::Usable(next)) if left == 2 => own.is_none() && chain::is_half_written(segment, next)?,
            _ => false,
        };
        let mut part = Part {
            header: segment.header,
            is_header_made,
            segment: Some(segment.clone()),
            data_end: found.end,
            next_position: self.walker.durable.next_position,
            index_crc: segment.trailer().filter(|_| own.is_some()).map(|trailer| trailer.index_crc),
            needs_index: false,
            has_losses: walked.has_holes || segment.trailer().is_some_and(|trailer| trailer.repaired),
            wrong_copies,
            shorten_to: is_too_long.then(|| found.quiet_from.unwrap_or(limits::SEGMENT_BYTES_MAX).max(found.end)),
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
                self.walker.report.damaged(&segment.name, found.end, format!("{error}; {MADE_AGAIN}"));
                true
            }
            (None, Ok(_)) => {
                let what = found.damage.clone().unwrap_or_else(|| format!("its index block is missing; {MADE_AGAIN}"));
                self.walker.report.damaged(&segment.name, found.end, what);
                true
            }
        };
        if !part.needs_index && !is_last {
            self.walker.drafts.remove(&segment.id());
        }
        self.parts.push(part);
        Ok(())
    }

    /// Whether the index block of a segment is not what its records give.
    fn check_block(&mut self, segment: &Segment, block: &Block, walked: &Walked) -> bool {
        let Some(trailer) = segment.trailer() else { return false };
        let directory = &self.walker.durable.directory;
        let id_of = |number| directory.stream(number).map_or([0; 16], |stream| *stream.id.as_bytes());
        let draft = self.walker.drafts.entry(segment.id()).or_default();
        let mut wrong: Vec<String> = walked.contradiction.clone().into_iter().collect();
        if wrong.is_empty() {
            wrong = compare::blocks(&block.parts(), &draft.parts(id_of), walked.has_holes);
            let ends = Ends {
                data_end: trailer.data_end,
                next_position: trailer.base_position.saturating_add(u64::from(draft.records())),
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
                wrong
                    .extend((crc != trailer.index_crc).then(|| "bytes in it that say nothing are not zero".to_owned()));
            }
        }
        for what in &wrong {
            let message = format!("its index block is not what its records give: {what}");
            self.walker.report.damaged(&segment.name, trailer.data_end, message);
        }
        !wrong.is_empty() || walked.is_unknown
    }

    /// The CRC of the index block that the records of a segment give.
    fn draft_crc(&mut self, part: &Part) -> u32 {
        let directory = &self.walker.durable.directory;
        let id_of = |number| directory.stream(number).map_or([0; 16], |stream| *stream.id.as_bytes());
        let draft = self.walker.drafts.entry(part.header.segment).or_default();
        let ends = Ends {
            data_end: part.data_end,
            next_position: part.next_position,
            next_stream: directory.next_number(),
            repaired: false,
        };
        draft.parts(id_of).encode(draft.trailer(&part.header, &ends), &part.header).1
    }

    /// The log ends in a segment that is sealed, or has to be: it goes on in a new one, behind every position that was given.
    fn go_on_behind(&mut self, known: u64) {
        let reached = self.walker.durable.next_position.max(known);
        let is_ended =
            self.parts.last().is_none_or(|last| last.needs_index || last.index_crc.is_some() || last.segment.is_none());
        if is_ended || known > self.walker.durable.next_position {
            self.next_segment = Some(reached);
            let Some(last) = self.parts.last_mut() else { return };
            last.needs_index |= last.index_crc.is_none();
            if reached - last.header.base_position.min(reached) <= u64::from(u32::MAX) && last.needs_index {
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

const MADE_AGAIN: &str = "a repair makes it again from the records";

/// Tells what is left to tell.
fn finish(storage: &dyn Storage, walker: &mut Walker, loaded: Option<&Loaded>, refused: Option<&Error>) {
    walker.report.found.records = walker.records;
    if let Some(loaded) = loaded
        && walker.report.found.is_sound()
        && walker.gaps.is_empty()
    {
        let ours = &walker.durable;
        let theirs = &loaded.durable;
        let what = compare::directories(&theirs.directory, &ours.directory).or_else(|| {
            let positions = (theirs.next_position, ours.next_position);
            (positions.0 != positions.1)
                .then(|| format!("it goes on with position {}, not {}", positions.0, positions.1))
        });
        if let Some(what) = what {
            let message = format!("what opening makes of it is not what the records give: {what}");
            walker.report.damaged(&storage.describe(), 0, message);
        }
    }
    for gap in &walker.gaps {
        walker.report.found.lost += gap.missing as u64;
        walker.report.lost(&gap.file, gap.from, gap.told(&walker.durable.directory));
    }
    if let Some(error) = refused
        && walker.report.found.problems.iter().all(|problem| problem.is_loss)
    {
        walker.report.damaged(&storage.describe(), 0, error.to_string());
    }
}
