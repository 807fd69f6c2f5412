//! [`ImportClock`]: the clock of a store that an archive is read into.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use runlog_engine::Host;

/// The host of a store that an archive is imported into. It forwards to another host, but while records are written,
/// its clock stands still at the time at which they were recorded.
///
/// A log accepts no record that is older than itself. So to create a store for an archive, set the clock to the
/// archive's [first time](super::first_time) meanwhile.
///
/// ```
/// # #[cfg(not(target_family = "wasm"))] {
/// use std::sync::Arc;
/// use runlog::{
///     StoreOptions,
///     archive::ImportClock,
///     blocking::Store,
///     engine::{SystemHost, storage::MemoryStorage},
/// };
///
/// let clock = ImportClock::new(Arc::new(SystemHost));
/// clock.stand_at(1_600_000_000_000);
/// let store = Store::open_on(Arc::new(MemoryStorage::new()), StoreOptions::with_host(clock.clone()))?;
/// clock.go_on();
/// # }
/// # Ok::<(), runlog::Error>(())
/// ```
pub struct ImportClock {
    host: Arc<dyn Host>,
    /// The time while records are written; 0 is the host's own.
    at_ms: AtomicU64,
}

impl ImportClock {
    /// A clock with the host's time, until an import changes it.
    pub fn new(host: Arc<dyn Host>) -> Arc<Self> {
        Arc::new(Self {
            host,
            at_ms: AtomicU64::new(0),
        })
    }

    /// Stops the clock at this time, or at the host's if that is earlier: a log with a record in the future could never
    /// go back.
    pub fn stand_at(&self, at_ms: u64) {
        self.at_ms
            .store(at_ms.min(self.host.now_ms()), Ordering::Relaxed);
    }

    /// Lets the clock follow the host's time again.
    pub fn go_on(&self) {
        self.at_ms.store(0, Ordering::Relaxed);
    }
}

impl Host for ImportClock {
    fn now_ms(&self) -> u64 {
        match self.at_ms.load(Ordering::Relaxed) {
            0 => self.host.now_ms(),
            at_ms => at_ms,
        }
    }

    fn random(&self, bytes: &mut [u8]) {
        self.host.random(bytes);
    }

    fn has_threads(&self) -> bool {
        self.host.has_threads()
    }

    fn sleep(&self, duration: Duration) {
        self.host.sleep(duration);
    }

    fn process_id(&self) -> u32 {
        self.host.process_id()
    }
}

impl std::fmt::Debug for ImportClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ImportClock")
            .field("at_ms", &self.at_ms)
            .finish_non_exhaustive()
    }
}
