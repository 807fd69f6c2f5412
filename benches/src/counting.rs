//! [`CountingStorage`]: another storage, with its flushes counted.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use runlog_engine::storage::{Access, Allocation, File, Map, Storage};

/// Counts the flushes of files; directories are flushed too, and not counted.
pub struct CountingStorage<S> {
    inner: S,
    flushes: Arc<AtomicU64>,
}

impl<S: Storage> CountingStorage<S> {
    /// Counts what is flushed of `inner`.
    pub fn new(inner: S) -> Self {
        Self {
            inner,
            flushes: Arc::default(),
        }
    }

    /// The live count.
    pub fn flushes(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.flushes)
    }

    fn counted(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(CountingFile {
            inner: file,
            flushes: Arc::clone(&self.flushes),
        })
    }
}

impl<S: Storage> Storage for CountingStorage<S> {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.inner.create(name).map(|file| self.counted(file))
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        self.inner.open(name, access).map(|file| self.counted(file))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.inner.list()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.inner.sync_dir()
    }

    fn create_dir(&self) -> io::Result<()> {
        self.inner.create_dir()
    }

    fn lock(&self, name: &str, holder: &str) -> Result<Box<dyn Send + Sync>, io::Result<String>> {
        self.inner.lock(name, holder)
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn boot_id(&self) -> Option<[u8; 16]> {
        self.inner.boot_id()
    }
}

struct CountingFile {
    inner: Arc<dyn File>,
    flushes: Arc<AtomicU64>,
}

impl File for CountingFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.inner.read_at(offset, bytes)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.inner.write_at(offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        self.inner.sync()
    }

    fn write_durable_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        self.inner.write_durable_at(offset, bytes)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.inner.set_len(bytes)
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn allocate(&self, from: u64, to: u64, allocation: Allocation) -> io::Result<()> {
        self.inner.allocate(from, to, allocation)
    }

    fn start_writeback(&self, end: u64) {
        self.inner.start_writeback(end);
    }

    fn will_read(&self, offset: u64, bytes: u64) {
        self.inner.will_read(offset, bytes);
    }

    fn map(&self) -> Option<Arc<dyn Map>> {
        self.inner.map()
    }
}
