//! The messages of chats: saving, reading, changing and deleting them.

use std::collections::HashSet;

use runlog_model::{
    ChatEvent, ChatIdOf, ChatMessage, ChatRole, MessageFilter, Page, SessionId, Updates, time,
};

use serde::{Deserialize, Serialize};

use super::{
    pages::Found,
    save::{Begun, NextMessages},
    saved_reader::{Passed, Stretch},
    store::{Chats, already_exists, check_chat, not_found},
    write::Of,
};
use crate::{
    Result,
    journal::{
        cursor::{Cursor, Kind as CursorKind},
        page::check_limit,
    },
    kernel::shared_fold::SharedFold,
};

/// The largest offset at which messages are read without folding the chat.
const OFFSET_MAX: usize = 1_024;

/// Which messages of a chat to list, from which end, and how many.
///
/// ```
/// use runlog::{
///     blocking::Store,
///     chats::{Chat, ChatMessage, ChatRole, ListMessages},
/// };
///
/// let chats = Store::in_memory().chats();
/// let chat_id = chats.create_chat(Chat::new("travel"))?.chat_id;
/// chats.save_messages(&chat_id, (0..9).map(|_| ChatMessage::text(ChatRole::User, "Oslo?")).collect())?;
/// let newest = ListMessages { newest_first: true, limit: 2, ..ListMessages::default() };
/// let last = chats.list_messages(&chat_id, &newest)?;
/// assert_eq!(last.items.iter().map(|message| message.sequence).collect::<Vec<_>>(), [9, 8]);
/// let before = chats.list_messages(&chat_id, &ListMessages { cursor: last.next, ..newest })?;
/// assert_eq!(before.items[0].sequence, 7);
/// # Ok::<(), runlog::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ListMessages {
    /// Only messages of this request; `None` is all.
    pub request_id: Option<String>,
    /// Only messages from this side; `None` is both.
    pub role: Option<ChatRole>,
    /// Only messages of this block; `None` is all.
    pub block_id: Option<String>,
    /// Only messages of this thread; `None` is all.
    pub thread_id: Option<String>,
    /// Only messages of this type; `None` is all.
    #[serde(rename = "type")]
    pub message_type: Option<String>,
    /// Whether the list goes from the end of the chat to its beginning.
    pub newest_first: bool,
    /// Only those that come after the message of this id in the list: with the newest first, those before it in the chat.
    pub start_after: Option<String>,
    /// At most so many.
    pub limit: usize,
    /// Where to go on: what the page before said comes next.
    pub cursor: Option<String>,
}

impl Default for ListMessages {
    fn default() -> Self {
        Self {
            request_id: None,
            role: None,
            block_id: None,
            thread_id: None,
            message_type: None,
            newest_first: false,
            start_after: None,
            limit: 50,
            cursor: None,
        }
    }
}

impl ListMessages {
    fn filter(&self) -> MessageFilter {
        MessageFilter {
            request_id: self.request_id.clone(),
            role: self.role,
            block_id: self.block_id.clone(),
            thread_id: self.thread_id.clone(),
            message_type: self.message_type.clone(),
            ..MessageFilter::default()
        }
    }
}

impl Chats {
    /// Saves messages: all of them or none. The store fills in empty fields (id, chat, sequence, times). Durable when
    /// it returns.
    ///
    /// A given sequence may be at most [`CHAT_SEQUENCE_GIVEN_MAX`](runlog_model::limits::CHAT_SEQUENCE_GIVEN_MAX).
    /// Several messages may have the same one: they are ordered by when they were saved.
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
        self.save_messages_of(session, messages, Begun::default())
            .await
    }

    /// As [`save_messages`](Self::save_messages), if the chat's last message is the one that the caller takes for it: of two
    /// that answer it at the same time, one saves. An empty id is none: the chat must have no message. The chat is folded, once.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) when another message is the last one; nothing is saved then.
    pub async fn save_messages_after(
        &self,
        chat_id: &str,
        messages: Vec<ChatMessage>,
        after: &str,
    ) -> Result<Vec<ChatMessage>> {
        let session = self.session_id(chat_id).await?;
        let begun = Begun {
            after: Some(after),
            ..Begun::default()
        };
        self.save_messages_of(session, messages, begun).await
    }

    /// Saves messages, and the record of the request that is begun with them.
    pub(super) async fn save_messages_of(
        &self,
        session: SessionId,
        messages: Vec<ChatMessage>,
        begun: Begun<'_>,
    ) -> Result<Vec<ChatMessage>> {
        let chat = self.chat_id_of(session);
        let mut given_ids: Vec<String> = Vec::new();
        let mut taken = HashSet::new();
        for id in messages.iter().map(|message| &message.message_id) {
            if id.is_empty() {
                continue;
            }
            if !taken.insert(id) {
                return Err(already_exists("message", id, "an update changes it"));
            }
            given_ids.push(id.clone());
        }
        let of = ChatIdOf::Message;
        let _reserved = self.store.reserve_own_ids(session, of, &given_ids).await?;
        let messages = messages
            .into_iter()
            .map(|message| self.complete_message(message, &chat))
            .collect::<Result<Vec<ChatMessage>>>()?;
        if messages.is_empty() && begun.after.is_none() {
            return Ok(messages);
        }
        let is_next =
            !begun.depends_on_others() && messages.iter().all(|message| message.sequence == 0);
        let next = NextMessages {
            messages,
            given_ids: &given_ids,
            begun,
        };
        let saved = if is_next {
            self.save_next(session, &next).await?
        } else {
            None
        };
        match saved {
            Some(saved) => Ok(saved),
            None => self.save_among(session, &next).await,
        }
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
        message.created_at_ms = time::or(message.created_at_ms, self.store.backend().now_ms());
        message.updated_at_ms = time::or(message.updated_at_ms, message.created_at_ms);
        Ok(message)
    }

    /// The messages of a chat that match a filter, in the chat's order.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such chat, or it was deleted.
    pub async fn get_messages(
        &self,
        chat_id: &str,
        filter: &MessageFilter,
    ) -> Result<Vec<ChatMessage>> {
        let session = self.session_id(chat_id).await?;
        let messages = self.messages_in(session, filter).await;
        self.check_still_there(chat_id, session).await?;
        messages
    }

    async fn messages_in(
        &self,
        session: SessionId,
        filter: &MessageFilter,
    ) -> Result<Vec<ChatMessage>> {
        let shared = match self.fold_for(session, filter).await? {
            Some(fold) => fold,
            None => {
                let stretch = Stretch {
                    filter,
                    newest_first: false,
                    limit: filter.limit.saturating_add(filter.offset),
                    passed: None,
                };
                let is_near = filter.limit > 0 && filter.offset <= OFFSET_MAX;
                if is_near && let Some(found) = self.store.messages_at(session, stretch).await? {
                    let messages = found.messages.into_iter().skip(filter.offset);
                    return Ok(messages.map(|(_, message)| message).collect());
                }
                let is_far = filter.limit > 0 && !filter.is_narrow() && !is_near;
                if is_far && let Some(found) = self.store.messages_from(session, filter).await? {
                    return Ok(found);
                }
                self.store.chat_fold(session).await?
            }
        };
        let fold = shared.read();
        Ok(fold.messages(filter).into_iter().cloned().collect())
    }

    /// The fold for a filter: the cached one if there is one, or else one of a single request if the filter names that.
    async fn fold_for(
        &self,
        session: SessionId,
        filter: &MessageFilter,
    ) -> Result<Option<SharedFold>> {
        if let Some(fold) = self.store.kept_chat_fold(session).await? {
            return Ok(Some(fold));
        }
        let Some(request) = filter.request_id.as_deref() else {
            return Ok(None);
        };
        let fold = self
            .store
            .messages_fold(session, Some(request), &[])
            .await?;
        Ok(fold.map(SharedFold::of))
    }

    /// One page of a chat's messages, the oldest or the newest first. The cost is that of the page, however long the
    /// chat is; with several filters, that of the matches of the narrowest one. A chat that isn't cached is folded
    /// first, once, if the page would skip more than a thousand messages because of its filters (of which a request, a block,
    /// a thread and a type are found without skipping others), if the messages aren't in the order in which they were
    /// saved, or if more than 256 of them were changed.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such chat, it was deleted, or it has no message
    /// [`start_after`](ListMessages::start_after); [`InvalidInput`](crate::ErrorKind::InvalidInput) for a limit of 0, or a
    /// cursor of another list.
    pub async fn list_messages(
        &self,
        chat_id: &str,
        options: &ListMessages,
    ) -> Result<Page<ChatMessage>> {
        check_limit(options.limit)?;
        let session = self.session_id(chat_id).await?;
        let page = self.page_in(session, options).await;
        self.check_still_there(chat_id, session).await?;
        page
    }

    async fn page_in(
        &self,
        session: SessionId,
        options: &ListMessages,
    ) -> Result<Page<ChatMessage>> {
        let filter = options.filter();
        let bound = (session, &filter, options.newest_first, &options.start_after);
        let cursor = Cursor::read(options.cursor.as_deref(), CursorKind::ChatMessages, &bound)?;
        let known = match options.start_after {
            None => self.fold_for(session, &filter).await?,
            Some(_) => self.store.kept_chat_fold(session).await?,
        };
        let passed = match (&cursor, options.start_after.as_deref()) {
            (Some(cursor), _) => Some(Passed {
                message: cursor.first,
                at: cursor.third,
                position: cursor.second,
            }),
            (None, Some(id)) if known.is_none() => self.store.passed_message(session, id).await?,
            (None, _) => None,
        };
        let is_stretch = match (&cursor, &options.start_after) {
            (Some(cursor), _) => cursor.third > 0,
            (None, start_after) => start_after.is_none() || passed.is_some(),
        };
        let shared = match known {
            Some(fold) => fold,
            None => {
                let stretch = Stretch {
                    filter: &filter,
                    newest_first: options.newest_first,
                    limit: options.limit,
                    passed,
                };
                if is_stretch && let Some(found) = self.store.messages_at(session, stretch).await? {
                    return Ok(page_of(found, &bound));
                }
                self.store.chat_fold(session).await?
            }
        };
        let fold = shared.read();
        let place_of = |id| fold.place_of(id).ok_or_else(|| not_found("message", id));
        let passed = match (cursor, options.start_after.as_deref()) {
            (Some(cursor), _) => Some((cursor.first, cursor.second)),
            (None, start_after) => start_after.map(place_of).transpose()?,
        };
        let mut items: Vec<_> = if options.newest_first {
            let found = fold.admitted(&filter, None..passed).rev();
            found.take(options.limit.saturating_add(1)).collect()
        } else {
            let found = fold.admitted(&filter, passed..None);
            found.take(options.limit.saturating_add(1)).collect()
        };
        let is_more = items.len() > options.limit;
        items.truncate(options.limit);
        let next = items
            .last()
            .filter(|_| is_more)
            .map(|((first, second), _)| {
                let (first, second) = (*first, *second);
                let cursor = Cursor {
                    first,
                    second,
                    ..Cursor::default()
                };
                cursor.encode(CursorKind::ChatMessages, &bound)
            });
        let items = items.into_iter().map(|(_, message)| message.clone());
        Ok(Page {
            items: items.collect(),
            next,
        })
    }

    /// How many messages of a chat match a filter, regardless of its limit and offset.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such chat, or it was deleted.
    pub async fn count_messages(&self, chat_id: &str, filter: &MessageFilter) -> Result<usize> {
        let session = self.session_id(chat_id).await?;
        let count = self.count_in(session, filter).await;
        self.check_still_there(chat_id, session).await?;
        count
    }

    async fn count_in(&self, session: SessionId, filter: &MessageFilter) -> Result<usize> {
        let fold = match self.fold_for(session, filter).await? {
            Some(fold) => fold,
            None => {
                if let Some(count) = self.store.count_of_messages(session, filter).await? {
                    return Ok(count);
                }
                self.store.chat_fold(session).await?
            }
        };
        let count = fold.read().message_count(filter);
        Ok(count)
    }

    /// Changes fields of a message. Durable when it returns.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when no chat has the message, [`Ambiguous`](crate::ErrorKind::Ambiguous) when
    /// several have, [`InvalidInput`](crate::ErrorKind::InvalidInput) or [`TooLarge`](crate::ErrorKind::TooLarge) for a field that
    /// is refused.
    pub async fn update_message(&self, message_id: &str, updates: &Updates) -> Result<ChatMessage> {
        let session = self.store.chat_with(ChatIdOf::Message, message_id).await?;
        let at_ms = self.store.backend().now_ms();
        let missing = || not_found("message", message_id);
        let mut updated = None;
        self.write(session, Of::Messages(&[message_id]), &mut |fold| {
            let message = fold.message(message_id).ok_or_else(missing)?;
            let message = message.updated(updates, at_ms)?;
            if updates.get("sequence").is_some() {
                message.check_moved()?;
            }
            updated = Some(message);
            Ok(vec![ChatEvent::MessageUpdated {
                message_id: message_id.to_owned(),
                at_ms,
                updates: updates.clone(),
                appended: String::new(),
            }])
        })
        .await?;
        updated.ok_or_else(missing)
    }

    /// Deletes messages of a chat: all of them or none. Their events stay in the log. Durable when it returns.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such chat, or one of the messages isn't in it.
    pub async fn delete_messages(&self, chat_id: &str, message_ids: &[&str]) -> Result<()> {
        let session = self.session_id(chat_id).await?;
        let at_ms = self.store.backend().now_ms();
        self.write(session, Of::Messages(message_ids), &mut |fold| {
            if let Some(unknown) = message_ids.iter().find(|id| fold.message(id).is_none()) {
                return Err(not_found("message", unknown));
            }
            if message_ids.is_empty() {
                return Ok(Vec::new());
            }
            let together = message_ids.chunks(ChatEvent::DELETED_TOGETHER_MAX);
            let deleted = together.map(|ids| ChatEvent::MessagesDeleted {
                message_ids: ids.iter().map(|id| (*id).to_owned()).collect(),
                at_ms,
                used_at_ms: None,
            });
            Ok(deleted.collect())
        })
        .await
    }
}

/// A page of messages that were read directly from the log.
fn page_of(found: Found, bound: &impl Serialize) -> Page<ChatMessage> {
    let last = found.messages.last().filter(|_| found.is_more);
    let next = last.map(|(at, message)| {
        let cursor = Cursor {
            first: message.sequence,
            second: message.id.unwrap_or(0),
            third: *at,
        };
        cursor.encode(CursorKind::ChatMessages, bound)
    });
    Page {
        items: found.messages.into_iter().map(|(_, it)| it).collect(),
        next,
    }
}
