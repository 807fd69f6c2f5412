//! The existing contents of a backup's folder.

use std::{collections::VecDeque, io};

use super::{
    check::Check,
    source::{Source, both, header, tail},
};
use crate::{
    BackupOptions, Error, ErrorKind, Result,
    format::{
        files::{self, SegmentFile},
        segment::DATA_START,
    },
    log::{frame::Frame, scan::Scan, segment::Segment},
    storage::{Access, File, Storage},
    store::{commit::shared::Shared, files::small, open::folder::IDENTITY_BYTES_MAX, place::Place},
};

/// How many of the last bytes that a backup has of a segment are compared.
const COMPARED_BYTES: u64 = 64 << 10;

/// At how many places, evenly apart, a segment that a backup has is compared, and how many bytes at each.
const SAMPLES: u64 = 16;

const SAMPLE_BYTES: u64 = 4 << 10;

/// How many bytes are copied at a time.
pub(super) const CHUNK_BYTES: usize = 1 << 20;

/// The state of a segment in a backup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum There {
    /// Nothing.
    Nothing,
    /// A prefix of its records, or all of them without the seal.
    Beginning,
    /// All of it.
    Same,
    /// All of it, with bytes that differ from the copied ones.
    Damaged,
    /// Records that the store doesn't have.
    Ahead,
}

/// The files of the target; refuses a folder that can't hold a backup of this store.
pub(super) fn check_place(
    shared: &Shared,
    target: &dyn Storage,
    place: &str,
) -> Result<Vec<String>> {
    let failed = |error: io::Error, what: &str| Error::from_io(error, format!("{place}: {what}"));
    target
        .create_dir()
        .map_err(|error| failed(error, "making the folder"))?;
    let identity = identity(&*shared.storage)?;
    let had = target
        .list()
        .map_err(|error| failed(error, "listing its files"))?;
    let is_backup = had.iter().any(|name| name == files::IDENTITY);
    if is_backup && self::identity(target)? != identity {
        return Err(Error::invalid(format!(
            "{place} is another store; give an empty folder, or a backup of this one"
        )));
    }
    // Left by a backup that was interrupted at its start.
    let unfinished = format!("{}{}", files::IDENTITY, files::UNFINISHED);
    let is_own = |name: &&String| **name == files::LOCK || **name == unfinished;
    if !is_backup && let Some(other) = had.iter().find(|name| !is_own(name)) {
        return Err(Error::invalid(format!(
            "{place} has other files, such as {other}; give an empty folder"
        )));
    }
    // These files mean that a writer opened the backup: its records would be lost.
    let writers = [files::CHECKPOINT, files::END, files::WATERMARK];
    if let Some(name) = had.iter().find(|name| writers.contains(&name.as_str())) {
        return Err(Error::new(
            ErrorKind::Conflict,
            format!(
                "{place} was opened for writing since it was made, for it has {name}; give an empty folder"
            ),
        ));
    }
    Ok(had)
}

pub(super) fn identity(storage: &dyn Storage) -> Result<Vec<u8>> {
    let read = |file: &dyn File| small::start(file, IDENTITY_BYTES_MAX);
    let missing = || {
        let reading = format!("{}: reading {}", storage.describe(), files::IDENTITY);
        Error::from_io(io::ErrorKind::NotFound.into(), reading)
    };
    small::read(storage, files::IDENTITY, read)?.ok_or_else(missing)
}

/// The state of a segment in the backup, and the damage of the store's segment if all of it was read.
///
/// A segment's header has a salt of its own, and what seals it has the checksum of its index and continues the chain of
/// its records: two with the same seal have the same history, so any other difference is damage.
pub(super) fn there(
    shared: &Shared,
    source: &Source,
    target: &dyn Storage,
    had: &[String],
    options: BackupOptions,
) -> io::Result<(There, Option<Error>)> {
    if !had.contains(&source.name) {
        let is_ahead = source.segment.is_pack()
            && replaced(source, had).is_some_and(|file| has_more(shared, source, target, file));
        let found = if is_ahead {
            There::Ahead
        } else {
            There::Nothing
        };
        return Ok((found, None));
    }
    let there = target.open(&source.name, Access::Read)?;
    let is_whole = there.len()? == source.end;
    if source.segment.is_pack() {
        // It has its name only once it is whole.
        let is_same = is_whole
            && match options.verify {
                true => is_same_throughout(source, &*there)?,
                false => is_same_at_its_ends(source, &*there)?,
            };
        let (found, damage) = match is_same {
            true if !options.verify => (There::Same, None),
            true => (
                There::Same,
                source.damage_of_pack().map_err(io::Error::other)?,
            ),
            false => (
                There::Damaged,
                source.damage_of_pack().map_err(io::Error::other)?,
            ),
        };
        return Ok((found, damage));
    }
    let is_sealed_alike = is_whole
        && source.data_end < source.end
        && tail(source, &*there)? == tail(source, &*source.file)?;
    if !is_sealed_alike && is_ahead(source, &*there)? {
        return Ok((There::Ahead, None));
    }
    if !is_whole {
        return Ok((There::Beginning, None));
    }
    let is_sealed_otherwise = !is_sealed_alike && source.data_end < source.end;
    if !options.verify && !is_sealed_otherwise && is_same_in_samples(source, &*there)? {
        return Ok((There::Same, None));
    }
    let (is_same, damage) = compare(source, &*there)?;
    Ok((if is_same { There::Same } else { There::Damaged }, damage))
}

/// The last of the backup's files that this pack replaces: each of them is chained to the one before.
fn replaced(source: &Source, had: &[String]) -> Option<SegmentFile> {
    let pack = source.segment.named();
    had.iter()
        .filter_map(|name| SegmentFile::of_name(name))
        .filter(|file| pack.first <= file.first && file.last <= pack.last)
        .max_by_key(|file| (file.last, file.generation))
}

/// How many of the last records of a file are compared, until one is found that a compaction has left in the store.
const COMPARED_RECORDS: usize = 1 << 10;

/// Whether a file of the backup has records that the store never had: the store was restored from an earlier backup, or one of
/// the two was written to elsewhere, before it was compacted. One that can't be read may have some.
fn has_more(shared: &Shared, source: &Source, target: &dyn Storage, file: SegmentFile) -> bool {
    let store = &shared.identity.store;
    let Ok(there) = Segment::open_file(target, file, Access::Read, store) else {
        return true;
    };
    let (pack, ending) = (source.segment.named(), there.ending());
    if file.last == pack.last && ending == source.segment.ending() && ending.2.is_some() {
        return false;
    }
    let end = match there.trailer() {
        Some(trailer) => trailer.data_end,
        None => match there.file.len() {
            Ok(length) => length,
            Err(_) => return true,
        },
    };
    let mut last = VecDeque::with_capacity(COMPARED_RECORDS);
    let mut scan = Scan::of_file(&there, DATA_START, end);
    // It ends where there is no record: what follows was made room for, or wasn't whole when it was copied.
    while let Ok(Some(frame)) = scan.next() {
        if last.len() == COMPARED_RECORDS {
            last.pop_front();
        }
        let position = there.header.base_position + u64::from(frame.header.index);
        last.push_back((position, written(&there, &frame)));
    }
    let durable = shared.durable();
    for (position, theirs) in last.into_iter().rev() {
        let own = match Place::of(&durable, position) {
            // Behind the end of the store, or in what it lost.
            None => return true,
            Some(place) => place
                .frame()
                .map(|frame| frame.map(|frame| written(&place.segment, &frame))),
        };
        match own {
            // Dropped by a compaction, or damaged here.
            Ok(None) | Err(_) => {}
            // Its content was erased since, so that its checksum is another one.
            Ok(Some(own))
                if own.0 == theirs.0 && durable.directory.redacted().contains(position) => {}
            Ok(Some(own)) => return own != theirs,
        }
    }
    false
}

/// What tells a record from others at its position: when it was written, and the checksum of what it says.
fn written(segment: &Segment, frame: &Frame) -> (u64, u32) {
    let time_ms = segment.header.base_time_ms + u64::from(frame.header.time_delta_ms);
    (time_ms, frame.header.body_crc)
}

fn is_same_at_its_ends(source: &Source, there: &dyn File) -> io::Result<bool> {
    let from = source.end.saturating_sub(COMPARED_BYTES);
    let [one, other] = both(source, there, from, source.end)?;
    Ok(one == other && header(there)? == header(&*source.file)?)
}

fn is_same_throughout(source: &Source, there: &dyn File) -> io::Result<bool> {
    let mut at = 0;
    while at < source.end {
        let end = (at + CHUNK_BYTES as u64).min(source.end);
        let [one, other] = both(source, there, at, end)?;
        if one != other {
            return Ok(false);
        }
        at = end;
    }
    Ok(true)
}

/// Whether the header of a segment and samples of its records are as they were copied.
fn is_same_in_samples(source: &Source, there: &dyn File) -> io::Result<bool> {
    let begin = DATA_START;
    if header(there)? != header(&*source.file)? {
        return Ok(false);
    }
    let step = (source.data_end.saturating_sub(begin) / SAMPLES).max(SAMPLE_BYTES);
    let mut at = begin;
    while at < source.data_end {
        let [one, other] = both(source, there, at, (at + SAMPLE_BYTES).min(source.data_end))?;
        if one != other {
            return Ok(false);
        }
        at += step;
    }
    Ok(true)
}

/// Whether all bytes of a segment are as they were copied, and the damage of the store's own.
fn compare(source: &Source, there: &dyn File) -> io::Result<(bool, Option<Error>)> {
    let (mut at, mut is_same, mut check) = (0, true, Check::new(source));
    while at < source.end {
        let end = (at + CHUNK_BYTES as u64).min(source.end);
        let [own, copied] = both(source, there, at, end)?;
        is_same &= own == copied;
        check.take(&own);
        at = end;
    }
    Ok((is_same, check.finish()))
}

/// Whether the backup's segment isn't a beginning of this one: the store was restored from an earlier backup, or the
/// backup was written to, so that the two have become different stores. Each record is chained to the one before, so
/// comparing the last ones is enough.
fn is_ahead(source: &Source, there: &dyn File) -> io::Result<bool> {
    let length = there.len()?;
    if length > source.end || length < DATA_START || header(there)? != header(&*source.file)? {
        return Ok(true);
    }
    let end = length.min(source.data_end);
    let [one, other] = both(source, there, end.saturating_sub(COMPARED_BYTES), end)?;
    Ok(one != other)
}

/// Whether the backup's segment is a prefix of the store's.
pub(super) fn has_beginning(source: &Source, target: &dyn Storage) -> io::Result<bool> {
    let there = target.open(&source.name, Access::Read)?;
    let (mut at, length) = (0, there.len()?.min(source.end));
    while at < length {
        let end = (at + CHUNK_BYTES as u64).min(length);
        let [one, other] = both(source, &*there, at, end)?;
        if one != other {
            return Ok(false);
        }
        at = end;
    }
    Ok(true)
}
