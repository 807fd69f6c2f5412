//! A folder as it is found after another start of the machine.

use std::{io, sync::Arc};

use runlog_engine::storage::{Access, File, FsStorage, Storage};

/// A folder of the file system, on a machine that was started when the number says.
pub struct Restarted {
    storage: FsStorage,
    start: u64,
}

impl Restarted {
    /// The folder after so many starts.
    pub fn new(storage: FsStorage, start: u64) -> Self {
        Self { storage, start }
    }
}

impl Storage for Restarted {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.storage.create(name)
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        self.storage.open(name, access)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.storage.list()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.storage.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.storage.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.storage.sync_dir()
    }

    fn create_dir(&self) -> io::Result<()> {
        self.storage.create_dir()
    }

    fn lock(&self, name: &str, holder: &str) -> Result<Box<dyn Send + Sync>, io::Result<String>> {
        self.storage.lock(name, holder)
    }

    fn describe(&self) -> String {
        self.storage.describe()
    }

    fn boot_id(&self) -> Option<[u8; 16]> {
        let mut id = [1; 16];
        id[..8].copy_from_slice(&self.start.to_le_bytes());
        Some(id)
    }
}
