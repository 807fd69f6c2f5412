//! Copying the segments of a store.

use std::io;

use super::{
    check::{Check, check_tail},
    place::{CHUNK_BYTES, There, check_place, has_beginning, identity, there},
    source::{Source, sources, tail},
};
use crate::{
    Backup, BackupOptions, Error, ErrorKind, Result,
    format::{
        files::{self, SegmentFile},
        segment::DATA_START,
    },
    storage::{Access, IoContext, Storage},
    store::{commit::shared::Shared, files::small, open::lock, segments::chain},
};

/// How the names of segments end.
const SEGMENT: &str = ".seg";

/// The damage of the store that a backup found.
#[derive(Default)]
struct Damage {
    /// What it is in the first segment that has any.
    first: Option<Error>,
    /// How many segments have any.
    segments: u64,
}

/// Copies what is published to another place, durably.
pub(crate) fn backup(
    shared: &Shared,
    target: &dyn Storage,
    holder: &str,
    options: BackupOptions,
) -> Result<Backup> {
    let (sources, last_position) = sources(shared)?;
    let place = target.describe();
    if target.is_inside(&*shared.storage) {
        return Err(Error::invalid(format!(
            "{place} is inside the store's own folder, {}; give another one",
            shared.storage.describe()
        )));
    }
    let had = check_place(shared, target, &place)?;
    let _lock = lock::lock(target, holder)?;
    if !had.iter().any(|name| name == files::IDENTITY) {
        small::replace(target, files::IDENTITY, &identity(&*shared.storage)?)?;
    }
    let sources = sources.with_context(|| format!("{}: reading", shared.storage.describe()))?;
    // Before anything is changed.
    let (mut plan, mut damage) = (Vec::with_capacity(sources.len()), Damage::default());
    for source in sources {
        let there = check_there(shared, &source, target, &had, options, &mut damage)?;
        plan.push((source, there));
    }
    let newest = plan.last().map(|(source, _)| source.segment.last_id());
    // A pack of the backup with later segments would replace segments that are copied now.
    let is_beyond = |name: &&String| {
        SegmentFile::of_name(name)
            .is_some_and(|file| newest.is_none_or(|newest| file.last > newest))
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
        .with_context(|| format!("{place}: making its names durable"))?;
    remove_replaced(target, &place)?;
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

    /// An error if there is any.
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
        Err(Error::damaged(message))
    }
}

/// Copies the segments that the target lacks.
fn copy_all(
    plan: &[(Source, There)],
    target: &dyn Storage,
    had: &[String],
    damage: &mut Damage,
) -> Result<Backup> {
    let mut unnamed = Vec::new();
    copy_each(plan, target, had, damage, &mut unnamed).inspect_err(|_| {
        for source in unnamed {
            drop(target.remove(&unfinished(source)));
        }
    })
}

/// Copies them one by one. `unnamed` are those that are whole, and haven't their names yet. A store never ends in what is
/// sealed, as packs are: they are named right before the segment behind them, so that a backup opens wherever it is cut off but
/// there.
fn copy_each<'p>(
    plan: &'p [(Source, There)],
    target: &dyn Storage,
    had: &[String],
    damage: &mut Damage,
    unnamed: &mut Vec<&'p Source>,
) -> Result<Backup> {
    let place = target.describe();
    let failed = |error: io::Error, what: &str| Error::from_io(error, format!("{place}: {what}"));
    let mut done = Backup::default();
    // A segment to be sealed, and whether what was copied of it is sound.
    let mut unsealed: Option<(&Source, bool)> = None;
    for (source, there) in plan {
        let copying = |error| failed(error, &format!("copying {}", source.name));
        if source.segment.is_pack() && *there != There::Same {
            let found = source.damage_of_pack()?;
            write_pack(source, target).map_err(copying)?;
            unnamed.push(source);
            damage.add(found);
            done.segments_copied += 1;
            done.bytes_copied += source.end;
            continue;
        }
        if *there == There::Nothing {
            write(source, DATA_START, target, *there).map_err(copying)??;
            unnamed.push(source);
        }
        let is_alone = unnamed.len() == 1 && *there == There::Nothing;
        if is_alone {
            name_all(unnamed, target).map_err(copying)?;
        }
        if let Some((before, is_sound)) = unsealed.take() {
            let found = seal(before, target)
                .map_err(|error| failed(error, &format!("sealing {}", before.name)))?;
            damage.add(found.filter(|_| is_sound));
        }
        name_all(unnamed, target).map_err(copying)?;
        if *there == There::Same {
            done.segments_kept += 1;
            continue;
        }
        // Only the last two segments may lack a seal, wherever the backup is interrupted.
        let is_followed = had
            .iter()
            .any(|name| name.ends_with(SEGMENT) && *name > source.name);
        let end = if is_followed {
            source.end
        } else {
            source.data_end
        };
        let found = write(source, end, target, *there).map_err(copying)??;
        name(source, target).map_err(copying)?;
        unsealed = Some((source, found.is_none())).filter(|_| end < source.end);
        damage.add(found);
        done.segments_copied += 1;
        done.bytes_copied += source.end;
    }
    name_all(unnamed, target).map_err(|error| failed(error, "naming what was copied"))?;
    Ok(done)
}

/// Gives files that are whole their names, each durably before the next: after a loss of power none is there without those
/// before it.
fn name_all(unnamed: &mut Vec<&Source>, target: &dyn Storage) -> io::Result<()> {
    for source in unnamed.iter() {
        name(source, target)?;
    }
    unnamed.clear();
    Ok(())
}

fn name(source: &Source, target: &dyn Storage) -> io::Result<()> {
    target.rename(&unfinished(source), &source.name)?;
    target.sync_dir()
}

/// The name of a file until it is whole. If it stays, opening the backup removes it.
fn unfinished(source: &Source) -> String {
    format!("{}{}", source.name, files::UNFINISHED)
}

/// The state of a segment in the backup. Refuses a backup that has diverged from the store, or whose copy is the only
/// whole one.
fn check_there(
    shared: &Shared,
    source: &Source,
    target: &dyn Storage,
    had: &[String],
    options: BackupOptions,
    damage: &mut Damage,
) -> Result<There> {
    let (place, name) = (target.describe(), &source.name);
    let there = there(shared, source, target, had, options);
    let (there, found) = there.with_context(|| format!("{place}: reading {name}"))?;
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

/// The error for a damaged segment that would overwrite a copy that may be whole.
fn only_copy(source: &Source, target: &dyn Storage, damage: &Error) -> Error {
    let (place, name) = (target.describe(), &source.name);
    let what = format!(
        "{place}: {name} isn't as the store has it, and the store's own is damaged, so that it isn't copied over: \
         {damage}; verify both, and repair the store, or restore it from the backup"
    );
    Error::damaged(what)
}

/// Seals a segment whose records the backup has; returns the damage of the seal.
fn seal(source: &Source, target: &dyn Storage) -> io::Result<Option<Error>> {
    let file = target.open(&source.name, Access::Write)?;
    let tail = tail(source, &*source.file)?;
    file.write_at(source.data_end, &tail)?;
    file.sync()?;
    Ok(check_tail(source, tail.into()))
}

/// Copies a pack, under the name of what isn't whole.
fn write_pack(source: &Source, target: &dyn Storage) -> io::Result<()> {
    let unfinished = unfinished(source);
    let write = || {
        let file = target.create(&unfinished)?;
        let (mut at, mut chunk) = (0, vec![0; CHUNK_BYTES]);
        while at < source.end {
            let length = usize::try_from(source.end - at)
                .unwrap_or(usize::MAX)
                .min(CHUNK_BYTES);
            source.file.read_at(at, &mut chunk[..length])?;
            file.write_at(at, &chunk[..length])?;
            at += length as u64;
        }
        file.sync()
    };
    write().inspect_err(|_| drop(target.remove(&unfinished)))
}

/// Removes segments that packs of the backup have replaced.
fn remove_replaced(target: &dyn Storage, place: &str) -> Result<()> {
    for file in chain::segment_files(target)?.replaced {
        let name = file.name();
        target
            .remove(&name)
            .with_context(|| format!("{place}: removing {name}"))?;
    }
    Ok(())
}

/// Copies a segment up to an offset, under a temporary name until it is complete, and returns its damage. The inner
/// error means damage that would overwrite a copy that may be whole.
fn write(
    source: &Source,
    end: u64,
    target: &dyn Storage,
    had: There,
) -> io::Result<Result<Option<Error>>> {
    let unfinished = unfinished(source);
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
        Ok(Ok(damage))
    };
    write().inspect_err(|_| drop(target.remove(&unfinished)))
}
