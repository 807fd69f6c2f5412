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
    log::{scan::Scan, segment::Segment},
    storage::{Access, File, Storage},
};

/// How many of the last bytes that a backup has of a segment are compared.
const COMPARED_BYTES: u64 = 64 << 10;
/// At how many places, evenly apart, a segment that a backup has is compared, and how many bytes at each.
const SAMPLES: u64 = 16;
const SAMPLE_BYTES: u64 = 4 << 10;
/// How many bytes are copied at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// How the names of segments end.
const SEGMENT: &str = ".seg";

/// How to make a backup.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BackupOptions {
    /// Compare all bytes that an earlier backup has with the store's, and copy again what is damaged. Without it a
    /// segment's length, header and end are compared, and samples of its records.
    pub verify: bool,
}

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
    segment: Arc<Segment>,
    file: Arc<dyn File>,
    /// Where its records end.
    data_end: u64,
    /// Where what seals it ends; the end of its records where it isn't sealed.
    end: u64,
}

/// What a backup has of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum There {
    /// Nothing.
    Nothing,
    /// Its beginning, or all of its records and not what seals it.
    Beginning,
    /// All of it.
    Same,
    /// All of it, and some of it isn't as it was copied.
    Damaged,
    /// Something that the store hasn't.
    Ahead,
}

/// Copies what is published to another place, durably.
pub(crate) fn backup(shared: &Shared, target: &dyn Storage, holder: &str, options: BackupOptions) -> Result<Backup> {
    let (sources, last_position) = sources(shared);
    let place = target.describe();
    let had = check_place(shared, target, &place)?;
    let _lock = open::lock(target, holder)?;
    if !had.iter().any(|name| name == files::IDENTITY) {
        checkpoints::replace_file(target, files::IDENTITY, &identity(&*shared.storage)?)?;
    }
    let sources = sources.map_err(|error| Error::from_io(error, format!("{}: reading", shared.storage.describe())))?;
    // Before anything is changed.
    let mut plan = Vec::with_capacity(sources.len());
    for source in sources {
        let there = check_there(&source, target, &had, options)?;
        plan.push((source, there));
    }
    let newest = plan.last().map(|(source, _)| source.name.as_str());
    let is_beyond = |name: &&String| name.ends_with(SEGMENT) && newest.is_none_or(|newest| name.as_str() > newest);
    if let Some(later) = had.iter().find(is_beyond) {
        return Err(Error::new(
            ErrorKind::Conflict,
            format!("{place}: {later} is beyond the end of this store; give an empty folder"),
        ));
    }
    let done = copy_all(&plan, target, &had)?;
    target.sync_dir().map_err(|error| Error::from_io(error, format!("{place}: making its names durable")))?;
    Ok(Backup { last_position, ..done })
}

/// The segments to copy, and the last position that they have.
fn sources(shared: &Shared) -> (std::io::Result<Vec<Source>>, Position) {
    let durable = shared.durable();
    let source = |segment: &Arc<Segment>| {
        let data_end = durable.end_of(segment);
        let end = if segment.trailer().is_some() { segment.file.len()? } else { data_end };
        let (name, file) = (segment.name.clone(), Arc::clone(&segment.file));
        Ok(Source { name, segment: Arc::clone(segment), file, data_end, end })
    };
    let sources: std::io::Result<Vec<Source>> = durable.segments.iter().map(source).collect();
    (sources, Position(durable.next_position - 1))
}

/// The files that the target has; refuses one that is no place for a backup of this store.
fn check_place(shared: &Shared, target: &dyn Storage, place: &str) -> Result<Vec<String>> {
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
    Ok(had)
}

/// Copies what the target hasn't, segment by segment.
fn copy_all(plan: &[(Source, There)], target: &dyn Storage, had: &[String]) -> Result<Backup> {
    let place = target.describe();
    let failed = |error: std::io::Error, what: &str| Error::from_io(error, format!("{place}: {what}"));
    let mut done = Backup::default();
    let mut unsealed: Option<&Source> = None;
    for (source, there) in plan {
        let copying = |error| failed(error, &format!("copying {}", source.name));
        if *there == There::Nothing {
            copy(source, HEADER_BYTES as u64, target).map_err(copying)?;
        }
        if let Some(before) = unsealed.take() {
            seal(before, target).map_err(|error| failed(error, &format!("sealing {}", before.name)))?;
        }
        if *there == There::Same {
            done.kept += 1;
            continue;
        }
        // No segment but the last two may lack what seals it, whatever breaks the backup off.
        let is_followed = had.iter().any(|name| name.ends_with(SEGMENT) && *name > source.name);
        let end = if is_followed { source.end } else { source.data_end };
        copy(source, end, target).map_err(copying)?;
        unsealed = Some(source).filter(|source| end < source.end);
        done.copied += 1;
        done.bytes += source.end;
    }
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

/// What the backup has of a segment; refuses to go on with what has become another store, or is the only whole copy.
fn check_there(source: &Source, target: &dyn Storage, had: &[String], options: BackupOptions) -> Result<There> {
    let (place, name) = (target.describe(), &source.name);
    let there = there(source, target, had, options);
    match there.map_err(|error| Error::from_io(error, format!("{place}: reading {name}")))? {
        There::Ahead => Err(Error::new(
            ErrorKind::Conflict,
            format!("{place}: {name} has what this store hasn't, or is damaged; verify it, or give an empty folder"),
        )),
        There::Damaged => {
            check_whole(source).map_err(|error| {
                let what = format!(
                    "{place}: {name} isn't as the store has it, and the store's own is damaged, so that it isn't copied \
                     over: {error}; verify both, and repair the store, or restore it from the backup"
                );
                Error::new(ErrorKind::Damaged, what)
            })?;
            Ok(There::Damaged)
        }
        there => Ok(there),
    }
}

/// A segment's header has a salt of its own, and what seals it has the checksum of its index and continues the chain of its
/// records: two that are sealed alike have the same history, so that what else differs is damage.
fn there(source: &Source, target: &dyn Storage, had: &[String], options: BackupOptions) -> std::io::Result<There> {
    if !had.contains(&source.name) {
        return Ok(There::Nothing);
    }
    let there = target.open(&source.name, Access::Read)?;
    let is_whole = there.len()? == source.end;
    let is_sealed_alike =
        is_whole && source.data_end < source.end && tail(source, &*there)? == tail(source, &*source.file)?;
    if !is_sealed_alike && is_ahead(source, &*there)? {
        return Ok(There::Ahead);
    }
    if !is_sealed_alike && (!is_whole || source.data_end < source.end) {
        return Ok(There::Beginning);
    }
    Ok(if is_same(source, &*there, options)? { There::Same } else { There::Damaged })
}

/// Whether a segment's header and records are as they were copied.
fn is_same(source: &Source, there: &dyn File, options: BackupOptions) -> std::io::Result<bool> {
    let begin = HEADER_BYTES as u64;
    if header(there)? != header(&*source.file)? {
        return Ok(false);
    }
    let length = source.data_end.saturating_sub(begin);
    let (step, bytes) = if options.verify {
        (CHUNK_BYTES as u64, CHUNK_BYTES as u64)
    } else {
        ((length / SAMPLES).max(SAMPLE_BYTES), SAMPLE_BYTES)
    };
    let mut at = begin;
    while at < source.data_end {
        let length = usize::try_from((source.data_end - at).min(bytes)).map_err(std::io::Error::other)?;
        let mut parts = [vec![0; length], vec![0; length]];
        there.read_at(at, &mut parts[0])?;
        source.file.read_at(at, &mut parts[1])?;
        if parts[0] != parts[1] {
            return Ok(false);
        }
        at += step;
    }
    Ok(true)
}

/// Reads the records of the store's own segment: what is damaged must not take the place of what may be whole.
fn check_whole(source: &Source) -> Result<()> {
    let mut scan = Scan::of_file(&source.segment, HEADER_BYTES as u64, source.data_end);
    while scan.next_of_any_kind()?.is_some() {}
    Ok(())
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

/// Whether the backup's segment isn't a beginning of this one: the store was restored from an earlier backup, or the backup
/// was written to, so that the two have become different stores. Each record is chained to the one before, so that the last
/// ones tell of all.
fn is_ahead(source: &Source, there: &dyn File) -> std::io::Result<bool> {
    let length = there.len()?;
    if length > source.end || length < HEADER_BYTES as u64 || header(there)? != header(&*source.file)? {
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
