//! [`Listed`]: indexes of sessions by the fields that lists filter and order by, so that a list costs only its page.

use std::{
    collections::{BTreeSet, HashMap},
    sync::OnceLock,
};

use super::{Numbers, entry::SessionEntry};
use crate::{ChatOrder, ChatShare, SessionStatus, table::Chunked};

/// Where a session is in an order, and its number. Every order goes from the highest to the lowest.
pub(super) type Rank = (u64, u32);

/// The sessions of each value of the fields of chats.
type Fields = HashMap<Field, Numbers>;

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

/// A field of chats that a list can be filtered by.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Field {
    /// Whatever is a chat.
    Chat,
    Status(SessionStatus),
    User(String),
    Team(String),
    Tenant(String),
    Assistant(String),
    Share(ChatShare),
    /// Shared with this team.
    SharedWith(String),
    Public(bool),
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
        if let Some(lists) = self.fields.get_mut() {
            add(lists, number, entry);
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
        if let Some(lists) = self.fields.get_mut() {
            for field in fields(entry) {
                if let Some(list) = lists.get_mut(&field) {
                    list.remove(number);
                    // An index without sessions is removed.
                    if list.is_empty() {
                        lists.remove(&field);
                    }
                }
            }
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

    /// The chats of each value of a field, of these sessions.
    pub(super) fn fields(&self, sessions: &Chunked<SessionEntry>) -> &Fields {
        self.fields.get_or_init(|| {
            let mut lists = Fields::new();
            for (number, entry) in self.entries(sessions) {
                add(&mut lists, number, entry);
            }
            lists
        })
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

/// Adds a session to the lists of its fields, if it is a chat.
fn add(lists: &mut Fields, number: u32, entry: &SessionEntry) {
    for field in fields(entry) {
        lists.entry(field).or_default().insert(number);
    }
}

fn fields(entry: &SessionEntry) -> Vec<Field> {
    let session = &entry.session;
    let Some(chat) = &session.chat else {
        return Vec::new();
    };
    let mut fields = vec![
        Field::Chat,
        Field::Status(session.status),
        Field::Assistant(chat.assistant_id.clone()),
        Field::Share(chat.share),
        Field::Public(chat.public),
    ];
    fields.extend(chat.created_by.clone().map(Field::User));
    fields.extend(chat.tenant_id.clone().map(Field::Tenant));
    if let Some(team) = &chat.team_id {
        fields.push(Field::Team(team.clone()));
        if chat.share == ChatShare::Team {
            fields.push(Field::SharedWith(team.clone()));
        }
    }
    fields
}
