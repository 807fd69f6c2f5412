//! [`Listed`]: the sessions that aren't deleted, by what lists of them ask for, so that a page costs the page.

use std::{
    borrow::Borrow,
    cmp::Reverse,
    collections::{BTreeSet, HashMap},
    hash::Hash,
};

use super::entry::SessionEntry;
use crate::SessionStatus;

/// Sessions by the sequence of their creation.
pub(super) type Created = BTreeSet<u64>;

/// Invariant: every session that isn't deleted is in each of these under its current values.
#[derive(Clone, Debug, Default)]
pub(super) struct Listed {
    all: Created,
    by_status: HashMap<SessionStatus, Created>,
    by_user: HashMap<String, Created>,
    by_team: HashMap<String, Created>,
    by_assistant: HashMap<String, Created>,
    by_last_message: BTreeSet<(u64, u64)>,
    by_sort: BTreeSet<(i64, Reverse<u64>)>,
}

/// A field that a list can be limited to one value of.
#[derive(Clone, Copy)]
pub(super) enum Field<'a> {
    Status(SessionStatus),
    User(&'a str),
    Team(&'a str),
    Assistant(&'a str),
}

static NONE: Created = Created::new();

impl Listed {
    /// Takes a session in, where it isn't deleted.
    pub(super) fn insert(&mut self, entry: &SessionEntry) {
        let (session, created) = (&entry.session, entry.created);
        if session.deleted_at_ms.is_some() {
            return;
        }
        self.all.insert(created);
        self.by_status
            .entry(session.status)
            .or_default()
            .insert(created);
        if let Some(chat) = &session.chat {
            add(&mut self.by_user, chat.created_by.as_deref(), created);
            add(&mut self.by_team, chat.team_id.as_deref(), created);
            add(&mut self.by_assistant, Some(&chat.assistant_id), created);
        }
        self.by_last_message
            .insert((entry.last_message_at(), created));
        self.by_sort.insert((entry.sort(), Reverse(created)));
    }

    /// Takes a session out, as it is now.
    pub(super) fn remove(&mut self, entry: &SessionEntry) {
        let (session, created) = (&entry.session, entry.created);
        if session.deleted_at_ms.is_some() {
            return;
        }
        self.all.remove(&created);
        take(&mut self.by_status, Some(&session.status), created);
        if let Some(chat) = &session.chat {
            take(&mut self.by_user, chat.created_by.as_deref(), created);
            take(&mut self.by_team, chat.team_id.as_deref(), created);
            take(
                &mut self.by_assistant,
                Some(chat.assistant_id.as_str()),
                created,
            );
        }
        self.by_last_message
            .remove(&(entry.last_message_at(), created));
        self.by_sort.remove(&(entry.sort(), Reverse(created)));
    }

    /// Every session.
    pub(super) fn all(&self) -> &Created {
        &self.all
    }

    /// The sessions of one value of a field.
    pub(super) fn of(&self, field: Field<'_>) -> &Created {
        let found = match field {
            Field::Status(status) => self.by_status.get(&status),
            Field::User(user) => self.by_user.get(user),
            Field::Team(team) => self.by_team.get(team),
            Field::Assistant(assistant) => self.by_assistant.get(assistant),
        };
        found.unwrap_or(&NONE)
    }

    /// The one with the latest message first, of those alike the newest.
    pub(super) fn by_last_message(&self) -> impl Iterator<Item = u64> + '_ {
        self.by_last_message
            .iter()
            .rev()
            .map(|(_, created)| *created)
    }

    /// By the `sort` field, the lowest first, of those alike the newest.
    pub(super) fn by_sort(&self) -> impl Iterator<Item = u64> + '_ {
        self.by_sort.iter().map(|(_, Reverse(created))| *created)
    }
}

pub(super) fn add(lists: &mut HashMap<String, Created>, value: Option<&str>, created: u64) {
    let Some(value) = value else { return };
    if let Some(list) = lists.get_mut(value) {
        list.insert(created);
    } else {
        lists.insert(value.to_owned(), Created::from([created]));
    }
}

/// A value that no session has any more is forgotten.
fn take<Key, Value>(lists: &mut HashMap<Key, Created>, value: Option<&Value>, created: u64)
where
    Key: Borrow<Value> + Hash + Eq,
    Value: Hash + Eq + ?Sized,
{
    let Some(value) = value else { return };
    let Some(list) = lists.get_mut(value) else {
        return;
    };
    list.remove(&created);
    if list.is_empty() {
        lists.remove(value);
    }
}
