//! [`Instances`]: the agent instances of all sessions, each linked to the next one of its session.

use super::{Catalog, Item, next_number};
use crate::{
    AgentInstance, InstanceId, SessionId,
    table::{Chunked, Interned, PlaceIndex},
};

/// No instance: the end of a list.
const NONE: u32 = u32::MAX;

/// Every instance by its number: its rank in the order of creation.
#[derive(Clone, Debug, Default)]
pub(super) struct Instances {
    entries: Chunked<Entry>,
    by_id: PlaceIndex,
    agents: Interned,
}

/// An instance as the catalog has it.
#[derive(Clone, Debug)]
struct Entry {
    id: InstanceId,
    parent: Option<InstanceId>,
    created_at_ms: u64,
    /// The number of its session.
    session: u32,
    /// The number of its agent's name.
    agent: u32,
    /// The next instance of its session.
    next: u32,
    /// Its place among the items.
    place: u32,
}

/// The instances of a session, from the oldest to the newest.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    oldest: u32,
    newest: u32,
}

impl Default for List {
    fn default() -> Self {
        Self {
            oldest: NONE,
            newest: NONE,
        }
    }
}

impl Instances {
    /// Makes all instances found by their ids, once they are all there.
    ///
    /// # Errors
    /// The id that two of them have.
    pub(super) fn index(&mut self) -> Result<(), InstanceId> {
        self.by_id.reserve(self.entries.len());
        for (entry, number) in self.entries.iter().zip(0..) {
            let is_it = |other| self.entries.get(other).is_some_and(|it| it.id == entry.id);
            let added = self.by_id.insert_new(entry.id.0.as_u128(), number, is_it);
            added.map_err(|_| entry.id)?;
        }
        Ok(())
    }

    /// The number of the session of the instance with a number.
    pub(super) fn session_of(&self, number: u32) -> Option<u32> {
        Some(self.entries.get(number)?.session)
    }

    fn number(&self, id: InstanceId) -> Option<u32> {
        let is_it = |number| self.entries.get(number).is_some_and(|entry| entry.id == id);
        self.by_id.find(id.0.as_u128(), is_it)
    }
}

impl Catalog {
    /// Adds an instance, and returns its place.
    pub(super) fn add_instance(&mut self, instance: &AgentInstance) -> Result<u32, String> {
        let id = instance.id;
        let known = self
            .instances
            .number(id)
            .and_then(|it| self.instances.entries.get(it));
        // A repair lists one again whose creation can't be read; that may be read again later, and counts then.
        if let Some(known) = known {
            return Ok(known.place);
        }
        let session_id = instance.session_id;
        let session = self.number(session_id);
        let session = session.ok_or_else(|| format!("no session {session_id}"))?;
        let (number, place) = self.push_instance(instance, session)?;
        self.instances.by_id.insert(id.0.as_u128(), number);
        Ok(place)
    }

    /// Adds an instance of the session with a number, which isn't found by its id; and returns its number and its place.
    pub(super) fn push_instance(
        &mut self,
        instance: &AgentInstance,
        session: u32,
    ) -> Result<(u32, u32), String> {
        let number = next_number(self.instances.entries.len())?;
        let agent = self.instances.agents.number(&instance.agent_name);
        let agent = agent.ok_or("there are too many names of agents")?;
        let place = self.add_item(Item::Instance(number))?;
        self.instances.entries.push(Entry {
            id: instance.id,
            parent: instance.parent_instance_id,
            created_at_ms: instance.created_at_ms,
            session,
            agent,
            next: NONE,
            place,
        });
        let Some(entry) = self.sessions.get_mut(session) else {
            return Err(format!("no session has the number {session}"));
        };
        let before = std::mem::replace(&mut entry.instances.newest, number);
        match self.instances.entries.get_mut(before) {
            Some(before) => before.next = number,
            None => entry.instances.oldest = number,
        }
        Ok((number, place))
    }

    /// The instance with this number.
    pub(super) fn instance_at(&self, number: u32) -> Option<AgentInstance> {
        let entry = self.instances.entries.get(number)?;
        Some(AgentInstance {
            id: entry.id,
            session_id: self.sessions.get(entry.session)?.session.id,
            agent_name: self.instances.agents.get(entry.agent)?.to_owned(),
            parent_instance_id: entry.parent,
            created_at_ms: entry.created_at_ms,
        })
    }

    /// The instance with this id.
    pub fn instance(&self, id: InstanceId) -> Option<AgentInstance> {
        self.instance_at(self.instances.number(id)?)
    }

    /// Whether there is an instance with this id.
    pub fn has_instance(&self, id: InstanceId) -> bool {
        self.instances.number(id).is_some()
    }

    /// The instances of a session, in the order they were made.
    pub fn instances(&self, session: SessionId) -> impl Iterator<Item = AgentInstance> {
        let oldest = self
            .entry(session)
            .map_or(NONE, |entry| entry.instances.oldest);
        self.instances_from(oldest).map(|(_, instance)| instance)
    }

    /// At most `limit` of a session's instances, the oldest first, from the one with a number on if one is given; and the
    /// number of the first one of the next page. Empty where that is an instance of another session.
    pub fn instances_page(
        &self,
        session: SessionId,
        first: Option<u32>,
        limit: usize,
    ) -> (Vec<AgentInstance>, Option<u32>) {
        let oldest = self
            .entry(session)
            .map_or(NONE, |entry| entry.instances.oldest);
        let mut of_page = self.instances_from(first.unwrap_or(oldest));
        let mut page = Vec::new();
        for (number, instance) in &mut of_page {
            if instance.session_id != session {
                break;
            }
            if page.len() == limit {
                return (page, Some(number));
            }
            page.push(instance);
        }
        (page, None)
    }

    /// An instance and the later ones of its session, with their numbers.
    fn instances_from(&self, first: u32) -> impl Iterator<Item = (u32, AgentInstance)> {
        let next = |number: &u32| self.instances.entries.get(*number).map(|entry| entry.next);
        let numbers = std::iter::successors(Some(first), next);
        numbers.map_while(|number| Some((number, self.instance_at(number)?)))
    }
}
