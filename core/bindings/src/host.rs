//! [`Host`]: what a binding has of the world it runs in.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
};

use runlog::engine::storage::Storage;
use tokio::sync::oneshot;

use crate::{Failure, Result};

/// Finds the storage that a path names.
pub type StorageAt = dyn Fn(&str) -> Result<Arc<dyn Storage>> + Send + Sync;

/// Work that may block.
pub type Work = Box<dyn FnOnce() + Send>;

/// A future that any thread may run.
pub(crate) type Movable<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;

/// What a binding has of the world it runs in.
#[derive(Clone)]
pub struct Host {
    /// Time, randomness and threads, for stores.
    pub engine: Arc<dyn runlog::engine::Host>,
    /// Does work that may block, in another thread if there is one, and without waiting for it then.
    pub offload: Arc<dyn Fn(Work) + Send + Sync>,
    /// Where the path of a store leads.
    pub storage: Arc<StorageAt>,
}

impl Host {
    /// Runs a future to its end where it blocks nobody. It comes in a box, so that this is compiled once for each type of
    /// results.
    pub(crate) fn offload<T: Send + 'static>(
        &self,
        future: Movable<T>,
    ) -> impl Future<Output = Result<T>> + use<T> {
        let (send, receive) = oneshot::channel();
        (self.offload)(Box::new(move || {
            let result = catch_unwind(AssertUnwindSafe(|| pollster::block_on(future)));
            // Nobody may be left to be told.
            let _ = send.send(result.unwrap_or_else(|panic| Err(Failure::panicked(&*panic))));
        }));
        async move {
            receive
                .await
                .unwrap_or_else(|_| Err(Failure::closed("the place where work is done")))
        }
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").finish_non_exhaustive()
    }
}
