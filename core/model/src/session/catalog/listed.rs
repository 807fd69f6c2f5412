//! [`Listed`]: indexes of sessions by the fields that lists filter by, so that a list costs only its page.

use std::{
    collections::{BTreeSet, HashMap},
    hash::Hash,
};

use super::entry::{Rank, SessionEntry};
use crate::{ChatOrder, ChatShare, SessionStatus};

/// Sessions by the sequence of their creation.
pub(super) type Created = BTreeSet<u64>;

/// Invariant: every session is in each of these under its current values; a deleted one only among the deleted.
#[derive(Clone, Debug, Default)]
pub(super) struct Listed {
    all: Created,
    deleted: Created,
    by_field: HashMap<Field, Created>,
    by_last_message: BTreeSet<Rank>,
    by_sort: BTreeSet<Rank>,
}

/// A field that a list can be filtered by. All but the first apply to chats only.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Field {
    /// Sessions of a status, chats or not.
    Status(SessionStatus),
    /// Whatever is a chat.
    Chat,
    ChatStatus(SessionStatus),
    User(String),
    Team(String),
    Tenant(String),
    Assistant(String),
    Share(ChatShare),
    /// Shared with this team.
    SharedWith(String),
    Public(bool),
}

static NONE: Created = Created::new();

impl Listed {
    /// Adds a session to all indexes.
    pub(super) fn insert(&mut self, entry: &SessionEntry) {
        let created = entry.created;
        if entry.session.deleted_at_ms.is_some() {
            self.deleted.insert(created);
            return;
        }
        self.all.insert(created);
        for field in fields(entry) {
            self.by_field.entry(field).or_default().insert(created);
        }
        self.by_last_message
            .insert(entry.rank(ChatOrder::LastMessage));
        self.by_sort.insert(entry.rank(ChatOrder::Sort));
    }

    /// Removes a session from all indexes, by its current values.
    pub(super) fn remove(&mut self, entry: &SessionEntry) {
        let created = entry.created;
        if entry.session.deleted_at_ms.is_some() {
            self.deleted.remove(&created);
            return;
        }
        self.all.remove(&created);
        for field in fields(entry) {
            if let Some(list) = self.by_field.get_mut(&field) {
                list.remove(&created);
                // An index without sessions is removed.
                if list.is_empty() {
                    self.by_field.remove(&field);
                }
            }
        }
        self.by_last_message
            .remove(&entry.rank(ChatOrder::LastMessage));
        self.by_sort.remove(&entry.rank(ChatOrder::Sort));
    }

    /// Every session that isn't deleted.
    pub(super) fn all(&self) -> &Created {
        &self.all
    }

    /// Every session that is.
    pub(super) fn deleted(&self) -> &Created {
        &self.deleted
    }

    /// The sessions of one value of a field.
    pub(super) fn of(&self, field: &Field) -> &Created {
        self.by_field.get(field).unwrap_or(&NONE)
    }

    /// Every session in an order that isn't that of creation.
    pub(super) fn in_order(&self, order: ChatOrder) -> &BTreeSet<Rank> {
        match order {
            ChatOrder::Sort => &self.by_sort,
            ChatOrder::Created | ChatOrder::LastMessage => &self.by_last_message,
        }
    }
}

fn fields(entry: &SessionEntry) -> Vec<Field> {
    let session = &entry.session;
    let mut fields = vec![Field::Status(session.status)];
    let Some(chat) = &session.chat else {
        return fields;
    };
    fields.extend([
        Field::Chat,
        Field::ChatStatus(session.status),
        Field::Assistant(chat.assistant_id.clone()),
        Field::Share(chat.share),
        Field::Public(chat.public),
    ]);
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

pub(super) fn add(lists: &mut HashMap<String, Created>, value: Option<&str>, created: u64) {
    let Some(value) = value else { return };
    if let Some(list) = lists.get_mut(value) {
        list.insert(created);
    } else {
        lists.insert(value.to_owned(), Created::from([created]));
    }
}
