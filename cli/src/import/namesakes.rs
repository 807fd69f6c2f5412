//! [`Namesakes`]: the sessions of one name in the store, which are told apart by `~2`, `~3`, ….
//!
//! A file may have a hundred thousand sessions of one name, say the samples of one task, which mostly begin alike. A session
//! is compared only with those that its context may go on with, or that may go on with it, by the hashes of their first
//! events.

use std::{
    collections::{HashMap, hash_map::DefaultHasher},
    hash::{Hash, Hasher},
};

use runlog::{
    ErrorKind, RawJson, Session, SessionId, blocking::Store, contexts::ContextEventKind,
    transcripts::Entry,
};

use super::target::Target;
use crate::failure::Result;

/// The sessions of each name that was looked for, as far as they were read.
#[derive(Default)]
pub(super) struct Namesakes {
    of: HashMap<String, Family>,
}

/// How many events of a context are compared by their hashes.
const HASHED_MAX: usize = 64;

/// The sessions of one name: that name itself, and those with a number behind it, up to the first that is free.
#[derive(Default)]
struct Family {
    sessions: Vec<Member>,
    /// By an agent and the hash of a beginning of its context: the places in `sessions` of those whose context had nothing
    /// more, as far as it is compared.
    whole: HashMap<(String, u64), Vec<usize>>,
    /// The place of the first session whose context begins so.
    beginning: HashMap<(String, u64), usize>,
    /// How many of the sessions have an instance of this agent with an event.
    with_agent: HashMap<String, usize>,
}

struct Member {
    id: SessionId,
    /// The agents of its instances that have events.
    begun: Vec<String>,
}

impl Member {
    fn has_begun(&self, agent: &str) -> bool {
        self.begun.iter().any(|begun| begun == agent)
    }
}

impl Namesakes {
    /// The sessions of this name that the target may be the same as, in the order of their numbers, and the first name that
    /// is free.
    pub(super) fn candidates(
        &mut self,
        store: &Store,
        name: &str,
        target: &Target,
        first: &[(usize, Entry)],
    ) -> Result<(Vec<SessionId>, String)> {
        let family = self.of.entry(name.to_owned()).or_default();
        let free = family.read_on(store, name)?;
        Ok((family.candidates(store, target, first)?, free))
    }
}

impl Family {
    /// Reads the sessions that were added since it was read last, and returns the first name that is free.
    fn read_on(&mut self, store: &Store, name: &str) -> Result<String> {
        loop {
            let next = match self.sessions.len() {
                0 => name.to_owned(),
                count => format!("{name}~{}", count + 1),
            };
            let Some(session) = by_name(store, &next)? else {
                return Ok(next);
            };
            self.sessions.push(Member {
                id: session.id,
                begun: Vec::new(),
            });
            self.read(store, self.sessions.len() - 1)?;
        }
    }

    /// Reads how the contexts of a session begin, those that it didn't have when it was read last.
    ///
    /// One that has grown since needs no second look: what it was then is the beginning of whatever goes on with it.
    fn read(&mut self, store: &Store, place: usize) -> Result<()> {
        let member = &mut self.sessions[place];
        let known = member.begun.len();
        for instance in store.instances(member.id)? {
            let agent = instance.agent_name;
            if member.begun[..known].contains(&agent) {
                continue;
            }
            let events = store.contexts().events(instance.id, 1)?.beginning_with(4);
            let mut beginning = Beginning::default();
            let mut key = None;
            for event in events.take(HASHED_MAX) {
                let event = event?;
                let so_far = (
                    agent.clone(),
                    beginning.with(event.event_type, &event.content),
                );
                self.beginning.entry(so_far.clone()).or_insert(place);
                key = Some(so_far);
            }
            let Some(key) = key else { continue };
            self.whole.entry(key).or_default().push(place);
            if !member.has_begun(&agent) {
                *self.with_agent.entry(agent.clone()).or_default() += 1;
                member.begun.push(agent);
            }
        }
        Ok(())
    }

    fn candidates(
        &mut self,
        store: &Store,
        target: &Target,
        first: &[(usize, Entry)],
    ) -> Result<Vec<SessionId>> {
        let of_first = first.iter().find(|(_, entry)| !entry.events.is_empty());
        let instance =
            of_first.and_then(|(place, _)| Some((*place, target.instances.get(*place)?)));
        let Some((own, instance)) = instance.filter(|(_, it)| it.wanted.is_none()) else {
            // Nothing to compare, or with an instance of that id, whatever its agent is called.
            return Ok(self.sessions.iter().map(|member| member.id).collect());
        };
        let agent = &instance.agent;
        let mut places = Vec::new();
        if self.with_agent.get(agent) != Some(&self.sessions.len()) {
            // A session that has nothing of this agent can be resumed, unless it has something by now.
            for place in 0..self.sessions.len() {
                if !self.sessions[place].has_begun(agent) {
                    self.read(store, place)?;
                    places.extend((!self.sessions[place].has_begun(agent)).then_some(place));
                }
            }
        }
        let events = first
            .iter()
            .filter(|(place, _)| *place == own)
            .flat_map(|(_, entry)| &entry.events);
        let mut beginning = Beginning::default();
        let mut key = (agent.clone(), 0);
        for event in events.take(HASHED_MAX) {
            key.1 = beginning.with(event.kind, &event.content);
            places.extend(self.whole.get(&key).into_iter().flatten());
        }
        // Any session that has all of it will do.
        places.extend(self.beginning.get(&key));
        places.sort_unstable();
        places.dedup();
        Ok(places
            .into_iter()
            .map(|place| self.sessions[place].id)
            .collect())
    }
}

/// The hash of the beginning of a context.
#[derive(Default)]
struct Beginning {
    hasher: DefaultHasher,
}

impl Beginning {
    /// The hash with one more event.
    fn with(&mut self, kind: ContextEventKind, content: &RawJson) -> u64 {
        kind.hash(&mut self.hasher);
        content.as_bytes().hash(&mut self.hasher);
        self.hasher.finish()
    }
}

fn by_name(store: &Store, name: &str) -> Result<Option<Session>> {
    match store.find_session(name) {
        Ok(session) if session.name.as_deref() == Some(name) => Ok(Some(session)),
        Ok(_) => Ok(None),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Ambiguous) => {
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}
