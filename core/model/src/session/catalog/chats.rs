//! The catalog's sessions as chats: finding one by its id, and listing them by filter.

use std::{cmp::Reverse, collections::HashSet};

use serde::{Deserialize, Serialize};

use super::{
    Catalog,
    entry::SessionEntry,
    listed::{Created, Field},
};
use crate::{Chat, Error, Result, Session, SessionId, SessionStatus, limits::CHAT_PAGE_MAX};

const PAGESIZE: usize = 20;

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
    /// Only chats of this team.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub team_id: Option<String>,
    /// Only chats with this assistant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assistant_id: Option<String>,
    /// Only chats of this status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<SessionStatus>,
    /// Only chats whose title has all these words, in any case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keywords: Option<String>,
    /// The order.
    pub order: ChatOrder,
    /// The page, from 1; 0 is the first. Pages move while chats are made; a cursor doesn't.
    pub page: usize,
    /// How many chats a page has; 0 is 20.
    #[serde(rename = "pageSize")]
    pub pagesize: usize,
    /// Where to go on, instead of a page number: the [`next`](ChatList::next) of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// The order in which chats are listed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ChatOrder {
    /// The newest first. The only one with a cursor.
    #[default]
    Created,
    /// The one with the latest message first.
    LastMessage,
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
    /// The cursor of the next page; `None` on the last page, and in an order that has none. It stays right while chats
    /// are made, and fits the same list with the same filters only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Where a list of chats in the order of their creation goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChatPlace {
    /// Before the chat that was made here.
    pub created: u64,
    /// How many chats the pages before had.
    pub passed: u64,
}

impl Catalog {
    /// The session that a chat id names: that of this name, or of this id. Not a deleted one.
    pub fn chat_session(&self, chat_id: &str) -> Option<&Session> {
        // Spelt in another way it is a name like any other: an id is what the caller gave.
        let is_spelt_so = |id: &SessionId| id.to_string() == chat_id;
        let by_id = chat_id
            .parse::<SessionId>()
            .ok()
            .filter(is_spelt_so)
            .and_then(|id| self.session(id));
        by_id
            .filter(|session| session.deleted_at_ms.is_none())
            .or_else(|| self.session_named(chat_id))
    }

    /// The names of the sessions that were deleted.
    pub fn deleted_names(&self) -> HashSet<&str> {
        let sessions = self.by_creation.values().filter_map(|id| self.session(*id));
        sessions
            .filter(|session| session.deleted_at_ms.is_some())
            .filter_map(|session| session.name.as_deref())
            .collect()
    }

    /// The sessions that aren't deleted, the newest first.
    pub fn live_sessions(&self) -> impl Iterator<Item = &Session> {
        self.listed
            .all()
            .iter()
            .rev()
            .filter_map(|created| self.made_at(*created))
            .map(|entry| &entry.session)
    }

    /// A session as a chat, deleted or not.
    pub fn chat(&self, id: SessionId) -> Option<Chat> {
        self.sessions.get(&id).map(SessionEntry::chat)
    }

    /// One page of chats, of those that were made before a place where one is given; and the place to go on before,
    /// `None` on the last page and in an order that has none.
    ///
    /// By at most one of the filters, without keywords, it costs the page and those that a page number passes over. With
    /// more of them, it looks through the chats in memory that the narrowest of them admits, to count them.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a page larger than [`CHAT_PAGE_MAX`], or a cursor in an
    /// order that has none.
    pub fn chats(
        &self,
        filter: &ChatFilter,
        before: Option<ChatPlace>,
    ) -> Result<(ChatList, Option<ChatPlace>)> {
        let pagesize = if filter.pagesize == 0 {
            PAGESIZE
        } else {
            filter.pagesize
        };
        if pagesize > CHAT_PAGE_MAX {
            return Err(Error::invalid(format!(
                "a page has at most {CHAT_PAGE_MAX} chats, not {pagesize}"
            )));
        }
        if before.is_some() && filter.order != ChatOrder::Created {
            return Err(Error::invalid(
                "only the order `created` has a cursor; give a page number",
            ));
        }
        let words: Vec<String> = filter
            .keywords
            .iter()
            .flat_map(|words| words.split_whitespace())
            .map(str::to_lowercase)
            .collect();
        let (mut found, mut counted) = (self.narrowest(filter), Created::new());
        if filter.fields().count() > 1 || !words.is_empty() {
            let admits = |created: &&u64| {
                self.made_at(**created)
                    .is_some_and(|entry| filter.admits(&entry.session, &words))
            };
            counted.extend(found.iter().filter(admits));
            found = &counted;
        }
        let skipped = match before {
            Some(before) => usize::try_from(before.passed).unwrap_or(usize::MAX),
            None => filter.page.saturating_sub(1).saturating_mul(pagesize),
        };
        let places: Vec<u64> = match (before, filter.order) {
            (Some(before), _) => found
                .range(..before.created)
                .rev()
                .take(pagesize)
                .copied()
                .collect(),
            (None, ChatOrder::Created) => found
                .iter()
                .rev()
                .skip(skipped)
                .take(pagesize)
                .copied()
                .collect(),
            (None, order) => self.in_order(found, order, skipped, pagesize),
        };
        let is_more = |last: &&u64| {
            filter.order == ChatOrder::Created && found.range(..**last).next().is_some()
        };
        let next = places.last().filter(is_more).map(|last| ChatPlace {
            created: *last,
            passed: skipped.saturating_add(places.len()) as u64,
        });
        let list = ChatList {
            items: places
                .iter()
                .filter_map(|created| self.made_at(*created))
                .map(SessionEntry::chat)
                .collect(),
            page: skipped / pagesize + 1,
            pagesize,
            pagecount: found.len().div_ceil(pagesize),
            total: found.len(),
            next: None,
        };
        Ok((list, next))
    }

    /// The chats that the filter's narrowest field admits; all of them where it has none.
    fn narrowest(&self, filter: &ChatFilter) -> &Created {
        let lists = filter.fields().map(|field| self.listed.of(field));
        lists
            .min_by_key(|list| list.len())
            .unwrap_or(self.listed.all())
    }

    /// Where some of the chats were made, in an order.
    fn in_order(
        &self,
        found: &Created,
        order: ChatOrder,
        skipped: usize,
        count: usize,
    ) -> Vec<u64> {
        let all = self.listed.all().len();
        // All chats are in order already: whether looking for the page among them is less than ordering those found.
        if skipped.saturating_add(count).saturating_mul(all)
            <= found.len().saturating_mul(found.len())
        {
            let ordered: Box<dyn Iterator<Item = u64>> = match order {
                ChatOrder::LastMessage => Box::new(self.listed.by_last_message()),
                ChatOrder::Created | ChatOrder::Sort => Box::new(self.listed.by_sort()),
            };
            return ordered
                .filter(|created| found.contains(created))
                .skip(skipped)
                .take(count)
                .collect();
        }
        let mut entries: Vec<&SessionEntry> = found
            .iter()
            .rev()
            .filter_map(|created| self.made_at(*created))
            .collect();
        match order {
            ChatOrder::LastMessage => entries.sort_by_key(|entry| Reverse(entry.last_message_at())),
            ChatOrder::Created | ChatOrder::Sort => entries.sort_by_key(|entry| entry.sort()),
        }
        entries
            .into_iter()
            .skip(skipped)
            .take(count)
            .map(|entry| entry.created)
            .collect()
    }
}

impl ChatFilter {
    /// The fields that it limits to one value.
    fn fields(&self) -> impl Iterator<Item = Field<'_>> {
        let status = self.status.map(Field::Status).into_iter();
        let user = self.user_id.as_deref().map(Field::User);
        let team = self.team_id.as_deref().map(Field::Team);
        let assistant = self.assistant_id.as_deref().map(Field::Assistant);
        status.chain(user).chain(team).chain(assistant)
    }

    fn admits(&self, session: &Session, words: &[String]) -> bool {
        let chat = session.chat.as_deref();
        let is = |wanted: &Option<String>, found: Option<&str>| {
            wanted.is_none() || wanted.as_deref() == found
        };
        let has_words = || {
            let title = session.title.as_deref().unwrap_or_default().to_lowercase();
            words.iter().all(|word| title.contains(word))
        };
        session.deleted_at_ms.is_none()
            && self.status.is_none_or(|status| session.status == status)
            && is(
                &self.user_id,
                chat.and_then(|chat| chat.created_by.as_deref()),
            )
            && is(&self.team_id, chat.and_then(|chat| chat.team_id.as_deref()))
            && is(
                &self.assistant_id,
                chat.map(|chat| chat.assistant_id.as_str()),
            )
            && (words.is_empty() || has_words())
    }
}

#[cfg(test)]
mod tests;
