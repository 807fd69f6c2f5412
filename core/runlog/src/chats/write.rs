//! Writing to a chat: one batch of its events, and of what the catalog learns of them.

use runlog_log::{Batch, Expected, Op, Sequence};
use runlog_model::{
    CatalogEvent, ChatEvent, ChatFold, EncodedEvent, OpenRequest, SessionId, Timestamp,
};

use super::store::Chats;
use crate::{
    Result, Store,
    kernel::{
        catalog::CATALOG_STREAM,
        lookup::live_session,
        records::{append, chat_stream},
    },
};

impl Chats {
    /// Decides by the chat's fold what to write, and writes it if nobody changed the chat in between; else
    /// decides anew.
    pub(super) async fn write(
        &self,
        session: SessionId,
        decide: impl Fn(&ChatFold) -> Result<Vec<ChatEvent>>,
    ) -> Result<()> {
        let mut attempts = self
            .store
            .shared
            .folds
            .queues
            .attempts(&**self.store.backend(), chat_stream(session))
            .await;
        loop {
            let live = self
                .store
                .shared
                .catalog
                .read(|catalog| live_session(catalog, session).map(drop));
            live.await??;
            let fold = self.store.chat_fold(session).await?;
            let events = decide(&fold)?;
            if events.is_empty() {
                return Ok(());
            }
            let prepared = Prepared::new(session, events, self.store.backend().now_ms())?;
            let batch = Batch::new(prepared.ops(Expected::Last(Sequence(fold.last_sequence()))));
            // Released before the commit: a task that catches up the fold meanwhile would have to copy it.
            drop(fold);
            match self.store.backend().commit(batch).await {
                Ok(_) => {
                    prepared.notify_catalog(&self.store).await;
                    return Ok(());
                }
                Err(error) => attempts.again(error).await?,
            }
        }
    }
}

/// Events of a chat, encoded, with what the catalog learns of them.
pub(super) struct Prepared {
    session: SessionId,
    events: Vec<EncodedEvent>,
    told: Vec<EncodedEvent>,
}

impl Prepared {
    pub(super) fn new(session: SessionId, events: Vec<ChatEvent>, at_ms: u64) -> Result<Self> {
        // What has an id of its own touches the chat, so that the catalog tells where ids may be found.
        let made = events.iter().filter_map(|event| match event {
            ChatEvent::MessageSaved(message) => Some(message.created_at.or(Timestamp(at_ms)).0),
            ChatEvent::StepSaved(_) => Some(0),
            _ => None,
        });
        let touched = made
            .max()
            .map(|at_ms| CatalogEvent::ChatTouched { id: session, at_ms }.encode());
        let requests = events.iter().filter_map(|event| match event {
            ChatEvent::RequestSaved(request) => Some(CatalogEvent::ChatRequestChanged {
                id: session,
                request: OpenRequest::from(&**request),
            }),
            _ => None,
        });
        let told = touched
            .into_iter()
            .chain(requests.map(|event| event.encode()))
            .collect::<Result<_>>()?;
        let events = events
            .iter()
            .map(ChatEvent::encode)
            .collect::<Result<_>>()?;
        Ok(Self {
            session,
            events,
            told,
        })
    }

    /// Has the catalog take in what it was told.
    pub(super) async fn notify_catalog(&self, store: &Store) {
        if !self.told.is_empty() {
            store.shared.catalog.after_commit().await;
        }
    }

    pub(super) fn ops(&self, expected: Expected) -> Vec<Op<'_>> {
        let records = self.events.iter().map(EncodedEvent::record);
        let mut ops = vec![Op::Append {
            stream: chat_stream(self.session),
            expected,
            records: records.collect(),
        }];
        if !self.told.is_empty() {
            let records = self.told.iter().map(EncodedEvent::record);
            ops.push(append(CATALOG_STREAM, records.collect()));
        }
        ops
    }
}
