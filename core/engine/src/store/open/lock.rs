//! The locks by which a store has one writer.

use std::time::Duration;

use crate::{
    Error, ErrorKind, Result, format::files, storage::Storage, store::options::OpenOptions,
};

/// How long an opening waits before it tries to lock the store again.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Retries to lock the store until another writer releases it, or the timeout is over.
pub(super) fn in_time<T>(options: &OpenOptions, lock: impl Fn() -> Result<T>) -> Result<T> {
    let mut left = options.lock_timeout;
    loop {
        match lock() {
            Err(error) if error.kind() == ErrorKind::Locked && !left.is_zero() => {
                let pause = left.min(LOCK_PAUSE);
                options.host.sleep(pause);
                left = left.saturating_sub(pause);
            }
            locked => return locked,
        }
    }
}

/// Locks the store for this writer.
pub(crate) fn lock(storage: &dyn Storage, holder: &str) -> Result<Box<dyn Send + Sync>> {
    storage.lock(files::LOCK, holder).map_err(|refused| match refused {
        Ok(other) => {
            let (store, other) = (storage.describe(), other.trim());
            // The description begins with the process.
            let of_process = |text: &str| text.split_once(',').map(|(process, _)| process.to_owned());
            let is_own = of_process(other).is_some() && of_process(other) == of_process(holder);
            let message = match is_own {
                true => format!(
                    "{store} is open for writing in this process already: {other}; use that handle, which threads can share, \
                     close it first, or open this one for reading only"
                ),
                false => format!(
                    "{store} is open for writing by another: {other}; close that one, wait until it is closed, or open this \
                     one for reading only"
                ),
            };
            Error::new(ErrorKind::Locked, message)
        }
        Err(error) => {
            let refused = Error::from_io(error, format!("{}: locking {}", storage.describe(), files::LOCK));
            match refused.kind() {
                kind @ (ErrorKind::PermissionDenied | ErrorKind::ReadOnly) => {
                    let message = format!("{refused}; open it for reading only, or make it writable for this user");
                    Error::with_source(kind, message, refused)
                }
                _ => refused,
            }
        }
    })
}

/// Locks the identity file too, since a user may delete the lock file, believing it stale. Where a locked file can't be
/// read by other processes, the lock file alone is used.
pub(crate) fn lock_identity(storage: &dyn Storage) -> Result<Option<Box<dyn Send + Sync>>> {
    if !cfg!(unix) {
        return Ok(None);
    }
    storage.lock(files::IDENTITY, "").map(Some).map_err(|refused| match refused {
        Ok(_) => Error::new(
            ErrorKind::Locked,
            format!(
                "{} is open for writing by another process, although its file {} was deleted; end that process first",
                storage.describe(),
                files::LOCK
            ),
        ),
        Err(error) => Error::from_io(error, format!("{}: locking {}", storage.describe(), files::IDENTITY)),
    })
}
