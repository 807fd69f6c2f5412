//! [`ChatCache`]: the folds of the chats in use, and the tails of those that are written to.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use runlog_log::{Record, Sequence, StreamInfo};
use runlog_model::{ChatIdOf, SessionId, Updates};

use super::{places::PlacesCache, shared_fold::SharedFold, step_folds::StepFolds};

/// The most chats whose folds are cached.
const FOLDS_MAX: usize = 256;
/// The most bytes of payload that the cached folds were made from, if there is more than one.
const FOLDS_BYTES_MAX: usize = 64 << 20;
/// The most chats of which the events that changed messages are cached, and the most bytes of one's.
const CHANGES_MAX: usize = 256;
const CHANGES_BYTES_MAX: usize = 64 << 10;
/// The most chats whose tails are cached.
const TAILS_MAX: usize = 4096;

/// Owns the folds of chats. Invariant: no fold is ahead of what is durable.
#[derive(Default)]
pub(crate) struct ChatCache {
    folds: Mutex<Folds>,
    tails: Mutex<HashMap<SessionId, Arc<Mutex<Tail>>>>,
    changes: Mutex<HashMap<SessionId, Arc<Changes>>>,
    pub(crate) places: PlacesCache,
    pub(crate) steps: StepFolds,
    reserved: Arc<Mutex<ReservedIds>>,
}

/// Ids of what is being saved: by which chat, and by how many of its saves.
type ReservedIds = HashMap<(ChatIdOf, String), (SessionId, usize)>;

/// Prevents other chats from saving anything with these ids while it is held. An id is looked up before it is written;
/// without this, two chats that look it up at the same moment would both find it free.
pub(crate) struct Reserved {
    all: Arc<Mutex<ReservedIds>>,
    ids: Vec<(ChatIdOf, String)>,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        for id in &self.ids {
            let left = all.get_mut(id).map(|(_, saves)| {
                *saves -= 1;
                *saves
            });
            if left == Some(0) {
                all.remove(id);
            }
        }
    }
}

#[derive(Default)]
pub(crate) struct Folds {
    /// The redaction count when the first of the cached folds was made: once it has grown, all are dropped.
    redactions: u64,
    /// By chat, with the time of the last use.
    kept: HashMap<SessionId, Kept>,
    uses: u64,
    /// Held by the task that catches up the fold of a chat.
    turns: HashMap<SessionId, Weak<tokio::sync::Mutex<()>>>,
}

struct Kept {
    used: u64,
    bytes: usize,
    fold: SharedFold,
    /// What the chat's stream was when the fold was caught up.
    at: StreamInfo,
}

/// The events that changed or deleted messages of a chat, for pages that are read without its fold.
#[derive(Debug)]
pub(crate) struct Changes {
    /// What the chat's stream was, and the redaction count of the store, when they were read.
    pub(crate) read_at: (StreamInfo, u64),
    pub(crate) records: Vec<Record>,
    /// What they made of each message that they are about.
    pub(crate) of_messages: HashMap<String, Change>,
}

/// What the events that changed or deleted a message made of it.
#[derive(Debug)]
pub(crate) struct Change {
    /// The sequence of the first of them in the chat's stream.
    pub(crate) first: Sequence,
    pub(crate) outcome: Outcome,
}

/// All updates of a message together.
#[derive(Clone, Debug)]
pub(crate) struct MessageChange {
    pub(crate) updates: Updates,
    /// The text that was appended to its content after them.
    pub(crate) appended: String,
    /// When the last one was made.
    pub(crate) at_ms: u64,
}

/// See [`Change`].
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    Updated(MessageChange),
    Deleted,
    /// Deleted, and its id was given to another message, which was changed or deleted, too: only a fold tells of which one each is.
    GivenAgain,
}

impl Outcome {
    /// Adds what a later event does. What follows a deletion is about a new message with the id.
    pub(crate) fn then(&mut self, later: &Self) {
        match (&mut *self, later) {
            (Self::Updated(all), Self::Updated(later)) => {
                // With new properties it has another content.
                if later.updates.get("props").is_some() {
                    all.appended.clear();
                }
                all.updates.extend(&later.updates);
                all.appended.push_str(&later.appended);
                all.at_ms = later.at_ms;
            }
            (Self::Updated(_), Self::Deleted) => *self = Self::Deleted,
            _ => *self = Self::GivenAgain,
        }
    }
}

/// Where a chat's messages end, messages that are staged and not yet durable included.
#[derive(Debug)]
pub(crate) struct Tail {
    /// The last sequence of the chat's stream.
    pub(crate) last: Sequence,
    /// The largest sequence of a message.
    pub(crate) last_message: u64,
    /// The ids chosen by callers of the messages that were saved since this was created.
    pub(crate) given_ids: HashSet<String>,
}

impl Tail {
    pub(crate) fn new(last: Sequence, last_message: u64) -> Self {
        Self {
            last,
            last_message,
            given_ids: HashSet::new(),
        }
    }
}

impl ChatCache {
    pub(crate) fn folds(&self) -> MutexGuard<'_, Folds> {
        self.folds
            .lock()
            .expect("the folds of chats were left broken by a panic")
    }

    /// Reserves ids that a chat is about to save.
    ///
    /// # Errors
    /// The first one that another chat has reserved, with that chat.
    pub(crate) fn reserve(
        &self,
        session: SessionId,
        of: ChatIdOf,
        ids: &[String],
    ) -> Result<Reserved, (String, SessionId)> {
        let ids: Vec<_> = ids.iter().map(|id| (of, id.clone())).collect();
        let mut all = self.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        for id in &ids {
            if let Some((other, _)) = all.get(id).filter(|(other, _)| *other != session) {
                return Err((id.1.clone(), *other));
            }
        }
        for id in &ids {
            all.entry(id.clone()).or_insert((session, 0)).1 += 1;
        }
        Ok(Reserved {
            all: Arc::clone(&self.reserved),
            ids,
        })
    }

    /// The chat's tail, if it is cached.
    pub(crate) fn tail(&self, session: SessionId) -> Option<Arc<Mutex<Tail>>> {
        self.tails().get(&session).cloned()
    }

    /// Caches a chat's tail, unless another task has done so meanwhile, and returns the cached one.
    pub(crate) fn keep_tail(&self, session: SessionId, tail: Tail) -> Arc<Mutex<Tail>> {
        let mut tails = self.tails();
        if tails.len() >= TAILS_MAX {
            tails.clear();
        }
        let kept = tails.entry(session);
        Arc::clone(kept.or_insert_with(|| Arc::new(Mutex::new(tail))))
    }

    /// Removes a chat's tail from the cache, unless it was replaced meanwhile.
    pub(crate) fn forget_tail(&self, session: SessionId, tail: &Arc<Mutex<Tail>>) {
        let mut tails = self.tails();
        if tails
            .get(&session)
            .is_some_and(|kept| Arc::ptr_eq(kept, tail))
        {
            tails.remove(&session);
        }
    }

    /// Removes a chat's tail from the cache.
    pub(crate) fn forget_tail_of(&self, session: SessionId) {
        self.tails().remove(&session);
    }

    /// The events that changed messages of a chat, if they are cached and nothing was written to it since.
    pub(crate) fn changes(
        &self,
        session: SessionId,
        read_at: (StreamInfo, u64),
    ) -> Option<Arc<Changes>> {
        let changes = self.all_changes();
        let known = changes.get(&session);
        known.filter(|known| known.read_at == read_at).cloned()
    }

    /// Caches the events that changed messages of a chat, unless they are large.
    pub(crate) fn keep_changes(&self, session: SessionId, changes: &Arc<Changes>) {
        let records = changes.records.iter();
        let bytes: usize = records.map(|record| record.payload.len()).sum();
        let mut all = self.all_changes();
        if bytes > CHANGES_BYTES_MAX {
            all.remove(&session);
            return;
        }
        if all.len() >= CHANGES_MAX {
            all.clear();
        }
        all.insert(session, Arc::clone(changes));
    }

    fn all_changes(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Changes>>> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tails(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Mutex<Tail>>>> {
        self.tails
            .lock()
            .expect("the ends of chats were left broken by a panic")
    }

    /// A chat's fold, if it is cached, and what the chat's stream was then; others may have written to it since.
    pub(crate) fn known(&self, session: SessionId) -> Option<(SharedFold, StreamInfo)> {
        self.folds().used(session)
    }

    /// Removes a deleted chat from the cache: events of a new chat with its id don't continue the cached fold.
    pub(crate) fn forget(&self, session: SessionId) {
        self.folds().take(session);
        self.tails().remove(&session);
        self.all_changes().remove(&session);
        self.places.forget(session);
        self.steps.forget(session);
    }
}

impl Folds {
    /// Removes all folds if something was redacted since.
    pub(crate) fn forget_unless(&mut self, redactions: u64) {
        if self.redactions != redactions {
            self.redactions = redactions;
            self.kept.clear();
        }
    }

    /// The fold, if it is cached, and what the chat's stream was then.
    pub(crate) fn used(&mut self, session: SessionId) -> Option<(SharedFold, StreamInfo)> {
        self.uses += 1;
        let kept = self.kept.get_mut(&session)?;
        kept.used = self.uses;
        Some((kept.fold.clone(), kept.at))
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

    pub(crate) fn take(&mut self, session: SessionId) -> Option<(SharedFold, StreamInfo)> {
        let kept = self.kept.remove(&session);
        kept.map(|kept| (kept.fold, kept.at))
    }

    /// Caches a fold that was made from `bytes` bytes, and is caught up with what the chat's stream is, unless something was redacted
    /// since it was begun: it may have been read before.
    pub(crate) fn keep(
        &mut self,
        session: SessionId,
        fold: SharedFold,
        bytes: usize,
        (at, redactions): (StreamInfo, u64),
    ) {
        if self.redactions != redactions {
            return;
        }
        self.uses += 1;
        let kept = Kept {
            used: self.uses,
            bytes,
            fold,
            at,
        };
        self.kept.insert(session, kept);
        // The last one stays, however large: otherwise each call in its chat would make it again.
        while self.kept.len() > FOLDS_MAX || (self.bytes() > FOLDS_BYTES_MAX && self.kept.len() > 1)
        {
            let oldest = self
                .kept
                .iter()
                .min_by_key(|(_, kept)| kept.used)
                .map(|(session, _)| *session);
            let Some(oldest) = oldest else { break };
            self.kept.remove(&oldest);
        }
    }

    fn bytes(&self) -> usize {
        self.kept.values().map(|kept| kept.bytes).sum()
    }
}
