//! [`Arriving`]: runs that are being written and aren't among those under way yet.
//!
//! Once a run is in the log, anybody can ask something of it. Whoever does waits until it has arrived, so that there is
//! one [`Live`] of it, with all that is below it.

use std::sync::Arc;

use runlog_model::RunId;
use tokio_util::sync::CancellationToken;

use super::{live::Live, orchestrator::Inner};

/// That runs are being written. To be held from before they are in the log until they are under way.
pub(super) struct Arriving {
    inner: Arc<Inner>,
    runs: Vec<RunId>,
    have_arrived: CancellationToken,
}

impl Inner {
    pub(super) fn arriving(self: &Arc<Self>, runs: Vec<RunId>) -> Arriving {
        let have_arrived = CancellationToken::new();
        self.arrivals().extend(runs.iter().map(|run| (*run, have_arrived.clone())));
        Arriving { inner: Arc::clone(self), runs, have_arrived }
    }

    /// The run, when it is under way here, or is about to be.
    pub(super) async fn arrived(&self, id: RunId) -> Option<Arc<Live>> {
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

impl Drop for Arriving {
    fn drop(&mut self) {
        let mut arrivals = self.inner.arrivals();
        self.runs.iter().for_each(|run| drop(arrivals.remove(run)));
        drop(arrivals);
        self.have_arrived.cancel();
    }
}
