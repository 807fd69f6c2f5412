//! A few processes, one after the other, on one folder.

use std::{
    sync::{Arc, Mutex, PoisonError, atomic::AtomicU32},
    time::Duration,
};

use runlog::{
    Orchestrator, RunId, RunStatus, Store, StoreOptions,
    agents::{Defect, OrchestratorOptions, Runtime},
    contexts::ToolStyle,
    engine::{self, Embedded, Wait},
};

use super::{
    agents::{self, Agents},
    backend::GivingWay,
    chaos::Users,
    facts::Facts,
    laws::Laws,
    ledger::Ledger,
    scheduler::{Scheduler, Turn},
};
use runlog_tests::{
    checker,
    faulty::{Failure, Fault, FaultyStorage, Lasting},
    host::TestHost,
    random::Random,
};

/// More turns than any life needs.
const TURNS_MAX: u64 = 400_000;

/// What was gone through.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Figures {
    /// Runs.
    pub runs: u64,
    /// Records of the log.
    pub records: u64,
    /// Losses of power.
    pub power_cuts: u64,
    /// Processes that were killed.
    pub kills: u64,
    /// Processes that ended in any other way.
    pub shutdowns: u64,
    /// Operations of the storage that failed.
    pub storage_faults: u64,
    /// Trees that were cancelled.
    pub cancelled: u64,
    /// Runs that a crash had cut off and that went on.
    pub revived: u64,
    /// Calls that spawned sub-agents and gave their results.
    pub spawns: u64,
    /// Messages that were acknowledged.
    pub messages: u64,
}

impl Figures {
    /// Each with its name.
    pub fn named(&self) -> [(&'static str, u64); 10] {
        [
            ("runs", self.runs),
            ("records", self.records),
            ("power cuts", self.power_cuts),
            ("kills", self.kills),
            ("shutdowns", self.shutdowns),
            ("lives with storage faults", self.storage_faults),
            ("trees cancelled", self.cancelled),
            ("runs resumed after a crash", self.revived),
            ("spawns with results", self.spawns),
            ("messages acknowledged", self.messages),
        ]
    }
}

/// How a seed went.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Changes when any byte of the log does.
    pub digest: u32,
    /// What was gone through.
    pub figures: Figures,
}

/// How a life ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Death {
    /// The power goes.
    PowerCut,
    /// The process is killed.
    Kill,
    /// Its runtime is shut down, and the store is closed or dropped.
    Shutdown,
}

/// The folder, and what outlives a process.
struct World {
    random: Random,
    host: TestHost,
    storage: FaultyStorage,
    ledger: Ledger,
    options: OrchestratorOptions,
    figures: Figures,
    had_faults: bool,
    defect: Option<Defect>,
}

/// A process.
struct Life {
    scheduler: Scheduler,
    embedded: Embedded,
    users: Users,
}

/// Goes through everything that a seed says, with an orchestrator that is well, or is broken in one way.
///
/// # Errors
/// The law that was broken.
pub fn run(seed: u64, defect: Option<Defect>) -> Result<Outcome, String> {
    let mut world = World {
        defect,
        ..World::new(seed)
    };
    let lives = 1 + world.random.below(4);
    for life in 0..lives {
        world
            .live(life == 0)
            .map_err(|broken| format!("life {life}: {broken}"))?;
    }
    world
        .end()
        .map_err(|broken| format!("the last life: {broken}"))
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x5eed_0f0a_9e37);
        let options = OrchestratorOptions {
            concurrent_max: if random.one_in(2) {
                1 + random.place(4)
            } else {
                64
            },
            spawn_max: 4,
            depth_max: 3,
            stop_grace: Duration::from_millis(20),
            max_total_steps: if random.one_in(2) {
                1 + u32::try_from(random.below(4)).unwrap_or(0)
            } else {
                500
            },
            inbox_max: 2,
            tool_style: Some(if random.one_in(2) {
                ToolStyle::OpenAi
            } else {
                ToolStyle::Anthropic
            }),
            ..OrchestratorOptions::default()
        };
        Self {
            host: TestHost::new(random.next_u64()),
            random,
            storage: FaultyStorage::new(),
            ledger: Ledger::default(),
            options,
            figures: Figures::default(),
            had_faults: false,
            defect: None,
        }
    }

    fn open(&mut self) -> Result<Life, String> {
        let options = StoreOptions {
            segment_bytes_max: 64 << 10,
            ..StoreOptions::with_host(Arc::new(self.host.clone()))
        };
        let storage = Arc::new(self.storage.clone());
        let embedded = Embedded::open_on(storage, options, Wait::Await)
            .map_err(|error| format!("open: {error}"))?;
        Ok(self.begin(embedded))
    }

    /// A process on an open store.
    fn begin(&mut self, embedded: Embedded) -> Life {
        let scheduler = Scheduler::new(self.random.next_u64(), self.host.clone());
        let ledger = self.ledger.clone();
        let backend = GivingWay::new(embedded.clone(), scheduler.clone(), ledger.clone());
        let store = Store::with_backend(Arc::new(backend));
        let orchestrator = Orchestrator::new(store, scheduler.clone(), self.options.clone());
        if let Some(defect) = self.defect {
            orchestrator.break_with(defect);
        }
        orchestrator.register_default(Agents {
            scheduler: scheduler.clone(),
            ledger: ledger.clone(),
            options: self.options.clone(),
            runs: Arc::new(AtomicU32::new(0)),
        });
        let users = Users {
            scheduler: scheduler.clone(),
            ledger,
            orchestrator,
            embedded: embedded.clone(),
        };
        Life {
            scheduler,
            embedded,
            users,
        }
    }

    /// One process, which may meet faults and dies in some way.
    fn live(&mut self, is_first: bool) -> Result<(), String> {
        let mut life = self.open()?;
        if is_first {
            life.define()?;
        }
        let failure = match self.random.below(8) {
            0..2 => Some(Failure::Io),
            2 => Some(Failure::Full),
            3..5 => Some(Failure::PowerLoss),
            _ => None,
        };
        let lasting = if self.random.one_in(2) {
            Lasting::Once
        } else {
            Lasting::ForGood
        };
        self.storage.arm(failure.map(|failure| Fault {
            after: self.random.below(300),
            failure,
            lasting,
        }));
        if let Err(error) = life.recover() {
            let hit = self.storage.injected();
            if hit == 0 {
                return Err(format!("recovery: {error}"));
            }
            return self.die(
                life,
                if failure == Some(Failure::PowerLoss) {
                    Death::PowerCut
                } else {
                    Death::Kill
                },
            );
        }
        self.check(&life, false)?;
        let turns_after = if self.random.one_in(6) {
            u64::MAX
        } else {
            self.random.below(4_000)
        };
        let restarts = u64::from(self.random.one_in(6));
        for _ in 0..restarts {
            life.go_on(&mut self.random);
            life.go_through(self.random.below(2_000), &self.storage)?;
            if self.storage.injected() > 0 {
                break;
            }
            // Its runtime is shut down, and another one takes its place on the open store.
            let embedded = life.embedded.clone();
            self.end_runtime(life);
            life = self.begin(embedded);
            if self.recover_and_check(&life)? {
                break;
            }
        }
        life.go_on(&mut self.random);
        life.go_through(turns_after, &self.storage)?;
        let death = match (failure, self.random.below(4)) {
            (Some(Failure::PowerLoss), _) if self.storage.injected() > 0 => Death::PowerCut,
            (_, 0..2) => Death::PowerCut,
            (_, 2) => Death::Kill,
            _ => Death::Shutdown,
        };
        self.die(life, death)
    }

    /// Whether a fault hit the recovery.
    fn recover_and_check(&mut self, life: &Life) -> Result<bool, String> {
        match life.recover() {
            Ok(()) => self.check(life, false).map(|_| false),
            Err(_) if self.storage.injected() > 0 => Ok(true),
            Err(error) => Err(format!("recovery: {error}")),
        }
    }

    fn check(&mut self, life: &Life, is_end: bool) -> Result<Facts, String> {
        let storage = self.storage.clone();
        storage.unharmed(|| {
            let facts = Facts::read(life.embedded.engine())?;
            let told = self.ledger.told();
            let laws = Laws {
                facts: &facts,
                told: &told,
                options: &self.options,
                had_faults: self.had_faults,
            };
            let kept = if is_end {
                laws.at_the_end()
            } else {
                laws.after_recovery()
            };
            kept.map_err(|broken| format!("{broken}\n{}", facts.story()))?;
            Ok(facts)
        })
    }

    fn end_runtime(&mut self, life: Life) {
        life.scheduler.close();
        self.figures.shutdowns += 1;
    }

    fn die(&mut self, life: Life, death: Death) -> Result<(), String> {
        self.had_faults |= self.storage.injected() > 0;
        self.figures.storage_faults += self.storage.injected().min(1);
        let Life {
            scheduler,
            embedded,
            users,
        } = life;
        let close = |users| {
            scheduler.close();
            drop(users);
        };
        match death {
            Death::PowerCut => {
                self.figures.power_cuts += 1;
                self.storage.cut_power();
                let next = self.storage.crashed(self.random.next_u64());
                close(users);
                drop(embedded);
                self.storage = next;
            }
            Death::Kill => {
                self.figures.kills += 1;
                self.storage.kill();
                self.storage.arm(None);
                close(users);
                drop(embedded);
            }
            Death::Shutdown => {
                self.figures.shutdowns += 1;
                close(users);
                // It may fail: the storage may be full.
                let _ = embedded.engine().close();
                drop(embedded);
                if self.storage.is_powerless() {
                    self.storage = self.storage.crashed(self.random.next_u64());
                }
                self.storage.arm(None);
            }
        }
        Ok(())
    }

    /// The last process: nothing fails, and all that was cut off goes on to its end.
    fn end(mut self) -> Result<Outcome, String> {
        let life = self.open()?;
        if life.is_empty() {
            life.define()?;
        }
        life.recover()
            .map_err(|error| format!("recovery: {error}"))?;
        self.check(&life, false)?;
        life.go_on(&mut self.random);
        if let Err(broken) = life.finish() {
            let story = Facts::read(life.embedded.engine())
                .map(|facts| facts.story())
                .unwrap_or_default();
            return Err(format!("{broken}\n{story}"));
        }
        let facts = self.check(&life, true)?;
        let Life {
            scheduler,
            embedded,
            users,
        } = life;
        scheduler.close();
        drop(users);
        embedded
            .engine()
            .close()
            .map_err(|error| format!("close: {error}"))?;
        let checked = checker::check_files(
            &self.storage.files(),
            engine::storage::Storage::boot_id(&self.storage),
        );
        let checked = checked.map_err(|problem| format!("checker: {problem}"))?;
        if checked.last_position() != facts.last_position {
            return Err(format!(
                "checker: {} records of {}",
                checked.last_position(),
                facts.last_position
            ));
        }
        let verified = engine::verify(&self.storage).map_err(|error| format!("verify: {error}"))?;
        if !verified.is_sound() {
            return Err(format!("verify: {:?}", verified.problems));
        }
        let told = self.ledger.told().clone();
        let figures = Figures {
            runs: facts.runs.len() as u64,
            records: facts.last_position,
            cancelled: told.cancelled.len() as u64,
            revived: told.revived,
            spawns: told.spawns.len() as u64,
            messages: told.messages.len() as u64,
            ..self.figures
        };
        Ok(Outcome {
            digest: facts.digest,
            figures,
        })
    }
}

impl Life {
    /// Does something as a task, to its end, while nothing else goes on.
    fn until_done<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, String> {
        let result = Arc::new(Mutex::new(None));
        let place = Arc::clone(&result);
        self.scheduler.spawn(Box::pin(async move {
            let done = work.await;
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(done);
        }));
        for _ in 0..TURNS_MAX {
            if let Some(done) = result.lock().unwrap_or_else(PoisonError::into_inner).take() {
                return Ok(done);
            }
            if self.scheduler.turn() == Turn::Idle {
                return Err("everything waits for something that never comes".to_owned());
            }
        }
        Err("it never ends".to_owned())
    }

    fn is_empty(&self) -> bool {
        self.embedded
            .engine()
            .last_position()
            .is_ok_and(|last| last.0 == 0)
    }

    fn define(&self) -> Result<(), String> {
        let agents = self.users.orchestrator.store().agents();
        let defined = self.until_done(async move {
            for definition in agents::definitions() {
                agents.define(definition).await?;
            }
            Ok::<(), runlog::Error>(())
        });
        defined?.map_err(|error| format!("defining the agents: {error}"))
    }

    fn recover(&self) -> Result<(), String> {
        let store = self.users.orchestrator.store().clone();
        self.until_done(async move { store.recover_runs().await })?
            .map(|_| ())
            .map_err(|error| error.to_string())
    }

    /// What was cut off goes on, and users come.
    fn go_on(&self, random: &mut Random) {
        self.users.ledger.told().left.clear();
        self.users.go_on();
        for _ in 0..random.below(3) {
            self.users.does(1 + random.below(5));
        }
        let (users, of) = (self.users.clone(), Random::new(random.next_u64()));
        self.scheduler.spawn(Box::pin(async move {
            // A storage that fails refuses it.
            let _ = users.start(of).await;
        }));
    }

    /// Lets everybody go on for so many turns, and for some more after a fault.
    fn go_through(&mut self, turns: u64, storage: &FaultyStorage) -> Result<(), String> {
        let mut left = turns.min(TURNS_MAX);
        let mut was_hit = false;
        while left > 0 {
            if !was_hit && storage.injected() > 0 {
                was_hit = true;
                left = left.min(600);
            }
            if self.scheduler.turn() == Turn::Idle {
                return Ok(());
            }
            left -= 1;
        }
        if turns >= TURNS_MAX && !was_hit {
            Err("it never ends".to_owned())
        } else {
            Ok(())
        }
    }

    /// Lets everybody come to the end; those that never would are cancelled.
    fn finish(&self) -> Result<(), String> {
        for _ in 0..8 {
            let mut turns = 0;
            while self.scheduler.turn() == Turn::Done {
                turns += 1;
                if turns > TURNS_MAX {
                    return Err("it never ends".to_owned());
                }
            }
            if self.users.orchestrator.live_count() == 0 {
                return self.works_still();
            }
            let users = self.users.clone();
            let cancelled = self.until_done(async move { users.cancel_all().await });
            let cancelled =
                cancelled.map_err(|error| format!("cancelling what is left: {error}"))?;
            cancelled.map_err(|error| format!("cancelling what is left: {error}"))?;
        }
        Err(format!(
            "{} runs are under way, though all were cancelled",
            self.users.orchestrator.live_count()
        ))
    }

    /// After all that, an agent can be started, and there is room for it to work.
    fn works_still(&self) -> Result<(), String> {
        let (users, random) = (self.users.clone(), self.scheduler.random());
        let started = self.until_done(async move { users.start(random).await })?;
        let run: RunId = started.map_err(|error| format!("starting another agent: {error}"))?;
        while self.scheduler.turn() == Turn::Done {}
        let (store, users) = (self.users.orchestrator.store().clone(), self.users.clone());
        self.until_done(async move { users.cancel_all().await })?
            .map_err(|error| format!("cancelling: {error}"))?;
        while self.scheduler.turn() == Turn::Done {}
        let found = self
            .until_done(async move { store.runs().get(run).await })?
            .map_err(|error| error.to_string())?;
        let is_over = found.is_some_and(|run| run.status != RunStatus::Running);
        let was_begun = self.users.ledger.told().executions.contains_key(&run);
        if is_over && was_begun {
            Ok(())
        } else {
            Err(format!("there was no room for run {run}"))
        }
    }
}
