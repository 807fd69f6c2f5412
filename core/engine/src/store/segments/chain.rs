//! The chain of segments: checks that each continues the one before, and whether it is sealed.

use std::{cmp::Reverse, io};

use crate::{
    Error, ErrorKind, Result, SegmentId,
    format::{
        files::{self, SegmentFile},
        index::Block,
        segment::DATA_START,
    },
    log::segment::Segment,
    storage::{Access, IoContext, Storage},
    sync::Arc,
};

/// The files with records of the log, separated into valid ones and those that a pack has replaced.
#[derive(Default)]
pub(crate) struct SegmentFiles {
    /// In order.
    pub(crate) current: Vec<SegmentFile>,
    /// Left by a compaction that a crash interrupted: the next writer removes them.
    pub(crate) replaced: Vec<SegmentFile>,
}

/// The existing files of segments and packs.
pub(crate) fn segment_files(storage: &dyn Storage) -> Result<SegmentFiles> {
    let names = storage
        .list()
        .with_context(|| format!("listing {}", storage.describe()))?;
    Ok(SegmentFiles::of(
        names
            .iter()
            .filter_map(|name| SegmentFile::of_name(name))
            .collect(),
    ))
}

impl SegmentFiles {
    pub(crate) fn of(mut files: Vec<SegmentFile>) -> Self {
        // Of those that begin at one segment the longest first, and of as long ones the newest: each that another one
        // replaces then follows that one.
        runlog_log::order::sort_by_key(&mut files, |file| {
            (file.first, Reverse((file.last, file.generation)))
        });
        let mut found = Self::default();
        for file in files {
            let mut before = found
                .current
                .iter()
                .rev()
                .take_while(|other| other.last >= file.first);
            match before.any(|other| other.replaces(&file)) {
                true => found.replaced.push(file),
                false => found.current.push(file),
            }
        }
        found
    }
}

/// The place at which to continue after `at`, which a pack has replaced: the beginning of the segment after the pack.
pub(crate) fn behind_pack(storage: &dyn Storage, at: (SegmentId, u64)) -> Result<(SegmentId, u64)> {
    let files = segment_files(storage)?.current;
    let pack = files
        .iter()
        .find(|file| file.generation != 0 && (file.first..=file.last).contains(&at.0));
    Ok(pack.map_or(at, |pack| {
        (SegmentId(pack.last.0.saturating_add(1)), DATA_START)
    }))
}

/// Opens every segment up to `last`, and checks that each follows the one before. Those behind `last` must follow too: they
/// may be a writer's newest, but no others.
pub(crate) fn open_segments(
    storage: &dyn Storage,
    store: &[u8; 16],
    access: Access,
    last: Option<SegmentId>,
) -> Result<Vec<Arc<Segment>>> {
    let mut files = segment_files(storage)?.current;
    let mut segments: Vec<Arc<Segment>> = Vec::with_capacity(files.len());
    loop {
        let known = segments.last().map_or(SegmentId(0), |last| last.last_id());
        let new: Vec<_> = files.iter().filter(|file| file.last > known).collect();
        let mut next = next_id(&segments);
        let in_order = new.iter().take_while(|file| {
            let is_next = file.first == next;
            next = SegmentId(file.last.0.saturating_add(1));
            is_next
        });
        // All of them are opened before any is read, so that a device with nothing in memory reads their ends at once.
        let mut opened: Vec<_> = in_order
            .map(|file| {
                // Only the last is appended to; sealing one opens its file again.
                let access = if Some(*file) == files.last() {
                    access
                } else {
                    Access::Read
                };
                let opened = storage.open(&file.name(), access);
                let asked = opened.and_then(|opened| {
                    Segment::will_open(&*opened)?;
                    Ok(opened)
                });
                (**file, asked)
            })
            .collect();
        let is_one_missing = opened.len() < new.len();
        // A failing device is reported before damage, which may only look like damage because of it.
        let is_failure = |opened: &io::Result<_>| matches!(opened, Err(error) if error.kind() != io::ErrorKind::NotFound);
        if let Some(place) = opened.iter().position(|(_, opened)| is_failure(opened)) {
            let (file, failed) = opened.swap_remove(place);
            Segment::of_file(storage, file, &file.name(), failed, store)?;
        }
        for (file, opened) in opened {
            let segment = Segment::of_file(storage, file, &file.name(), opened, store)?;
            match segments.last() {
                Some(before) => follows(before, &segment)?,
                None if segment.header.predecessor_end == 0 => {}
                None => {
                    return Err(
                        segment.damaged(0, "the first segment's header names one before it")
                    );
                }
            }
            if let Some(before) = segments.last_mut().and_then(Arc::get_mut) {
                before.reach_to(&segment.header);
            }
            segments.push(Arc::new(segment));
        }
        if is_one_missing {
            return Err(missing(storage, next_id(&segments)));
        }
        // A segment is sealed only once the next has its name. A writer may have done both since the folder was listed;
        // then the next exists now.
        if segments
            .last()
            .is_none_or(|segment| segment.trailer().is_none())
        {
            break;
        }
        files = segment_files(storage)?.current;
        let expected = next_id(&segments);
        if files.last().is_none_or(|file| file.last < expected) {
            // A reader in a browser sees an older listing of the folder together with current files: the writer may
            // have sealed this one meanwhile. All records published at the time of the listing exist.
            if last.is_some_and(|last| last < expected) {
                break;
            }
            return Err(missing_last(storage, expected));
        }
    }
    if let Some(last) = last {
        if segments.last().is_none_or(|found| found.last_id() < last) {
            return Err(missing_last(storage, last));
        }
        segments.retain(|segment| segment.id() <= last);
    }
    Ok(segments)
}

fn next_id(segments: &[Arc<Segment>]) -> SegmentId {
    SegmentId(
        segments
            .last()
            .map_or(1, |segment| segment.last_id().0.saturating_add(1)),
    )
}

fn missing(storage: &dyn Storage, id: SegmentId) -> Error {
    let message = format!(
        "{}: {} is missing; {REPAIRABLE}",
        storage.describe(),
        files::segment_name(id)
    );
    Error::damaged(message)
}

fn missing_last(storage: &dyn Storage, id: SegmentId) -> Error {
    let (place, name) = (storage.describe(), files::segment_name(id));
    Error::damaged(format!(
        "{place}: {name} is missing, the last of the log; {REPAIRABLE}"
    ))
}

const REPAIRABLE: &str = "restore it, or `runlog verify --repair` goes on with what is there";

fn follows(before: &Segment, segment: &Segment) -> Result<()> {
    let header = &segment.header;
    let next_position = before.trailer().map(|trailer| trailer.next_position);
    let (salt, end, index_crc) = before.ending();
    if header.predecessor_salt != salt
        || next_position.is_some_and(|position| position > header.base_position)
        || end.is_some_and(|end| end != header.predecessor_end)
        || index_crc.is_some_and(|crc| crc != header.predecessor_index_crc)
        || header.base_position < before.header.base_position
    {
        let message = format!(
            "it does not follow {}: it expects an end at {}, a next position of at most {} and an index with CRC {:08x}, \
             found {end:?}, {next_position:?} and {index_crc:08x?}",
            before.name, header.predecessor_end, header.base_position, header.predecessor_index_crc
        );
        return Err(segment.damaged(0, message));
    }
    Ok(())
}

/// What can be done with a pack that has records, but no index.
pub(crate) const WITHOUT_INDEX: &str = "restore the file from a backup; or move it elsewhere and repair, which goes on \
                                        without its records. `runlog salvage` reads those that are whole";

pub(crate) fn no_index(segment: &Segment) -> Error {
    Error::damaged(format!(
        "{}: its index block, which was durable, is missing; `runlog verify --repair` makes it again from the records",
        segment.name
    ))
}

/// The error of a pack whose index can't be read.
pub(crate) fn pack_without_index(segment: &Segment) -> Result<Error> {
    let why = match segment.block() {
        Err(error) if error.kind() == ErrorKind::Damaged => error.to_string(),
        block => {
            block?;
            format!("{}: its index is missing", segment.name)
        }
    };
    let message = format!(
        "{why}; `runlog verify --repair` makes it again where the records tell all of it, and else changes nothing: then {WITHOUT_INDEX}"
    );
    Ok(Error::damaged(message))
}

/// The index block of a segment with its labels; `Ok(Err(_))` when it doesn't check.
pub(crate) fn checked_block(
    segment: &Segment,
) -> Result<std::result::Result<Option<Arc<Block>>, String>> {
    match segment.whole_block() {
        Ok(block) => Ok(Ok(block)),
        Err(error) if error.kind() == ErrorKind::Damaged => Ok(Err(error.to_string())),
        Err(error) => Err(error),
    }
}

/// Whether a segment's index block is missing or doesn't check. If it is proven durable, as that of a pack is, its labels
/// aren't checked.
pub(crate) fn has_no_index(segment: &Segment, next: &Segment) -> Result<bool> {
    if segment.is_pack() || segment.trailer().is_some() && !is_seal_unproven(next)? {
        return match segment.block() {
            Err(error) if error.kind() != ErrorKind::Damaged => Err(error),
            block => Ok(block.is_err()),
        };
    }
    Ok(!matches!(checked_block(segment)?, Ok(Some(_))))
}

/// Whether the seal of the segment before `next` is not proven durable. Only a record in `next` proves it.
pub(crate) fn is_seal_unproven(next: &Segment) -> Result<bool> {
    Ok(next.trailer().is_none() && !next.has_record()?)
}

/// Whether a crash may have interrupted the write of a segment's index block. Otherwise a missing or invalid one is
/// damage.
pub(crate) fn is_half_written(segment: &Segment, next: &Segment) -> Result<bool> {
    Ok(has_no_index(segment, next)? && is_seal_unproven(next)?)
}
