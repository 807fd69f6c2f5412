//! The instances of sessions.

use super::{Catalog, Item};
use crate::{AgentInstance, InstanceId, SessionId};

impl Catalog {
    /// Adds an instance, and returns its place.
    pub(super) fn add_instance(&mut self, instance: &AgentInstance) -> Result<u32, String> {
        let (id, session_id) = (instance.id, instance.session_id);
        let known = self.instances.number(id);
        // A repair lists one again whose creation can't be read; that may be read again later, and counts then.
        if let Some(place) = known.and_then(|known| self.instances.place(known)) {
            return Ok(place);
        }
        let session = self.number(session_id);
        let session = session.ok_or_else(|| format!("no session {session_id}"))?;
        let (number, place) = self.push_instance(instance, session)?;
        self.instances.index_one(id, number);
        Ok(place)
    }

    /// Adds an instance of the session with a number, which isn't found by its id; and returns its number and its place.
    pub(super) fn push_instance(
        &mut self,
        instance: &AgentInstance,
        session: u32,
    ) -> Result<(u32, u32), String> {
        let number = self.instances.next_number();
        let number = number.ok_or("there are too many instances")?;
        let place = self.next_item()?;
        let entry = self.sessions.get_mut(session);
        let entry = entry.ok_or_else(|| format!("no session has the number {session}"))?;
        self.instances
            .push(instance, session, place, &mut entry.instances)?;
        self.items.push(Item::Instance(number));
        Ok((number, place))
    }

    /// The instance with this number.
    pub(super) fn instance_at(&self, number: u32) -> Option<AgentInstance> {
        let session = self.sessions.get(self.instances.session_of(number)?)?;
        self.instances.get(number, session.session.id)
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
        let oldest = self.entry(session).map(|entry| entry.instances.oldest);
        self.instances_from(oldest).map(|(_, instance)| instance)
    }

    /// At most `limit` of a session's instances, the oldest first, from the one with a number on if one is given; and the
    /// number of the first one of the next page. `None` where that is no instance of the session.
    pub fn instances_page(
        &self,
        session: SessionId,
        first: Option<u32>,
        limit: usize,
    ) -> Option<(Vec<AgentInstance>, Option<u32>)> {
        let first = match first {
            Some(first) if self.instance_at(first)?.session_id != session => return None,
            Some(first) => Some(first),
            None => self.entry(session).map(|entry| entry.instances.oldest),
        };
        let mut page = Vec::new();
        for (number, instance) in self.instances_from(first) {
            if page.len() == limit {
                return Some((page, Some(number)));
            }
            page.push(instance);
        }
        Some((page, None))
    }

    /// An instance and the later ones of its session, with their numbers.
    fn instances_from(&self, first: Option<u32>) -> impl Iterator<Item = (u32, AgentInstance)> {
        let numbers = std::iter::successors(first, |number| self.instances.next(*number));
        numbers.map_while(|number| Some((number, self.instance_at(number)?)))
    }
}
