//! [`Backend`]: the boundary between what the log means and where it is kept.
//!
//! Everything above talks to this trait only, so that nothing above knows which backend it is on. Every
//! backend keeps a stream's sequences dense, does a batch whole or not at all, and acknowledges it only
//! once it is as durable as was asked.

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

/// Some records of a stream or of the log, and where the next page begins.
#[derive(Clone, Debug)]
pub struct Page<Place> {
    /// The records, in the order asked for.
    pub records: Vec<Record>,
    /// Where to go on: give it as the first (backward: the last) sequence or position of the next read. `None` at the end.
    pub next: Option<Place>,
}

/// How a call waits for the storage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// In the calling thread, at the first poll: no hand-over to another thread. For waiting callers.
    Block,
    /// By returning `Pending` until woken: no executor thread is blocked during a flush. For awaiting callers.
    Await,
}

/// Where the log is kept: the embedded engine, memory, or a server.
///
/// One process writes at a time, and whoever opens a backend to write is that process until it closes: claims on runs, the
/// order of a recorder's writes, and which runs a crash has left are kept in the memory of the crates above.
pub trait Backend: Send + Sync + 'static {
    /// Commits a batch atomically; ready once it is as durable as was asked.
    fn commit<'a>(&'a self, batch: Batch<'a>) -> BackendFuture<'a, Appended>;

    /// Reads one page of a stream: at most `options.limit` records, and no more than about 1 MiB of payload
    /// beyond the first record. [`NotFound`](crate::ErrorKind::NotFound) for a stream that isn't there.
    fn read(&self, stream: StreamId, options: ReadOptions) -> BackendFuture<'_, Page<Sequence>>;

    /// Reads one page of the whole log, engine records included, from a position on: at most `limit` records.
    fn scan(&self, first: Position, limit: u64) -> BackendFuture<'_, Page<Position>>;

    /// Finds one page of the records that have a label: at most `options.limit` of them, and no more than about 1 MiB of payload
    /// beyond the first. Records that were redacted, and those that were truncated or whose stream was deleted, are not found.
    /// A page that is full names a next one without looking whether it has a record.
    /// [`NotFound`](crate::ErrorKind::NotFound) for a stream that isn't there.
    fn find(&self, label: Label, options: FindOptions) -> BackendFuture<'_, Page<Position>>;

    /// The stream in short, `None` when it isn't there.
    fn stream(&self, stream: StreamId) -> BackendFuture<'_, Option<StreamInfo>>;

    /// The newest snapshot of a stream at or before a sequence.
    fn latest_snapshot(
        &self,
        stream: StreamId,
        at_or_before: Sequence,
    ) -> BackendFuture<'_, Option<Snapshot>>;

    /// How many records are redacted so far: a cache of records must be dropped when this has grown.
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

    /// What this backend can do besides: statistics, verification, backups, … By default nothing of it, and every call is
    /// refused with [`Unsupported`](crate::ErrorKind::Unsupported).
    fn maintenance(&self) -> &dyn Maintenance {
        &NoMaintenance
    }

    /// The same log whose calls wait in another way. `None`, the default, where there is only one way.
    fn waiting(&self, wait: Wait) -> Option<Arc<dyn Backend>> {
        let _ = wait;
        None
    }

    /// The same log for several reads that together answer one question: it looks now for what another process has written,
    /// and its reads don't look again. `None`, the default, where reads need no such look.
    fn as_of_now(&self) -> BackendFuture<'_, Option<Arc<dyn Backend>>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Whether it was opened for reading only, so that another process may be the one that writes.
    fn is_read_only(&self) -> bool {
        false
    }

    /// A fresh time-ordered id (UUID version 7).
    fn new_id(&self) -> Uuid;

    /// Milliseconds since 1970-01-01 UTC, by the backend's clock.
    fn now_ms(&self) -> u64;
}

/// A backend around another one: implement what it does in its own way; everything else the other one does.
/// Whatever implements this is a [`Backend`].
///
/// Its [`maintenance`](Self::maintenance) is empty unless it says otherwise, because the calls of the other one's would
/// go past this one: [`stage`](Maintenance::stage) writes without [`commit`](Self::commit).
pub trait Decorator: Send + Sync + 'static {
    /// The backend that does the work.
    fn inner(&self) -> &dyn Backend;

    /// [`Backend::commit`].
    fn commit<'a>(&'a self, batch: Batch<'a>) -> BackendFuture<'a, Appended> {
        self.inner().commit(batch)
    }

    /// [`Backend::read`].
    fn read(&self, stream: StreamId, options: ReadOptions) -> BackendFuture<'_, Page<Sequence>> {
        self.inner().read(stream, options)
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
        self.inner().scan(first, limit)
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
