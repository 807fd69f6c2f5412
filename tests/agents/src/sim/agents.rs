//! What agents do: whatever a seed says, politely or not.

use std::{
    panic::resume_unwind,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures_util::future::{Either, select};
use runlog::{
    AgentDefinition, ErrorKind, NewMessage, NewToolCall, RawJson, RunStatus,
    agents::{
        AgentEnd, AgentError, Execution, Executor, OrchestratorOptions, RunContext, Runtime,
        SpawnRequest, SpawnResult,
    },
    flows::{RunSnapshot, RuntimeEvent},
    runs::{Recorded, ToolOutcome},
};

use super::{
    ledger::{Ledger, ToldMessage, ToldSpawn, Working},
    scheduler::Scheduler,
};
use runlog_tests::random::Random;

/// The agents that are defined, with the most steps of each run and the milliseconds it may work.
pub(super) const AGENTS: [(&str, Option<u32>, Option<u64>); 4] = [
    ("lead", None, None),
    ("coder", Some(3), None),
    ("tester", Some(6), Some(40)),
    ("writer", None, Some(400)),
];
/// About the most runs of one life.
const RUNS_MAX: u32 = 24;

pub(super) fn definitions() -> impl Iterator<Item = AgentDefinition> {
    AGENTS
        .iter()
        .map(|(name, max_steps, default_timeout_ms)| AgentDefinition {
            system_prompt: Some(format!("You are the {name}.")),
            max_steps: *max_steps,
            default_timeout_ms: *default_timeout_ms,
            ..AgentDefinition::new(*name, "Works.")
        })
}

/// Does the work of every agent of one process.
#[derive(Clone)]
pub(super) struct Agents {
    pub(super) scheduler: Scheduler,
    pub(super) ledger: Ledger,
    pub(super) options: OrchestratorOptions,
    pub(super) runs: Arc<AtomicU32>,
}

impl Executor for Agents {
    fn execute(&self, run: RunContext) -> Execution {
        self.runs.fetch_add(1, Ordering::Relaxed);
        let executions = self.ledger.began(run.run_id());
        if executions > 1 {
            self.ledger.fault(format!(
                "run {} is executed {executions} times",
                run.run_id()
            ));
        }
        let random = self.scheduler.random();
        Box::pin(Agent::new(self.clone(), run, random).work())
    }
}

/// One agent at work.
struct Agent {
    all: Agents,
    run: RunContext,
    random: Random,
    /// Whether it stops when it is told to.
    is_polite: bool,
    /// Whether it left a spawn: one that waits for sub-agents counts as waiting, whatever else it does.
    is_impatient: bool,
    working: Option<Working>,
}

impl Agent {
    fn new(all: Agents, run: RunContext, mut random: Random) -> Self {
        let is_polite = !random.one_in(4);
        Self {
            all,
            run,
            random,
            is_polite,
            is_impatient: false,
            working: None,
        }
    }

    async fn work(mut self) -> Result<AgentEnd, AgentError> {
        self.counts();
        for _ in 0..1 + self.random.below(6) {
            if self.run.is_cancelled() {
                self.working = None;
                if self.is_polite {
                    let last = self.text();
                    self.say(NewMessage::assistant(&last)).await?;
                    return Ok(AgentEnd::completed("stopped"));
                }
            }
            match self.act().await {
                Ok(Some(end)) => return Ok(end),
                Ok(None) => {}
                Err(_) if !self.is_polite => {}
                // Calls of its own are open still: of a spawn it lost its patience with.
                Err(error) if error.kind() == ErrorKind::InvalidInput => {}
                Err(error) if error.kind() == ErrorKind::LimitReached => {
                    return Ok(AgentEnd::paused("limit"));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(AgentEnd::completed(self.text()))
    }

    /// It is among those at work, unless it was told to stop.
    fn counts(&mut self) {
        let counts = !self.run.is_cancelled() && !self.is_impatient;
        self.working = counts.then(|| self.all.ledger.works(self.all.options.concurrent_max));
    }

    fn text(&mut self) -> String {
        format!("{:08x}", self.random.next_u64() & 0xffff_ffff)
    }

    fn ms(&mut self, most: u64) -> Duration {
        Duration::from_millis(self.random.below(most))
    }

    async fn act(&mut self) -> runlog::Result<Option<AgentEnd>> {
        match self.random.below(36) {
            0..8 => {
                self.run.next_step().await?;
                let text = self.text();
                self.say(NewMessage::assistant(&text)).await?;
            }
            8..10 => {
                let text = self.text();
                self.say(NewMessage::user(&text)).await?;
            }
            10..12 => self.call_tool_at_once().await?,
            12..14 => self.call_tool().await?,
            14..20 => self.spawn().await?,
            20..22 => {
                let nap = self.ms(80);
                self.all.scheduler.sleep(nap).await;
            }
            22 => {
                let nap = self.ms(2_000);
                let nap = self.all.scheduler.sleep(nap);
                select(pin!(self.run.cancelled()), nap).await;
            }
            23 => {
                let nap = self.ms(40);
                let nap = self.all.scheduler.sleep(nap);
                select(pin!(self.run.next_command()), nap).await;
            }
            24..26 => {
                let (key, value) = (format!("k{}", self.random.below(3)), self.text());
                self.run.space().set(key, RawJson::string(&value))?;
            }
            26 => {
                self.run
                    .save_snapshot(&RunSnapshot::new("on the way"))
                    .await?
            }
            27 => {
                let json = format!(
                    "{{\"type\":\"node:completed\",\"nodeId\":\"{}\"}}",
                    self.text()
                );
                self.run.record_event(&RuntimeEvent::parse(json)?).await?;
            }
            28 => self.leave_a_writer_behind(),
            29 => return Ok(Some(AgentEnd::completed(self.text()))),
            30 => return Ok(Some(AgentEnd::paused(self.text()))),
            31 => resume_unwind(Box::new("an agent that panics")),
            32 => {
                return Err(runlog::Error::new(
                    ErrorKind::NotFound,
                    "an agent that fails",
                ));
            }
            33 if self.random.one_in(4) => {
                self.working = None;
                std::future::pending::<()>().await;
            }
            34 => {
                for _ in 0..self.random.below(8) {
                    self.run.next_step().await?;
                }
            }
            _ => {
                self.run.list_available_agents().await?;
            }
        }
        Ok(None)
    }

    async fn say(&mut self, message: NewMessage) -> runlog::Result<()> {
        let recorded = self.run.record_message(message.clone()).await?;
        said(&self.all.ledger, &self.run, &message, &recorded)
    }

    fn call(&mut self, name: &str, arguments: &str) -> (String, NewMessage) {
        let id = format!("call-{}", self.text());
        let call = NewToolCall::new(&id, name, arguments);
        (id, NewMessage::assistant("").with_tool_calls([call]))
    }

    async fn call_tool_at_once(&mut self) -> runlog::Result<()> {
        self.run.next_step().await?;
        let (id, message) = self.call("search", "{}");
        let outcome = ToolOutcome::completed(id, RawJson::string("found"));
        let recorded = self
            .run
            .record_tool_call(message.to_json()?, &[outcome])
            .await?;
        said(&self.all.ledger, &self.run, &message, &recorded)
    }

    async fn call_tool(&mut self) -> runlog::Result<()> {
        let (id, message) = self.call("search", "{}");
        self.say(message).await?;
        let took = self.ms(30);
        self.all.scheduler.sleep(took).await;
        let outcome = ToolOutcome::completed(id, RawJson::string("found")).took_ms(1);
        self.run.record_tool_result(&outcome).await.map(|_| ())
    }

    /// Its [`RunContext`] goes on being used by somebody who doesn't care what becomes of the run.
    fn leave_a_writer_behind(&mut self) {
        let (all, run, mut random) = (
            self.all.clone(),
            self.run.clone(),
            Random::new(self.random.next_u64()),
        );
        self.all.scheduler.spawn(Box::pin(async move {
            for _ in 0..1 + random.below(6) {
                all.scheduler
                    .sleep(Duration::from_millis(random.below(300)))
                    .await;
                let message = NewMessage::user(format!("left behind {:08x}", random.next_u64()));
                if let Ok(recorded) = run.record_message(message.clone()).await
                    && let Err(error) = said(&all.ledger, &run, &message, &recorded)
                {
                    all.ledger.fault(error.to_string());
                }
            }
        }));
    }

    fn requests(&mut self, paused: Vec<SpawnResult>) -> Vec<SpawnRequest> {
        let most = self.all.options.spawn_max + usize::from(self.random.one_in(12));
        let count = 1 + self.random.place(most);
        let mut requests = Vec::new();
        for _ in 0..count {
            let task = self.text();
            let (name, ..) = AGENTS[self.random.place(AGENTS.len())];
            let mut request = match self.random.below(12) {
                0 => SpawnRequest::new("nobody", task),
                1 => SpawnRequest::new(name, ""),
                2..5 if !paused.is_empty() => {
                    let paused = &paused[self.random.place(paused.len())];
                    let run_id = paused.run_id.expect("a run that paused has an id");
                    SpawnRequest::resume(&paused.agent_name, run_id)
                }
                _ => SpawnRequest::new(name, task),
            };
            if self.random.one_in(4) {
                request = request.with_timeout(Duration::from_millis(self.random.below(150)));
            }
            requests.push(request);
        }
        requests
    }

    /// Runs that somebody was told are paused; they may have gone on since.
    fn paused(&self) -> Vec<SpawnResult> {
        let told = self.all.ledger.told();
        let results = told
            .spawns
            .iter()
            .flat_map(|spawn| &spawn.results)
            .chain(&told.ends);
        results
            .filter(|result| result.status == RunStatus::Paused && result.run_id.is_some())
            .cloned()
            .collect()
    }

    async fn spawn(&mut self) -> runlog::Result<()> {
        if self.all.runs.load(Ordering::Relaxed) >= RUNS_MAX {
            return Ok(());
        }
        let paused = self.paused();
        let requests = self.requests(paused);
        let call_id = if self.random.one_in(2) {
            let (id, message) = self.call("spawn_agents", "{}");
            self.say(message).await?;
            Some(id)
        } else {
            None
        };
        self.working = None;
        let patience = if self.random.one_in(8) {
            Duration::from_millis(self.random.below(60))
        } else {
            Duration::MAX
        };
        let spawned = async {
            match &call_id {
                Some(id) => self.run.spawn_agents_for(id, requests).await,
                None => self.run.spawn_agents(requests).await,
            }
        };
        let spawned = match select(pin!(spawned), self.all.scheduler.sleep(patience)).await {
            Either::Left((spawned, _)) => spawned,
            // It has lost its patience, and goes on beside its turn.
            Either::Right(_) => {
                self.is_impatient = true;
                return Ok(());
            }
        };
        if let Ok(results) = &spawned
            && self.run.run().status == RunStatus::Running
        {
            let told = ToldSpawn {
                parent: self.run.run_id(),
                call_id,
                results: results.clone(),
            };
            self.all.ledger.told().spawns.push(told);
        }
        self.counts();
        spawned.map(|_| ())
    }
}

fn said(
    ledger: &Ledger,
    run: &RunContext,
    message: &NewMessage,
    recorded: &Recorded,
) -> runlog::Result<()> {
    let json = message.to_json()?.as_bytes().to_vec();
    let Recorded {
        sequence_number: sequence,
        step_number: step,
        ..
    } = *recorded;
    let (id, instance) = (run.run_id(), run.run().instance_id);
    ledger.told().messages.push(ToldMessage {
        run: id,
        instance,
        sequence,
        step,
        json,
    });
    Ok(())
}
