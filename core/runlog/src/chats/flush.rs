//! Writing what a request has gathered so far, while it goes on.

use std::sync::Arc;

use runlog_log::{Batch, Expected, Sequence};
use runlog_model::{ChatIdOf, SessionId};

use super::{store::already_exists, write::Prepared};
use crate::{Result, Store, kernel::records::chat_stream};

/// A part of a request that is being written. It is written once, however often that is tried.
#[derive(Clone)]
pub struct RequestFlush(pub(super) Arc<Part>);

pub(super) struct Part {
    pub(super) store: Store,
    pub(super) session: SessionId,
    pub(super) prepared: Prepared,
    pub(super) key: [u8; 16],
    /// The ids that the caller gave to its messages, which the chat may have.
    pub(super) given_ids: Vec<String>,
}

impl RequestFlush {
    /// Writes it. Durable when it returns.
    ///
    /// # Errors
    /// As [`RequestBuffer::flush`](super::RequestBuffer::flush).
    pub async fn write(&self) -> Result<()> {
        let Part {
            store,
            session,
            prepared,
            key,
            given_ids,
        } = &*self.0;
        let backend = &**store.backend();
        if given_ids.is_empty() {
            let batch = Batch::new(prepared.ops(Expected::Any)).with_key(key);
            backend.commit(batch).await?;
        } else {
            let _reserved = store.reserve_message_ids(*session, given_ids)?;
            let queues = &store.shared.folds.queues;
            let mut attempts = queues.attempts(backend, chat_stream(*session)).await;
            loop {
                let expected = Expected::Last(free_at(store, *session, given_ids).await?);
                let batch = Batch::new(prepared.ops(expected)).with_key(key);
                match backend.commit(batch).await {
                    Ok(_) => break,
                    Err(error) => attempts.again(error).await?,
                }
            }
        }
        prepared.notify_catalog(store).await;
        Ok(())
    }
}

/// The last sequence of a chat, at which messages of these ids can be saved.
pub(super) async fn free_at(
    store: &Store,
    session: SessionId,
    given_ids: &[String],
) -> Result<Sequence> {
    let info = store.backend().stream(chat_stream(session)).await?;
    for id in given_ids {
        if store.has_message(session, id).await? {
            return Err(already_exists("message", id, "update_message changes it"));
        }
        store
            .check_id_elsewhere(session, ChatIdOf::Message, id)
            .await?;
    }
    Ok(info.map_or(Sequence::ZERO, |info| info.last_sequence))
}
