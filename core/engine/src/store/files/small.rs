//! Small files that are read and replaced whole.

use crate::{
    Error, Result,
    format::files,
    storage::{Access, File, Storage},
    sync::Arc,
};

/// Opens a file to read it; `None` where there is none.
pub(crate) fn open(storage: &dyn Storage, name: &str) -> Result<Option<Arc<dyn File>>> {
    match storage.open(name, Access::Read) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(reading(storage, name, error)),
    }
}

/// The first bytes of a file, `bytes_max` at most.
pub(crate) fn start(
    storage: &dyn Storage,
    name: &str,
    file: &dyn File,
    bytes_max: usize,
) -> Result<Vec<u8>> {
    let read = || {
        let length = usize::try_from(file.len()?).unwrap_or(usize::MAX);
        let mut bytes = vec![0; length.min(bytes_max)];
        file.read_at(0, &mut bytes)?;
        Ok(bytes)
    };
    read().map_err(|error| reading(storage, name, error))
}

/// The error of reading a file.
pub(crate) fn reading(storage: &dyn Storage, name: &str, error: std::io::Error) -> Error {
    Error::from_io(error, format!("{}: reading {name}", storage.describe()))
}

/// Replaces a small file atomically: after a crash either the old or the new one exists, whole.
pub(crate) fn replace(storage: &dyn Storage, name: &str, bytes: &[u8]) -> Result<()> {
    let unfinished = format!("{name}{}", files::UNFINISHED);
    let write = || {
        let file = storage.create(&unfinished)?;
        file.write_at(0, bytes)?;
        file.sync()?;
        storage.rename(&unfinished, name)?;
        storage.sync_dir()
    };
    write().map_err(|error| {
        // If it can't be removed now, the next opening removes it.
        let _ = storage.remove(&unfinished);
        Error::from_io(error, format!("{}: writing {name}", storage.describe()))
    })
}
