//! [`ErasedRuns`]: tells those who keep something of runs in memory which of them were erased.

use std::sync::{Mutex, PoisonError, Weak};

use runlog_model::RunId;

/// Keeps something of runs in memory that isn't written yet.
pub(crate) trait ForgetsErased: Send + Sync {
    /// Forgets what it keeps of these runs, which nobody is at work in.
    fn forget(&self, runs: &[RunId]);
}

/// Those who are told.
#[derive(Default)]
pub(crate) struct ErasedRuns(Mutex<Vec<Weak<dyn ForgetsErased>>>);

impl ErasedRuns {
    /// Tells this one, too, as long as it is there.
    pub(crate) fn register(&self, keeper: Weak<dyn ForgetsErased>) {
        let mut keepers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        keepers.retain(|keeper| keeper.strong_count() > 0);
        keepers.push(keeper);
    }

    /// These runs were erased.
    pub(crate) fn tell(&self, runs: &[RunId]) {
        let keepers = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        for keeper in keepers.iter().filter_map(Weak::upgrade) {
            keeper.forget(runs);
        }
    }
}
