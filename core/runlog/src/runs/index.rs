//! [`RunsReader`]: the runs catalog's fold over a backend, caught up whenever it is asked, written down now and then.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
};

use runlog_engine::{Batch, Durability, Expected, Kind, NewRecord, Op, ReadOptions, Sequence, StreamId};
use runlog_model::{RUN_PART, RunCatalog, RunCatalogEvent, RunId, decode_run_checkpoint};

use crate::{Error, ErrorKind, Result, backend::Backend};

/// The stream of every store that says which runs there are, and how they ended.
pub const RUNS_STREAM: StreamId = StreamId::from_bytes(*b"runlog:runlist:1");
/// The parts of the catalog's checkpoints; a snapshot of [`RUNS_STREAM`] says which of them count.
const PARTS_STREAM: StreamId = StreamId::from_bytes(*b"runlog:runpart:1");

/// After how many events the catalog is written down: what opening has to fold at most, unless that failed.
const CHECKPOINT_EVENTS: u64 = 8_192;
/// How many parts one batch holds: about 25 MiB, where names are short.
const PARTS_PER_BATCH: usize = 64;

/// Owns the fold, and that it is never ahead of what is durable.
pub(crate) struct RunsReader {
    backend: Arc<dyn Backend>,
    shared: Arc<RunsShared>,
}

/// What all handles of a store have together, those that wait and those that await.
#[derive(Default)]
pub(crate) struct RunsShared {
    catalog: Mutex<RunCatalog>,
    /// The runs that somebody in this process records, and how many recorders each has.
    live: Mutex<HashMap<RunId, usize>>,
}

impl RunsShared {
    /// Has the run count as recorded by this process, until what this gives is dropped.
    pub(super) fn live(self: &Arc<Self>, id: RunId) -> Live {
        *self.live_runs().entry(id).or_default() += 1;
        Live { shared: Arc::clone(self), id }
    }

    pub(super) fn is_live(&self, run: RunId) -> bool {
        self.live_runs().contains_key(&run)
    }

    fn live_runs(&self) -> MutexGuard<'_, HashMap<RunId, usize>> {
        self.live.lock().expect("the list of live runs was left broken by a panic")
    }
}

/// That this process records a run.
pub(super) struct Live {
    shared: Arc<RunsShared>,
    id: RunId,
}

impl Drop for Live {
    fn drop(&mut self) {
        let mut live = self.shared.live_runs();
        if let Some(recorders) = live.get_mut(&self.id) {
            *recorders -= 1;
            if *recorders == 0 {
                live.remove(&self.id);
            }
        }
    }
}

impl RunsReader {
    pub(crate) fn new(backend: Arc<dyn Backend>, shared: Arc<RunsShared>) -> Self {
        Self { backend, shared }
    }

    pub(crate) fn shared(&self) -> &Arc<RunsShared> {
        &self.shared
    }

    /// The fold as far as it got. The lock is never held across a wait.
    fn locked(&self) -> MutexGuard<'_, RunCatalog> {
        self.shared.catalog.lock().expect("the runs catalog was left broken by a panic")
    }

    /// Catches up, then looks something up.
    pub(super) async fn read<T>(&self, look: impl FnOnce(&RunCatalog) -> T) -> Result<T> {
        self.catch_up().await?;
        Ok(look(&self.locked()))
    }

    /// Takes in what was just written, and writes the catalog down when it is time. What was written is there,
    /// whatever becomes of this; a failure to read is told by the next read.
    pub(super) async fn wrote(&self) {
        if self.catch_up().await.is_ok() && self.locked().events_since_checkpoint() >= CHECKPOINT_EVENTS {
            let _ = self.checkpoint().await;
        }
    }

    async fn catch_up(&self) -> Result<()> {
        let Some(info) = self.backend.stream(RUNS_STREAM).await? else { return Ok(()) };
        let last = self.locked().last_sequence();
        if last == 0 && info.last_sequence.0 >= CHECKPOINT_EVENTS {
            self.restore().await?;
        }
        let mut next = Some(Sequence(self.locked().last_sequence()).next());
        while let Some(first) = next.filter(|first| *first <= info.last_sequence) {
            let page = self.backend.read(RUNS_STREAM, ReadOptions { first, ..ReadOptions::default() }).await?;
            next = page.next;
            let mut catalog = self.locked();
            for record in &page.records {
                // Another thread may have got further meanwhile; what it applied is skipped.
                if record.sequence.0 <= catalog.last_sequence() {
                    continue;
                }
                let event = RunCatalogEvent::decode(record.kind.0, &record.meta, &record.payload).map_err(|error| {
                    let error = Error::from(error);
                    Error::new(error.kind(), format!("runs event {}: {error}", record.sequence))
                })?;
                catalog.apply(record.sequence.0, &event)?;
            }
        }
        Ok(())
    }

    /// Begins with the newest checkpoint. One that can't be used is passed over: every event is still there.
    async fn restore(&self) -> Result<()> {
        let Some(snapshot) = self.backend.latest_snapshot(RUNS_STREAM, Sequence::MAX).await? else { return Ok(()) };
        let Ok(checkpoint) = decode_run_checkpoint(&snapshot.meta, &snapshot.payload) else { return Ok(()) };
        let mut parts = Vec::new();
        for sequence in checkpoint.parts.iter().copied().map(Sequence) {
            let one = ReadOptions { first: sequence, last: sequence, limit: 1, ..ReadOptions::default() };
            match self.backend.read(PARTS_STREAM, one).await {
                Ok(page) => parts.extend(page.records.into_iter().map(|record| record.payload)),
                Err(error) if matches!(error.kind(), ErrorKind::Damaged | ErrorKind::NotFound) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        let restored = RunCatalog::restore(snapshot.sequence.0, checkpoint, parts.iter().map(|part| &part[..]));
        let mut catalog = self.locked();
        if let Ok(restored) = restored
            && catalog.last_sequence() == 0
        {
            *catalog = restored;
        }
        Ok(())
    }

    /// Writes down what changed since the last time. Nothing waits for the device: it is derived.
    async fn checkpoint(&self) -> Result<()> {
        let mut last = self.backend.stream(PARTS_STREAM).await?.map_or(Sequence::ZERO, |info| info.last_sequence);
        let (sequence, parts, checkpoint) = {
            let catalog = self.locked();
            let (parts, checkpoint) = catalog.checkpoint(last.0 + 1)?;
            (catalog.last_sequence(), parts, checkpoint)
        };
        let record = |part| NewRecord { kind: Kind(RUN_PART), meta: &[], payload: part };
        for parts in parts.chunks(PARTS_PER_BATCH) {
            // The expectation keeps a second writer of checkpoints from mixing its parts in.
            let records = parts.iter().map(Vec::as_slice).map(record).collect();
            let op = Op::Append { stream: PARTS_STREAM, expected: Expected::Last(last), records };
            self.backend.commit(Batch::new(vec![op]).with_durability(Durability::Os)).await?;
            last = Sequence(last.0 + parts.len() as u64);
        }
        let (meta, payload) = checkpoint.encode()?;
        let sequence = Sequence(sequence);
        let op = Op::Snapshot { stream: RUNS_STREAM, sequence, meta: &meta, payload: &payload };
        self.backend.commit(Batch::new(vec![op]).with_durability(Durability::Os)).await?;
        self.locked().checkpointed(sequence.0, checkpoint);
        Ok(())
    }
}
