//! What must be so after every recovery, and at the end, whatever happened.

use std::collections::{BTreeMap, BTreeSet};

use runlog::{
    InstanceId, Run, RunId, RunStatus,
    agents::{OrchestratorOptions, SpawnResult},
    contexts::{ContextEvent, ContextEventKind},
    runs::pause_reason,
};
use runlog_model::{
    SpawnedAgent, StatusChange,
    kinds::{RUN_EXPLAINED, SPACE_SAVED, SPAWNED},
};

use super::{
    agents::AGENTS,
    facts::{Facts, RecordedResults, RunFacts},
    ledger::{Told, ToldCancelled},
};

/// The first law that is broken, told for a person.
pub(super) type Check = Result<(), String>;

/// What a result says of a run whose end the storage refused.
const UNRECORDED: &str = "how the run ended could not be recorded";
/// What a result says of a run that somebody else went on with.
const LEFT: &str = "it could not be resumed";

/// A log, what callers were told of it, and the bounds.
pub(super) struct Laws<'a> {
    pub(super) facts: &'a Facts,
    pub(super) told: &'a Told,
    pub(super) options: &'a OrchestratorOptions,
    /// Whether the storage has refused something so far: an end may then be missing until the next recovery.
    pub(super) had_faults: bool,
}

macro_rules! law {
    ($holds:expr, $($told:tt)*) => {
        if !$holds {
            return Err(format!($($told)*));
        }
    };
}

impl RunFacts {
    fn change_at(&self, position: u64) -> Option<&StatusChange> {
        self.changes
            .iter()
            .rev()
            .find(|(at, _)| *at <= position)
            .map(|(_, change)| change)
    }

    fn status_at(&self, position: u64) -> RunStatus {
        self.change_at(position)
            .map_or(RunStatus::Running, |change| change.status)
    }

    fn status(&self) -> RunStatus {
        self.status_at(u64::MAX)
    }

    /// Where it came to its end for good.
    fn ended(&self) -> Option<u64> {
        self.changes
            .iter()
            .find(|(_, change)| change.status.is_final())
            .map(|(at, _)| *at)
    }

    fn paused(&self) -> Option<(u64, &StatusChange)> {
        self.changes
            .iter()
            .find(|(_, change)| change.status == RunStatus::Paused)
            .map(|(at, change)| (*at, change))
    }
}

impl Laws<'_> {
    /// What holds after every recovery.
    pub(super) fn after_recovery(&self) -> Check {
        if let Some(fault) = self.told.faults.first() {
            return Err(fault.clone());
        }
        let (last, told) = (self.facts.last_position, self.told.position);
        law!(
            last >= told,
            "the log ends at {last}, but was acknowledged to {told}"
        );
        for run in self.told.executions.keys() {
            law!(
                self.facts.runs.contains_key(run),
                "run {run} was executed, but is not there"
            );
        }
        for run in self.facts.runs.values() {
            self.status(run)?;
            self.steps(run)?;
            self.stream(run)?;
            self.parent(run)?;
            self.spawns(run)?;
        }
        self.contexts()?;
        self.messages()?;
        self.told_results()?;
        self.cancellations()?;
        self.told.ends.iter().try_for_each(|end| self.end(end))
    }

    /// What holds once everybody has gone on and nothing is under way.
    pub(super) fn at_the_end(&self) -> Check {
        self.after_recovery()?;
        for (id, run) in &self.facts.runs {
            let is_orphan = run.status() == RunStatus::Paused
                && run.resumed.is_empty()
                && run.paused().is_some_and(|(_, change)| {
                    change.words.pause_reason.as_deref() == Some(pause_reason::ORPHANED)
                });
            law!(
                !is_orphan || self.told.left.contains_key(id),
                "run {id} was cut off, and nobody went on with it"
            );
        }
        Ok(())
    }

    fn run(&self, id: RunId) -> Result<&RunFacts, String> {
        self.facts
            .runs
            .get(&id)
            .ok_or_else(|| format!("run {id} is named, but not there"))
    }

    /// It has paused or ended, once, and whoever goes on from it is one.
    fn status(&self, run: &RunFacts) -> Check {
        use RunStatus::{Cancelled, Paused, Running};
        let id = run.run.id;
        let statuses: Vec<RunStatus> = run
            .changes
            .iter()
            .map(|(_, change)| change.status)
            .collect();
        let is_right = match statuses.as_slice() {
            [Paused, Cancelled] => run.resumed.is_empty(),
            [one] => *one != Running,
            _ => false,
        };
        law!(
            is_right,
            "run {id} became {statuses:?}, and was resumed as {:?}",
            run.resumed
        );
        law!(
            run.resumed.len() <= 1,
            "run {id} was resumed {} times",
            run.resumed.len()
        );
        if let Some((at, by)) = run.resumed.first() {
            let resumed = self.run(*by)?;
            law!(
                resumed.run.resumed_from == Some(id),
                "run {by} doesn't know that it goes on from run {id}"
            );
            law!(
                run.status_at(*at) == Paused,
                "run {id} was resumed while it was {}",
                run.status_at(*at)
            );
        }
        let listed: Vec<&str> = self
            .facts
            .listed
            .get(&id)
            .into_iter()
            .flatten()
            .map(|(_, what)| &what[..])
            .collect();
        let mut own = vec![format!("running {}", run.run.step_count)];
        own.extend(
            run.changes
                .iter()
                .map(|(_, change)| format!("{} {}", change.status, change.step_count)),
        );
        law!(
            listed == own,
            "run {id}: the runs catalog says {listed:?}, its stream {own:?}"
        );
        Ok(())
    }

    /// Steps go on where the run before left off, and stay within their budgets.
    fn steps(&self, run: &RunFacts) -> Check {
        let Run {
            id,
            step_count: before,
            max_steps,
            ref agent_name,
            resumed_from,
            ..
        } = run.run;
        let defined = AGENTS
            .iter()
            .find(|(name, ..)| name == agent_name)
            .and_then(|(_, max_steps, _)| *max_steps);
        law!(
            max_steps == defined,
            "run {id} may take {max_steps:?} steps, its definition says {defined:?}"
        );
        match resumed_from {
            None => law!(before == 0, "run {id} begins at step {before}"),
            Some(old) => {
                let old = self.run(old)?;
                law!(
                    old.resumed.iter().any(|(_, by)| *by == id),
                    "run {id} goes on from run {}, untold",
                    old.run.id
                );
                let steps = old.paused().map(|(_, change)| change.step_count);
                law!(
                    steps == Some(before),
                    "run {id} begins at step {before}, the run before ended at {steps:?}"
                );
                let max = self.options.max_total_steps;
                law!(
                    before < max,
                    "run {id} was resumed after {before} steps, at most {max} are allowed"
                );
            }
        }
        let mut last = before;
        for (_, step) in &run.steps {
            law!(
                *step > last,
                "run {id}: step {step} comes after step {last}"
            );
            last = *step;
        }
        for (_, change) in &run.changes {
            law!(
                change.step_count >= last,
                "run {id} took {last} steps, and says {}",
                change.step_count
            );
            last = change.step_count;
        }
        law!(
            max_steps.is_none_or(|max| last - before <= max),
            "run {id} took {} steps of {max_steps:?}",
            last - before
        );
        Ok(())
    }

    /// Nothing is in its stream once it is over.
    fn stream(&self, run: &RunFacts) -> Check {
        let id = run.run.id;
        let paused = run.paused().map_or(u64::MAX, |(at, _)| at);
        let over = run
            .ended()
            .into_iter()
            .chain(run.resumed.first().map(|(at, _)| *at))
            .min()
            .unwrap_or(u64::MAX);
        for (at, kind) in &run.records {
            // How it ended in words is right behind its end.
            let is_words =
                *kind == RUN_EXPLAINED && run.changes.iter().any(|(change, _)| change + 1 == *at);
            law!(
                *at <= over || is_words,
                "run {id} was over at {over}, and has a record of kind {kind} at {at}"
            );
            let is_change = run.changes.iter().any(|(change, _)| change == at);
            // A space that was not written down yet is, with the end.
            let is_space =
                *kind == SPACE_SAVED && run.changes.iter().any(|(change, _)| *change == at + 1);
            let is_known = *kind == SPAWNED
                || is_words
                || is_change
                || is_space
                || run.resumed.iter().any(|(resumed, _)| resumed == at);
            law!(
                *at <= paused || is_known,
                "run {id} was paused at {paused}, and has a record of kind {kind} at {at}"
            );
        }
        Ok(())
    }

    /// The run that spawned it says so, was there to do so, and takes it with it when it ends.
    fn parent(&self, run: &RunFacts) -> Check {
        let (id, mut depth) = (run.run.id, 0);
        let Some(parent_id) = run.run.parent_run_id else {
            return Ok(());
        };
        let parent = self.run(parent_id)?;
        let line = self.facts.line(id);
        let told = |named: &RunId| {
            parent.spawns.iter().any(|(_, record)| {
                record
                    .agents
                    .iter()
                    .any(|agent| agent.run_id == Some(*named))
            })
        };
        let same = line.iter().take_while(|id| {
            self.facts
                .runs
                .get(id)
                .is_some_and(|run| run.run.parent_run_id == Some(parent_id))
        });
        law!(
            same.clone().any(told),
            "run {id} has run {parent_id} as its parent, which doesn't tell of it"
        );
        let mut above = Some(parent_id);
        while let Some(next) = above {
            depth += 1;
            above = self.run(next)?.run.parent_run_id;
        }
        law!(
            depth <= self.options.depth_max,
            "run {id} is at depth {depth}"
        );
        if !told(&id) {
            return Ok(());
        }
        let status = parent.status_at(run.created);
        let is_right = status == RunStatus::Running
            || (status == RunStatus::Paused && run.run.resumed_from.is_some());
        law!(
            is_right,
            "run {id} was spawned by run {parent_id} while that was {status}"
        );
        let Some(over) = parent.ended().filter(|_| !self.had_faults) else {
            return Ok(());
        };
        // What is stopped with it is written with it, behind it.
        let with_it = |change: &StatusChange| {
            change.status == RunStatus::Cancelled
                || change.words.pause_reason.as_deref() == Some(pause_reason::PARENT)
        };
        let late = run
            .changes
            .iter()
            .find(|(at, change)| *at > over && !with_it(change));
        law!(
            late.is_none(),
            "run {id} became {late:?} after run {parent_id} above it was over at {over}"
        );
        let wrote =
            |at: &u64| *at > over && *at < run.paused().map_or(u64::MAX, |(paused, _)| paused);
        let late = run
            .records
            .iter()
            .find(|(at, _)| wrote(at) && !run.changes.iter().any(|(change, _)| change == at));
        law!(
            late.is_none(),
            "run {id} has a record {late:?} after run {parent_id} above it was over at {over}"
        );
        Ok(())
    }

    /// What it tells of those it spawned is so.
    fn spawns(&self, run: &RunFacts) -> Check {
        let id = run.run.id;
        let mut named = BTreeSet::new();
        for (at, record) in &run.spawns {
            let count = record.count;
            law!(
                count as usize <= self.options.spawn_max,
                "run {id} spawned {count} sub-agents at once"
            );
            for agent in &record.agents {
                law!(
                    agent.index < count,
                    "run {id} tells of request {} of {count}",
                    agent.index
                );
                law!(
                    agent.run_id.is_some() != agent.error.is_some(),
                    "run {id} says neither run nor error: {agent:?}"
                );
                let Some(child_id) = agent.run_id else {
                    continue;
                };
                let child = self.run(child_id)?;
                let parent = child.run.parent_run_id;
                law!(
                    parent == Some(id),
                    "run {id} tells of run {child_id}, whose parent is {parent:?}"
                );
                law!(
                    child.run.agent_name == agent.agent_name,
                    "run {child_id} is of {:?}",
                    child.run.agent_name
                );
                law!(
                    named.insert(child_id),
                    "run {id} tells of run {child_id} twice, at {at} again"
                );
            }
        }
        Ok(())
    }

    /// What is in a context is of a run that was at work there; each call has at most one result.
    fn contexts(&self) -> Check {
        for (instance, events) in &self.facts.contexts {
            for event in events {
                let Some(id) = event.run_id else { continue };
                let (run, at) = (self.run(id)?, event.position);
                law!(
                    run.run.instance_id == *instance,
                    "run {id} wrote to the context of {instance}"
                );
                law!(
                    at > run.created,
                    "run {id} has a message at {at}, from before it was made"
                );
                law!(
                    run.ended().is_none_or(|ended| at < ended),
                    "run {id} has a message at {at}, after its end"
                );
                let closed = run.resumed.first().map_or(0, |(at, _)| *at);
                let is_closing = at < closed && event.event_type == ContextEventKind::ToolResult;
                let is_in_time = run.paused().is_none_or(|(paused, _)| at < paused);
                law!(
                    is_in_time || is_closing,
                    "run {id} has a message at {at}, after it paused"
                );
            }
            let mut calls = BTreeSet::new();
            for result in self.facts.results(*instance) {
                self.result(&result)?;
                law!(
                    calls.insert(result.call_id.clone()),
                    "call {} of {instance} has two results",
                    result.call_id
                );
            }
            Self::order(*instance, events)?;
        }
        Ok(())
    }

    /// No message stands between a call and its result: providers refuse such a context.
    fn order(instance: InstanceId, events: &[ContextEvent]) -> Check {
        let mut open = BTreeSet::new();
        for event in events {
            match event.event_type {
                ContextEventKind::ToolCall => {
                    open.insert(event.tool_call_id.as_deref());
                }
                ContextEventKind::ToolResult => {
                    for mark in &event.tool_results {
                        open.remove(&mark.tool_call_id.as_deref());
                    }
                }
                kind => {
                    let at = event.position;
                    law!(
                        open.is_empty(),
                        "{instance} has a {kind} at {at}, and these calls are open: {open:?}"
                    );
                }
            }
        }
        Ok(())
    }

    /// The recorded results of a spawn are those of the runs it made, as they were then, in the order asked.
    fn result(&self, recorded: &RecordedResults) -> Check {
        let Some(results) = recorded.of_a_spawn() else {
            return Ok(());
        };
        let call_id = &recorded.call_id;
        let of_call = self
            .facts
            .runs
            .values()
            .flat_map(|run| &run.spawns)
            .filter(|(_, told)| told.call_id == *call_id);
        let mut told: BTreeMap<u32, Vec<&SpawnedAgent>> = BTreeMap::new();
        let mut count = None;
        for (_, record) in of_call {
            count = Some(record.count as usize);
            for agent in &record.agents {
                told.entry(agent.index).or_default().push(agent);
            }
        }
        if count.is_none() && results.iter().all(|result| result.run_id.is_none()) {
            // What is refused at the last moment is told to the caller alone.
            return Ok(());
        }
        law!(
            count == Some(results.len()),
            "call {call_id} has {} results of {count:?}",
            results.len()
        );
        for (result, index) in results.iter().zip(0_u32..) {
            let Some(id) = result.run_id else { continue };
            let line = self.facts.line(id);
            let is_told = told.get(&index).is_some_and(|agents| {
                agents
                    .iter()
                    .any(|agent| agent.run_id.is_some_and(|run| line.contains(&run)))
            });
            law!(
                is_told,
                "call {call_id} has a result of run {id}, which isn't its request {index}"
            );
            self.same_as_then(result, recorded.position)?;
        }
        Ok(())
    }

    /// A result says what the log says of the run, up to a position.
    fn same_as_then(&self, result: &SpawnResult, position: u64) -> Check {
        let Some(id) = result.run_id else {
            return Ok(());
        };
        let says = |what: &str| {
            result
                .error
                .as_ref()
                .is_some_and(|error| error.starts_with(what))
        };
        if says(LEFT) {
            return Ok(());
        }
        if says(UNRECORDED) {
            law!(self.had_faults, "run {id} has no end: {:?}", result.error);
            return Ok(());
        }
        if result.pause_reason.as_deref() == Some(pause_reason::PARENT) {
            // Told before it was written, so that the last words of the run above stand behind it: what comes in between
            // is a kill, which pauses it too, or somebody who cancels the tree.
            let first = self
                .run(id)?
                .changes
                .first()
                .map(|(_, change)| change.status);
            let is_right = first
                .is_none_or(|status| matches!(status, RunStatus::Paused | RunStatus::Cancelled));
            law!(
                is_right,
                "run {id}: it was told to be paused with the run above it, and became {first:?}"
            );
            return Ok(());
        }
        let said = (
            result.status,
            result.steps,
            &result.summary,
            &result.pause_reason,
        );
        let changes = self
            .run(id)?
            .changes
            .iter()
            .filter(|(at, _)| *at <= position);
        let logged: Vec<_> = changes
            .map(|(_, change)| {
                (
                    change.status,
                    change.step_count,
                    &change.words.summary,
                    &change.words.pause_reason,
                )
            })
            .collect();
        // One that paused may have been cancelled meanwhile.
        law!(
            logged.contains(&said),
            "run {id}: its result says {said:?}, the log {logged:?}"
        );
        Ok(())
    }

    fn messages(&self) -> Check {
        for told in &self.told.messages {
            let (run, sequence) = (told.run, told.sequence);
            let events = self
                .facts
                .contexts
                .get(&told.instance)
                .map(Vec::as_slice)
                .unwrap_or_default();
            let event = usize::try_from(sequence)
                .ok()
                .and_then(|place| events.get(place.checked_sub(1)?));
            let event = event.ok_or_else(|| {
                format!("message {sequence} of run {run} was acknowledged, and is gone")
            })?;
            let is_same = event.content.as_bytes() == told.json && event.run_id == Some(run);
            law!(
                is_same,
                "message {sequence} of run {run} is another one: {}",
                event.content
            );
            law!(
                event.step_number == Some(told.step),
                "message {sequence} of run {run} is of {:?}",
                event.step_number
            );
            let facts = self.run(run)?;
            let is_told = told.step == facts.run.step_count
                || facts.steps.iter().any(|(_, step)| *step == told.step);
            law!(is_told, "run {run} doesn't tell of step {}", told.step);
        }
        Ok(())
    }

    fn told_results(&self) -> Check {
        for told in &self.told.spawns {
            let parent = told.parent;
            let recorded = self.facts.results(self.run(parent)?.run.instance_id);
            let mut same = recorded.iter().filter(|recorded| match &told.call_id {
                Some(call) => recorded.call_id == *call,
                None => true,
            });
            let is_there =
                same.any(|recorded| recorded.of_a_spawn().as_ref() == Some(&told.results));
            law!(
                is_there,
                "run {parent} was given the results of {:?}, and they are not in its context",
                told.call_id
            );
        }
        Ok(())
    }

    /// Whoever was told that a tree is cancelled finds nothing of it going on, nor of what the runs had left that those
    /// of the tree go on from.
    fn cancellations(&self) -> Check {
        let mut children = BTreeMap::<RunId, Vec<RunId>>::new();
        for run in self.facts.runs.values() {
            run.run
                .parent_run_id
                .into_iter()
                .for_each(|parent| children.entry(parent).or_default().push(run.run.id));
        }
        for ToldCancelled { root, told, seen } in &self.told.cancelled {
            let (mut tree, mut next) = (BTreeSet::new(), vec![*root]);
            while let Some(id) = next.pop() {
                let Some(run) = self
                    .facts
                    .runs
                    .get(&id)
                    .filter(|run| run.created <= *told && tree.insert(run.run.id))
                else {
                    continue;
                };
                next.extend(run.run.resumed_from);
                next.extend(children.get(&id).into_iter().flatten());
                let status = run.status_at(*seen);
                let is_over = status.is_final() || !run.resumed.is_empty();
                law!(
                    is_over,
                    "run {root} was told to be cancelled, but run {id} below it was {status}"
                );
            }
        }
        Ok(())
    }

    /// What waiting for a run gave is what the log has.
    fn end(&self, end: &SpawnResult) -> Check {
        self.same_as_then(end, u64::MAX)
    }
}
