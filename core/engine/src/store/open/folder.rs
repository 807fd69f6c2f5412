//! The contents of a store's folder: whether it is a store, and which one.

use crate::{
    Error, ErrorKind, Result,
    format::files::{self, Identity, SegmentFile},
    log::segment::Segment,
    storage::{File, IoContext, Storage},
    store::{files::small, segments::chain},
    sync::Arc,
};

/// The most bytes that are read of the identity file.
pub(crate) const IDENTITY_BYTES_MAX: usize = 4096;

/// What is in a folder.
pub(super) enum Folder {
    Missing,
    Empty,
    Store,
    /// Something else, by the name of one of its files.
    Other(String),
}

pub(super) fn state_of(storage: &dyn Storage) -> Result<Folder> {
    let names = match storage.list() {
        Ok(names) => names,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Folder::Missing),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
            return Err(Error::new(
                ErrorKind::NotAStore,
                format!(
                    "{} is a file; a runlog store is a folder",
                    storage.describe()
                ),
            ));
        }
        Err(error) => {
            return Err(Error::from_io(
                error,
                format!("listing {}", storage.describe()),
            ));
        }
    };
    if names.iter().any(|name| name == files::IDENTITY) {
        return Ok(Folder::Store);
    }
    let leftover = |name: &&String| {
        *name == files::LOCK || *name == &format!("{}{}", files::IDENTITY, files::UNFINISHED)
    };
    Ok(match names.iter().find(|name| !leftover(name)) {
        Some(name) => Folder::Other(name.clone()),
        None => Folder::Empty,
    })
}

pub(super) fn no_store(place: &str) -> Error {
    Error::not_found(format!("no runlog store at {place}"))
}

pub(super) fn not_a_store(place: &str, name: &str) -> Error {
    let what = match SegmentFile::of_name(name) {
        Some(_) => "if it was one that lost that file, repair it, or restore the file",
        None => "use an empty folder",
    };
    Error::new(
        ErrorKind::NotAStore,
        format!(
            "{place} is not a runlog store: it has no file {} but others, such as {name}; {what}",
            files::IDENTITY
        ),
    )
}

/// The identity of the store.
pub(crate) fn read_identity(storage: &dyn Storage) -> Result<Identity> {
    let place = storage.describe();
    if let Folder::Other(name) = state_of(storage)? {
        return Err(not_a_store(&place, &name));
    }
    let read = |file: &dyn File| small::start(file, IDENTITY_BYTES_MAX);
    let bytes = small::read(storage, files::IDENTITY, read)?.ok_or_else(|| no_store(&place))?;
    Identity::decode(&bytes, &place)
}

/// Removes files that a crash left unfinished. They were never part of the store.
pub(super) fn remove_unfinished(storage: &dyn Storage) -> Result<()> {
    let names = storage
        .list()
        .with_context(|| format!("listing {}", storage.describe()))?;
    for name in names
        .iter()
        .filter(|name| name.ends_with(files::UNFINISHED))
    {
        storage
            .remove(name)
            .with_context(|| format!("removing the unfinished {name}"))?;
    }
    Ok(())
}

/// Removes segments that a pack has replaced, left by a compaction that a crash interrupted; not those of a pack whose
/// index can't be read: a repair goes back to them.
pub(super) fn remove_replaced(storage: &dyn Storage, segments: &[Arc<Segment>]) -> Result<()> {
    for file in chain::segment_files(storage)?.replaced {
        let mut packs = segments
            .iter()
            .filter(|segment| segment.named().replaces(&file));
        if packs.any(|pack| pack.block().is_err()) {
            continue;
        }
        let name = file.name();
        storage
            .remove(&name)
            .with_context(|| format!("removing {name}, whose place a pack has taken"))?;
    }
    Ok(())
}
