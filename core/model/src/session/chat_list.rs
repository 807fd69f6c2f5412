//! [`ChatFilter`]: which chats to list, in which order, and the page that they are given in.

use serde::{Deserialize, Serialize};

use super::{
    chat::{Chat, ChatShare},
    status::SessionStatus,
    view::Session,
};

/// Which chats to list, and which page of them.
///
/// ```
/// use runlog_model::ChatFilter;
/// let filter: ChatFilter = serde_json::from_str(r#"{"userId":"user123","status":"active","page":1,"pageSize":20}"#).unwrap();
/// assert_eq!(filter.user_id.as_deref(), Some("user123"));
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ChatFilter {
    /// Only chats that this user made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// Only chats of this team, shared or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub team_id: Option<String>,
    /// Only chats of this tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    /// Only chats that this user may see: those that he made, those that are shared with one of his
    /// [`teams`](Self::teams), and public ones. Together with a tenant, public ones of that tenant only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub visible_to: Option<String>,
    /// The teams of the user of [`visible_to`](Self::visible_to).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub teams: Vec<String>,
    /// Only chats that are shared so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<ChatShare>,
    /// Only chats that are public, or only those that aren't.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public: Option<bool>,
    /// Only chats with this assistant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assistant_id: Option<String>,
    /// Only chats of this status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<SessionStatus>,
    /// Only chats whose title has all these words, in any case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keywords: Option<String>,
    /// Chats that were deleted, instead of those that weren't.
    pub deleted: bool,
    /// Sessions too that nothing was saved in as a chat: those of runs, and of imported transcripts.
    pub sessions: bool,
    /// The order.
    pub order: ChatOrder,
    /// The page, from 1; 0 is the first. Pages move while chats are made; a cursor doesn't.
    pub page: usize,
    /// How many chats a page has; 0 is 20.
    #[serde(rename = "pageSize")]
    pub pagesize: usize,
    /// Where to continue, instead of a page number: the [`next`](ChatList::next) of the previous page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// The order in which chats are listed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ChatOrder {
    /// The one with the latest message first; one that has none counts by when it was made.
    #[default]
    LastMessage,
    /// The newest first.
    Created,
    /// By the `sort` field, the lowest first.
    Sort,
}

/// One page of chats.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChatList {
    /// The chats.
    pub items: Vec<Chat>,
    /// The page, from 1.
    pub page: usize,
    /// How many chats a page has.
    pub pagesize: usize,
    /// How many pages there are.
    pub pagecount: usize,
    /// How many chats the filter admits.
    pub total: usize,
    /// The cursor of the next page; `None` on the last page. It fits the same list with the same filters only, and no
    /// chat comes twice that stays where it is in the order; one that gets a message meanwhile is at the top again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// The place at which a list of chats continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChatPlace {
    /// The rank in the order of the previous page's last chat.
    pub rank: u64,
    /// After the chat that was made here.
    pub created: u64,
    /// How many chats the previous pages had.
    pub passed: u64,
}

impl ChatFilter {
    /// The words that a title has to have.
    pub(crate) fn words(&self) -> Vec<String> {
        let words = self.keywords.iter().flat_map(|it| it.split_whitespace());
        words.map(str::to_lowercase).collect()
    }

    pub(crate) fn admits(&self, session: &Session, words: &[String]) -> bool {
        let is =
            |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
        let has_words = || {
            let title = session.title.as_deref().unwrap_or_default().to_lowercase();
            words.iter().all(|word| title.contains(word))
        };
        if session.deleted_at_ms.is_some() != self.deleted
            || self.status.is_some_and(|status| session.status != status)
            || !(words.is_empty() || has_words())
        {
            return false;
        }
        let Some(chat) = session.chat.as_deref() else {
            return self.sessions && !self.asks_of_chats();
        };
        let is_mine = |user: &String| chat.created_by.as_ref() == Some(user);
        let is_shared = || {
            let team = chat.team_id.as_ref();
            chat.share == ChatShare::Team && team.is_some_and(|team| self.teams.contains(team))
        };
        is(&self.user_id, &chat.created_by)
            && is(&self.team_id, &chat.team_id)
            && is(&self.tenant_id, &chat.tenant_id)
            && self
                .assistant_id
                .as_ref()
                .is_none_or(|it| *it == chat.assistant_id)
            && self.share.is_none_or(|share| chat.share == share)
            && self.public.is_none_or(|public| chat.public == public)
            && self
                .visible_to
                .as_ref()
                .is_none_or(|user| is_mine(user) || chat.public || is_shared())
    }

    /// Whether it asks for what only chats have.
    fn asks_of_chats(&self) -> bool {
        let texts = [
            &self.user_id,
            &self.team_id,
            &self.tenant_id,
            &self.visible_to,
            &self.assistant_id,
        ];
        texts.into_iter().any(Option::is_some) || self.share.is_some() || self.public.is_some()
    }
}
