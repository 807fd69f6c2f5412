//! [`Shared`]: what the handles and the threads of one open store have in common.

use super::background::Background;
use crate::{
    Error, ErrorKind, Result, SegmentId,
    format::files::{Identity, Watermark},
    index::lineage::View,
    storage::{File, Storage},
    store::{
        files::watermark::{WatermarkFile, WatermarkReader},
        options::{Mode, OpenOptions},
        published::{durable::Durable, keys::KeyCache, watch::Watch},
        staging::{group::Group, writer::Writer},
    },
    sync::{
        self, Arc, AtomicBool, AtomicU64, Condvar, Mutex, MutexGuard, Ordering, RwLock,
        RwLockReadGuard, Weak,
    },
};

/// One open store.
pub(crate) struct Shared {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) options: OpenOptions,
    pub(crate) identity: Identity,
    pub(crate) durable: RwLock<Durable>,
    /// `None` for a reader.
    pub(crate) writer: Option<Mutex<Writer>>,
    /// `Some` for a reader.
    pub(crate) follower: Option<Mutex<Following>>,
    pub(crate) watch: Watch,
    pub(crate) background: Background,
    /// `None` for a reader.
    pub(crate) watermark: Option<WatermarkFile>,
    /// The boot id of the machine, all zeros where there is none.
    pub(crate) boot: [u8; 16],
    /// The epoch of this writer.
    pub(crate) epoch: u32,
    /// What the end marker says, where there is one: segment and offset.
    pub(crate) marked_end: Option<(SegmentId, u64)>,
    /// The process that opened the store.
    pub(crate) process: u32,
    /// The folder's lock: dropping it releases it.
    pub(crate) lock: Mutex<Option<Box<dyn Send + Sync>>>,
    /// The segment made ahead of need.
    pub(crate) spare: Mutex<Spare>,
    pub(crate) spare_changed: Condvar,
    /// The last checkpoint. Locked while one is written.
    pub(crate) saved: Mutex<Saved>,
    /// How large the last checkpoint was.
    pub(crate) checkpoint_bytes: AtomicU64,
    pub(crate) keys: Mutex<KeyCache>,
    /// Locked while a compaction is under way.
    pub(crate) packing: Mutex<Packing>,
    /// How many truncations and deletions there had been when segments were last looked through for dead ones.
    pub(crate) given_up_seen: AtomicU64,
    /// Whether a compaction has to end, because the store is closed.
    pub(crate) packing_over: AtomicBool,
    /// What readings that are under way began with: a compaction keeps it.
    pub(crate) readings: Mutex<Readings>,
    /// Whether a flush has a deadline that no thread watches.
    pub(crate) is_due_unwatched: AtomicBool,
}

/// What was saved last.
pub(crate) struct Saved {
    /// The end of the log at that time: segment and offset.
    pub(crate) end: Option<(u32, u64)>,
    /// Nothing is saved any more: the store is closed.
    pub(crate) is_over: bool,
}

/// What a compaction has to know of those before it.
#[derive(Default)]
pub(crate) struct Packing {
    /// One failed so that it is unknown whether a pack has its name.
    pub(crate) failed: Option<Error>,
}

/// The views of readings, without keeping them.
#[derive(Default)]
pub(crate) struct Readings {
    views: Vec<Weak<View>>,
    /// When there are as many, those that ended are dropped.
    sweep_at: usize,
}

impl Readings {
    /// At least so many are kept before any is looked at.
    const SWEEP_MIN: usize = 64;

    fn add(&mut self, view: &Arc<View>) {
        if self.views.len() >= self.sweep_at.max(Self::SWEEP_MIN) {
            self.views.retain(|view| view.strong_count() > 0);
            self.sweep_at = 2 * self.views.len();
        }
        self.views.push(Arc::downgrade(view));
    }
}

/// The segment made ahead of need.
#[derive(Default)]
pub(crate) enum Spare {
    #[default]
    None,
    Making,
    Ready(Arc<dyn File>, u64),
    /// The store is being closed.
    Over,
}

/// What a reader remembers between looks at the watermark.
pub(crate) struct Following {
    pub(crate) seen: Option<Watermark>,
    pub(crate) file: WatermarkReader,
}

impl Shared {
    pub(crate) fn durable(&self) -> RwLockReadGuard<'_, Durable> {
        sync::read(&self.durable)
    }

    pub(crate) fn writer(&self) -> Result<MutexGuard<'_, Writer>> {
        let writer = self.writer.as_ref().ok_or_else(|| {
            Error::new(
                ErrorKind::ReadOnly,
                "the store is open for reading only; open it for writing to change it",
            )
        })?;
        Ok(sync::lock(writer))
    }

    /// Whether this writer was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.watch.is_closed()
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.options.mode == Mode::ReadOnly
    }

    /// Notes what a reading begins with. The caller has the directory's lock: what a reading is given can't be given up
    /// before it is noted.
    pub(crate) fn begin_reading(&self, view: View) -> Arc<View> {
        let view = Arc::new(view);
        if !self.is_read_only() {
            self.readings().add(&view);
        }
        view
    }

    /// What the readings under way began with.
    pub(crate) fn views_in_use(&self) -> Vec<Arc<View>> {
        self.readings()
            .views
            .iter()
            .filter_map(Weak::upgrade)
            .collect()
    }

    fn readings(&self) -> MutexGuard<'_, Readings> {
        sync::lock(&self.readings)
    }

    /// Whether there may be segments of which nothing is in use any more. It says so once.
    pub(crate) fn may_have_dead(&self) -> bool {
        let given_up = self.durable().given_up;
        self.options.auto_compact
            && self.given_up_seen.swap(given_up, Ordering::Relaxed) != given_up
    }

    pub(crate) fn is_packing_over(&self) -> bool {
        self.packing_over.load(Ordering::Acquire)
    }

    /// Waits for a compaction, which is told to end; there is no other from now on.
    pub(crate) fn end_packing(&self) {
        self.packing_over.store(true, Ordering::Release);
        drop(sync::lock(&self.packing));
    }

    /// Checks that this process opened the store. One forked from it has the same open files and the same lock, and knows
    /// nothing of what the other does with them.
    pub(crate) fn check_process(&self) -> Result<()> {
        let own = self.options.host.process_id();
        if own == self.process {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Closed,
            format!(
                "the store was opened by process {}, and this is process {own}: after fork() open it again, once the other \
                 has closed it",
                self.process
            ),
        ))
    }

    /// What to wait for until this thread may write to the log.
    pub(crate) fn blocking_group(&self, writer: &Writer) -> Option<Arc<Group>> {
        let gathered = writer
            .open
            .as_ref()
            .filter(|_| writer.phase.is_gathering())
            .map(|open| &open.group);
        gathered.or(writer.phase.in_progress()).cloned()
    }

    /// Tells readers in other processes how far they may read. Not durable. If it fails they see the records later, and
    /// [`watermark_failure`](Self::watermark_failure) says why; the records are safe all the same.
    pub(crate) fn write_watermark(&self, segment: SegmentId, offset: u64, position: u64) {
        let Some(own) = &self.watermark else { return };
        let watermark = Watermark {
            store: self.identity.store,
            boot: self.boot,
            epoch: self.epoch,
            segment,
            offset,
            position,
        };
        own.write(&*self.storage, &watermark);
    }

    /// Why readers in other processes are behind, if they are.
    pub(crate) fn watermark_failure(&self) -> Option<Error> {
        self.watermark.as_ref().and_then(WatermarkFile::failure)
    }
}
