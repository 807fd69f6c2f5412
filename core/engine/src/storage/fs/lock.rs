//! [`Lock`]: one writer at a time, by a lock on a file.
#![allow(
    clippy::disallowed_methods,
    reason = "this is the one place that reaches the file system"
)]

use std::{fs, io, time::Duration};

use super::{
    calls,
    folder::{Folder, How},
};

/// How often a description that is empty is read again, and the pause before.
const HOLDER_READS_MAX: u32 = 20;
const HOLDER_PAUSE: Duration = Duration::from_millis(1);
/// How often a file that is locked is tried again, and the pause before: who asks whether it is locked has it for a moment.
const TRIES_MAX: u32 = 4;
const TRY_PAUSE: Duration = Duration::from_micros(500);
/// The most bytes that are read of a holder's description.
const HOLDER_BYTES_MAX: usize = 4096;

/// A file that is locked until this is dropped.
#[derive(Debug)]
pub(super) struct Lock {
    file: fs::File,
    /// The process that locked it.
    process: u32,
}

impl Lock {
    /// Locks a file, which is created if it doesn't exist; `Err(Ok(text))` with the holder's description if it is
    /// locked already.
    pub(super) fn take(
        folder: &Folder,
        name: &str,
        holder: &str,
    ) -> Result<Self, io::Result<String>> {
        let file = folder.open_file(name, How::Keep).map_err(Err)?;
        let mut tries = 0;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(fs::TryLockError::WouldBlock) if tries < TRIES_MAX => {
                    tries += 1;
                    std::thread::sleep(TRY_PAUSE);
                }
                Err(fs::TryLockError::WouldBlock) => return Err(holder_of(|| content(&file))),
                // Nothing was locked, so it is tried again.
                Err(fs::TryLockError::Error(error))
                    if error.kind() == io::ErrorKind::Interrupted => {}
                Err(fs::TryLockError::Error(error)) => return Err(Err(error)),
            }
        }
        let lock = Self {
            file,
            process: std::process::id(),
        };
        if !holder.is_empty() {
            let written = lock
                .file
                .set_len(0)
                .and_then(|()| calls::write(&lock.file, 0, holder.as_bytes()));
            written.map_err(Err)?;
        }
        Ok(lock)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The lock belongs to the open file description, which a child process shares between fork and exec. Closing
        // alone would leave it locked until the exec; unlocking releases it for all sharers. For the same reason a
        // forked child must not unlock: its parent would lose the lock.
        if self.process == std::process::id() {
            let _ = self.file.unlock();
        }
    }
}

/// Whether a file is locked by [`Lock::take`]; `None` where it can't be told. No system says who has such a lock, so it is asked for,
/// shared with others who ask.
pub(super) fn is_locked(folder: &Folder, name: &str) -> Option<bool> {
    let file = match folder.open_file(name, How::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Some(false),
        Err(_) => return None,
    };
    match file.try_lock_shared() {
        Ok(()) => {
            let _ = file.unlock();
            Some(false)
        }
        Err(fs::TryLockError::WouldBlock) => Some(true),
        Err(fs::TryLockError::Error(_)) => None,
    }
}

/// The description of who has the lock. It is written just after it was locked, so that it may not be there yet.
fn holder_of(mut read: impl FnMut() -> io::Result<String>) -> io::Result<String> {
    for _ in 0..HOLDER_READS_MAX {
        let holder = read()?;
        if !holder.is_empty() {
            return Ok(holder);
        }
        std::thread::sleep(HOLDER_PAUSE);
    }
    read()
}

fn content(file: &fs::File) -> io::Result<String> {
    let length = usize::try_from(file.metadata()?.len())
        .map_or(HOLDER_BYTES_MAX, |length| length.min(HOLDER_BYTES_MAX));
    let mut bytes = vec![0; length];
    // The holder may be writing it.
    match calls::read(file, 0, &mut bytes) {
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error),
        _ => Ok(String::from_utf8_lossy(&bytes)
            .trim_end_matches('\0')
            .to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropping_it_unlocks_it_for_every_copy_of_the_descriptor() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path()).unwrap();
        let lock = Lock::take(&folder, "LOCK", "the first").unwrap();
        assert_eq!(
            Lock::take(&folder, "LOCK", "").unwrap_err().unwrap(),
            "the first"
        );
        // As a child between fork and exec has one.
        let copy = lock.file.try_clone().unwrap();
        drop(lock);
        drop(Lock::take(&folder, "LOCK", "").unwrap());
        drop(copy);
    }

    #[test]
    fn whether_it_is_locked_can_be_asked_while_others_lock_it() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path()).unwrap();
        assert_eq!(is_locked(&folder, "LOCK"), Some(false), "there is none");
        let lock = Lock::take(&folder, "LOCK", "the first").unwrap();
        assert_eq!(is_locked(&folder, "LOCK"), Some(true));
        drop(lock);
        let asking = std::sync::atomic::AtomicBool::new(true);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while asking.load(std::sync::atomic::Ordering::Relaxed) {
                    is_locked(&folder, "LOCK");
                    std::thread::sleep(Duration::from_micros(50));
                }
            });
            for _ in 0..2000 {
                // Nobody is told that another has it, who has only asked.
                drop(Lock::take(&folder, "LOCK", "the second").unwrap());
            }
            asking.store(false, std::sync::atomic::Ordering::Relaxed);
        });
        assert_eq!(is_locked(&folder, "LOCK"), Some(false));
    }

    #[test]
    fn holder_that_is_being_written_is_read_again_and_one_that_never_is_stays_unknown() {
        let mut reads = ["the first", "", ""].map(str::to_owned).to_vec();
        let read = || Ok(reads.pop().unwrap());
        assert_eq!(holder_of(read).unwrap(), "the first");
        assert_eq!(holder_of(|| Ok(String::new())).unwrap(), "");
        assert!(holder_of(|| Err(io::ErrorKind::NotFound.into())).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn copy_of_a_forked_child_does_not_unlock_what_its_parent_has() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path()).unwrap();
        let lock = Lock::take(&folder, "LOCK", "the parent").unwrap();
        let child = Lock {
            file: lock.file.try_clone().unwrap(),
            process: lock.process + 1,
        };
        drop(child);
        assert_eq!(
            Lock::take(&folder, "LOCK", "").unwrap_err().unwrap(),
            "the parent"
        );
        drop(lock);
        Lock::take(&folder, "LOCK", "").unwrap();
    }
}
