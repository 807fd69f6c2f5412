//! [`StartingRuns`]: runs that are being written and aren't active yet.
//!
//! Once a run is in the log, other calls can find it. They wait until it is in the tree, so that there is
//! only one [`ActiveRun`] of it, with all that is below it.

use std::sync::Arc;

use runlog_model::RunId;
use tokio_util::sync::CancellationToken;

use super::active_run::ActiveRun;
use crate::agents::inner::Inner;

/// Marks runs as starting, from before they are in the log until they are active; then it is dropped.
pub(super) struct StartingRuns {
    inner: Arc<Inner>,
    runs: Vec<RunId>,
    started: CancellationToken,
}

impl Inner {
    pub(super) fn starting(self: &Arc<Self>, runs: Vec<RunId>) -> StartingRuns {
        let started = CancellationToken::new();
        self.arrivals()
            .extend(runs.iter().map(|run| (*run, started.clone())));
        StartingRuns {
            inner: Arc::clone(self),
            runs,
            started,
        }
    }

    /// The run, if it is active here, or is about to be.
    pub(super) async fn arrived(&self, id: RunId) -> Option<Arc<ActiveRun>> {
        loop {
            let arrives = self.arrivals().get(&id).cloned();
            match arrives {
                Some(arrives) => arrives.cancelled().await,
                None => return self.live(id),
            }
        }
    }

    pub(super) fn is_arriving(&self, id: RunId) -> bool {
        self.arrivals().contains_key(&id)
    }
}

impl Drop for StartingRuns {
    fn drop(&mut self) {
        let mut arrivals = self.inner.arrivals();
        self.runs.iter().for_each(|run| drop(arrivals.remove(run)));
        drop(arrivals);
        self.started.cancel();
    }
}
