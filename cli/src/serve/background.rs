//! Running work that may wait for a disk.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicUsize, Ordering},
};

use tokio::runtime::Handle;

use super::problem::{Answer, Problem};

/// How many of the runtime's threads are reading directly.
static AT_ONCE: AtomicUsize = AtomicUsize::new(0);

/// Runs work that may wait for a disk on a blocking thread.
pub(super) async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> Answer<T> + Send + 'static,
) -> Answer<T> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|_| Err(failed()))
}

/// Runs short reads directly on the runtime's thread, because handing one over takes longer than most reads. The
/// runtime has at least four threads; one of them is always left for other work, and further reads are handed over to
/// blocking threads.
pub(super) async fn at_once<T: Send + 'static>(
    work: impl FnOnce() -> Answer<T> + Send + 'static,
) -> Answer<T> {
    let Some(turn) = Turn::take(Handle::current().metrics().num_workers() - 1) else {
        return in_background(work).await;
    };
    let done = catch_unwind(AssertUnwindSafe(work));
    drop(turn);
    done.unwrap_or_else(|_| Err(failed()))
}

/// The permit of a direct read.
struct Turn;

impl Turn {
    fn take(most: usize) -> Option<Self> {
        let taken = |count| (count < most).then_some(count + 1);
        let took = AT_ONCE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken);
        took.ok().map(|_| Self)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        AT_ONCE.fetch_sub(1, Ordering::Relaxed);
    }
}

fn failed() -> Problem {
    Problem::internal("answering this failed by a mistake of Runlog's; the server goes on")
}
