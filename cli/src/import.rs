//! [`Importer`]: what a transcript says, into a store, in batches that are durable before the next one begins.
//!
//! Invariant: a session of the store only grows. Where it has what the transcript says already, that is skipped;
//! where it has something else, nothing is written.

use std::collections::{
    HashMap,
    hash_map::{self, DefaultHasher},
};
use std::hash::{Hash, Hasher};

use runlog::{
    AgentInstance, ContextEventKind, ErrorKind, Events, InstanceId, NewInstance, NewSession, RawJson, Session,
    SessionId, SessionStatus, Store,
    transcript::{
        self, Entry, Item,
        keep::{Aside, EntryBatch, aside_stream},
    },
};

use crate::{
    failure::{Failure, Result},
    kept,
    store::records,
    text, view,
};

/// A batch is committed once it has so many entries,
const BATCH_ENTRIES: usize = 1000;
/// or so many bytes.
const BATCH_BYTES: usize = 4 << 20;
/// The most sessions of one name, told apart by `~2`, `~3`, ….
const NAMESAKES_MAX: u32 = 1000;
/// The longest title that is made from a user's first message.
const TITLE_COLUMNS: usize = 80;

/// What became of one session.
#[derive(Default)]
pub(crate) struct Outcome {
    /// The session; `None` when it could be neither found nor made.
    pub(crate) session: Option<Session>,
    /// `created`, `continued`, `unchanged` or `conflict`.
    pub(crate) what: &'static str,
    /// Messages that were added.
    pub(crate) messages: u64,
    /// Tool calls that were added.
    pub(crate) tool_calls: u64,
    /// Other entries that were added.
    pub(crate) other: u64,
    /// Entries that were there already.
    pub(crate) skipped: u64,
    /// Where the session went another way, and how.
    pub(crate) conflict: Option<(u64, String)>,
}

/// Takes items and writes them.
pub(crate) struct Importer<'a> {
    store: &'a Store,
    project: Option<String>,
    source: String,
    /// The sessions of the file under way, by their number in it.
    targets: HashMap<usize, Target>,
    /// The session and place of an instance, by its number in the file.
    instances: HashMap<usize, (usize, usize)>,
    outcomes: Vec<Outcome>,
}

/// A session under way.
struct Target {
    head: transcript::Session,
    instances: Vec<TargetInstance>,
    /// The instances of the session in the store that no other was found to be.
    there: Vec<AgentInstance>,
    /// Other entries that the store has and the transcript hasn't told yet, by hash.
    others: HashMap<u64, u64>,
    waiting: Vec<(usize, Entry)>,
    waiting_bytes: usize,
    outcome: Outcome,
}

struct TargetInstance {
    agent: String,
    parent: Option<usize>,
    /// The id that the source gives it.
    wanted: Option<InstanceId>,
    created_at_ms: Option<u64>,
    id: Option<InstanceId>,
    /// The events that the store has and the transcript hasn't told yet.
    known: Option<Events>,
}

impl<'a> Importer<'a> {
    /// An importer into this store. `project` is that of the sessions it makes.
    pub(crate) fn new(store: &'a Store, project: Option<String>) -> Self {
        let (targets, instances) = (HashMap::new(), HashMap::new());
        Self { store, project, source: String::new(), targets, instances, outcomes: Vec::new() }
    }

    /// The items that follow are from this source.
    pub(crate) fn start_file(&mut self, source: String) {
        self.source = source;
    }

    /// What became of the sessions of the file, in its order.
    pub(crate) fn take_outcomes(&mut self) -> Vec<Outcome> {
        std::mem::take(&mut self.outcomes)
    }

    /// Takes the next item of a file.
    pub(crate) fn take(&mut self, item: Item) -> Result<()> {
        match item {
            Item::Session(head) => {
                self.targets.insert(head.number, Target::new(head));
                Ok(())
            }
            Item::Instance(instance) => self.instance(instance),
            Item::Entry(entry) => {
                let Some((session, place)) = self.instances.get(&entry.instance).copied() else { return Ok(()) };
                let Some(target) = self.targets.get_mut(&session) else { return Ok(()) };
                target.waiting_bytes += entry.raw.as_bytes().len();
                target.waiting.push((place, entry));
                if target.waiting.len() >= BATCH_ENTRIES || target.waiting_bytes >= BATCH_BYTES {
                    return self.flush(session);
                }
                Ok(())
            }
            Item::End { session } => self.end(session),
            _ => Ok(()),
        }
    }

    /// The file is over, whether whole or not: what was read of it is written.
    pub(crate) fn finish_file(&mut self) -> Result<()> {
        let mut open: Vec<usize> = self.targets.keys().copied().collect();
        open.sort_unstable();
        let mut done = Ok(());
        for session in open {
            done = done.and(self.end(session));
        }
        self.targets.clear();
        self.instances.clear();
        done
    }

    fn instance(&mut self, instance: transcript::Instance) -> Result<()> {
        let Some(target) = self.targets.get_mut(&instance.session) else { return Ok(()) };
        let parent = instance.parent.and_then(|parent| self.instances.get(&parent)).map(|(_, place)| *place);
        let place = target.instances.len();
        target.instances.push(TargetInstance {
            agent: instance.agent,
            parent,
            wanted: instance.id.map(InstanceId),
            created_at_ms: instance.created_at_ms,
            id: None,
            known: None,
        });
        self.instances.insert(instance.number, (instance.session, place));
        target.match_new_instances(self.store)
    }

    fn end(&mut self, session: usize) -> Result<()> {
        let flushed = self.flush(session);
        self.instances.retain(|_, (of, _)| *of != session);
        let Some(target) = self.targets.remove(&session) else { return flushed };
        let is_archived = target.head.record.as_ref().is_some_and(|it| it.status == SessionStatus::Archived);
        let mut outcome = target.outcome;
        if outcome.conflict.is_some() {
            outcome.what = "conflict";
        } else if outcome.what == "continued" && outcome.messages + outcome.tool_calls + outcome.other == 0 {
            outcome.what = "unchanged";
        }
        if let Some(session) = outcome.session.take_if(|_| outcome.what == "created" && is_archived) {
            outcome.session = Some(self.store.archive_session(session.id)?);
        }
        self.outcomes.push(outcome);
        flushed
    }

    /// Writes what waits, and makes or finds the session first.
    fn flush(&mut self, number: usize) -> Result<()> {
        let Some(target) = self.targets.get_mut(&number) else { return Ok(()) };
        let waiting = std::mem::take(&mut target.waiting);
        target.waiting_bytes = 0;
        let session = match &target.outcome.session {
            Some(session) => session.clone(),
            None => find_or_create(self.store, target, &waiting, &self.source, self.project.as_deref())?,
        };
        let mut batch = EntryBatch::new(session.id);
        // Counted once it is there: the disk may be full.
        let mut written = Outcome::default();
        for (place, entry) in waiting {
            if target.is_known(&entry, place)? {
                target.outcome.skipped += 1;
                continue;
            }
            if target.outcome.conflict.is_some() {
                break;
            }
            let instance = target.instance_id(self.store, &session, place, entry.time_ms)?;
            batch.push(instance, &entry)?;
            written.count(&entry);
            if batch.bytes() >= BATCH_BYTES {
                commit(self.store, &mut batch, session.id)?;
                target.outcome.add(&std::mem::take(&mut written));
            }
        }
        commit(self.store, &mut batch, session.id)?;
        target.outcome.add(&written);
        Ok(())
    }
}

impl Outcome {
    fn count(&mut self, entry: &Entry) {
        self.messages += u64::from(entry.is_message());
        self.tool_calls += entry.events.iter().filter(|event| event.kind == ContextEventKind::ToolCall).count() as u64;
        self.other += u64::from(entry.events.is_empty());
    }

    fn add(&mut self, written: &Self) {
        self.messages += written.messages;
        self.tool_calls += written.tool_calls;
        self.other += written.other;
    }
}

fn commit(store: &Store, batch: &mut EntryBatch, session: SessionId) -> Result<()> {
    let batch = std::mem::replace(batch, EntryBatch::new(session));
    if !batch.is_empty() {
        pollster::block_on(store.backend().commit(batch.batch()))?;
    }
    Ok(())
}

/// The session that a transcript's one is in the store: found by id or name, or made.
fn find_or_create(
    store: &Store,
    target: &mut Target,
    first: &[(usize, Entry)],
    source: &str,
    project: Option<&str>,
) -> Result<Session> {
    let by_id = match target.head.id {
        Some(id) => store.get_session(SessionId(id))?,
        None => None,
    };
    let wanted = target.head.name.clone().filter(|name| !name.is_empty());
    let mut name = wanted.clone();
    let mut candidate = match (by_id, &wanted) {
        (None, Some(name)) => by_name(store, name)?,
        (by_id, _) => by_id,
    };
    for next in 2..=NAMESAKES_MAX {
        let Some(session) = candidate else { break };
        target.outcome.what = "continued";
        target.match_session(store, &session)?;
        if target.is_of_kind(&session) && target.fits(store, first)? {
            target.outcome.session = Some(session.clone());
            return Ok(session);
        }
        // Another session has the name (or the id) and says something else: this one gets a name beside it.
        target.forget_match();
        let Some(wanted) = &wanted else { break };
        let beside = format!("{wanted}~{next}");
        candidate = by_name(store, &beside)?;
        name = Some(beside);
    }
    target.outcome.what = "created";
    let session = create(store, target, name, first, source, project)?;
    target.outcome.session = Some(session.clone());
    Ok(session)
}

fn by_name(store: &Store, name: &str) -> Result<Option<Session>> {
    match store.find_session(name) {
        Ok(session) if session.name.as_deref() == Some(name) => Ok(Some(session)),
        Ok(_) => Ok(None),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Ambiguous) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn create(
    store: &Store,
    target: &mut Target,
    name: Option<String>,
    first: &[(usize, Entry)],
    source: &str,
    project: Option<&str>,
) -> Result<Session> {
    let record = target.head.record.as_ref();
    let metadata = match record {
        Some(record) => record.metadata.clone(),
        None => {
            let metadata = serde_json::json!({"source": {"format": target.head.format.name(), "file": source}});
            RawJson::parse(metadata.to_string()).ok()
        }
    };
    let mut new = NewSession {
        id: target.head.id.map(SessionId),
        name,
        project: record.and_then(|it| it.project.clone()).or_else(|| project.map(str::to_owned)),
        title: record.map_or_else(|| title_of(first), |record| record.title.clone()),
        metadata,
        created_at_ms: match record {
            Some(record) => Some(record.created_at_ms),
            None => first.iter().find_map(|(_, entry)| entry.time_ms),
        },
    };
    let made = match store.create_session(new.clone()) {
        // The id is that of another session, or of one that was deleted.
        Err(error) if error.kind() == ErrorKind::AlreadyExists && new.id.take().is_some() => {
            target.instances.iter_mut().for_each(|instance| instance.wanted = None);
            store.create_session(new)
        }
        made => made,
    };
    let session = made.map_err(|error| {
        let name = target.head.name.as_deref().unwrap_or("without a name");
        Failure::from(error).about(format!("session {}", text::one_line(name, 60)))
    })?;
    if let Some(wrapper) = &target.head.wrapper {
        let mut batch = EntryBatch::new(session.id);
        batch.push_aside(&Aside::Wrapper(wrapper.clone()));
        commit(store, &mut batch, session.id)?;
    }
    Ok(session)
}

/// What a session is called for people: what the user said first.
fn title_of(first: &[(usize, Entry)]) -> Option<String> {
    let message = first
        .iter()
        .find(|(_, entry)| entry.events.first().is_some_and(|event| event.kind == ContextEventKind::UserMessage))?;
    let said = view::parts(&message.1.raw).into_iter().find_map(|part| match part {
        view::Part::Text(text) => text.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned),
        _ => None,
    })?;
    Some(text::one_line(&said, TITLE_COLUMNS)).filter(|title| !title.is_empty())
}

impl Target {
    fn new(head: transcript::Session) -> Self {
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
    fn match_session(&mut self, store: &Store, session: &Session) -> Result<()> {
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
    fn match_new_instances(&mut self, store: &Store) -> Result<()> {
        for instance in self.instances.iter_mut().filter(|it| it.id.is_none()) {
            find_instance(store, instance, &mut self.there)?;
        }
        Ok(())
    }

    /// Whether the store has this entry already. Tells a conflict when it has something else in its place.
    fn is_known(&mut self, entry: &Entry, place: usize) -> Result<bool> {
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
    fn is_of_kind(&self, session: &Session) -> bool {
        self.head.record.is_some()
            || kept::format_of(session) == Some(self.head.format)
            || self.there.is_empty()
            || self.instances.iter().any(|instance| instance.id.is_some())
    }

    /// Whether the session that was found has nothing that speaks against these first entries.
    fn fits(&self, store: &Store, first: &[(usize, Entry)]) -> Result<bool> {
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

    fn forget_match(&mut self) {
        self.there.clear();
        self.others.clear();
        for instance in &mut self.instances {
            instance.id = None;
            instance.known = None;
        }
    }

    /// The instance in the store, made when it isn't there yet; before it those that it hangs on.
    fn instance_id(
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
