//! [`Importer`]: imports a transcript into a store, in batches of which each is durable before the next one starts.
//!
//! Invariants: a session of the store only grows. Entries of the transcript that it has already are skipped; if it has
//! different ones in their place, nothing is written. A session is either complete, or marked as incomplete until a
//! later import of the same transcript completes it.

use std::collections::HashMap;

use runlog::{
    InstanceId,
    blocking::Store,
    transcripts::{self, Item},
};

use super::{
    namesakes::Namesakes,
    outcome::{BATCH_BYTES, BATCH_ENTRIES, Outcome, Part},
    place::find_or_plan,
    target::{Target, TargetInstance},
};
use crate::failure::Result;

/// Takes items and writes them.
pub(crate) struct Importer<'a> {
    store: &'a Store,
    project: Option<String>,
    source: String,
    /// The sessions of the current file, by their number in it.
    targets: HashMap<usize, Target>,
    /// The session and place of an instance, by its number in the file.
    instances: HashMap<usize, (usize, usize)>,
    namesakes: Namesakes,
    outcomes: Vec<Outcome>,
}

impl<'a> Importer<'a> {
    /// An importer into this store. `project` is that of the sessions it creates.
    pub(crate) fn new(store: &'a Store, project: Option<String>) -> Self {
        let (targets, instances) = (HashMap::new(), HashMap::new());
        Self {
            store,
            project,
            source: String::new(),
            targets,
            instances,
            namesakes: Namesakes::default(),
            outcomes: Vec::new(),
        }
    }

    /// The items that follow are from this source.
    pub(crate) fn start_file(&mut self, source: String) {
        self.source = source;
    }

    /// The results of the file's sessions, in its order.
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
                let Some((session, place)) = self.instances.get(&entry.instance).copied() else {
                    return Ok(());
                };
                let Some(target) = self.targets.get_mut(&session) else {
                    return Ok(());
                };
                target.waiting_bytes += entry.raw.as_bytes().len();
                target.waiting.push((place, entry));
                if target.waiting.len() >= BATCH_ENTRIES || target.waiting_bytes >= BATCH_BYTES {
                    return self.flush(session, Part::Inner);
                }
                Ok(())
            }
            Item::End { session } => self.end(session, Part::Last),
            _ => Ok(()),
        }
    }

    /// Ends the file. If it ended early, the entries read of its incomplete sessions are written.
    pub(crate) fn finish_file(&mut self) -> Result<()> {
        let mut open: Vec<usize> = self.targets.keys().copied().collect();
        open.sort_unstable();
        let mut done = Ok(());
        for session in open {
            done = done.and(self.end(session, Part::BrokenOff));
        }
        self.targets.clear();
        self.instances.clear();
        done
    }

    fn instance(&mut self, instance: transcripts::Instance) -> Result<()> {
        let Some(target) = self.targets.get_mut(&instance.session) else {
            return Ok(());
        };
        let parent = instance
            .parent
            .and_then(|parent| self.instances.get(&parent))
            .map(|(_, place)| *place);
        let place = target.instances.len();
        target.instances.push(TargetInstance::new(
            instance.agent,
            parent,
            instance.id.map(InstanceId),
            instance.created_at_ms,
        ));
        self.instances
            .insert(instance.number, (instance.session, place));
        target.match_new_instances(self.store)
    }

    fn end(&mut self, session: usize, part: Part) -> Result<()> {
        let flushed = self.flush(session, part);
        self.instances.retain(|_, (of, _)| *of != session);
        let Some(target) = self.targets.remove(&session) else {
            return flushed;
        };
        let mut outcome = target.outcome;
        if outcome.conflict.is_some() {
            outcome.what = "conflict";
        } else if outcome.what == "continued" && !outcome.has_changed {
            outcome.what = "unchanged";
        }
        self.outcomes.push(outcome);
        flushed
    }

    /// Writes the pending entries of a session, which is found first or created with them.
    fn flush(&mut self, number: usize, part: Part) -> Result<()> {
        let Some(target) = self.targets.get_mut(&number) else {
            return Ok(());
        };
        if target.is_failed {
            // Later entries would leave a gap.
            return Ok(());
        }
        let waiting = std::mem::take(&mut target.waiting);
        target.waiting_bytes = 0;
        let written = if target.placed.is_none() {
            find_or_plan(
                self.store,
                &mut self.namesakes,
                target,
                &waiting,
                &self.source,
                self.project.as_deref(),
            )
        } else {
            Ok(())
        };
        let written = written.and_then(|()| target.write(self.store, waiting, part));
        target.is_failed = written.is_err();
        written
    }
}
