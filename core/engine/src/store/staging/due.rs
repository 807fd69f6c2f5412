//! [`Due`]: the deadline for flushing what was written.

use std::time::Duration;

/// The end of an interval by the host's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Due {
    since_ms: u64,
    at_ms: u64,
}

impl Due {
    /// `interval_ms` from now on.
    pub(crate) fn after(now_ms: u64, interval_ms: u32) -> Self {
        Self {
            since_ms: now_ms,
            at_ms: now_ms.saturating_add(u64::from(interval_ms)),
        }
    }

    /// The earlier of two deadlines.
    pub(crate) fn earliest(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        match (one, other) {
            (Some(one), Some(other)) => Some(if other.at_ms < one.at_ms { other } else { one }),
            (one, other) => one.or(other),
        }
    }

    /// The time left. If the clock was set back, none.
    pub(crate) fn left(&self, now_ms: u64) -> Duration {
        if now_ms < self.since_ms {
            Duration::ZERO
        } else {
            Duration::from_millis(self.at_ms.saturating_sub(now_ms))
        }
    }

    pub(crate) fn is_over(&self, now_ms: u64) -> bool {
        self.left(now_ms).is_zero()
    }
}
