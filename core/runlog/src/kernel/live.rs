//! [`Live`]: the runs, or flows, that somebody in this process is at work on.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
};

use runlog_model::RunId;

/// Each that somebody is at work on, with how many handles it has.
#[derive(Default)]
pub(crate) struct Live(Mutex<HashMap<RunId, usize>>);

/// That somebody in this process is at work on a run or a flow.
pub(crate) struct LiveGuard {
    live: Arc<Live>,
    id: RunId,
}

impl Live {
    /// Has it count as one that somebody is at work on, until what this gives is dropped.
    pub(crate) fn enter(self: &Arc<Self>, id: RunId) -> LiveGuard {
        *self.handles().entry(id).or_default() += 1;
        LiveGuard {
            live: Arc::clone(self),
            id,
        }
    }

    /// The same, unless somebody is at work on it already.
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
