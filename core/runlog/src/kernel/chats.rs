//! [`ChatCache`]: the folds of the chats in use, and which chats have an id.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, Weak},
};

use runlog_model::{ChatFold, SessionId, Touched};

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
pub(crate) struct Folds {
    /// The redaction count when the kept folds were begun: once it has grown, they are dropped.
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
pub(crate) struct Ids {
    chats: HashMap<(IdOf, String), Vec<SessionId>>,
    /// Up to where each chat was looked through.
    pub(crate) seen: HashMap<SessionId, Seen>,
}

#[derive(Clone, Copy, Default)]
pub(crate) struct Seen {
    pub(crate) last_sequence: u64,
    /// The position of the last event that saved or changed something.
    position: u64,
}

impl ChatCache {
    pub(crate) fn folds(&self) -> MutexGuard<'_, Folds> {
        self.folds
            .lock()
            .expect("the folds of chats were left broken by a panic")
    }

    /// A chat's fold as far as it is kept, which others may have written to since.
    pub(crate) fn known(&self, session: SessionId) -> Option<Arc<ChatFold>> {
        self.folds().used(session)
    }

    /// Forgets a chat that has nothing any more: what comes in its place isn't what followed.
    pub(crate) fn forget(&self, session: SessionId) {
        self.folds().take(session);
        self.ids().seen.remove(&session);
    }

    pub(crate) fn learnt(&self) -> MutexGuard<'_, Option<u64>> {
        self.learnt
            .lock()
            .expect("how far the ids of chats are known was left broken by a panic")
    }

    pub(crate) fn ids(&self) -> MutexGuard<'_, Ids> {
        self.ids
            .lock()
            .expect("the ids of chats were left broken by a panic")
    }
}

impl IdOf {
    pub(crate) fn name(self) -> &'static str {
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
    pub(crate) fn forget_unless(&mut self, redactions: u64) {
        if self.redactions != redactions {
            self.redactions = redactions;
            self.kept.clear();
        }
    }

    /// The fold as far as it is kept.
    pub(crate) fn used(&mut self, session: SessionId) -> Option<Arc<ChatFold>> {
        self.uses += 1;
        let (used, fold) = self.kept.get_mut(&session)?;
        *used = self.uses;
        Some(Arc::clone(fold))
    }

    pub(crate) fn turn_of(&mut self, session: SessionId) -> Arc<tokio::sync::Mutex<()>> {
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

    pub(crate) fn take(&mut self, session: SessionId) -> Option<Arc<ChatFold>> {
        self.kept.remove(&session).map(|(_, fold)| fold)
    }

    pub(crate) fn keep(&mut self, session: SessionId, fold: &Arc<ChatFold>) {
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
    pub(crate) fn find(&self, of: IdOf, id: &str) -> Vec<SessionId> {
        self.chats
            .get(&(of, id.to_owned()))
            .cloned()
            .unwrap_or_default()
    }

    pub(crate) fn learn(&mut self, session: SessionId, fold: &ChatFold) {
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
