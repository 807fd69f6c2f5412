//! [`Live`]: the runs or flows that this process is working on.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
};

use runlog_model::RunId;

/// The number of handles of each.
#[derive(Default)]
pub(crate) struct Live(Mutex<HashMap<RunId, usize>>);

/// Marks a run or a flow as being worked on, until it is dropped.
pub(crate) struct LiveGuard {
    live: Arc<Live>,
    id: RunId,
}

impl Live {
    /// Marks it as being worked on, until the guard is dropped.
    pub(crate) fn enter(self: &Arc<Self>, id: RunId) -> LiveGuard {
        *self.handles().entry(id).or_default() += 1;
        LiveGuard {
            live: Arc::clone(self),
            id,
        }
    }

    /// The same; `None` if it is being worked on already.
    pub(crate) fn enter_alone(self: &Arc<Self>, id: RunId) -> Option<LiveGuard> {
        let mut handles = self.handles();
        if handles.contains_key(&id) {
            return None;
        }
        handles.insert(id, 1);
        Some(LiveGuard {
            live: Arc::clone(self),
            id,
        })
    }

    pub(crate) fn has(&self, id: RunId) -> bool {
        self.handles().contains_key(&id)
    }

    fn handles(&self) -> MutexGuard<'_, HashMap<RunId, usize>> {
        self.0
            .lock()
            .expect("the list of what is live was left broken by a panic")
    }
}

impl Drop for LiveGuard {
    fn drop(&mut self) {
        let mut handles = self.live.handles();
        if let Some(count) = handles.get_mut(&self.id) {
            *count -= 1;
            if *count == 0 {
                handles.remove(&self.id);
            }
        }
    }
}
