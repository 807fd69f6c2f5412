//! Faults that a test injects to prove that it detects them. Compiled into test builds only.

use std::sync::atomic::{AtomicBool, Ordering};

static CLOSES_EARLY: AtomicBool = AtomicBool::new(false);

/// From now on `Store::close` flushes the queued batches before it refuses new ones, and releases the lock without
/// waiting for batches being written by then.
pub fn close_early(whether: bool) {
    CLOSES_EARLY.store(whether, Ordering::SeqCst);
}

pub(crate) fn closes_early() -> bool {
    CLOSES_EARLY.load(Ordering::SeqCst)
}
