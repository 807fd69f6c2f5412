//! [`Claims`]: which requests somebody is at work on.
//!
//! Kept in memory, since only one process writes a store; when it dies, the next one can resume the request.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard},
};

use runlog_model::SessionId;

use crate::{Error, ErrorKind, Result};

/// The requests that are under way, by their chat and id.
#[derive(Default)]
pub(crate) struct Claims {
    taken: Mutex<HashSet<(SessionId, String)>>,
}

/// Marks a request as under way, until it is dropped.
pub(crate) struct Claim {
    claims: Arc<Claims>,
    request: (SessionId, String),
}

impl Claims {
    /// Takes a request.
    ///
    /// # Errors
    /// [`Conflict`](ErrorKind::Conflict) when somebody else has it.
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

    /// Whether somebody has it.
    pub(crate) fn has(&self, chat: SessionId, request_id: &str) -> bool {
        self.taken().contains(&(chat, request_id.to_owned()))
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
