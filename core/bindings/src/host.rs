//! [`Host`]: the environment of a binding.

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

/// The environment of a binding.
#[derive(Clone)]
pub struct Host {
    /// Time, randomness and threads, for stores.
    pub engine: Arc<dyn runlog::engine::Host>,
    /// Runs work that may block: in another thread, without waiting for it, if there are threads.
    pub offload: Arc<dyn Fn(Work) + Send + Sync>,
    /// Resolves the path of a store.
    pub storage: Arc<StorageAt>,
}

impl Host {
    /// Runs a future to its end in a place where it may block. It is boxed, so that this is compiled once per result type.
    pub(crate) fn offload<T: Send + 'static>(
        &self,
        future: Movable<T>,
    ) -> impl Future<Output = Result<T>> + use<T> {
        let (send, receive) = oneshot::channel();
        (self.offload)(Box::new(move || {
            let result = catch_unwind(AssertUnwindSafe(|| pollster::block_on(future)));
            // An error means that the receiver was dropped.
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
