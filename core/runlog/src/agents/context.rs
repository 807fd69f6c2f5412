//! [`RunContext`]: an executor's handle of the run that it executes.

use std::{fmt, sync::Arc};

use runlog_log::Sequence;
use runlog_model::{
    AgentDefinition, AgentSummary, Message, RawJson, Run, RunDetails, RunId, RunSnapshot,
    RuntimeCommand,
};
use tokio_util::sync::CancellationToken;

use super::{
    SharedSpace, SpawnRequest, SpawnResult, Spawned, StopReason, ToolReply, active_run::ActiveRun,
};
use crate::{
    Error, ErrorKind, Result,
    agents::inner::Inner,
    flows::{load_snapshot, receive_since},
    kernel::inbox::{Inbox, Taker},
};

/// The run that an [`Executor`](super::Executor) executes: its context, its records, and the values it shares with
/// other runs.
///
/// Cheap to clone, and usable from many tasks. Every method that records is durable when it returns, and is refused
/// with [`WrongStatus`](ErrorKind::WrongStatus) once the run has paused or ended, for whatever reason.
#[derive(Clone)]
pub struct RunContext {
    pub(super) inner: Arc<Inner>,
    pub(super) live: Arc<ActiveRun>,
}

impl RunContext {
    pub(super) fn new(inner: Arc<Inner>, live: Arc<ActiveRun>) -> Self {
        Self { inner, live }
    }

    /// The run's id.
    pub fn run_id(&self) -> RunId {
        self.live.id()
    }

    /// The run as last known to this process.
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

    /// What it was asked to do. For a resumed run: the instructions given in addition to "continue", or the task of the
    /// run that it resumes if there were none.
    pub fn task(&self) -> &str {
        &self.live.task
    }

    /// How many runs are above it: 0 for a run that wasn't spawned.
    pub fn depth(&self) -> u32 {
        self.live.depth
    }

    /// The messages of its context: exactly what to send to the model, in order, byte for byte. The messages of the
    /// runs that it resumes are included.
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

    /// Begins the next step, and returns its number, counted over all resumes.
    ///
    /// # Errors
    /// [`LimitReached`](ErrorKind::LimitReached) when the budget of steps is spent: the run is then paused, durably,
    /// and the executor should return; it is dropped after the [grace period](super::OrchestratorOptions::stop_grace).
    /// [`WrongStatus`](ErrorKind::WrongStatus) when the run isn't running any more.
    pub async fn next_step(&self) -> Result<u32> {
        if self.live.is_spent() && *self.live.open_spawns().borrow() > 0 {
            // Nothing can be recorded once it is paused: first it is told to stop, and its sub-agents' results are recorded.
            self.live.spent.cancel();
            self.live.spawns_closed().await;
        }
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

    /// Records details of the run, such as its token usage and cost, as
    /// [`RunRecorder::describe`](crate::runs::RunRecorder::describe) does.
    ///
    /// # Errors
    /// As [`RunRecorder::describe`](crate::runs::RunRecorder::describe).
    pub async fn describe(&self, details: RunDetails) -> Result<Run> {
        let _pass = self.live.write_guard().await;
        self.live.recorder.describe(details).await
    }

    /// Saves a state from which the run that resumes this one can begin. The waiting commands are stored in it; those
    /// that `snapshot` lists are ignored.
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
        let gate = self.inner.store.runs().index().shared().gate(run.id);
        let mut saving = gate.saving().await;
        // Commands in the run's flow that wait for other runs keep waiting.
        let saved = load_snapshot(store, run.id, Sequence::MAX).await?;
        let saved = saved.unwrap_or_default();
        let (covered, mut before) = (saved.covered, saved.state);
        let last = receive_since(store, run.id, covered, &mut before).await?;
        before
            .inbox
            .retain(|command| command.run_id.as_deref() != Some(&own));
        let (waiting, taken) = inbox.saved(Taker::Agent);
        before.inbox.extend(waiting);
        let state = RunSnapshot {
            run_id: Some(own),
            inbox: before.inbox,
            ..snapshot.clone()
        };
        let (whole, status) = (state.encode()?, &state.status);
        store
            .save_flow(run.id, &mut saving, Sequence(last), &whole, status)
            .await?;
        inbox.mark_saved(Taker::Agent, taken);
        Ok(())
    }

    /// The state that was saved last, by this run or by a run that it resumes.
    ///
    /// # Errors
    /// Those of reading the store.
    pub async fn snapshot(&self) -> Result<Option<RunSnapshot>> {
        let mut next = Some(self.run_id());
        while let Some(id) = next {
            if let Some(saved) = load_snapshot(&self.inner.store, id, Sequence::MAX).await? {
                return Ok(Some(saved.state));
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

    /// The values it shares with the run that spawned it, and with the runs it spawns.
    pub fn space(&self) -> SharedSpace {
        self.live.space.clone()
    }

    /// Waits for the next command sent to it by its [orchestrator](super::Orchestrator::send) or by the run's
    /// [flow](crate::flows::FlowRun::command), which share one inbox. That a command was taken is recorded with the
    /// run's next message, tool result or [snapshot](Self::save_snapshot); after a crash before that, the command is
    /// delivered again. A snapshot that the flow saves doesn't record it.
    pub async fn next_command(&self) -> RuntimeCommand {
        self.live.inbox.next(Taker::Agent).await
    }

    /// The next command that waits, if there is one.
    pub fn take_command(&self) -> Option<RuntimeCommand> {
        self.live.inbox.take(Taker::Agent)
    }

    /// Spawns sub-agents, all at once, and waits for all of them, as
    /// [`Orchestrator::spawn_agents`](super::Orchestrator::spawn_agents).
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

    /// The agents that it can spawn.
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

    /// Executes a model's call of one of the [tools](super::tool_definitions), and records the call's result in the
    /// context. `None` if the tool isn't one of these: nothing is done then.
    ///
    /// Invalid arguments and refusals are reported to the model as the call's result.
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

    /// Whether it is to stop: it was cancelled, it timed out, or the run above it ended.
    pub fn is_cancelled(&self) -> bool {
        self.live.token.is_cancelled()
    }

    /// Ready once it is to stop. It can still record for the [grace period](super::OrchestratorOptions::stop_grace).
    pub async fn cancelled(&self) {
        self.live.token.cancelled().await;
    }

    /// Why it is to stop, and whether it can be resumed afterwards; `None` before it is to stop.
    pub fn stop_reason(&self) -> Option<StopReason> {
        let stop = self.live.stop()?;
        Some(StopReason {
            kind: stop.kind,
            message: stop.reason,
            resumable: self.live.is_pausing(),
        })
    }

    /// Cancelled when the run is to stop. Cancelling the token doesn't stop the run: use the
    /// [`Orchestrator`](super::Orchestrator).
    pub fn cancellation_token(&self) -> CancellationToken {
        self.live.token.child_token()
    }
}

impl fmt::Debug for RunContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunContext")
            .field("run_id", &self.run_id())
            .finish_non_exhaustive()
    }
}
