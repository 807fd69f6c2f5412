//! The catalog's sessions as chats: finding one by its id, and listing them by filter.

use std::{borrow::Cow, collections::HashSet, ops::Bound, sync::LazyLock};

use super::{
    Catalog,
    entry::SessionEntry,
    listed::{Field, Numbers, Rank},
};
use crate::{
    Chat, ChatFilter, ChatList, ChatOrder, ChatPlace, Error, Result, Session, SessionId,
    limits::CHAT_PAGE_MAX,
};

const PAGESIZE: usize = 20;

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
        let deleted = self.listed.deleted().iter();
        let sessions = deleted.filter_map(|number| self.sessions.get(number));
        sessions
            .filter_map(|entry| entry.session.name.as_deref())
            .collect()
    }

    /// A session as a chat, deleted or not.
    pub fn chat(&self, id: SessionId) -> Option<Chat> {
        self.entry(id).map(SessionEntry::chat)
    }

    /// At most `limit` of the chats that a filter admits and that were made before the one with a number, the last one first: each
    /// with its number and its id.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for teams of nobody.
    pub fn chats_before(
        &self,
        filter: &ChatFilter,
        before: Option<u32>,
        limit: usize,
    ) -> Result<Vec<(u32, String)>> {
        check_users(filter)?;
        let found = self.found(filter);
        let numbers = found.range(..before.unwrap_or(u32::MAX)).rev();
        let ids = numbers.filter_map(|number| Some((number, self.look_at(number)?.chat().chat_id)));
        Ok(ids.take(limit).collect())
    }

    /// Whether a filter admits the chat of a session.
    ///
    /// # Errors
    /// As [`chats_before`](Self::chats_before).
    pub fn admits(&self, filter: &ChatFilter, session: SessionId) -> Result<bool> {
        check_users(filter)?;
        let words = filter.words();
        Ok(self
            .session(session)
            .is_some_and(|session| filter.admits(session, &words)))
    }

    /// The sessions that a chat id names or named, deleted ones among them. Scans all sessions.
    pub fn sessions_of_chat(&self, chat_id: &str) -> impl Iterator<Item = &Session> {
        self.sessions_where(move |session| match &session.name {
            Some(name) => name == chat_id,
            None => session.id.to_string() == chat_id,
        })
    }

    /// The sessions that a user made, deleted ones among them. Scans all sessions.
    pub fn sessions_made_by(&self, user: &str) -> impl Iterator<Item = &Session> {
        self.sessions_where(move |session| {
            let chat = session.chat.as_ref();
            chat.and_then(|chat| chat.created_by.as_deref()) == Some(user)
        })
    }

    fn sessions_where(&self, is_it: impl Fn(&Session) -> bool) -> impl Iterator<Item = &Session> {
        let all = self.sessions.iter().map(|entry| &entry.session);
        all.filter(move |session| is_it(session))
    }

    /// The session that was deleted last of those that a chat id names. Scans the deleted sessions.
    pub fn deleted_chat(&self, chat_id: &str) -> Option<&Session> {
        let deleted = self.listed.deleted().iter();
        let named = deleted
            .filter_map(|number| self.look_at(number))
            .map(|entry| &entry.session)
            .filter(|session| match &session.name {
                Some(name) => name == chat_id,
                None => session.id.to_string() == chat_id,
            });
        // Of those deleted in one millisecond, the one made last: the others were deleted before it could be made.
        named.max_by_key(|session| session.deleted_at_ms)
    }

    /// One page of chats, of those after a place where one is given; and the place after which the next page continues,
    /// `None` on the last page.
    ///
    /// By at most one of the filters, without keywords, it costs the page, those that a page number passes over, and where
    /// few of many chats are found, putting those in order: never more than the root of 21 times all. With more filters
    /// it looks through the chats in memory that the narrowest of them admits, to count them.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a page larger than [`CHAT_PAGE_MAX`], or teams of nobody.
    pub fn chats(
        &self,
        filter: &ChatFilter,
        after: Option<ChatPlace>,
    ) -> Result<(ChatList, Option<ChatPlace>)> {
        let pagesize = match filter.pagesize {
            0 => PAGESIZE,
            size @ 1..=CHAT_PAGE_MAX => size,
            size => {
                return Err(Error::invalid(format!(
                    "a page has at most {CHAT_PAGE_MAX} chats, not {size}"
                )));
            }
        };
        check_users(filter)?;
        let found = self.found(filter);
        let (skipped, passed) = match after {
            Some(after) => (0, usize::try_from(after.passed).unwrap_or(usize::MAX)),
            None => {
                let skipped = filter.page.saturating_sub(1).saturating_mul(pagesize);
                (skipped, skipped)
            }
        };
        let end = after.map(|after| (after.rank, self.number_made_from(after.created)));
        let mut ranks = self.in_order(&found, filter, end, skipped, pagesize + 1);
        let is_more = ranks.len() > pagesize;
        ranks.truncate(pagesize);
        let entries = ranks.iter().filter_map(|(_, number)| self.look_at(*number));
        let entries: Vec<&SessionEntry> = entries.collect();
        let next = entries.last().filter(|_| is_more).map(|last| ChatPlace {
            rank: ranks.last().map_or(0, |(rank, _)| *rank),
            created: last.created,
            passed: passed.saturating_add(ranks.len()) as u64,
        });
        let total = count(&found);
        let list = ChatList {
            items: entries.into_iter().map(SessionEntry::chat).collect(),
            page: passed / pagesize + 1,
            pagesize,
            pagecount: total.div_ceil(pagesize),
            total,
            next: None,
        };
        Ok((list, next))
    }

    /// The chats that a filter admits.
    fn found(&self, filter: &ChatFilter) -> Cow<'_, Numbers> {
        let (fields, words, visible) = (fields(filter), filter.words(), visible(filter));
        // Of sessions that needn't be chats there are lists of another kind.
        let mut lists: Vec<&Numbers> = fields.iter().map(|field| self.of(*field)).collect();
        let mut filters = lists.len();
        if let Some(status) = filter.status.filter(|_| filter.sessions) {
            lists.push(self.listed.of_status(status));
            filters += 1;
        }
        let all = if filter.deleted {
            self.listed.deleted()
        } else {
            let narrowest = lists.into_iter().min_by_key(|list| list.len());
            narrowest.unwrap_or(self.listed.all())
        };
        let is_all = words.is_empty() && visible.is_none() && filters <= 1 && !filter.deleted;
        if is_all {
            return Cow::Borrowed(all);
        }
        let visible = visible.iter().flatten().map(|field| self.of(*field));
        let seen: u64 = visible.clone().map(Numbers::len).sum();
        let candidates = if filter.visible_to.is_some() && !filter.deleted && seen < all.len() {
            Cow::Owned(visible.fold(Numbers::new(), |all, list| all | list))
        } else {
            Cow::Borrowed(all)
        };
        let admits = |number: &u32| {
            self.look_at(*number)
                .is_some_and(|entry| filter.admits(&entry.session, &words))
        };
        Cow::Owned(candidates.iter().filter(admits).collect())
    }

    /// The chats of one value of a field.
    fn of(&self, field: Field<'_>) -> &Numbers {
        static NONE: LazyLock<Numbers> = LazyLock::new(Numbers::new);
        self.listed.of(field, &self.sessions).unwrap_or(&NONE)
    }

    /// Some of the chats that were found, in the filter's order, before a rank.
    fn in_order(
        &self,
        found: &Numbers,
        filter: &ChatFilter,
        end: Option<Rank>,
        skipped: usize,
        limit: usize,
    ) -> Vec<Rank> {
        let order = filter.order;
        if order == ChatOrder::Created {
            let end = end.map_or(u32::MAX, |(_, number)| number);
            let numbers = found.range(..end).rev();
            return numbers
                .skip(skipped)
                .take(limit)
                .map(|number| (0, number))
                .collect();
        }
        // All chats are in order already: whether looking for the page among them is less than ordering those found.
        let (all, of_filter) = (count(self.listed.all()), count(found));
        let walked = skipped.saturating_add(limit).saturating_mul(all);
        if !filter.deleted && walked <= of_filter.saturating_mul(of_filter) {
            let end = end.map_or(Bound::Unbounded, Bound::Excluded);
            let ordered = self
                .listed
                .in_order(order, &self.sessions)
                .range((Bound::Unbounded, end))
                .rev();
            let found = ordered.filter(|(_, number)| found.contains(*number));
            return found.skip(skipped).take(limit).copied().collect();
        }
        let entries = found
            .iter()
            .filter_map(|number| Some((number, self.look_at(number)?)));
        let ranks = entries.map(|(number, entry)| (entry.rank(order), number));
        let mut ranks: Vec<Rank> = ranks
            .filter(|rank| end.is_none_or(|end| *rank < end))
            .collect();
        runlog_log::order::sort_by(&mut ranks, |one, other| other.cmp(one));
        ranks.into_iter().skip(skipped).take(limit).collect()
    }
}

/// How many sessions there are.
fn count(numbers: &Numbers) -> usize {
    usize::try_from(numbers.len()).unwrap_or(usize::MAX)
}

/// The fields that a filter limits to one value. Each is said of chats, so that what is none needn't be left out besides.
fn fields(filter: &ChatFilter) -> Vec<Field<'_>> {
    let status = filter.status.filter(|_| !filter.sessions);
    let fields = [
        filter.user_id.as_deref().map(Field::User),
        filter.team_id.as_deref().map(Field::Team),
        filter.tenant_id.as_deref().map(Field::Tenant),
        filter.assistant_id.as_deref().map(Field::Assistant),
        filter.share.map(Field::Share),
        filter.public.map(Field::Public),
        status.map(Field::Status),
    ];
    let mut fields: Vec<Field<'_>> = fields.into_iter().flatten().collect();
    if fields.is_empty() && !filter.sessions {
        fields.push(Field::Chat);
    }
    fields
}

/// The fields of which a chat that is visible has one.
fn visible(filter: &ChatFilter) -> Option<Vec<Field<'_>>> {
    let user = filter.visible_to.as_deref()?;
    let teams = filter.teams.iter().map(|team| Field::SharedWith(team));
    let own = [Field::User(user), Field::Public(true)];
    Some(own.into_iter().chain(teams).collect())
}

fn check_users(filter: &ChatFilter) -> Result<()> {
    for (name, user) in [
        ("visible_to", &filter.visible_to),
        ("user_id", &filter.user_id),
    ] {
        if user.as_deref() == Some("") {
            return Err(Error::invalid(format!(
                "`{name}` is empty, and nobody's id; give the user's, or leave it out for everybody's chats"
            )));
        }
    }
    if filter.visible_to.is_none() && !filter.teams.is_empty() {
        return Err(Error::invalid(
            "`teams` are those of the user of `visible_to`; give that too",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
