//! Resuming a paused run: the context is rebuilt exactly, a message is added, and a new run continues in it.

use runlog_log::{Batch, Expected, Op, Sequence};
use runlog_model::{
    DanglingToolCall, EncodedEvent, EventOptions, Message, NewContextEvent, NewMessage, RawJson,
    Role, Run, RunDetails, RunEvent, RunId, RunStatus, max_steps,
};

use super::{
    RunRecorder, Runs,
    dangling::{Dangling, between, closing_events, is_the_models_turn, leaves_open},
    load::LoadedRun,
    rebuilt::{Rebuilt, Wanted},
};
use crate::{
    Error, ErrorKind, Result,
    flows::SavedFlow,
    journal::attempts::Retries,
    kernel::records::{append, context_records, context_stream, run_stream},
    runs::creation::Creation,
};
use serde::{Deserialize, Deserializer};

/// The steps that a run and those it was resumed from may take together before it can't be resumed any more.
pub const MAX_TOTAL_STEPS_PER_RUN: u32 = 500;

/// The default message to the agent.
pub(crate) const CONTINUE: &str = "Continue your work from where you left off.";

/// How to resume a run.
///
/// ```
/// use runlog::{
///     NewMessage, NewRun, NewSession,
///     blocking::Store,
///     runs::{Continuation, Dangling, ResumeOptions},
/// };
///
/// let store = Store::in_memory();
/// let run = store.runs().start(NewRun::in_new_session(NewSession::default(), "coder"))?;
/// run.pause("lunch")?;
/// let options = ResumeOptions {
///     message: Continuation::Message(NewMessage::user("Now the tests.")),
///     max_steps: Some(50),
///     dangling: Dangling::Report,
///     ..ResumeOptions::default()
/// };
/// assert_eq!(store.runs().resume(run.id(), &options)?.run.max_steps, Some(50));
/// # Ok::<(), runlog::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ResumeOptions {
    /// What the agent is told. In JSON what the user says, `null` for nothing, left out for the default.
    #[cfg_attr(feature = "schema", schemars(with = "Option<RawJson>"))]
    pub message: Continuation,
    /// The steps the new run may take; `None` is as many as the run before could.
    #[serde(deserialize_with = "max_steps::deserialize")]
    pub max_steps: Option<u32>,
    /// The cumulative steps from which on no resume is allowed.
    pub max_total_steps: u32,
    /// What becomes of tool calls that have no result.
    pub dangling: Dangling,
    /// Whether a run that is over, however it ended, is resumed too. It stays completed, failed or cancelled, and tells
    /// by [`resumed_by`](Run::resumed_by) which one goes on.
    pub ended: bool,
    /// The id of the new run, where the caller has one already; else a fresh one.
    pub id: Option<RunId>,
    /// The run that spawns the new one; `None` is the one that spawned the run before.
    pub parent_run_id: Option<RunId>,
}

impl Default for ResumeOptions {
    fn default() -> Self {
        Self {
            message: Continuation::default(),
            max_steps: None,
            max_total_steps: MAX_TOTAL_STEPS_PER_RUN,
            dangling: Dangling::default(),
            ended: false,
            id: None,
            parent_run_id: None,
        }
    }
}

/// The message to an agent when its run is resumed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Continuation {
    /// A standard message to continue. It is [marked](runlog_model::ContextEvent::is_continuation), because the user
    /// didn't write it. It is left out if tool calls are left open by [`Dangling::Report`], because no provider accepts
    /// a message between a call and its result; and in the forms of Mistral and Bedrock behind results of tools, in Bedrock's behind
    /// any message of the user's, because these providers take none there, and the model answers without.
    #[default]
    Default,
    /// The standard message, followed by this task.
    Task(String),
    /// A message of the user.
    Message(NewMessage),
    /// No message: the context stays as it was.
    Nothing,
}

impl<'de> Deserialize<'de> for Continuation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let content = RawJson::deserialize(deserializer)?;
        Ok(if content == RawJson::null() {
            Self::Nothing
        } else {
            Self::Message(NewMessage::new(Role::User, content))
        })
    }
}

impl Continuation {
    /// The message, and whether it is the standard one.
    fn message(&self) -> Result<Option<(NewMessage, bool)>> {
        let (message, is_own) = match self {
            Self::Default => (NewMessage::user(CONTINUE), true),
            Self::Task(task) if task.trim().is_empty() => (NewMessage::user(CONTINUE), true),
            Self::Task(task) => (NewMessage::user(format!("{CONTINUE}\n\n{task}")), true),
            Self::Message(message) => (message.clone(), false),
            Self::Nothing => return Ok(None),
        };
        if message.role != Role::User {
            return Err(Error::invalid(format!(
                "a run is resumed with a message of the user's, not one of role {:?}",
                message.role.name()
            )));
        }
        Ok(Some((message, is_own)))
    }
}

/// The result of [`Runs::resume`]: a new run that continues a paused one.
#[derive(Clone, Debug)]
pub struct ResumedRun {
    /// Writes the new run.
    pub recorder: RunRecorder,
    /// The new run.
    pub run: Run,
    /// The messages to send to the model: the context as it was, byte for byte, with the results of closed calls and
    /// the new message.
    pub messages: Vec<Message>,
    /// The tool calls that had no result.
    pub dangling: Vec<DanglingToolCall>,
    /// How many of the last states of its flow couldn't be read, so that it goes on from an older one: see
    /// [`flows::Resumed`](crate::flows::Resumed::unreadable_states). 0 for a run without a flow.
    pub unreadable_states: u32,
}

/// What is written in the same batch as a resume.
#[derive(Default)]
pub(crate) struct ResumeExtras<'a> {
    /// The run that spawns the new one, if its stream gets a record of that.
    pub(crate) parent: Option<ResumedBy<'a>>,
    /// Whether the messages of the context are left out of what is returned: they may be many.
    pub(crate) without_messages: bool,
}

/// The parent of a run that is resumed.
pub(crate) struct ResumedBy<'a> {
    pub(crate) recorder: &'a RunRecorder,
    /// The record for its stream.
    pub(crate) record: &'a EncodedEvent,
    /// The status it may have.
    pub(crate) allowed: &'a [RunStatus],
}

impl Runs {
    /// Resumes a paused run: its context is rebuilt, interrupted tool calls are closed, a message asks the agent to
    /// continue, and a new run continues in the same context, counting steps from the old run's last one, with a fresh
    /// budget. A [flow](crate::flows::Flows) of the run becomes the new run's: its state, with the waiting commands, is
    /// the new run's snapshot. All of this is one batch. Durable when it returns.
    ///
    /// # Errors
    /// [`WrongStatus`](ErrorKind::WrongStatus) when the run isn't paused, or was resumed already;
    /// [`LimitReached`](ErrorKind::LimitReached) when the cumulative steps have reached
    /// [`max_total_steps`](ResumeOptions::max_total_steps); [`Conflict`](ErrorKind::Conflict) when another run has
    /// written to the context since, or is active in it; [`NotFound`](ErrorKind::NotFound) when there is no such run;
    /// [`InvalidInput`](ErrorKind::InvalidInput) for a message that isn't a user's, for one that would come between a
    /// call that is left open and its result, and for an outcome of a call that isn't open.
    pub async fn resume(&self, id: RunId, options: &ResumeOptions) -> Result<ResumedRun> {
        self.resume_with_extras(id, options, &ResumeExtras::default())
            .await
    }

    /// [`resume`](Self::resume) with extras in the same batch.
    pub(crate) async fn resume_with_extras(
        &self,
        id: RunId,
        options: &ResumeOptions,
        extras: &ResumeExtras<'_>,
    ) -> Result<ResumedRun> {
        max_steps::check(options.max_steps)?;
        if let Some(parent) = options.parent_run_id
            && !self.index().read(|runs| runs.run(parent).is_some()).await?
        {
            return Err(Error::not_found(format!(
                "no run {parent} to be the parent; start it first"
            )));
        }
        if let Some(RunId(new)) = options.id {
            self.store.shared.catalog.check_id(new).await?;
        }
        let message = options.message.message()?;
        let mut retries = Retries::default();
        loop {
            let redactions = self.store.backend().redactions();
            let old = self.load(id).await?;
            check(&old.run, options.max_total_steps, options.ended)?;
            self.store.writable_instance(old.run.instance_id).await?;
            let wanted = Wanted {
                messages: !extras.without_messages,
                style: options.message == Continuation::Default,
            };
            let rebuilt = self.rebuild(&old, wanted).await?;
            let run = self.resumed_run(&old.run, options);
            let closing = closing_events(&old.run, &rebuilt.dangling, &options.dangling)?;
            let message_events = match &message {
                None => Vec::new(),
                Some((_, true)) if leaves_open(&rebuilt.dangling, &options.dangling) => Vec::new(),
                Some(_) if leaves_open(&rebuilt.dangling, &options.dangling) => {
                    return Err(between(&rebuilt.dangling));
                }
                Some(_)
                    if options.message == Continuation::Default && is_the_models_turn(&rebuilt) =>
                {
                    Vec::new()
                }
                Some((message, is_own)) => {
                    let newest = rebuilt.newest.as_ref().map(|(_, json)| json);
                    continuation_events(&run, message.to_json_behind(newest)?, *is_own)?
                }
            };
            let _alone = self.enter(run.session_id, run.instance_id).await?;
            // Before the run is in the log, so that a concurrent recovery doesn't mistake it for an orphan.
            let _live = self.index().shared().live().enter(run.id);
            let flow = self.store.carried_flow(&old.run, &run).await?;
            let unreadable_states = flow.as_ref().map_or(0, |(_, unreadable)| *unreadable);
            let at = (rebuilt.last_sequence, flow.as_ref().map(|(flow, _)| flow));
            // The new run takes over details, and the state of the flow: as they are read again if something was erased meanwhile.
            let _beside = self.store.beside_erasures().await;
            if self.store.backend().redactions() != redactions {
                continue;
            }
            match self
                .write(
                    &old,
                    &run,
                    &closing,
                    &message_events,
                    at,
                    extras.parent.as_ref(),
                )
                .await
            {
                Ok(()) => return self.resumed(&run, rebuilt, unreadable_states, wanted).await,
                Err(error) => {
                    retries.again(error)?;
                    if let Some(parent) = &extras.parent {
                        parent.recorder.refresh().await?;
                    }
                }
            }
        }
    }

    async fn write(
        &self,
        old: &LoadedRun,
        run: &Run,
        closing: &[NewContextEvent],
        message_events: &[NewContextEvent],
        (last_sequence, flow): (u64, Option<&SavedFlow>),
        parent: Option<&ResumedBy<'_>>,
    ) -> Result<()> {
        let context = context_stream(run.instance_id);
        let metas = |events: &[NewContextEvent]| {
            events
                .iter()
                .map(|event| event.encode(run.instance_id))
                .collect::<Result<Vec<_>>>()
        };
        let (closing_metas, message_metas) = (metas(closing)?, metas(message_events)?);
        let resumed = RunEvent::Resumed {
            run_id: run.id,
            at_ms: run.created_at_ms,
        }
        .encode()?;
        // The usage belongs to each run; the other details are copied to the new run.
        let carried = RunDetails {
            metadata: old.run.metadata.clone(),
            ..RunDetails::default()
        };
        let creation = Creation::new(run, carried)?;
        // In this order, a run's messages lie between its creation and its end: those that close calls before
        // the old run's, the new message after the new one's creation.
        let mut ops = vec![
            Op::Append {
                stream: context,
                expected: Expected::Last(Sequence(last_sequence)),
                records: context_records(closing, &closing_metas),
            },
            Op::Append {
                stream: run_stream(old.run.id),
                expected: Expected::Last(old.last_sequence),
                records: vec![resumed.record()],
            },
        ];
        ops.extend(creation.ops());
        ops.extend(flow.into_iter().flat_map(|flow| flow.ops(creation.last())));
        ops.push(append(
            context,
            context_records(message_events, &message_metas),
        ));
        if let Some(ResumedBy {
            recorder,
            record: event,
            allowed,
        }) = parent
        {
            let (parent, last) = recorder.run_at();
            if !allowed.contains(&parent.status) {
                let message = format!(
                    "run {} is {}, and can't spawn sub-agents",
                    parent.id, parent.status
                );
                return Err(Error::new(ErrorKind::WrongStatus, message));
            }
            if let Some(by) = parent.resumed_by {
                let message = format!(
                    "run {} was resumed as run {by}, and has no sub-agents any more",
                    parent.id
                );
                return Err(Error::new(ErrorKind::WrongStatus, message));
            }
            let (stream, expected) = (run_stream(parent.id), Expected::Last(last));
            ops.push(Op::Append {
                stream,
                expected,
                records: vec![event.record()],
            });
        }
        self.store.backend().commit(Batch::new(ops)).await?;
        if flow.is_some() {
            self.store.shared.flows.after_commit().await;
        }
        if let Some(parent) = parent {
            parent.recorder.refresh().await?;
        }
        Ok(())
    }

    async fn resumed(
        &self,
        run: &Run,
        rebuilt: Rebuilt,
        unreadable_states: u32,
        wanted: Wanted,
    ) -> Result<ResumedRun> {
        self.index().after_commit().await;
        let recorder = self.recorder(run.id).await?;
        let mut messages = rebuilt.messages;
        if wanted.messages {
            let context = self.store.context(run.instance_id).await?;
            let since = rebuilt.last_sequence + 1;
            messages.extend(context.replay_from_sequence(since).await?);
        }
        Ok(ResumedRun {
            run: recorder.run(),
            recorder,
            messages,
            dangling: rebuilt.dangling,
            unreadable_states,
        })
    }

    fn resumed_run(&self, old: &Run, options: &ResumeOptions) -> Run {
        let backend = self.store.backend();
        Run {
            id: options.id.unwrap_or_else(|| RunId(backend.new_id())),
            status: RunStatus::Running,
            max_steps: options.max_steps.or(old.max_steps),
            parent_run_id: options.parent_run_id.or(old.parent_run_id),
            resumed_from: Some(old.id),
            resumed_by: None,
            summary: None,
            error_message: None,
            pause_reason: None,
            stop_kind: None,
            usage: None,
            metadata: None,
            created_at_ms: backend.now_ms(),
            completed_at_ms: None,
            duration_ms: None,
            ..old.clone()
        }
    }
}

/// An error if the run isn't paused (nor ended, if `ended` allows that), was resumed already, or has taken too many steps.
pub(crate) fn check(run: &Run, max_total_steps: u32, ended: bool) -> Result<()> {
    if run.status != RunStatus::Paused && !(ended && run.status.is_final()) {
        let instead = if run.status.is_final() {
            format!(
                "To go on in its context, resume it with the option `ended` (in a shell `--ended`), start a run in instance {}, or in a \
                 copy of session {}",
                run.instance_id, run.session_id
            )
        } else {
            "Pause it first, or wait until it is over".to_owned()
        };
        return Err(Error::new(
            ErrorKind::WrongStatus,
            format!(
                "run {} is {}; only paused runs can be resumed. {instead}",
                run.id, run.status
            ),
        ));
    }
    if let Some(by) = run.resumed_by {
        return Err(Error::new(
            ErrorKind::WrongStatus,
            format!(
                "run {} was resumed already, as run {by}; resume that one",
                run.id
            ),
        ));
    }
    if run.step_count >= max_total_steps {
        return Err(Error::new(
            ErrorKind::LimitReached,
            format!(
                "run {} has taken {} steps in all; the maximum total steps of {max_total_steps} are reached, and it can't be resumed",
                run.id, run.step_count
            ),
        ));
    }
    Ok(())
}

fn continuation_events(run: &Run, json: RawJson, is_own: bool) -> Result<Vec<NewContextEvent>> {
    let own = EventOptions {
        run_id: Some(run.id),
        step_number: Some(run.step_count),
        ..EventOptions::default()
    };
    let mut message_events = NewContextEvent::of_message(json, &own)?;
    message_events
        .iter_mut()
        .for_each(|event| event.meta.is_continuation = is_own);
    Ok(message_events)
}
