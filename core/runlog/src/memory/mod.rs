//! [`MemoryBackend`]: the whole of [`Backend`] in maps and vectors: what every other backend is held against,
//! and the store for those who need nothing to last.

mod plan;
mod state;
mod wait;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard},
};

use runlog_engine::{Appended, Batch, Host, Position, ReadOptions, Sequence, Snapshot, StreamId, StreamInfo};
use uuid::Uuid;

use crate::{
    Result,
    backend::{Backend, BackendFuture, Page},
};
use state::State;
use wait::WaitPast;

/// A log in memory. It is gone with the last handle to it; every append is as durable as it will ever be.
///
/// Every call is ready at its first poll, except [`wait_past`](Backend::wait_past).
///
/// ```
/// use std::sync::Arc;
/// use runlog::{Store, memory::MemoryBackend};
///
/// let store = Store::with_backend(Arc::new(MemoryBackend::new()));
/// assert!(store.list_sessions(&Default::default())?.sessions.is_empty());
/// # Ok::<(), runlog::Error>(())
/// ```
pub struct MemoryBackend {
    host: Arc<dyn Host>,
    state: Mutex<State>,
}

impl MemoryBackend {
    /// An empty log, on the machine's own clock and randomness.
    #[cfg(not(target_family = "wasm"))]
    #[expect(clippy::new_without_default, reason = "a default that asks the machine for randomness would hide it")]
    pub fn new() -> Self {
        Self::with_host(Arc::new(runlog_engine::SystemHost))
    }

    /// An empty log, on this clock and randomness.
    pub fn with_host(host: Arc<dyn Host>) -> Self {
        Self { host, state: Mutex::new(State::default()) }
    }

    /// No code panics while it holds the lock, except by a broken invariant; then the state can't be trusted.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("the in-memory log was left broken by a panic")
    }

    fn commit_now(&self, batch: &Batch<'_>) -> Result<Appended> {
        let now_ms = self.host.now_ms();
        let (appended, waiters) = {
            let mut state = self.state();
            if let Some(first) = state.repeated(batch)? {
                return Ok(first);
            }
            plan::check(&state, batch)?;
            let appended = state.apply(batch, now_ms);
            (appended, state.take_waiters())
        };
        for waiter in waiters {
            waiter.wake();
        }
        Ok(appended)
    }
}

impl Backend for MemoryBackend {
    fn commit<'a>(&'a self, batch: Batch<'a>) -> BackendFuture<'a, Appended> {
        Box::pin(async move { self.commit_now(&batch) })
    }

    fn read(&self, stream: StreamId, options: ReadOptions) -> BackendFuture<'_, Page<Sequence>> {
        Box::pin(async move { self.state().read(stream, &options) })
    }

    fn scan(&self, first: Position, limit: u64) -> BackendFuture<'_, Page<Position>> {
        Box::pin(async move { Ok(self.state().scan(first, limit)) })
    }

    fn stream(&self, stream: StreamId) -> BackendFuture<'_, Option<StreamInfo>> {
        Box::pin(async move { Ok(self.state().info(stream)) })
    }

    fn latest_snapshot(&self, stream: StreamId, at_or_before: Sequence) -> BackendFuture<'_, Option<Snapshot>> {
        Box::pin(async move { self.state().latest_snapshot(stream, at_or_before) })
    }

    fn redactions(&self) -> u64 {
        self.state().redactions()
    }

    fn wait_past(&self, seen: Position) -> BackendFuture<'_, Position> {
        Box::pin(WaitPast::new(&self.state, seen))
    }

    fn new_id(&self) -> Uuid {
        self.host.new_id()
    }

    fn now_ms(&self) -> u64 {
        self.host.now_ms()
    }
}

impl fmt::Debug for MemoryBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBackend").finish_non_exhaustive()
    }
}
