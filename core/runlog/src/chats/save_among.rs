//! Saving messages by the fold of their chat: where its order isn't that in which they were saved, or where the messages that
//! are there decide.

use std::collections::BTreeSet;

use runlog_model::{ChatEvent, ChatFold, ChatMessage, ChatRole, MessageFilter, SessionId};

use super::{
    Chats,
    resume::dismissal,
    save::{Begun, NextMessages, request_exists},
    store::{already_exists, not_found},
    write::Of,
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
            let deleted = from(fold, begun.replaces)?;
            check_question(fold, begun.answers, &deleted)?;
            // What begins is first: a copy up to a point before has nothing of what follows.
            let saved = messages.iter().cloned().map(Box::new);
            let request = begun.request.cloned().map(Box::new);
            let mut events: Vec<ChatEvent> = saved
                .map(ChatEvent::MessageSaved)
                .chain(request.map(ChatEvent::RequestSaved))
                .collect();
            for request_id in superseded(fold, begun, &deleted) {
                dismissed.push(self.store.claims().take(session, &request_id)?);
                events.extend(dismissal(fold, &request_id, at_ms)?);
            }
            let ids: Vec<String> = deleted.iter().map(|it| it.message_id.clone()).collect();
            let together = ids.chunks(ChatEvent::DELETED_TOGETHER_MAX);
            events.extend(together.map(|ids| ChatEvent::MessagesDeleted {
                message_ids: ids.to_vec(),
                at_ms,
            }));
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
}

/// An error if the chat's last message is another one than its writer takes for it.
fn check_last(fold: &ChatFold, after: Option<&str>) -> Result<()> {
    let Some(after) = after else { return Ok(()) };
    let all = MessageFilter::default();
    let last = fold.admitted(&all, None..None).next_back();
    let last = last.map(|(_, message)| message.message_id.as_str());
    if last == Some(after) {
        return Ok(());
    }
    let last = last.map_or_else(
        || "the chat has no message".to_owned(),
        |last| format!("the chat's last message is {last:?}"),
    );
    let message = format!(
        "{last}, not {after:?}: it was written to meanwhile; read it again, and decide by what is there"
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

/// An error if a message can't be answered: it isn't there, isn't the user's, or is deleted.
fn check_question(fold: &ChatFold, question: Option<&str>, deleted: &[&ChatMessage]) -> Result<()> {
    let Some(id) = question else { return Ok(()) };
    let question = fold.message(id).ok_or_else(|| not_found("message", id))?;
    if question.role != ChatRole::User {
        return Err(Error::invalid(format!(
            "message {id:?} is an answer; a request answers a message of role \"user\""
        )));
    }
    if deleted.iter().any(|message| message.message_id == id) {
        return Err(Error::invalid(format!(
            "message {id:?} is both answered and replaced; replace from its answer on"
        )));
    }
    Ok(())
}

/// The requests that nobody is to go on with: their question or an answer of theirs is deleted, or the question is answered anew.
fn superseded(fold: &ChatFold, begun: &Begun<'_>, deleted: &[&ChatMessage]) -> BTreeSet<String> {
    let question = begun.answers.and_then(|id| fold.message(id));
    let of: Vec<&ChatMessage> = deleted.iter().copied().chain(question).collect();
    if of.is_empty() {
        return BTreeSet::new();
    }
    let theirs = of.iter().filter_map(|message| message.request_id.clone());
    let is_of = |id: &String| of.iter().any(|message| message.message_id == *id);
    let again = fold
        .requests()
        .filter(|request| request.answers.as_ref().is_some_and(is_of))
        .map(|request| request.request_id.clone());
    theirs.chain(again).collect()
}
