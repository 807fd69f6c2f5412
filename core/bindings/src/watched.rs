//! [`Watched`]: the engine as a backend that counts its pending writes.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use runlog::{
    backend::{Backend, BackendFuture, Decorator, Maintenance},
    engine::Embedded,
    log::{Appended, Batch},
};

/// The number of pending writes: while there are any, a process shouldn't exit by itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnderWay(Arc<AtomicUsize>);

impl UnderWay {
    pub(crate) fn any(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 0
    }

    fn one(&self) -> One {
        self.0.fetch_add(1, Ordering::SeqCst);
        One(self.clone())
    }
}

/// A pending write.
struct One(UnderWay);

impl Drop for One {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The engine, and the number of its pending writes.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) embedded: Embedded,
    pub(crate) under_way: UnderWay,
}

impl Decorator for Watched {
    fn inner(&self) -> &dyn Backend {
        &self.embedded
    }

    fn commit<'a>(&'a self, batch: Batch<'a>) -> BackendFuture<'a, Appended> {
        Box::pin(async move {
            let _one = self.under_way.one();
            self.embedded.commit(batch).await
        })
    }

    fn maintenance(&self) -> &dyn Maintenance {
        self.embedded.maintenance()
    }
}
