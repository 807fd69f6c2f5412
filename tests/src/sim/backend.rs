//! [`GivingWay`]: a backend whose every call may let others go on before and after what it does.

use runlog::{
    backend::{Backend, BackendFuture, Page},
    engine::{
        Appended, Batch, Durability, Embedded, Position, ReadOptions, Sequence, Snapshot, StreamId,
        StreamInfo,
    },
};
use uuid::Uuid;

use super::{ledger::Ledger, scheduler::Scheduler};

pub(super) struct GivingWay {
    embedded: Embedded,
    scheduler: Scheduler,
    ledger: Ledger,
}

impl GivingWay {
    pub(super) fn new(embedded: Embedded, scheduler: Scheduler, ledger: Ledger) -> Self {
        Self {
            embedded,
            scheduler,
            ledger,
        }
    }

    async fn commit_between(&self, batch: Batch<'_>) -> runlog::Result<Appended> {
        let is_durable = batch.durability != Some(Durability::Os);
        self.scheduler.give_way().await;
        let appended = self.embedded.commit(batch).await?;
        if is_durable {
            self.ledger.acknowledged_to(appended.last_position.0);
        }
        self.scheduler.give_way().await;
        Ok(appended)
    }
}

impl Backend for GivingWay {
    fn commit<'a>(&'a self, batch: Batch<'a>) -> BackendFuture<'a, Appended> {
        Box::pin(self.commit_between(batch))
    }

    fn read(&self, stream: StreamId, options: ReadOptions) -> BackendFuture<'_, Page<Sequence>> {
        Box::pin(async move {
            self.scheduler.give_way().await;
            self.embedded.read(stream, options).await
        })
    }

    fn scan(&self, first: Position, limit: u64) -> BackendFuture<'_, Page<Position>> {
        self.embedded.scan(first, limit)
    }

    fn stream(&self, stream: StreamId) -> BackendFuture<'_, Option<StreamInfo>> {
        Box::pin(async move {
            self.scheduler.give_way().await;
            self.embedded.stream(stream).await
        })
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
