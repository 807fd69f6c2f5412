//! [`Claims`]: the requests that a task of this process is working on.
//!
//! In memory only, because only one process writes a store; if it dies, the next one can resume the request.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard},
};

use runlog_model::SessionId;

use crate::{Error, ErrorKind, Result};

/// The active requests, by their chat and id.
#[derive(Default)]
pub(crate) struct Claims {
    taken: Mutex<HashSet<(SessionId, String)>>,
}

/// Marks a request as active, until it is dropped.
pub(crate) struct Claim {
    claims: Arc<Claims>,
    request: (SessionId, String),
}

impl Claims {
    /// Claims a request.
    ///
    /// # Errors
    /// [`Conflict`](ErrorKind::Conflict) when it is claimed already.
    pub(crate) fn take(self: &Arc<Self>, chat: SessionId, request_id: &str) -> Result<Claim> {
        let request = (chat, request_id.to_owned());
        if !self.taken().insert(request.clone()) {
            let message = format!(
                "request {request_id:?} is under way, and somebody is at work on it; wait until it ends"
            );
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        Ok(Claim {
            claims: Arc::clone(self),
            request,
        })
    }

    /// Whether it is claimed.
    pub(crate) fn has(&self, chat: SessionId, request_id: &str) -> bool {
        self.taken().contains(&(chat, request_id.to_owned()))
    }

    /// A request of a chat that is claimed, if there is one.
    pub(crate) fn of_chat(&self, chat: SessionId) -> Option<String> {
        let taken = self.taken();
        let of_chat = taken.iter().find(|(session, _)| *session == chat);
        of_chat.map(|(_, request)| request.clone())
    }

    fn taken(&self) -> MutexGuard<'_, HashSet<(SessionId, String)>> {
        self.taken
            .lock()
            .expect("the list of requests under way was left broken by a panic")
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.claims.taken().remove(&self.request);
    }
}
