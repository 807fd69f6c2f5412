//! Saving messages by the fold of their chat: where its order isn't that in which they were saved, or where the messages that
//! are there decide.

use std::collections::BTreeSet;

use runlog_model::{
    ChatEvent, ChatFold, ChatMessage, ChatRequest, ChatRole, MessageFilter, SessionId,
};

use super::{
    Chats,
    resume::dismissal,
    save::{Begun, NextMessages, request_exists},
    store::{already_exists, not_found},
    write::{Of, SavedAt},
};
use crate::{Error, ErrorKind, Result, kernel::claims::Claim};

impl Chats {
    /// Saves messages in a reordered chat, with given sequences, or if others are as the caller takes them to be.
    pub(super) async fn save_among(
        &self,
        session: SessionId,
        next: &NextMessages<'_>,
    ) -> Result<Vec<ChatMessage>> {
        let NextMessages {
            messages,
            given_ids,
            begun,
        } = next;
        let at_ms = self.store.backend().now_ms();
        // Nobody goes on with a request between the decision to dismiss it and the write.
        let mut dismissed: Vec<Claim> = Vec::new();
        self.write(session, Of::Chat, &mut |fold| {
            dismissed.clear();
            if let Some(request) = begun.request.filter(|_| begun.is_request_given)
                && fold.has_request(&request.request_id)
            {
                return Err(request_exists(&request.request_id));
            }
            for id in *given_ids {
                if fold.message(id).is_some() {
                    return Err(already_exists("message", id, "an update changes it"));
                }
            }
            check_last(fold, begun.after)?;
            let replaced = from(fold, begun.replaces)?;
            // What begins is first: a copy up to a point before has nothing of what follows.
            let saved = messages.iter().cloned().map(Box::new);
            let request = begun.request.cloned().map(Box::new);
            let mut events: Vec<ChatEvent> = saved
                .map(ChatEvent::MessageSaved)
                .chain(request.map(ChatEvent::RequestSaved))
                .collect();
            for request_id in superseded(fold, &replaced) {
                dismissed.push(self.store.claims().take(session, &request_id)?);
                events.extend(dismissal(fold, &request_id, at_ms)?);
            }
            events.extend(deletions(&saved_at(&replaced), at_ms));
            Ok(events)
        })
        .await?;
        let shared = self.store.chat_fold(session).await?;
        let fold = shared.read();
        let saved = messages
            .iter()
            .filter_map(|message| fold.message(&message.message_id));
        Ok(saved.cloned().collect())
    }

    /// Writes that a request is begun for a message that the chat has. Returns the messages that its answer replaces, which stay until
    /// there is one: each with the position at which it was saved.
    pub(super) async fn begin_answer(
        &self,
        session: SessionId,
        begun: &Begun<'_>,
        request: &ChatRequest,
        question: &str,
    ) -> Result<Vec<SavedAt>> {
        let at_ms = self.store.backend().now_ms();
        let mut dismissed: Vec<Claim> = Vec::new();
        let mut replaces = Vec::new();
        self.write(session, Of::Chat, &mut |fold| {
            dismissed.clear();
            if begun.is_request_given && fold.has_request(&request.request_id) {
                return Err(request_exists(&request.request_id));
            }
            check_last(fold, begun.after)?;
            let replaced = from(fold, begun.replaces)?;
            let mut over = replaced.clone();
            over.push(question_of(fold, question, &replaced)?);
            replaces = saved_at(&replaced);
            let mut events = vec![ChatEvent::RequestSaved(Box::new(ChatRequest {
                replaces: replaces.iter().map(|(id, _)| id.clone()).collect(),
                ..request.clone()
            }))];
            for request_id in superseded(fold, &over) {
                dismissed.push(self.store.claims().take(session, &request_id)?);
                events.extend(dismissal(fold, &request_id, at_ms)?);
            }
            Ok(events)
        })
        .await?;
        Ok(replaces)
    }
}

/// The events that delete messages.
pub(super) fn deletions(
    messages: &[SavedAt],
    at_ms: u64,
) -> impl Iterator<Item = ChatEvent> + use<'_> {
    let together = messages.chunks(ChatEvent::DELETED_TOGETHER_MAX);
    together.map(move |messages| ChatEvent::MessagesDeleted {
        message_ids: messages.iter().map(|(id, _)| id.clone()).collect(),
        at_ms,
        used_at_ms: None,
    })
}

fn saved_at(messages: &[&ChatMessage]) -> Vec<SavedAt> {
    let saved = messages.iter();
    saved
        .filter_map(|message| Some((message.message_id.clone(), message.id?)))
        .collect()
}

/// An error if the chat's last message is another one than its writer takes for it.
fn check_last(fold: &ChatFold, after: Option<&str>) -> Result<()> {
    let Some(after) = after else { return Ok(()) };
    let all = MessageFilter::default();
    let last = fold.admitted(&all, None..None).next_back();
    let last = last.map(|(_, message)| message.message_id.as_str());
    if last.unwrap_or_default() == after {
        return Ok(());
    }
    let last = last.map_or_else(
        || "the chat has no message".to_owned(),
        |last| format!("the chat's last message is {last:?}"),
    );
    let wanted = match after {
        "" => "and it was to have none".to_owned(),
        after => format!("not {after:?}"),
    };
    let message = format!(
        "{last}, {wanted}: it was written to meanwhile; read it again, and decide by what is there"
    );
    Err(Error::new(ErrorKind::Conflict, message))
}

/// A message and all that are behind it.
fn from<'a>(fold: &'a ChatFold, first: Option<&str>) -> Result<Vec<&'a ChatMessage>> {
    let Some(id) = first else {
        return Ok(Vec::new());
    };
    let missing = || not_found("message", id);
    let first = fold.message(id).ok_or_else(missing)?;
    let place = fold.place_of(id).ok_or_else(missing)?;
    let all = MessageFilter::default();
    let behind = fold.admitted(&all, Some(place)..None);
    Ok(std::iter::once(first)
        .chain(behind.map(|(_, message)| message))
        .collect())
}

/// The message that a request is to answer; an error if it can't be answered: it isn't there, isn't the user's, or is replaced.
fn question_of<'a>(
    fold: &'a ChatFold,
    id: &str,
    replaced: &[&ChatMessage],
) -> Result<&'a ChatMessage> {
    let question = fold.message(id).ok_or_else(|| not_found("message", id))?;
    if question.role != ChatRole::User {
        return Err(Error::invalid(format!(
            "message {id:?} is an answer; a request answers a message of role \"user\""
        )));
    }
    if replaced.iter().any(|message| message.message_id == id) {
        return Err(Error::invalid(format!(
            "message {id:?} is both answered and replaced; replace from its answer on"
        )));
    }
    Ok(question)
}

/// The requests that nobody is to go on with: some of these messages are theirs, or are what they answer or replace.
fn superseded(fold: &ChatFold, of: &[&ChatMessage]) -> BTreeSet<String> {
    if of.is_empty() {
        return BTreeSet::new();
    }
    let theirs = of.iter().filter_map(|message| message.request_id.clone());
    let is_of = |id: &String| of.iter().any(|message| message.message_id == *id);
    let again = fold.requests().into_iter();
    let again = again
        .filter(|request| request.answers.iter().chain(&request.replaces).any(is_of))
        .map(|request| request.request_id.clone());
    theirs.chain(again).collect()
}
