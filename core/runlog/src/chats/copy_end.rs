//! Where the copied part of a chat ends: at a point, or at one of its messages.

use std::collections::HashMap;

use runlog_log::{Kind, ReadOptions, Record, Sequence};
use runlog_model::{
    ChatEvent, ChatFold, ChatMessage, ChatRequest, ChatRole, MessageFilter, RequestStatus,
    SessionId, id_in_copy, kinds,
};

use super::{cache::apply, lookup::event_of, store::not_found, write::Of};
use crate::{
    Error, Result, Store,
    journal::follow::{read_each, read_while},
    kernel::records::chat_stream,
};

/// How many records are read at a time to find the end of a request.
const FEW: u64 = 64;
/// How many records behind an answer are looked at for the end of its request; of messages that were saved by hand it never comes.
const LOOKED_AT_MAX: usize = 4_096;

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
    /// The requests that were begun before the answer's own had ended, and aren't over in the copied part: nobody is to resume
    /// them in the copy.
    pub(super) dismissed: Vec<ChatRequest>,
    /// The steps of these that could be resumed, by their ids in the copied part.
    pub(super) dismissed_steps: Vec<String>,
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
    /// The other requests that were begun in it, as they are at its end.
    others: Vec<ChatRequest>,
}

/// What a record is to the request of an answer.
enum About {
    /// The request itself, and whether it had ended.
    Request { has_ended: bool },
    /// Another request.
    Other(Box<ChatRequest>),
    /// A further message of the request.
    Answer,
    /// Another message: of its user, or of another request.
    Message,
    /// Before it another chat's.
    Copy(SessionId),
    /// Whatever else is said of messages and steps that are there.
    Change,
}

impl Store {
    /// Where a copy ends that has the messages of a session's chat up to one of them; with the record that saved this one, and the
    /// position of the first record that agents hadn't written then; `None` where they have written none since.
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
        let stretch = self.stretch_to(session, last, &message, &own, &saved);
        let stretch = stretch.await?;
        // What stands before it may have been saved long after it, when agents knew more than the copy's chat has.
        let next = match is_in_order {
            true => stretch.next,
            false => {
                let until_then = self.stretch_to(session, last, &message, &own, &own);
                until_then.await?.next
            }
        };
        let mut end = MessageEnd {
            at: stretch.at,
            left_out: Vec::new(),
            moved: Vec::new(),
            dismissed: Vec::new(),
            dismissed_steps: Vec::new(),
        };
        let is_open = |request: &ChatRequest| !request.status.is_over();
        end.dismissed
            .extend(stretch.others.into_iter().filter(is_open));
        if !is_in_order
            || stretch.has_later
            || self.deletes_after(session, stretch.at, last).await?
        {
            self.leave_out(session, &message, &mut end).await?;
        }
        Ok((ChatEnd::Message(end), own, next))
    }

    /// What is copied up to a message, of which `saved` is the latest record of those that stand before it.
    async fn stretch_to(
        &self,
        session: SessionId,
        last: Sequence,
        message: &ChatMessage,
        own: &Record,
        saved: &Record,
    ) -> Result<Stretch> {
        match message.role {
            ChatRole::User => self.with_its_changes(session, last, saved).await,
            ChatRole::Assistant => self.with_its_request(session, last, own, saved).await,
        }
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

    /// What is copied up to a user's message: with what was changed of messages until the next one was saved. Requests that were
    /// begun in between, its own first of all, aren't gone on with in the copy.
    async fn with_its_changes(
        &self,
        session: SessionId,
        last: Sequence,
        saved: &Record,
    ) -> Result<Stretch> {
        let mut stretch = Stretch::to(saved);
        // What agents did since isn't copied.
        stretch.next = Some(saved.position.0 + 1);
        // Requests are in the copy if a change behind their records is.
        let mut begun = Stretch::to(saved);
        let mut looked_at = 0;
        self.each_behind(session, last, saved, &mut |record| {
            looked_at += 1;
            match about(record, None)? {
                About::Other(request) => begun.other(*request),
                About::Copy(copy) => begun.rename(copy),
                About::Request { .. } | About::Answer | About::Message => return Ok(false),
                About::Change => {}
            }
            if [kinds::MESSAGE_UPDATED, kinds::MESSAGES_DELETED].contains(&record.kind.0) {
                stretch.at = record.sequence;
                stretch.others.clone_from(&begun.others);
            }
            Ok(looked_at < LOOKED_AT_MAX)
        })
        .await?;
        // Their steps are looked for.
        stretch.has_later = !stretch.others.is_empty();
        Ok(stretch)
    }

    /// What is copied up to an answer: the rest of its request is, too, whatever came in between, and what else there is until
    /// something begins.
    async fn with_its_request(
        &self,
        session: SessionId,
        last: Sequence,
        own: &Record,
        saved: &Record,
    ) -> Result<Stretch> {
        // The id in the stream: a copied chat has others.
        let mut id = match event_of(own)? {
            ChatEvent::MessageSaved(message) => message.request_id,
            _ => None,
        };
        let mut stretch = Stretch::to(saved);
        // As it is if the request never ends.
        let mut until_next: Option<(Sequence, u64, bool)> = None;
        let (mut has_ended, mut looked_at) = (false, 0);
        self.each_behind(session, last, saved, &mut |record| {
            let about = about(record, id.as_deref())?;
            if matches!(about, About::Other(_) | About::Message) {
                let before = (stretch.at, record.position.0, stretch.has_later);
                until_next.get_or_insert(before);
                if has_ended || id.is_none() || looked_at >= LOOKED_AT_MAX {
                    stretch.next = Some(record.position.0);
                    return Ok(false);
                }
                stretch.has_later = true;
            }
            match about {
                About::Request { has_ended: is_over } => has_ended |= is_over,
                About::Other(request) => stretch.other(*request),
                About::Answer => stretch.has_later = true,
                About::Copy(copy) => {
                    id = id.as_deref().map(|id| id_in_copy(copy.0, id));
                    stretch.rename(copy);
                }
                About::Message | About::Change => {}
            }
            stretch.at = record.sequence;
            looked_at += 1;
            Ok(true)
        })
        .await?;
        if let Some((at, next, has_later)) = until_next.filter(|_| !has_ended) {
            stretch = Stretch {
                at,
                next: Some(next),
                has_later,
                others: Vec::new(),
            };
        }
        Ok(stretch)
    }

    /// Gives the records of a chat behind one of them to `take`, until it returns `false`.
    async fn each_behind(
        &self,
        session: SessionId,
        last: Sequence,
        saved: &Record,
        take: &mut (dyn FnMut(&Record) -> Result<bool> + Send),
    ) -> Result<()> {
        let options = ReadOptions {
            first: saved.sequence.next(),
            last,
            limit: FEW,
            ..ReadOptions::default()
        };
        read_while(&**self.backend(), chat_stream(session), options, take).await
    }

    /// Whether messages of a chat were deleted after a sequence of its stream.
    async fn deletes_after(
        &self,
        session: SessionId,
        at: Sequence,
        last: Sequence,
    ) -> Result<bool> {
        let options = ReadOptions {
            first: at.next(),
            last,
            limit: 1,
            kinds: vec![Kind(kinds::MESSAGES_DELETED)],
            ..ReadOptions::default()
        };
        let mut deletes = false;
        read_while(
            &**self.backend(),
            chat_stream(session),
            options,
            &mut |_| {
                deletes = true;
                Ok(false)
            },
        )
        .await?;
        Ok(deletes)
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
        for request in &end.dismissed {
            let steps = then.steps_of_request(&request.request_id).into_iter();
            let open = steps.filter(|step| step.can_resume());
            end.dismissed_steps
                .extend(open.map(|step| step.step_id.clone()));
        }
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

impl Stretch {
    /// What ends with a record.
    fn to(saved: &Record) -> Self {
        Self {
            at: saved.sequence,
            next: None,
            has_later: false,
            others: Vec::new(),
        }
    }

    /// What comes next is a copy's, which has other ids.
    fn rename(&mut self, copy: SessionId) {
        for other in &mut self.others {
            other.request_id = id_in_copy(copy.0, &other.request_id);
        }
    }

    /// Another request is as this record has it. One that was begun before is as it was then.
    fn other(&mut self, request: ChatRequest) {
        let is_it = |other: &ChatRequest| other.request_id == request.request_id;
        match self.others.iter().position(is_it) {
            Some(place) => self.others[place] = request,
            None if request.status == RequestStatus::Running => self.others.push(request),
            None => {}
        }
    }
}

/// What a record is to the request of this id.
fn about(record: &Record, id: Option<&str>) -> Result<About> {
    let kind = record.kind.0;
    if ![
        kinds::MESSAGE_SAVED,
        kinds::REQUEST_SAVED,
        kinds::CHAT_COPIED,
    ]
    .contains(&kind)
    {
        return Ok(About::Change);
    }
    if record.redacted {
        return Ok(About::Message);
    }
    Ok(match event_of(record)? {
        ChatEvent::MessageSaved(message)
            if message.role == ChatRole::Assistant
                && id.is_some()
                && message.request_id.as_deref() == id =>
        {
            About::Answer
        }
        ChatEvent::MessageSaved(_) => About::Message,
        ChatEvent::RequestSaved(request) if Some(request.request_id.as_str()) == id => {
            About::Request {
                has_ended: request.status != RequestStatus::Running,
            }
        }
        ChatEvent::RequestSaved(request) => About::Other(request),
        ChatEvent::Copied { session_id, .. } => About::Copy(session_id),
        _ => About::Change,
    })
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
