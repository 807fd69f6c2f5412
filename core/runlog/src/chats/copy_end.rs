//! Where the copied part of a chat ends: at a point, or at one of its messages.

use std::collections::HashMap;

use runlog_log::{Kind, ReadOptions, Record, Sequence};
use runlog_model::{
    ChatEvent, ChatFold, ChatMessage, ChatRole, MessageFilter, SessionId, id_in_copy, kinds,
};

use super::{cache::apply, lookup::event_of, store::not_found, write::Of};
use crate::{Error, Result, Store, journal::follow::read_each, kernel::records::chat_stream};

/// How many records are read at a time to find the end of a request.
const FEW: u64 = 32;

/// The point up to which a session is copied: the positions of the last context event that is copied, and of the first
/// that isn't.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) last: u64,
    pub(crate) next: Option<u64>,
}

/// Where the copied part of a chat ends.
#[derive(Clone, Debug)]
pub(crate) enum ChatEnd {
    /// With what had been saved by a point.
    Point(Point),
    /// With a message.
    Message(MessageEnd),
}

/// The end of a copy at a message.
#[derive(Clone, Debug)]
pub(crate) struct MessageEnd {
    /// The last sequence of the chat's stream that is copied.
    pub(super) at: Sequence,
    /// The messages up to there that the copy doesn't have, by their ids in the copied part: those behind the message, and those
    /// that were deleted since.
    pub(super) left_out: Vec<String>,
    /// Those that were given another sequence since.
    pub(super) moved: Vec<Moved>,
}

/// A message that was given another sequence since.
#[derive(Clone, Debug)]
pub(super) struct Moved {
    /// Its id in the copied part.
    pub(super) id: String,
    pub(super) sequence: u64,
    pub(super) updated_at_ms: u64,
}

/// The stretch of a chat's stream that is copied.
struct Stretch {
    at: Sequence,
    /// The position of the first record that isn't copied; `None` where there is none, yet.
    next: Option<u64>,
    /// Whether messages behind the last one that is wanted are in it.
    has_later: bool,
}

impl Store {
    /// Where a copy ends that has the messages of a session's chat up to one of them; with the record that saved the last of these,
    /// and the position of the first record that isn't copied.
    ///
    /// A copy shares the beginning of the chat's stream. What of it isn't wanted is deleted in the copy: messages that were deleted since are not to come
    /// back in it, and the chat's order may be another one than the stream's.
    pub(crate) async fn chat_end_at(
        &self,
        session: SessionId,
        message_id: &str,
    ) -> Result<(ChatEnd, Record, Option<u64>)> {
        let stream = chat_stream(session);
        let ids = [message_id];
        let shared = self.chats().fold_of(session, Of::Messages(&ids)).await?;
        let message = shared.read().message(message_id).cloned();
        let info = self.backend().stream(stream).await?;
        let (Some(message), Some(info)) = (message, info) else {
            return Err(Error::not_found(format!(
                "the chat of session {session} has no message {message_id:?}, or it was deleted"
            )));
        };
        let last = info.last_sequence;
        let own = self.saved_at(session, last, &message, message.id).await?;
        let is_in_order = self.is_chat_in_order(session).await?;
        let saved = if is_in_order {
            own.clone()
        } else {
            let shared = self.chat_fold(session).await?;
            let until = latest_until(&shared.read(), &message);
            self.saved_at(session, last, &message, until).await?
        };
        let stretch = match message.role {
            ChatRole::User => Stretch {
                at: saved.sequence,
                next: Some(saved.position.0 + 1),
                has_later: false,
            },
            ChatRole::Assistant => self.with_its_request(session, last, &own, &saved).await?,
        };
        let mut end = MessageEnd {
            at: stretch.at,
            left_out: Vec::new(),
            moved: Vec::new(),
        };
        if !is_in_order
            || stretch.has_later
            || self.deletes_after(session, stretch.at, last).await?
        {
            self.leave_out(session, &message, &mut end).await?;
        }
        Ok((ChatEnd::Message(end), saved, stretch.next))
    }

    /// The record at the position at which a message was saved.
    async fn saved_at(
        &self,
        session: SessionId,
        last: Sequence,
        message: &ChatMessage,
        position: Option<u64>,
    ) -> Result<Record> {
        let behind = position.unwrap_or(0).saturating_add(1);
        let record = self.last_before(chat_stream(session), last, behind).await?;
        record.ok_or_else(|| not_found("message", &message.message_id))
    }

    /// What is copied up to an answer: the rest of its request is, too, until its user says the next thing.
    async fn with_its_request(
        &self,
        session: SessionId,
        last: Sequence,
        own: &Record,
        saved: &Record,
    ) -> Result<Stretch> {
        // The id in the stream: a copied chat has others.
        let mut request = match event_of(own)? {
            ChatEvent::MessageSaved(message) => message.request_id,
            _ => None,
        };
        let mut stretch = Stretch {
            at: saved.sequence,
            next: None,
            has_later: false,
        };
        let mut next = Some(saved.sequence.next());
        while let Some(first) = next.filter(|first| *first <= last) {
            let options = ReadOptions {
                first,
                last,
                limit: FEW,
                ..ReadOptions::default()
            };
            let page = self.backend().read(chat_stream(session), options).await?;
            next = page.next;
            for record in &page.records {
                let is_of = |id: &Option<String>| request.is_some() && *id == request;
                let mut is_message = false;
                let goes_on = match record.kind.0 {
                    kinds::MESSAGE_SAVED | kinds::REQUEST_SAVED if record.redacted => false,
                    kinds::MESSAGE_SAVED | kinds::REQUEST_SAVED | kinds::CHAT_COPIED => {
                        match event_of(record)? {
                            ChatEvent::MessageSaved(message) => {
                                is_message = true;
                                message.role == ChatRole::Assistant && is_of(&message.request_id)
                            }
                            ChatEvent::RequestSaved(saved) => is_of(&Some(saved.request_id)),
                            ChatEvent::Copied { session_id, .. } => {
                                request = request.map(|id| id_in_copy(session_id.0, &id));
                                true
                            }
                            _ => true,
                        }
                    }
                    _ => true,
                };
                if !goes_on {
                    stretch.next = Some(record.position.0);
                    return Ok(stretch);
                }
                stretch.has_later |= is_message;
                stretch.at = record.sequence;
            }
        }
        Ok(stretch)
    }

    /// Whether messages of a chat were deleted after a sequence of its stream.
    async fn deletes_after(
        &self,
        session: SessionId,
        at: Sequence,
        last: Sequence,
    ) -> Result<bool> {
        if at >= last {
            return Ok(false);
        }
        let options = ReadOptions {
            first: at.next(),
            last,
            limit: 1,
            kinds: vec![Kind(kinds::MESSAGES_DELETED)],
            ..ReadOptions::default()
        };
        let mut next = Some(options.first);
        while let Some(first) = next {
            let options = ReadOptions {
                first,
                ..options.clone()
            };
            let page = self.backend().read(chat_stream(session), options).await?;
            if !page.records.is_empty() {
                return Ok(true);
            }
            next = page.next;
        }
        Ok(false)
    }

    /// Finds what of the copied part a copy up to a message doesn't have, or has elsewhere.
    async fn leave_out(
        &self,
        session: SessionId,
        message: &ChatMessage,
        end: &mut MessageEnd,
    ) -> Result<()> {
        let shared = self.chat_fold(session).await?;
        let stream = chat_stream(session);
        let mut then = ChatFold::new();
        let options = ReadOptions {
            last: end.at,
            kinds: kinds::CHAT_EVENTS.map(Kind).collect(),
            ..ReadOptions::default()
        };
        read_each(&**self.backend(), stream, options, &mut |record| {
            apply(&mut then, stream, record)
        })
        .await?;
        let now = shared.read();
        // Chats have other ids in copies, but the same positions.
        let kept: HashMap<u64, &ChatMessage> = until(&now, message)
            .filter_map(|message| Some((message.id?, message)))
            .collect();
        for message in then.messages(&MessageFilter::default()) {
            let id = message.message_id.clone();
            match message.id.and_then(|position| kept.get(&position)) {
                None => end.left_out.push(id),
                Some(now) if now.sequence != message.sequence => end.moved.push(Moved {
                    id,
                    sequence: now.sequence,
                    updated_at_ms: now.updated_at_ms,
                }),
                Some(_) => {}
            }
        }
        Ok(())
    }
}

/// The messages of a chat up to one of them, in its order.
fn until<'a>(fold: &'a ChatFold, message: &ChatMessage) -> impl Iterator<Item = &'a ChatMessage> {
    let end = (message.sequence, message.id);
    let messages = fold.messages(&MessageFilter::default()).into_iter();
    messages.take_while(move |message| (message.sequence, message.id) <= end)
}

/// The position at which the last one of them was saved.
fn latest_until(fold: &ChatFold, message: &ChatMessage) -> Option<u64> {
    until(fold, message).filter_map(|message| message.id).max()
}
