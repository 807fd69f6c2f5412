//! [`NewRun`]: a run to start, in an existing context or in one created with it.

use std::collections::HashSet;

use runlog_log::{Batch, Expected, Op, Sequence};
use runlog_model::{
    AgentInstance, CatalogEvent, ContextEventKind, DanglingToolCall, EventOptions, InstanceId,
    NewContextEvent, RawJson, Run, RunDetails, RunId, Session, SessionId, max_steps,
};

use super::{
    Dangling, RunRecorder, Runs,
    creation::{Creation, fresh_run},
};
use crate::{
    Error, ErrorKind, Result,
    kernel::{
        catalog::{Change, Guard},
        lookup::{check_free, check_instance, check_unused, live_session},
        new_session::{NewInstance, NewSession},
        records::{context_records, context_stream},
        runs::Entering,
    },
    runs::{
        dangling::{between, closing_events},
        open_calls::OpenCalls,
    },
};
use serde::Deserialize;

/// A run to start.
///
/// ```
/// use runlog::{NewRun, NewSession, RunStatus, blocking::Store};
///
/// let store = Store::in_memory();
/// let new = NewRun { max_steps: Some(50), ..NewRun::in_new_session(NewSession::titled("Fix it"), "coder") };
/// let run = store.runs().start(new)?.run();
/// assert_eq!((run.status, run.agent_name.as_str()), (RunStatus::Running, "coder"));
/// # Ok::<(), runlog::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewRun {
    /// The context that it works in.
    pub place: RunPlace,
    /// Its id, where the caller has one already; else a fresh one.
    pub id: Option<RunId>,
    /// The agent it is a run of; `None` is the instance's.
    pub agent_name: Option<String>,
    /// The project it belongs to; `None` is the session's.
    pub project: Option<String>,
    /// The run that spawned it.
    pub parent_run_id: Option<RunId>,
    /// The steps it may take; `None` is as many as it likes.
    #[serde(default, deserialize_with = "max_steps::deserialize")]
    pub max_steps: Option<u32>,
    /// The node of a flow that it runs.
    pub node_id: Option<String>,
    /// What it took so far, such as tokens and their cost: a JSON object. [`RunRecorder::describe`] says it later.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")
    )]
    pub usage: Option<RawJson>,
    /// Anything else about it, as JSON.
    pub metadata: Option<RawJson>,
    /// Messages it begins with, in the provider's own JSON, before its first step.
    #[serde(skip)]
    pub messages: Vec<RawJson>,
    /// What becomes of tool calls of the context that have no result. When left out, they are closed where the run begins
    /// with messages, because no provider takes a message between a call and its result, and left open where it begins
    /// with none.
    #[serde(default)]
    pub dangling: Option<Dangling>,
    /// Whether it may write to the context while another run does. Without it such a start is refused: what two runs
    /// record into one context alternates, and neither model is sent what it said.
    #[serde(default)]
    pub concurrent: bool,
}

/// The context that a run works in.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum RunPlace {
    /// That of an agent instance that is there.
    Instance(InstanceId),
    /// That of an agent instance made with the run.
    NewInstance(NewInstance),
    /// That of the first agent instance, of this agent, of a session made with the run.
    NewSession(NewSession, String),
}

impl NewRun {
    /// A run in the context of an existing agent instance.
    pub fn new(instance: InstanceId) -> Self {
        Self::at(RunPlace::Instance(instance))
    }

    /// A run in a new agent instance.
    pub fn in_new_instance(instance: NewInstance) -> Self {
        Self::at(RunPlace::NewInstance(instance))
    }

    /// A run of an agent in a new session.
    pub fn in_new_session(session: NewSession, agent_name: impl Into<String>) -> Self {
        Self::at(RunPlace::NewSession(session, agent_name.into()))
    }

    pub(crate) fn at(place: RunPlace) -> Self {
        Self {
            place,
            id: None,
            agent_name: None,
            project: None,
            parent_run_id: None,
            max_steps: None,
            node_id: None,
            usage: None,
            metadata: None,
            messages: Vec::new(),
            dangling: None,
            concurrent: false,
        }
    }
}

/// The session and the instance of a [`RunPlace`].
struct Made {
    session: Option<Session>,
    new_instance: bool,
    instance: AgentInstance,
    project: Option<String>,
    guard: Guard,
}

impl Runs {
    /// Starts a run, creating its session and instance if needed, as one batch. Durable when it returns.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) when the instance, session or parent run doesn't exist,
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) when an id or name is taken, [`WrongStatus`](ErrorKind::WrongStatus)
    /// when another run is active in the context and [`concurrent`](NewRun::concurrent) isn't set,
    /// [`Conflict`](ErrorKind::Conflict) when the context was written to while its tool calls were being closed,
    /// [`InvalidInput`](ErrorKind::InvalidInput) or [`TooLarge`](ErrorKind::TooLarge) for a field that is refused.
    pub async fn start(&self, new: NewRun) -> Result<RunRecorder> {
        max_steps::check(new.max_steps)?;
        if let Some(parent) = new.parent_run_id {
            let found = self.index().read(|runs| runs.run(parent).is_some()).await?;
            if !found {
                return Err(Error::not_found(format!(
                    "no run {parent} to be the parent; start it first"
                )));
            }
        }
        let made = self.place(&new.place).await?;
        let run = self.run_from(&new, &made);
        self.check_run_id(new.id, &made).await?;
        let _alone = self.alone_in(&new, &made).await?;
        let first = initial_events(&new.messages, run.id)?;
        let (mut context, expected) = self.closing(&new, &first, &run, &made).await?;
        context.extend(first);
        let metas = context
            .iter()
            .map(|event| event.encode(made.instance.id))
            .collect::<Result<Vec<_>>>()?;
        let details = RunDetails::default().and(RunDetails {
            usage: new.usage.clone(),
            metadata: new.metadata.clone(),
        });
        let creation = Creation::new(&run, details)?;

        // The creation comes first: the run's messages are those after it.
        let mut ops = creation.ops();
        if !context.is_empty() {
            let stream = context_stream(made.instance.id);
            ops.push(Op::Append {
                stream,
                expected,
                records: context_records(&context, &metas),
            });
        }
        // Before the run is in the log, so that a concurrent recovery doesn't mistake it for an orphan.
        let _live = self.index().shared().live().enter(run.id);
        let written = if made.new_instance {
            self.write_with_place(&made, ops).await
        } else {
            self.store
                .backend()
                .commit(Batch::new(ops))
                .await
                .map(|_| ())
        };
        written.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists if new.id.is_some() => Error::with_source(
                ErrorKind::AlreadyExists,
                format!("run {} can't be started: {error}", run.id),
                error,
            ),
            _ => error,
        })?;
        self.index().after_commit().await;
        self.recorder(run.id).await
    }

    /// Checks that no other run is active in an existing context, and prevents that one starts at the same time.
    async fn alone_in(&self, new: &NewRun, made: &Made) -> Result<Option<Entering>> {
        if made.new_instance || new.concurrent {
            return Ok(None);
        }
        self.enter(made.instance.session_id, made.instance.id)
            .await
            .map(Some)
    }

    /// The error results for tool calls of a context that would stay open before the run's first messages,
    /// and the last sequence that the context is expected to have.
    async fn closing(
        &self,
        new: &NewRun,
        first: &[NewContextEvent],
        run: &Run,
        made: &Made,
    ) -> Result<(Vec<NewContextEvent>, Expected)> {
        let dangling = match &new.dangling {
            None | Some(Dangling::Report) if first.is_empty() => Dangling::Report,
            given => given.clone().unwrap_or_default(),
        };
        if made.new_instance || first.is_empty() && dangling == Dangling::Report {
            check_results(&[], first)?;
            return Ok((Vec::new(), Expected::Any));
        }
        let (calls, last) = self
            .store
            .context(made.instance.id)
            .await?
            .dangling_at()
            .await?;
        // Results at the beginning of the messages answer open calls.
        let results = first
            .iter()
            .take_while(|event| event.kind == ContextEventKind::ToolResult);
        let answered: Vec<_> = results
            .flat_map(|event| &event.meta.tools)
            .map(|mark| &mark.tool_call_id)
            .collect();
        let (own, open): (Vec<_>, Vec<_>) = calls
            .into_iter()
            .partition(|call| answered.contains(&&call.id));
        check_results(&own, first)?;
        let closing = match (&dangling, open.as_slice()) {
            (Dangling::Report, [_, ..]) => return Err(between(&open)),
            (Dangling::Report, []) => Vec::new(),
            (dangling, open) => closing_events(run, open, dangling)?,
        };
        Ok((closing, Expected::Last(Sequence(last))))
    }

    async fn write_with_place(&self, made: &Made, ops: Vec<Op<'_>>) -> Result<()> {
        self.store
            .shared
            .catalog
            .change(|catalog| {
                let mut events = Vec::new();
                if let Some(session) = &made.session {
                    check_free(catalog, session)?;
                    events.push(CatalogEvent::SessionCreated(session.clone()));
                } else {
                    check_instance(catalog, &made.instance)?;
                }
                events.push(CatalogEvent::InstanceCreated(made.instance.clone()));
                Ok((
                    Change {
                        events,
                        ops: ops.clone(),
                        guard: made.guard,
                    },
                    (),
                ))
            })
            .await
    }

    async fn place(&self, place: &RunPlace) -> Result<Made> {
        let backend = self.store.backend();
        let made = match place {
            RunPlace::Instance(id) => {
                let instance = self.store.writable_instance(*id).await?;
                let project = self.project_of(instance.session_id).await?;
                Made {
                    session: None,
                    new_instance: false,
                    instance,
                    project,
                    guard: Guard::Any,
                }
            }
            RunPlace::NewInstance(new) => {
                let instance = AgentInstance {
                    id: new.id.unwrap_or_else(|| InstanceId(backend.new_id())),
                    session_id: new.session_id,
                    agent_name: new.agent_name.clone(),
                    parent_instance_id: new.parent_instance_id,
                    created_at_ms: new.created_at_ms.unwrap_or_else(|| backend.now_ms()),
                };
                check_unused(&**backend, new.id.map(InstanceId::as_uuid)).await?;
                let guard = if new.id.is_some() {
                    Guard::Unchanged
                } else {
                    Guard::Any
                };
                let project = self.project_of(instance.session_id).await?;
                Made {
                    session: None,
                    new_instance: true,
                    instance,
                    project,
                    guard,
                }
            }
            RunPlace::NewSession(new, agent_name) => {
                let session = self.store.session_from(new);
                session.check()?;
                check_unused(&**backend, new.id.map(SessionId::as_uuid)).await?;
                let instance = AgentInstance {
                    id: InstanceId(backend.new_id()),
                    session_id: session.id,
                    agent_name: agent_name.clone(),
                    parent_instance_id: None,
                    created_at_ms: session.created_at_ms,
                };
                let (project, guard) = (session.project.clone(), Guard::of_new(new));
                Made {
                    session: Some(session),
                    new_instance: true,
                    instance,
                    project,
                    guard,
                }
            }
        };
        made.instance.check()?;
        Ok(made)
    }

    /// Checks that an id that a caller gives to a run is not in use, nor given to the session or instance created with it.
    async fn check_run_id(&self, id: Option<RunId>, made: &Made) -> Result<()> {
        let Some(RunId(id)) = id else { return Ok(()) };
        self.store.shared.catalog.check_id(id).await?;
        if id == made.instance.id.as_uuid() || id == made.instance.session_id.as_uuid() {
            return Err(Error::invalid(format!(
                "a run can't have the id {id} of its own instance or session; leave it out"
            )));
        }
        Ok(())
    }

    async fn project_of(&self, session: SessionId) -> Result<Option<String>> {
        let look = |catalog: &runlog_model::Catalog| {
            live_session(catalog, session).map(|found| found.project.clone())
        };
        self.store.shared.catalog.read(look).await?
    }

    fn run_from(&self, new: &NewRun, made: &Made) -> Run {
        let backend = self.store.backend();
        let id = new.id.unwrap_or_else(|| RunId(backend.new_id()));
        let run = fresh_run(id, &made.instance, backend.now_ms());
        Run {
            project: new.project.clone().or_else(|| made.project.clone()),
            agent_name: new.agent_name.clone().unwrap_or(run.agent_name),
            max_steps: new.max_steps,
            parent_run_id: new.parent_run_id,
            node_id: new.node_id.clone(),
            ..run
        }
    }
}

/// An error for a result of a call that is neither open nor made by an earlier message, for a second result, and for a
/// message between a call and its result.
fn check_results(calls: &[DanglingToolCall], events: &[NewContextEvent]) -> Result<()> {
    let mut open: HashSet<&str> = calls.iter().filter_map(|call| call.id.as_deref()).collect();
    let mut order = OpenCalls::of(calls);
    for event in events {
        order.take(event)?;
        let ids = event
            .meta
            .tools
            .iter()
            .filter_map(|mark| mark.tool_call_id.as_deref());
        for id in ids {
            match event.kind {
                ContextEventKind::ToolCall => drop(open.insert(id)),
                ContextEventKind::ToolResult if !open.remove(id) => {
                    return Err(Error::invalid(format!(
                        "a message of the run is the result of the tool call {id:?}, which isn't open: nobody makes it, or it \
                         has its result"
                    )));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

fn initial_events(messages: &[RawJson], run: RunId) -> Result<Vec<NewContextEvent>> {
    let options = EventOptions {
        run_id: Some(run),
        step_number: Some(0),
        ..EventOptions::default()
    };
    let mut events = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let of_message =
            NewContextEvent::of_message(message.clone(), &options).map_err(|error| {
                let error = error;
                Error::new(
                    error.kind(),
                    format!("message {} of the run: {error}", index + 1),
                )
            })?;
        events.extend(of_message);
    }
    Ok(events)
}
