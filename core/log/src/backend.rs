//! [`Backend`]: the boundary between what the log means and where it is kept.
//!
//! Everything above talks to this trait only, so that nothing above knows which backend it is on. Every
//! backend keeps a stream's sequences dense, does a batch whole or not at all, and acknowledges it only
//! once it is as durable as was asked.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use uuid::Uuid;

use crate::{
    Appended, Batch, Position, ReadOptions, Record, Result, Sequence, Snapshot, StreamId,
    StreamInfo,
};

/// What a backend's calls return. Ready at the first poll on a backend that waits by blocking its thread.
pub type BackendFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// Some records of a stream or of the log, and where the next page begins.
#[derive(Clone, Debug)]
pub struct Page<Place> {
    /// The records, in the order asked for.
    pub records: Vec<Record>,
    /// Where to go on: give it as the first (backward: the last) place of the next read. `None` at the end.
    pub next: Option<Place>,
}

/// Where the log is kept: the embedded engine, memory, or a server.
pub trait Backend: Send + Sync + 'static {
    /// Does a batch whole or not at all; ready once it is as durable as was asked.
    fn commit<'a>(&'a self, batch: Batch<'a>) -> BackendFuture<'a, Appended>;

    /// Reads one page of a stream: at most `options.limit` records, and no more than about 1 MiB of payload
    /// beyond the first record. [`NotFound`](crate::ErrorKind::NotFound) for a stream that isn't there.
    fn read(&self, stream: StreamId, options: ReadOptions) -> BackendFuture<'_, Page<Sequence>>;

    /// Reads one page of the whole log, engine records included, from a position on: at most `limit` records.
    fn scan(&self, first: Position, limit: u64) -> BackendFuture<'_, Page<Position>>;

    /// The stream in short, `None` when it isn't there.
    fn stream(&self, stream: StreamId) -> BackendFuture<'_, Option<StreamInfo>>;

    /// The newest snapshot of a stream at or before a sequence.
    fn latest_snapshot(
        &self,
        stream: StreamId,
        at_or_before: Sequence,
    ) -> BackendFuture<'_, Option<Snapshot>>;

    /// How many records are redacted so far: whoever keeps what was read drops it when this has grown.
    fn redactions(&self) -> u64;

    /// Ready with the last durable position if that is past `seen`; else the task is woken when it may be. Never blocks.
    fn poll_past(&self, seen: Position, context: &mut Context<'_>) -> Poll<Result<Position>>;

    /// Ready with the last durable position once it is past `seen`.
    fn wait_past(&self, seen: Position) -> BackendFuture<'_, Position>;

    /// Makes everything that was acknowledged durable, and lets another process write. Later calls are refused
    /// with [`Closed`](crate::ErrorKind::Closed). By default there is nothing to do.
    fn close(&self) -> BackendFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// A fresh time-ordered id (UUID version 7).
    fn new_id(&self) -> Uuid;

    /// Milliseconds since 1970-01-01 UTC, by the backend's clock.
    fn now_ms(&self) -> u64;
}
