//! [`FlowsReader`]: the flows catalog's fold over a backend, and the flows that this process has a handle of.

use std::sync::Arc;

use runlog_log::StreamId;
use runlog_model::FlowCatalog;

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
