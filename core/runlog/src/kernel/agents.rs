//! [`AgentsFold`]: the folded definitions of agents.

use std::sync::{Mutex, MutexGuard};

use runlog_model::AgentCatalog;

/// Invariant: the fold is never ahead of what is durable.
#[derive(Default)]
pub(crate) struct AgentsFold {
    catalog: Mutex<AgentCatalog>,
}

impl AgentsFold {
    /// The lock is never held across a wait.
    pub(crate) fn locked(&self) -> MutexGuard<'_, AgentCatalog> {
        self.catalog
            .lock()
            .expect("the catalog of agents was left broken by a panic")
    }
}
