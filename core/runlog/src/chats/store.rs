//! [`Chats`]: creating, changing, deleting and listing chats.

use runlog_model::{
    CatalogEvent, Chat, ChatFilter, ChatList, ChatPlace, Session, SessionId, Updates, time,
};

use crate::{
    Error, ErrorKind, Result, Store,
    journal::cursor::{Cursor, Kind as CursorKind},
    kernel::{
        catalog::{Change, Guard},
        lookup::{check_free, check_unused},
        new_session::NewSession,
    },
};

/// The chats of a store. [`blocking::Chats`](crate::blocking::Chats) is its blocking counterpart.
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
    /// Creates a chat. The store fills in empty fields (id, times). Durable when it returns.
    ///
    /// A chat id that is a UUID in its usual form (lower case, with hyphens) becomes the session's id, which stays
    /// taken when the chat is deleted; any other becomes its name, which is free again then.
    ///
    /// # Errors
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) when the id is taken, [`InvalidInput`](ErrorKind::InvalidInput) or
    /// [`TooLarge`](ErrorKind::TooLarge) for a field that is refused.
    pub async fn create_chat(&self, chat: Chat) -> Result<Chat> {
        let is_given = !chat.chat_id.is_empty();
        chat.check_new()?;
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
        let created = CatalogEvent::SessionCreated(session.clone());
        self.store
            .shared
            .catalog
            .add(&[created], guard, |catalog| check_free(catalog, &session))
            .await?;
        self.chat_that_is_there(&session.id.to_string()).await
    }

    pub(super) fn session_of(&self, chat: Chat) -> Result<Session> {
        chat.check()?;
        let id: Option<SessionId> = chat
            .chat_id
            .parse()
            .ok()
            .filter(|id: &SessionId| id.to_string() == chat.chat_id);
        let new = NewSession {
            id,
            name: Some(chat.chat_id.clone()).filter(|name| id.is_none() && !name.is_empty()),
            created_at_ms: Some(chat.created_at_ms).filter(|at| *at != 0),
            ..NewSession::default()
        };
        let mut session = self.store.session_from(&new);
        let updated_at_ms = time::or(chat.updated_at_ms, session.created_at_ms);
        Chat {
            updated_at_ms,
            ..chat
        }
        .write_to(&mut session);
        session.check()?;
        Ok(session)
    }

    /// The chat with this id; `None` when there is none, or it was deleted.
    ///
    /// # Errors
    /// Those of reading the store.
    pub async fn get_chat(&self, chat_id: &str) -> Result<Option<Chat>> {
        let found = self.store.shared.catalog.read(|catalog| {
            let session = catalog.chat_session(chat_id)?;
            catalog.chat(session.id)
        });
        found.await
    }

    /// The chat with this id, which was just changed.
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
                let chat = Chat::of(session, 0).updated(updates, at_ms)?;
                // A session that is used as a chat has no assistant until one is set.
                if updates.get("assistant_id").is_some() {
                    chat.check_new()?;
                }
                if ["team_id", "tenant_id"]
                    .iter()
                    .any(|name| updates.get(name).is_some())
                {
                    chat.check_owners()?;
                }
                chat.write_to(&mut changed);
                changed.check()?;
                let events = CatalogEvent::of_chat_updates(&changed, at_ms, updates);
                Ok((Change::of(events), ()))
            })
            .await?;
        self.chat_that_is_there(chat_id).await
    }

    /// Soft-deletes a chat: it is no longer found or listed, and can't be written to; its events stay in the log.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) when there is no such chat, or it was deleted already.
    pub async fn delete_chat(&self, chat_id: &str) -> Result<()> {
        let id = self.session_id(chat_id).await?;
        self.store.delete_session(id).await
    }

    /// Restores a deleted chat, as it was. If several had the id, the one deleted last. Durable when it returns.
    ///
    /// ```
    /// use runlog::{blocking::Store, chats::{Chat, ChatFilter}};
    ///
    /// let chats = Store::in_memory().chats();
    /// let chat_id = chats.create_chat(Chat::new("travel"))?.chat_id;
    /// chats.delete_chat(&chat_id)?;
    /// let deleted = ChatFilter { deleted: true, ..ChatFilter::default() };
    /// assert_eq!(chats.list_chats(&deleted)?.items[0].chat_id, chat_id);
    /// assert_eq!(chats.restore_chat(&chat_id)?.chat_id, chat_id);
    /// # Ok::<(), runlog::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) when no chat of this id was deleted,
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) when another chat has its id now.
    pub async fn restore_chat(&self, chat_id: &str) -> Result<Chat> {
        let at_ms = self.store.backend().now_ms();
        self.store
            .shared
            .catalog
            .change(|catalog| {
                if catalog.chat_session(chat_id).is_some() {
                    let message = format!(
                        "there is a chat {chat_id:?} that isn't deleted; delete it first, or keep it"
                    );
                    return Err(Error::new(ErrorKind::AlreadyExists, message));
                }
                let id = catalog
                    .deleted_chat(chat_id)
                    .map(|session| session.id)
                    .ok_or_else(|| Error::not_found(format!("no chat {chat_id:?} was deleted")))?;
                Ok((Change::of(vec![CatalogEvent::SessionRestored { id, at_ms }]), ()))
            })
            .await?;
        self.chat_that_is_there(chat_id).await
    }

    /// One page of chats, by default the one with the latest message first. Paged by number and size, or by cursor;
    /// with a cursor, chats created meanwhile don't shift the pages.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) for a page that is too large, a cursor of another list, a page beside a cursor,
    /// or teams of nobody.
    pub async fn list_chats(&self, filter: &ChatFilter) -> Result<ChatList> {
        if filter.page > 0 && filter.cursor.is_some() {
            return Err(Error::invalid(
                "`page` and `cursor` both say where a list goes on; give one of them",
            ));
        }
        // The place in the list and the page size aren't part of the filter.
        let bound = ChatFilter {
            page: 0,
            pagesize: 0,
            cursor: None,
            ..filter.clone()
        };
        let after = Cursor::read(filter.cursor.as_deref(), CursorKind::Chats, &bound)?;
        let after = after.map(|cursor| ChatPlace {
            rank: cursor.third,
            created: cursor.first,
            passed: cursor.second,
        });
        let (list, next) = self
            .store
            .shared
            .catalog
            .read(|catalog| catalog.chats(filter, after))
            .await??;
        let next = next.map(|place| {
            let cursor = Cursor {
                first: place.created,
                second: place.passed,
                third: place.rank,
            };
            cursor.encode(CursorKind::Chats, &bound)
        });
        Ok(ChatList { next, ..list })
    }

    /// The session that a chat is, by which it is copied, truncated, erased and exported. A chat without an id of its own has its
    /// session's.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) when there is no such chat, or it was deleted.
    pub async fn session_id(&self, chat_id: &str) -> Result<SessionId> {
        let found = self
            .store
            .shared
            .catalog
            .read(|catalog| catalog.chat_session(chat_id).map(|session| session.id));
        found.await?.ok_or_else(|| chat_not_found(chat_id))
    }

    /// An error if a chat was deleted while something was read of it. Retention and compactions drop its records bit by bit, so
    /// what was found may be a part of it that it never was.
    pub(super) async fn check_still_there(&self, chat_id: &str, session: SessionId) -> Result<()> {
        match self.session_id(chat_id).await? {
            now if now == session => Ok(()),
            // Another has its id since.
            _ => Err(chat_not_found(chat_id)),
        }
    }

    pub(super) fn chat_id_of(&self, session: SessionId) -> String {
        let chat = self
            .store
            .shared
            .catalog
            .with_state(|catalog| catalog.chat(session));
        chat.map_or_else(|| session.to_string(), |chat| chat.chat_id)
    }
}

pub(super) fn not_found(what: &str, id: &str) -> Error {
    Error::not_found(format!("no {what} {id:?}, or it was deleted"))
}

pub(super) fn chat_not_found(chat_id: &str) -> Error {
    Error::not_found(format!(
        "no chat {chat_id:?}, or it was deleted; create it first"
    ))
}

pub(super) fn already_exists(what: &str, id: &str, instead: &str) -> Error {
    Error::new(
        ErrorKind::AlreadyExists,
        format!("the chat has a {what} {id:?} already; {instead}"),
    )
}

/// Checks that the chat id of a message or step, if it has one, is that of this chat.
pub(super) fn check_chat(what: &str, found: &str, chat: &str) -> Result<()> {
    if found.is_empty() || found == chat {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the {what} says it is in chat {found:?}, but is saved in {chat:?}"
    )))
}
