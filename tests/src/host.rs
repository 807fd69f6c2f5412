//! [`TestHost`]: a clock that tests move, and randomness from a seed.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use runlog_engine::Host;

use crate::random::Random;

/// Clones share the clock and the randomness.
#[derive(Clone, Debug)]
pub struct TestHost {
    now_ms: Arc<AtomicU64>,
    random: Arc<Mutex<Random>>,
    has_threads: bool,
}

impl TestHost {
    /// A host without threads, at a time in 2026, with the randomness of a seed.
    pub fn new(seed: u64) -> Self {
        Self {
            now_ms: Arc::new(AtomicU64::new(1_767_225_600_000)),
            random: Arc::new(Mutex::new(Random::new(seed))),
            has_threads: false,
        }
    }

    /// The same host with threads.
    #[must_use]
    pub fn with_threads(mut self) -> Self {
        self.has_threads = true;
        self
    }

    /// Moves the clock on.
    pub fn pass_ms(&self, ms: u64) {
        self.now_ms.fetch_add(ms, Ordering::SeqCst);
    }

    /// Moves the clock back, as happens to real ones.
    pub fn turn_back_ms(&self, ms: u64) {
        self.now_ms.fetch_sub(ms, Ordering::SeqCst);
    }
}

impl Host for TestHost {
    fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::SeqCst)
    }

    fn random(&self, bytes: &mut [u8]) {
        self.random
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .fill(bytes);
    }

    fn has_threads(&self) -> bool {
        self.has_threads
    }
}
