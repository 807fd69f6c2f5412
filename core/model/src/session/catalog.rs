//! [`Catalog`]: the fold that lists and finds sessions and instances.

use std::collections::{BTreeMap, BTreeSet};

use super::{CatalogEvent, Chat, Session};
use crate::{
    SessionId,
    checkpoint::Progress,
    is_in_copy,
    table::{Chunked, PlaceIndex},
};

mod chats;
mod checkpoint;
mod entry;
mod instances;
mod list;
mod listed;
mod lost;
mod of_session;
mod options;
mod requests;

pub use options::{Deleted, ListInstances, ListSessions};

use entry::SessionEntry;
use instances::Instances;
use listed::{Listed, Numbers, OfText};

/// Sessions and instances, folded from the catalog's events.
///
/// Sessions have numbers, 0, 1, 2, … in the order of their creation, and instances have theirs. What finds them keeps these
/// numbers: a million sessions with an instance each take less than 400 MB, and what only some lists need is made when the first
/// of these asks for it.
///
/// Invariant: every instance belongs to an existing session, and a name belongs to at most one session that isn't
/// deleted. The sequences at which the sessions were made ascend as their numbers do.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    sessions: Chunked<SessionEntry>,
    by_id: PlaceIndex,
    /// Those with a name that aren't deleted.
    by_name: PlaceIndex,
    /// Those of each project, deleted or not.
    by_project: OfText,
    /// Those that were copied from another.
    copies: Numbers,
    listed: Listed,
    /// The chats of the requests that aren't over, by the numbers of these.
    open_requests: BTreeMap<u64, SessionId>,
    instances: Instances,
    /// The sessions whose creation is lost, that were made here, whatever they are called since.
    made_up: BTreeSet<SessionId>,
    /// Sessions and instances in the order they were made.
    items: Vec<Item>,
    progress: Progress,
}

/// What was made: its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Item {
    Session(u32),
    Instance(u32),
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
            CatalogEvent::SessionDescribed(description) => self.change(description.id, |session| {
                session.describe(description);
                Ok(())
            }),
            CatalogEvent::SessionDeleted { id, at_ms } => self.change(id, |session| {
                session.updated_at_ms = at_ms;
                session.deleted_at_ms = Some(at_ms);
                Ok(())
            }),
            CatalogEvent::SessionRestored { id, at_ms } => {
                self.check_name(self.session(id).and_then(|session| session.name.as_deref()))?;
                self.change(id, |session| {
                    session.updated_at_ms = at_ms;
                    session.deleted_at_ms = None;
                    Ok(())
                })
            }
            CatalogEvent::InstanceCreated(instance) => self.add_instance(&instance),
            CatalogEvent::ChatUpdated { id, at_ms, updates } => self.change(id, |session| {
                let chat = Chat::of(session, sequence).updated(&updates, at_ms);
                chat.map_err(|error| error.to_string())?.write_to(session);
                Ok(())
            }),
            CatalogEvent::ChatRequestChanged { id, request } => {
                self.change_request(sequence, id, request)
            }
            CatalogEvent::ChatTouched { id, at_ms } => self.change(id, |session| {
                if at_ms > 0 {
                    let chat = session.chat.get_or_insert_default();
                    chat.last_message_at_ms = chat.last_message_at_ms.max(Some(at_ms));
                }
                Ok(())
            }),
            CatalogEvent::ChatReordered { id } => self.change(id, |session| {
                session.chat.get_or_insert_default().reordered = true;
                Ok(())
            }),
        }
    }

    /// The sessions that were copied from a session, deleted ones too. It looks at all copies.
    pub fn copies_of(&self, id: SessionId) -> Vec<SessionId> {
        let copies = self
            .copies
            .iter()
            .filter_map(|number| self.sessions.get(number));
        copies
            .filter(|entry| entry.session.copied_from == Some(id))
            .map(|entry| entry.session.id)
            .collect()
    }

    /// These sessions, those that they were copied from, and all copies of both, deleted ones too. It looks at all copies once.
    pub fn related(&self, ids: &BTreeSet<SessionId>) -> BTreeSet<SessionId> {
        self.reached(ids, true)
    }

    /// These sessions and all copies of them and of their copies, deleted ones too. It looks at all copies once.
    pub fn with_copies(&self, ids: &BTreeSet<SessionId>) -> BTreeSet<SessionId> {
        self.reached(ids, false)
    }

    /// These sessions, and those that are reached from them from a session to its copies and, if `is_up`, back.
    fn reached(&self, ids: &BTreeSet<SessionId>, is_up: bool) -> BTreeSet<SessionId> {
        let copies = self
            .copies
            .iter()
            .filter_map(|number| self.sessions.get(number));
        let mut of_each: BTreeMap<SessionId, Vec<SessionId>> = BTreeMap::new();
        for Session {
            id, copied_from, ..
        } in copies.map(|entry| &entry.session)
        {
            let Some(source) = *copied_from else { continue };
            of_each.entry(source).or_default().push(*id);
            if is_up {
                of_each.entry(*id).or_default().push(source);
            }
        }
        let mut related = BTreeSet::new();
        let mut next: Vec<SessionId> = ids.iter().copied().collect();
        while let Some(id) = next.pop() {
            if related.insert(id) {
                next.extend(of_each.get(&id).into_iter().flatten());
            }
        }
        related
    }

    /// The copies, except deleted ones, that an id may belong to. It looks at all copies.
    pub fn copies_that_may_have(&self, id: &str) -> Vec<SessionId> {
        let copies = self
            .copies
            .iter()
            .filter_map(|number| self.sessions.get(number));
        copies
            .map(|entry| &entry.session)
            .filter(|copy| copy.deleted_at_ms.is_none() && is_in_copy(copy.id.0, id))
            .map(|copy| copy.id)
            .collect()
    }

    /// Changes a session, and returns its place.
    fn change(
        &mut self,
        id: SessionId,
        change: impl FnOnce(&mut Session) -> Result<(), String>,
    ) -> Result<u32, String> {
        let number = self.number(id).ok_or_else(|| format!("no session {id}"))?;
        self.remove_from_indexes(number);
        let entry = self.sessions.get_mut(number);
        let entry = entry.ok_or_else(|| format!("no session {id}"))?;
        let (place, changed) = (entry.place, change(&mut entry.session));
        self.add_to_indexes(number);
        changed.map(|()| place)
    }

    fn add_session(&mut self, created: u64, session: Session) -> Result<u32, String> {
        // A repair lists one whose creation can't be read; that may be read again later, and counts then.
        if session.is_lost()
            && let Some(entry) = self.entry(session.id)
        {
            return Ok(entry.place);
        }
        self.check_name(session.name.as_deref())?;
        let id = session.id;
        if self.number(id).is_some() {
            return Err(format!("session {id} is there already"));
        }
        let (number, place) = self.push_session(created, session)?;
        self.by_id.insert(id.0.as_u128(), number);
        self.add_to_indexes(number);
        Ok(place)
    }

    /// Adds a session that is found neither by its id nor by anything that may change, and returns its number and its place.
    fn push_session(&mut self, created: u64, session: Session) -> Result<(u32, u32), String> {
        let number = self.sessions.next_place();
        let number = number.ok_or("there are too many sessions")?;
        let place = self.next_item()?;
        self.items.push(Item::Session(number));
        if let Some(project) = session.project.as_deref() {
            listed::add(&mut self.by_project, project, number);
        }
        if session.copied_from.is_some() {
            self.copies.insert(number);
        }
        self.sessions.push(SessionEntry {
            place,
            session,
            created,
            instances: instances::List::default(),
        });
        Ok((number, place))
    }

    /// Refuses a name that a session has which isn't deleted.
    fn check_name(&self, name: Option<&str>) -> Result<(), String> {
        match name.filter(|name| self.number_named(name).is_some()) {
            Some(name) => Err(format!("session name {name:?} is taken already")),
            None => Ok(()),
        }
    }

    /// Adds a session to the indexes by what may change: its name, and the fields that lists filter and order by.
    fn add_to_indexes(&mut self, number: u32) {
        let Some(entry) = self.sessions.get(number) else {
            return;
        };
        self.listed.insert(number, entry);
        if let (Some(name), None) = (&entry.session.name, entry.session.deleted_at_ms) {
            self.by_name.insert(name, number);
        }
    }

    /// Removes a session from those indexes, before it changes.
    fn remove_from_indexes(&mut self, number: u32) {
        let Some(entry) = self.sessions.get(number) else {
            return;
        };
        self.listed.remove(number, entry);
        if let Some(name) = &entry.session.name {
            self.by_name.remove(name, number);
        }
    }

    /// The place that the next item gets.
    fn next_item(&self) -> Result<u32, String> {
        u32::try_from(self.items.len())
            .map_err(|_| "there are too many sessions and instances".to_owned())
    }

    fn number(&self, id: SessionId) -> Option<u32> {
        let is_it = |number| {
            self.sessions
                .get(number)
                .is_some_and(|it| it.session.id == id)
        };
        self.by_id.find(id.0.as_u128(), is_it)
    }

    fn number_named(&self, name: &str) -> Option<u32> {
        let name_at = |number| self.sessions.get(number)?.session.name.as_deref();
        self.by_name
            .find(name, |number| name_at(number) == Some(name))
    }

    fn entry(&self, id: SessionId) -> Option<&SessionEntry> {
        self.sessions.get(self.number(id)?)
    }

    /// The session with this number, counted as one that a list looks at.
    fn look_at(&self, number: u32) -> Option<&SessionEntry> {
        #[cfg(test)]
        LOOKED_AT.set(LOOKED_AT.get() + 1);
        self.sessions.get(number)
    }

    /// The session with this id, deleted or not.
    pub fn session(&self, id: SessionId) -> Option<&Session> {
        self.entry(id).map(|entry| &entry.session)
    }

    /// The session with this name that isn't deleted.
    pub fn session_named(&self, name: &str) -> Option<&Session> {
        let entry = self.sessions.get(self.number_named(name)?)?;
        Some(&entry.session)
    }

    /// The sessions that aren't deleted whose id begins with these hexadecimal digits (hyphens or not), by their ids, at
    /// most `limit`. It looks at every id, which takes milliseconds of a million.
    pub fn sessions_with_prefix(&self, prefix: &str, limit: usize) -> Vec<&Session> {
        let digits: String = prefix.chars().filter(|c| *c != '-').collect();
        let is_hexadecimal = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        if digits.is_empty() || digits.len() > 32 || !is_hexadecimal {
            return Vec::new();
        }
        let Ok(first) = u128::from_str_radix(&format!("{digits:0<32}"), 16) else {
            return Vec::new();
        };
        let rest = 128 - 4 * digits.len();
        let has_it = |id: u128| (id ^ first) >> rest == 0;
        let mut found: Vec<&Session> = (self.sessions.iter())
            .map(|entry| &entry.session)
            .filter(|session| has_it(session.id.0.as_u128()) && session.deleted_at_ms.is_none())
            .collect();
        runlog_log::order::sort_by(&mut found, |one, other| one.id.cmp(&other.id));
        found.truncate(limit);
        found
    }
}

#[cfg(test)]
std::thread_local! {
    /// How many sessions lists looked at, in this thread: what a list costs.
    static LOOKED_AT: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
mod tests;
