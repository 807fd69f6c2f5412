//! [`ChatCache`]: the folds of the chats in use, and which chat an id belongs to.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, Weak},
};

use runlog_log::{Kind, ReadOptions, Sequence, StreamId};
use runlog_model::{Catalog, ChatEvent, ChatFold, SessionId, Touched, kinds};

use crate::{Error, Result, Store};

/// The most chats whose folds are kept.
const FOLDS_MAX: usize = 256;
/// The most bytes of payload that the kept folds were made from, where there is more than one.
const FOLDS_BYTES_MAX: usize = 64 << 20;

/// Owns the folds of chats, each of which is never ahead of what is durable.
#[derive(Default)]
pub(crate) struct ChatCache {
    folds: Mutex<Folds>,
    ids: Mutex<Ids>,
    /// The last sequence of the catalog up to which the ids of all chats are known; `None` while they aren't.
    learnt: Mutex<Option<u64>>,
}

#[derive(Default)]
struct Folds {
    /// How many records were redacted when the kept folds were begun: what is redacted since must not be told any more.
    redactions: u64,
    /// By chat, with when it was last used.
    kept: HashMap<SessionId, (u64, Arc<ChatFold>)>,
    uses: u64,
    /// Held by whoever catches up the fold of a chat.
    turns: HashMap<SessionId, Weak<tokio::sync::Mutex<()>>>,
}

/// What an id names.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum IdOf {
    Message,
    Step,
    Request,
    Stack,
}

/// Which chats have an id. Made when something is first asked for by its id alone, and caught up then; it holds
/// every such id of the store.
#[derive(Default)]
struct Ids {
    chats: HashMap<(IdOf, String), Vec<SessionId>>,
    /// Up to where each chat was looked through.
    seen: HashMap<SessionId, Seen>,
}

#[derive(Clone, Copy, Default)]
struct Seen {
    last_sequence: u64,
    /// That of the last event that had saved or changed something.
    position: u64,
}

impl ChatCache {
    fn folds(&self) -> MutexGuard<'_, Folds> {
        self.folds
            .lock()
            .expect("the folds of chats were left broken by a panic")
    }

    /// A chat's fold as far as it is kept, which others may have written to since.
    pub(crate) fn known(&self, session: SessionId) -> Option<Arc<ChatFold>> {
        self.folds().used(session)
    }

    fn learnt(&self) -> MutexGuard<'_, Option<u64>> {
        self.learnt
            .lock()
            .expect("how far the ids of chats are known was left broken by a panic")
    }

    fn ids(&self) -> MutexGuard<'_, Ids> {
        self.ids
            .lock()
            .expect("the ids of chats were left broken by a panic")
    }
}

impl Store {
    /// The chat's fold, caught up.
    pub(crate) async fn chat_fold(&self, session: SessionId) -> Result<Arc<ChatFold>> {
        let stream = stream_of(session);
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
            let Some(info) = self.backend().stream(stream_of(session)).await? else {
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

impl IdOf {
    fn name(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Step => "step",
            Self::Request => "request",
            Self::Stack => "stack",
        }
    }
}

impl Folds {
    /// Forgets all folds where something was redacted since.
    fn forget_unless(&mut self, redactions: u64) {
        if self.redactions != redactions {
            self.redactions = redactions;
            self.kept.clear();
        }
    }

    /// The fold as far as it is kept.
    fn used(&mut self, session: SessionId) -> Option<Arc<ChatFold>> {
        self.uses += 1;
        let (used, fold) = self.kept.get_mut(&session)?;
        *used = self.uses;
        Some(Arc::clone(fold))
    }

    fn turn_of(&mut self, session: SessionId) -> Arc<tokio::sync::Mutex<()>> {
        if let Some(turn) = self.turns.get(&session).and_then(Weak::upgrade) {
            return turn;
        }
        if self.turns.len() >= FOLDS_MAX {
            self.turns.retain(|_, turn| turn.strong_count() > 0);
        }
        let turn = Arc::default();
        self.turns.insert(session, Arc::downgrade(&turn));
        turn
    }

    fn take(&mut self, session: SessionId) -> Option<Arc<ChatFold>> {
        self.kept.remove(&session).map(|(_, fold)| fold)
    }

    fn keep(&mut self, session: SessionId, fold: &Arc<ChatFold>) {
        self.uses += 1;
        let further = self
            .kept
            .get(&session)
            .is_none_or(|(_, kept)| kept.last_sequence() <= fold.last_sequence());
        if further {
            self.kept.insert(session, (self.uses, Arc::clone(fold)));
        }
        // The last one stays, however large: each call in its chat would make it again.
        while self.kept.len() > FOLDS_MAX || (self.bytes() > FOLDS_BYTES_MAX && self.kept.len() > 1)
        {
            let oldest = self
                .kept
                .iter()
                .min_by_key(|(_, (used, _))| *used)
                .map(|(session, _)| *session);
            let Some(oldest) = oldest else { break };
            self.kept.remove(&oldest);
        }
    }

    fn bytes(&self) -> usize {
        self.kept.values().map(|(_, fold)| fold.bytes()).sum()
    }
}

impl Ids {
    fn find(&self, of: IdOf, id: &str) -> Vec<SessionId> {
        self.chats
            .get(&(of, id.to_owned()))
            .cloned()
            .unwrap_or_default()
    }

    fn learn(&mut self, session: SessionId, fold: &ChatFold) {
        let seen = self.seen.get(&session).copied().unwrap_or_default();
        if seen.last_sequence > fold.last_sequence() {
            return;
        }
        for touched in fold.touched_after(seen.position) {
            match touched {
                Touched::Message(message) => {
                    self.name(session, IdOf::Message, &message.message_id);
                    message
                        .request_id
                        .iter()
                        .for_each(|request| self.name(session, IdOf::Request, request));
                }
                Touched::Step(step) => {
                    self.name(session, IdOf::Step, &step.step_id);
                    self.name(session, IdOf::Request, &step.request_id);
                    self.name(session, IdOf::Stack, &step.stack_id);
                }
            }
        }
        let seen = Seen {
            last_sequence: fold.last_sequence(),
            position: fold.touched_at(),
        };
        self.seen.insert(session, seen);
    }

    fn name(&mut self, session: SessionId, of: IdOf, id: &str) {
        let chats = self.chats.entry((of, id.to_owned())).or_default();
        if !chats.contains(&session) {
            chats.push(session);
        }
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

/// The stream that a chat's messages and steps are kept in: the session's own.
pub(crate) fn stream_of(session: SessionId) -> StreamId {
    StreamId(session.as_uuid())
}
