//! The history: runs and their messages, in pages.

use runlog_log::Sequence;
use runlog_model::{ContextEvent, ListRuns, Page, Run, RunId, RunMessage, RunStatus, RunSummary};

use super::{
    Runs,
    events::{More, events_to_read, message_kinds},
    load::LoadedRun,
};
use crate::{
    Error, ErrorKind, Result,
    journal::{
        cursor::{Cursor, Kind},
        page::check_limit,
    },
};
use serde::Deserialize;

/// Which messages of a run to list, and how many.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ListRunMessages {
    /// Only messages of this step; `None` is all.
    pub step_number: Option<u32>,
    /// Whether the list goes from the last message to the first.
    pub newest_first: bool,
    /// At most so many.
    pub limit: usize,
    /// Where to go on: what the page before said comes next.
    pub cursor: Option<String>,
}

impl Default for ListRunMessages {
    fn default() -> Self {
        Self {
            step_number: None,
            newest_first: false,
            limit: 50,
            cursor: None,
        }
    }
}

impl Runs {
    /// One page of runs, newest first. The cost is that of the page, however many runs there are.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a limit of 0, or a cursor of another list.
    pub async fn list(&self, options: &ListRuns) -> Result<Page<RunSummary>> {
        check_limit(options.limit)?;
        let ListRuns {
            status,
            agent_name,
            parent_run_id,
            session_id,
            project,
            limit: _,
            cursor: _,
        } = options;
        // All fields are named, so that a new filter can't be left out of the check of a cursor.
        let filter = (status, agent_name, parent_run_id, session_id, project);
        let cursor = Cursor::read(options.cursor.as_deref(), Kind::Runs, &filter)?;
        let before = cursor.map(|cursor| u32::try_from(cursor.first)).transpose();
        let before = before.map_err(|_| Error::invalid("the cursor names no place of the list"))?;
        let page = self.index().read(|runs| runs.list(options, before)).await?;
        let mut runs = page.items;
        for run in &mut runs {
            match self.complete_listed(run).await {
                // One run whose own events can't be read doesn't end the list: `get` of it tells.
                Err(error) if error.kind() == ErrorKind::Damaged => {}
                completed => completed?,
            }
        }
        let next = page.next.map(|place| {
            Cursor {
                first: place.into(),
                ..Cursor::default()
            }
            .encode(Kind::Runs, &filter)
        });
        Ok(Page { items: runs, next })
    }

    /// Adds what only a run's own events tell.
    async fn complete_listed(&self, run: &mut RunSummary) -> Result<()> {
        if run.status == RunStatus::Running {
            run.step_count = self.steps_now(run.id).await?.unwrap_or(run.step_count);
        }
        self.describe_listed(run).await
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

    /// A run with all details; `None` if there is none with that id.
    ///
    /// # Errors
    /// Those of reading the store.
    pub async fn get(&self, id: RunId) -> Result<Option<Run>> {
        match self.load(id).await {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            loaded => Ok(Some(loaded?.run)),
        }
    }

    /// The project that a run belongs to; `None` if it is in none. It comes from the list of runs, without reading the run.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such run; else those of reading the store.
    ///
    /// ```
    /// use runlog::{NewRun, NewSession, Store};
    ///
    /// # pollster::block_on(async {
    /// let store = Store::in_memory();
    /// let mut new = NewRun::in_new_session(NewSession::default(), "coder");
    /// new.project = Some("papers".into());
    /// let run = store.runs().start(new).await?;
    /// assert_eq!(store.runs().project(run.id()).await?.as_deref(), Some("papers"));
    /// # Ok::<(), runlog::Error>(()) }).unwrap();
    /// ```
    pub async fn project(&self, id: RunId) -> Result<Option<String>> {
        let found = self.index().read(|runs| runs.run(id)).await?;
        Ok(found.ok_or_else(|| missing(id))?.run.project)
    }

    /// One page of a run's messages, in the order in which they were recorded, which is that of its steps, or newest
    /// first. The cost is that of the page; the first page of a step also needs a binary search.
    ///
    /// A redacted message says `[redacted]`. It has lost its run and its step: it is of the run that was at work in the context
    /// when it was recorded, and of the step of the messages around it.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such run,
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a limit of 0, or a cursor of another list.
    pub async fn messages(&self, id: RunId, options: &ListRunMessages) -> Result<Page<RunMessage>> {
        check_limit(options.limit)?;
        let filter = (id, options.step_number, options.newest_first);
        let cursor = Cursor::read(options.cursor.as_deref(), Kind::Messages, &filter)?;
        let run = self.load(id).await?;
        let next = |sequence| {
            let cursor = Cursor {
                first: sequence,
                ..Cursor::default()
            };
            cursor.encode(Kind::Messages, &filter)
        };
        if options.newest_first {
            let from = cursor.map(|cursor| Sequence(cursor.first));
            let (items, more) = self.messages_back(&run, options, from).await?;
            return Ok(Page {
                items,
                next: more.map(next),
            });
        }
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
                page.next = Some(next(event.sequence_number));
                return Ok(More::Unwanted);
            }
            page.items.push(message);
            Ok(More::Wanted)
        })
        .await?;
        Ok(page)
    }

    /// Messages of a run backwards from a sequence of its context, or from its last one; and the sequence at which the
    /// next page begins.
    async fn messages_back(
        &self,
        run: &LoadedRun,
        options: &ListRunMessages,
        from: Option<Sequence>,
    ) -> Result<(Vec<RunMessage>, Option<u64>)> {
        let instance = run.run.instance_id;
        let from = match (from, options.step_number, run.ended_position) {
            (Some(from), ..) => from,
            (None, Some(step), _) => {
                let behind = self.first_of_step(run, step.saturating_add(1)).await?;
                Sequence(behind.saturating_sub(1))
            }
            (None, None, Some(ended)) => {
                let behind = self.sequence_after(instance, ended).await?;
                Sequence(behind.saturating_sub(1))
            }
            (None, None, None) => Sequence::MAX,
        };
        let (mut items, step) = (Vec::new(), options.step_number);
        let (contexts, kinds) = (self.store.contexts(), message_kinds());
        let mut pages = contexts.pages_back(instance, from, &kinds);
        while let Some(page) = pages.next_page().await? {
            for record in &page {
                let mut event = ContextEvent::decode(instance, record)?;
                if event.position <= run.created_position {
                    return Ok((items, None));
                }
                if event.redacted {
                    self.adopt(run, &mut event).await?;
                }
                if !run.owns(&event) {
                    continue;
                }
                let Some(message) = RunMessage::of_event(&event)? else {
                    continue;
                };
                if step.is_some_and(|step| message.step_number < step) {
                    return Ok((items, None));
                }
                if step.is_some_and(|step| message.step_number != step) {
                    continue;
                }
                if items.len() == options.limit {
                    return Ok((items, Some(event.sequence_number)));
                }
                items.push(message);
            }
        }
        Ok((items, None))
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
}

fn missing(run: RunId) -> Error {
    Error::not_found(format!("no run {run}"))
}
