//! [`Target`]: a session that is being imported, and how it compares with the one that the store has.

use std::{
    collections::{
        HashMap,
        hash_map::{self, DefaultHasher},
    },
    hash::{Hash, Hasher},
};

use runlog::{
    AgentInstance, ErrorKind, Events, InstanceId, NewInstance, RawJson, Session, Store,
    transcript::{
        self, Entry,
        keep::{Aside, aside_stream},
    },
};

use super::Outcome;
use crate::{
    failure::{Failure, Result},
    kept,
    store::records,
    text,
};

/// A session under way.
pub(super) struct Target {
    pub(super) head: transcript::Session,
    pub(super) instances: Vec<TargetInstance>,
    /// The instances of the session in the store that no other was found to be.
    pub(super) there: Vec<AgentInstance>,
    /// Other entries that the store has and the transcript hasn't told yet, by hash.
    pub(super) others: HashMap<u64, u64>,
    pub(super) waiting: Vec<(usize, Entry)>,
    pub(super) waiting_bytes: usize,
    pub(super) outcome: Outcome,
}

pub(super) struct TargetInstance {
    pub(super) agent: String,
    pub(super) parent: Option<usize>,
    /// The id that the source gives it.
    pub(super) wanted: Option<InstanceId>,
    pub(super) created_at_ms: Option<u64>,
    pub(super) id: Option<InstanceId>,
    /// The events that the store has and the transcript hasn't told yet.
    pub(super) known: Option<Events>,
}

impl TargetInstance {
    /// An instance that nothing in the store was found to be yet.
    pub(super) fn new(
        agent: String,
        parent: Option<usize>,
        wanted: Option<InstanceId>,
        created_at_ms: Option<u64>,
    ) -> Self {
        Self { agent, parent, wanted, created_at_ms, id: None, known: None }
    }
}

impl Target {
    pub(super) fn new(head: transcript::Session) -> Self {
        Self {
            head,
            instances: Vec::new(),
            there: Vec::new(),
            others: HashMap::new(),
            waiting: Vec::new(),
            waiting_bytes: 0,
            outcome: Outcome { what: "created", ..Outcome::default() },
        }
    }

    /// Finds what the session in the store has already.
    pub(super) fn match_session(&mut self, store: &Store, session: &Session) -> Result<()> {
        self.there = store.instances(session.id)?;
        self.match_new_instances(store)?;
        for record in records(store, aside_stream(session.id)) {
            if let Some(Aside::Other(_, json)) = Aside::read(&record?)? {
                *self.others.entry(hash(&json)).or_default() += 1;
            }
        }
        Ok(())
    }

    /// Finds the instances that aren't found yet: by id, or the next one of the same name.
    pub(super) fn match_new_instances(&mut self, store: &Store) -> Result<()> {
        for instance in self.instances.iter_mut().filter(|it| it.id.is_none()) {
            find_instance(store, instance, &mut self.there)?;
        }
        Ok(())
    }

    /// Whether the store has this entry already. Tells a conflict when it has something else in its place.
    pub(super) fn is_known(&mut self, entry: &Entry, place: usize) -> Result<bool> {
        if self.outcome.what == "created" {
            return Ok(false);
        }
        if entry.events.is_empty() {
            let left = self.others.get_mut(&hash(&entry.raw)).filter(|left| **left > 0);
            return Ok(left.map(|left| *left -= 1).is_some());
        }
        let Some(instance) = self.instances.get_mut(place) else { return Ok(false) };
        let Some(known) = &mut instance.known else { return Ok(false) };
        match compare(known, entry)? {
            Fit::Same => Ok(true),
            Fit::Beyond => {
                instance.known = None;
                Ok(false)
            }
            Fit::Different => {
                let name = self.outcome.session.as_ref().and_then(|it| it.name.as_deref()).unwrap_or("of this id");
                let what = format!(
                    "the store's session {} went another way here; neither this nor what follows was written. \
                     To have both, import into another store",
                    text::one_line(name, 60)
                );
                self.outcome.conflict = Some((entry.line, what));
                Ok(false)
            }
        }
    }

    /// Whether the session that was found was read as the transcript is, or at least has one of its agents: else
    /// nothing in it could be compared, and anything would seem to go on with it.
    pub(super) fn is_of_kind(&self, session: &Session) -> bool {
        self.head.record.is_some()
            || kept::format_of(session) == Some(self.head.format)
            || self.there.is_empty()
            || self.instances.iter().any(|instance| instance.id.is_some())
    }

    /// Whether the session that was found has nothing that speaks against these first entries.
    pub(super) fn fits(&self, store: &Store, first: &[(usize, Entry)]) -> Result<bool> {
        let mut known: HashMap<usize, Option<Events>> = HashMap::new();
        for (place, entry) in first.iter().filter(|(_, entry)| !entry.events.is_empty()) {
            let Some(id) = self.instances.get(*place).and_then(|it| it.id) else { continue };
            let cursor = match known.entry(*place) {
                hash_map::Entry::Occupied(cursor) => cursor.into_mut(),
                hash_map::Entry::Vacant(place) => place.insert(Some(store.contexts().events(id, 1)?)),
            };
            let Some(events) = cursor else { continue };
            match compare(events, entry)? {
                Fit::Same => {}
                Fit::Beyond => *cursor = None,
                Fit::Different => return Ok(false),
            }
        }
        Ok(true)
    }

    pub(super) fn forget_match(&mut self) {
        self.there.clear();
        self.others.clear();
        for instance in &mut self.instances {
            instance.id = None;
            instance.known = None;
        }
    }

    /// The instance in the store, made when it isn't there yet; before it those that it hangs on.
    pub(super) fn instance_id(
        &mut self,
        store: &Store,
        session: &Session,
        place: usize,
        time_ms: Option<u64>,
    ) -> Result<InstanceId> {
        let mut chain = vec![place];
        while let Some(parent) = chain.last().and_then(|last| self.instances.get(*last)?.parent) {
            // A parent comes before its children in every source.
            if self.instances.get(parent).is_none_or(|it| it.id.is_some()) || chain.last() <= Some(&parent) {
                break;
            }
            chain.push(parent);
        }
        for place in chain.into_iter().rev() {
            let Some(instance) = self.instances.get(place).filter(|it| it.id.is_none()) else { continue };
            let parent_instance_id = instance.parent.and_then(|parent| self.instances.get(parent)?.id);
            let created_at_ms = instance.created_at_ms.or(time_ms).or(Some(session.created_at_ms));
            let agent = NewInstance::new(session.id, instance.agent.clone());
            let new = NewInstance { parent_instance_id, id: instance.wanted, created_at_ms, ..agent };
            let made = match store.create_instance_with(new.clone()) {
                // Its id is taken by an instance of another session.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    store.create_instance_with(NewInstance { id: None, ..new })
                }
                made => made,
            };
            self.instances[place].id = Some(made?.id);
        }
        let id = self.instances.get(place).and_then(|it| it.id);
        id.ok_or_else(|| Failure::other("an entry of an instance that was never told"))
    }
}

/// How an entry fits what comes next in an instance's context.
enum Fit {
    /// It is there.
    Same,
    /// The context ends before it.
    Beyond,
    /// Something else is there.
    Different,
}

fn compare(known: &mut Events, entry: &Entry) -> Result<Fit> {
    for (index, event) in entry.events.iter().enumerate() {
        match known.next().transpose()? {
            Some(there) if there.event_type == event.kind && there.content == event.content => {}
            None if index == 0 => return Ok(Fit::Beyond),
            _ => return Ok(Fit::Different),
        }
    }
    Ok(Fit::Same)
}

/// Finds an instance among those of the session that no other was taken for.
fn find_instance(store: &Store, instance: &mut TargetInstance, there: &mut Vec<AgentInstance>) -> Result<()> {
    let by_id = there.iter().position(|it| Some(it.id) == instance.wanted);
    let Some(place) = by_id.or_else(|| there.iter().position(|it| it.agent_name == instance.agent)) else {
        return Ok(());
    };
    let found = there.remove(place);
    instance.known = Some(store.contexts().events(found.id, 1)?);
    instance.id = Some(found.id);
    Ok(())
}

fn hash(json: &RawJson) -> u64 {
    let mut hasher = DefaultHasher::new();
    json.as_bytes().hash(&mut hasher);
    hasher.finish()
}
