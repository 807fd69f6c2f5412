//! [`Catalog`]: the fold that lists and finds sessions and instances.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Bound,
};

use serde::{Deserialize, Deserializer};
use uuid::Uuid;

use super::{AgentInstance, CatalogEvent, Chat, Session, SessionStatus};
use crate::{InstanceId, SessionId, Timestamp, checkpoint::Progress, is_in_copy};

mod chats;
mod checkpoint;
mod entry;
mod listed;
mod lost;
mod requests;

use entry::SessionEntry;
use listed::{Created, Field, Listed};

/// Sessions and instances, folded from the catalog's events.
///
/// Invariant: every instance belongs to an existing session, and a name belongs to at most one session that isn't
/// deleted.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    sessions: BTreeMap<SessionId, SessionEntry>,
    /// The sessions by the sequence of their creation, for listing them in an order that stays.
    by_creation: BTreeMap<u64, SessionId>,
    /// Those of each project, deleted or not.
    by_project: HashMap<String, Created>,
    /// Those that aren't deleted.
    listed: Listed,
    by_name: HashMap<String, SessionId>,
    /// The chats of the requests that aren't over, by the numbers of these.
    open_requests: BTreeMap<u64, SessionId>,
    instances: HashMap<InstanceId, AgentInstance>,
    /// Sessions and instances in the order they were made.
    items: Vec<Item>,
    progress: Progress,
}

/// What was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Item {
    Session(SessionId),
    Instance(InstanceId),
}

/// Which sessions to list, and how many.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ListSessions {
    /// Only sessions of this status; `None` is both.
    pub status: Option<SessionStatus>,
    /// Only sessions of this project; `None` is all.
    pub project: Option<String>,
    /// Whether deleted sessions are listed too; `true` or `false` in JSON.
    #[serde(deserialize_with = "deleted")]
    #[cfg_attr(feature = "schema", schemars(with = "bool"))]
    pub deleted: Deleted,
    /// The maximum number of items.
    pub limit: usize,
    /// Where to continue: the [`next`](crate::Page::next) of the previous page.
    pub cursor: Option<String>,
}

/// Which of a session's instances to list.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ListInstances {
    /// The maximum number of items.
    pub limit: usize,
    /// Where to continue: the [`next`](crate::Page::next) of the previous page.
    pub cursor: Option<String>,
}

impl Default for ListInstances {
    fn default() -> Self {
        Self {
            limit: 50,
            cursor: None,
        }
    }
}

/// Whether deleted items are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Deleted {
    /// They are hidden.
    #[default]
    Hidden,
    /// They are shown.
    Shown,
}

fn deleted<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Deleted, D::Error> {
    Ok(match Option::<bool>::deserialize(deserializer)? {
        Some(true) => Deleted::Shown,
        _ => Deleted::Hidden,
    })
}

impl Default for ListSessions {
    fn default() -> Self {
        Self {
            status: None,
            project: None,
            deleted: Deleted::Hidden,
            limit: 50,
            cursor: None,
        }
    }
}

impl Catalog {
    /// An empty catalog.
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies the next event, and returns the place of the item that it created or changed.
    fn fold(&mut self, sequence: u64, event: CatalogEvent) -> Result<u32, String> {
        if self.progress.is_incomplete() {
            self.make_up_for_lost(sequence, &event)?;
        }
        match event {
            CatalogEvent::SessionCreated(session) => self.add_session(sequence, session),
            CatalogEvent::SessionUpdated { id, at_ms, changes } => self.change(id, |session| {
                session.updated_at_ms = at_ms;
                if let Some(title) = changes.title {
                    session.title = Some(title).filter(|title| !title.is_empty());
                }
                session.status = changes.status.unwrap_or(session.status);
                session.metadata = changes.metadata.or(session.metadata.take());
                Ok(())
            }),
            CatalogEvent::SessionDeleted { id, at_ms } => {
                let name = self.session(id).and_then(|session| session.name.clone());
                let place = self.change(id, |session| {
                    session.updated_at_ms = at_ms;
                    session.deleted_at_ms = Some(at_ms);
                    Ok(())
                })?;
                if let Some(name) = name {
                    self.by_name.remove(&name);
                }
                Ok(place)
            }
            CatalogEvent::SessionRestored { id, at_ms } => {
                let name = self.session(id).and_then(|session| session.name.clone());
                if let Some(name) = &name
                    && self.by_name.contains_key(name)
                {
                    return Err(format!("session name {name:?} is taken already"));
                }
                let place = self.change(id, |session| {
                    session.updated_at_ms = at_ms;
                    session.deleted_at_ms = None;
                    Ok(())
                })?;
                self.by_name.extend(name.map(|name| (name, id)));
                Ok(place)
            }
            CatalogEvent::InstanceCreated(instance) => self.add_instance(instance),
            CatalogEvent::ChatUpdated { id, at_ms, updates } => self.change(id, |session| {
                let chat = Chat::of(session, sequence).updated(&updates, Timestamp(at_ms));
                chat.map_err(|error| error.to_string())?.write_to(session);
                Ok(())
            }),
            CatalogEvent::ChatRequestChanged { id, request } => {
                self.change_request(sequence, id, request)
            }
            CatalogEvent::ChatTouched { id, at_ms } => self.change(id, |session| {
                if at_ms > 0 {
                    let chat = session.chat.get_or_insert_default();
                    chat.last_message_at = chat.last_message_at.max(Some(Timestamp(at_ms)));
                }
                Ok(())
            }),
            CatalogEvent::ChatReordered { id } => self.change(id, |session| {
                session.chat.get_or_insert_default().reordered = true;
                Ok(())
            }),
        }
    }

    /// The sessions that were copied from a session, deleted ones too. Scans all sessions.
    pub fn copies_of(&self, id: SessionId) -> Vec<SessionId> {
        let copies = self
            .sessions
            .values()
            .filter(|entry| entry.session.copied_from == Some(id));
        copies.map(|entry| entry.session.id).collect()
    }

    /// The copies, except deleted ones, that an id may belong to: it scans all sessions.
    pub fn copies_that_may_have(&self, id: &str) -> Vec<SessionId> {
        let copies = self.sessions.iter().filter(|(_, entry)| {
            entry.session.copied_from.is_some() && entry.session.deleted_at_ms.is_none()
        });
        copies
            .filter(|(copy, _)| is_in_copy(copy.0, id))
            .map(|(copy, _)| *copy)
            .collect()
    }

    /// Changes a session, and returns its place.
    fn change(
        &mut self,
        id: SessionId,
        change: impl FnOnce(&mut Session) -> Result<(), String>,
    ) -> Result<u32, String> {
        let entry = self
            .sessions
            .get_mut(&id)
            .ok_or_else(|| format!("no session {id}"))?;
        self.listed.remove(entry);
        let changed = change(&mut entry.session);
        self.listed.insert(entry);
        changed.map(|()| entry.place)
    }

    fn add_session(&mut self, created: u64, session: Session) -> Result<u32, String> {
        // A repair lists one whose creation can't be read; that may be read again later, and counts then.
        if session.is_lost() && self.sessions.contains_key(&session.id) {
            return self.place_of(&Item::Session(session.id));
        }
        if let Some(name) = session
            .name
            .as_ref()
            .filter(|name| self.by_name.contains_key(*name))
        {
            return Err(format!("session name {name:?} is taken already"));
        }
        let (id, name) = (session.id, session.name.clone());
        let place = self.add_nameless(created, session)?;
        self.by_name.extend(name.map(|name| (name, id)));
        self.sessions
            .get(&id)
            .into_iter()
            .for_each(|entry| self.listed.insert(entry));
        Ok(place)
    }

    /// Adds a session without indexing its name and its list fields.
    fn add_nameless(&mut self, created: u64, session: Session) -> Result<u32, String> {
        let id = session.id;
        if self.sessions.contains_key(&id) {
            return Err(format!("session {id} is there already"));
        }
        let place = self.add_item(Item::Session(id))?;
        self.by_creation.insert(created, id);
        listed::add(&mut self.by_project, session.project.as_deref(), created);
        self.sessions.insert(
            id,
            SessionEntry {
                place,
                session,
                created,
                instances: Vec::new(),
            },
        );
        Ok(place)
    }

    fn add_instance(&mut self, instance: AgentInstance) -> Result<u32, String> {
        let id = instance.id;
        // A repair lists one again whose creation can't be read; that may be read again later, and counts then.
        if self.instances.contains_key(&id) {
            return self.place_of(&Item::Instance(id));
        }
        let session_id = instance.session_id;
        if !self.sessions.contains_key(&session_id) {
            return Err(format!("no session {session_id}"));
        }
        let place = self.add_item(Item::Instance(id))?;
        self.sessions
            .get_mut(&session_id)
            .into_iter()
            .for_each(|entry| entry.instances.push(id));
        self.instances.insert(id, instance);
        Ok(place)
    }

    fn place_of(&self, item: &Item) -> Result<u32, String> {
        let place = self.items.iter().position(|there| there == item);
        place
            .and_then(|place| u32::try_from(place).ok())
            .ok_or_else(|| format!("{item:?} has no place"))
    }

    fn add_item(&mut self, item: Item) -> Result<u32, String> {
        let place = u32::try_from(self.items.len())
            .map_err(|_| "there are too many sessions and instances")?;
        self.items.push(item);
        Ok(place)
    }

    /// The session with this id, deleted or not.
    pub fn session(&self, id: SessionId) -> Option<&Session> {
        self.sessions.get(&id).map(|entry| &entry.session)
    }

    /// The session with this name that isn't deleted.
    pub fn session_named(&self, name: &str) -> Option<&Session> {
        self.by_name.get(name).and_then(|id| self.session(*id))
    }

    /// The sessions that aren't deleted whose id begins with these hexadecimal digits (hyphens or not), at
    /// most `limit`.
    pub fn sessions_with_prefix(&self, prefix: &str, limit: usize) -> Vec<&Session> {
        let digits: String = prefix.chars().filter(|c| *c != '-').collect();
        if digits.is_empty() || digits.len() > 32 {
            return Vec::new();
        }
        let Ok(first) = u128::from_str_radix(&format!("{digits:0<32}"), 16) else {
            return Vec::new();
        };
        let first = SessionId(Uuid::from_u128(first));
        self.sessions
            .range((Bound::Included(first), Bound::Unbounded))
            .take_while(|(id, _)| {
                id.0.simple()
                    .to_string()
                    .starts_with(&digits.to_ascii_lowercase())
            })
            .map(|(_, entry)| &entry.session)
            .filter(|session| session.deleted_at_ms.is_none())
            .take(limit)
            .collect()
    }

    /// One page of sessions, newest first, of those that were made before a place; and the place before which the next
    /// page continues, `None` on the last page. It costs the sessions of the page, and those that pass one of the
    /// filters and not another: the most selective filter is followed.
    pub fn list(&self, options: &ListSessions, before: Option<u64>) -> (Vec<Session>, Option<u64>) {
        let (mut sessions, mut last_seen) = (Vec::new(), None);
        for sequence in self.walk(options, before.unwrap_or(u64::MAX)) {
            let Some(session) = self.made_at(sequence).map(|entry| &entry.session) else {
                continue;
            };
            if !options.admits(session) {
                continue;
            }
            if sessions.len() == options.limit {
                return (sessions, last_seen);
            }
            sessions.push(session.clone());
            last_seen = Some(sequence);
        }
        (sessions, None)
    }

    /// Where the sessions of a list were made, newest first, some others among them.
    fn walk(&self, options: &ListSessions, before: u64) -> Box<dyn Iterator<Item = u64> + '_> {
        let nothing = || -> Box<dyn Iterator<Item = u64>> { Box::new(std::iter::empty()) };
        let mut lists = Vec::new();
        if let Some(project) = &options.project {
            let Some(of_project) = self.by_project.get(project) else {
                return nothing();
            };
            lists.push(of_project);
        }
        if options.deleted == Deleted::Hidden {
            lists.push(options.status.map_or(self.listed.all(), |status| {
                self.listed.of(&Field::Status(status))
            }));
        }
        match lists.into_iter().min_by_key(|list| list.len()) {
            Some(list) => Box::new(list.range(..before).rev().copied()),
            None => Box::new(
                self.by_creation
                    .range(..before)
                    .rev()
                    .map(|(sequence, _)| *sequence),
            ),
        }
    }

    /// The session that was made at a sequence.
    fn made_at(&self, sequence: u64) -> Option<&SessionEntry> {
        #[cfg(test)]
        LOOKED_AT.set(LOOKED_AT.get() + 1);
        self.sessions.get(self.by_creation.get(&sequence)?)
    }

    /// The instance with this id.
    pub fn instance(&self, id: InstanceId) -> Option<&AgentInstance> {
        self.instances.get(&id)
    }

    /// The instances of a session, in the order they were made.
    pub fn instances(&self, session: SessionId) -> impl Iterator<Item = &AgentInstance> {
        self.instance_ids(session)
            .iter()
            .filter_map(|id| self.instance(*id))
    }

    /// At most `limit` of a session's instances, after skipping the given number, and the number to skip for the next
    /// page.
    pub fn instances_after(
        &self,
        session: SessionId,
        passed: usize,
        limit: usize,
    ) -> (Vec<AgentInstance>, Option<usize>) {
        let ids = self.instance_ids(session);
        let end = passed.saturating_add(limit);
        let page = ids.get(passed..end.min(ids.len())).unwrap_or_default();
        let items = page.iter().filter_map(|id| self.instance(*id)).cloned();
        (items.collect(), (end < ids.len()).then_some(end))
    }

    fn instance_ids(&self, session: SessionId) -> &[InstanceId] {
        self.sessions
            .get(&session)
            .map(|entry| entry.instances.as_slice())
            .unwrap_or_default()
    }
}

impl ListSessions {
    fn admits(&self, session: &Session) -> bool {
        (self.deleted == Deleted::Shown || session.deleted_at_ms.is_none())
            && self.status.is_none_or(|status| session.status == status)
            && self
                .project
                .as_ref()
                .is_none_or(|project| session.project.as_ref() == Some(project))
    }
}

#[cfg(test)]
std::thread_local! {
    /// How many sessions lists looked at, in this thread: what a list costs.
    static LOOKED_AT: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
mod tests;
