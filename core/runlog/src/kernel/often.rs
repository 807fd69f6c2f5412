//! [`Often`]: what is kept of ids that many records are about, such as a message that is changed for each token of a model's
//! answer. Each change would read all those before it again.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use runlog_log::{Label, Position, StreamInfo};
use runlog_model::SessionId;

use super::shared_fold::SharedFold;

/// From so many records on, what they made is kept.
pub(crate) const OFTEN: usize = 32;
/// The most ids whose chats are kept.
const FOUND_MAX: usize = 4_096;
/// The most messages whose folds are kept, and the most bytes of their properties.
const FOLDS_MAX: usize = 256;
const FOLDS_BYTES_MAX: usize = 32 << 20;

/// The chats with records of an id, up to a position of the log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) sessions: Vec<SessionId>,
    pub(crate) read_to: Position,
    /// The redaction count of the store before they were read: a redacted record is of no id.
    pub(crate) redactions: u64,
}

/// A fold with one message.
#[derive(Clone, Debug)]
pub(crate) struct MessageFold {
    pub(crate) fold: SharedFold,
    /// The last record of the message that is in it.
    pub(crate) read_to: Position,
    /// What the chat's stream was then, and the redaction count of the store.
    pub(crate) read_at: (StreamInfo, u64),
}

/// See the module.
#[derive(Default)]
pub(crate) struct Often {
    found: Mutex<HashMap<Label, Found>>,
    folds: Mutex<HashMap<(SessionId, String), (MessageFold, usize)>>,
}

impl Often {
    /// What was found of an id, unless something was redacted since.
    pub(crate) fn found(&self, label: Label, redactions: u64) -> Found {
        let found = locked(&self.found).get(&label).cloned();
        let found = found.filter(|found| found.redactions == redactions);
        found.unwrap_or(Found {
            redactions,
            ..Found::default()
        })
    }

    pub(crate) fn keep_found(&self, label: Label, found: Found) {
        let mut all = locked(&self.found);
        if all.len() >= FOUND_MAX && !all.contains_key(&label) {
            all.clear();
        }
        all.insert(label, found);
    }

    /// A message's fold, if it is kept, still of this store's redactions, and the chat's stream has gone on since. It isn't kept
    /// any more then: whoever catches it up has it alone, and keeps it again.
    pub(crate) fn take_fold(
        &self,
        session: SessionId,
        message_id: &str,
        now: (StreamInfo, u64),
    ) -> Option<MessageFold> {
        let taken = locked(&self.folds).remove(&(session, message_id.to_owned()));
        let (kept, _) = taken?;
        let (info, redactions) = kept.read_at;
        (now.0.goes_on_from(&info) && now.1 == redactions).then_some(kept)
    }

    pub(crate) fn keep_fold(&self, session: SessionId, message_id: &str, kept: MessageFold) {
        let bytes = {
            let fold = kept.fold.read();
            let message = fold.message(message_id);
            message.map_or(0, |message| message.props.as_str().len())
        };
        let mut all = locked(&self.folds);
        let sum: usize = all.values().map(|(_, bytes)| bytes).sum();
        if all.len() >= FOLDS_MAX || sum + bytes > FOLDS_BYTES_MAX {
            all.clear();
        }
        all.insert((session, message_id.to_owned()), (kept, bytes));
    }

    /// Lets go of a deleted chat's messages.
    pub(crate) fn forget(&self, session: SessionId) {
        locked(&self.folds).retain(|(kept, _), _| *kept != session);
    }
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
