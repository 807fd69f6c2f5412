//! The messages of chats: saving, reading, changing and deleting them.

use std::collections::HashSet;

use runlog_model::{
    ChatEvent, ChatFold, ChatMessage, MessageFilter, SessionId, Timestamp, Updates,
};

use super::store::{Chats, already_exists, check_chat, not_found};
use crate::{Result, kernel::chats::IdOf};

impl Chats {
    /// Saves messages: all of them or none. What is left empty (id, chat, sequence, times) is given by the store.
    /// Durable when it returns.
    ///
    /// A sequence that is given is at most [`CHAT_SEQUENCE_GIVEN_MAX`](runlog_model::limits::CHAT_SEQUENCE_GIVEN_MAX). Several
    /// messages may be given the same one: they are in the order in which they were saved.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such chat, or it was deleted;
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists) for a message id that is taken;
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) or [`TooLarge`](crate::ErrorKind::TooLarge) for a field that is refused.
    pub async fn save_messages(
        &self,
        chat_id: &str,
        messages: Vec<ChatMessage>,
    ) -> Result<Vec<ChatMessage>> {
        let session = self.session_id(chat_id).await?;
        self.save_messages_if(session, messages, |_| Ok(())).await
    }

    /// Saves messages where a check of the chat as it is then says so.
    pub(super) async fn save_messages_if(
        &self,
        session: SessionId,
        messages: Vec<ChatMessage>,
        check: impl Fn(&ChatFold) -> Result<()>,
    ) -> Result<Vec<ChatMessage>> {
        let chat = self.chat_id_of(session);
        for message in messages
            .iter()
            .filter(|message| !message.message_id.is_empty())
        {
            self.store
                .check_id_elsewhere(session, IdOf::Message, &message.message_id)
                .await?;
        }
        let messages = messages
            .into_iter()
            .map(|message| self.complete_message(message, &chat))
            .collect::<Result<Vec<ChatMessage>>>()?;
        self.write(session, |fold| {
            check(fold)?;
            let mut taken = HashSet::new();
            for message in &messages {
                let id = message.message_id.as_str();
                if fold.message(id).is_some() || !taken.insert(id) {
                    return Err(already_exists("message", id, "update_message changes it"));
                }
            }
            Ok(messages
                .iter()
                .map(|message| ChatEvent::MessageSaved(Box::new(message.clone())))
                .collect())
        })
        .await?;
        let fold = self.store.chat_fold(session).await?;
        Ok(messages
            .iter()
            .filter_map(|message| fold.message(&message.message_id).cloned())
            .collect())
    }

    pub(super) fn complete_message(
        &self,
        mut message: ChatMessage,
        chat: &str,
    ) -> Result<ChatMessage> {
        check_chat("message", &message.chat_id, chat)?;
        message.check_new()?;
        message.id = None;
        if message.message_id.is_empty() {
            message.message_id = self.store.backend().new_id().to_string();
        }
        chat.clone_into(&mut message.chat_id);
        message.created_at = message
            .created_at
            .or(Timestamp(self.store.backend().now_ms()));
        message.updated_at = message.updated_at.or(message.created_at);
        Ok(message)
    }

    /// The messages of a chat that a filter admits, in the chat's order.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such chat, or it was deleted.
    pub async fn get_messages(
        &self,
        chat_id: &str,
        filter: &MessageFilter,
    ) -> Result<Vec<ChatMessage>> {
        let session = self.session_id(chat_id).await?;
        Ok(self
            .store
            .chat_fold(session)
            .await?
            .messages(filter)
            .into_iter()
            .cloned()
            .collect())
    }

    /// Changes fields of a message. Durable when it returns.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when no chat has the message, [`Ambiguous`](crate::ErrorKind::Ambiguous) when
    /// several have, [`InvalidInput`](crate::ErrorKind::InvalidInput) or [`TooLarge`](crate::ErrorKind::TooLarge) for a field that
    /// is refused.
    pub async fn update_message(&self, message_id: &str, updates: &Updates) -> Result<ChatMessage> {
        let session = self.store.chat_with(IdOf::Message, message_id).await?;
        let at = Timestamp(self.store.backend().now_ms());
        self.write(session, |fold| {
            let message = fold
                .message(message_id)
                .ok_or_else(|| not_found("message", message_id))?;
            let updated = message.updated(updates, at)?;
            if updated.sequence != message.sequence {
                updated.check_new()?;
            }
            let (message_id, updates) = (message_id.to_owned(), updates.clone());
            Ok(vec![ChatEvent::MessageUpdated {
                message_id,
                at,
                updates,
            }])
        })
        .await?;
        let fold = self.store.chat_fold(session).await?;
        fold.message(message_id)
            .cloned()
            .ok_or_else(|| not_found("message", message_id))
    }

    /// Deletes messages of a chat: all of them or none. Their events stay in the log. Durable when it returns.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such chat, or one of the messages isn't in it.
    pub async fn delete_messages(&self, chat_id: &str, message_ids: &[&str]) -> Result<()> {
        let session = self.session_id(chat_id).await?;
        let at = Timestamp(self.store.backend().now_ms());
        self.write(session, |fold| {
            if let Some(unknown) = message_ids.iter().find(|id| fold.message(id).is_none()) {
                return Err(not_found("message", unknown));
            }
            if message_ids.is_empty() {
                return Ok(Vec::new());
            }
            let message_ids = message_ids.iter().map(|id| (*id).to_owned()).collect();
            Ok(vec![ChatEvent::MessagesDeleted { message_ids, at }])
        })
        .await
    }
}
