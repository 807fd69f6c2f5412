//! Faults that a test puts in to see that it finds them. No other build has them.

use std::sync::atomic::{AtomicBool, Ordering};

static CLOSES_EARLY: AtomicBool = AtomicBool::new(false);

/// From now on `Store::close` flushes what is in line, and only then refuses new batches and gives the lock up, without
/// another look at what is being written by then.
pub fn close_early(whether: bool) {
    CLOSES_EARLY.store(whether, Ordering::SeqCst);
}

pub(crate) fn closes_early() -> bool {
    CLOSES_EARLY.load(Ordering::SeqCst)
}
