//! What there is to look back on: runs, their messages and their tool calls, in pages.

use runlog_log::{Position, Sequence};
use runlog_model::{
    ContextEvent, ContextEventKind, InstanceId, ListRuns, Page, Run, RunId, RunMessage, RunStatus,
    RunSummary, ToolCall, ToolCallFold, ToolCallStatus,
};

use super::{Runs, load::LoadedRun};
use crate::{
    Error, Result,
    journal::{
        cursor::{Cursor, Kind},
        page::check_limit,
    },
    kernel::records::context_stream,
};
use serde::Deserialize;

/// Which messages of a run to list, and how many.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ListRunMessages {
    /// Only messages of this step; `None` is all.
    pub step_number: Option<u32>,
    /// At most so many.
    pub limit: usize,
    /// Where to go on: what the page before said comes next.
    pub cursor: Option<String>,
}

impl Default for ListRunMessages {
    fn default() -> Self {
        Self {
            step_number: None,
            limit: 50,
            cursor: None,
        }
    }
}

/// Which tool calls of a run to list, and how many.
///
/// ```
/// use runlog::{
///     NewRun, NewSession,
///     blocking::Store,
///     runs::{ListToolCalls, ToolCallStatus},
/// };
///
/// let store = Store::in_memory();
/// let run = store.runs().start(NewRun::in_new_session(NewSession::default(), "coder"))?;
/// let failed = ListToolCalls { status: Some(ToolCallStatus::Error), limit: 10, ..ListToolCalls::default() };
/// let page = store.runs().tool_calls(run.id(), &failed)?;
/// assert!(page.items.is_empty() && page.next.is_none());
/// # Ok::<(), runlog::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ListToolCalls {
    /// Only calls of this tool; `None` is all.
    pub tool_name: Option<String>,
    /// Only calls of this status; `None` is all.
    pub status: Option<ToolCallStatus>,
    /// At most so many.
    pub limit: usize,
    /// Where to go on: what the page before said comes next.
    pub cursor: Option<String>,
}

impl Default for ListToolCalls {
    fn default() -> Self {
        Self {
            tool_name: None,
            status: None,
            limit: 50,
            cursor: None,
        }
    }
}

impl Runs {
    /// One page of runs, newest first. It costs the page, however many runs there are.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a limit of 0, or a cursor of another list.
    pub async fn list(&self, options: &ListRuns) -> Result<Page<RunSummary>> {
        check_limit(options.limit)?;
        let ListRuns {
            status,
            agent_id,
            parent_run_id,
            session_id,
            project,
            limit: _,
            cursor: _,
        } = options;
        // All fields are named, so that a new filter can't be left out of what a cursor is checked against.
        let filter = (status, agent_id, parent_run_id, session_id, project);
        let cursor = Cursor::read(options.cursor.as_deref(), Kind::Runs, &filter)?;
        let before = cursor.map(|cursor| u32::try_from(cursor.first)).transpose();
        let before = before.map_err(|_| Error::invalid("the cursor names no place of the list"))?;
        let page = self.index().read(|runs| runs.list(options, before)).await?;
        let mut runs = page.items;
        for run in runs
            .iter_mut()
            .filter(|run| run.status == RunStatus::Running)
        {
            run.step_count = self.steps_now(run.id).await?.unwrap_or(run.step_count);
        }
        let next = page.next.map(|place| {
            Cursor {
                first: place.into(),
                second: 0,
            }
            .encode(Kind::Runs, &filter)
        });
        Ok(Page { items: runs, next })
    }

    /// The runs that a run spawned, newest first, in pages.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such run; else as [`list`](Self::list).
    pub async fn children(
        &self,
        parent: RunId,
        limit: usize,
        cursor: Option<String>,
    ) -> Result<Page<RunSummary>> {
        if !self.index().read(|runs| runs.run(parent).is_some()).await? {
            return Err(missing(parent));
        }
        self.list(&ListRuns {
            parent_run_id: Some(parent),
            limit,
            cursor,
            ..ListRuns::default()
        })
        .await
    }

    /// The whole of a run, `None` when there is none of that id.
    ///
    /// # Errors
    /// Those of reading the store.
    pub async fn get(&self, id: RunId) -> Result<Option<Run>> {
        match self.load(id).await {
            Err(error) if error.kind() == crate::ErrorKind::NotFound => Ok(None),
            loaded => Ok(Some(loaded?.run)),
        }
    }

    /// One page of a run's messages, in the order they were recorded, which is that of its steps.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such run,
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a limit of 0, or a cursor of another list.
    pub async fn messages(&self, id: RunId, options: &ListRunMessages) -> Result<Page<RunMessage>> {
        check_limit(options.limit)?;
        let filter = (id, options.step_number);
        let cursor = Cursor::read(options.cursor.as_deref(), Kind::Messages, &filter)?;
        let run = self.load(id).await?;
        let first = match cursor {
            Some(cursor) => cursor.first,
            None => {
                self.first_of_step(&run, options.step_number.unwrap_or(0))
                    .await?
            }
        };
        let mut page = Page {
            items: Vec::new(),
            next: None,
        };
        self.each_event(&run, first, events_to_read(options.limit), |event| {
            let Some(message) = RunMessage::of_event(event)? else {
                return Ok(More::Wanted);
            };
            if options
                .step_number
                .is_some_and(|step| message.step_number > step)
            {
                return Ok(More::Unwanted);
            }
            if options
                .step_number
                .is_some_and(|step| message.step_number < step)
            {
                return Ok(More::Wanted);
            }
            if page.items.len() == options.limit {
                let cursor = Cursor {
                    first: event.sequence_number,
                    second: 0,
                };
                page.next = Some(cursor.encode(Kind::Messages, &filter));
                return Ok(More::Unwanted);
            }
            page.items.push(message);
            Ok(More::Wanted)
        })
        .await?;
        Ok(page)
    }

    /// One message of a run, by its id.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such run; else those of reading the store.
    pub async fn message(&self, id: RunId, message_id: u64) -> Result<Option<RunMessage>> {
        let run = self.load(id).await?;
        match self.event_at(&run, message_id).await? {
            Some(event) => Ok(RunMessage::of_event(&event)?),
            None => Ok(None),
        }
    }

    /// One page of a run's tool calls, in the order they were made, which is that of its steps.
    ///
    /// # Errors
    /// As [`messages`](Self::messages).
    pub async fn tool_calls(&self, id: RunId, options: &ListToolCalls) -> Result<Page<ToolCall>> {
        check_limit(options.limit)?;
        let filter = (id, &options.tool_name, options.status);
        let cursor = Cursor::read(options.cursor.as_deref(), Kind::ToolCalls, &filter)?;
        let run = self.load(id).await?;
        // The fold begins at the message of the last call that was given.
        let (first, after) = match cursor {
            Some(cursor) => (cursor.first, cursor.second),
            None => (self.first_sequence(&run).await?, 0),
        };
        let mut fold = ToolCallFold::new();
        let mut settled = Settled {
            options,
            after,
            looked_at: 0,
            found: 0,
        };
        let end = self
            .each_event(&run, first, events_to_read(options.limit), |event| {
                fold.push(event);
                Ok(if settled.is_full(fold.calls()) {
                    More::Unwanted
                } else {
                    More::Wanted
                })
            })
            .await?;
        self.take_late_results(&run, end, &mut fold).await?;
        let calls = fold
            .finish()
            .into_iter()
            .filter(|call| call.sequence_number > after);
        let mut items: Vec<ToolCall> = calls
            .filter(|call| options.admits(call))
            .take(options.limit.saturating_add(1))
            .collect();
        let more = items.len() > options.limit;
        items.truncate(options.limit);
        let next = items.last().filter(|_| more).map(|last| {
            let cursor = Cursor {
                first: last.message_sequence,
                second: last.sequence_number,
            };
            cursor.encode(Kind::ToolCalls, &filter)
        });
        Ok(Page { items, next })
    }

    /// One tool call of a run, by its id, with its whole input and output.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such run; else those of reading the store.
    pub async fn tool_call(&self, id: RunId, call_id: u64) -> Result<Option<ToolCall>> {
        let run = self.load(id).await?;
        let event = self.event_at(&run, call_id).await?;
        let Some(event) = event.filter(|event| event.event_type == ContextEventKind::ToolCall)
        else {
            return Ok(None);
        };
        // Its message comes right before the calls that it asks for.
        let mut first = event.sequence_number;
        while let Some(before) = self.own_event(&run, first.saturating_sub(1)).await? {
            first = before.sequence_number;
            if before.role().is_some() {
                break;
            }
        }
        let mut fold = ToolCallFold::new();
        let end = self
            .each_event(&run, first, events_to_read(1), |event| {
                fold.push(event);
                let call = fold.calls().iter().find(|call| call.id == call_id);
                let is_open = call.is_none_or(|call| call.status == ToolCallStatus::Pending);
                Ok(if is_open {
                    More::Wanted
                } else {
                    More::Unwanted
                })
            })
            .await?;
        self.take_late_results(&run, end, &mut fold).await?;
        Ok(fold.finish().into_iter().find(|call| call.id == call_id))
    }

    /// Passes the run's events from a sequence of its context on to `take`, until that wants no more; about `expected` are
    /// enough. Returns the sequence of the first event after the run, if it was reached.
    async fn each_event(
        &self,
        run: &LoadedRun,
        first: u64,
        expected: usize,
        mut take: impl FnMut(&ContextEvent) -> Result<More>,
    ) -> Result<Option<u64>> {
        let pages = self
            .store
            .contexts()
            .events(run.run.instance_id, first)
            .await?;
        let mut pages = pages.beginning_with(expected as u64);
        while let Some(page) = pages.next_page().await? {
            for event in &page {
                if run
                    .ended_position
                    .is_some_and(|ended| event.position > ended)
                {
                    return Ok(Some(event.sequence_number));
                }
                if run.owns(event) && matches!(take(event)?, More::Unwanted) {
                    return Ok(None);
                }
            }
        }
        Ok(None)
    }

    /// Looks in what came after a run for the results of calls that it left open: a tool may answer after a resume.
    async fn take_late_results(
        &self,
        run: &LoadedRun,
        end: Option<u64>,
        fold: &mut ToolCallFold,
    ) -> Result<()> {
        let Some(first) = end.filter(|_| fold.is_open()) else {
            return Ok(());
        };
        let mut pages = self
            .store
            .contexts()
            .events(run.run.instance_id, first)
            .await?;
        while let Some(page) = pages.next_page().await? {
            page.iter().for_each(|event| fold.push_later(event));
            if !fold.is_open() {
                break;
            }
        }
        Ok(())
    }

    /// The first sequence of the context that was appended after the run's creation, by halving: positions grow
    /// with sequences, whatever was truncated or forked.
    async fn first_sequence(&self, run: &LoadedRun) -> Result<u64> {
        let contexts = self.store.contexts();
        let instance = run.run.instance_id;
        let (mut first, mut end) = (1, contexts.last_sequence(instance).await? + 1);
        while first < end {
            let middle = first + (end - first) / 2;
            match contexts.event(instance, middle).await? {
                Some(event) if event.position <= run.created_position => first = middle + 1,
                _ => end = middle,
            }
        }
        Ok(first)
    }

    /// A sequence of the context from which on the run's messages of a step come, by halving: steps follow each other.
    async fn first_of_step(&self, run: &LoadedRun, step: u32) -> Result<u64> {
        let instance = run.run.instance_id;
        let mut first = self.first_sequence(run).await?;
        if step <= run.fold.steps_before() {
            return Ok(first);
        }
        let mut end = self.store.contexts().last_sequence(instance).await? + 1;
        while first < end {
            let middle = first + (end - first) / 2;
            // Somebody else's events may stand in between.
            let mut own = None;
            self.each_event(run, middle, 1, |event| {
                own = Some((event.sequence_number, event.step_number.unwrap_or(0)));
                Ok(More::Unwanted)
            })
            .await?;
            match own.filter(|(sequence, _)| *sequence < end) {
                Some((sequence, of)) if of < step => first = sequence + 1,
                _ => end = middle,
            }
        }
        Ok(first)
    }

    /// The run's event at a position of the log, where its context still has it.
    async fn event_at(&self, run: &LoadedRun, position: u64) -> Result<Option<ContextEvent>> {
        let instance: InstanceId = run.run.instance_id;
        if position == 0 {
            return Ok(None);
        }
        let page = self.store.backend().scan(Position(position), 1).await?;
        let record = page
            .records
            .first()
            .filter(|record| record.position.0 == position);
        let Some(record) = record.filter(|record| record.stream == context_stream(instance)) else {
            return Ok(None);
        };
        // A truncation may have taken it, and another may have come in its place.
        let Sequence(sequence) = record.sequence;
        Ok(self
            .own_event(run, sequence)
            .await?
            .filter(|event| event.position == position))
    }

    /// The event at a sequence of the run's context, where it is the run's.
    async fn own_event(&self, run: &LoadedRun, sequence: u64) -> Result<Option<ContextEvent>> {
        if sequence == 0 {
            return Ok(None);
        }
        let event = self
            .store
            .contexts()
            .event(run.run.instance_id, sequence)
            .await?;
        Ok(event.filter(|event| run.owns(event)))
    }
}

/// Whether a reader wants to see more.
enum More {
    Wanted,
    Unwanted,
}

impl LoadedRun {
    fn owns(&self, event: &ContextEvent) -> bool {
        event.run_id == Some(self.run.id)
            && event.position > self.created_position
            && self
                .ended_position
                .is_none_or(|ended| event.position < ended)
    }
}

impl ListToolCalls {
    fn admits(&self, call: &ToolCall) -> bool {
        self.tool_name
            .as_ref()
            .is_none_or(|name| call.tool_name == *name)
            && self.status.is_none_or(|status| call.status == status)
    }
}

/// Counts the calls of a page that no later result can change, in order, so that reading can stop.
struct Settled<'a> {
    options: &'a ListToolCalls,
    /// The sequence of the last call of the page before.
    after: u64,
    looked_at: usize,
    found: usize,
}

impl Settled<'_> {
    /// Whether the page and the first call after it are there.
    fn is_full(&mut self, calls: &[ToolCall]) -> bool {
        while let Some(call) = calls
            .get(self.looked_at)
            .filter(|call| call.status != ToolCallStatus::Pending)
        {
            self.looked_at += 1;
            self.found +=
                usize::from(call.sequence_number > self.after && self.options.admits(call));
            if self.found > self.options.limit {
                return true;
            }
        }
        false
    }
}

/// How many events a page of messages or tool calls mostly takes: each with those around it, and the next one.
fn events_to_read(limit: usize) -> usize {
    limit.saturating_add(1).saturating_mul(2)
}

fn missing(run: RunId) -> Error {
    Error::not_found(format!("no run {run}"))
}
