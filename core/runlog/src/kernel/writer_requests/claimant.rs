//! [`Claimant`]: a process that claims requests, and whether it still lives.

use std::io;

use runlog_engine::{
    Host, SystemHost,
    storage::{Access, FsStorage, Storage},
};
use uuid::Uuid;

use super::names::{WRITER, named, there};

/// What the file of a claimant says: who finds it locked waits for a moment where it says nothing.
const HOLDER: &str = "locked by the process that has claimed requests";

/// A process that claims requests, which tells others that it lives by the lock it has: the system frees that when the
/// process ends, however it ends.
pub(super) struct Claimant {
    storage: FsStorage,
    id: Uuid,
    /// Dropped after the file is removed, so that nobody finds it there and free.
    _lock: Box<dyn Send + Sync>,
}

impl Drop for Claimant {
    fn drop(&mut self) {
        // The next writer removes it where this fails.
        let _ = self.storage.remove(&named(self.id, WRITER));
    }
}

impl Claimant {
    pub(super) fn id(&self) -> Uuid {
        self.id
    }

    pub(super) fn new(storage: &FsStorage) -> io::Result<Self> {
        let id = SystemHost.new_id();
        let name = named(id, WRITER);
        loop {
            // It may be taken for that of a process that is gone, and removed, before it is locked.
            match storage.lock(&name, HOLDER) {
                Ok(lock) if there(storage.open(&name, Access::Read))?.is_some() => {
                    return Ok(Self {
                        storage: storage.clone(),
                        id,
                        _lock: lock,
                    });
                }
                Ok(_) | Err(Ok(_)) => {}
                Err(Err(error)) => return Err(error),
            }
        }
    }
}

/// Whether the process of a [`Claimant`] has ended. Then its file is removed.
pub(super) fn has_ended(storage: &FsStorage, by: Uuid) -> io::Result<bool> {
    let name = named(by, WRITER);
    // Looked for first: locking makes it. Without a holder's name the file stays as it is, wherever a link leads.
    if there(storage.open(&name, Access::Read))?.is_none() {
        return Ok(true);
    }
    match storage.lock(&name, "") {
        Ok(lock) => {
            let _ = storage.remove(&name);
            drop(lock);
            Ok(true)
        }
        Err(Ok(_)) => Ok(false),
        Err(Err(error)) => Err(error),
    }
}
