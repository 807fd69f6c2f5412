//! The fold of a chat, caught up, and the chat that an id belongs to.

use std::sync::Arc;

use runlog_log::{Kind, ReadOptions, Sequence, StreamId};
use runlog_model::{Catalog, ChatEvent, ChatFold, SessionId, kinds};

use crate::{
    Error, Result, Store,
    kernel::{chats::IdOf, records::chat_stream},
};

impl Store {
    /// The chat's fold, caught up.
    pub(crate) async fn chat_fold(&self, session: SessionId) -> Result<Arc<ChatFold>> {
        let stream = chat_stream(session);
        let Some(info) = self.backend().stream(stream).await? else {
            return Ok(Arc::default());
        };
        let cache = self.chat_cache();
        cache.folds().forget_unless(self.backend().redactions());
        if let Some(fold) = cache
            .folds()
            .used(session)
            .filter(|fold| fold.last_sequence() == info.last_sequence.0)
        {
            return Ok(fold);
        }
        // One at a time: another would find none to catch up, and fold the whole chat.
        let turn = cache.folds().turn_of(session);
        let _alone = turn.lock().await;
        let Some(info) = self.backend().stream(stream).await? else {
            return Ok(Arc::default());
        };
        let last = info.last_sequence.0;
        let kept = cache.folds().take(session);
        let mut fold = kept
            .filter(|fold| fold.last_sequence() <= last)
            .unwrap_or_default();
        if fold.last_sequence() < last {
            // Taken out of the cache, so that it is mostly nobody else's and isn't copied.
            self.catch_up(stream, Arc::make_mut(&mut fold), last)
                .await?;
        }
        cache.folds().keep(session, &fold);
        Ok(fold)
    }

    async fn catch_up(&self, stream: StreamId, fold: &mut ChatFold, last: u64) -> Result<()> {
        let mut next = Some(Sequence(fold.last_sequence()).next());
        while let Some(first) = next {
            let kinds = kinds::CHAT_EVENTS.map(Kind).collect();
            let options = ReadOptions {
                first,
                last: Sequence(last),
                kinds,
                ..ReadOptions::default()
            };
            let page = self.backend().read(stream, options).await?;
            next = page.next;
            for record in page.records {
                let (sequence, position) = (record.sequence.0, record.position.0);
                if record.redacted {
                    fold.skip_redacted(sequence, record.kind.0);
                    continue;
                }
                let event = ChatEvent::decode(record.kind.0, &record.meta, &record.payload);
                let applied = event
                    .and_then(|event| fold.apply(sequence, position, record.payload.len(), event));
                applied.map_err(|error| {
                    let error = error;
                    Error::new(
                        error.kind(),
                        format!("chat {}, event {sequence}: {error}", stream.0),
                    )
                })?;
            }
        }
        fold.skip(last);
        Ok(())
    }

    /// The chat that has this id. The first call of a process looks through all chats of the store, so that it never
    /// depends on what was read before which chat is found; those after it look at what was written since.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when none has, [`Ambiguous`](crate::ErrorKind::Ambiguous) when
    /// several have.
    pub(crate) async fn chat_with(&self, of: IdOf, id: &str) -> Result<SessionId> {
        self.learn_changed().await?;
        let mut found = self.live_chats_with(of, id).into_iter();
        match (found.next(), found.next()) {
            (Some(session), None) => Ok(session),
            (None, _) => Err(Error::not_found(format!(
                "no chat has a {} {id:?}",
                of.name()
            ))),
            (Some(one), Some(other)) => Err(Error::new(
                crate::ErrorKind::Ambiguous,
                format!(
                    "the {} {id:?} is in chat {:?} and in chat {:?}; give ids that are unique",
                    of.name(),
                    self.chat_name(one),
                    self.chat_name(other)
                ),
            )),
        }
    }

    /// Refuses an id that another chat has, as far as the ids of the store are known: whoever never asks for something by
    /// its id alone doesn't pay for looking through all chats, and is told by the first such call that an id is ambiguous.
    ///
    /// # Errors
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists) when another chat has it.
    pub(crate) async fn check_id_elsewhere(
        &self,
        session: SessionId,
        of: IdOf,
        id: &str,
    ) -> Result<()> {
        if self.chat_cache().learnt().is_none() {
            return Ok(());
        }
        self.learn_changed().await?;
        match self
            .live_chats_with(of, id)
            .into_iter()
            .find(|other| *other != session)
        {
            None => Ok(()),
            Some(other) => Err(Error::new(
                crate::ErrorKind::AlreadyExists,
                format!(
                    "chat {:?} has a {} {id:?}; ids are unique in a store",
                    self.chat_name(other),
                    of.name()
                ),
            )),
        }
    }

    fn chat_name(&self, session: SessionId) -> String {
        let chat = self
            .shared
            .catalog
            .with_state(|catalog| catalog.chat(session));
        chat.map_or_else(|| session.to_string(), |chat| chat.chat_id)
    }

    /// Learns the ids of what was written since they were learnt: the catalog tells which chats that is.
    async fn learn_changed(&self) -> Result<()> {
        let learnt = *self.chat_cache().learnt();
        let changed = |catalog: &Catalog| {
            let chats: Vec<SessionId> = match learnt {
                Some(learnt) => catalog.touched_after(learnt).collect(),
                None => catalog.live_sessions().map(|session| session.id).collect(),
            };
            (catalog.last_sequence(), chats)
        };
        let (last, chats) = self.shared.catalog.read(changed).await?;
        self.learn_ids(chats).await?;
        let mut learnt = self.chat_cache().learnt();
        *learnt = (*learnt).max(Some(last));
        Ok(())
    }
}

impl Store {
    fn live_chats_with(&self, of: IdOf, id: &str) -> Vec<SessionId> {
        let found = self.chat_cache().ids().find(of, id);
        self.shared
            .catalog
            .with_state(|catalog| live_of(catalog, found))
    }

    /// Looks through what the chats got since they were looked through.
    async fn learn_ids(&self, chats: Vec<SessionId>) -> Result<()> {
        let cache = self.chat_cache();
        for session in chats {
            let Some(info) = self.backend().stream(chat_stream(session)).await? else {
                continue;
            };
            let seen = cache
                .ids()
                .seen
                .get(&session)
                .map(|seen| seen.last_sequence);
            if seen != Some(info.last_sequence.0) {
                let fold = self.chat_fold(session).await?;
                cache.ids().learn(session, &fold);
            }
        }
        Ok(())
    }
}

/// Those of some sessions that aren't deleted.
fn live_of(catalog: &Catalog, mut sessions: Vec<SessionId>) -> Vec<SessionId> {
    sessions.retain(|id| {
        catalog
            .session(*id)
            .is_some_and(|session| session.deleted_at_ms.is_none())
    });
    sessions
}
