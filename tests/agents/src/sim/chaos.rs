//! What users do to the runs of a process, at any moment: start some, cancel, resume and command them.

use std::time::Duration;

use runlog::{
    ErrorKind, Orchestrator, RawJson, RunId, RunStatus,
    agents::{RunHandle, Runtime, StartAgent},
    engine::Embedded,
    runs::{ListRuns, ResumeOptions},
};

use super::{agents::AGENTS, ledger::Ledger, scheduler::Scheduler};
use runlog_tests::random::Random;

/// The users of one process.
#[derive(Clone)]
pub(super) struct Users {
    pub(super) scheduler: Scheduler,
    pub(super) ledger: Ledger,
    pub(super) orchestrator: Orchestrator,
    pub(super) embedded: Embedded,
}

impl Users {
    /// Goes on with what a crash cut off, as a process does once it has begun.
    pub(super) fn go_on(&self) {
        let Self {
            ledger,
            orchestrator,
            ..
        } = self.clone();
        self.scheduler.spawn(Box::pin(async move {
            let Ok(report) = orchestrator.resume_all().await else {
                return;
            };
            let mut told = ledger.told();
            told.revived += report.resumed.len() as u64;
            told.left.extend(
                report
                    .left
                    .into_iter()
                    .map(|(id, error)| (id, error.to_string())),
            );
            told.ends
                .extend(report.resumed.into_iter().map(|(_, result)| result));
        }));
    }

    /// A user who does some things, with pauses in between.
    pub(super) fn does(&self, acts: u64) {
        let (user, mut random) = (self.clone(), self.scheduler.random());
        self.scheduler.spawn(Box::pin(async move {
            for _ in 0..acts {
                user.scheduler
                    .sleep(Duration::from_millis(random.below(120)))
                    .await;
                // What is refused is refused: the laws say what may be.
                let _ = user.act(&mut random).await;
            }
        }));
    }

    /// Starts an agent, and waits for it elsewhere.
    pub(super) async fn start(&self, mut random: Random) -> runlog::Result<RunId> {
        let (name, ..) = AGENTS[random.place(AGENTS.len())];
        let mut start = StartAgent::new(
            name,
            format!("task {:08x}", random.next_u64() & 0xffff_ffff),
        );
        if random.one_in(6) {
            start = start.with_timeout(Duration::from_millis(1 + random.below(200)));
        }
        let handle = self.orchestrator.start(start).await?;
        let id = handle.run_id();
        self.wait_for(handle);
        Ok(id)
    }

    fn wait_for(&self, handle: RunHandle) {
        let ledger = self.ledger.clone();
        self.scheduler.spawn(Box::pin(async move {
            if let Ok(result) = handle.wait().await {
                ledger.told().ends.push(result);
            }
        }));
    }

    async fn act(&self, random: &mut Random) -> runlog::Result<()> {
        match random.below(8) {
            0..2 => self.start(Random::new(random.next_u64())).await.map(|_| ()),
            2..5 => match self.some_run(random, None).await? {
                Some(run) => self.cancel(run).await,
                None => Ok(()),
            },
            5..7 => match self.some_run(random, Some(RunStatus::Paused)).await? {
                Some(run) => {
                    let timeout = random
                        .one_in(3)
                        .then(|| Duration::from_millis(1 + random.below(100)));
                    self.wait_for(
                        self.orchestrator
                            .resume(run, &ResumeOptions::default(), timeout)
                            .await?,
                    );
                    Ok(())
                }
                None => Ok(()),
            },
            _ => match self.some_run(random, Some(RunStatus::Running)).await? {
                Some(run) => {
                    let json =
                        format!("{{\"type\":\"send\",\"runId\":\"{run}\",\"message\":\"Hurry!\"}}");
                    self.orchestrator.send(run, &RawJson::parse(json)?).await
                }
                None => Ok(()),
            },
        }
    }

    async fn cancel(&self, run: RunId) -> runlog::Result<()> {
        self.orchestrator.cancel(run).await?;
        let seen = self
            .embedded
            .engine()
            .last_position()
            .map_or(0, |seen| seen.0);
        self.ledger.cancelled(run, seen);
        Ok(())
    }

    async fn some_run(
        &self,
        random: &mut Random,
        status: Option<RunStatus>,
    ) -> runlog::Result<Option<RunId>> {
        let runs = self.all_runs(status).await?;
        Ok((!runs.is_empty()).then(|| runs[random.place(runs.len())]))
    }

    async fn all_runs(&self, status: Option<RunStatus>) -> runlog::Result<Vec<RunId>> {
        let page = self
            .orchestrator
            .store()
            .runs()
            .list(&ListRuns {
                status,
                ..ListRuns::default()
            })
            .await?;
        Ok(page.items.iter().map(|run| run.id).collect())
    }

    /// Cancels everything that is under way.
    pub(super) async fn cancel_all(&self) -> runlog::Result<()> {
        // A run whose steps are spent is paused, and its agent may not care.
        for run in self.all_runs(None).await? {
            if self.orchestrator.handle(run).is_some() {
                match self.cancel(run).await {
                    // Another goes on from it, and is cancelled in its turn; its agent is stopped all the same.
                    Err(error) if error.kind() == ErrorKind::WrongStatus => {}
                    cancelled => cancelled?,
                }
            }
        }
        Ok(())
    }
}
