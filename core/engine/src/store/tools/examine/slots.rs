//! [`Slots`]: the places of the segments of a store that doesn't open, and what can be used of the files there.

use std::sync::Arc;

use super::{
    pack_files::{files_to_use, open_pack},
    pack_index::made_again,
    seed,
    slot::{Slot, State, Unusable, next_position},
    sources::{Sources, footer_of, named_salts},
    survey::Source,
};
use crate::{
    Error, ErrorKind, Result, SegmentId,
    format::{
        files::{self, Identity, SegmentFile},
        index::{TRAILER_BYTES, Trailer},
        segment::{COPIES, COPY_BYTES, DATA_START, HEADER_BYTES, Header},
    },
    limits,
    log::segment::Segment,
    storage::{Access, File, IoContext, Storage},
    store::segments::chain::WITHOUT_INDEX,
};

/// At most this many missing numbers between two files are filled in; files after a larger gap are not part of the
/// store.
const MISSING_MAX: u32 = 1024;

/// Everything that the numbers of the segments lead to.
pub(crate) struct Slots {
    /// From the first to the last that can be used.
    pub(crate) slots: Vec<Slot>,
    /// Files that aren't part of the store, though they are named like one, and why.
    pub(crate) strays: Vec<(SegmentFile, String)>,
    /// The position behind the highest of those.
    pub(crate) stray_position: u64,
    /// Files that have each other's names: which, and the segments that they are.
    pub(crate) misnamed: Vec<(SegmentId, SegmentId)>,
}

impl Slots {
    /// Looks at every file that is named like a segment.
    pub(crate) fn of(storage: &dyn Storage, sources: &Sources) -> Result<Self> {
        let identity = &sources.identity;
        let mut slots: Vec<Slot> = Vec::new();
        let mut strays: Vec<(SegmentFile, String)> = Vec::new();
        let mut stray_position = 0;
        let files = files_to_use(storage, identity, &mut strays)?;
        for (place, file) in files.iter().copied().enumerate() {
            let id = file.first;
            let next = slots
                .last()
                .map_or(1, |slot| slot.last_id().0.saturating_add(1));
            let state = match file.generation {
                0 => open(storage, id, identity)?,
                _ => open_pack(storage, file, identity)?,
            };
            let state = match state {
                State::Lost(Some(unusable)) if unusable.has_records => {
                    let next = files.get(place + 1).copied();
                    match made_again(storage, file, next, identity, &slots)? {
                        Some(segment) => State::Usable(Arc::new(segment)),
                        None => State::Lost(Some(unusable)),
                    }
                }
                state => state,
            };
            // Places are made for all segments that it stands for: its name alone could claim any number.
            let others = file.last.0 - file.first.0;
            if let State::Lost(Some(unusable)) = &state
                && others > MISSING_MAX
            {
                let why = format!("{}, and {others} more segments than one", unusable.why);
                if unusable.has_records {
                    return Err(Error::damaged(format!("{why}; {WITHOUT_INDEX}")));
                }
                strays.push((file, why));
                continue;
            }
            // Two that overlap: the one behind isn't of this log.
            if id.0 < next {
                strays.push((file, format!("segments before {next} are there already")));
                continue;
            }
            if id.0 - next > MISSING_MAX {
                strays.push((file, format!("segments {next} to {} are missing", id.0 - 1)));
                stray_position = stray_position.max(state.next_position());
                continue;
            }
            slots.extend((next..id.0).map(|number| Slot {
                id: SegmentId(number),
                state: State::Lost(None),
            }));
            slots.push(Slot { id, state });
        }
        let mut found = Self {
            slots,
            strays,
            stray_position,
            misnamed: Vec::new(),
        };
        found.drop_odd(&named_salts(
            sources.checkpoint.as_ref(),
            sources.end.as_ref(),
        ));
        found.fill_ranges();
        found.find_misnamed();
        found.drop_tail();
        Ok(found)
    }

    /// Drops what doesn't fit between its neighbours: an older copy, or a file of another history of the store.
    /// `named` are segments that something else names, and their salts.
    fn drop_odd(&mut self, named: &[Option<(SegmentId, u32)>]) {
        let is_named = |slot: &Slot| match &slot.state {
            State::Usable(segment) => named.contains(&Some((slot.id, segment.header.salt))),
            _ => false,
        };
        let is_first = |slot: &Slot| match &slot.state {
            State::Usable(segment) => segment.header.predecessor_end == 0,
            _ => true,
        };
        if let Some(first) = self.slots.first_mut().filter(|slot| !is_first(slot)) {
            let why = "its header names a segment before it".to_owned();
            first.state = State::Lost(Some(first.state.stray(first.id, why)));
        }
        for place in 1..self.slots.len() {
            let Some(why) = unlinked(&self.slots[place - 1], &self.slots[place]) else {
                continue;
            };
            let holds = |one: Option<usize>, other: usize| {
                let pair = one
                    .and_then(|one| self.slots.get(one))
                    .zip(self.slots.get(other));
                pair.is_some_and(|(one, other)| is_linked(one, other))
            };
            let before_holds = place == 1 || holds(place.checked_sub(2), place - 1);
            let is_before =
                holds(Some(place), place + 1) && !before_holds || is_named(&self.slots[place]);
            let odd = if is_before { place - 1 } else { place };
            let odd = &mut self.slots[odd];
            odd.state = State::Lost(Some(odd.state.stray(odd.id, why)));
        }
    }

    /// A pack that can't be used leaves the places of all segments that it stands for.
    fn fill_ranges(&mut self) {
        let slots = std::mem::take(&mut self.slots);
        for slot in slots {
            let last = match &slot.state {
                State::Lost(Some(_)) => slot.last_id(),
                _ => slot.id,
            };
            let others = (slot.id.0..=last.0).skip(1);
            self.slots.push(slot);
            self.slots.extend(others.map(|number| Slot {
                id: SegmentId(number),
                state: State::Lost(None),
            }));
        }
    }

    /// Notes files that are segments of the log under the names of others, and what positions the unusable ones have.
    fn find_misnamed(&mut self) {
        let is_usable = |id: SegmentId| {
            self.slots.iter().any(|slot| {
                slot.id == id && matches!(slot.state, State::Usable(_) | State::Headless { .. })
            })
        };
        let mut misnamed = Vec::new();
        for slot in &self.slots {
            let State::Lost(Some(unusable)) = &slot.state else {
                continue;
            };
            self.stray_position = self.stray_position.max(unusable.next_position);
            misnamed.extend(
                unusable
                    .is_segment
                    .filter(|id| !is_usable(*id))
                    .map(|id| (slot.id, id)),
            );
        }
        self.misnamed = misnamed;
    }

    /// Behind the last that can be used, nothing has to be filled in.
    fn drop_tail(&mut self) {
        // A pack that isn't put aside stays in its place.
        let is_lost = |slot: &mut Slot| match &slot.state {
            State::Lost(why) => why.as_ref().is_none_or(|unusable| !unusable.has_records),
            _ => false,
        };
        while let Some(Slot {
            state: State::Lost(why),
            ..
        }) = self.slots.pop_if(is_lost)
        {
            self.strays
                .extend(why.map(|unusable| (unusable.file, unusable.why)));
        }
    }
}

fn is_linked(before: &Slot, after: &Slot) -> bool {
    matches!(
        (&before.state, &after.state),
        (State::Usable(_), State::Usable(_))
    ) && unlinked(before, after).is_none()
}

/// Why a segment can't follow another. What isn't known of one can't contradict the other.
fn unlinked(before: &Slot, after: &Slot) -> Option<String> {
    let (State::Usable(before), State::Usable(after)) = (&before.state, &after.state) else {
        return None;
    };
    let header = &after.header;
    let differs = |what: &str, expected: u64, found: u64| {
        (expected != found).then(|| {
            format!(
                "{} does not follow {}: it expects {what} {found}, which is {expected}",
                after.name, before.name
            )
        })
    };
    let (trailer, (salt, end, _)) = (before.trailer(), before.ending());
    differs("the salt", salt.into(), header.predecessor_salt.into())
        .or_else(|| end.and_then(|end| differs("an end at", end, header.predecessor_end)))
        .or_else(|| {
            let next = trailer.map_or(before.header.base_position, |trailer| trailer.next_position);
            differs(
                "a next position of at most",
                next,
                header.base_position.min(next),
            )
        })
}

/// What a file is good for.
fn open(storage: &dyn Storage, id: SegmentId, identity: &Identity) -> Result<State> {
    let error = match Segment::open(storage, id, Access::Read, &identity.store) {
        Ok(segment) => return Ok(State::Usable(Arc::new(segment))),
        Err(error) if error.kind() == ErrorKind::Damaged => error,
        Err(error) => return Err(error),
    };
    let name = files::segment_name(id);
    let doing = || format!("reading {name}");
    let file = storage.open(&name, Access::Read).with_context(doing)?;
    let length = file
        .len()
        .with_context(doing)?
        .min(limits::SEGMENT_BYTES_MAX);
    let mut start = vec![
        0;
        usize::try_from(length)
            .unwrap_or(HEADER_BYTES)
            .min(HEADER_BYTES)
    ];
    file.read_at(0, &mut start).with_context(doing)?;
    let misnamed = |header: &Header, next_position| {
        let why = format!(
            "it is {} of this store, under another name",
            files::segment_name(header.segment)
        );
        Ok(State::Lost(Some(Unusable {
            is_segment: Some(header.segment),
            next_position,
            ..Unusable::of(SegmentFile::of_log(id), why)
        })))
    };
    let lost = |why: String| {
        let unusable = Unusable::of(SegmentFile::of_log(id), why);
        Ok(State::Lost(Some(unusable)))
    };
    match Header::decode(&start, &name) {
        // Only longer than a segment can be: what follows is none of it.
        Ok(header) if header.segment == id && header.store == identity.store => {
            return Ok(State::Usable(Arc::new(Segment::unsealed(header, file))));
        }
        Ok(header) if header.store == identity.store => {
            let end = length.saturating_sub(TRAILER_BYTES as u64);
            let mut trailer = [0; TRAILER_BYTES];
            let is_read = end > 0 && file.read_at(end, &mut trailer).is_ok();
            let trailer = is_read
                .then(|| Trailer::decode(&trailer, &header, length).ok().flatten())
                .flatten();
            return misnamed(&header, next_position(&header, trailer.as_ref()));
        }
        Ok(_) => return lost(error.to_string()),
        Err(header) if header.kind() == ErrorKind::Damaged => {}
        Err(header) => return Err(header),
    }
    // The copy that ends its index block says which segment it is as well as those at its beginning.
    match footer_of(&*file, &name)? {
        Some(footer) if footer.store != identity.store => {
            return lost(format!("{name}: it is a segment of another store"));
        }
        Some(footer) if footer.segment != id => return misnamed(&footer, footer.base_position),
        _ => {}
    }
    let source = FileSource {
        file: file.clone(),
        name,
    };
    match seed::find(&source, DATA_START, length, 0)?.first() {
        Some(seed) => Ok(State::Headless { file, seed: *seed }),
        None => lost(error.to_string()),
    }
}

/// A file without a header.
struct FileSource {
    file: Arc<dyn File>,
    name: String,
}

impl Source for FileSource {
    fn read(&self, offset: u64, length: u64) -> Result<bytes::Bytes> {
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
        let doing = || format!("{}: reading {length} bytes at {offset}", self.name);
        self.file.read_at(offset, &mut bytes).with_context(doing)?;
        Ok(bytes.into())
    }
}

/// The copies of a segment's header at its start that are not what it should be: where they begin, and what is wrong.
pub(crate) fn wrong_copies(segment: &Segment) -> Result<Vec<(usize, String)>> {
    let doing = || format!("reading the header of {}", segment.name);
    let length = segment.file.len().with_context(doing)?.min(DATA_START);
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(HEADER_BYTES)];
    segment.file.read_at(0, &mut bytes).with_context(doing)?;
    let mut wrong = Vec::new();
    for start in COPIES {
        let copy = bytes
            .get(start..)
            .and_then(|rest| rest.first_chunk::<COPY_BYTES>());
        let found = copy.map(|copy| Header::decode_copy(copy, &segment.name, start));
        match found {
            Some(Ok(header)) if header == segment.header => {}
            Some(Ok(_)) => wrong.push((
                start,
                "a copy of the header says something else than the other".to_owned(),
            )),
            Some(Err(error)) if error.kind() == ErrorKind::Damaged => {
                wrong.push((
                    start,
                    format!("a copy of the header is damaged, another is whole ({error})"),
                ));
            }
            Some(Err(error)) => return Err(error),
            None => wrong.push((
                start,
                "the file ends before this copy of the header".to_owned(),
            )),
        }
    }
    if wrong.is_empty() && length < DATA_START {
        wrong.push((
            COPIES[1],
            format!("the file ends at offset {length}, before its first record"),
        ));
    }
    Ok(wrong)
}
