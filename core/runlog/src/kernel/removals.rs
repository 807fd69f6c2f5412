//! [`Removals`]: tells an append that sessions were given up at the same time.
//!
//! An append looks whether its session is there, then is staged; the removal of the session may be staged in between, and
//! the append isn't conditional on the end of its context. Only one process writes a store, so two counters suffice: an
//! append that no removal ran beside, which is nearly every one, reads each of them once.

use std::sync::atomic::{AtomicU64, Ordering};

/// How many sessions were being given up.
#[derive(Default)]
pub(crate) struct Removals {
    begun: AtomicU64,
    ended: AtomicU64,
}

impl Removals {
    /// How many have ended, to be read before an append looks whether its session is there.
    pub(crate) fn ended(&self) -> u64 {
        self.ended.load(Ordering::SeqCst)
    }

    /// Whether one ran since, or runs.
    pub(crate) fn any_since(&self, ended: u64) -> bool {
        self.begun.load(Ordering::SeqCst) > ended
    }

    /// To be called before a removal is written.
    pub(crate) fn begin(&self) {
        self.begun.fetch_add(1, Ordering::SeqCst);
    }

    /// To be called once it is known whether it was written, and the catalog tells so. Where that is never known, every
    /// append looks once more from then on.
    pub(crate) fn end(&self) {
        self.ended.fetch_add(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_ran_at_any_moment_of_an_append_is_told() {
        let removals = Removals::default();
        let before = removals.ended();
        assert!(!removals.any_since(before));
        removals.begin();
        let during = removals.ended();
        assert!(removals.any_since(before) && removals.any_since(during));
        removals.end();
        assert!(removals.any_since(before) && removals.any_since(during));
        assert!(!removals.any_since(removals.ended()));
    }
}
