//! Small files that are read and replaced whole.

use std::io;

use crate::{
    Error, Result,
    format::files,
    storage::{Access, File, Storage},
};

/// How often a file is opened again because it was replaced while it was read.
const REPLACED_MAX: u32 = 3;

/// What is read of a file; `None` where there is none. It is read again where a writer replaces it meanwhile.
pub(crate) fn read<T>(
    storage: &dyn Storage,
    name: &str,
    read: impl Fn(&dyn File) -> io::Result<T>,
) -> Result<Option<T>> {
    let failed = |error| Error::from_io(error, format!("{}: reading {name}", storage.describe()));
    let mut attempts_left = REPLACED_MAX;
    loop {
        let file = match storage.open(name, Access::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        match read(&*file) {
            Err(error)
                if attempts_left > 0
                    && matches!(
                        error.kind(),
                        io::ErrorKind::NotFound | io::ErrorKind::StaleNetworkFileHandle
                    ) =>
            {
                attempts_left -= 1;
            }
            found => return found.map(Some).map_err(failed),
        }
    }
}

/// The first bytes of a file, `bytes_max` at most.
pub(crate) fn start(file: &dyn File, bytes_max: usize) -> io::Result<Vec<u8>> {
    let length = usize::try_from(file.len()?).unwrap_or(usize::MAX);
    let mut bytes = vec![0; length.min(bytes_max)];
    file.read_at(0, &mut bytes)?;
    Ok(bytes)
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
