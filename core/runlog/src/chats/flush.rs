//! Writing the buffered part of a request while the request continues.

use std::sync::Arc;

use runlog_log::{Batch, Expected, Sequence};
use runlog_model::{ChatEvent, ChatIdOf, SessionId};

use super::{draft, pages::is_in_order, store::already_exists, write::Prepared};
use crate::{Result, Store, kernel::records::chat_stream};

/// A part of a request that is being written. Writing it is idempotent.
#[derive(Clone)]
pub struct RequestFlush(pub(super) Arc<Part>);

pub(super) struct Part {
    pub(super) store: Store,
    pub(super) session: SessionId,
    /// Events that are written without looking at the chat, at its end.
    pub(super) prepared: Prepared,
    /// Events whose place in the chat has to be looked up.
    pub(super) placed: Option<draft::Part>,
    pub(super) key: [u8; 16],
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
            placed,
            key,
        } = &*self.0;
        let backend = &**store.backend();
        let Some(draft::Part { events, given_ids }) = placed else {
            let batch = Batch::new(prepared.ops(Expected::Any)).with_key(key);
            backend.commit(batch).await?;
            prepared.notify_catalog(store).await;
            return Ok(());
        };
        let _reserved = store.reserve_ids(*session, ChatIdOf::Message, given_ids)?;
        let queues = &store.shared.folds.queues;
        let mut attempts = queues.attempts(backend, chat_stream(*session)).await;
        loop {
            let (last, after) = place_of(store, *session, given_ids, events).await?;
            let prepared = Prepared::new(*session, events.clone(), after, backend.now_ms())?;
            let batch = Batch::new(prepared.ops(Expected::Last(last))).with_key(key);
            match backend.commit(batch).await {
                Ok(_) => {
                    prepared.notify_catalog(store).await;
                    return Ok(());
                }
                Err(error) => attempts.again(error).await?,
            }
        }
    }
}

/// The last sequence of a chat, at which events with messages of these ids can be written; with the largest sequence of
/// a message there, if some messages have given sequences.
pub(super) async fn place_of(
    store: &Store,
    session: SessionId,
    given_ids: &[String],
    events: &[ChatEvent],
) -> Result<(Sequence, Option<u64>)> {
    let info = store.backend().stream(chat_stream(session)).await?;
    let last = info.map_or(Sequence::ZERO, |info| info.last_sequence);
    for id in given_ids {
        if store.has_message(session, id).await? {
            return Err(already_exists("message", id, "update_message changes it"));
        }
        store
            .check_id_elsewhere(session, ChatIdOf::Message, id)
            .await?;
    }
    let is_given =
        |event: &ChatEvent| matches!(event, ChatEvent::MessageSaved(it) if it.sequence != 0);
    if !events.iter().any(is_given) {
        return Ok((last, None));
    }
    let catalog = &store.shared.catalog;
    if catalog.read(|it| is_in_order(it, session)).await? {
        let after = store.last_message_sequence(session, last).await?;
        return Ok((last, Some(after)));
    }
    let shared = store.chat_fold(session).await?;
    let fold = shared.read();
    Ok((
        Sequence(fold.last_sequence()),
        Some(fold.last_message_sequence()),
    ))
}
