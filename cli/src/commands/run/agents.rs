//! [`Agents`]: the agents that a recorded one may spawn, and the orchestrator by which other processes can stop it.

use std::time::{Duration, Instant};

use runlog::{
    Orchestrator, Run, RunId, RunStatus, Session,
    agents::{OrchestratorOptions, TokioRuntime},
    blocking::Store,
    runs::{Stop, StopKind},
};

use crate::{
    agent::{Spawner, Stopper},
    failure::{Failure, Result},
    mcp::{AGENTS_MAX, AgentsFile, CommandAgent, runtime},
};

/// The most of them that work at one time.
const AT_ONCE: usize = 8;
/// How long they have to record their state when the agent that spawned them has ended.
const STOP_GRACE: Duration = Duration::from_millis(1_500);
/// How long to wait for their end then.
const END_PATIENCE: Duration = Duration::from_secs(5);
/// The interval at which they are polled for their end.
const POLL: Duration = Duration::from_millis(10);

/// Agents that are programs, and the orchestrator that runs them.
pub(super) struct Agents {
    tokio: tokio::runtime::Runtime,
    orchestrator: Orchestrator,
    /// Whether there are any.
    are_given: bool,
}

impl Agents {
    /// Defines the agents of a file in the project of a run. Without a file there are none, and the orchestrator takes
    /// the requests of other processes only.
    pub(super) fn begin(store: &Store, file: Option<AgentsFile>, run: &Run) -> Result<Self> {
        let tokio = runtime()?;
        let orchestrator = {
            let _inside = tokio.enter();
            let runtime = TokioRuntime::current()
                .ok_or_else(|| Failure::other("there is no runtime for agents"))?;
            let options = OrchestratorOptions {
                concurrent_max: AT_ONCE,
                live_max: AGENTS_MAX,
                stop_grace: STOP_GRACE,
                ..OrchestratorOptions::default()
            };
            Orchestrator::new(store.to_async(), runtime, options)
        };
        let are_given = file.is_some();
        for agent in file.into_iter().flat_map(|file| file.agents) {
            orchestrator.register(
                &agent.definition.name,
                CommandAgent::new(store.clone(), agent.command()),
            );
            let mut definition = agent.definition;
            definition.project.clone_from(&run.project);
            store.agents().put(definition)?;
        }
        Ok(Self {
            tokio,
            orchestrator,
            are_given,
        })
    }

    /// The spawner for a run, if it may spawn any.
    pub(super) fn spawner(&self, run: &Run) -> Option<Spawner> {
        let spawner =
            || Spawner::outside(self.tokio.handle().clone(), self.orchestrator.clone(), run);
        self.are_given.then(spawner)
    }

    /// Ends the program of a run when somebody else cancels or pauses the run: asks it to end, and kills it if it doesn't.
    pub(super) fn end_when_stopped(&self, run: RunId, stopper: Stopper) {
        let store = self.orchestrator.store().clone();
        self.tokio.spawn(async move {
            let recorder = store.runs().recorder(run).await?;
            recorder.stopped().await;
            // A run whose steps are spent is paused by the store, and its program has longer to end. One that has ended is
            // ended by its program.
            let is_requested = store
                .runs()
                .get(run)
                .await?
                .is_some_and(|run| match run.status {
                    RunStatus::Cancelled => true,
                    RunStatus::Paused => run.stop_kind != Some(StopKind::Budget),
                    _ => false,
                });
            if is_requested {
                stopper.stop_as_run_is_over();
                tokio::time::sleep(END_PATIENCE).await;
                stopper.stop_as_run_is_over();
            }
            Ok::<(), runlog::Error>(())
        });
    }

    /// Ends the running agents when the agent that spawned them has ended: they are paused if its run is paused for
    /// this reason; otherwise cancelled, since no agent waits for their results.
    pub(super) fn end(
        self,
        spawner: Option<Spawner>,
        run: &Run,
        paused: Option<Stop>,
    ) -> Result<()> {
        if let Some(stop) = paused.filter(|_| self.orchestrator.live_count() > 0) {
            self.tokio.block_on(self.orchestrator.pause(run.id, stop))?;
        }
        drop(spawner);
        let begun = Instant::now();
        while self.orchestrator.live_count() > 0 && begun.elapsed() < END_PATIENCE {
            std::thread::sleep(POLL);
        }
        self.tokio.shutdown_timeout(POLL);
        Ok(())
    }
}

/// An error for a file whose project isn't the session's, because its agents wouldn't be found.
pub(super) fn check_project(file: Option<&AgentsFile>, session: &Session) -> Result<()> {
    let Some(project) = file.and_then(|file| file.project.as_ref()) else {
        return Ok(());
    };
    if session.project.as_ref() == Some(project) {
        return Ok(());
    }
    let own = session
        .project
        .as_ref()
        .map_or_else(|| "none".to_owned(), |own| format!("{own:?}"));
    let message = format!(
        "the file of agents is of project {project:?}, and session {} of {own}; leave the project out of the file, or \
         start a new session",
        session.id
    );
    Err(Failure::usage(message))
}
