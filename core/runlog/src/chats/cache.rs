//! [`ChatCache`]: the folds of the chats in use, and which chat an id belongs to.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard},
};

use runlog_engine::{Kind, ReadOptions, Sequence, StreamId};
use runlog_model::{ChatEvent, ChatFold, SessionId};

use crate::{AsyncStore, Error, Result};

/// The most chats whose folds are kept.
const FOLDS_MAX: usize = 256;
/// The most bytes of payload that the kept folds were made from.
const FOLDS_BYTES_MAX: usize = 64 << 20;

/// Owns the folds of chats, each of which is never ahead of what is durable.
#[derive(Default)]
pub(crate) struct ChatCache {
    folds: Mutex<Folds>,
    ids: Mutex<Ids>,
}

#[derive(Default)]
struct Folds {
    /// By chat, with when it was last used.
    kept: HashMap<SessionId, (u64, Arc<ChatFold>)>,
    uses: u64,
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
    seen: HashMap<SessionId, u64>,
}

impl ChatCache {
    fn folds(&self) -> MutexGuard<'_, Folds> {
        self.folds.lock().expect("the folds of chats were left broken by a panic")
    }

    fn ids(&self) -> MutexGuard<'_, Ids> {
        self.ids.lock().expect("the ids of chats were left broken by a panic")
    }
}

impl AsyncStore {
    /// The chat's fold, caught up.
    pub(crate) async fn chat_fold(&self, session: SessionId) -> Result<Arc<ChatFold>> {
        let stream = stream_of(session);
        let Some(info) = self.backend().stream(stream).await? else { return Ok(Arc::default()) };
        let last = info.last_sequence.0;
        let cache = self.chat_cache();
        let kept = cache.folds().take(session);
        let mut fold = kept.filter(|fold| fold.last_sequence() <= last).unwrap_or_default();
        if fold.last_sequence() < last {
            // Taken out of the cache, so that it is mostly nobody else's and isn't copied.
            self.catch_up(stream, Arc::make_mut(&mut fold), last).await?;
        }
        cache.folds().keep(session, &fold);
        Ok(fold)
    }

    async fn catch_up(&self, stream: StreamId, fold: &mut ChatFold, last: u64) -> Result<()> {
        let mut next = Some(Sequence(fold.last_sequence()).next());
        while let Some(first) = next {
            let kinds = ChatEvent::KINDS.map(Kind).collect();
            let options = ReadOptions { first, last: Sequence(last), kinds, ..ReadOptions::default() };
            let page = self.backend().read(stream, options).await?;
            next = page.next;
            for record in page.records.into_iter().filter(|record| !record.redacted) {
                let (sequence, position) = (record.sequence.0, record.position.0);
                let event = ChatEvent::decode(record.kind.0, &record.meta, &record.payload);
                let applied = event.and_then(|event| fold.apply(sequence, position, record.payload.len(), event));
                applied.map_err(|error| {
                    let error = Error::from(error);
                    Error::new(error.kind(), format!("chat {}, event {sequence}: {error}", stream.0))
                })?;
            }
        }
        fold.skip(last);
        Ok(())
    }

    /// The chat that has this id. An id that was found in one chat isn't looked for in those that came later.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when none has, [`Ambiguous`](crate::ErrorKind::Ambiguous) when
    /// several have.
    pub(crate) async fn chat_with(&self, of: IdOf, id: &str) -> Result<SessionId> {
        let live: HashSet<SessionId> =
            self.shared.catalog.read(|catalog| catalog.live_sessions().map(|session| session.id).collect()).await?;
        // What is known, then the chats in use, then all others: mostly the first or the second is enough.
        let mut found = self.chat_cache().ids().find(of, id, &live);
        if found.is_empty() {
            let used = self.chat_cache().folds().kept.keys().copied().collect::<Vec<_>>();
            self.learn_ids(used.into_iter().filter(|session| live.contains(session))).await?;
            found = self.chat_cache().ids().find(of, id, &live);
        }
        if found.is_empty() {
            self.learn_ids(live.iter().copied()).await?;
            found = self.chat_cache().ids().find(of, id, &live);
        }
        let mut found = found.into_iter();
        match (found.next(), found.next()) {
            (Some(session), None) => Ok(session),
            (None, _) => Err(Error::not_found(format!("no chat has a {} {id:?}", of.name()))),
            (Some(one), Some(other)) => Err(Error::new(
                crate::ErrorKind::Ambiguous,
                format!("the {} {id:?} is in chat {one} and in chat {other}; give ids that are unique", of.name()),
            )),
        }
    }
}

impl AsyncStore {
    /// Looks through the chats that have changed since they were looked through.
    async fn learn_ids(&self, chats: impl Iterator<Item = SessionId> + Send) -> Result<()> {
        let cache = self.chat_cache();
        for session in chats {
            let Some(info) = self.backend().stream(stream_of(session)).await? else { continue };
            if cache.ids().seen.get(&session) != Some(&info.last_sequence.0) {
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
    fn take(&mut self, session: SessionId) -> Option<Arc<ChatFold>> {
        self.kept.remove(&session).map(|(_, fold)| fold)
    }

    fn keep(&mut self, session: SessionId, fold: &Arc<ChatFold>) {
        self.uses += 1;
        let further = self.kept.get(&session).is_none_or(|(_, kept)| kept.last_sequence() <= fold.last_sequence());
        if fold.bytes() <= FOLDS_BYTES_MAX && further {
            self.kept.insert(session, (self.uses, Arc::clone(fold)));
        }
        while self.kept.len() > FOLDS_MAX || self.bytes() > FOLDS_BYTES_MAX {
            let oldest = self.kept.iter().min_by_key(|(_, (used, _))| *used).map(|(session, _)| *session);
            let Some(oldest) = oldest else { break };
            self.kept.remove(&oldest);
        }
    }

    fn bytes(&self) -> usize {
        self.kept.values().map(|(_, fold)| fold.bytes()).sum()
    }
}

impl Ids {
    fn find(&self, of: IdOf, id: &str, live: &HashSet<SessionId>) -> Vec<SessionId> {
        let chats = self.chats.get(&(of, id.to_owned())).map(Vec::as_slice).unwrap_or_default();
        chats.iter().copied().filter(|session| live.contains(session)).collect()
    }

    fn learn(&mut self, session: SessionId, fold: &ChatFold) {
        let messages = fold.message_ids().map(|id| (IdOf::Message, id));
        let requests = fold.request_ids().map(|id| (IdOf::Request, id));
        let steps =
            fold.steps().iter().flat_map(|step| [(IdOf::Step, step.step_id.as_str()), (IdOf::Stack, &step.stack_id)]);
        for (of, id) in messages.chain(requests).chain(steps) {
            let chats = self.chats.entry((of, id.to_owned())).or_default();
            if !chats.contains(&session) {
                chats.push(session);
            }
        }
        self.seen.insert(session, fold.last_sequence());
    }
}

/// The stream that a chat's messages and steps are kept in: the session's own.
pub(crate) fn stream_of(session: SessionId) -> StreamId {
    StreamId(session.as_uuid())
}
