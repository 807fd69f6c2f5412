//! [`FlowsReader`]: the flows catalog's fold over a backend, and the flows that this process has a handle of.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
};

use runlog_log::StreamId;
use runlog_model::{FlowCatalog, RunId};

use crate::{
    backend::Backend,
    journal::projection::{Folded, Projection, Streams},
};

/// The stream of every store that says which flows there are, and their statuses.
pub const FLOWS_STREAM: StreamId = StreamId::from_bytes(*b"runlog:flowlist1");
/// The parts of the catalog's checkpoints; a snapshot of [`FLOWS_STREAM`] says which of them count.
pub(crate) const PARTS_STREAM: StreamId = StreamId::from_bytes(*b"runlog:flowpart1");

/// Which flows there are.
pub(crate) struct FlowsReader {
    pub(crate) projection: Projection<FlowCatalog>,
    pub(crate) shared: Arc<FlowsShared>,
}

/// What all handles of a store have together, those that wait and those that await.
#[derive(Default)]
pub(crate) struct FlowsShared {
    catalog: Arc<Folded<FlowCatalog>>,
    /// The flows that somebody in this process has a handle of, and how many.
    live: Mutex<HashMap<RunId, usize>>,
}

impl FlowsShared {
    /// Has the flow count as one that somebody is at work on, until what this gives is dropped.
    pub(crate) fn live(self: &Arc<Self>, id: RunId) -> LiveGuard {
        *self.live_flows().entry(id).or_default() += 1;
        LiveGuard {
            shared: Arc::clone(self),
            id,
        }
    }

    pub(crate) fn is_live(&self, id: RunId) -> bool {
        self.live_flows().contains_key(&id)
    }

    fn live_flows(&self) -> MutexGuard<'_, HashMap<RunId, usize>> {
        self.live
            .lock()
            .expect("the list of live flows was left broken by a panic")
    }
}

/// That somebody in this process has a handle of a flow.
pub(crate) struct LiveGuard {
    shared: Arc<FlowsShared>,
    id: RunId,
}

impl Drop for LiveGuard {
    fn drop(&mut self) {
        let mut live = self.shared.live_flows();
        if let Some(handles) = live.get_mut(&self.id) {
            *handles -= 1;
            if *handles == 0 {
                live.remove(&self.id);
            }
        }
    }
}

impl FlowsReader {
    pub(crate) fn new(backend: Arc<dyn Backend>, shared: Arc<FlowsShared>) -> Self {
        let streams = Streams {
            events: FLOWS_STREAM,
            parts: PARTS_STREAM,
            event: "flows event",
        };
        Self {
            projection: Projection::new(backend, streams, Arc::clone(&shared.catalog)),
            shared,
        }
    }

    pub(crate) fn shared(&self) -> &Arc<FlowsShared> {
        &self.shared
    }

    /// Takes in what was just written, and writes the catalog down when it is time.
    pub(crate) async fn after_commit(&self) {
        self.projection.after_commit().await;
    }
}
