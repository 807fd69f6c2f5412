//! Searching the messages of chats.

use runlog_model::{ChatFilter, ChatMessage, Page, TextQuery, without_case};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Chats, ListMessages};
use crate::{
    Error, ErrorKind, Result,
    journal::{
        cursor::{Kind as CursorKind, encode_name, read_name},
        page::check_limit,
    },
};

/// How many chats are looked up at a time.
const CHATS: usize = 64;
/// How many messages of a chat are read at a time.
const MESSAGES: usize = 256;
/// After how many messages and chats, and how many bytes of messages, a page ends that has found less than it may.
const EXAMINED_MAX: usize = 10_000;
const BYTES_MAX: usize = 16 << 20;

/// What to look for in the messages of chats, and in which chats. All that is given must fit.
///
/// ```
/// use runlog::{
///     blocking::Store,
///     chats::{Chat, ChatMessage, ChatRole, SearchMessages},
/// };
///
/// let chats = Store::in_memory().chats();
/// let of_ann = Chat { created_by: Some("ann".into()), ..Chat::new("travel") };
/// let chat_id = chats.create_chat(of_ann)?.chat_id;
/// chats.save_messages(&chat_id, vec![ChatMessage::text(ChatRole::User, "To Oslo, please.")])?;
/// let search = SearchMessages { visible_to: Some("ann".into()), ..SearchMessages::new("OSLO") };
/// assert_eq!(chats.search_messages(&search)?.items[0].chat_id, chat_id);
/// # Ok::<(), runlog::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SearchMessages {
    /// The text that a message has, in any string of its `props`. Case doesn't matter.
    pub text: String,
    /// Only in this chat; `None` is all.
    #[serde(default)]
    pub chat_id: Option<String>,
    /// Only in chats that this user made.
    #[serde(default)]
    pub user_id: Option<String>,
    /// Only in chats that this user may see, as [`ChatFilter::visible_to`].
    #[serde(default)]
    pub visible_to: Option<String>,
    /// The teams of the user of [`visible_to`](Self::visible_to).
    #[serde(default)]
    pub teams: Vec<String>,
    /// Only in chats of this tenant.
    #[serde(default)]
    pub tenant_id: Option<String>,
    /// At most so many.
    #[serde(default = "limit")]
    pub limit: usize,
    /// Where to go on: what the page before said comes next.
    #[serde(default)]
    pub cursor: Option<String>,
}

fn limit() -> usize {
    20
}

impl SearchMessages {
    /// A search in all chats.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            chat_id: None,
            user_id: None,
            visible_to: None,
            teams: Vec::new(),
            tenant_id: None,
            limit: limit(),
            cursor: None,
        }
    }

    fn filter(&self) -> ChatFilter {
        ChatFilter {
            user_id: self.user_id.clone(),
            visible_to: self.visible_to.clone(),
            teams: self.teams.clone(),
            tenant_id: self.tenant_id.clone(),
            ..ChatFilter::default()
        }
    }
}

/// Where a search goes on.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Place {
    /// The chats before the one with this number, in the order in which they were made; `None` is all.
    before: Option<u32>,
    /// The number of the first one of them, and the cursor in its messages; 0 where one chat is searched.
    messages: Option<(u32, String)>,
}

impl Chats {
    /// One page of the messages that have a text: those of the chat that was made last first, and of each chat the newest
    /// first. Messages are as they are now; deleted ones and those of deleted chats aren't found. A page may have fewer than
    /// [`limit`](SearchMessages::limit), or none, and yet go on, since it ends after 10,000 messages or 16 MiB of them: the cost
    /// is that of reading the messages of the chats that fit.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) for no text, or one of more than 64 KiB, a limit of 0, teams of nobody, or a cursor
    /// of another search; [`NotFound`](ErrorKind::NotFound) when there is no such chat, or it was deleted.
    pub async fn search_messages(&self, options: &SearchMessages) -> Result<Page<ChatMessage>> {
        check_limit(options.limit)?;
        let query = Query::new(&options.text)?;
        let bound = SearchMessages {
            limit: 0,
            cursor: None,
            ..options.clone()
        };
        let place = read_name(options.cursor.as_deref(), CursorKind::Search, &bound)?;
        let place = place.map(|json| {
            let unreadable =
                |_| Error::invalid("the cursor can't be read; search from the beginning");
            serde_json::from_str(&json).map_err(unreadable)
        });
        let mut page = Searched {
            query,
            left: Left {
                messages: EXAMINED_MAX,
                bytes: BYTES_MAX,
            },
            limit: options.limit,
            items: Vec::new(),
        };
        let next = self
            .search_from(options, place.transpose()?.unwrap_or_default(), &mut page)
            .await?;
        let next = next.map(|place| {
            let json = serde_json::to_string(&place).expect("numbers and texts have a JSON form");
            encode_name(&json, CursorKind::Search, &bound)
        });
        Ok(Page {
            items: page.items,
            next,
        })
    }

    /// Searches until a page is full, and says where the next one begins.
    async fn search_from(
        &self,
        options: &SearchMessages,
        mut place: Place,
        page: &mut Searched,
    ) -> Result<Option<Place>> {
        if let Some(chat_id) = &options.chat_id {
            let session = self.session_id(chat_id).await?;
            let filter = options.filter();
            let admitted = self
                .store
                .shared
                .catalog
                .read(|catalog| catalog.admits(&filter, session))
                .await??;
            if !admitted {
                return Ok(None);
            }
            let from = place.messages.map(|(_, cursor)| cursor);
            let rest = self.search_chat(chat_id, from, page).await?;
            return Ok(rest.map(|cursor| Place {
                before: None,
                messages: Some((0, cursor)),
            }));
        }
        let filter = options.filter();
        loop {
            let catalog = &self.store.shared.catalog;
            let some = catalog.read(|catalog| catalog.chats_before(&filter, place.before, CHATS));
            let some = some.await??;
            if some.is_empty() {
                return Ok(None);
            }
            for (number, chat_id) in some {
                // The chat in which the page before ended may be gone.
                let from = place.messages.take().filter(|(of, _)| *of == number);
                let from = from.map(|(_, cursor)| cursor);
                let rest = match self.search_chat(&chat_id, from, page).await {
                    Err(error) if error.kind() == ErrorKind::NotFound => None,
                    rest => rest?,
                };
                place = Place {
                    before: Some(number + u32::from(rest.is_some())),
                    messages: rest.map(|cursor| (number, cursor)),
                };
                if page.is_over() || place.messages.is_some() {
                    return Ok(Some(place));
                }
            }
        }
    }

    /// Searches the messages of a chat; where to go on, if the page is over before.
    async fn search_chat(
        &self,
        chat_id: &str,
        mut from: Option<String>,
        page: &mut Searched,
    ) -> Result<Option<String>> {
        // A chat without messages costs as much as looking at one.
        page.left.messages = page.left.messages.saturating_sub(1);
        loop {
            let list = async |limit| {
                let options = ListMessages {
                    newest_first: true,
                    limit,
                    cursor: from.clone(),
                    ..ListMessages::default()
                };
                self.list_messages(chat_id, &options).await
            };
            let mut some = list(MESSAGES).await?;
            if let Some(count) = page.count_that_fits(&some.items) {
                some = list(count).await?;
            }
            page.take(some.items);
            from = some.next;
            if from.is_none() || page.is_over() {
                return Ok(from);
            }
        }
    }
}

/// What a search looks for.
struct Query {
    /// Finds it in JSON without reading that.
    in_json: TextQuery,
    /// As it is in the strings.
    text: String,
}

impl Query {
    fn new(text: &str) -> Result<Self> {
        Ok(Self {
            in_json: TextQuery::new(text)?,
            text: without_case(text),
        })
    }

    fn is_in(&self, message: &ChatMessage) -> bool {
        // Names of fields aren't what was said.
        self.in_json.is_in(message.props.as_bytes())
            && message
                .props
                .to_value()
                .map_or(true, |props: Value| self.is_in_strings(&props))
    }

    fn is_in_strings(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => without_case(text).contains(&self.text),
            Value::Array(items) => items.iter().any(|item| self.is_in_strings(item)),
            Value::Object(fields) => fields.values().any(|field| self.is_in_strings(field)),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }
}

/// How much more is looked at for a page.
struct Left {
    messages: usize,
    bytes: usize,
}

/// A page of found messages.
struct Searched {
    query: Query,
    left: Left,
    limit: usize,
    items: Vec<ChatMessage>,
}

impl Searched {
    /// How many of some messages can be looked at before more would be found than there is room for; `None` for all.
    fn count_that_fits(&self, messages: &[ChatMessage]) -> Option<usize> {
        let room = self.limit - self.items.len();
        let mut found = messages.iter().enumerate();
        let mut found = found
            .by_ref()
            .filter(|(_, message)| self.query.is_in(message));
        let last = found.nth(room - 1)?.0;
        found.next().map(|_| last + 1)
    }

    fn take(&mut self, messages: Vec<ChatMessage>) {
        for message in messages {
            self.left.messages = self.left.messages.saturating_sub(1);
            self.left.bytes = self
                .left
                .bytes
                .saturating_sub(message.props.as_bytes().len());
            if self.query.is_in(&message) {
                self.items.push(message);
            }
        }
    }

    fn is_over(&self) -> bool {
        self.items.len() >= self.limit || self.left.messages == 0 || self.left.bytes == 0
    }
}
