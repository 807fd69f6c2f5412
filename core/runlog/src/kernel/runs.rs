//! [`RunsReader`]: the runs catalog's fold over a backend, and the runs that this process records.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard},
};

use runlog_log::StreamId;
use runlog_model::{InstanceId, RunCatalog, RunId};
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::{
    gates::{Gate, Gates},
    live::Live,
};
use crate::{
    Result,
    backend::Backend,
    journal::projection::{Folded, Projection, Streams},
};

/// The stream of every store that lists its runs, and how they ended.
pub const RUNS_STREAM: StreamId = StreamId::from_bytes(*b"runlog:runlist:1");
/// The parts of the catalog's checkpoints; a snapshot of [`RUNS_STREAM`] lists the valid ones.
pub(crate) const PARTS_STREAM: StreamId = StreamId::from_bytes(*b"runlog:runpart:1");

/// The runs of a store.
pub(crate) struct RunsReader {
    projection: Projection<RunCatalog>,
    shared: Arc<RunsShared>,
}

/// The state that all handles of a store share, blocking and async ones.
#[derive(Default)]
pub(crate) struct RunsShared {
    catalog: Arc<Folded<RunCatalog>>,
    live: Arc<Live>,
    gates: Arc<Gates>,
    /// The contexts in which a run is being started.
    entered: Mutex<HashSet<InstanceId>>,
    /// The contexts that recorders of this process write to, and how many recorders each has.
    recorded: Mutex<HashMap<InstanceId, Recorded>>,
}

/// A context that recorders of this process write to.
#[derive(Default)]
struct Recorded {
    lock: Arc<RwLock<()>>,
    recorders: usize,
}

impl RunsShared {
    /// The runs that this process is recording.
    pub(crate) fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// The lock that prevents that a run's flow writes while the run's status changes.
    pub(crate) fn gate(&self, id: RunId) -> Gate {
        self.gates.gate(id)
    }

    /// Marks a context as taken until the guard is dropped; `None` if it is taken already.
    pub(crate) fn enter(self: &Arc<Self>, instance: InstanceId) -> Option<Entering> {
        let entered = self.entered().insert(instance);
        entered.then(|| Entering {
            shared: Arc::clone(self),
            instance,
        })
    }

    /// The lock that puts the writes of all recorders of a context in order.
    pub(crate) fn order_in(self: &Arc<Self>, instance: InstanceId) -> ContextOrder {
        let mut recorded = self.recorded();
        let context = recorded.entry(instance).or_default();
        context.recorders += 1;
        ContextOrder {
            shared: Arc::clone(self),
            instance,
            lock: Arc::clone(&context.lock),
        }
    }

    fn recorded(&self) -> MutexGuard<'_, HashMap<InstanceId, Recorded>> {
        self.recorded
            .lock()
            .expect("the list of recorded contexts was left broken by a panic")
    }

    fn entered(&self) -> MutexGuard<'_, HashSet<InstanceId>> {
        self.entered
            .lock()
            .expect("the list of entered contexts was left broken by a panic")
    }
}

/// The order in which recorders write to a context. Only one process writes a store, so this is in memory.
pub(crate) struct ContextOrder {
    shared: Arc<RunsShared>,
    instance: InstanceId,
    lock: Arc<RwLock<()>>,
}

/// A turn to write to a context. Waiting writers get theirs first come, first served.
pub(crate) enum Turn<'a> {
    /// Other results of tool calls may be written at the same time.
    Shared { _guard: RwLockReadGuard<'a, ()> },
    /// Nothing else may be written at the same time.
    Alone { _guard: RwLockWriteGuard<'a, ()> },
}

impl ContextOrder {
    /// Whether this process has no other recorder of the context.
    pub(crate) fn is_only_one(&self) -> bool {
        self.shared
            .recorded()
            .get(&self.instance)
            .is_none_or(|context| context.recorders == 1)
    }

    /// Results of tool calls may be written concurrently, in any order, by the only recorder of the context, which knows those
    /// that it is writing. Whether any other message is valid depends on everything that is written before it.
    pub(crate) async fn turn(&self, is_results: bool) -> Turn<'_> {
        // Another recorder may be made after this; it finds that it isn't the only one, and waits.
        if is_results && self.is_only_one() {
            return Turn::Shared {
                _guard: self.lock.read().await,
            };
        }
        Turn::Alone {
            _guard: self.lock.write().await,
        }
    }
}

impl Drop for ContextOrder {
    fn drop(&mut self) {
        let mut recorded = self.shared.recorded();
        if let Some(context) = recorded.get_mut(&self.instance) {
            context.recorders -= 1;
            if context.recorders == 0 {
                recorded.remove(&self.instance);
            }
        }
    }
}

/// Marks a context in which a run is being started, until it is dropped.
pub(crate) struct Entering {
    shared: Arc<RunsShared>,
    instance: InstanceId,
}

impl Drop for Entering {
    fn drop(&mut self) {
        self.shared.entered().remove(&self.instance);
    }
}

impl RunsReader {
    pub(crate) fn new(backend: Arc<dyn Backend>, shared: Arc<RunsShared>) -> Self {
        let streams = Streams {
            events: RUNS_STREAM,
            parts: PARTS_STREAM,
            event: "runs event",
        };
        Self {
            projection: Projection::new(backend, streams, Arc::clone(&shared.catalog)),
            shared,
        }
    }

    pub(crate) fn shared(&self) -> &Arc<RunsShared> {
        &self.shared
    }

    /// Looks something up in the fold, without catching up.
    pub(crate) fn with_state<T>(&self, look: impl FnOnce(&RunCatalog) -> T) -> T {
        self.projection.with_state(look)
    }

    /// Catches up, then looks something up.
    pub(crate) async fn read<T>(&self, look: impl FnOnce(&RunCatalog) -> T) -> Result<T> {
        self.projection.read(look).await
    }

    /// Writes a checkpoint, so that the next opening is fast.
    pub(crate) async fn before_close(&self) {
        self.projection.before_close().await;
    }

    /// Applies the events just written, and writes a checkpoint when one is due.
    pub(crate) async fn after_commit(&self) {
        self.projection.after_commit().await;
    }
}
