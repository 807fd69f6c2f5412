//! [`Backend`]: the boundary between the log's semantics and its storage.
//!
//! The crates above call this trait only, so they don't depend on a particular backend. Every backend keeps a stream's
//! sequences dense, commits a batch atomically, and acknowledges it only once it is as durable as was requested.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use uuid::Uuid;

use crate::{
    Appended, Batch, FindOptions, Label, Position, ReadOptions, Record, Result, Sequence, Snapshot,
    StreamId, StreamInfo,
    future::BackendFuture,
    maintenance::{Maintenance, NoMaintenance},
};

/// One page of records of a stream or of the log, and where the next page begins.
#[derive(Clone, Debug)]
pub struct Page<Place> {
    /// The records, in the order asked for.
    pub records: Vec<Record>,
    /// Where the next page begins: pass it as the first (backward: the last) sequence or position of the next read.
    /// `None` at the end.
    pub next: Option<Place>,
}

/// How a call waits for the storage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// In the calling thread, at the first poll: no hand-over to another thread. For blocking callers.
    Block,
    /// By returning `Pending` until woken: no executor thread is blocked during a flush. For async callers.
    Await,
}

/// The storage of a log: the embedded engine, memory, or a server.
///
/// One process writes at a time: the one that opened the backend for writing, until it closes it. The crates above rely
/// on that: claims on runs, the order of a recorder's writes, and the set of runs interrupted by a crash are state in
/// their memory.
pub trait Backend: Send + Sync + 'static {
    /// Commits a batch atomically; the future is ready once the batch is as durable as was requested.
    fn commit<'a>(&'a self, batch: Batch<'a>) -> BackendFuture<'a, Appended>;

    /// Reads one page of a stream: at most `options.limit` records, and no more than about 1 MiB of payload beyond the
    /// first record. [`NotFound`](crate::ErrorKind::NotFound) for a stream that doesn't exist.
    fn read(&self, stream: StreamId, options: ReadOptions) -> BackendFuture<'_, Page<Sequence>>;

    /// Reads one page of the whole log, engine records included, from a position on: at most `limit` records.
    fn scan(&self, first: Position, limit: u64) -> BackendFuture<'_, Page<Position>>;

    /// Reads one page of the records that have a label: at most `options.limit` of them, and no more than about 1 MiB
    /// of payload beyond the first. Records that were redacted, and those that were truncated or whose stream was
    /// deleted, are not found. A full page always names a next one, which may be empty.
    /// [`NotFound`](crate::ErrorKind::NotFound) for a stream that doesn't exist.
    fn find(&self, label: Label, options: FindOptions) -> BackendFuture<'_, Page<Position>>;

    /// A stream's id and last sequence; `None` if the stream doesn't exist.
    fn stream(&self, stream: StreamId) -> BackendFuture<'_, Option<StreamInfo>>;

    /// The newest snapshot of a stream at or before a sequence.
    fn latest_snapshot(
        &self,
        stream: StreamId,
        at_or_before: Sequence,
    ) -> BackendFuture<'_, Option<Snapshot>>;

    /// The number of records redacted so far: a cache of records must be dropped when it has grown.
    fn redactions(&self) -> u64;

    /// Ready with the last durable position if that is past `seen`; otherwise registers the task to be woken when it
    /// may be. Never blocks.
    fn poll_past(&self, seen: Position, context: &mut Context<'_>) -> Poll<Result<Position>>;

    /// Ready with the last durable position once it is past `seen`.
    fn wait_past(&self, seen: Position) -> BackendFuture<'_, Position>;

    /// Makes everything that was acknowledged durable, and lets another process write. Later batches, and
    /// waiting for what comes, are refused with [`Closed`](crate::ErrorKind::Closed); reads may go on, of what there was at
    /// the close. The default does nothing.
    fn close(&self) -> BackendFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// The backend's optional operations: statistics, verification, backups, … The default supports none: every call is
    /// refused with [`Unsupported`](crate::ErrorKind::Unsupported).
    fn maintenance(&self) -> &dyn Maintenance {
        &NoMaintenance
    }

    /// The same log, with calls that wait the given way. `None`, the default, if the backend has only one way to wait.
    fn waiting(&self, wait: Wait) -> Option<Arc<dyn Backend>> {
        let _ = wait;
        None
    }

    /// A view of the same log for several reads that together answer one query: it picks up now what another process
    /// has written, and its reads don't refresh again. `None`, the default, if reads need no refresh.
    fn as_of_now(&self) -> BackendFuture<'_, Option<Arc<dyn Backend>>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Whether it was opened read-only, so that another process may be writing.
    fn is_read_only(&self) -> bool {
        false
    }

    /// A fresh time-ordered id (UUID version 7).
    fn new_id(&self) -> Uuid;

    /// Milliseconds since 1970-01-01 UTC, by the backend's clock.
    fn now_ms(&self) -> u64;
}

/// A backend that wraps another one: implement the calls that differ; all others are forwarded to
/// [`inner`](Self::inner). Every `Decorator` is a [`Backend`].
///
/// Its [`maintenance`](Self::maintenance) is empty by default, because the inner backend's would bypass the decorator:
/// [`stage`](Maintenance::stage) writes without [`commit`](Self::commit).
pub trait Decorator: Send + Sync + 'static {
    /// The wrapped backend.
    fn inner(&self) -> &dyn Backend;

    /// [`Backend::commit`].
    fn commit<'a>(&'a self, batch: Batch<'a>) -> BackendFuture<'a, Appended> {
        self.inner().commit(batch)
    }

    /// [`Backend::read`].
    fn read(&self, stream: StreamId, options: ReadOptions) -> BackendFuture<'_, Page<Sequence>> {
        self.inner().read(stream, options)
    }

    /// [`Backend::scan`].
    fn scan(&self, first: Position, limit: u64) -> BackendFuture<'_, Page<Position>> {
        self.inner().scan(first, limit)
    }

    /// [`Backend::find`].
    fn find(&self, label: Label, options: FindOptions) -> BackendFuture<'_, Page<Position>> {
        self.inner().find(label, options)
    }

    /// [`Backend::stream`].
    fn stream(&self, stream: StreamId) -> BackendFuture<'_, Option<StreamInfo>> {
        self.inner().stream(stream)
    }

    /// [`Backend::latest_snapshot`].
    fn latest_snapshot(
        &self,
        stream: StreamId,
        at_or_before: Sequence,
    ) -> BackendFuture<'_, Option<Snapshot>> {
        self.inner().latest_snapshot(stream, at_or_before)
    }

    /// [`Backend::maintenance`].
    fn maintenance(&self) -> &dyn Maintenance {
        &NoMaintenance
    }
}

impl<D: Decorator> Backend for D {
    fn commit<'a>(&'a self, batch: Batch<'a>) -> BackendFuture<'a, Appended> {
        Decorator::commit(self, batch)
    }

    fn read(&self, stream: StreamId, options: ReadOptions) -> BackendFuture<'_, Page<Sequence>> {
        Decorator::read(self, stream, options)
    }

    fn scan(&self, first: Position, limit: u64) -> BackendFuture<'_, Page<Position>> {
        Decorator::scan(self, first, limit)
    }

    fn find(&self, label: Label, options: FindOptions) -> BackendFuture<'_, Page<Position>> {
        Decorator::find(self, label, options)
    }

    fn stream(&self, stream: StreamId) -> BackendFuture<'_, Option<StreamInfo>> {
        Decorator::stream(self, stream)
    }

    fn latest_snapshot(
        &self,
        stream: StreamId,
        at_or_before: Sequence,
    ) -> BackendFuture<'_, Option<Snapshot>> {
        Decorator::latest_snapshot(self, stream, at_or_before)
    }

    fn redactions(&self) -> u64 {
        self.inner().redactions()
    }

    fn poll_past(&self, seen: Position, context: &mut Context<'_>) -> Poll<Result<Position>> {
        self.inner().poll_past(seen, context)
    }

    fn wait_past(&self, seen: Position) -> BackendFuture<'_, Position> {
        self.inner().wait_past(seen)
    }

    fn close(&self) -> BackendFuture<'_, ()> {
        self.inner().close()
    }

    fn maintenance(&self) -> &dyn Maintenance {
        Decorator::maintenance(self)
    }

    fn is_read_only(&self) -> bool {
        self.inner().is_read_only()
    }

    fn new_id(&self) -> Uuid {
        self.inner().new_id()
    }

    fn now_ms(&self) -> u64 {
        self.inner().now_ms()
    }
}
