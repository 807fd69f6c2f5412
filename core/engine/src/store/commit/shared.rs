//! [`Shared`]: the state that the handles and the threads of one open store share.

use super::background::Background;
use crate::{
    Error, ErrorKind, Result, SegmentId,
    format::files::{self, Identity, Watermark},
    index::lineage::View,
    storage::{File, Storage},
    store::{
        files::watermark::{WatermarkFile, WatermarkReader},
        lost::LostPlaces,
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
    pub(crate) watch: Arc<Watch>,
    pub(crate) background: Background,
    /// `None` for a reader.
    pub(crate) watermark: Option<WatermarkFile>,
    /// The boot id of the machine, all zeros where there is none.
    pub(crate) boot: [u8; 16],
    /// The epoch of this writer.
    pub(crate) epoch: u32,
    /// The end of the log by the end marker, if there is one: segment and offset.
    pub(crate) marked_end: Option<(SegmentId, u64)>,
    /// The process that opened the store.
    pub(crate) process: u32,
    /// The folder's lock: dropping it releases it.
    pub(crate) lock: Mutex<Option<Box<dyn Send + Sync>>>,
    /// The preallocated next segment.
    pub(crate) spare: Mutex<Spare>,
    pub(crate) spare_changed: Condvar,
    /// The last checkpoint. Locked while one is written.
    pub(crate) saved: Mutex<Saved>,
    /// How large the last checkpoint was.
    pub(crate) checkpoint_bytes: AtomicU64,
    pub(crate) keys: Mutex<KeyCache>,
    /// Locked during a compaction.
    pub(crate) packing: Mutex<Packing>,
    /// The number of truncations and deletions at the last search for dead segments.
    pub(crate) given_up_seen: AtomicU64,
    /// Whether the last search for them failed to give up what it found.
    pub(crate) is_dead_left: AtomicBool,
    /// Whether a running compaction has to end, because the store is closed.
    pub(crate) packing_over: AtomicBool,
    /// The views of active reads, whose records a compaction keeps.
    pub(crate) readings: Mutex<Readings>,
    /// The records that can't be read of the segment in which a read met one last.
    pub(crate) lost_places: Mutex<Option<Arc<LostPlaces>>>,
    /// Whether a flush has a deadline that no thread watches.
    pub(crate) is_due_unwatched: AtomicBool,
}

/// The last saved checkpoint.
pub(crate) struct Saved {
    /// The end of the log at that time: segment and offset.
    pub(crate) end: Option<(u32, u64)>,
    /// No checkpoint is saved any more: the store is closed.
    pub(crate) is_over: bool,
}

/// What compactions leave to later ones.
#[derive(Default)]
pub(crate) struct Packing {
    /// The pack of one that failed.
    pub(crate) unsettled: Option<Unsettled>,
    /// The files that are still to be removed: those whose place packs took, and unfinished packs.
    pub(crate) removable: Vec<String>,
    /// Whether some were removed and the folder wasn't flushed since.
    pub(crate) has_removed: bool,
}

/// A pack that took nobody's place, but of which it is unknown whether a crash leaves it under its name.
pub(crate) struct Unsettled {
    pub(crate) name: String,
    pub(crate) error: Error,
}

/// Weak references to the views of active reads.
#[derive(Default)]
pub(crate) struct Readings {
    views: Vec<Weak<View>>,
    /// At this many entries, those of finished reads are dropped.
    sweep_at: usize,
}

impl Readings {
    /// The least number of entries before a sweep.
    const SWEEP_MIN: usize = 64;

    fn add(&mut self, view: &Arc<View>) {
        if self.views.len() >= self.sweep_at.max(Self::SWEEP_MIN) {
            self.views.retain(|view| view.strong_count() > 0);
            self.sweep_at = 2 * self.views.len();
        }
        self.views.push(Arc::downgrade(view));
    }
}

/// The preallocated next segment.
#[derive(Default)]
pub(crate) enum Spare {
    #[default]
    None,
    Making,
    Ready(Arc<dyn File>, u64),
    /// The store is being closed.
    Over,
}

/// The state of a reader between its polls of the watermark.
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

    /// Whether a process has the store open for writing; `None` where it can't be told. Of the two files that a writer locks one is
    /// enough: a user may have deleted the other.
    pub(crate) fn has_writer(&self) -> Option<bool> {
        if !self.is_read_only() {
            return Some(!self.is_closed());
        }
        let locked = [files::LOCK, files::IDENTITY].map(|name| self.storage.is_locked(name));
        match locked {
            _ if locked.contains(&Some(true)) => Some(true),
            [Some(false), _] => Some(false),
            _ => None,
        }
    }

    /// Registers the view of a new read. The caller holds the directory's lock, so that a compaction can't drop records
    /// of the view before it is registered.
    pub(crate) fn begin_reading(&self, view: View) -> Arc<View> {
        let view = Arc::new(view);
        if !self.is_read_only() {
            self.readings().add(&view);
        }
        view
    }

    /// The views of active reads.
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

    /// Whether there may be segments without live records. It returns `true` once per change.
    pub(crate) fn may_have_dead(&self) -> bool {
        let given_up = self.durable().given_up;
        self.options.auto_compact
            && self.given_up_seen.swap(given_up, Ordering::Relaxed) != given_up
    }

    /// Whether a search for them that failed is to be repeated. It returns `true` once per failure.
    pub(crate) fn is_dead_left(&self) -> bool {
        self.is_dead_left.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn is_packing_over(&self) -> bool {
        self.packing_over.load(Ordering::Acquire)
    }

    /// Cancels a running compaction and waits for it; prevents further ones.
    pub(crate) fn end_packing(&self) {
        self.packing_over.store(true, Ordering::Release);
        drop(sync::lock(&self.packing));
    }

    /// Checks that this process opened the store. A process forked from it shares the open files and the lock, but not
    /// the state in memory, so both writing would corrupt the log.
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

    /// The group to wait for before this thread may write to the log.
    pub(crate) fn blocking_group(&self, writer: &Writer) -> Option<Arc<Group>> {
        let gathered = writer
            .open
            .as_ref()
            .filter(|_| writer.phase.is_gathering())
            .map(|open| &open.group);
        gathered.or(writer.phase.in_progress()).cloned()
    }

    /// Publishes to readers in other processes how far they may read. Not durable. If it fails they see the records
    /// later, and [`watermark_failure`](Self::watermark_failure) returns the error; the records are safe nevertheless.
    pub(crate) fn write_watermark(&self, segment: SegmentId, offset: u64, position: u64) {
        let Some(own) = &self.watermark else { return };
        let watermark = Watermark {
            store: self.identity.store,
            boot: self.boot,
            epoch: self.epoch,
            segment,
            offset,
            position,
            replacements: 0,
        };
        own.write(&*self.storage, &watermark);
    }

    /// Tells readers in other processes that a pack has replaced files, so that they let go of these.
    pub(crate) fn tell_replacement(&self) {
        let Some(own) = &self.watermark else { return };
        own.count_replacement();
        let durable = self.durable();
        let Some(active) = durable.active().map(|active| active.id()) else {
            return;
        };
        let (end, position) = (durable.end, durable.next_position - 1);
        drop(durable);
        self.write_watermark(active, end, position);
    }

    /// Why readers in other processes are behind, if they are.
    pub(crate) fn watermark_failure(&self) -> Option<Error> {
        self.watermark.as_ref().and_then(WatermarkFile::failure)
    }
}
