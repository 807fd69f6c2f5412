//! [`Target`]: a session that is being imported, compared with the one in the store.

use std::{
    collections::{
        HashMap,
        hash_map::{self, DefaultHasher},
    },
    hash::{Hash, Hasher},
};

use runlog::{
    AgentInstance, InstanceId, NewSession, RawJson, Session, SessionId,
    blocking::{Events, Store},
    sessions::SessionStatus,
    transcripts::{
        self, Entry, ImportMark,
        keep::{Aside, EntryBatch, aside_stream},
    },
};

use super::outcome::{BATCH_BYTES, Outcome, Part};
use crate::{
    failure::{Failure, Result},
    history,
    read::records,
    text,
};

/// A session being imported.
pub(super) struct Target {
    pub(super) head: transcripts::Session,
    pub(super) instances: Vec<TargetInstance>,
    /// The instances of the session in the store that aren't matched yet.
    pub(super) there: Vec<AgentInstance>,
    /// Other entries of the store that the transcript hasn't matched yet, by hash.
    pub(super) others: HashMap<u64, u64>,
    pub(super) waiting: Vec<(usize, Entry)>,
    pub(super) waiting_bytes: usize,
    /// Its destination, once that is known.
    pub(super) placed: Option<Placed>,
    /// The mark in the store of an earlier import of the session, if that took more than one batch.
    earlier: Option<ImportMark>,
    /// Whether the store has the session marked as incomplete, by this import or an earlier one.
    is_begun: bool,
    /// Whether a part of it couldn't be written.
    pub(super) is_failed: bool,
    pub(super) outcome: Outcome,
}

/// The session of the store that a session is imported into.
pub(super) struct Placed {
    pub(super) id: SessionId,
    pub(super) created_at_ms: u64,
    /// The session to create with the first batch, if it doesn't exist yet.
    pub(super) new: Option<NewSession>,
}

pub(super) struct TargetInstance {
    pub(super) agent: String,
    pub(super) parent: Option<usize>,
    /// The id that the source gives it.
    pub(super) wanted: Option<InstanceId>,
    pub(super) created_at_ms: Option<u64>,
    pub(super) id: Option<InstanceId>,
    /// The events of the store that the transcript hasn't matched yet.
    pub(super) known: Option<Events>,
}

impl TargetInstance {
    /// An instance that isn't matched with one of the store yet.
    pub(super) fn new(
        agent: String,
        parent: Option<usize>,
        wanted: Option<InstanceId>,
        created_at_ms: Option<u64>,
    ) -> Self {
        Self {
            agent,
            parent,
            wanted,
            created_at_ms,
            id: None,
            known: None,
        }
    }
}

impl Target {
    pub(super) fn new(head: transcripts::Session) -> Self {
        Self {
            head,
            instances: Vec::new(),
            there: Vec::new(),
            others: HashMap::new(),
            waiting: Vec::new(),
            waiting_bytes: 0,
            placed: None,
            earlier: None,
            is_begun: false,
            is_failed: false,
            outcome: Outcome {
                what: "created",
                ..Outcome::default()
            },
        }
    }

    /// Matches the instances with those of the session in the store.
    pub(super) fn match_session(&mut self, store: &Store, session: &Session) -> Result<()> {
        self.there = store.instances(session.id)?;
        self.match_new_instances(store)?;
        for record in records(store, aside_stream(session.id)) {
            if let Some(Aside::Other(_, json)) = Aside::read(&record?)? {
                *self.others.entry(hash(&json)).or_default() += 1;
            }
        }
        self.earlier = store
            .import_mark(session.id)?
            .filter(|mark| *mark != ImportMark::Done);
        self.is_begun = self.earlier.is_some();
        Ok(())
    }

    /// Matches the instances that aren't matched yet: by id, or with the next one of the same name.
    pub(super) fn match_new_instances(&mut self, store: &Store) -> Result<()> {
        for instance in self.instances.iter_mut().filter(|it| it.id.is_none()) {
            find_instance(store, instance, &mut self.there)?;
        }
        Ok(())
    }

    /// Whether the store has this entry already. Records a conflict if it has a different one in its place.
    pub(super) fn is_known(&mut self, entry: &Entry, place: usize) -> Result<bool> {
        if self.outcome.what == "created" {
            return Ok(false);
        }
        if entry.events.is_empty() {
            let left = self
                .others
                .get_mut(&hash(&entry.raw))
                .filter(|left| **left > 0);
            return Ok(left.map(|left| *left -= 1).is_some());
        }
        let Some(instance) = self.instances.get_mut(place) else {
            return Ok(false);
        };
        let Some(known) = &mut instance.known else {
            return Ok(false);
        };
        match compare(known, entry)? {
            Fit::Same => Ok(true),
            Fit::Beyond => {
                instance.known = None;
                Ok(false)
            }
            Fit::Different => {
                let name = self
                    .outcome
                    .session
                    .as_ref()
                    .and_then(|it| it.name.as_deref())
                    .unwrap_or("of this id");
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

    /// Whether the session in the store was imported from the same format, or at least has one of the transcript's
    /// agents. Otherwise nothing could be compared, and any transcript would seem to continue it.
    pub(super) fn is_of_kind(&self, session: &Session) -> bool {
        self.head.record.is_some()
            || history::format_of(session) == Some(self.head.format)
            || self.there.is_empty()
            || self.instances.iter().any(|instance| instance.id.is_some())
    }

    /// Whether nothing in the session of the store contradicts these first entries.
    pub(super) fn fits(&self, store: &Store, first: &[(usize, Entry)]) -> Result<bool> {
        let mut known: HashMap<usize, Option<Events>> = HashMap::new();
        for (place, entry) in first.iter().filter(|(_, entry)| !entry.events.is_empty()) {
            let Some(id) = self.instances.get(*place).and_then(|it| it.id) else {
                continue;
            };
            let cursor = match known.entry(*place) {
                hash_map::Entry::Occupied(cursor) => cursor.into_mut(),
                hash_map::Entry::Vacant(place) => {
                    // Another session of the name mostly differs within its first events, and there may be a thousand.
                    let events = store.contexts().events(id, 1)?.beginning_with(4);
                    place.insert(Some(events))
                }
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
        (self.earlier, self.is_begun) = (None, false);
        for instance in &mut self.instances {
            instance.id = None;
            instance.known = None;
        }
    }

    /// Writes these entries, except those that the store has already.
    pub(super) fn write(
        &mut self,
        store: &Store,
        entries: Vec<(usize, Entry)>,
        part: Part,
    ) -> Result<()> {
        let Some(placed) = &self.placed else {
            return Ok(());
        };
        let mut batch = EntryBatch::new(placed.id);
        if let Some(new) = &placed.new {
            batch.create_session(new.clone());
            if let Some(wrapper) = &self.head.wrapper {
                batch.push_aside(&Aside::Wrapper(wrapper.clone()));
            }
        }
        // Counted only after the write, which may fail.
        let mut added = Outcome::default();
        for (place, entry) in entries {
            if self.is_known(&entry, place)? {
                self.outcome.skipped += 1;
                self.outcome.skipped_messages += u64::from(entry.is_message());
                continue;
            }
            if self.outcome.conflict.is_some() {
                break;
            }
            let instance = self.instance_id(store, &mut batch, place, entry.time_ms)?;
            batch.push(instance, &entry)?;
            added.count(&entry);
            if batch.bytes() >= BATCH_BYTES {
                self.commit(store, &mut batch, &mut added, Part::Inner)?;
            }
        }
        self.commit(store, &mut batch, &mut added, part)
    }

    /// Writes a batch, with a mark unless it is the whole session.
    fn commit(
        &mut self,
        store: &Store,
        batch: &mut EntryBatch,
        added: &mut Outcome,
        part: Part,
    ) -> Result<()> {
        let is_conflict = self.outcome.conflict.is_some();
        let mut completes = false;
        if part == Part::Last && !is_conflict {
            completes = self.finish(batch);
        } else if !batch.is_empty() && !self.is_begun && !is_conflict {
            let is_new = self.outcome.what == "created";
            batch.mark(if is_new {
                ImportMark::Creating
            } else {
                ImportMark::Adding
            });
            self.is_begun = true;
        }
        let Some(placed) = self.placed.as_mut().filter(|_| !batch.is_empty()) else {
            return Ok(());
        };
        let batch = std::mem::replace(batch, EntryBatch::new(placed.id));
        store
            .write_entries(&batch)
            .map_err(|error| match &placed.new {
                Some(new) => {
                    let name = new.name.as_deref().unwrap_or("without a name");
                    Failure::from(error).about(format!("session {}", text::one_line(name, 60)))
                }
                None => error.into(),
            })?;
        if placed.new.take().is_some() {
            self.outcome.session = store.get_session(placed.id)?;
        }
        if completes {
            self.outcome.what = "completed";
        }
        self.outcome.has_changed = true;
        self.outcome.add(&std::mem::take(added));
        Ok(())
    }

    /// Adds the end of the session to its last batch, and returns whether that completes an earlier import.
    fn finish(&mut self, batch: &mut EntryBatch) -> bool {
        let is_made = self.outcome.what == "created" || self.earlier == Some(ImportMark::Creating);
        let is_archived = self
            .head
            .record
            .as_ref()
            .is_some_and(|it| it.status == SessionStatus::Archived);
        if is_made && is_archived {
            // Only by the import that creates it: a user may have unarchived it since.
            batch.archive_session();
        }
        if self.is_begun {
            batch.mark(ImportMark::Done);
            self.is_begun = false;
        }
        self.earlier.is_some()
    }

    /// The instance in the store, created with the batch if needed, after its parents.
    fn instance_id(
        &mut self,
        store: &Store,
        batch: &mut EntryBatch,
        place: usize,
        time_ms: Option<u64>,
    ) -> Result<InstanceId> {
        let Some(Placed {
            id: session_id,
            created_at_ms,
            ..
        }) = self.placed
        else {
            return Err(Failure::other(
                "an entry of a session that has no place yet",
            ));
        };
        let mut chain = vec![place];
        while let Some(parent) = chain
            .last()
            .and_then(|last| self.instances.get(*last)?.parent)
        {
            // A parent comes before its children in every source.
            if self.instances.get(parent).is_none_or(|it| it.id.is_some())
                || chain.last() <= Some(&parent)
            {
                break;
            }
            chain.push(parent);
        }
        for place in chain.into_iter().rev() {
            let Some(instance) = self.instances.get(place).filter(|it| it.id.is_none()) else {
                continue;
            };
            let parent_instance_id = instance
                .parent
                .and_then(|parent| self.instances.get(parent)?.id);
            let created_at_ms = instance.created_at_ms.or(time_ms).unwrap_or(created_at_ms);
            let is_another = |wanted| self.instances.iter().any(|it| it.id == Some(wanted));
            let id = match instance.wanted {
                Some(wanted) if !is_another(wanted) && store.is_id_free(wanted.as_uuid())? => {
                    wanted
                }
                // Its id is taken by an instance of another session, or by another one of this.
                Some(_) | None => InstanceId(store.backend().new_id()),
            };
            let agent_name = instance.agent.clone();
            batch.create_instance(AgentInstance {
                id,
                session_id,
                agent_name,
                parent_instance_id,
                created_at_ms,
            });
            self.instances[place].id = Some(id);
        }
        let id = self.instances.get(place).and_then(|it| it.id);
        id.ok_or_else(|| Failure::other("an entry of an instance that no line before it declared"))
    }
}

/// How an entry compares with the next events of an instance's context.
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

/// Finds an instance among those of the session that aren't matched yet.
fn find_instance(
    store: &Store,
    instance: &mut TargetInstance,
    there: &mut Vec<AgentInstance>,
) -> Result<()> {
    let by_id = there.iter().position(|it| Some(it.id) == instance.wanted);
    let Some(place) = by_id.or_else(|| there.iter().position(|it| it.agent_name == instance.agent))
    else {
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
