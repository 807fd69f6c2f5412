//! Messages of a request whose ids are taken by the time that they are written: they get fresh ones, so that the request can be
//! ended.

use std::{collections::HashMap, slice};

use futures_util::FutureExt;

use runlog_model::{ChatIdOf, SessionId};

use super::store::already_exists;
use crate::{Error, ErrorKind, Result, Store, kernel::chats::Reserved};

/// The fresh id for each that is taken.
pub(super) type NewIds = HashMap<String, String>;

impl Store {
    /// Fresh ids for those of these that this chat or another has by now.
    async fn new_ids(&self, session: SessionId, given_ids: &[String]) -> Result<NewIds> {
        let mut new_ids = NewIds::new();
        for id in given_ids {
            let refused = |error: Error| match error.kind() {
                ErrorKind::AlreadyExists => Ok(true),
                _ => Err(error),
            };
            let reserved = self.reserve_ids(session, ChatIdOf::Message, slice::from_ref(id));
            let elsewhere = self.check_id_elsewhere(session, ChatIdOf::Message, id);
            let is_taken = reserved.is_err()
                || self.has_message(session, id).await?
                || elsewhere.await.map(|()| false).or_else(refused)?;
            if is_taken {
                new_ids.insert(id.clone(), self.backend().new_id().to_string());
            }
        }
        Ok(new_ids)
    }

    /// What a write of messages with these ids was refused with; if that is because some are taken, adds fresh ones for them, and
    /// the error says so.
    pub(super) async fn refused(
        &self,
        session: SessionId,
        given_ids: &[String],
        error: Error,
        new_ids: &mut NewIds,
    ) -> Error {
        if error.kind() != ErrorKind::AlreadyExists {
            return error;
        }
        match self.new_ids(session, given_ids).await {
            // A later attempt, which is refused in the same way, finds them.
            Err(_) => return error,
            // Ids that were given before stay.
            Ok(found) => found.into_iter().for_each(|(id, new)| {
                new_ids.entry(id).or_insert(new);
            }),
        }
        let mut advice: Vec<_> = new_ids
            .iter()
            .map(|(id, new)| format!("{id:?} is written as {new:?}"))
            .collect();
        if advice.is_empty() {
            return error;
        }
        runlog_log::order::sort(&mut advice);
        let advice = advice.join(", ");
        Error::new(
            ErrorKind::AlreadyExists,
            format!("{error}; nothing was written: try again, and {advice}"),
        )
    }

    /// Makes a message's id that of a request of this chat, until that has ended. A remote backend isn't waited for: what it has
    /// is known when the message is written.
    ///
    /// # Errors
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) when a chat has it, or another one is about to save it.
    pub(super) fn reserve_sent(&self, session: SessionId, id: &str) -> Result<Reserved> {
        let has = self.has_message(session, id).now_or_never();
        if matches!(has, Some(Ok(true))) {
            return Err(already_exists("message", id, "an update changes it"));
        }
        let reserved = self.reserve_ids(session, ChatIdOf::Message, &[id.to_owned()])?;
        let elsewhere = self
            .check_id_elsewhere(session, ChatIdOf::Message, id)
            .now_or_never();
        match elsewhere {
            Some(Err(error)) if error.kind() == ErrorKind::AlreadyExists => Err(error),
            _ => Ok(reserved),
        }
    }
}
