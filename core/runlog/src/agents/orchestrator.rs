//! [`Orchestrator`]: the public handle of the orchestration.

use super::{
    Executor, OrchestratorOptions, ResumeReport, RunContext, Runtime, SpawnRequest, SpawnResult,
    Spawned, StartAgent, active_run::ActiveRun, inner::Inner, space::SharedSpace,
};
#[cfg(not(target_family = "wasm"))]
use std::sync::Weak;
use std::{fmt, sync::Arc, time::Duration};

use runlog_model::{AgentSummary, RawJson, RunId, Stop};

#[cfg(not(target_family = "wasm"))]
use crate::kernel::writer_requests::WriterRequest;
use crate::{Result, Store, runs::ResumeOptions};

/// Starts agents, lets them spawn others, stops and resumes them: each as a run of a store.
///
/// Cheap to clone; all clones are the same. Active runs continue as long as the runtime does, even if all handles are dropped.
///
/// ```
/// use runlog::{
///     AgentDefinition, NewMessage, Orchestrator, Store,
///     agents::{
///         OrchestratorOptions, RunContext, SpawnRequest, StartAgent, TokioRuntime, executor_fn,
///     },
/// };
///
/// # let tokio = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
/// # tokio.block_on(async {
/// let store = Store::in_memory();
/// store.agents().define(AgentDefinition::new("lead", "Splits the work.")).await?;
/// store.agents().define(AgentDefinition::new("worker", "Does a part.")).await?;
///
/// let runtime = TokioRuntime::current().expect("this is a task of tokio");
/// let orchestrator = Orchestrator::new(store, runtime, OrchestratorOptions::default());
/// orchestrator.register("lead", executor_fn(|run: RunContext| async move {
///     run.next_step().await?;
///     let results = run.spawn_agents(vec![SpawnRequest::new("worker", "a"), SpawnRequest::new("worker", "b")]).await?;
///     Ok::<_, runlog::Error>(format!("{} parts are done", results.len()))
/// }));
/// orchestrator.register("worker", executor_fn(|run: RunContext| async move {
///     run.record_message(NewMessage::assistant("Done.")).await?;
///     Ok::<_, runlog::Error>("done")
/// }));
///
/// let lead = orchestrator.start(StartAgent::new("lead", "Build it.")).await?;
/// assert_eq!(lead.wait().await?.summary.as_deref(), Some("2 parts are done"));
/// # Ok::<(), runlog::Error>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct Orchestrator {
    pub(super) inner: Arc<Inner>,
}

/// A run that was started.
#[derive(Clone)]
pub struct RunHandle {
    inner: Arc<Inner>,
    live: Arc<ActiveRun>,
}

impl Orchestrator {
    /// An orchestrator of a store, whose tasks a runtime runs.
    #[cfg_attr(
        target_family = "wasm",
        expect(
            clippy::arc_with_non_send_sync,
            reason = "there it isn't sent; elsewhere it is Send and Sync"
        )
    )]
    pub fn new(store: Store, runtime: impl Runtime, options: OrchestratorOptions) -> Self {
        store.receive_requests();
        let inner = Arc::new(Inner::new(store, Box::new(runtime), options));
        #[cfg(not(target_family = "wasm"))]
        {
            let receiver: Weak<Inner> = Arc::downgrade(&inner);
            inner.store.shared.folds.receivers.add(receiver);
        }
        Self { inner }
    }

    /// Breaks the orchestration on purpose. Once only.
    #[cfg(feature = "_broken-orchestrator")]
    #[doc(hidden)]
    pub fn break_with(&self, defect: super::Defect) {
        let _ = self.inner.defect.set(defect);
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// The bounds.
    pub fn options(&self) -> &OrchestratorOptions {
        &self.inner.options
    }

    /// Registers the executor of the agents of this name, in every project. It replaces the previous one; active runs
    /// keep theirs.
    pub fn register(&self, agent_name: impl Into<String>, executor: impl Executor) {
        self.inner
            .executors()
            .by_agent
            .insert(agent_name.into(), Arc::new(executor));
    }

    /// Registers the executor of every agent that has none of its own.
    pub fn register_default(&self, executor: impl Executor) {
        self.inner.executors().of_others = Some(Arc::new(executor));
    }

    /// Starts an agent as the root of a tree. Its run is durable when this returns, and about to begin.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when the agent isn't defined or has no executor, or its session or
    /// context doesn't exist; [`InvalidInput`](crate::ErrorKind::InvalidInput) for a timeout of 0;
    /// [`LimitReached`](crate::ErrorKind::LimitReached) when too many runs are active.
    pub async fn start(&self, start: StartAgent) -> Result<RunHandle> {
        let live = self.inner.start(start).await?;
        Ok(RunHandle {
            inner: Arc::clone(&self.inner),
            live,
        })
    }

    /// Resumes a paused run with its agent. The new run is durable when this returns, and about to begin.
    ///
    /// # Errors
    /// As [`Runs::resume`](crate::runs::Runs::resume); [`NotFound`](crate::ErrorKind::NotFound) when the agent isn't
    /// defined, or has no executor; [`InvalidInput`](crate::ErrorKind::InvalidInput) for a timeout of 0.
    pub async fn resume(
        &self,
        run_id: RunId,
        options: &ResumeOptions,
        timeout: Option<Duration>,
    ) -> Result<RunHandle> {
        let live = self.inner.resume(run_id, options, timeout).await?;
        Ok(RunHandle {
            inner: Arc::clone(&self.inner),
            live,
        })
    }

    /// Resumes every run that a crash interrupted, once each, and waits until all of them have ended. Call it after the
    /// executors are registered: runs whose agent has none stay paused.
    ///
    /// A run that was waiting for sub-agents is resumed after them: by then their results are in its context, as the
    /// result of its tool call. Other runs get a message to continue from their last record. At most
    /// [`concurrent_max`](OrchestratorOptions::concurrent_max) of them work at a time. Concurrent calls, also those of
    /// other orchestrators of the store, are serialized.
    ///
    /// # Errors
    /// Those of reading the store. A run that can't be resumed is listed in the report.
    pub async fn resume_all(&self) -> Result<ResumeReport> {
        let inner = Arc::clone(&self.inner);
        self.inner
            .to_the_end(async move { inner.resume_all().await })
            .await?
    }

    /// Spawns sub-agents of a running run, all at once, and waits for all of them. Returns their outcomes in the order
    /// of the requests. A refused request doesn't affect the others.
    ///
    /// The requests and the results are recorded in the run's context as a tool call. When the returned future is
    /// dropped, the sub-agents are cancelled.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) while other tool calls of the context await their results
    /// (another spawn by code is one of these), because providers refuse a call in between: spawn all sub-agents in one
    /// call. [`NotFound`](crate::ErrorKind::NotFound) when there is no such run,
    /// [`WrongStatus`](crate::ErrorKind::WrongStatus) when it isn't running or is being stopped,
    /// [`TooLarge`](crate::ErrorKind::TooLarge) for too many requests, [`LimitReached`](crate::ErrorKind::LimitReached)
    /// when the tree would be too deep, or too many runs are active. Nothing is spawned then.
    pub async fn spawn_agents(
        &self,
        parent: RunId,
        requests: Vec<SpawnRequest>,
    ) -> Result<Vec<SpawnResult>> {
        let parent = self.inner.live_or_outside(parent).await?;
        self.inner.spawn_agents(parent.live(), None, requests).await
    }

    /// Spawns sub-agents of a run as [`spawn_agents`](Self::spawn_agents) does, and doesn't wait for them: their runs
    /// are durably created when this returns, and [`Spawned::next`] returns each outcome as a run ends.
    ///
    /// ```
    /// # async fn spawn(orchestrator: runlog::Orchestrator, parent: runlog::RunId, requests: Vec<runlog::agents::SpawnRequest>)
    /// # -> runlog::Result<()> {
    /// let mut spawned = orchestrator.spawn(parent, requests).await?;
    /// println!("at work: {:?}", spawned.run_ids());
    /// while let Some((request, result)) = spawned.next().await {
    ///     println!("request {request} is {}", result.status);
    /// }
    /// let in_order = spawned.results().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`spawn_agents`](Self::spawn_agents).
    pub async fn spawn(&self, parent: RunId, requests: Vec<SpawnRequest>) -> Result<Spawned> {
        let parent = self.inner.live_or_outside(parent).await?;
        self.inner.spawn(parent, None, requests).await
    }

    /// [`spawn`](Self::spawn) for a tool call that is in the run's context already; the results are recorded as that
    /// call's result.
    ///
    /// # Errors
    /// As [`spawn_agents`](Self::spawn_agents).
    pub async fn spawn_for(
        &self,
        parent: RunId,
        tool_call_id: impl Into<String>,
        requests: Vec<SpawnRequest>,
    ) -> Result<Spawned> {
        let parent = self.inner.live_or_outside(parent).await?;
        let call_id = Some(tool_call_id.into());
        self.inner.spawn(parent, call_id, requests).await
    }

    /// [`spawn_agents`](Self::spawn_agents) for a tool call that is in the run's context already; the results are
    /// recorded as that call's result.
    ///
    /// # Errors
    /// As [`spawn_agents`](Self::spawn_agents).
    pub async fn spawn_agents_for(
        &self,
        parent: RunId,
        tool_call_id: impl Into<String>,
        requests: Vec<SpawnRequest>,
    ) -> Result<Vec<SpawnResult>> {
        let parent = self.inner.live_or_outside(parent).await?;
        self.inner
            .spawn_agents(parent.live(), Some(tool_call_id.into()), requests)
            .await
    }

    /// Whether an executor is registered for agents of this name, or for all others.
    pub fn has_executor(&self, agent_name: &str) -> bool {
        let executors = self.inner.executors();
        executors.of_others.is_some() || executors.by_agent.contains_key(agent_name)
    }

    /// The agents of a project as its agents see them.
    ///
    /// # Errors
    /// Those of reading the store.
    pub async fn list_available_agents(&self, project: Option<&str>) -> Result<Vec<AgentSummary>> {
        self.inner
            .store
            .agents()
            .list_available_agents(project)
            .await
    }

    /// Cancels a run and all runs below it, paused ones included; `cancelled` is durable for all of them when this
    /// returns, in one batch. Working agents are notified, and have a [grace period](OrchestratorOptions::stop_grace)
    /// to record what they have. A run that has ended stays as it is.
    ///
    /// Of a store that is open for reading, the process that writes it is asked to do this. It answers while it has an
    /// orchestrator; it is waited for as long as [`answer_timeout`](OrchestratorOptions::answer_timeout) says.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such run;
    /// [`Locked`](crate::ErrorKind::Locked) when another process was to be asked and took no request: nothing was done;
    /// [`OutcomeUnknown`](crate::ErrorKind::OutcomeUnknown) when it took the request and didn't answer, which is known within
    /// a second or two when it was killed, and after a minute when it hangs: the run tells what was done; else those of the
    /// storage.
    pub async fn cancel(&self, run_id: RunId) -> Result<()> {
        #[cfg(not(target_family = "wasm"))]
        if let Some(done) = self.inner.elsewhere(WriterRequest::cancel(run_id)).await {
            return done;
        }
        let run = self.inner.live_or_outside(run_id).await?;
        self.inner.clone().cancel(Arc::clone(run.live())).await
    }

    /// Pauses a run and all active runs below it: each of them can be resumed separately. Durable for all of them when
    /// this returns, in one batch. Working agents are notified, and have a [grace
    /// period](OrchestratorOptions::stop_grace) to record what they have. A run that has paused or ended stays as it
    /// is. A string is the reason of a pause on request; a [`Stop`] can name another cause. Of a store that is open for
    /// reading, the process that writes it is asked, as for [`cancel`](Self::cancel).
    ///
    /// # Errors
    /// As [`cancel`](Self::cancel).
    pub async fn pause(&self, run_id: RunId, reason: impl Into<Stop>) -> Result<()> {
        let reason = reason.into();
        #[cfg(not(target_family = "wasm"))]
        if let Some(done) = self
            .inner
            .elsewhere(WriterRequest::pause(run_id, reason.clone()))
            .await
        {
            return done;
        }
        let run = self.inner.live_or_outside(run_id).await?;
        let (inner, live) = (Arc::clone(&self.inner), Arc::clone(run.live()));
        self.inner
            .to_the_end(async move { inner.pause(live, reason).await })
            .await?
    }

    /// Sends a command to a run that is active here: it is recorded in the run's stream, and added to its inbox.
    /// Durable when it returns. Of a store that is open for reading, the process that writes it is asked, as for
    /// [`cancel`](Self::cancel); also for a flow that it works on without an orchestrator.
    ///
    /// # Errors
    /// As [`cancel`](Self::cancel); [`WrongStatus`](crate::ErrorKind::WrongStatus) when the run isn't active here,
    /// [`LimitReached`](crate::ErrorKind::LimitReached) when too many commands wait for it, or were taken without a record
    /// since; [`InvalidInput`](crate::ErrorKind::InvalidInput) when it is no command, names another run,
    /// or is a `send`, `reply` or `resume` with a message that isn't text.
    pub async fn send(&self, run_id: RunId, command: &RawJson) -> Result<()> {
        #[cfg(not(target_family = "wasm"))]
        if let Some(done) = self
            .inner
            .elsewhere(WriterRequest::send(run_id, command))
            .await
        {
            return done;
        }
        match self.inner.live(run_id) {
            Some(live) => self.inner.send(&live, command).await,
            None => Err(self.inner.not_here(run_id).await?),
        }
    }

    /// The run, if it is active here.
    pub fn handle(&self, run_id: RunId) -> Option<RunHandle> {
        let live = self.inner.live(run_id)?;
        Some(RunHandle {
            inner: Arc::clone(&self.inner),
            live,
        })
    }

    /// How many runs are active here, those that wait for a permit included.
    pub fn live_count(&self) -> usize {
        self.inner.live_runs().len()
    }
}

impl RunHandle {
    /// The run.
    pub fn run_id(&self) -> RunId {
        self.live.id()
    }

    /// Waits until the run has ended or paused, by its executor, by the orchestrator or by another recorder of the run, and
    /// returns its outcome.
    ///
    /// # Errors
    /// Those of the storage, when its end couldn't be recorded; [`Closed`](crate::ErrorKind::Closed) when the runtime
    /// that it ran on is gone. The run is still `running` then; the next opening of the store pauses it.
    pub async fn wait(&self) -> Result<SpawnResult> {
        self.live.ended.cancelled().await;
        self.live
            .failure()
            .map_or_else(|| Ok(self.live.result()), Err)
    }

    /// As [`Orchestrator::cancel`].
    ///
    /// # Errors
    /// As [`Orchestrator::cancel`].
    pub async fn cancel(&self) -> Result<()> {
        self.inner.clone().cancel(Arc::clone(&self.live)).await
    }

    /// As [`Orchestrator::send`].
    ///
    /// # Errors
    /// As [`Orchestrator::send`].
    pub async fn send(&self, command: &RawJson) -> Result<()> {
        self.inner.send(&self.live, command).await
    }

    /// The values that the run shares with the runs below it.
    pub fn space(&self) -> SharedSpace {
        self.live.space.clone()
    }
}

impl RunContext {
    /// The orchestrator that runs it.
    pub fn orchestrator(&self) -> Orchestrator {
        let inner = Arc::clone(&self.inner);
        Orchestrator { inner }
    }
}

impl fmt::Debug for Orchestrator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Orchestrator")
            .field("live", &self.live_count())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for RunHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunHandle")
            .field("run_id", &self.run_id())
            .finish_non_exhaustive()
    }
}
