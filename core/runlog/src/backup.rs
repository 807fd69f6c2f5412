//! Backups of a store in a folder, made while it is used.

use std::path::Path;

use runlog_log::{Backup, BackupOptions};

#[cfg(doc)]
use crate::ErrorKind;
use crate::{Result, Store};

impl Store {
    /// Copies the store to another folder while it is used: all that is acknowledged when it begins, of a reader all that it
    /// sees. What an earlier backup to the folder has is kept, so that the next one copies what is new. The folder is a
    /// store: open it, or copy it back to restore it. It blocks the thread; durable when it returns.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) for a folder that has other files, or another store, or lies inside the
    /// store's own; [`Unsupported`](ErrorKind::Unsupported) for a store on another machine; [`Conflict`](ErrorKind::Conflict) for a backup that was
    /// written to since, [`Locked`](ErrorKind::Locked) while another writes there; else those of reading and writing. What it
    /// has copied so far is a store that ends earlier, which the next one completes. [`Damaged`](ErrorKind::Damaged) where
    /// what was copied is damaged in the store: the message names the segment and the offset, and everything was copied as it
    /// is.
    pub fn backup(&self, folder: impl AsRef<Path>) -> Result<Backup> {
        self.backup_with(folder, BackupOptions::default())
    }

    /// [`backup`](Self::backup) with options.
    ///
    /// # Errors
    /// As [`backup`](Self::backup); [`Damaged`](ErrorKind::Damaged) also where what an earlier backup has differs, and it is
    /// the store's own that is damaged, which then isn't copied over it.
    pub fn backup_with(&self, folder: impl AsRef<Path>, options: BackupOptions) -> Result<Backup> {
        let done = self.backend().maintenance();
        pollster::block_on(done.backup(folder.as_ref(), options))
    }
}
