//! Writing the buffered part of a request while the request continues.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use runlog_log::{Batch, Expected, Sequence};
use runlog_model::{ChatEvent, ChatIdOf, SessionId};

use super::{
    pages::is_in_order,
    parts,
    store::already_exists,
    taken_ids::NewIds,
    write::{Prepared, SavedAt},
};
use crate::{Result, Store, kernel::records::chat_stream};

/// A part of a request that is being written. Writing it is idempotent.
#[derive(Clone)]
pub struct RequestFlush(pub(super) Arc<Part>);

pub(super) struct Part {
    pub(super) store: Store,
    pub(super) session: SessionId,
    /// Events that are written without looking at the chat, at its end.
    pub(super) prepared: Prepared,
    /// Events for which the chat has to be looked at: their place in it, or the messages that they change.
    pub(super) looked_up: Option<parts::Part>,
    pub(super) key: [u8; 16],
    /// The fresh ids of its messages whose own were taken when it was to be written.
    pub(super) new_ids: Mutex<NewIds>,
    /// Where its messages are, once it is written.
    pub(super) saved_at: OnceLock<Vec<SavedAt>>,
    /// Whether it is written; held by the one who writes it. Another would find the ids of its messages taken, by themselves.
    pub(super) is_written: tokio::sync::Mutex<bool>,
}

impl Part {
    pub(super) fn new_ids(&self) -> NewIds {
        let new_ids = self.new_ids.lock();
        new_ids.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl RequestFlush {
    /// Writes it. Durable when it returns.
    ///
    /// # Errors
    /// As [`RequestBuffer::flush`](super::RequestBuffer::flush). After
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists), [`start_flush`](super::RequestBuffer::start_flush) gives the
    /// part to write instead.
    pub async fn write(&self) -> Result<()> {
        let mut is_written = self.0.is_written.lock().await;
        if *is_written {
            return Ok(());
        }
        let Err(error) = self.try_write().await else {
            *is_written = true;
            return Ok(());
        };
        let Some(parts::Part { given_ids, .. }) = &self.0.looked_up else {
            return Err(error);
        };
        let mut new_ids = self.0.new_ids();
        let refused = self
            .0
            .store
            .refused(self.0.session, given_ids, error, &mut new_ids);
        let refused = refused.await;
        *self
            .0
            .new_ids
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = new_ids;
        Err(refused)
    }

    async fn try_write(&self) -> Result<()> {
        let Part {
            store,
            session,
            prepared,
            looked_up,
            key,
            saved_at,
            ..
        } = &*self.0;
        let backend = &**store.backend();
        let Some(parts::Part {
            events,
            given_ids,
            beside,
        }) = looked_up
        else {
            let batch = Batch::new(prepared.ops(Expected::Any)).with_key(key);
            let appended = backend.commit(batch).await?;
            let _ = saved_at.set(prepared.saved_at(&appended));
            prepared.written(store).await;
            return Ok(());
        };
        let _reserved = store.reserve_ids(*session, ChatIdOf::Message, given_ids)?;
        let mut attempts = store.attempts(chat_stream(*session)).await;
        loop {
            let (last, after) = place_of(store, *session, given_ids, events).await?;
            let events = beside.adjust(store, *session, events.clone()).await?;
            if events.is_empty() {
                return Ok(());
            }
            let prepared = Prepared::new(*session, events, after, backend.now_ms())?;
            let batch = Batch::new(prepared.ops(Expected::Last(last))).with_key(key);
            match backend.commit(batch).await {
                Ok(appended) => {
                    let _ = saved_at.set(prepared.saved_at(&appended));
                    prepared.written(store).await;
                    return Ok(());
                }
                Err(error) => attempts.again(error).await?,
            }
        }
    }
}

impl RequestFlush {
    /// If it was refused for ids that are taken, what to write instead, with the fresh ids.
    pub(super) fn with_new_ids(&self) -> Result<Option<(Self, NewIds)>> {
        let (part, new_ids) = (&self.0, self.0.new_ids());
        let Some(of) = part.looked_up.as_ref().filter(|_| !new_ids.is_empty()) else {
            return Ok(None);
        };
        let events = of.events.clone();
        let events: Vec<_> = events.into_iter().map(|it| renamed(it, &new_ids)).collect();
        let is_own = |id: &&String| !new_ids.contains_key(*id);
        let given_ids = of.given_ids.iter().filter(is_own).cloned().collect();
        let now = part.store.backend().now_ms();
        let part = Part {
            store: part.store.clone(),
            session: part.session,
            prepared: Prepared::new(part.session, events.clone(), None, now)?,
            looked_up: Some(parts::Part {
                events,
                given_ids,
                beside: of.beside.clone(),
            }),
            key: part.key,
            new_ids: Mutex::default(),
            saved_at: OnceLock::new(),
            is_written: tokio::sync::Mutex::default(),
        };
        Ok(Some((Self(Arc::new(part)), new_ids)))
    }
}

/// The event with the fresh id of its message.
pub(super) fn renamed(mut event: ChatEvent, new_ids: &NewIds) -> ChatEvent {
    let id = match &mut event {
        ChatEvent::MessageSaved(message) => &mut message.message_id,
        ChatEvent::MessageUpdated { message_id, .. } => message_id,
        _ => return event,
    };
    if let Some(new) = new_ids.get(id) {
        id.clone_from(new);
    }
    event
}

/// Whether events change or delete messages that are in the store already. They are written on condition that the chat is as it
/// was looked at: [`Beside`](super::beside::Beside).
pub(super) fn have_changes(events: &[ChatEvent]) -> bool {
    events.iter().any(is_change)
}

pub(super) fn is_change(event: &ChatEvent) -> bool {
    matches!(
        event,
        ChatEvent::MessageUpdated { .. } | ChatEvent::MessagesDeleted { .. }
    )
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
            return Err(already_exists("message", id, "an update changes it"));
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
    // Not the end of the fold: what was written since the ids were looked up may have taken one of them.
    Ok((last, Some(fold.last_message_sequence())))
}
