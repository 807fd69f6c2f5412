//! [`Tapped`]: a storage with a [`Tap`] that sees each operation, and may count it, hold it up or let it fail.

use std::{io, sync::Arc};

use runlog_engine::storage::{Access, Allocation, File, Storage};

/// What sees the operations of a [`Tapped`] storage, each before it is done. An error is the operation's.
///
/// Each call passes the operation on unless it is written anew; a segment that was just made has its unfinished name.
#[allow(unused_variables, reason = "most taps look at one operation only")]
pub trait Tap: Send + Sync + 'static {
    /// A file is opened.
    fn open(&self, name: &str) {}
    /// Bytes of a file are read.
    fn read(&self, name: &str, offset: u64, bytes: u64) -> io::Result<()> {
        Ok(())
    }
    /// Bytes of a file are written.
    fn write(&self, name: &str, bytes: u64) {}
    /// A file is flushed.
    fn sync(&self, name: &str) {}
    /// A file is handed to the device up to here.
    fn start_writeback(&self, end: u64) {}
}

/// A storage whose operations a tap sees. It maps no file, so that all reads are seen.
pub struct Tapped<S, T> {
    storage: S,
    tap: Arc<T>,
}

impl<S: Clone, T> Clone for Tapped<S, T> {
    fn clone(&self) -> Self {
        Self {
            storage: self.storage.clone(),
            tap: self.tap.clone(),
        }
    }
}

impl<S: Default, T: Default> Default for Tapped<S, T> {
    fn default() -> Self {
        Self::new(S::default(), T::default())
    }
}

impl<S, T> Tapped<S, T> {
    /// The storage with this tap.
    pub fn new(storage: S, tap: T) -> Self {
        Self {
            storage,
            tap: Arc::new(tap),
        }
    }

    /// The tap.
    pub fn tap(&self) -> &T {
        &self.tap
    }

    /// The storage without its tap.
    pub fn storage(&self) -> &S {
        &self.storage
    }
}

impl<S, T: Tap> Tapped<S, T> {
    fn file(&self, name: &str, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(TappedFile {
            file,
            name: name.to_owned(),
            tap: self.tap.clone(),
        })
    }
}

impl<S: Storage, T: Tap> Storage for Tapped<S, T> {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.file(name, self.storage.create(name)?))
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        self.tap.open(name);
        Ok(self.file(name, self.storage.open(name, access)?))
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
        self.storage.boot_id()
    }
}

struct TappedFile<T> {
    file: Arc<dyn File>,
    name: String,
    tap: Arc<T>,
}

impl<T: Tap> File for TappedFile<T> {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.tap.read(&self.name, offset, bytes.len() as u64)?;
        self.file.read_at(offset, bytes)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.tap.write(&self.name, bytes.len() as u64);
        self.file.write_at(offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.tap.sync(&self.name);
        self.file.sync()
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn allocate(&self, from: u64, to: u64, allocation: Allocation) -> io::Result<()> {
        self.file.allocate(from, to, allocation)
    }

    fn start_writeback(&self, end: u64) {
        self.tap.start_writeback(end);
        self.file.start_writeback(end);
    }

    fn will_read(&self, offset: u64, bytes: u64) {
        self.file.will_read(offset, bytes);
    }
}
