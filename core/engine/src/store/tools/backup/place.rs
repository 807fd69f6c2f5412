//! The existing contents of a backup's folder.

use std::io;

use super::{
    check::Check,
    source::{Source, both, header, tail},
};
use crate::{
    BackupOptions, Error, ErrorKind, Result,
    format::{files, segment::DATA_START},
    storage::{Access, File, Storage},
    store::{commit::shared::Shared, files::small, open::folder::IDENTITY_BYTES_MAX},
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
        return Err(Error::new(
            ErrorKind::InvalidInput,
            format!("{place} is another store; give an empty folder, or a backup of this one"),
        ));
    }
    // Left by a backup that was interrupted at its start.
    let unfinished = format!("{}{}", files::IDENTITY, files::UNFINISHED);
    let is_own = |name: &&String| **name == files::LOCK || **name == unfinished;
    if !is_backup && let Some(other) = had.iter().find(|name| !is_own(name)) {
        return Err(Error::new(
            ErrorKind::InvalidInput,
            format!("{place} has other files, such as {other}; give an empty folder"),
        ));
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
    let missing = || small::reading(storage, files::IDENTITY, io::ErrorKind::NotFound.into());
    let file = small::open(storage, files::IDENTITY)?.ok_or_else(missing)?;
    small::start(storage, files::IDENTITY, &*file, IDENTITY_BYTES_MAX)
}

/// The state of a segment in the backup, and the damage of the store's segment if all of it was read.
///
/// A segment's header has a salt of its own, and what seals it has the checksum of its index and continues the chain of
/// its records: two with the same seal have the same history, so any other difference is damage.
pub(super) fn there(
    source: &Source,
    target: &dyn Storage,
    had: &[String],
    options: BackupOptions,
) -> io::Result<(There, Option<Error>)> {
    if !had.contains(&source.name) {
        return Ok((There::Nothing, None));
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
            true => (There::Same, None),
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
