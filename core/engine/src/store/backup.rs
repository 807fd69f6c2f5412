//! A consistent copy of a store that is in use: what is published when it begins, segment by segment.
//!
//! A sealed segment never changes, so that a copy of it is made once; of the active one the records are copied that are
//! published. Whatever cuts a backup off, what is there is a store that ends earlier, because it goes through the states
//! that a writer's crash leaves: a segment's records come first, under another name until they are whole; then the next
//! segment, empty; and only then what seals the one before.
//!
//! What is read to be copied is checked too. Damage of the store doesn't end the backup, since what else there is is worth
//! having, but for where it would take the place of what may be whole: it is the error when the rest was copied.

use std::sync::Arc;

use self::check::{Check, check_tail};
use super::{checkpoints, open, shared::Shared};
use crate::{
    Backup, BackupOptions, Error, ErrorKind, Position, Result,
    format::{files, segment::HEADER_BYTES},
    log::segment::Segment,
    storage::{Access, File, Storage},
};

mod check;

/// How many of the last bytes that a backup has of a segment are compared.
const COMPARED_BYTES: u64 = 64 << 10;
/// At how many places, evenly apart, a segment that a backup has is compared, and how many bytes at each.
const SAMPLES: u64 = 16;
const SAMPLE_BYTES: u64 = 4 << 10;
/// How many bytes are copied at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// How the names of segments end.
const SEGMENT: &str = ".seg";

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

/// Damage of the store that a backup met.
#[derive(Default)]
struct Damage {
    /// What it is in the first segment that has any.
    first: Option<Error>,
    /// How many segments have any.
    segments: u64,
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
pub(crate) fn backup(
    shared: &Shared,
    target: &dyn Storage,
    holder: &str,
    options: BackupOptions,
) -> Result<Backup> {
    let (sources, last_position) = sources(shared);
    let place = target.describe();
    if target.is_inside(&*shared.storage) {
        return Err(Error::new(
            ErrorKind::InvalidInput,
            format!(
                "{place} is inside the store's own folder, {}; give another one",
                shared.storage.describe()
            ),
        ));
    }
    let had = check_place(shared, target, &place)?;
    let _lock = open::lock(target, holder)?;
    if !had.iter().any(|name| name == files::IDENTITY) {
        checkpoints::replace_file(target, files::IDENTITY, &identity(&*shared.storage)?)?;
    }
    let sources = sources.map_err(|error| {
        Error::from_io(error, format!("{}: reading", shared.storage.describe()))
    })?;
    // Before anything is changed.
    let (mut plan, mut damage) = (Vec::with_capacity(sources.len()), Damage::default());
    for source in sources {
        let there = check_there(&source, target, &had, options, &mut damage)?;
        plan.push((source, there));
    }
    let newest = plan.last().map(|(source, _)| source.name.as_str());
    let is_beyond = |name: &&String| {
        name.ends_with(SEGMENT) && newest.is_none_or(|newest| name.as_str() > newest)
    };
    if let Some(later) = had.iter().find(is_beyond) {
        return Err(Error::new(
            ErrorKind::Conflict,
            format!("{place}: {later} is beyond the end of this store; give an empty folder"),
        ));
    }
    let done = copy_all(&plan, target, &had, &mut damage)?;
    target
        .sync_dir()
        .map_err(|error| Error::from_io(error, format!("{place}: making its names durable")))?;
    damage.check(&place)?;
    Ok(Backup {
        last_position,
        ..done
    })
}

impl Damage {
    fn add(&mut self, found: Option<Error>) {
        if let Some(error) = found {
            self.segments += 1;
            self.first.get_or_insert(error);
        }
    }

    /// An error where there is any.
    fn check(self, place: &str) -> Result<()> {
        let Some(first) = self.first else {
            return Ok(());
        };
        let others = match self.segments - 1 {
            0 => String::new(),
            1 => "; 1 more segment is damaged".to_owned(),
            others => format!("; {others} more segments are damaged"),
        };
        let message = format!(
            "{place}: everything was copied, but the store is damaged, and so is its copy: {first}{others}"
        );
        Err(Error::new(ErrorKind::Damaged, message))
    }
}

/// The segments to copy, and the last position that they have.
fn sources(shared: &Shared) -> (std::io::Result<Vec<Source>>, Position) {
    let durable = shared.durable();
    let source = |segment: &Arc<Segment>| {
        let data_end = durable.end_of(segment);
        let end = if segment.trailer().is_some() {
            segment.file.len()?
        } else {
            data_end
        };
        let (name, file) = (segment.name.clone(), Arc::clone(&segment.file));
        Ok(Source {
            name,
            segment: Arc::clone(segment),
            file,
            data_end,
            end,
        })
    };
    let sources: std::io::Result<Vec<Source>> = durable.segments.iter().map(source).collect();
    (sources, Position(durable.next_position - 1))
}

/// The files that the target has; refuses one that is no place for a backup of this store.
fn check_place(shared: &Shared, target: &dyn Storage, place: &str) -> Result<Vec<String>> {
    let failed =
        |error: std::io::Error, what: &str| Error::from_io(error, format!("{place}: {what}"));
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
            format!(
                "{place} was opened for writing since it was made, for it has {name}; give an empty folder"
            ),
        ));
    }
    Ok(had)
}

/// Copies what the target hasn't, segment by segment.
fn copy_all(
    plan: &[(Source, There)],
    target: &dyn Storage,
    had: &[String],
    damage: &mut Damage,
) -> Result<Backup> {
    let place = target.describe();
    let failed =
        |error: std::io::Error, what: &str| Error::from_io(error, format!("{place}: {what}"));
    let mut done = Backup::default();
    // A segment to be sealed, and whether what was copied of it is sound.
    let mut unsealed: Option<(&Source, bool)> = None;
    for (source, there) in plan {
        let copying = |error| failed(error, &format!("copying {}", source.name));
        if *there == There::Nothing {
            copy(source, HEADER_BYTES as u64, target, *there).map_err(copying)??;
        }
        if let Some((before, is_sound)) = unsealed.take() {
            let found = seal(before, target)
                .map_err(|error| failed(error, &format!("sealing {}", before.name)))?;
            damage.add(found.filter(|_| is_sound));
        }
        if *there == There::Same {
            done.segments_kept += 1;
            continue;
        }
        // No segment but the last two may lack what seals it, whatever breaks the backup off.
        let is_followed = had
            .iter()
            .any(|name| name.ends_with(SEGMENT) && *name > source.name);
        let end = if is_followed {
            source.end
        } else {
            source.data_end
        };
        let found = copy(source, end, target, *there).map_err(copying)??;
        unsealed = Some((source, found.is_none())).filter(|_| end < source.end);
        damage.add(found);
        done.segments_copied += 1;
        done.bytes_copied += source.end;
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
    read().map_err(|error| {
        Error::from_io(
            error,
            format!("{}: reading {}", storage.describe(), files::IDENTITY),
        )
    })
}

fn header(file: &dyn File) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; HEADER_BYTES];
    file.read_at(0, &mut bytes)?;
    Ok(bytes)
}

/// What the backup has of a segment; refuses to go on with what has become another store, or is the only whole copy.
fn check_there(
    source: &Source,
    target: &dyn Storage,
    had: &[String],
    options: BackupOptions,
    damage: &mut Damage,
) -> Result<There> {
    let (place, name) = (target.describe(), &source.name);
    let there = there(source, target, had, options);
    let (there, found) =
        there.map_err(|error| Error::from_io(error, format!("{place}: reading {name}")))?;
    match (there, found) {
        (There::Ahead, _) => Err(Error::new(
            ErrorKind::Conflict,
            format!(
                "{place}: {name} has what this store hasn't, or is damaged; verify it, or give an empty folder"
            ),
        )),
        (There::Damaged, Some(error)) => Err(only_copy(source, target, &error)),
        (there, found) => {
            damage.add(found);
            Ok(there)
        }
    }
}

/// What is damaged must not take the place of what may be whole.
fn only_copy(source: &Source, target: &dyn Storage, damage: &Error) -> Error {
    let (place, name) = (target.describe(), &source.name);
    let what = format!(
        "{place}: {name} isn't as the store has it, and the store's own is damaged, so that it isn't copied over: \
         {damage}; verify both, and repair the store, or restore it from the backup"
    );
    Error::new(ErrorKind::Damaged, what)
}

/// What the backup has of a segment, and the damage of the store's own where all of that was read.
///
/// A segment's header has a salt of its own, and what seals it has the checksum of its index and continues the chain of its
/// records: two that are sealed alike have the same history, so that what else differs is damage.
fn there(
    source: &Source,
    target: &dyn Storage,
    had: &[String],
    options: BackupOptions,
) -> std::io::Result<(There, Option<Error>)> {
    if !had.contains(&source.name) {
        return Ok((There::Nothing, None));
    }
    let there = target.open(&source.name, Access::Read)?;
    let is_whole = there.len()? == source.end;
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

/// Whether the header of a segment and samples of its records are as they were copied.
fn is_same_in_samples(source: &Source, there: &dyn File) -> std::io::Result<bool> {
    let begin = HEADER_BYTES as u64;
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
fn compare(source: &Source, there: &dyn File) -> std::io::Result<(bool, Option<Error>)> {
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

/// The bytes of the store's segment and of the backup's between two offsets.
fn both(source: &Source, there: &dyn File, from: u64, to: u64) -> std::io::Result<[Vec<u8>; 2]> {
    let length = usize::try_from(to - from).map_err(std::io::Error::other)?;
    let mut parts = [vec![0; length], vec![0; length]];
    source.file.read_at(from, &mut parts[0])?;
    there.read_at(from, &mut parts[1])?;
    Ok(parts)
}

/// What seals a segment.
fn tail(source: &Source, file: &dyn File) -> std::io::Result<Vec<u8>> {
    let length = usize::try_from(source.end - source.data_end).map_err(std::io::Error::other)?;
    let mut bytes = vec![0; length];
    file.read_at(source.data_end, &mut bytes)?;
    Ok(bytes)
}

/// Seals a segment whose records the backup has; gives the damage of what seals it.
fn seal(source: &Source, target: &dyn Storage) -> std::io::Result<Option<Error>> {
    let file = target.open(&source.name, Access::Write)?;
    let tail = tail(source, &*source.file)?;
    file.write_at(source.data_end, &tail)?;
    file.sync()?;
    Ok(check_tail(source, tail.into()))
}

/// Whether the backup's segment isn't a beginning of this one: the store was restored from an earlier backup, or the backup
/// was written to, so that the two have become different stores. Each record is chained to the one before, so that the last
/// ones tell of all.
fn is_ahead(source: &Source, there: &dyn File) -> std::io::Result<bool> {
    let length = there.len()?;
    if length > source.end
        || length < HEADER_BYTES as u64
        || header(there)? != header(&*source.file)?
    {
        return Ok(true);
    }
    let end = length.min(source.data_end);
    let [one, other] = both(source, there, end.saturating_sub(COMPARED_BYTES), end)?;
    Ok(one != other)
}

/// Copies a segment up to an offset, under another name until that is done, and gives its damage. The inner error is of
/// damage that would take the place of what may be whole.
fn copy(
    source: &Source,
    end: u64,
    target: &dyn Storage,
    had: There,
) -> std::io::Result<Result<Option<Error>>> {
    let unfinished = format!("{}{}", source.name, files::UNFINISHED);
    let write = || {
        let file = target.create(&unfinished)?;
        let (mut at, mut chunk, mut check) = (0, vec![0; CHUNK_BYTES], Check::new(source));
        while at < end {
            let length = usize::try_from(end - at)
                .unwrap_or(usize::MAX)
                .min(CHUNK_BYTES);
            source.file.read_at(at, &mut chunk[..length])?;
            check.take(&chunk[..length]);
            file.write_at(at, &chunk[..length])?;
            at += length as u64;
        }
        let damage = check.finish();
        if let Some(error) = damage.as_ref().filter(|_| had != There::Nothing)
            && !has_beginning(source, target)?
        {
            target.remove(&unfinished)?;
            return Ok(Err(only_copy(source, target, error)));
        }
        file.sync()?;
        target.rename(&unfinished, &source.name)?;
        target.sync_dir()?;
        Ok(Ok(damage))
    };
    // If it can't be removed now, the opening of the backup removes it.
    write().inspect_err(|_| drop(target.remove(&unfinished)))
}

/// Whether what the backup has of a segment is how the store's own begins.
fn has_beginning(source: &Source, target: &dyn Storage) -> std::io::Result<bool> {
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
