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
        self.take_where(chat, request_id, |_| None)
    }

    /// Claims a request while no request of its chat is claimed.
    ///
    /// # Errors
    /// [`Conflict`](ErrorKind::Conflict) when one is.
    pub(crate) fn take_alone(self: &Arc<Self>, chat: SessionId, request_id: &str) -> Result<Claim> {
        self.take_where(chat, request_id, |taken| of_chat(taken, chat))
    }

    /// Claims a request unless another one is in its way.
    fn take_where(
        self: &Arc<Self>,
        chat: SessionId,
        request_id: &str,
        in_the_way: impl FnOnce(&HashSet<(SessionId, String)>) -> Option<String>,
    ) -> Result<Claim> {
        let request = (chat, request_id.to_owned());
        let mut taken = self.taken();
        let other = in_the_way(&taken);
        if other.is_some() || !taken.insert(request.clone()) {
            let other = other.as_deref().unwrap_or(request_id);
            let message = format!(
                "request {other:?} is under way, and somebody is at work on it; wait until it ends"
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
        of_chat(&self.taken(), chat)
    }

    fn taken(&self) -> MutexGuard<'_, HashSet<(SessionId, String)>> {
        self.taken
            .lock()
            .expect("the list of requests under way was left broken by a panic")
    }
}

fn of_chat(taken: &HashSet<(SessionId, String)>, chat: SessionId) -> Option<String> {
    let of_chat = taken.iter().find(|(session, _)| *session == chat);
    of_chat.map(|(_, request)| request.clone())
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.claims.taken().remove(&self.request);
    }
}
