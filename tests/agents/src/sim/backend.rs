//! [`GivingWay`]: a backend whose every call may let others go on before and after what it does.

use runlog::{
    backend::{Backend, BackendFuture, Decorator, Page},
    engine::Embedded,
    log::{Appended, Batch, Durability, ReadOptions, Sequence, StreamId, StreamInfo},
};

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

impl Decorator for GivingWay {
    fn inner(&self) -> &dyn Backend {
        &self.embedded
    }

    fn commit<'a>(&'a self, batch: Batch<'a>) -> BackendFuture<'a, Appended> {
        Box::pin(self.commit_between(batch))
    }

    fn read(&self, stream: StreamId, options: ReadOptions) -> BackendFuture<'_, Page<Sequence>> {
        Box::pin(async move {
            self.scheduler.give_way().await;
            self.embedded.read(stream, options).await
        })
    }

    fn stream(&self, stream: StreamId) -> BackendFuture<'_, Option<StreamInfo>> {
        Box::pin(async move {
            self.scheduler.give_way().await;
            self.embedded.stream(stream).await
        })
    }
}
