//! [`AnswerCache`]: answers that were given, for as long as nothing that they were made of has changed.
//!
//! What an answer is made of is found out while it is made: a [`Decorator`] notes each stream that is read, with its end before
//! the read. An answer is given again if nothing was written since, or if nothing was redacted and each of these streams
//! still ends where it did. The store's own lists are such streams, because they are read through the same decorator.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use axum::body::Bytes;
use quick_cache::{Weighter, sync::Cache};
use runlog::{
    Result, Store,
    backend::{Backend, BackendFuture, Decorator},
    log::{
        FindOptions, Label, Maintenance, Page, Position, ReadOptions, Sequence, Snapshot, StreamId,
        StreamInfo,
    },
};

/// How many bytes of answers are kept.
const BYTES_MAX: u64 = 32 << 20;
/// How many bytes an answer that is kept may have.
const ANSWER_BYTES_MAX: usize = 256 << 10;
/// What keeping an answer costs beside its bytes and its address, about.
const OVERHEAD_BYTES: usize = 256;
/// About how large answers are; only used to size tables.
const ANSWER_BYTES_EXPECTED: u64 = 4096;

/// Answers that were given, by the path and query they answer.
pub(super) struct AnswerCache(Cache<String, Arc<Answered>, Weight>);

#[derive(Clone)]
struct Weight;

impl Weighter<String, Arc<Answered>> for Weight {
    fn weight(&self, address: &String, answered: &Arc<Answered>) -> u64 {
        (OVERHEAD_BYTES + address.len() + answered.json.len()) as u64
    }
}

struct Answered {
    json: Bytes,
    basis: Basis,
}

impl AnswerCache {
    pub(super) fn new() -> Self {
        let count = (BYTES_MAX / ANSWER_BYTES_EXPECTED) as usize;
        Self(Cache::with_weighter(count, BYTES_MAX, Weight))
    }

    /// Looks a request up. What was acknowledged before is in its answer.
    pub(super) fn look_up(&self, address: &str, store: &Store) -> Result<Lookup> {
        let as_of_now = pollster::block_on(store.backend().as_of_now())?;
        let backend = &**as_of_now.as_ref().unwrap_or_else(|| store.backend());
        // Before anything is read: what is written from now on is news for the answer.
        let stands = pollster::block_on(Stands::of(backend))?;
        if let Some(answered) = self.0.get(address)
            && pollster::block_on(answered.basis.is_unchanged(stands, backend))?
        {
            return Ok(Lookup::Found(answered.json.clone()));
        }
        let now = match as_of_now {
            Some(backend) => store.through(|_| backend),
            None => store.clone(),
        };
        Ok(Lookup::Missing { stands, now })
    }

    /// Makes the answer that a look before didn't find, and keeps it. `make` has to read by the store it is given.
    pub(super) fn make<E>(
        &self,
        address: &str,
        stands: Stands,
        store: &Store,
        make: impl FnOnce(&Store) -> std::result::Result<Bytes, E>,
    ) -> std::result::Result<Bytes, E> {
        let touched = Arc::new(Mutex::new(Touched::default()));
        let noting = store.through(|inner| {
            let touched = Arc::clone(&touched);
            Arc::new(Noting { inner, touched })
        });
        let json = make(&noting)?;
        let touched = std::mem::take(&mut *touched.lock().unwrap_or_else(PoisonError::into_inner));
        if !touched.is_unknown && json.len() <= ANSWER_BYTES_MAX {
            let basis = Basis {
                position: AtomicU64::new(stands.position),
                redactions: stands.redactions,
                touched,
            };
            let answered = Arc::new(Answered {
                json: json.clone(),
                basis,
            });
            self.0.insert(address.to_owned(), answered);
        }
        Ok(json)
    }
}

/// What the cache has for a request.
pub(super) enum Lookup {
    Found(Bytes),
    /// Nothing that still holds: the answer has to be made of the store as of now.
    Missing {
        stands: Stands,
        now: Store,
    },
}

/// Where the log stands.
#[derive(Clone, Copy)]
pub(super) struct Stands {
    position: u64,
    redactions: u64,
}

impl Stands {
    async fn of(backend: &dyn Backend) -> Result<Self> {
        Ok(Self {
            position: backend.maintenance().last_position().await?.0,
            redactions: backend.redactions(),
        })
    }
}

/// What an answer is made of.
struct Basis {
    /// Where the log stood when the answer was last known to be right.
    position: AtomicU64,
    redactions: u64,
    touched: Touched,
}

impl Basis {
    async fn is_unchanged(&self, stands: Stands, backend: &dyn Backend) -> Result<bool> {
        if stands.redactions != self.redactions {
            return Ok(false);
        }
        if stands.position == self.position.load(Ordering::Relaxed) {
            return Ok(true);
        }
        if self.touched.all {
            return Ok(false);
        }
        for (stream, end) in &self.touched.streams {
            if backend.stream(*stream).await?.as_ref().map(end_of) != *end {
                return Ok(false);
            }
        }
        self.position.store(stands.position, Ordering::Relaxed);
        Ok(true)
    }
}

/// The last sequence of a stream, and how many records were ever appended to it; `None` where there is no such stream.
type End = Option<(u64, u64)>;

fn end_of(info: &StreamInfo) -> (u64, u64) {
    (info.last_sequence.0, info.appended)
}

/// What was read for an answer.
#[derive(Default)]
struct Touched {
    /// The streams, each with its end before it was first read.
    streams: Vec<(StreamId, End)>,
    /// Whether something was read that may be in any stream.
    all: bool,
    /// Whether something was asked that isn't in the log.
    is_unknown: bool,
}

/// A backend that notes what is read.
struct Noting {
    inner: Arc<dyn Backend>,
    touched: Arc<Mutex<Touched>>,
}

impl Noting {
    fn note(&self, note: impl FnOnce(&mut Touched)) {
        note(&mut self.touched.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn is_noted(&self, stream: StreamId) -> bool {
        let touched = self.touched.lock().unwrap_or_else(PoisonError::into_inner);
        touched.streams.iter().any(|(noted, _)| *noted == stream)
    }

    /// Notes a stream before it is read.
    async fn note_stream(&self, stream: StreamId) -> Result<()> {
        if !self.is_noted(stream) {
            let info = self.inner.stream(stream).await?;
            self.note_end(stream, info.as_ref());
        }
        Ok(())
    }

    fn note_end(&self, stream: StreamId, info: Option<&StreamInfo>) {
        let end = info.map(end_of);
        self.note(|touched| {
            if touched.streams.iter().all(|(noted, _)| *noted != stream) {
                touched.streams.push((stream, end));
            }
        });
    }
}

impl Decorator for Noting {
    fn inner(&self) -> &dyn Backend {
        &*self.inner
    }

    fn read(&self, stream: StreamId, options: ReadOptions) -> BackendFuture<'_, Page<Sequence>> {
        Box::pin(async move {
            self.note_stream(stream).await?;
            self.inner.read(stream, options).await
        })
    }

    fn scan(&self, first: Position, limit: u64) -> BackendFuture<'_, Page<Position>> {
        self.note(|touched| touched.all = true);
        self.inner.scan(first, limit)
    }

    fn find(&self, label: Label, options: FindOptions) -> BackendFuture<'_, Page<Position>> {
        self.note(|touched| touched.all = true);
        self.inner.find(label, options)
    }

    fn stream(&self, stream: StreamId) -> BackendFuture<'_, Option<StreamInfo>> {
        Box::pin(async move {
            let info = self.inner.stream(stream).await?;
            self.note_end(stream, info.as_ref());
            Ok(info)
        })
    }

    fn latest_snapshot(
        &self,
        stream: StreamId,
        at_or_before: Sequence,
    ) -> BackendFuture<'_, Option<Snapshot>> {
        Box::pin(async move {
            self.note_stream(stream).await?;
            self.inner.latest_snapshot(stream, at_or_before).await
        })
    }

    fn maintenance(&self) -> &dyn Maintenance {
        self.note(|touched| touched.is_unknown = true);
        self.inner.maintenance()
    }
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
