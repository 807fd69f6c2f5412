//! Saving messages at the end of a chat, without folding it.
//!
//! A save needs only the chat's tail, and that the ids are free, which is looked up by label. The cached tail includes
//! messages that are staged, so that many concurrent saves share one flush.

use std::{
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use runlog_log::{Appended, Batch, Direction, Expected, FindOptions, Sequence};
use runlog_model::{
    ChatEvent, ChatIdOf, ChatMessage, ChatRequest, SessionId, limits::CHAT_SEQUENCE_MAX,
    request_messages_label,
};

use super::{
    lookup::{event_of, is_about},
    pages::is_in_order,
    store::{Chats, already_exists},
    write::Prepared,
};
use crate::{
    Error, ErrorKind, Result, Store,
    kernel::{chats::Tail, lookup::live_session, records::chat_stream},
};

/// Messages to save at the end of a chat.
pub(super) struct NextMessages<'a> {
    pub(super) messages: Vec<ChatMessage>,
    /// The ids among them that were chosen by the caller.
    pub(super) given_ids: &'a [String],
    /// What is begun with them.
    pub(super) begun: Begun<'a>,
}

/// A request that is begun with messages, and what of the chat's other messages it depends on.
#[derive(Clone, Copy, Default)]
pub(super) struct Begun<'a> {
    /// The record of the request.
    pub(super) request: Option<&'a ChatRequest>,
    /// Whether the chat may have the request already.
    pub(super) is_request_given: bool,
    /// The message that must be the chat's last.
    pub(super) after: Option<&'a str>,
    /// The first of the messages that are deleted with it.
    pub(super) replaces: Option<&'a str>,
}

impl Begun<'_> {
    /// Whether messages that are there decide whether, and how, it is saved.
    pub(super) fn depends_on_others(&self) -> bool {
        self.after.is_some() || self.replaces.is_some()
    }
}

/// The outcome of an attempt to save.
enum Saved {
    Done(Vec<ChatMessage>),
    /// Another writer has written to the chat.
    Lost(Error),
    /// The tail has one of the ids, and ended here. The message may have been deleted since.
    Given(String, Sequence),
}

impl Chats {
    /// Saves messages at the end of a chat; `None` if its messages aren't in the order in which they were saved.
    pub(super) async fn save_next(
        &self,
        session: SessionId,
        next: &NextMessages<'_>,
    ) -> Result<Option<Vec<ChatMessage>>> {
        let backend = &**self.store.backend();
        let mut attempts = self.store.attempts(chat_stream(session)).await;
        loop {
            let tail = self.store.chat_tail(session).await?;
            // Looked up after the tail, which is that of the chat's order as it is here.
            let in_order = self.store.shared.catalog.read(|catalog| {
                live_session(catalog, session).map(|_| is_in_order(catalog, session))
            });
            if !in_order.await?? {
                return Ok(None);
            }
            for id in next.given_ids {
                if self.store.has_message(session, id).await? {
                    return Err(already_exists("message", id, "an update changes it"));
                }
            }
            if let Some(request) = next.begun.request.filter(|_| next.begun.is_request_given) {
                self.store
                    .check_new_request(session, &request.request_id)
                    .await?;
            }
            match self.save_after(session, &tail, next).await? {
                Saved::Done(messages) => return Ok(Some(messages)),
                Saved::Lost(error) => {
                    self.store.chat_cache().forget_tail(session, &tail);
                    attempts.again(error).await?;
                }
                Saved::Given(id, last) => {
                    let info = backend.stream(chat_stream(session)).await?;
                    if info.is_none_or(|info| info.last_sequence <= last) {
                        return Err(already_exists("message", &id, "an update changes it"));
                    }
                    self.store.chat_cache().forget_tail(session, &tail);
                }
            }
        }
    }

    async fn save_after(
        &self,
        session: SessionId,
        tail: &Arc<Mutex<Tail>>,
        next: &NextMessages<'_>,
    ) -> Result<Saved> {
        let backend = self.store.backend();
        let waker = std::future::poll_fn(|context| Poll::Ready(context.waker().clone())).await;
        let (prepared, mut commit, numbered);
        let first = {
            let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(id) = next
                .given_ids
                .iter()
                .find(|id| tail.given_ids.contains(*id))
            {
                return Ok(Saved::Given(id.clone(), tail.last));
            }
            numbered = numbered_after(tail.last_message, &next.messages);
            let saved = numbered
                .iter()
                .map(|message| ChatEvent::MessageSaved(Box::new(message.clone())));
            let request = next
                .begun
                .request
                .map(|request| ChatEvent::RequestSaved(Box::new(request.clone())));
            let events: Vec<ChatEvent> = saved.chain(request).collect();
            let count = events.len() as u64;
            prepared = Prepared::new(session, events, Some(tail.last_message), backend.now_ms())?;
            commit = backend.commit(Batch::new(prepared.ops(Expected::Last(tail.last))));
            // The first poll stages the batch in the backend. The next save is staged behind it, for the same flush.
            let first = commit.as_mut().poll(&mut Context::from_waker(&waker));
            if !matches!(first, Poll::Ready(Err(_))) {
                tail.last = Sequence(tail.last.0 + count);
                tail.last_message = numbered.last().map_or(tail.last_message, |it| it.sequence);
                tail.given_ids.extend(next.given_ids.iter().cloned());
            }
            first
        };
        let done = match first {
            Poll::Ready(done) => done,
            Poll::Pending => commit.await,
        };
        match done {
            Ok(appended) => {
                prepared.notify_catalog(&self.store).await;
                Ok(Saved::Done(with_numbers(numbered, &appended)))
            }
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(Saved::Lost(error)),
            Err(error) => {
                self.store.chat_cache().forget_tail(session, tail);
                Err(error)
            }
        }
    }
}

impl Store {
    /// The chat's tail, from the cache or the log.
    async fn chat_tail(&self, session: SessionId) -> Result<Arc<Mutex<Tail>>> {
        if let Some(tail) = self.chat_cache().tail(session) {
            return Ok(tail);
        }
        let info = self.backend().stream(chat_stream(session)).await?;
        let last = info.map_or(Sequence::ZERO, |info| info.last_sequence);
        let last_message = match last {
            Sequence::ZERO => 0,
            _ => self.last_message_sequence(session, last).await?,
        };
        Ok(self
            .chat_cache()
            .keep_tail(session, Tail::new(last, last_message)))
    }

    /// Whether a chat has a message with this id. For a copy, and for an id that the store derived from a taken one,
    /// the fold is needed.
    pub(super) async fn has_message(&self, session: SessionId, id: &str) -> Result<bool> {
        let in_order = self.is_chat_in_order(session).await?;
        if !in_order || id.contains('~') {
            return Ok(self.chat_fold(session).await?.read().message(id).is_some());
        }
        let options = FindOptions {
            stream: Some(chat_stream(session)),
            direction: Direction::Backward,
            limit: 1,
            ..FindOptions::default()
        };
        let (mut has, mut failed) = (false, None);
        self.each_labelled(ChatIdOf::Message.label(id), options, &mut |record| {
            if !is_about(record, ChatIdOf::Message, id) {
                return Ok(true);
            }
            match event_of(record) {
                Ok(event) => has = !matches!(event, ChatEvent::MessagesDeleted { .. }),
                Err(error) => failed = Some(error),
            }
            Ok(false)
        })
        .await?;
        failed.map_or(Ok(has), Err)
    }

    /// An error if the chat has messages or steps of this request.
    pub(super) async fn check_new_request(&self, session: SessionId, id: &str) -> Result<()> {
        let labels = [ChatIdOf::Request.label(id), request_messages_label(id)];
        for label in labels {
            if self.has_labelled(session, label).await? {
                return Err(request_exists(id));
            }
        }
        Ok(())
    }
}

pub(super) fn request_exists(id: &str) -> Error {
    already_exists(
        "request",
        id,
        "resume goes on with it, another id begins another",
    )
}

/// Numbers messages from `last + 1`; at the largest sequence there is, they share it.
fn numbered_after(last: u64, messages: &[ChatMessage]) -> Vec<ChatMessage> {
    let numbers = (1..).map(|more| last.saturating_add(more).min(CHAT_SEQUENCE_MAX));
    let numbered = messages.iter().zip(numbers);
    numbered
        .map(|(message, sequence)| ChatMessage {
            sequence,
            ..message.clone()
        })
        .collect()
}

/// Sets the messages' numeric ids: their positions in the log.
fn with_numbers(mut messages: Vec<ChatMessage>, appended: &Appended) -> Vec<ChatMessage> {
    let first = appended.ops.first().map(|op| op.position.0);
    for (message, more) in messages.iter_mut().zip(0..) {
        message.id = first.map(|first| first + more);
    }
    messages
}
