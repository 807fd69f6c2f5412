//! [`FlowsReader`]: the flows catalog's fold over a backend, and the flows that this process has a handle of.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use runlog_log::{StreamId, StreamInfo};
use runlog_model::{FlowCatalog, RunId};

use super::{inbox::Inboxes, live::Live};
use crate::{
    backend::Backend,
    journal::projection::{Folded, Projection, Streams},
};

/// The stream of every store that lists its flows, with their statuses.
pub const FLOWS_STREAM: StreamId = StreamId::from_bytes(*b"runlog:flowlist1");
/// The parts of the catalog's checkpoints; a snapshot of [`FLOWS_STREAM`] lists the valid ones.
pub(crate) const PARTS_STREAM: StreamId = StreamId::from_bytes(*b"runlog:flowpart1");

/// The flows of a store.
pub(crate) struct FlowsReader {
    pub(crate) projection: Projection<FlowCatalog>,
    pub(crate) shared: Arc<FlowsShared>,
}

/// The state that all handles of a store share, blocking and async ones.
#[derive(Default)]
pub(crate) struct FlowsShared {
    catalog: Arc<Folded<FlowCatalog>>,
    live: Arc<Live>,
    resumed: Arc<Live>,
    inboxes: Arc<Inboxes>,
    /// The flows in which no delta can be dropped before they go on, and the redaction count of the store when they were
    /// found.
    settled: Mutex<(u64, HashMap<RunId, Settled>)>,
}

/// The most flows of which it is kept in memory that no delta can be dropped in them; others are read again each time.
const SETTLED_MAX: usize = 1 << 18;

/// A flow in which no delta can be dropped before it goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settled {
    /// What its stream was when it was read.
    pub(crate) at: StreamInfo,
    /// Deltas were old if they were recorded before this time.
    pub(crate) stood_since_ms: u64,
    /// How many old deltas it keeps: no text that stands is what they are.
    pub(crate) kept: u64,
}

impl FlowsShared {
    /// The flows that this process has a handle of.
    pub(crate) fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// The flows that this process has resumed and is running.
    pub(crate) fn resumed(&self) -> &Arc<Live> {
        &self.resumed
    }

    /// The inboxes of the runs that an orchestrator of this process executes.
    pub(crate) fn inboxes(&self) -> &Arc<Inboxes> {
        &self.inboxes
    }

    /// A flow that was found settled, if it was, and nothing was redacted since.
    pub(crate) fn settled(&self, flow: RunId, redactions: u64) -> Option<Settled> {
        let settled = self.all_settled();
        let known = settled.1.get(&flow).copied();
        known.filter(|_| settled.0 == redactions)
    }

    /// Replaces the flows that were found settled, so that those that were removed are forgotten.
    pub(crate) fn set_settled(&self, mut found: HashMap<RunId, Settled>, redactions: u64) {
        if found.len() > SETTLED_MAX {
            found = found.into_iter().take(SETTLED_MAX).collect();
        }
        *self.all_settled() = (redactions, found);
    }

    fn all_settled(&self) -> MutexGuard<'_, (u64, HashMap<RunId, Settled>)> {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Applies the events just written, and writes a checkpoint when one is due.
    pub(crate) async fn after_commit(&self) {
        self.projection.after_commit().await;
    }
}
