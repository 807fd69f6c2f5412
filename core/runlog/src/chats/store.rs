//! [`Chats`]: chats and their messages.

use std::collections::HashSet;

use runlog_log::{Batch, Expected, Op, Sequence};
use runlog_model::{
    CatalogEvent, Chat, ChatEvent, ChatFilter, ChatFold, ChatList, ChatMessage, ChatPlace,
    EncodedEvent, MessageFilter, Session, SessionId, Timestamp, Updates,
};

use crate::{
    Error, ErrorKind, Result, Store,
    journal::cursor::{Cursor, Kind as CursorKind},
    kernel::{
        catalog::{CATALOG_STREAM, Change, Guard},
        chats::IdOf,
        lookup::{check_free, check_unused},
        new_session::NewSession,
        records::chat_stream,
    },
};

/// The chats of a store. [`blocking::Chats`](crate::blocking::Chats) is the same for callers that wait.
///
/// ```
/// use runlog::{
///     Store,
///     chats::{Chat, ChatMessage, ChatRole, MessageFilter},
/// };
///
/// # pollster::block_on(async {
/// let chats = Store::in_memory().chats();
/// let chat = chats.create_chat(Chat { title: Some("Trip".into()), ..Chat::new("travel") }).await?;
/// chats.save_messages(&chat.chat_id, vec![ChatMessage::text(ChatRole::User, "Oslo, please.")]).await?;
/// let messages = chats.get_messages(&chat.chat_id, &MessageFilter::default()).await?;
/// assert_eq!(messages[0].props.as_str(), r#"{"content":"Oslo, please."}"#);
/// # Ok::<(), runlog::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Chats {
    pub(crate) store: Store,
}

impl Store {
    /// The chats of this store: its sessions as their users see them.
    pub fn chats(&self) -> Chats {
        Chats {
            store: self.clone(),
        }
    }
}

impl Chats {
    /// Makes a chat. What is left empty (id, times) is given by the store. Durable when it returns.
    ///
    /// A chat id that is a UUID as they are mostly written (lower case, with hyphens) becomes the session's id, which
    /// stays taken when the chat is deleted; another one becomes its name, which is free then.
    ///
    /// # Errors
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) when the id is taken, [`InvalidInput`](ErrorKind::InvalidInput) or
    /// [`TooLarge`](ErrorKind::TooLarge) for a field that is refused.
    pub async fn create_chat(&self, chat: Chat) -> Result<Chat> {
        let is_given = !chat.chat_id.is_empty();
        let session = self.session_of(chat)?;
        check_unused(
            &**self.store.backend(),
            Some(session.id.as_uuid()).filter(|_| is_given),
        )
        .await?;
        // Whatever id the caller gave, another may be giving it at the same time.
        let guard = if is_given {
            Guard::Unchanged
        } else {
            Guard::Any
        };
        self.store
            .shared
            .catalog
            .change(|catalog| {
                check_free(catalog, &session)?;
                let events = vec![CatalogEvent::SessionCreated(session.clone())];
                Ok((
                    Change {
                        events,
                        guard,
                        ..Change::default()
                    },
                    (),
                ))
            })
            .await?;
        self.chat_that_is_there(&session.id.to_string()).await
    }

    pub(super) fn session_of(&self, chat: Chat) -> Result<Session> {
        chat.check_new()?;
        let id: Option<SessionId> = chat
            .chat_id
            .parse()
            .ok()
            .filter(|id: &SessionId| id.to_string() == chat.chat_id);
        let new = NewSession {
            id,
            name: Some(chat.chat_id.clone()).filter(|name| id.is_none() && !name.is_empty()),
            created_at_ms: Some(chat.created_at.0).filter(|_| !chat.created_at.is_unset()),
            ..NewSession::default()
        };
        let mut session = self.store.session_from(&new);
        let updated_at = chat.updated_at.or(Timestamp(session.created_at_ms));
        Chat { updated_at, ..chat }.write_to(&mut session);
        session.check()?;
        Ok(session)
    }

    /// The chat with this id; `None` when there is none, or it was deleted.
    ///
    /// # Errors
    /// What reading the store fails with.
    pub async fn get_chat(&self, chat_id: &str) -> Result<Option<Chat>> {
        let found = self.store.shared.catalog.read(|catalog| {
            let session = catalog.chat_session(chat_id)?;
            catalog.chat(session.id)
        });
        found.await
    }

    /// The chat with this id, which something was just done to.
    async fn chat_that_is_there(&self, chat_id: &str) -> Result<Chat> {
        self.get_chat(chat_id)
            .await?
            .ok_or_else(|| chat_not_found(chat_id))
    }

    /// Changes fields of a chat. Durable when it returns.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) when there is no such chat, or it was deleted;
    /// [`InvalidInput`](ErrorKind::InvalidInput) or [`TooLarge`](ErrorKind::TooLarge) for a field that is refused.
    pub async fn update_chat(&self, chat_id: &str, updates: &Updates) -> Result<Chat> {
        let at_ms = self.store.backend().now_ms();
        self.store
            .shared
            .catalog
            .change(|catalog| {
                let session = catalog
                    .chat_session(chat_id)
                    .ok_or_else(|| chat_not_found(chat_id))?;
                let mut changed = session.clone();
                Chat::of(session, 0)
                    .updated(updates, Timestamp(at_ms))?
                    .write_to(&mut changed);
                changed.check()?;
                let updated = CatalogEvent::ChatUpdated {
                    id: session.id,
                    at_ms,
                    updates: updates.clone(),
                };
                Ok((
                    Change {
                        events: vec![updated],
                        ..Change::default()
                    },
                    (),
                ))
            })
            .await?;
        self.chat_that_is_there(chat_id).await
    }

    /// Deletes a chat, softly: it is no longer found, listed or written to; its events stay in the log.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) when there is no such chat, or it was deleted already.
    pub async fn delete_chat(&self, chat_id: &str) -> Result<()> {
        let id = self.session_id(chat_id).await?;
        self.store.delete_session(id).await
    }

    /// One page of chats. Goes by page and page size, or by cursor; pages of a cursor stay right while chats are
    /// made.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) for a page that is too large, a cursor of another list, or one in an
    /// order that has none.
    pub async fn list_chats(&self, filter: &ChatFilter) -> Result<ChatList> {
        let ChatFilter {
            user_id,
            team_id,
            assistant_id,
            status,
            keywords,
            order,
            ..
        } = filter;
        let bound = (user_id, team_id, assistant_id, status, keywords, order);
        let before = Cursor::read(filter.cursor.as_deref(), CursorKind::Chats, &bound)?;
        let before = before.map(|Cursor { first, second }| ChatPlace {
            created: first,
            passed: second,
        });
        let (list, next) = self
            .store
            .shared
            .catalog
            .read(|catalog| catalog.chats(filter, before))
            .await??;
        let next = next.map(|place| Cursor {
            first: place.created,
            second: place.passed,
        });
        let next = next.map(|cursor| cursor.encode(CursorKind::Chats, &bound));
        Ok(ChatList { next, ..list })
    }

    /// Saves messages: all of them or none. What is left empty (id, chat, sequence, times) is given by the store.
    /// Durable when it returns.
    ///
    /// A sequence that is given is at most [`CHAT_SEQUENCE_GIVEN_MAX`](runlog_model::limits::CHAT_SEQUENCE_GIVEN_MAX). Several
    /// messages may be given the same one: they stand in the order in which they were saved.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) when there is no such chat, or it was deleted;
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) for a message id that is taken;
    /// [`InvalidInput`](ErrorKind::InvalidInput) or [`TooLarge`](ErrorKind::TooLarge) for a field that is refused.
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
    /// [`NotFound`](ErrorKind::NotFound) when there is no such chat, or it was deleted.
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
    /// [`NotFound`](ErrorKind::NotFound) when no chat has the message, [`Ambiguous`](ErrorKind::Ambiguous) when
    /// several have, [`InvalidInput`](ErrorKind::InvalidInput) or [`TooLarge`](ErrorKind::TooLarge) for a field that
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
    /// [`NotFound`](ErrorKind::NotFound) when there is no such chat, or one of the messages isn't in it.
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

    /// The session of a chat that isn't deleted.
    pub(super) async fn session_id(&self, chat_id: &str) -> Result<SessionId> {
        let found = self
            .store
            .shared
            .catalog
            .read(|catalog| catalog.chat_session(chat_id).map(|session| session.id));
        found.await?.ok_or_else(|| chat_not_found(chat_id))
    }

    pub(super) fn chat_id_of(&self, session: SessionId) -> String {
        let chat = self
            .store
            .shared
            .catalog
            .with_state(|catalog| catalog.chat(session));
        chat.map_or_else(|| session.to_string(), |chat| chat.chat_id)
    }

    /// Decides by the chat's fold what to write, and writes it if nobody changed the chat in between; else
    /// decides anew.
    pub(super) async fn write(
        &self,
        session: SessionId,
        decide: impl Fn(&ChatFold) -> Result<Vec<ChatEvent>>,
    ) -> Result<()> {
        let mut attempts = self
            .store
            .shared
            .folds
            .queues
            .attempts(&**self.store.backend(), chat_stream(session))
            .await;
        loop {
            let live =
                self.store.shared.catalog.read(|catalog| {
                    crate::kernel::lookup::live_session(catalog, session).map(drop)
                });
            live.await??;
            let fold = self.store.chat_fold(session).await?;
            let events = decide(&fold)?;
            if events.is_empty() {
                return Ok(());
            }
            let prepared = Prepared::new(session, events, self.store.backend().now_ms())?;
            let batch = Batch::new(prepared.ops(Expected::Last(Sequence(fold.last_sequence()))));
            // Released before the commit: a task that catches up the fold meanwhile would have to copy it.
            drop(fold);
            match self.store.backend().commit(batch).await {
                Ok(_) => {
                    prepared.notify_catalog(&self.store).await;
                    return Ok(());
                }
                Err(error) => attempts.again(error).await?,
            }
        }
    }
}

/// Events of a chat, encoded, with what the catalog learns of them.
pub(super) struct Prepared {
    session: SessionId,
    events: Vec<EncodedEvent>,
    touch: Option<EncodedEvent>,
}

impl Prepared {
    pub(super) fn new(session: SessionId, events: Vec<ChatEvent>, at_ms: u64) -> Result<Self> {
        // What has an id of its own touches the chat, so that the catalog tells where ids may be found.
        let made = events.iter().filter_map(|event| match event {
            ChatEvent::MessageSaved(message) => Some(message.created_at.or(Timestamp(at_ms)).0),
            ChatEvent::StepSaved(_) => Some(0),
            _ => None,
        });
        let touched = made
            .max()
            .map(|at_ms| CatalogEvent::ChatTouched { id: session, at_ms }.encode());
        let touch = touched.transpose()?;
        let events = events
            .iter()
            .map(ChatEvent::encode)
            .collect::<Result<_>>()?;
        Ok(Self {
            session,
            events,
            touch,
        })
    }

    /// Has the catalog take in what it was told.
    pub(super) async fn notify_catalog(&self, store: &Store) {
        if self.touch.is_some() {
            store.shared.catalog.after_commit().await;
        }
    }

    pub(super) fn ops(&self, expected: Expected) -> Vec<Op<'_>> {
        let records = self.events.iter().map(EncodedEvent::record);
        let mut ops = vec![Op::Append {
            stream: chat_stream(self.session),
            expected,
            records: records.collect(),
        }];
        if let Some(touch) = &self.touch {
            let records = vec![touch.record()];
            ops.push(Op::Append {
                stream: CATALOG_STREAM,
                expected: Expected::Any,
                records,
            });
        }
        ops
    }
}

pub(super) fn not_found(what: &str, id: &str) -> Error {
    Error::not_found(format!("no {what} {id:?}, or it was deleted"))
}

pub(super) fn chat_not_found(chat_id: &str) -> Error {
    Error::not_found(format!(
        "no chat {chat_id:?}, or it was deleted; make it with create_chat"
    ))
}

pub(super) fn already_exists(what: &str, id: &str, instead: &str) -> Error {
    Error::new(
        ErrorKind::AlreadyExists,
        format!("the chat has a {what} {id:?} already; {instead}"),
    )
}

/// Checks that what is saved doesn't say it is in another chat.
pub(super) fn check_chat(what: &str, found: &str, chat: &str) -> Result<()> {
    if found.is_empty() || found == chat {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the {what} says it is in chat {found:?}, but is saved in {chat:?}"
    )))
}
