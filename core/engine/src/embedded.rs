//! [`Embedded`]: the engine in this process as a [`Backend`].

use std::{
    future::poll_fn,
    path::{Path, PathBuf},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use runlog_log::{Backend, BackendFuture, Maintenance, Page};
use uuid::Uuid;

use crate::{
    Appended, Batch, Direction, Error, FindOptions, Host, Label, Mode, OpenOptions, Position,
    Preallocation, ReadOptions, Record, Recovery, Result, Sequence, Snapshot, Stat, Store,
    StreamId, StreamInfo, Verification, Wait,
    storage::{MemoryStorage, Storage},
    store::Waiter,
};

/// The most payload bytes that one page holds beyond its first record: 1 MiB.
const PAGE_BYTES_MAX: usize = 1 << 20;
/// How often a waiting thread checks whether it should still wait.
const WAIT_SLICE: Duration = Duration::from_secs(1);
/// The name of the thread that follows another process's writer.
#[cfg(not(target_family = "wasm"))]
const FOLLOWER: &str = "runlog-follow";
/// How often in a row that thread finds something new before it asks whether anything still waits for it.
#[cfg(not(target_family = "wasm"))]
const NEWS_TOGETHER: u32 = 32;
/// How long a thread follows another process's writer before it asks whether anything still waits for it.
#[cfg(not(target_family = "wasm"))]
const FOLLOW_INTERVAL: Duration = Duration::from_millis(250);
/// How often a reader polls without threads: a poll reads one small file.
#[cfg(target_family = "wasm")]
const FOLLOW_INTERVAL: Duration = Duration::from_millis(20);

/// The engine in this process. The folder is locked for writing until the last handle is dropped.
///
/// ```
/// use runlog_engine::{Embedded, OpenOptions, Wait};
///
/// # fn main() -> runlog_engine::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("store");
/// let backend = Embedded::open(&path, OpenOptions::default(), Wait::Await)?;
/// assert_eq!(backend.engine().last_position()?.0, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Embedded {
    engine: Store,
    wait: Wait,
    mode: Mode,
}

impl Embedded {
    /// Opens the store in a folder.
    ///
    /// # Errors
    /// As [`Store::open`].
    #[cfg(not(target_family = "wasm"))]
    pub fn open(path: impl AsRef<Path>, options: OpenOptions, wait: Wait) -> Result<Self> {
        let mode = options.mode;
        Ok(Self {
            engine: Store::open(path, options)?,
            wait,
            mode,
        })
    }

    /// Opens the store on a storage.
    ///
    /// # Errors
    /// As [`Store::open_on`].
    pub fn open_on(storage: Arc<dyn Storage>, options: OpenOptions, wait: Wait) -> Result<Self> {
        let mode = options.mode;
        Ok(Self {
            engine: Store::open_on(storage, options)?,
            wait,
            mode,
        })
    }

    /// A new store in memory, dropped with its last handle. No append survives the process, whatever its durability.
    pub fn in_memory(host: Arc<dyn Host>, wait: Wait) -> Self {
        let options = OpenOptions {
            preallocation: Preallocation::None,
            ..OpenOptions::with_host(host)
        };
        let storage = Arc::new(MemoryStorage::new());
        Self::open_on(storage, options, wait).expect("a new store in memory can be opened")
    }

    /// The same open store with another way to wait.
    #[must_use]
    pub fn with_wait(&self, wait: Wait) -> Self {
        Self {
            wait,
            ..self.clone()
        }
    }

    /// The engine's own calls, which wait by blocking the thread.
    pub fn engine(&self) -> &Store {
        &self.engine
    }

    async fn commit_batch(&self, batch: Batch<'_>) -> Result<Appended> {
        match self.wait {
            Wait::Block => self.engine.commit(&batch),
            Wait::Await => match self.engine.stage(&batch) {
                Ok(commit) => commit.await,
                Err(error) => Err(error),
            },
        }
    }

    fn read_page(&self, stream: StreamId, options: ReadOptions) -> Result<Page<Sequence>> {
        let limit = options.limit;
        // One record more than asked for, to know whether there is a next page.
        let direction = options.direction;
        let mut records = self.engine.read(
            stream,
            ReadOptions {
                limit: limit.saturating_add(1),
                ..options
            },
        )?;
        let after = |record: &Record| match direction {
            Direction::Forward => record.sequence.next(),
            Direction::Backward => Sequence(record.sequence.0.saturating_sub(1)),
        };
        page(limit, || records.next(), |record| record.sequence, after)
    }

    /// A full page names a next one without checking that another record matches, since that search may take as long as
    /// finding all of them.
    fn find_page(&self, label: Label, options: FindOptions) -> Result<Page<Position>> {
        let (limit, direction) = (options.limit, options.direction);
        let mut found = self.engine.find(label, options)?;
        let after = |record: &Record| match direction {
            Direction::Forward => record.position.next(),
            Direction::Backward => Position(record.position.0.saturating_sub(1)),
        };
        let mut page = page(limit, || found.next(), |record| record.position, after)?;
        if page.next.is_none() && page.records.len() as u64 == limit {
            page.next = page.records.last().map(after);
        }
        Ok(page)
    }

    fn scan_page(&self, first: Position, limit: u64) -> Result<Page<Position>> {
        let mut records = self.engine.scan(first)?;
        page(
            limit,
            || records.next(),
            |record| record.position,
            |record| record.position.next(),
        )
    }

    fn block_past(&self, seen: Position) -> Result<Position> {
        let mut subscription = self.engine.subscribe(seen.next());
        loop {
            // This also reports that the store was closed meanwhile, which the position alone doesn't.
            if subscription.next_timeout(WAIT_SLICE)?.is_some() {
                return self.engine.last_position();
            }
            if cfg!(target_family = "wasm") {
                return Err(Error::invalid(
                    "a thread can't be blocked here; use the async store",
                ));
            }
        }
    }

    async fn await_past(&self, seen: Position) -> Result<Position> {
        let shared = self.engine.shared();
        let mut waiter = Waiter::new(shared.watch.clone());
        poll_fn(|context| {
            let polled = shared.poll_past(|| waiter.poll_past(seen.0, context.waker()));
            if polled.is_pending() {
                self.look_again_soon(context.waker())?;
            }
            polled
        })
        .await
    }

    /// Polls for another process's writer, which can't wake a task in this one: in a thread for all tasks of the store,
    /// or without threads by the host's timer.
    #[cfg(not(target_family = "wasm"))]
    fn look_again_soon(&self, _: &std::task::Waker) -> Result<()> {
        let watch = &self.engine.shared().watch;
        if self.mode != Mode::ReadOnly || !watch.begin_following() {
            return Ok(());
        }
        let engine = self.engine.clone();
        let thread = std::thread::Builder::new().name(FOLLOWER.to_owned());
        let begun = thread.spawn(move || follow(&engine));
        begun.map(drop).map_err(|error| {
            watch.end_following();
            Error::new(
                crate::ErrorKind::Io,
                format!("no thread can be started that follows the writer: {error}"),
            )
        })
    }

    #[cfg(target_family = "wasm")]
    fn look_again_soon(&self, waker: &std::task::Waker) -> Result<()> {
        if self.mode == Mode::ReadOnly {
            self.engine.wake_after(FOLLOW_INTERVAL, waker.clone());
        }
        Ok(())
    }
}

/// Follows another process's writer for all tasks that wait for it in a read-only store, until none does.
#[cfg(not(target_family = "wasm"))]
fn follow(engine: &Store) {
    let watch = &engine.shared().watch;
    let mut news = 0;
    loop {
        let seen = watch.position();
        let looked = engine.wait_past(Position(seen), FOLLOW_INTERVAL);
        if looked.is_err() || watch.is_closed() {
            watch.end_following();
            // The polls that follow return the error.
            return watch.wake();
        }
        let is_new = watch.position() > seen;
        news = if is_new { news + 1 } else { 0_u32 };
        if is_new && news % NEWS_TOGETHER != 0 {
            // The tasks were woken, and come again if they wait for more.
            continue;
        }
        // Also while a writer always has something new: this holds the store open.
        if watch.end_following_unawaited() {
            return;
        }
    }
}

impl Backend for Embedded {
    fn commit<'a>(&'a self, batch: Batch<'a>) -> BackendFuture<'a, Appended> {
        Box::pin(self.commit_batch(batch))
    }

    fn read(&self, stream: StreamId, options: ReadOptions) -> BackendFuture<'_, Page<Sequence>> {
        Box::pin(async move { self.read_page(stream, options) })
    }

    fn find(&self, label: Label, options: FindOptions) -> BackendFuture<'_, Page<Position>> {
        Box::pin(async move { self.find_page(label, options) })
    }

    fn scan(&self, first: Position, limit: u64) -> BackendFuture<'_, Page<Position>> {
        Box::pin(async move { self.scan_page(first, limit) })
    }

    fn stream(&self, stream: StreamId) -> BackendFuture<'_, Option<StreamInfo>> {
        Box::pin(async move { self.engine.stream(stream) })
    }

    fn latest_snapshot(
        &self,
        stream: StreamId,
        at_or_before: Sequence,
    ) -> BackendFuture<'_, Option<Snapshot>> {
        Box::pin(async move { self.engine.latest_snapshot(stream, at_or_before) })
    }

    fn redactions(&self) -> u64 {
        self.engine.redactions()
    }

    fn poll_past(&self, seen: Position, context: &mut Context<'_>) -> Poll<Result<Position>> {
        self.engine.poll_past(seen, context)
    }

    fn wait_past(&self, seen: Position) -> BackendFuture<'_, Position> {
        match self.wait {
            Wait::Block => Box::pin(async move { self.block_past(seen) }),
            Wait::Await => Box::pin(self.await_past(seen)),
        }
    }

    fn close(&self) -> BackendFuture<'_, ()> {
        Box::pin(async move { self.engine.close() })
    }

    fn maintenance(&self) -> &dyn Maintenance {
        self
    }

    fn waiting(&self, wait: Wait) -> Option<Arc<dyn Backend>> {
        Some(Arc::new(self.with_wait(wait)))
    }

    fn as_of_now(&self) -> BackendFuture<'_, Option<Arc<dyn Backend>>> {
        Box::pin(async move {
            if self.mode != Mode::ReadOnly {
                return Ok(None);
            }
            let engine = self.engine.as_of_now()?;
            let now: Arc<dyn Backend> = Arc::new(Self {
                engine,
                ..self.clone()
            });
            Ok(Some(now))
        })
    }

    fn is_read_only(&self) -> bool {
        self.mode == Mode::ReadOnly
    }

    fn new_id(&self) -> Uuid {
        self.engine.new_id()
    }

    fn now_ms(&self) -> u64 {
        self.engine.now_ms()
    }
}

impl Maintenance for Embedded {
    fn folder(&self) -> Option<PathBuf> {
        let storage = &self.engine.shared().storage;
        let folder = storage.folder_path().filter(|_| !storage.is_moved());
        folder.map(Path::to_owned)
    }

    fn has_writer(&self) -> Option<bool> {
        self.engine.shared().has_writer()
    }

    fn last_position(&self) -> BackendFuture<'_, Position> {
        Box::pin(async move { self.engine.last_position() })
    }

    fn record(&self, position: Position) -> BackendFuture<'_, Option<Record>> {
        Box::pin(async move { self.engine.record(position) })
    }

    fn next_readable(&self, first: Position) -> BackendFuture<'_, Option<Position>> {
        Box::pin(async move { self.engine.next_readable(first) })
    }

    fn streams(&self) -> BackendFuture<'_, Vec<StreamInfo>> {
        Box::pin(async move { self.engine.streams() })
    }

    fn stage(&self, batch: &Batch<'_>) -> Result<BackendFuture<'static, Appended>> {
        Ok(Box::pin(self.engine.stage(batch)?))
    }

    fn flush(&self) -> BackendFuture<'_, ()> {
        Box::pin(async move { self.engine.sync() })
    }

    fn recovery(&self) -> Result<Recovery> {
        Ok(self.engine.recovery())
    }

    fn stat(&self) -> BackendFuture<'_, Stat> {
        Box::pin(async move { self.engine.stat() })
    }

    fn verify(&self) -> BackendFuture<'_, Verification> {
        Box::pin(async move { self.engine.verify() })
    }

    fn compact<'a>(
        &'a self,
        options: crate::CompactOptions,
        progress: &'a mut crate::OnCompactProgress<'a>,
    ) -> BackendFuture<'a, crate::Compaction> {
        Box::pin(async move { self.engine.compact_with(options, progress) })
    }

    #[cfg(not(target_family = "wasm"))]
    fn backup<'a>(
        &'a self,
        folder: &'a Path,
        options: crate::BackupOptions,
    ) -> BackendFuture<'a, crate::Backup> {
        Box::pin(async move {
            self.engine
                .backup_with(&crate::storage::FsStorage::new(folder), options)
        })
    }
}

/// Collects records up to `limit` of them or about 1 MiB of payload. If one can't be read, the page ends before it, and
/// reading the next page returns the error.
fn page<Place>(
    limit: u64,
    mut next: impl FnMut() -> Option<Result<Record>>,
    place: impl Fn(&Record) -> Place,
    after: impl Fn(&Record) -> Place,
) -> Result<Page<Place>> {
    let mut page = Page {
        records: Vec::new(),
        next: None,
    };
    let mut bytes = 0;
    while let Some(record) = next() {
        let record = match (record, page.records.last()) {
            (Ok(record), _) => record,
            (Err(_), Some(last)) => {
                page.next = Some(after(last));
                break;
            }
            (Err(error), None) => return Err(error),
        };
        let full = page.records.len() as u64 >= limit
            || (!page.records.is_empty() && bytes + record.payload.len() > PAGE_BYTES_MAX);
        if full {
            page.next = Some(place(&record));
            break;
        }
        bytes += record.payload.len();
        page.records.push(record);
    }
    Ok(page)
}
