//! Comparing an archive with the store. Nothing is written.

use super::{
    ahead::Ahead,
    lines::{Line, LostLine, RecordLine, StreamLine},
    lists::{List, ListEvent, Subject, each_record, is_derived, is_same},
    plan::ListLine,
    reader::{each_line, refused},
};
use std::{
    collections::{HashMap, HashSet, VecDeque},
    io::BufRead,
};

use pollster::block_on;
use runlog_log::{Position, StreamId};
use runlog_model::{Catalog, CatalogEvent, Checkpointed, RunCatalog, RunCatalogEvent, RunId};

use crate::{
    Error, Result,
    archive::plan::{Cut, Group, Holds, Plan, State},
    blocking::Store,
};

pub(super) fn check(store: &Store, source: &mut dyn BufRead) -> Result<Plan> {
    let mut checker = Checker {
        store,
        plan: Plan::default(),
        ahead: Ahead::default(),
        runs: HashMap::new(),
    };
    each_line(source, |number, line| checker.take(number, line))?;
    let mut plan = checker.plan;
    check_listed(&plan)?;
    check_deleted(store, &mut plan)?;
    check_forks(&mut plan);
    loop {
        let conflicts = plan.conflicts.len();
        check_lists(store, &mut plan)?;
        check_forks(&mut plan);
        if plan.conflicts.len() == conflicts {
            break;
        }
    }
    plan.listed = plan
        .lists
        .iter()
        .filter(|line| line.is_there && !plan.conflicts.contains_key(&line.group))
        .count() as u64;
    name_sessions(&mut plan);
    Ok(plan)
}

struct Checker<'a> {
    store: &'a Store,
    plan: Plan,
    ahead: Ahead,
    /// The group of each run.
    runs: HashMap<RunId, Group>,
}

impl Checker<'_> {
    fn take(&mut self, number: u64, line: Line) -> Result<()> {
        match line {
            Line::Archive | Line::End(..) => Ok(()),
            Line::Stream(stream) => self.stream(number, stream),
            Line::Record(record) => match List::of_stream(record.stream) {
                Some(list) => self.listed(number, list, record),
                None => self.record(number, record),
            },
            Line::Lost(lost) => self.lost(number, lost),
            Line::Snapshot(snapshot) => match self.plan.streams.get_mut(&snapshot.stream) {
                Some(state) if snapshot.sequence <= state.seen => {
                    state.begins_with_snapshot |= snapshot.sequence == 0;
                    Ok(())
                }
                _ => Err(refused(number, "a snapshot of what is not there")),
            },
        }
    }

    fn stream(&mut self, number: u64, line: StreamLine) -> Result<()> {
        if List::of_stream(line.id).is_some() || is_derived(line.id) {
            return Err(refused(
                number,
                &format!("the stream {} is the store's own", line.id),
            ));
        }
        let there =
            block_on(self.store.backend().stream(line.id))?.map(|info| info.last_sequence.0);
        let mut cut = None;
        let seen = match line.parent {
            Some((parent, at)) => match self.plan.streams.get(&parent) {
                Some(state) if at > 0 && at <= state.seen => {
                    if there.is_none_or(|there| there < at) {
                        let of_parent = state.cut.filter(|cut| cut.last < at);
                        cut = of_parent.map(|cut| Cut { left_out: 0, ..cut });
                    }
                    at
                }
                _ => {
                    return Err(refused(
                        number,
                        &format!("{at} records are shared with {parent}, which hasn't got them"),
                    ));
                }
            },
            None => 0,
        };
        let shared = cut.map_or(seen, |cut| cut.last);
        if self.plan.streams.contains_key(&line.id) {
            return Err(refused(
                number,
                &format!("the stream {} comes twice", line.id),
            ));
        }
        let group = line.session.map_or(Group::Stream(line.id), Group::Session);
        if there.is_some_and(|there| there < shared) {
            let what = format!(
                "the store has only {} of the {shared} records that {} shares",
                there.unwrap_or(0),
                line.id
            );
            self.plan
                .conflicts
                .entry(group.clone())
                .or_insert((number, what));
        }
        let holds = Holds::of(&line.of);
        let alike = shared;
        let parent = line.parent.map(|(parent, _)| (parent, shared));
        let parent = parent.filter(|(_, at)| *at > 0);
        let state = State {
            group,
            holds,
            there,
            seen,
            alike,
            parent,
            begins_with_snapshot: false,
            line: number,
            cut,
        };
        self.plan.streams.insert(line.id, state);
        self.plan.order.push(line.id);
        Ok(())
    }

    fn record(&mut self, number: u64, line: RecordLine) -> Result<()> {
        let Some(state) = self.plan.streams.get_mut(&line.stream) else {
            return Err(refused(number, "a record before the line of its stream"));
        };
        if line.sequence != state.seen + 1 {
            let what = format!(
                "expected record {} of stream {}, found {}",
                state.seen + 1,
                line.stream,
                line.sequence
            );
            return Err(refused(number, &what));
        }
        state
            .holds
            .check(&line)
            .map_err(|error| refused(number, &error.to_string()))?;
        state.seen = line.sequence;
        if let Some(cut) = &mut state.cut {
            cut.left_out += 1;
            return Ok(());
        }
        if state.there.is_none_or(|there| line.sequence > there)
            || self.plan.conflicts.contains_key(&state.group)
        {
            return Ok(());
        }
        let there = self.ahead.record(self.store, line.stream, line.sequence)?;
        match there {
            Some(there) if is_same(&there, &line, state.is_context()) => {
                state.alike = state.alike.max(line.sequence);
                if line.redacted
                    && !there.redacted
                    && there.payload.is_empty()
                    && there.meta.is_empty()
                {
                    self.plan.to_redact.push(there.position);
                }
            }
            _ => {
                let of = if state.is_context() {
                    "context"
                } else {
                    "stream"
                };
                let what = format!(
                    "the store has something else in {of} {}, from sequence {} on",
                    line.stream, line.sequence
                );
                self.plan
                    .conflicts
                    .insert(state.group.clone(), (number, what));
            }
        }
        Ok(())
    }

    /// What the archive lacks is no loss where the store has it.
    fn lost(&mut self, number: u64, line: LostLine) -> Result<()> {
        let Some(state) = self.plan.streams.get_mut(&line.stream) else {
            return Err(refused(number, "a loss before the line of its stream"));
        };
        if line.is_snapshot {
            let lost = (number, line.stream, line.first, line.last);
            self.plan.lost_snapshots.push(lost);
            return Ok(());
        }
        if line.first != state.seen + 1 {
            let (expected, found) = (state.seen + 1, line.first);
            let what = format!(
                "expected what becomes of record {expected} of stream {}, found that of {found}",
                line.stream
            );
            return Err(refused(number, &what));
        }
        state.seen = line.last;
        let there = state.there.unwrap_or_default();
        if state.cut.is_none() && there < line.last {
            state.cut = Some(Cut {
                last: there.max(line.first - 1),
                line: number,
                left_out: 0,
            });
        }
        Ok(())
    }

    fn listed(&mut self, number: u64, list: List, record: RecordLine) -> Result<()> {
        let before = self.plan.lists.last().filter(|line| line.list == list);
        let before = before.map(|line| &line.subject);
        let event = list.decode(before, record.kind.0, &record.meta, &record.payload);
        let event = event.and_then(|event| event.check().map(|()| event));
        let event = event.map_err(|error| refused(number, &error.to_string()))?;
        let subject = event.subject();
        let group = match &subject {
            Subject::Session(id) => Group::Session(*id),
            Subject::Agent(project, name) => Group::Agent(project.clone(), name.clone()),
            Subject::Lost(list) => Group::Stream(list.stream()),
            // A flow with an id of its own belongs to its stream's group.
            Subject::Flow(id) => self
                .runs
                .get(id)
                .cloned()
                .unwrap_or(Group::Stream(StreamId(id.0))),
            Subject::Run(id) => {
                if let ListEvent::Run(RunCatalogEvent::Created(run)) = &event {
                    self.runs.insert(run.id, Group::Session(run.session_id));
                }
                let group = self.runs.get(id).cloned();
                group.ok_or_else(|| refused(number, &format!("run {id} was not created before")))?
            }
        };
        self.plan.lists.push(ListLine {
            number,
            list,
            subject,
            group,
            event,
            record,
            is_there: false,
        });
        Ok(())
    }
}

/// Refuses an archive whose lists say another thing of a stream than its own line, by which its records were checked.
fn check_listed(plan: &Plan) -> Result<()> {
    for line in &plan.lists {
        let (stream, holds) = match &line.event {
            ListEvent::Session(CatalogEvent::InstanceCreated(instance)) => {
                (instance.id.as_uuid(), Holds::Context)
            }
            ListEvent::Session(CatalogEvent::SessionCreated(session)) => {
                (session.id.as_uuid(), Holds::Chat)
            }
            ListEvent::Run(RunCatalogEvent::Created(run)) => (run.id.as_uuid(), Holds::Run),
            _ => continue,
        };
        let state = plan.streams.get(&StreamId(stream));
        if let Some(state) = state.filter(|state| state.holds != holds) {
            let what = format!(
                "the line of stream {stream} says that it holds {}, this one that it holds {}",
                state.holds.name(),
                holds.name()
            );
            return Err(refused(line.number, &what));
        }
    }
    Ok(())
}

/// Nothing is added to a session that was deleted: what a retention has given up since would be in the files again, and found by
/// searches.
fn check_deleted(store: &Store, plan: &mut Plan) -> Result<()> {
    let Plan {
        streams, conflicts, ..
    } = plan;
    for state in streams.values() {
        let Group::Session(id) = state.group else {
            continue;
        };
        if state.there.unwrap_or_default() >= state.last() || conflicts.contains_key(&state.group) {
            continue;
        }
        let is_deleted = |catalog: &Catalog| {
            let session = catalog.session(id);
            session.is_some_and(|session| session.deleted_at_ms.is_some())
        };
        if block_on(store.to_async().shared.catalog.read(is_deleted))? {
            let what = format!(
                "session {id} was deleted in the store, and nothing is added to it; a chat can be restored before"
            );
            conflicts.insert(state.group.clone(), (state.line, what));
        }
    }
    Ok(())
}

/// A copy can be created only if the store has, or gets, the records it shares.
fn check_forks(plan: &mut Plan) {
    for id in &plan.order {
        let Some(State {
            group,
            there: None,
            parent: Some((parent, at)),
            ..
        }) = plan.streams.get(id)
        else {
            continue;
        };
        let Some(of) = plan.streams.get(parent) else {
            continue;
        };
        if of.alike.min(of.there.unwrap_or_default()) >= *at {
            continue;
        }
        if let Some((line, _)) = plan.conflicts.get(&of.group) {
            let what = format!("it shares what was left out with {parent}");
            let line = *line;
            plan.conflicts.entry(group.clone()).or_insert((line, what));
        }
    }
}

/// Determines which records of the lists the store has, and whether the others can be added.
fn check_lists(store: &Store, plan: &mut Plan) -> Result<()> {
    let mut lines_of: HashMap<Subject, VecDeque<usize>> = HashMap::new();
    for (index, line) in plan.lists.iter_mut().enumerate() {
        line.is_there = false;
        lines_of
            .entry(line.subject.clone())
            .or_default()
            .push_back(index);
    }
    let (mut sessions, mut runs) = (Catalog::new(), RunCatalog::new());
    for list in List::ALL {
        let mut before = None;
        each_record(store, list.stream(), Position(u64::MAX), |there| {
            let event = list.event_of(before.as_ref(), there)?;
            let subject = event.subject();
            before = Some(subject.clone());
            fold(&mut sessions, &mut runs, &event)?;
            if let Some(lines) = lines_of.get_mut(&subject) {
                if let Some(index) = lines.pop_front()
                    && let Some(line) = plan.lists.get_mut(index)
                {
                    line.is_there = is_same(there, &line.record, false);
                    if !line.is_there {
                        let what = format!(
                            "the store's list of {} has something else of it",
                            list.name()
                        );
                        plan.conflicts
                            .entry(line.group.clone())
                            .or_insert((line.number, what));
                    }
                }
                plan.known.insert(subject);
            }
            Ok::<(), Error>(())
        })?;
    }
    for line in &plan.lists {
        if line.is_there || plan.conflicts.contains_key(&line.group) {
            continue;
        }
        if let Err(why) = fits(&sessions, &plan.known, &line.event)
            .and_then(|()| fold(&mut sessions, &mut runs, &line.event))
        {
            plan.conflicts
                .insert(line.group.clone(), (line.number, why.to_string()));
        }
    }
    let Plan {
        streams, conflicts, ..
    } = &*plan;
    let unlisted = streams.iter().filter(|(id, state)| {
        let is_left_out = conflicts.contains_key(&state.group);
        state.holds == Holds::Run && !is_left_out && runs.run(RunId(id.0)).is_none()
    });
    plan.unlisted = unlisted.map(|(id, _)| *id).collect();
    Ok(())
}

/// A readable error for events that the fold would refuse with a technical one.
fn fits(sessions: &Catalog, known: &HashSet<Subject>, event: &ListEvent) -> Result<()> {
    if let ListEvent::Session(CatalogEvent::SessionCreated(session)) = event
        && let Some(name) = &session.name
        && let Some(other) = sessions.session_named(name)
        // Where the archive lost that its own session of the name was deleted, the fold makes up for it.
        && (!sessions.is_incomplete() || known.contains(&Subject::Session(other.id)))
    {
        return Err(Error::invalid(format!(
            "the store has another session of the name {name:?}, {}",
            other.id
        )));
    }
    if let ListEvent::Run(RunCatalogEvent::Created(run)) = event
        && sessions.instance(run.instance_id).is_none()
    {
        return Err(Error::invalid(format!(
            "run {} is of an agent instance that is not there",
            run.id
        )));
    }
    Ok(())
}

fn fold(sessions: &mut Catalog, runs: &mut RunCatalog, event: &ListEvent) -> Result<()> {
    match event {
        ListEvent::Session(event) => sessions.apply(sessions.last_sequence() + 1, event.clone())?,
        ListEvent::Run(event) => runs.apply(runs.last_sequence() + 1, event.clone())?,
        ListEvent::Erased(_) => sessions.skip_erased(sessions.last_sequence() + 1)?,
        ListEvent::Lost(List::Sessions) => sessions.pass_over(sessions.last_sequence() + 1)?,
        ListEvent::Lost(List::Runs) => runs.pass_over(runs.last_sequence() + 1)?,
        ListEvent::Agent(_) | ListEvent::Flow(_) | ListEvent::Lost(_) => {}
    }
    Ok(())
}

/// Adds to each conflict the session or definition that was left out.
fn name_sessions(plan: &mut Plan) {
    let mut reported = HashSet::new();
    for line in &plan.lists {
        if !reported.insert(line.group.clone()) {
            continue;
        }
        let name = match &line.event {
            ListEvent::Session(CatalogEvent::SessionCreated(session)) => match &session.name {
                Some(name) => format!("session {name:?} ({})", session.id),
                None => format!("session {}", session.id),
            },
            ListEvent::Session(_)
            | ListEvent::Run(_)
            | ListEvent::Flow(_)
            | ListEvent::Erased(_)
            | ListEvent::Lost(_) => {
                continue;
            }
            ListEvent::Agent(_) => match &line.subject {
                Subject::Agent(_, name) => format!("agent {name:?}"),
                _ => continue,
            },
        };
        if let Some((_, what)) = plan.conflicts.get_mut(&line.group) {
            *what = format!("{name} was left out: {what}");
        }
    }
    for (group, (_, what)) in &mut plan.conflicts {
        if let Group::Stream(id) = group {
            *what = format!("stream {id} was left out: {what}");
        }
    }
}
