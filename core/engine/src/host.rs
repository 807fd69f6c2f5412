//! [`Host`]: time, randomness and threads, as traits, so that tests and browsers can give their own.

use std::{task::Waker, time::Duration};

use uuid::Uuid;

/// The engine's interface to its environment, besides storage.
pub trait Host: Send + Sync + 'static {
    /// Milliseconds since 1970-01-01 UTC.
    fn now_ms(&self) -> u64;

    /// Fills `bytes` with random bytes, good enough that ids never collide.
    fn random(&self, bytes: &mut [u8]);

    /// Whether threads can be started. Without them every flush happens in the caller's own thread.
    fn has_threads(&self) -> bool;

    /// The id of this process, and 0 where there is only one. A forked child has another id than its parent, and must
    /// not write to stores that the parent has open.
    fn process_id(&self) -> u32 {
        0
    }

    /// Wakes a task after this time. Called only on a host without threads, where a reader polls for records of a
    /// writer elsewhere. A host without timers never wakes it.
    fn wake_after(&self, _duration: Duration, _waker: Waker) {}

    /// Blocks for this time. A host that can't block, or has a simulated clock, returns at once.
    fn sleep(&self, _duration: Duration) {}

    /// A fresh id that sorts by time: UUID version 7.
    fn new_id(&self) -> Uuid {
        let mut random = [0; 10];
        self.random(&mut random);
        uuid::Builder::from_unix_timestamp_millis(self.now_ms(), &random).into_uuid()
    }
}

/// The operating system's clock and randomness, and threads.
#[cfg(not(target_family = "wasm"))]
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemHost;

#[cfg(not(target_family = "wasm"))]
#[allow(
    clippy::disallowed_methods,
    reason = "this is the one place that asks the operating system"
)]
impl Host for SystemHost {
    fn now_ms(&self) -> u64 {
        let since = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    fn random(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("the operating system has randomness");
    }

    fn has_threads(&self) -> bool {
        true
    }

    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }

    fn process_id(&self) -> u32 {
        #[cfg(target_os = "linux")]
        let id = crate::process::id();
        #[cfg(not(target_os = "linux"))]
        let id = std::process::id();
        id
    }
}
