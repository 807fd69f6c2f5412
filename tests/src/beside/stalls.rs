//! [`Stalls`]: a storage that holds up who reads while the writer goes on.
//!
//! What a reader took under a lock before it read a file is older then than what it takes after it.

use std::{
    cell::Cell,
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use bytes::BytesMut;
use runlog_engine::storage::{Access, Allocation, File, Map, Storage};

use super::history::Progress;

/// A stall is over by then, so that a writer that waits for a reader is only slowed.
const STALL_MAX: Duration = Duration::from_millis(10);
/// The same for one that is to last until whole segments were turned.
const LONG_MAX: Duration = Duration::from_millis(40);
/// For how many batches it lasts.
const LONG_BATCHES: usize = 24;

thread_local! {
    /// Of how many operations of this thread one stalls, and how many there were; none stalls at 0.
    static STALLING: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// From now on one of `times` operations of this thread stalls.
pub fn stalling(times: u64) {
    STALLING.set((times, 0));
}

/// A storage whose operations stall.
#[derive(Clone)]
pub struct Stalls {
    inner: Arc<dyn Storage>,
    clock: Arc<Clock>,
}

struct Clock {
    progress: Arc<Progress>,
    stalled_long: AtomicUsize,
    last_version: usize,
    /// Of how many stalls one lasts until segments were turned.
    long_each: u64,
}

impl Clock {
    fn pass(&self) {
        let (times, count) = STALLING.get();
        if times == 0 {
            return;
        }
        STALLING.set((times, count + 1));
        // Not each time the same one, and not in step with what is read.
        let mixed = count.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        if !mixed.is_multiple_of(times) {
            return;
        }
        if (mixed / times).is_multiple_of(self.long_each) {
            self.stalled_long.fetch_add(1, Ordering::SeqCst);
            self.stall(LONG_BATCHES, LONG_MAX);
            self.stalled_long.fetch_sub(1, Ordering::SeqCst);
        } else {
            self.stall(1 + usize::try_from(count % 4).unwrap_or(0), STALL_MAX);
        }
    }

    fn stall(&self, batches: usize, most: Duration) {
        let wanted = self.progress.acknowledged() + batches;
        let since = Instant::now();
        while self.progress.acknowledged() < wanted.min(self.last_version) && since.elapsed() < most
        {
            thread::yield_now();
        }
    }
}

impl Stalls {
    /// A storage that holds up who reads until the writer has done the next batches, and one time in `long_each` (never at 0)
    /// until it has turned segments.
    pub fn new(
        inner: Arc<dyn Storage>,
        progress: Arc<Progress>,
        last_version: usize,
        long_each: u64,
    ) -> Self {
        let clock = Clock {
            progress,
            stalled_long: AtomicUsize::new(0),
            last_version,
            long_each,
        };
        Self {
            inner,
            clock: Arc::new(clock),
        }
    }

    /// Whether somebody is held up until segments were turned.
    pub fn is_stalled_long(&self) -> bool {
        self.clock.stalled_long.load(Ordering::SeqCst) > 0
    }

    fn file(&self, inner: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(StallingFile {
            inner,
            clock: self.clock.clone(),
        })
    }
}

impl Storage for Stalls {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.file(self.inner.create(name)?))
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        self.clock.pass();
        Ok(self.file(self.inner.open(name, access)?))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let names = self.inner.list();
        self.clock.pass();
        names
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)?;
        self.clock.pass();
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.remove(name)?;
        self.clock.pass();
        Ok(())
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

struct StallingFile {
    inner: Arc<dyn File>,
    clock: Arc<Clock>,
}

impl File for StallingFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.clock.pass();
        self.inner.read_at(offset, bytes)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.inner.write_at(offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }

    fn write_durable_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.inner.write_durable_at(offset, bytes)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.inner.set_len(bytes)
    }

    fn len(&self) -> io::Result<u64> {
        let length = self.inner.len();
        self.clock.pass();
        length
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
        let inner = self.inner.map()?;
        self.clock.pass();
        Some(Arc::new(StallingMap {
            inner,
            clock: self.clock.clone(),
        }))
    }
}

struct StallingMap {
    inner: Arc<dyn Map>,
    clock: Arc<Clock>,
}

impl Map for StallingMap {
    fn copy(&self, offset: u64, bytes: &mut [u8]) -> bool {
        self.clock.pass();
        self.inner.copy(offset, bytes)
    }

    fn append(&self, offset: u64, bytes: usize, to: &mut BytesMut) -> bool {
        self.clock.pass();
        self.inner.append(offset, bytes, to)
    }

    fn prefetch(&self, offset: u64, bytes: u64) {
        self.inner.prefetch(offset, bytes);
    }

    fn will_need(&self, offsets: &[u64]) {
        self.inner.will_need(offsets);
    }

    fn will_need_all(&self, offset: u64, bytes: u64) {
        self.inner.will_need_all(offset, bytes);
    }
}
