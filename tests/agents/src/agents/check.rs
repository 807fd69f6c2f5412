//! [`check`]: holds a store against the scripts of what was recorded in it.

use std::collections::{BTreeMap, BTreeSet};

use runlog::{
    AgentInstance, Run, RunId, RunStatus, Session,
    blocking::Store,
    pages::Page,
    runs::{ListRunMessages, ListToolCalls, ToolCall, ToolCallStatus, pause_reason},
};

use super::{
    seen::{Seen, is_cut_off},
    tasks::{Answer, Line, Task},
    work::{ROOT, helper_name, newest_first, session_name},
};

/// What a process said was acknowledged before it was killed.
#[derive(Clone, Debug, Default)]
pub struct Acknowledged {
    /// How many messages and results of each task.
    pub counts: BTreeMap<String, usize>,
    /// The tasks that are done.
    pub done: BTreeSet<String>,
    /// The runs that go on from another.
    pub resumed: BTreeMap<String, BTreeSet<String>>,
}

impl Acknowledged {
    /// Takes a line of what the process said. One that was cut off says nothing.
    pub fn take(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            [name, "done"] => {
                self.done.insert((*name).to_owned());
            }
            [name, "resumed", run] if run.len() == 36 => {
                self.resumed
                    .entry((*name).to_owned())
                    .or_default()
                    .insert((*run).to_owned());
            }
            [name, count] => {
                if let Ok(count) = count.parse::<usize>() {
                    let last = self.counts.entry((*name).to_owned()).or_default();
                    *last = count.max(*last);
                }
            }
            _ => {}
        }
    }
}

/// What was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Found {
    /// Runs, those that go on from others counted on their own.
    pub runs: usize,
    /// Runs that go on from another.
    pub resumes: usize,
    /// Messages and results of the scripts.
    pub lines: usize,
    /// Tool calls.
    pub calls: usize,
    /// Tool calls that were closed because nobody knew what came of them.
    pub cut_off: usize,
}

/// Whether everything must be there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// All of every task, and nothing else.
    Whole,
    /// What was acknowledged, and what may have been on its way.
    Begun,
}

/// Holds what is in a store against the scripts and against what was acknowledged. Tells what isn't right.
pub fn check(
    store: &Store,
    tasks: &[Task],
    acknowledged: &Acknowledged,
    extent: Extent,
) -> Result<Found, String> {
    let check = Check {
        store,
        acknowledged,
        extent,
    };
    let mut found = Found::default();
    for task in tasks {
        match store.find_session(&session_name(task)) {
            Ok(session) => check.task(task, &session, &mut found)?,
            Err(error)
                if extent == Extent::Whole || acknowledged.counts.contains_key(&task.name) =>
            {
                return Err(error.to_string());
            }
            Err(_) => {}
        }
    }
    let listed = check.all_runs()?;
    if listed != found.runs {
        return Err(format!(
            "{listed} runs are listed, {} belong to the tasks",
            found.runs
        ));
    }
    Ok(found)
}

struct Check<'a> {
    store: &'a Store,
    acknowledged: &'a Acknowledged,
    extent: Extent,
}

impl Check<'_> {
    fn task(&self, task: &Task, session: &Session, found: &mut Found) -> Result<(), String> {
        let instances = self.store.instances(session.id).map_err(text)?;
        let root = the_one(&instances, ROOT)?;
        let chain = self.instance(task, root, None, found)?;
        let mut helpers = BTreeSet::new();
        for (number, helper) in task.helpers.iter().enumerate() {
            let name = helper_name(number);
            if instances.iter().any(|instance| instance.agent_name == name) {
                let runs =
                    self.instance(helper, the_one(&instances, &name)?, Some(&chain), found)?;
                helpers.extend(runs.iter().map(|run| run.id));
            } else if self.extent == Extent::Whole
                || self.acknowledged.counts.contains_key(&helper.name)
            {
                return Err(format!(
                    "task {}: there is no instance of {name}",
                    task.name
                ));
            }
        }
        let mut children = Vec::new();
        for run in &chain {
            let page = |cursor| self.store.runs().children(run.id, 2, cursor);
            children.extend(all_pages(page)?.into_iter().map(|run| run.id));
        }
        if children.len() != helpers.len()
            || children.into_iter().collect::<BTreeSet<_>>() != helpers
        {
            return Err(format!(
                "task {}: the children of its runs aren't its helpers' runs",
                task.name
            ));
        }
        Ok(())
    }

    /// Checks one instance's context and runs; gives the runs, the oldest first.
    fn instance(
        &self,
        task: &Task,
        instance: &AgentInstance,
        callers: Option<&[Run]>,
        found: &mut Found,
    ) -> Result<Vec<Run>, String> {
        let wrong = |what: String| format!("task {}: {what}", task.name);
        let events = self
            .store
            .contexts()
            .get_events(instance.id, 1)
            .map_err(text)?;
        let seen = Seen::of(task, &events)?;
        let acknowledged = self
            .acknowledged
            .counts
            .get(&task.name)
            .copied()
            .unwrap_or(0);
        if seen.count() < acknowledged {
            return Err(wrong(format!(
                "{acknowledged} were acknowledged, {} are there",
                seen.count()
            )));
        }
        let mut runs = newest_first(self.store, instance.session_id, instance.id).map_err(text)?;
        runs.reverse();
        self.chain(task, &runs, &seen, callers).map_err(wrong)?;
        self.messages(instance, &runs).map_err(wrong)?;
        let calls = self.calls(task, &runs, &seen).map_err(wrong)?;
        found.runs += runs.len();
        found.resumes += seen.resumes;
        found.lines += seen.count();
        found.calls += calls;
        found.cut_off += seen.cut_off.len();
        Ok(runs)
    }

    /// Each run goes on from the one before, and the last is as far as the context is.
    fn chain(
        &self,
        task: &Task,
        runs: &[Run],
        seen: &Seen,
        callers: Option<&[Run]>,
    ) -> Result<(), String> {
        let Some((last, before)) = runs.split_last() else {
            return Err("there is no run".to_owned());
        };
        // One that left calls open to the agent told it nothing.
        if seen.resumes > before.len() {
            return Err(format!(
                "told to go on {} times, in {} runs",
                seen.resumes,
                runs.len()
            ));
        }
        let mut from = None;
        for run in runs {
            if run.resumed_from != from {
                return Err(format!(
                    "run {} goes on from {:?}, not from {from:?}",
                    run.id, run.resumed_from
                ));
            }
            let has_caller = run
                .parent_run_id
                .is_some_and(|parent| callers.unwrap_or_default().iter().any(is(parent)));
            if has_caller != callers.is_some() {
                return Err(format!(
                    "run {} has the parent {:?}",
                    run.id, run.parent_run_id
                ));
            }
            from = Some(run.id);
        }
        for (run, next) in before.iter().zip(&runs[1..]) {
            let reason = run.pause_reason.as_deref().unwrap_or_default();
            let is_known = [pause_reason::ORPHANED, pause_reason::STEP_BUDGET].contains(&reason);
            if (run.status, run.resumed_by, is_known) != (RunStatus::Paused, Some(next.id), true) {
                return Err(format!("a run that another goes on from is {run:?}"));
            }
        }
        let known = self
            .acknowledged
            .resumed
            .get(&task.name)
            .into_iter()
            .flatten();
        if let Some(lost) = known
            .into_iter()
            .find(|id| !runs.iter().any(|run| run.id.to_string() == **id))
        {
            return Err(format!("run {lost} was acknowledged, and isn't there"));
        }
        let is_whole = seen.count() == task.opening.len() + task.lines.len();
        let must_be_done =
            self.extent == Extent::Whole || self.acknowledged.done.contains(&task.name);
        if must_be_done && (last.status != RunStatus::Completed || !is_whole) {
            return Err(format!(
                "it is done, but the last run is {} with {} lines",
                last.status, seen.lines
            ));
        }
        if last.status == RunStatus::Completed
            && last.summary != Some(format!("{} is done", task.name))
        {
            return Err(format!("the summary is {:?}", last.summary));
        }
        let steps = task.lines[..seen.lines]
            .iter()
            .filter(|line| matches!(line, Line::Says { .. }))
            .count();
        if last.step_count as usize != steps {
            return Err(format!(
                "the last run counts {} steps, the context has {steps}",
                last.step_count
            ));
        }
        Ok(())
    }

    /// The runs' messages are the context's: each is one run's, once, in order, in the step it belongs to.
    fn messages(&self, instance: &AgentInstance, runs: &[Run]) -> Result<(), String> {
        let context = self
            .store
            .context(instance.id)
            .and_then(|context| context.get_messages())
            .map_err(text)?;
        let mut listed = Vec::new();
        for run in runs {
            let options = |cursor| ListRunMessages {
                limit: 7,
                cursor,
                ..ListRunMessages::default()
            };
            listed.extend(all_pages(|cursor| {
                self.store.runs().messages(run.id, &options(cursor))
            })?);
        }
        let same = context.len() == listed.len()
            && context.iter().zip(&listed).all(|(message, listed)| {
                (message.sequence_number, &message.json)
                    == (listed.sequence_number, &listed.content)
            });
        if !same {
            return Err(format!(
                "{} messages in the context, {} in its runs, or others",
                context.len(),
                listed.len()
            ));
        }
        if !listed.is_sorted_by_key(|message| message.step_number) {
            return Err("the messages aren't in the order of the steps".to_owned());
        }
        Ok(())
    }

    /// Each call that the script makes was made once, by one run, and has ended once, in the time it took.
    fn calls(&self, task: &Task, runs: &[Run], seen: &Seen) -> Result<usize, String> {
        let mut calls: Vec<ToolCall> = Vec::new();
        for run in runs {
            let options = |cursor| ListToolCalls {
                limit: 3,
                cursor,
                ..ListToolCalls::default()
            };
            calls.extend(all_pages(|cursor| {
                self.store.runs().tool_calls(run.id, &options(cursor))
            })?);
        }
        let mut listed = calls.iter();
        let mut steps = 0;
        let said = task.lines.iter().enumerate().take(seen.lines);
        for (number, _) in said.filter(|(_, line)| matches!(line, Line::Says { .. })) {
            steps += 1;
            for (place, answer) in (number + 1..).zip(task.answers_after(number)) {
                let call = listed
                    .next()
                    .ok_or_else(|| format!("the call of line {place} isn't there"))?;
                if call.step_number != steps {
                    return Err(format!("{call:?} is of step {steps}"));
                }
                is_call(
                    call,
                    answer,
                    place < seen.lines,
                    seen.cut_off.contains(&place),
                )?;
            }
        }
        match listed.next() {
            Some(call) => Err(format!("a call too many: {call:?}")),
            None => Ok(calls.len()),
        }
    }

    fn all_runs(&self) -> Result<usize, String> {
        let options = |cursor| runlog::runs::ListRuns {
            limit: 100,
            cursor,
            ..runlog::runs::ListRuns::default()
        };
        let runs = all_pages(|cursor| self.store.runs().list(&options(cursor)))?;
        let ids: BTreeSet<RunId> = runs.iter().map(|run| run.id).collect();
        if ids.len() == runs.len() {
            Ok(ids.len())
        } else {
            Err("a run is listed twice".to_owned())
        }
    }
}

fn is_call(
    call: &ToolCall,
    answer: &Answer,
    has_ended: bool,
    was_cut_off: bool,
) -> Result<(), String> {
    let status = match (has_ended, was_cut_off || answer.is_error) {
        (false, _) => ToolCallStatus::Pending,
        (true, true) => ToolCallStatus::Error,
        (true, false) => ToolCallStatus::Completed,
    };
    let duration_ms = Some(answer.duration_ms).filter(|_| has_ended && !was_cut_off);
    let output = call.output.as_ref().map_or("", |output| output.as_str());
    let is_output = match (has_ended, was_cut_off) {
        (false, _) => output.is_empty(),
        (true, true) => is_cut_off(output),
        (true, false) => output == answer.output,
    };
    let is_same = call.tool_call_id.as_deref() == Some(&answer.id)
        && call.tool_name == answer.tool
        && call.input.as_str() == answer.input
        && (call.status, call.duration_ms) == (status, duration_ms)
        && is_output;
    if is_same {
        Ok(())
    } else {
        Err(format!("{call:?} should be {answer:?}, {status:?}"))
    }
}

fn the_one<'a>(instances: &'a [AgentInstance], agent: &str) -> Result<&'a AgentInstance, String> {
    let mut found = instances
        .iter()
        .filter(|instance| instance.agent_name == agent);
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        (None, _) => Err(format!("there is no instance of {agent}")),
        (Some(_), Some(_)) => Err(format!("there are two instances of {agent}")),
    }
}

fn all_pages<T>(
    page: impl Fn(Option<String>) -> runlog::Result<Page<T>>,
) -> Result<Vec<T>, String> {
    let (mut items, mut cursor) = (Vec::new(), None);
    loop {
        let found = page(cursor).map_err(text)?;
        items.extend(found.items);
        cursor = found.next;
        if cursor.is_none() {
            return Ok(items);
        }
    }
}

fn is(id: RunId) -> impl Fn(&Run) -> bool {
    move |run| run.id == id
}

fn text(error: runlog::Error) -> String {
    error.to_string()
}
