//! [`Inner`]: the state that all handles of an orchestrator share, with the active runs.

use super::{
    MaybeSend, MaybeSync, OrchestratorOptions, Runtime, Task, active_run::ActiveRun,
    defect::Defect, end::Execution, space::Spaces,
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, Weak},
    time::Duration,
};

use runlog_model::{AgentDefinition, RunId, RunStatus, RuntimeCommand};
use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::CancellationToken;

use crate::{Error, ErrorKind, Result, Store, kernel::inbox::Inbox};

/// An executor as `Inner` sees it, without the type of the handle that the executor gets.
pub(super) trait AgentWork: MaybeSend + MaybeSync + 'static {
    /// Begins the work of a run.
    fn work(&self, inner: Arc<Inner>, live: Arc<ActiveRun>) -> Execution;
}

pub(super) struct Inner {
    pub(super) store: Store,
    pub(super) options: OrchestratorOptions,
    /// Permits to work, one for each agent that may work at the same time.
    pub(super) slots: Arc<Semaphore>,
    runtime: Box<dyn Runtime>,
    executors: Mutex<Executors>,
    live: Mutex<HashMap<RunId, Arc<ActiveRun>>>,
    arrivals: Mutex<HashMap<RunId, CancellationToken>>,
    pub(super) spaces: Arc<Spaces>,
    /// The defect that a test has set.
    #[cfg(feature = "_broken-orchestrator")]
    pub(super) defect: std::sync::OnceLock<Defect>,
}

#[derive(Default)]
pub(super) struct Executors {
    pub(super) by_agent: HashMap<String, Arc<dyn AgentWork>>,
    pub(super) of_others: Option<Arc<dyn AgentWork>>,
}

/// The error of a task that was dropped with its runtime.
pub(super) fn runtime_gone() -> Error {
    Error::new(
        ErrorKind::Closed,
        "the runtime that the agents run on was shut down",
    )
}

/// Keeps a run in the tree while a call uses it.
pub(super) struct Entered {
    inner: Arc<Inner>,
    live: Arc<ActiveRun>,
}

impl Entered {
    pub(super) fn live(&self) -> &Arc<ActiveRun> {
        &self.live
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.inner.leave(&self.live);
    }
}

impl Inner {
    pub(super) fn new(
        store: Store,
        runtime: Box<dyn Runtime>,
        options: OrchestratorOptions,
    ) -> Self {
        let slots = options.concurrent_max.clamp(1, Semaphore::MAX_PERMITS);
        let spaces = Arc::new(Spaces::default());
        let keeper: Weak<Spaces> = Arc::downgrade(&spaces);
        store.shared.folds.erased_runs.register(keeper);
        Self {
            store,
            slots: Arc::new(Semaphore::new(slots)),
            options,
            runtime,
            executors: Mutex::default(),
            live: Mutex::default(),
            arrivals: Mutex::default(),
            spaces,
            #[cfg(feature = "_broken-orchestrator")]
            defect: std::sync::OnceLock::new(),
        }
    }

    /// Whether a test has set this defect.
    #[cfg(feature = "_broken-orchestrator")]
    pub(super) fn is_broken(&self, defect: Defect) -> bool {
        self.defect.get() == Some(&defect)
    }

    /// Always `false` without the feature.
    #[cfg(not(feature = "_broken-orchestrator"))]
    #[expect(clippy::unused_self, reason = "with the feature it says")]
    pub(super) const fn is_broken(&self, _: Defect) -> bool {
        false
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.store.backend().now_ms()
    }

    pub(super) fn spawn_task(&self, task: impl Future<Output = ()> + MaybeSend + 'static) {
        let task: Task = Box::pin(task);
        self.runtime.spawn(task);
    }

    /// Runs a future to its end in a task of its own, even if the caller is dropped.
    pub(super) async fn to_the_end<T: MaybeSend + 'static>(
        &self,
        work: impl Future<Output = T> + MaybeSend + 'static,
    ) -> Result<T> {
        let (done, is_done) = oneshot::channel();
        self.spawn_task(async move {
            // An error means that the caller no longer waits.
            let _ = done.send(work.await);
        });
        is_done.await.map_err(|_| runtime_gone())
    }

    pub(super) fn sleep(&self, duration: Duration) -> Task {
        self.runtime.sleep(duration)
    }

    /// The definition and the executor of an agent.
    pub(super) async fn agent(
        &self,
        project: Option<&str>,
        name: &str,
    ) -> Result<(Arc<AgentDefinition>, Arc<dyn AgentWork>)> {
        if self.store.backend().is_read_only() {
            return Err(Error::new(
                ErrorKind::ReadOnly,
                format!(
                    "the store is open for reading only, so that agent {name:?} couldn't record what it does; start it in the process that writes \
                     the store"
                ),
            ));
        }
        let Some(definition) = self.store.agents().get(project, name).await? else {
            return Err(self.not_defined(project, name).await?);
        };
        let executors = self.executors();
        let executor = executors
            .by_agent
            .get(name)
            .or(executors.of_others.as_ref())
            .ok_or_else(|| {
                Error::not_found(format!(
                    "agent {name:?} is defined, but no executor is registered for it; register one, in JavaScript a function"
                ))
            })?;
        Ok((Arc::new(definition), Arc::clone(executor)))
    }

    /// The error for an agent that is not defined in a project: with where it is, if it is defined somewhere.
    async fn not_defined(&self, project: Option<&str>, name: &str) -> Result<Error> {
        let named = |project: Option<&str>| {
            project.map_or("no project".to_owned(), |it| format!("project {it:?}"))
        };
        let agents = self.store.agents();
        for (other, _) in agents.projects().await? {
            if agents.get(other.as_deref(), name).await?.is_some() {
                return Ok(Error::not_found(format!(
                    "agent {name:?} is defined for {}, but this session is of {}; define it for that too, with \
                     `agents.put` and its `project`",
                    named(other.as_deref()),
                    named(project)
                )));
            }
        }
        let place = project.map_or_else(String::new, |project| format!(" in project {project:?}"));
        // A caller that registered its work probably expects the agent to be defined.
        let registered = if self.executors().by_agent.contains_key(name) {
            "; what it does is registered: define it too, with `agents.put`"
        } else {
            ""
        };
        Ok(Error::not_found(format!(
            "no agent {name:?} is defined{place}; the list of available agents tells which are{registered}"
        )))
    }

    pub(super) fn executors(&self) -> MutexGuard<'_, Executors> {
        self.executors
            .lock()
            .expect("the list of executors was left broken by a panic")
    }

    /// The lock is never held across a wait.
    pub(super) fn live_runs(&self) -> MutexGuard<'_, HashMap<RunId, Arc<ActiveRun>>> {
        self.live
            .lock()
            .expect("the list of live runs was left broken by a panic")
    }

    /// The lock is never held across a wait.
    pub(super) fn arrivals(&self) -> MutexGuard<'_, HashMap<RunId, CancellationToken>> {
        self.arrivals
            .lock()
            .expect("the list of starting runs was left broken by a panic")
    }

    pub(super) fn live(&self, id: RunId) -> Option<Arc<ActiveRun>> {
        self.live_runs().get(&id).cloned()
    }

    /// Adds a run to the active ones.
    pub(super) fn enter(&self, live: Arc<ActiveRun>) -> Arc<ActiveRun> {
        self.live_runs().insert(live.id(), Arc::clone(&live));
        live
    }

    /// An error if `count` more runs would exceed the limit.
    pub(super) fn check_room(&self, count: usize) -> Result<()> {
        let (live, max) = (self.live_runs().len(), self.options.live_max);
        if live.saturating_add(count) <= max {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::LimitReached,
            format!(
                "{live} runs are under way, and {count} more would be over the limit of {max}; wait for some"
            ),
        ))
    }

    /// The one inbox of an active run, with the commands that wait for it already.
    pub(super) fn inbox(&self, run: RunId, waiting: Vec<RuntimeCommand>) -> Arc<Inbox> {
        let inboxes = self.store.shared.flows.shared().inboxes();
        inboxes.open(run, waiting, self.options.inbox_max)
    }

    /// As [`live_or_outside`](Self::live_or_outside), for a run that is in the tree already.
    pub(super) fn entered(self: &Arc<Self>, live: Arc<ActiveRun>) -> Entered {
        Entered {
            inner: Arc::clone(self),
            live,
        }
    }

    /// Removes an external run from the tree, once only the caller refers to it.
    pub(super) fn leave(&self, live: &Arc<ActiveRun>) {
        let mut runs = self.live_runs();
        // Two references: the list's and the caller's. Others can come only from the list, which is locked.
        if live.is_external && Arc::strong_count(live) <= 2 {
            runs.remove(&live.id());
            live.ended.cancel();
        }
    }

    /// How many runs are above a child of `parent`.
    pub(super) async fn depth_of(&self, parent: Option<RunId>) -> Result<u32> {
        let mut depth = 0;
        let mut next = parent;
        while let Some(id) = next {
            depth += 1;
            next = self.store.runs().parent_of(id).await?;
        }
        Ok(depth)
    }

    /// The error for what only an active run takes, by what has become of this one.
    pub(super) async fn not_here(&self, id: RunId) -> Result<Error> {
        let Some(run) = self.store.runs().get(id).await? else {
            return Ok(Error::not_found(format!("no run {id}")));
        };
        let status = run.status;
        let message = match (status, run.resumed_by) {
            (RunStatus::Running, _) => format!(
                "run {id} isn't under way here: another program may be at work on it; send to it there"
            ),
            (RunStatus::Paused, Some(by)) => {
                format!("run {id} was resumed as run {by}; send to that one")
            }
            (RunStatus::Paused, None) => {
                format!("run {id} is paused; resume it, and send to the run that goes on with it")
            }
            (RunStatus::Completed | RunStatus::Failed | RunStatus::Cancelled, _) => format!(
                "run {id} is {status}, so that nothing takes what is sent to it; only paused runs can be resumed"
            ),
        };
        Ok(Error::new(ErrorKind::WrongStatus, message))
    }
}
