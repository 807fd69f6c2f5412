//! A consistent copy of a store that is in use: what is published when it begins, segment by segment.
//!
//! A sealed segment never changes, so that a copy of it is made once; of the active one the records are copied that are
//! published. Whatever cuts a backup off, what is there is a store that ends earlier, because it goes through the states
//! that a writer's crash leaves: a segment's records come first, under another name until they are whole; then the next
//! segment, empty; and only then what seals the one before.

use std::sync::Arc;

use super::{checkpoints, open, shared::Shared};
use crate::{
    Error, ErrorKind, Position, Result,
    format::{files, segment::HEADER_BYTES},
    log::segment::Segment,
    storage::{Access, File, Storage},
};

/// How many of the last bytes that a backup has of a segment are compared.
const COMPARED_BYTES: u64 = 64 << 10;
/// How many bytes are copied at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// How the names of segments end.
const SEGMENT: &str = ".seg";

/// What a backup did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Backup {
    /// Segments that were copied.
    pub copied: u64,
    /// Segments that the backup had already, as they are.
    pub kept: u64,
    /// The bytes that were copied.
    pub bytes: u64,
    /// The last position that the backup has.
    pub last_position: Position,
}

/// One segment to copy.
struct Source {
    name: String,
    file: Arc<dyn File>,
    /// Where its records end.
    data_end: u64,
    /// Where what seals it ends; the end of its records where it isn't sealed.
    end: u64,
}

/// Copies what is published to another place, durably.
pub(crate) fn backup(shared: &Shared, target: &dyn Storage, holder: &str) -> Result<Backup> {
    let (sources, last_position) = {
        let durable = shared.durable();
        let source = |segment: &Arc<Segment>| {
            let data_end = durable.end_of(segment);
            let end = if segment.trailer().is_some() { segment.file.len()? } else { data_end };
            Ok(Source { name: segment.name.clone(), file: Arc::clone(&segment.file), data_end, end })
        };
        let sources: std::io::Result<Vec<Source>> = durable.segments.iter().map(source).collect();
        (sources, Position(durable.next_position - 1))
    };
    let place = target.describe();
    let failed = |error: std::io::Error, what: &str| Error::from_io(error, format!("{place}: {what}"));
    target.create_dir().map_err(|error| failed(error, "making the folder"))?;
    let identity = identity(&*shared.storage)?;
    let had = target.list().map_err(|error| failed(error, "listing its files"))?;
    let is_backup = had.iter().any(|name| name == files::IDENTITY);
    if is_backup && self::identity(target)? != identity {
        return Err(Error::new(
            ErrorKind::InvalidInput,
            format!("{place} is another store; give an empty folder, or a backup of this one"),
        ));
    }
    // What a backup leaves that was cut off before it had begun.
    let unfinished = format!("{}{}", files::IDENTITY, files::UNFINISHED);
    let is_own = |name: &&String| **name == files::LOCK || **name == unfinished;
    if !is_backup && let Some(other) = had.iter().find(|name| !is_own(name)) {
        return Err(Error::new(
            ErrorKind::InvalidInput,
            format!("{place} has other files, such as {other}; give an empty folder"),
        ));
    }
    // A writer leaves these: what it wrote would be lost.
    let writers = [files::CHECKPOINT, files::END, files::WATERMARK];
    if let Some(name) = had.iter().find(|name| writers.contains(&name.as_str())) {
        return Err(Error::new(
            ErrorKind::Conflict,
            format!("{place} was opened for writing since it was made, for it has {name}; give an empty folder"),
        ));
    }
    let _lock = open::lock(target, holder)?;
    if !is_backup {
        checkpoints::replace_file(target, files::IDENTITY, &identity)?;
    }
    let mut done = Backup { last_position, ..Backup::default() };
    let sources = sources.map_err(|error| Error::from_io(error, format!("{}: reading", shared.storage.describe())))?;
    // Before anything is changed.
    for source in &sources {
        check_history(source, target, &had, &place)?;
    }
    let newest = sources.last().map(|source| source.name.as_str());
    if let Some(later) =
        had.iter().find(|name| name.ends_with(SEGMENT) && newest.is_none_or(|newest| name.as_str() > newest))
    {
        return Err(Error::new(
            ErrorKind::Conflict,
            format!("{place}: {later} is beyond the end of this store; give an empty folder"),
        ));
    }
    let mut unsealed: Option<&Source> = None;
    for source in &sources {
        let copying = |error| failed(error, &format!("copying {}", source.name));
        let is_same = is_same(source, target, &had).map_err(copying)?;
        if !had.contains(&source.name) {
            copy(source, HEADER_BYTES as u64, target).map_err(copying)?;
        }
        if let Some(before) = unsealed.take() {
            seal(before, target).map_err(|error| failed(error, &format!("sealing {}", before.name)))?;
        }
        if is_same {
            done.kept += 1;
            continue;
        }
        copy(source, source.data_end, target).map_err(copying)?;
        unsealed = Some(source).filter(|source| source.data_end < source.end);
        done.copied += 1;
        done.bytes += source.end;
    }
    target.sync_dir().map_err(|error| failed(error, "making its names durable"))?;
    Ok(done)
}

fn identity(storage: &dyn Storage) -> Result<Vec<u8>> {
    let read = || {
        let file = storage.open(files::IDENTITY, Access::Read)?;
        let mut bytes = vec![0; usize::try_from(file.len()?).unwrap_or(usize::MAX).min(4096)];
        file.read_at(0, &mut bytes)?;
        Ok(bytes)
    };
    read().map_err(|error| Error::from_io(error, format!("{}: reading {}", storage.describe(), files::IDENTITY)))
}

fn header(file: &dyn File) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; HEADER_BYTES];
    file.read_at(0, &mut bytes)?;
    Ok(bytes)
}

/// Whether the backup has the segment as it is: its header has a salt of its own, its records are there as a whole or not at
/// all, and what seals it is compared.
fn is_same(source: &Source, target: &dyn Storage, had: &[String]) -> std::io::Result<bool> {
    if !had.contains(&source.name) {
        return Ok(false);
    }
    let there = target.open(&source.name, Access::Read)?;
    if there.len()? != source.end || header(&*there)? != header(&*source.file)? {
        return Ok(false);
    }
    Ok(tail(source, &*there)? == tail(source, &*source.file)?)
}

/// What seals a segment.
fn tail(source: &Source, file: &dyn File) -> std::io::Result<Vec<u8>> {
    let length = usize::try_from(source.end - source.data_end).map_err(std::io::Error::other)?;
    let mut bytes = vec![0; length];
    file.read_at(source.data_end, &mut bytes)?;
    Ok(bytes)
}

/// Seals a segment whose records the backup has.
fn seal(source: &Source, target: &dyn Storage) -> std::io::Result<()> {
    let file = target.open(&source.name, Access::Write)?;
    file.write_at(source.data_end, &tail(source, &*source.file)?)?;
    file.sync()
}

/// Refuses to go on with a backup of the same store that has what this one hasn't: the store was restored from an earlier
/// backup, or the backup was written to, so that the two have become different stores.
fn check_history(source: &Source, target: &dyn Storage, had: &[String], place: &str) -> Result<()> {
    if !had.contains(&source.name) {
        return Ok(());
    }
    match is_ahead(source, target) {
        Ok(false) => Ok(()),
        Ok(true) => Err(Error::new(
            ErrorKind::Conflict,
            format!("{place}: {} has what this store hasn't; give an empty folder", source.name),
        )),
        Err(error) => Err(Error::from_io(error, format!("{place}: reading {}", source.name))),
    }
}

/// Whether the backup's segment isn't a beginning of this one. Each record is chained to the one before, so that the last
/// ones tell of all.
fn is_ahead(source: &Source, target: &dyn Storage) -> std::io::Result<bool> {
    let there = target.open(&source.name, Access::Read)?;
    let length = there.len()?;
    if length > source.end || length < HEADER_BYTES as u64 || header(&*there)? != header(&*source.file)? {
        return Ok(true);
    }
    let end = length.min(source.data_end);
    let begin = end.saturating_sub(COMPARED_BYTES);
    let length = usize::try_from(end - begin).map_err(std::io::Error::other)?;
    let mut parts = [vec![0; length], vec![0; length]];
    there.read_at(begin, &mut parts[0])?;
    source.file.read_at(begin, &mut parts[1])?;
    Ok(parts[0] != parts[1])
}

/// Copies a segment up to an offset, under another name until that is done.
fn copy(source: &Source, end: u64, target: &dyn Storage) -> std::io::Result<()> {
    let unfinished = format!("{}{}", source.name, files::UNFINISHED);
    let write = || {
        let file = target.create(&unfinished)?;
        let (mut at, mut chunk) = (0, vec![0; CHUNK_BYTES]);
        while at < end {
            let length = usize::try_from(end - at).unwrap_or(usize::MAX).min(CHUNK_BYTES);
            source.file.read_at(at, &mut chunk[..length])?;
            file.write_at(at, &chunk[..length])?;
            at += length as u64;
        }
        file.sync()?;
        target.rename(&unfinished, &source.name)?;
        target.sync_dir()
    };
    // If it can't be removed now, the opening of the backup removes it.
    write().inspect_err(|_| drop(target.remove(&unfinished)))
}
