//! [`Instances`]: the agent instances of all sessions, each linked to the next one of its session.

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
    /// The number of the oldest one.
    pub(super) oldest: u32,
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

    /// The number of the instance with an id.
    pub(super) fn number(&self, id: InstanceId) -> Option<u32> {
        let is_it = |number| self.entries.get(number).is_some_and(|entry| entry.id == id);
        self.by_id.find(id.0.as_u128(), is_it)
    }

    /// Its place among the items.
    pub(super) fn place(&self, number: u32) -> Option<u32> {
        Some(self.entries.get(number)?.place)
    }

    /// The next instance of the same session.
    pub(super) fn next(&self, number: u32) -> Option<u32> {
        Some(self.entries.get(number)?.next)
    }

    /// The number that the next instance gets; `None` when none is left.
    pub(super) fn next_number(&self) -> Option<u32> {
        self.entries.next_place()
    }

    /// The instance with a number, of a session with this id.
    pub(super) fn get(&self, number: u32, session_id: SessionId) -> Option<AgentInstance> {
        let entry = self.entries.get(number)?;
        Some(AgentInstance {
            id: entry.id,
            session_id,
            agent_name: self.agents.get(entry.agent)?.to_owned(),
            parent_instance_id: entry.parent,
            created_at_ms: entry.created_at_ms,
        })
    }

    /// Adds an instance, which isn't found by its id, behind the others of its session.
    pub(super) fn push(
        &mut self,
        instance: &AgentInstance,
        session: u32,
        place: u32,
        of_session: &mut List,
    ) -> Result<(), String> {
        let agent = self.agents.number(&instance.agent_name);
        let number = self.entries.push(Entry {
            id: instance.id,
            parent: instance.parent_instance_id,
            created_at_ms: instance.created_at_ms,
            session,
            agent: agent.ok_or("there are too many names of agents")?,
            next: NONE,
            place,
        });
        let number = number.ok_or("there are too many instances")?;
        let before = std::mem::replace(&mut of_session.newest, number);
        match self.entries.get_mut(before) {
            Some(before) => before.next = number,
            None => of_session.oldest = number,
        }
        Ok(())
    }

    /// Makes an instance found by its id.
    pub(super) fn index_one(&mut self, id: InstanceId, number: u32) {
        self.by_id.insert(id.0.as_u128(), number);
    }
}
