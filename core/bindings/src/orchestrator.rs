//! [`OrchestratorObject`]: starts agents whose work is done by JavaScript functions; [`HandleObject`]: one of them.

use std::{
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use runlog::{
    AgentDefinition, Orchestrator, Run, RunId, Store,
    agents::{
        Execution, Executor, OrchestratorOptions, ResumeReport, RunContext, RunHandle, SpawnResult,
        StartAgent,
    },
    runs::{ResumeOptions, StopKind},
};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::{
    Failure, Reply, Result,
    answers::{Made, known, wait, write},
    arguments::Input,
    calls::calls,
    object::{Object, Scope},
    reads::Reads,
    recorder::stop_of,
    remote::{Ask, EventLoop, Remote},
    run_context::RunContextObject,
    space,
    spawn::{SpawnedObject, spawn_requests},
    store::StoreObject,
    tasks::Answer,
};

static LAST_ORCHESTRATOR: AtomicU64 = AtomicU64::new(0);

/// Starts, stops and resumes agents.
pub(crate) struct OrchestratorObject {
    of: Rc<StoreObject>,
    orchestrator: Orchestrator,
    remote: Arc<Remote>,
    id: u64,
}

/// A run that was started.
pub(crate) struct HandleObject {
    of: Rc<StoreObject>,
    handle: RunHandle,
}

/// The executor whose work is done by JavaScript.
struct JavaScript {
    remote: Arc<Remote>,
    orchestrator: u64,
    /// The store, and where its reads run.
    reads: (Store, Reads),
}

impl Executor for JavaScript {
    fn execute(&self, run: RunContext) -> Execution {
        let (done, is_done) = oneshot::channel();
        self.remote.ask(Ask::Execute {
            orchestrator: self.orchestrator,
            run: Box::new(run),
            reads: self.reads.clone(),
            done,
        });
        Box::pin(async move {
            is_done
                .await
                .unwrap_or_else(|_| Err("the agent's function was let go of".into()))
        })
    }
}

/// An orchestrator that was made.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct MadeOrchestrator {
    id: u64,
}

/// The request to JavaScript to execute a run.
#[derive(Serialize)]
struct ExecuteReply<'a> {
    ask: &'static str,
    orchestrator: u64,
    run: Run,
    definition: &'a AgentDefinition,
    task: &'a str,
    depth: u32,
}

#[derive(Serialize)]
struct SleepReply {
    ask: &'static str,
    timer: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ms: Option<f64>,
}

/// What became of the runs that a crash had cut off: those that were resumed and those that were left paused, each by
/// its id.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Report {
    resumed: Vec<(RunId, SpawnResult)>,
    left: Vec<(RunId, Failure)>,
}

impl From<ResumeReport> for Report {
    fn from(report: ResumeReport) -> Self {
        let left = report.left.into_iter();
        Self {
            resumed: report.resumed,
            left: left.map(|(id, error)| (id, error.into())).collect(),
        }
    }
}

/// A tool as a model is told of it.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct DefinedTool {
    definition: runlog::agents::ToolDefinition,
    openai: Value,
    anthropic: Value,
}

/// The definitions of the tools for models, in each provider's format too.
pub(crate) fn tool_definitions() -> Vec<DefinedTool> {
    let tools = runlog::agents::tool_definitions().into_iter();
    let forms = tools.map(|tool| DefinedTool {
        openai: tool.to_openai(),
        anthropic: tool.to_anthropic(),
        definition: tool,
    });
    forms.collect()
}

/// A request to JavaScript, as JSON.
pub(crate) fn asked(scope: &Scope, ask: Ask) -> Result<Reply> {
    match ask {
        Ask::Sleep { timer, ms } => Reply::json(&SleepReply {
            ask: "sleep",
            timer,
            ms: Some(ms),
        }),
        Ask::Forget { timer } => Reply::json(&SleepReply {
            ask: "forget",
            timer,
            ms: None,
        }),
        Ask::Execute {
            orchestrator,
            run,
            reads,
            done,
        } => {
            let (definition, task, depth) = (run.definition(), run.task(), run.depth());
            let reply = ExecuteReply {
                ask: "execute",
                orchestrator,
                run: run.run(),
                definition,
                task,
                depth,
            };
            let reply = Reply::json(&reply)?;
            Ok(reply.with_handle(
                scope
                    .objects
                    .add(Rc::new(RunContextObject::new(*run, reads, done)))?,
            ))
        }
    }
}

fn orchestrate(
    of: &Rc<StoreObject>,
    scope: &Scope,
    options: OrchestratorOptions,
) -> Result<Made<MadeOrchestrator>> {
    let remote = Arc::clone(&scope.remote);
    let orchestrator = Orchestrator::new(of.store()?, EventLoop(Arc::clone(&remote)), options);
    let id = LAST_ORCHESTRATOR.fetch_add(1, Ordering::Relaxed) + 1;
    let object = OrchestratorObject {
        of: Rc::clone(of),
        orchestrator,
        remote,
        id,
    };
    Made::new(scope, Rc::new(object), &MadeOrchestrator { id })
}

impl OrchestratorObject {
    fn executor(&self) -> Result<JavaScript> {
        Ok(JavaScript {
            remote: Arc::clone(&self.remote),
            orchestrator: self.id,
            reads: (self.of.store()?, self.of.reads()),
        })
    }

    fn handle(&self, scope: &Scope, handle: RunHandle) -> Result<Made<RunId>> {
        let id = handle.run_id();
        let object = HandleObject {
            of: Rc::clone(&self.of),
            handle,
        };
        Made::new(scope, Rc::new(object), &id)
    }
}

impl Object for OrchestratorObject {
    fn name(&self) -> &'static str {
        "an orchestrator"
    }

    fn call(self: Rc<Self>, scope: &Scope, input: Input<'_>) -> Result<Option<Answer>> {
        self.of.store()?;
        calls_of_orchestrator::call(&self, scope, input)
    }
}

impl Object for HandleObject {
    fn name(&self) -> &'static str {
        "an agent's run"
    }

    fn call(self: Rc<Self>, scope: &Scope, input: Input<'_>) -> Result<Option<Answer>> {
        self.of.store()?;
        match calls_of_handle::call(&self, scope, input)? {
            Some(answer) => Ok(Some(answer)),
            None => space::call(&mut self.handle.space(), scope, input),
        }
    }
}

calls! {
    (of: &Rc<StoreObject>, scope, input) {}

    orchestrate(options: OrchestratorOptions) -> Made<MadeOrchestrator> =>
        known(orchestrate(of, scope, options));
}

pub(crate) mod calls_of_orchestrator {
    use super::*;

    calls! {
        (of: &Rc<OrchestratorObject>, scope, input) {
            let (orchestrator, maker, scope) = (of.orchestrator.clone(), Rc::clone(of), scope.clone());
        }

        register { agent_name: Option<String> } -> () =>
            {
                match agent_name {
                    Some(name) => orchestrator.register(name, of.executor()?),
                    None => orchestrator.register_default(of.executor()?),
                }
                known(Ok::<_, Failure>(()))
            };
        start(start: StartAgent) -> Made<RunId> =>
            wait(async move { maker.handle(&scope, orchestrator.start(start).await?) });
        resume {
            run_id: RunId,
            #[serde(default)]
            options: ResumeOptions,
            timeout_ms: Option<u64>,
        } -> Made<RunId> => {
            let timeout = timeout_ms.map(Duration::from_millis);
            wait(async move {
                let resumed = orchestrator.resume(run_id, &options, timeout).await?;
                maker.handle(&scope, resumed)
            })
        };
        resumeAll {} -> Report =>
            wait(async move { orchestrator.resume_all().await.map(Report::from) });
        spawn { run_id: RunId,
            #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::spawn::GivenSpawn>"))]
            requests: Vec<Value>,
            tool_call_id: Option<String>,
        }
            -> Made<Vec<Option<RunId>>> => {
            let requests = spawn_requests(&requests);
            wait(async move {
                let spawned = match tool_call_id {
                    Some(id) => orchestrator.spawn_for(run_id, id, requests).await,
                    None => orchestrator.spawn(run_id, requests).await,
                };
                SpawnedObject::made(&scope, orchestrator, spawned?)
            })
        };
        pause { run_id: RunId, reason: Option<String>, kind: Option<StopKind> } -> () => {
            let stop = stop_of(kind, reason);
            wait(async move { orchestrator.pause(run_id, stop).await })
        };
        cancel { run_id: RunId } -> () =>
            wait(async move { orchestrator.cancel(run_id).await.map(drop) });
        send { run_id: RunId } -> () => {
            let command = input.json()?;
            write(async move { orchestrator.send(run_id, &command).await.map(drop) })
        };
        handle { run_id: RunId } -> Made<Option<RunId>> => {
            let found = orchestrator.handle(run_id).map(|handle| maker.handle(&scope, handle));
            known(found.transpose().and_then(Made::optional))
        };
        liveCount {} -> usize => known(Ok::<_, Failure>(orchestrator.live_count()));
    }
}

pub(crate) mod calls_of_handle {
    use super::*;

    calls! {
        (of: &Rc<HandleObject>, _scope, input) { let of = Rc::clone(of); }

        wait {} -> SpawnResult => wait(async move { of.handle.wait().await });
        cancel {} -> () => wait(async move { of.handle.cancel().await.map(drop) });
        send {} -> () => {
            let command = input.json()?;
            write(async move { of.handle.send(&command).await.map(drop) })
        };
    }
}
