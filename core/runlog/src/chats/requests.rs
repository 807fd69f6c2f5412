//! The requests of chats: the record of one, and the unfinished ones of the whole store.

use runlog_model::{ChatIdOf, ChatRequest, OpenRequest, Page, RequestStatus, SessionId};
use serde::{Deserialize, Serialize};

use super::Chats;
use crate::{
    Error, Result,
    journal::{
        cursor::{Cursor, Kind as CursorKind},
        page::check_limit,
    },
};

/// Which of the requests that aren't over to list, and how many.
///
/// ```
/// use runlog::{
///     blocking::Store,
///     chats::{Chat, ChatMessage, ChatRole, ListRequests, NewRequest, RequestEnd, RequestStatus},
/// };
///
/// let chats = Store::in_memory().chats();
/// let chat_id = chats.create_chat(Chat::new("travel"))?.chat_id;
/// let asked = ChatMessage::text(ChatRole::User, "Oslo, please.");
/// chats.begin_request(&chat_id, NewRequest::new("travel"), asked)?.finish(RequestEnd::Interrupted)?;
/// // After a deployment: what is to be resumed, in every chat.
/// let unattended = ListRequests { unattended: true, ..ListRequests::default() };
/// let found = chats.list_requests(&unattended)?.items;
/// assert_eq!((found.len(), found[0].status), (1, RequestStatus::Interrupted));
/// # Ok::<(), runlog::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ListRequests {
    /// Only requests of this status; `None` is all. One of status `running` that nobody is at work on was never answered:
    /// its process died.
    pub status: Option<RequestStatus>,
    /// Only requests of this chat; `None` is all.
    pub chat_id: Option<String>,
    /// Only requests for this assistant; `None` is all.
    pub assistant_id: Option<String>,
    /// Only requests that no process is known to be working on.
    pub unattended: bool,
    /// At most so many.
    pub limit: usize,
    /// Where to go on: what the page before said comes next.
    pub cursor: Option<String>,
}

impl Default for ListRequests {
    fn default() -> Self {
        Self {
            status: None,
            chat_id: None,
            assistant_id: None,
            unattended: false,
            limit: 50,
            cursor: None,
        }
    }
}

/// A request that isn't over.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnfinishedRequest {
    /// The chat it is in.
    pub chat_id: String,
    /// Its id.
    pub request_id: String,
    /// The assistant it is for.
    pub assistant_id: String,
    /// How far it has come.
    pub status: RequestStatus,
    /// Whether somebody in this process is at work on it; `None` in a store that is open for reading only, where the
    /// process that writes it may be. Where it is known that no process writes it, `false`.
    pub is_live: Option<bool>,
    /// When it was begun.
    pub created_at_ms: u64,
    /// When it was interrupted, or failed.
    pub updated_at_ms: u64,
}

impl Chats {
    /// One page of the unfinished requests of the store, the newest first: active ones, ones whose process died before
    /// it answered, and interrupted or failed ones. The cost is that of the page, and of the unfinished requests that
    /// don't match the filters. Only the newest [`OPEN_REQUESTS_MAX`](runlog_model::limits::OPEN_REQUESTS_MAX) of each
    /// chat are listed. Requests that weren't begun aren't listed: those of steps that were saved directly, or imported from the tables of
    /// another product; nor are those of a copied chat.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a limit of 0, the status of a request that is over, or a
    /// cursor of another list.
    pub async fn list_requests(&self, options: &ListRequests) -> Result<Page<UnfinishedRequest>> {
        check_limit(options.limit)?;
        if let Some(over) = options.status.filter(|status| status.is_over()) {
            return Err(Error::invalid(format!(
                "a request that is {over} is over, and not listed here: those that are running, interrupted or failed are; one is found by its id"
            )));
        }
        let ListRequests {
            status,
            chat_id,
            assistant_id,
            unattended,
            limit: _,
            cursor: _,
        } = options;
        let filter = (status, chat_id, assistant_id, unattended);
        let cursor = Cursor::read(options.cursor.as_deref(), CursorKind::Requests, &filter)?;
        let before = cursor.map_or(u64::MAX, |cursor| cursor.first);
        let at_work = self.store.at_work();
        let is_live = |session: SessionId, request: &OpenRequest| {
            at_work.is(|| self.store.claims().has(session, &request.request_id))
        };
        self.store
            .shared
            .catalog
            .read(|catalog| {
                let (mut items, mut last) = (Vec::new(), 0);
                for (session, request) in catalog.open_requests(before) {
                    let is_live = is_live(session, request);
                    let chat = || catalog.chat(session).map(|chat| chat.chat_id);
                    let admitted = status.is_none_or(|status| request.status == status)
                        && assistant_id
                            .as_ref()
                            .is_none_or(|it| *it == request.assistant_id)
                        && !(*unattended && is_live == Some(true))
                        && (chat_id.is_none() || *chat_id == chat());
                    if !admitted {
                        continue;
                    }
                    if items.len() == options.limit {
                        let cursor = Cursor {
                            first: last,
                            ..Cursor::default()
                        };
                        let next = Some(cursor.encode(CursorKind::Requests, &filter));
                        return Page { items, next };
                    }
                    last = request.number;
                    items.push(UnfinishedRequest {
                        chat_id: chat().unwrap_or_default(),
                        request_id: request.request_id.clone(),
                        assistant_id: request.assistant_id.clone(),
                        status: request.status,
                        is_live,
                        created_at_ms: request.created_at_ms,
                        updated_at_ms: request.updated_at_ms,
                    });
                }
                Page { items, next: None }
            })
            .await
    }

    /// The requests of a chat, in the order in which they were begun: how each ended, and what it took. Those of a copied chat
    /// include what it has from its original. The chat is folded, once.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such chat, or it was deleted.
    pub async fn get_requests(&self, chat_id: &str) -> Result<Vec<ChatRequest>> {
        let session = self.session_id(chat_id).await?;
        let shared = self.store.chat_fold(session).await?;
        let fold = shared.read();
        Ok(fold.requests().into_iter().cloned().collect())
    }

    /// The record of a request, in any chat; `None` if it wasn't begun in this store, and only its steps were saved.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when no chat has the request, [`Ambiguous`](crate::ErrorKind::Ambiguous) when
    /// several have.
    pub async fn get_request(&self, request_id: &str) -> Result<Option<ChatRequest>> {
        let of = ChatIdOf::Request;
        let session = self.store.chat_with(of, request_id).await?;
        let fold = self.store.steps_fold(session, of, request_id).await?;
        let request = fold.read().request(request_id).cloned();
        Ok(request)
    }
}
