//! [`RunContext`]: what an executor holds of the run that it works on.

use std::{fmt, sync::Arc};

use runlog_log::{Durability, Sequence};
use runlog_model::{
    AgentDefinition, AgentSummary, EncodedEvent, Message, NewMessage, RawJson, Run, RunDetails,
    RunId, RunSnapshot, RuntimeCommand, RuntimeEvent,
};
use tokio_util::sync::CancellationToken;

use super::{
    SharedSpace, SpawnRequest, SpawnResult, Spawned, StopReason, ToolReply, active_run::ActiveRun,
    commands::taken_record, defect::Defect,
};
use crate::{
    Error, ErrorKind, Result,
    agents::inner::Inner,
    contexts::{AppendOptions, RawMessage},
    flows::{load_snapshot, receive_since},
    kernel::inbox::Inbox,
    runs::{BatchExtras, Recorded, ToolOutcome},
};

/// The run that an [`Executor`](super::Executor) works on: its context, its record, and what it shares with others.
///
/// Cheap to clone, and usable from many tasks. Everything that records is durable when it returns, and refused with
/// [`WrongStatus`](ErrorKind::WrongStatus) once the run has paused or ended, whoever ended it.
#[derive(Clone)]
pub struct RunContext {
    pub(super) inner: Arc<Inner>,
    live: Arc<ActiveRun>,
}

impl RunContext {
    pub(super) fn new(inner: Arc<Inner>, live: Arc<ActiveRun>) -> Self {
        Self { inner, live }
    }

    /// The run's id.
    pub fn run_id(&self) -> RunId {
        self.live.id()
    }

    /// The run as far as is known here.
    pub fn run(&self) -> Run {
        self.live.recorder.run()
    }

    /// What the agent is: its prompt, its tools, its bounds.
    pub fn definition(&self) -> &AgentDefinition {
        self.live
            .definition
            .as_deref()
            .expect("a run that an executor works on has a definition")
    }

    /// What it was asked to do. For a run that was resumed, what it was told beside to continue; where that is nothing, what
    /// the run was asked that it goes on from.
    pub fn task(&self) -> &str {
        &self.live.task
    }

    /// How many runs are above it: 0 for one that nobody spawned.
    pub fn depth(&self) -> u32 {
        self.live.depth
    }

    /// The messages of its context: exactly what to send to the model, in order, byte for byte. Those of the runs it
    /// goes on from are among them.
    ///
    /// # Errors
    /// Those of reading the store.
    pub async fn messages(&self) -> Result<Vec<Message>> {
        let context = self
            .inner
            .store
            .context(self.live.recorder.run().instance_id)
            .await?;
        context.get_messages().await
    }

    /// Begins the next step, and says its number, counted over all resumes.
    ///
    /// # Errors
    /// [`LimitReached`](ErrorKind::LimitReached) when the budget of steps is spent: the run is then paused, durably, and
    /// the executor should return; it is dropped after [a while](super::OrchestratorOptions::stop_grace). [`WrongStatus`](ErrorKind::WrongStatus) when the run isn't running any more.
    pub async fn next_step(&self) -> Result<u32> {
        let _pass = self.live.write_guard().await;
        let step = self.live.recorder.next_step().await;
        if step
            .as_ref()
            .is_err_and(|error| error.kind() == ErrorKind::LimitReached)
        {
            self.live.spent.cancel();
        }
        step
    }

    /// Says of the run what it took, such as tokens and their cost, and anything else, as
    /// [`RunRecorder::describe`](crate::runs::RunRecorder::describe) does.
    ///
    /// # Errors
    /// As [`RunRecorder::describe`](crate::runs::RunRecorder::describe).
    pub async fn describe(&self, details: RunDetails) -> Result<Run> {
        let _pass = self.live.write_guard().await;
        self.live.recorder.describe(details).await
    }

    /// Records a message given in parts, with the tool calls it asks for.
    ///
    /// # Errors
    /// As [`RunRecorder::record_message`](crate::runs::RunRecorder::record_message).
    pub async fn record_message(&self, message: NewMessage) -> Result<Recorded> {
        self.record_raw_message(message.to_json()?).await
    }

    /// Records a message in the provider's own JSON, kept byte for byte.
    ///
    /// # Errors
    /// As [`record_message`](Self::record_message).
    pub async fn record_raw_message(&self, json: RawJson) -> Result<Recorded> {
        let durability = self
            .inner
            .is_broken(Defect::AcknowledgesEarly)
            .then_some(Durability::Os);
        self.record_raw_message_with(
            json,
            &AppendOptions {
                durability,
                ..AppendOptions::default()
            },
        )
        .await
    }

    /// [`record_raw_message`](Self::record_raw_message) with options. Run and step are the run's own.
    ///
    /// # Errors
    /// As [`record_message`](Self::record_message); [`Conflict`](ErrorKind::Conflict) when the context's last
    /// sequence isn't the expected one.
    pub async fn record_raw_message_with(
        &self,
        json: RawJson,
        options: &AppendOptions,
    ) -> Result<Recorded> {
        let message = RawMessage {
            json: json.clone(),
            event: options.event.clone(),
        };
        let _pass = self.live.write_guard().await;
        let events = self.untold().await?;
        let extras = BatchExtras::events(&events.records);
        let recorded = self
            .live
            .recorder
            .record_with(&[message], options, &extras)
            .await;
        if recorded.is_err() && self.inner.is_broken(Defect::WritesLate) {
            self.inner.write_late(&self.live, json).await?;
        }
        let recorded = recorded?;
        events.are_told(&self.live);
        Ok(recorded)
    }

    /// Records what a tool gave for a call that was recorded before.
    ///
    /// # Errors
    /// As [`record_message`](Self::record_message).
    pub async fn record_tool_result(&self, outcome: &ToolOutcome) -> Result<Recorded> {
        let _pass = self.live.write_guard().await;
        let events = self.untold().await?;
        let extras = BatchExtras::events(&events.records);
        let recorded = self
            .live
            .recorder
            .record_tool_result_with(outcome, &extras)
            .await?;
        events.are_told(&self.live);
        Ok(recorded)
    }

    /// Records the assistant message that asked for tool calls together with what the tools gave, as one batch.
    ///
    /// # Errors
    /// As [`record_message`](Self::record_message); [`InvalidInput`](ErrorKind::InvalidInput) when an outcome answers no
    /// call of the message.
    pub async fn record_tool_call(
        &self,
        message: RawJson,
        outcomes: &[ToolOutcome],
    ) -> Result<Recorded> {
        let _pass = self.live.write_guard().await;
        let events = self.untold().await?;
        let extras = BatchExtras::events(&events.records);
        let recorded = self
            .live
            .recorder
            .record_tool_call_with(message, outcomes, &extras)
            .await?;
        events.are_told(&self.live);
        Ok(recorded)
    }

    /// Records an event for those who look on, such as one of the eight `agent:*` ones.
    ///
    /// # Errors
    /// As [`record_message`](Self::record_message).
    pub async fn record_event(&self, event: &RuntimeEvent) -> Result<()> {
        self.record_events(std::slice::from_ref(event)).await
    }

    /// Records events, all of them or none, with one flush.
    ///
    /// # Errors
    /// As [`record_message`](Self::record_message).
    pub async fn record_events(&self, events: &[RuntimeEvent]) -> Result<()> {
        let events: Vec<EncodedEvent> = events.iter().map(RuntimeEvent::encode).collect();
        let _pass = self.live.write_guard().await;
        let extras = BatchExtras::events(&events);
        self.live
            .recorder
            .record_with(&[], &AppendOptions::default(), &extras)
            .await
            .map(|_| ())
    }

    /// Saves a state, from which whoever goes on with the run can begin. The commands that wait are kept in it,
    /// whatever it says of them.
    ///
    /// # Errors
    /// [`TooLarge`](ErrorKind::TooLarge) when it is over its limit; else as [`record_message`](Self::record_message).
    pub async fn save_snapshot(&self, snapshot: &RunSnapshot) -> Result<()> {
        let _pass = self.live.write_guard().await;
        let inbox: &Inbox = &self.live.inbox;
        let _writing = inbox.writing().await;
        let run = self.live.recorder.run();
        if run.status != runlog_model::RunStatus::Running {
            return Err(Error::new(
                ErrorKind::WrongStatus,
                format!("run {} is {}", run.id, run.status),
            ));
        }
        let (store, own) = (&self.inner.store, run.id.to_string());
        // What waits for others, in the flow of the run, waits on.
        let (covered, mut before) = load_snapshot(store, run.id, Sequence::MAX)
            .await?
            .unwrap_or_default();
        let last = receive_since(store, run.id, covered, &mut before).await?;
        before
            .inbox
            .retain(|command| command.run_id.as_deref() != Some(&own));
        let (waiting, taken) = inbox.saved();
        before.inbox.extend(waiting);
        let state = RunSnapshot {
            run_id: Some(own),
            inbox: before.inbox,
            ..snapshot.clone()
        };
        let saved = store.saved_flow(run.id, &state).await?;
        store.backend().commit(saved.batch(Sequence(last))).await?;
        inbox.told(taken);
        saved.after_commit(store).await;
        Ok(())
    }

    /// The state that was saved last, by this run or by the one it goes on from.
    ///
    /// # Errors
    /// Those of reading the store.
    pub async fn snapshot(&self) -> Result<Option<RunSnapshot>> {
        let mut next = Some(self.run_id());
        while let Some(id) = next {
            if let Some((_, snapshot)) = load_snapshot(&self.inner.store, id, Sequence::MAX).await?
            {
                return Ok(Some(snapshot));
            }
            next = self
                .inner
                .store
                .runs()
                .get(id)
                .await?
                .and_then(|run| run.resumed_from);
        }
        Ok(None)
    }

    /// What it shares with the run that spawned it, and with those it spawns.
    pub fn space(&self) -> SharedSpace {
        self.live.space.clone()
    }

    /// The next command that was sent to it, once there is one, whoever sent it: its [orchestrator](super::Orchestrator::send)
    /// or the [flow](crate::flows::FlowRun::command) of the run, which share the inbox. One that was taken is told with the next
    /// message or tool result that the run records, or with its next snapshot; after a crash before that it comes back.
    pub async fn next_command(&self) -> RuntimeCommand {
        self.live.inbox.next().await
    }

    /// The next command that waits, if there is one.
    pub fn take_command(&self) -> Option<RuntimeCommand> {
        self.live.inbox.take()
    }

    /// Spawns sub-agents, all at once, and waits for all of them, as [`Orchestrator::spawn_agents`](super::Orchestrator::spawn_agents).
    ///
    /// # Errors
    /// As [`Orchestrator::spawn_agents`](super::Orchestrator::spawn_agents).
    pub async fn spawn_agents(&self, requests: Vec<SpawnRequest>) -> Result<Vec<SpawnResult>> {
        self.inner.spawn_agents(&self.live, None, requests).await
    }

    /// Spawns sub-agents, all at once, and doesn't wait for them, as [`Orchestrator::spawn`](super::Orchestrator::spawn).
    ///
    /// # Errors
    /// As [`Orchestrator::spawn_agents`](super::Orchestrator::spawn_agents).
    pub async fn spawn(&self, requests: Vec<SpawnRequest>) -> Result<Spawned> {
        let parent = self.inner.entered(Arc::clone(&self.live));
        self.inner.spawn(parent, None, requests).await
    }

    /// [`spawn`](Self::spawn) for a tool call that is in the context already, and gets its result there.
    ///
    /// # Errors
    /// As [`Orchestrator::spawn_agents`](super::Orchestrator::spawn_agents).
    pub async fn spawn_for(
        &self,
        tool_call_id: impl Into<String>,
        requests: Vec<SpawnRequest>,
    ) -> Result<Spawned> {
        let parent = self.inner.entered(Arc::clone(&self.live));
        let call_id = Some(tool_call_id.into());
        self.inner.spawn(parent, call_id, requests).await
    }

    /// [`spawn_agents`](Self::spawn_agents) for a tool call that is in the context already, and gets its result there.
    ///
    /// # Errors
    /// As [`Orchestrator::spawn_agents`](super::Orchestrator::spawn_agents).
    pub async fn spawn_agents_for(
        &self,
        tool_call_id: impl Into<String>,
        requests: Vec<SpawnRequest>,
    ) -> Result<Vec<SpawnResult>> {
        self.inner
            .spawn_agents(&self.live, Some(tool_call_id.into()), requests)
            .await
    }

    /// What there is to spawn.
    ///
    /// # Errors
    /// Those of reading the store.
    pub async fn list_available_agents(&self) -> Result<Vec<AgentSummary>> {
        let project = self.live.recorder.run().project;
        self.inner
            .store
            .agents()
            .list_available_agents(project.as_deref())
            .await
    }

    /// Does what a model's call of one of the [tools](super::tool_definitions) asks for, and records the result in the
    /// context, as that of the call. `None` when the tool is another one: then nothing is done.
    ///
    /// What is wrong with the arguments, and what refuses them, is told to the model.
    ///
    /// # Errors
    /// Those of the storage, and that the run is being stopped.
    pub async fn answer_tool_call(
        &self,
        tool_call_id: &str,
        name: &str,
        arguments: &RawJson,
    ) -> Result<Option<ToolReply>> {
        self.inner
            .answer_tool_call(&self.live, tool_call_id, name, arguments)
            .await
    }

    /// Whether it is to stop: it was cancelled, its time is up, or the run above it ended.
    pub fn is_cancelled(&self) -> bool {
        self.live.token.is_cancelled()
    }

    /// Ready once it is to stop. It may then record what it has, for [a while](super::OrchestratorOptions::stop_grace).
    pub async fn cancelled(&self) {
        self.live.token.cancelled().await;
    }

    /// Why it is to stop, and whether it can be gone on with then; `None` before it is to.
    pub fn stop_reason(&self) -> Option<StopReason> {
        let stop = self.live.stop()?;
        Some(StopReason {
            kind: stop.kind,
            message: stop.reason,
            resumable: self.live.is_pausing(),
        })
    }

    /// Tells when it is to stop. Cancelling it stops nothing: that is asked of the [`Orchestrator`](super::Orchestrator).
    pub fn cancellation_token(&self) -> CancellationToken {
        self.live.token.child_token()
    }

    /// What the run's stream doesn't tell yet of its space, and of the commands it took.
    async fn untold(&self) -> Result<Untold<'_>> {
        let now_ms = self.inner.now_ms();
        let unsaved = self.live.space.unsaved(now_ms)?;
        let taken = match self.live.inbox.untold() {
            0 => None,
            _ => {
                let pass = self.live.inbox.writing().await;
                Some((self.live.inbox.untold(), pass)).filter(|(count, _)| *count > 0)
            }
        };
        let mut records = Vec::new();
        if let Some((count, _)) = &taken {
            records.push(taken_record(*count, now_ms)?);
        }
        records.extend(unsaved.iter().map(|unsaved| unsaved.record.clone()));
        Ok(Untold {
            records,
            unsaved,
            taken,
        })
    }
}

/// What is told with the next thing that the run records.
struct Untold<'a> {
    records: Vec<EncodedEvent>,
    unsaved: Option<super::space::Unsaved>,
    /// How many commands were taken; the inbox is kept from others until that is told.
    taken: Option<(u32, tokio::sync::MutexGuard<'a, ()>)>,
}

impl Untold<'_> {
    fn are_told(self, live: &ActiveRun) {
        if let Some(unsaved) = &self.unsaved {
            live.space.saved(unsaved);
        }
        if let Some((count, _)) = &self.taken {
            live.inbox.told(*count);
        }
    }
}

impl fmt::Debug for RunContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunContext")
            .field("run_id", &self.run_id())
            .finish_non_exhaustive()
    }
}
