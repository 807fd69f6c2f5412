//! [`Watched`]: the engine as a backend that tells how many writes are under way.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use runlog::{
    backend::{Backend, BackendFuture, Page},
    engine::{
        Appended, Batch, Embedded, Position, ReadOptions, Sequence, Snapshot, StreamId, StreamInfo,
    },
};
use uuid::Uuid;

/// How many writes are under way: while there are any, a process shouldn't end by itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnderWay(Arc<AtomicUsize>);

impl UnderWay {
    pub(crate) fn any(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 0
    }

    fn one(&self) -> One {
        self.0.fetch_add(1, Ordering::SeqCst);
        One(self.clone())
    }
}

/// A write that is under way.
struct One(UnderWay);

impl Drop for One {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The engine, and how many writes of it are under way.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) embedded: Embedded,
    pub(crate) under_way: UnderWay,
}

impl Backend for Watched {
    fn commit<'a>(&'a self, batch: Batch<'a>) -> BackendFuture<'a, Appended> {
        Box::pin(async move {
            let _one = self.under_way.one();
            self.embedded.commit(batch).await
        })
    }

    fn read(&self, stream: StreamId, options: ReadOptions) -> BackendFuture<'_, Page<Sequence>> {
        self.embedded.read(stream, options)
    }

    fn scan(&self, first: Position, limit: u64) -> BackendFuture<'_, Page<Position>> {
        self.embedded.scan(first, limit)
    }

    fn stream(&self, stream: StreamId) -> BackendFuture<'_, Option<StreamInfo>> {
        self.embedded.stream(stream)
    }

    fn latest_snapshot(
        &self,
        stream: StreamId,
        at_or_before: Sequence,
    ) -> BackendFuture<'_, Option<Snapshot>> {
        self.embedded.latest_snapshot(stream, at_or_before)
    }

    fn poll_past(
        &self,
        seen: Position,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<runlog::Result<Position>> {
        self.embedded.poll_past(seen, context)
    }

    fn wait_past(&self, seen: Position) -> BackendFuture<'_, Position> {
        self.embedded.wait_past(seen)
    }

    fn close(&self) -> BackendFuture<'_, ()> {
        self.embedded.close()
    }

    fn new_id(&self) -> Uuid {
        self.embedded.new_id()
    }

    fn redactions(&self) -> u64 {
        self.embedded.redactions()
    }

    fn now_ms(&self) -> u64 {
        self.embedded.now_ms()
    }
}
