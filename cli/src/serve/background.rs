//! Work that waits for a disk.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicUsize, Ordering},
};

use tokio::runtime::Handle;

use super::problem::{Answer, Problem};

/// How many of the runtime's threads read for themselves.
static AT_ONCE: AtomicUsize = AtomicUsize::new(0);

/// Does what may wait for a disk where that holds up nobody else.
pub(super) async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> Answer<T> + Send + 'static,
) -> Answer<T> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|_| Err(failed()))
}

/// Does what is read in a moment at once, as handing it over takes longer than most reads do. Where the disk makes it wait,
/// one of the runtime's threads, of which there are four at least, is left for everybody else; what comes then is handed over.
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

/// One of those that read at once.
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
