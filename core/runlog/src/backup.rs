//! Backups of a store in a folder, made while it is used.

use std::path::Path;

use runlog_log::{Backup, BackupOptions};

#[cfg(doc)]
use crate::ErrorKind;
use crate::{Result, Store};

impl Store {
    /// Copies the store to another folder while it is used: everything that was acknowledged when it begins; for a
    /// read-only store, everything that it sees. An earlier backup in the folder is extended: only new data is copied.
    /// The folder is a store: open it, or copy it back to restore it. It blocks the thread; durable when it returns.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) for a folder that has other files, or another store, or is inside the
    /// store's own; [`Unsupported`](ErrorKind::Unsupported) for a store on another machine;
    /// [`Conflict`](ErrorKind::Conflict) for a backup that was written to since, [`Locked`](ErrorKind::Locked) while
    /// another writes there; else those of reading and writing. After an error, the copy is a store that ends earlier,
    /// which the next backup completes. [`Damaged`](ErrorKind::Damaged) if copied data is damaged in the store: the
    /// message names the segment and the offset, and everything was copied unchanged.
    pub fn backup(&self, folder: impl AsRef<Path>) -> Result<Backup> {
        self.backup_with(folder, BackupOptions::default())
    }

    /// [`backup`](Self::backup) with options.
    ///
    /// # Errors
    /// As [`backup`](Self::backup); [`Damaged`](ErrorKind::Damaged) also if an earlier backup differs and the store's
    /// own data is damaged; that isn't copied over the backup.
    pub fn backup_with(&self, folder: impl AsRef<Path>, options: BackupOptions) -> Result<Backup> {
        let done = self.backend().maintenance();
        pollster::block_on(done.backup(folder.as_ref(), options))
    }
}
