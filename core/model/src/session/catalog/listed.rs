//! [`Listed`]: indexes of sessions by the fields that lists filter and order by, so that a list costs only its page.

use std::{
    collections::{BTreeSet, HashMap},
    sync::OnceLock,
};

use roaring::RoaringBitmap;

use super::entry::SessionEntry;
use crate::{ChatFields, ChatOrder, ChatShare, Session, SessionStatus, table::Chunked};

/// Numbers of sessions.
pub(super) type Numbers = RoaringBitmap;

/// Where a session is in an order, and its number. Every order goes from the highest to the lowest.
pub(super) type Rank = (u64, u32);

/// The sessions of each value of a field; a value without sessions is in it no more.
pub(super) type OfText = HashMap<Box<str>, Numbers>;

/// Invariant: every session is in each of these under its current values; a deleted one only among the deleted.
#[derive(Clone, Debug, Default)]
pub(super) struct Listed {
    all: Numbers,
    deleted: Numbers,
    active: Numbers,
    archived: Numbers,
    /// What only lists of chats need is made when the first of them asks for it: most processes that open a store ask for
    /// one session.
    fields: OnceLock<Fields>,
    by_last_message: OnceLock<BTreeSet<Rank>>,
    by_sort: OnceLock<BTreeSet<Rank>>,
}

/// A field of chats that a list can be filtered by, and its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Field<'a> {
    /// Whatever is a chat.
    Chat,
    Status(SessionStatus),
    User(&'a str),
    Team(&'a str),
    Tenant(&'a str),
    Assistant(&'a str),
    Share(ChatShare),
    /// Shared with this team.
    SharedWith(&'a str),
    Public(bool),
}

/// The chats of each value of each field.
#[derive(Clone, Debug, Default)]
struct Fields {
    all: Numbers,
    active: Numbers,
    archived: Numbers,
    private: Numbers,
    shared: Numbers,
    public: Numbers,
    not_public: Numbers,
    of_user: OfText,
    of_team: OfText,
    of_tenant: OfText,
    of_assistant: OfText,
    shared_with: OfText,
}

impl Listed {
    /// Adds a session to all indexes.
    pub(super) fn insert(&mut self, number: u32, entry: &SessionEntry) {
        if entry.session.deleted_at_ms.is_some() {
            self.deleted.insert(number);
            return;
        }
        self.all.insert(number);
        self.of_status_mut(entry.session.status).insert(number);
        if let Some(fields) = self.fields.get_mut() {
            fields.insert(number, &entry.session);
        }
        for (order, ranks) in self.orders_mut() {
            ranks.insert((entry.rank(order), number));
        }
    }

    /// Removes a session from all indexes, by its current values.
    pub(super) fn remove(&mut self, number: u32, entry: &SessionEntry) {
        if entry.session.deleted_at_ms.is_some() {
            self.deleted.remove(number);
            return;
        }
        self.all.remove(number);
        self.of_status_mut(entry.session.status).remove(number);
        if let Some(fields) = self.fields.get_mut() {
            fields.remove(number, &entry.session);
        }
        for (order, ranks) in self.orders_mut() {
            ranks.remove(&(entry.rank(order), number));
        }
    }

    /// Every session that isn't deleted.
    pub(super) fn all(&self) -> &Numbers {
        &self.all
    }

    /// Every session that is.
    pub(super) fn deleted(&self) -> &Numbers {
        &self.deleted
    }

    /// The sessions of a status that aren't deleted, chats or not.
    pub(super) fn of_status(&self, status: SessionStatus) -> &Numbers {
        match status {
            SessionStatus::Active => &self.active,
            SessionStatus::Archived => &self.archived,
        }
    }

    /// Those of these sessions that are chats of one value of a field.
    pub(super) fn of(
        &self,
        field: Field<'_>,
        sessions: &Chunked<SessionEntry>,
    ) -> Option<&Numbers> {
        let fields = self.fields.get_or_init(|| {
            let mut fields = Fields::default();
            for (number, entry) in self.entries(sessions) {
                fields.insert(number, &entry.session);
            }
            fields
        });
        fields.of(field)
    }

    /// Every one of these sessions that isn't deleted in an order that isn't that of creation.
    pub(super) fn in_order(
        &self,
        order: ChatOrder,
        sessions: &Chunked<SessionEntry>,
    ) -> &BTreeSet<Rank> {
        let ranks = match order {
            ChatOrder::Sort => &self.by_sort,
            ChatOrder::Created | ChatOrder::LastMessage => &self.by_last_message,
        };
        ranks.get_or_init(|| {
            let entries = self.entries(sessions);
            let mut ranks: Vec<Rank> = entries
                .map(|(number, entry)| (entry.rank(order), number))
                .collect();
            runlog_log::order::sort(&mut ranks);
            ranks.into_iter().collect()
        })
    }

    fn entries<'a>(
        &'a self,
        sessions: &'a Chunked<SessionEntry>,
    ) -> impl Iterator<Item = (u32, &'a SessionEntry)> {
        let numbers = self.all.iter();
        numbers.filter_map(|number| Some((number, sessions.get(number)?)))
    }

    fn of_status_mut(&mut self, status: SessionStatus) -> &mut Numbers {
        match status {
            SessionStatus::Active => &mut self.active,
            SessionStatus::Archived => &mut self.archived,
        }
    }

    /// The orders that were asked for.
    fn orders_mut(&mut self) -> impl Iterator<Item = (ChatOrder, &mut BTreeSet<Rank>)> {
        let by_last_message = self.by_last_message.get_mut();
        let by_sort = self.by_sort.get_mut();
        let by_last_message = by_last_message.map(|ranks| (ChatOrder::LastMessage, ranks));
        by_last_message
            .into_iter()
            .chain(by_sort.map(|ranks| (ChatOrder::Sort, ranks)))
    }
}

impl Fields {
    fn insert(&mut self, number: u32, session: &Session) {
        let Some(chat) = &session.chat else { return };
        for list in self.of_few(session.status, chat) {
            list.insert(number);
        }
        for (lists, value) in self.of_texts(chat) {
            if let Some(value) = value {
                add(lists, value, number);
            }
        }
    }

    fn remove(&mut self, number: u32, session: &Session) {
        let Some(chat) = &session.chat else { return };
        for list in self.of_few(session.status, chat) {
            list.remove(number);
        }
        for (lists, value) in self.of_texts(chat) {
            if let Some(value) = value
                && let Some(list) = lists.get_mut(value)
            {
                list.remove(number);
                if list.is_empty() {
                    lists.remove(value);
                }
            }
        }
    }

    /// The lists of a chat by the fields that have few values.
    fn of_few(&mut self, status: SessionStatus, chat: &ChatFields) -> [&mut Numbers; 4] {
        [
            &mut self.all,
            match status {
                SessionStatus::Active => &mut self.active,
                SessionStatus::Archived => &mut self.archived,
            },
            match chat.share {
                ChatShare::Private => &mut self.private,
                ChatShare::Team => &mut self.shared,
            },
            match chat.public {
                true => &mut self.public,
                false => &mut self.not_public,
            },
        ]
    }

    /// The fields that have any text, with that of a chat.
    fn of_texts<'a>(&'a mut self, chat: &'a ChatFields) -> [(&'a mut OfText, Option<&'a str>); 5] {
        let team = chat.team_id.as_deref();
        let is_shared = chat.share == ChatShare::Team;
        [
            (&mut self.of_user, chat.created_by.as_deref()),
            (&mut self.of_team, team),
            (&mut self.of_tenant, chat.tenant_id.as_deref()),
            (&mut self.of_assistant, Some(&chat.assistant_id)),
            (&mut self.shared_with, team.filter(|_| is_shared)),
        ]
    }

    fn of(&self, field: Field<'_>) -> Option<&Numbers> {
        match field {
            Field::Chat => Some(&self.all),
            Field::Status(SessionStatus::Active) => Some(&self.active),
            Field::Status(SessionStatus::Archived) => Some(&self.archived),
            Field::Share(ChatShare::Private) => Some(&self.private),
            Field::Share(ChatShare::Team) => Some(&self.shared),
            Field::Public(true) => Some(&self.public),
            Field::Public(false) => Some(&self.not_public),
            Field::User(user) => self.of_user.get(user),
            Field::Team(team) => self.of_team.get(team),
            Field::Tenant(tenant) => self.of_tenant.get(tenant),
            Field::Assistant(assistant) => self.of_assistant.get(assistant),
            Field::SharedWith(team) => self.shared_with.get(team),
        }
    }
}

/// Adds a session to the list of a value.
pub(super) fn add(lists: &mut OfText, value: &str, number: u32) {
    if let Some(list) = lists.get_mut(value) {
        list.insert(number);
    } else {
        lists.insert(value.into(), Numbers::from_iter([number]));
    }
}
