//! What the claims share: a world with a store and an orchestrator, and agents that do as they are told.

#![allow(unreachable_pub, reason = "a module of a test binary")]

use std::{future::Future, sync::Arc, time::Duration};

use runlog::{
    AgentDefinition, NewMessage, NewRun, NewSession, Orchestrator, Role, Run, RunId, Store,
    StoreOptions,
    agents::{
        AgentEnd, OrchestratorOptions, ResumeReport, RunContext, SpawnResult, StartAgent,
        TokioRuntime, executor_fn,
    },
    runs::{ListRunMessages, RunMessage},
};
use tempfile::TempDir;
use tokio::sync::Notify;

pub const PROJECT: &str = "papers";

#[derive(Clone)]
pub struct World {
    pub store: Store,
    pub orchestrator: Orchestrator,
    _folder: Option<Arc<TempDir>>,
}

/// `claims!(claim …)`: each claim, an async function of a [`World`], is a test in memory and one on disk.
#[macro_export]
macro_rules! claims {
    ($($claim:ident)*) => {
        mod memory { $(#[test] fn $claim() { $crate::support::in_memory(super::$claim); })* }
        mod disk { $(#[test] fn $claim() { $crate::support::on_disk(super::$claim); })* }
    };
}

/// A claim that isn't over after so long will never be: it fails instead of hanging.
const NEVER: Duration = Duration::from_secs(300);

async fn bounded(claim: impl Future<Output = ()>) {
    let ended = tokio::time::timeout(NEVER, claim).await;
    ended.expect("something is waited for that doesn't come");
}

pub fn in_memory<F: Future<Output = ()>>(claim: impl Fn(World) -> F) {
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    tokio.block_on(bounded(async {
        claim(World::new(Store::in_memory(), options())).await;
    }));
}

pub fn on_disk<F: Future<Output = ()>>(claim: impl Fn(World) -> F) {
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .unwrap();
    tokio.block_on(bounded(async {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        let store = Store::open_with(folder.path().join("store"), StoreOptions::default()).unwrap();
        let world = World {
            _folder: Some(folder),
            ..World::new(store, options())
        };
        claim(world).await;
    }));
}

pub fn options() -> OrchestratorOptions {
    OrchestratorOptions {
        stop_grace: Duration::from_millis(100),
        ..OrchestratorOptions::default()
    }
}

impl World {
    pub fn new(store: Store, options: OrchestratorOptions) -> Self {
        let orchestrator =
            Orchestrator::new(store.clone(), TokioRuntime::current().unwrap(), options);
        Self {
            store,
            orchestrator,
            _folder: None,
        }
    }

    /// The same store with other bounds.
    pub fn bounded(&self, options: OrchestratorOptions) -> Self {
        Self {
            _folder: self._folder.clone(),
            ..Self::new(self.store.clone(), options)
        }
    }

    /// The world as another process finds it: the same log, of which nobody knows anything yet.
    pub fn reopened(&self, options: OrchestratorOptions) -> Self {
        let store = Store::with_backend(Arc::clone(self.store.backend()));
        Self {
            _folder: self._folder.clone(),
            ..Self::new(store, options)
        }
    }

    /// Defines an agent, and has it do this.
    pub async fn agent<F, W>(&self, name: &str, work: F)
    where
        F: Fn(RunContext) -> W + Send + Sync + 'static,
        W: Future<Output = runlog::Result<AgentEnd>> + Send + 'static,
    {
        self.agent_as(AgentDefinition::new(name, format!("does {name}")), work)
            .await;
    }

    pub async fn agent_as<F, W>(&self, definition: AgentDefinition, work: F)
    where
        F: Fn(RunContext) -> W + Send + Sync + 'static,
        W: Future<Output = runlog::Result<AgentEnd>> + Send + 'static,
    {
        let definition = AgentDefinition {
            project: Some(PROJECT.into()),
            ..definition
        };
        self.orchestrator
            .register(&definition.name, executor_fn(work));
        self.store.agents().put(definition).await.unwrap();
    }

    /// A run that the test itself works on.
    pub async fn parent(&self) -> RunId {
        let session = NewSession {
            project: Some(PROJECT.into()),
            ..NewSession::default()
        };
        let parent = self
            .store
            .runs()
            .start(NewRun::in_new_session(session, "parent"))
            .await
            .unwrap();
        parent
            .record_message(NewMessage::user("Do it."))
            .await
            .unwrap();
        parent.id()
    }

    pub fn start(&self, agent: &str) -> StartAgent {
        let session = NewSession {
            project: Some(PROJECT.into()),
            ..NewSession::default()
        };
        StartAgent::new(agent, "Do it.").at(runlog::agents::StartPlace::NewSession(session))
    }

    pub async fn run(&self, id: RunId) -> Run {
        self.store.runs().get(id).await.unwrap().unwrap()
    }

    pub async fn messages(&self, id: RunId) -> Vec<RunMessage> {
        let all = ListRunMessages {
            limit: 10_000,
            ..ListRunMessages::default()
        };
        self.store.runs().messages(id, &all).await.unwrap().items
    }

    /// The texts of a run's context, as its model sees it.
    pub async fn context(&self, id: RunId) -> Vec<String> {
        let instance = self.run(id).await.instance_id;
        let messages = self
            .store
            .context(instance)
            .await
            .unwrap()
            .get_messages()
            .await
            .unwrap();
        messages
            .into_iter()
            .map(|message| message.json.to_string())
            .collect()
    }
}

/// Takes steps, with a message in each, and is done.
pub async fn steps(run: &RunContext, count: u32) -> runlog::Result<()> {
    for _ in 0..count {
        let step = run.next_step().await?;
        run.record_message(NewMessage::assistant(format!("step {step}")))
            .await?;
    }
    Ok(())
}

pub async fn forever() -> ! {
    std::future::pending().await
}

pub fn run_of(result: &SpawnResult) -> RunId {
    result.run_id.unwrap()
}

/// A `leaf` that goes on when it is told to, and a `root` that ends with what its last tool call gave.
pub async fn leaf_that_waits(world: &World) -> Arc<Notify> {
    let go_on = Arc::new(Notify::new());
    let told = Arc::clone(&go_on);
    world
        .agent("leaf", move |_| {
            let told = Arc::clone(&told);
            async move {
                told.notified().await;
                Ok(AgentEnd::completed("went on"))
            }
        })
        .await;
    world
        .agent("root", |run: RunContext| async move {
            let context = run.messages().await?;
            let results = context
                .iter()
                .rfind(|message| message.role == Role::Tool)
                .unwrap();
            Ok(AgentEnd::completed(results.json.to_string()))
        })
        .await;
    go_on
}

/// Goes on with everything, and tells a [`leaf_that_waits`] to while that waits for it.
pub async fn resume_all_and_tell(world: &World, go_on: &Notify) -> ResumeReport {
    let (report, ()) = tokio::join!(world.orchestrator.resume_all(), async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        go_on.notify_one();
    });
    report.unwrap()
}
