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
    AgentDefinition, InstanceId, Orchestrator, Run, RunId, SessionId,
    agents::{
        Execution, Executor, OrchestratorOptions, ResumeReport, RunContext, RunHandle,
        SpawnRequest, SpawnResult, StartAgent, StartPlace,
    },
    contexts::{ToolStyle, read_value},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::oneshot;

use crate::{
    Failure, Reply, Result,
    arguments::Input,
    object::{Object, Scope},
    remote::{Ask, EventLoop, Remote},
    run_context::RunContextObject,
    runs::ResumeArgument,
    sessions::NewSessionArgument,
    space,
    store::StoreObject,
    tasks::Answer,
};

static LAST_ORCHESTRATOR: AtomicU64 = AtomicU64::new(0);

/// Starts agents, stops them, and goes on with them.
struct OrchestratorObject {
    of: Rc<StoreObject>,
    orchestrator: Orchestrator,
    remote: Arc<Remote>,
    id: u64,
}

/// A run that was started.
struct HandleObject {
    of: Rc<StoreObject>,
    handle: RunHandle,
}

/// Has JavaScript do the work.
struct JavaScript {
    remote: Arc<Remote>,
    orchestrator: u64,
}

impl Executor for JavaScript {
    fn execute(&self, run: RunContext) -> Execution {
        let (done, is_done) = oneshot::channel();
        self.remote.ask(Ask::Execute {
            orchestrator: self.orchestrator,
            run: Box::new(run),
            done,
        });
        Box::pin(async move {
            is_done
                .await
                .unwrap_or_else(|_| Err("the agent's function was let go of".into()))
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Options {
    concurrent_max: Option<usize>,
    live_max: Option<usize>,
    spawn_max: Option<usize>,
    depth_max: Option<u32>,
    stop_grace_ms: Option<u64>,
    max_total_steps: Option<u32>,
    inbox_max: Option<usize>,
    tool_style: Option<StyleArgument>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum StyleArgument {
    Openai,
    Anthropic,
    AiSdk,
}

impl From<Options> for OrchestratorOptions {
    fn from(given: Options) -> Self {
        let defaults = Self::default();
        Self {
            concurrent_max: given.concurrent_max.unwrap_or(defaults.concurrent_max),
            live_max: given.live_max.unwrap_or(defaults.live_max),
            spawn_max: given.spawn_max.unwrap_or(defaults.spawn_max),
            depth_max: given.depth_max.unwrap_or(defaults.depth_max),
            stop_grace: given
                .stop_grace_ms
                .map_or(defaults.stop_grace, Duration::from_millis),
            max_total_steps: given.max_total_steps.unwrap_or(defaults.max_total_steps),
            inbox_max: given.inbox_max.unwrap_or(defaults.inbox_max),
            tool_style: match given.tool_style {
                Some(StyleArgument::Anthropic) => ToolStyle::Anthropic,
                Some(StyleArgument::Openai) => ToolStyle::OpenAi,
                Some(StyleArgument::AiSdk) => ToolStyle::AiSdk,
                None => defaults.tool_style,
            },
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Register {
    agent_name: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Start {
    agent_name: String,
    task: String,
    timeout_ms: Option<u64>,
    session: Option<NewSessionArgument>,
    session_id: Option<SessionId>,
    instance_id: Option<InstanceId>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Resume {
    run: RunId,
    #[serde(default)]
    options: ResumeArgument,
    timeout_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Spawn {
    run: RunId,
    requests: Vec<Value>,
    tool_call_id: Option<String>,
}

/// A sub-agent to spawn.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SpawnArgument {
    agent_name: String,
    #[serde(default)]
    task: String,
    timeout_ms: Option<u64>,
    #[serde(default, deserialize_with = "runlog::agents::max_steps::deserialize")]
    max_steps: Option<u32>,
    resume_run_id: Option<RunId>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Of {
    run: RunId,
}

#[derive(Serialize)]
struct Made {
    id: u64,
}

/// What an agent is to do.
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

#[derive(Serialize)]
struct ReportReply {
    resumed: Vec<(RunId, SpawnResult)>,
    left: Vec<(RunId, Failure)>,
}

impl From<ResumeReport> for ReportReply {
    fn from(report: ResumeReport) -> Self {
        Self {
            resumed: report.resumed,
            left: report
                .left
                .into_iter()
                .map(|(id, error)| (id, error.into()))
                .collect(),
        }
    }
}

/// A sub-agent to spawn. One that can't be read is refused alone.
pub(crate) fn spawn_request(value: &Value) -> SpawnRequest {
    let given: SpawnArgument = match read_value(value) {
        Ok(given) => given,
        Err(why) => {
            let name = value
                .get("agentName")
                .and_then(Value::as_str)
                .unwrap_or_default();
            return SpawnRequest::unreadable(name, why);
        }
    };
    let SpawnArgument {
        agent_name,
        task,
        timeout_ms,
        max_steps,
        resume_run_id,
    } = given;
    let mut request = SpawnRequest::new(agent_name, task);
    request.timeout = timeout_ms.map(Duration::from_millis);
    request.max_steps = max_steps;
    request.resume_run_id = resume_run_id;
    request
}

impl Start {
    fn into_start(self) -> Result<StartAgent> {
        let place = match (self.session, self.session_id, self.instance_id) {
            (session, None, None) => {
                StartPlace::NewSession(session.map(Into::into).unwrap_or_default())
            }
            (None, Some(session), None) => StartPlace::Session(session),
            (None, None, Some(instance)) => StartPlace::Instance(instance),
            _ => {
                return Err(Failure::invalid(
                    "an agent starts in a session, a sessionId or an instanceId; give one",
                ));
            }
        };
        let timeout = self.timeout_ms.map(Duration::from_millis);
        Ok(StartAgent {
            agent_name: self.agent_name,
            task: self.task,
            place,
            timeout,
        })
    }
}

/// The definitions of the tools that models are given, in each provider's form too.
pub(crate) fn tool_definitions() -> Result<Reply> {
    #[derive(Serialize)]
    struct Definition {
        definition: runlog::agents::ToolDefinition,
        openai: Value,
        anthropic: Value,
    }
    let tools = runlog::agents::tool_definitions().into_iter();
    let forms = tools.map(|tool| Definition {
        openai: tool.to_openai(),
        anthropic: tool.to_anthropic(),
        definition: tool,
    });
    Reply::json(&forms.collect::<Vec<_>>())
}

/// What JavaScript is asked to do, as JSON.
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
                    .add(Rc::new(RunContextObject::new(*run, done)))?,
            ))
        }
    }
}

fn orchestrate(of: &Rc<StoreObject>, scope: &Scope, input: Input<'_>) -> Result<Reply> {
    let options: Options = input.read()?;
    let remote = Arc::clone(&scope.remote);
    let orchestrator =
        Orchestrator::new(of.store()?, EventLoop(Arc::clone(&remote)), options.into());
    let id = LAST_ORCHESTRATOR.fetch_add(1, Ordering::Relaxed) + 1;
    let object = OrchestratorObject {
        of: Rc::clone(of),
        orchestrator,
        remote,
        id,
    };
    Ok(Reply::json(&Made { id })?.with_handle(scope.objects.add(Rc::new(object))?))
}

/// Answers a call that makes an orchestrator.
pub(crate) fn call(
    of: &Rc<StoreObject>,
    scope: &Scope,
    input: Input<'_>,
) -> Result<Option<Answer>> {
    Ok((input.method == "orchestrate").then(|| Answer::known(orchestrate(of, scope, input))))
}

impl OrchestratorObject {
    fn executor(&self) -> JavaScript {
        JavaScript {
            remote: Arc::clone(&self.remote),
            orchestrator: self.id,
        }
    }

    fn handle(&self, scope: &Scope, handle: RunHandle) -> Result<Reply> {
        let reply = Reply::json(&handle.run_id())?;
        let object = HandleObject {
            of: Rc::clone(&self.of),
            handle,
        };
        Ok(reply.with_handle(scope.objects.add(Rc::new(object))?))
    }
}

impl Object for OrchestratorObject {
    fn name(&self) -> &'static str {
        "an orchestrator"
    }

    fn call(self: Rc<Self>, scope: &Scope, input: Input<'_>) -> Result<Option<Answer>> {
        self.of.store()?;
        let (orchestrator, scope) = (self.orchestrator.clone(), scope.clone());
        Ok(Some(match input.method {
            "register" => {
                let Register { agent_name } = input.read()?;
                match agent_name {
                    Some(name) => orchestrator.register(name, self.executor()),
                    None => orchestrator.register_default(self.executor()),
                }
                Answer::known(Ok(Reply::DONE))
            }
            "start" => {
                let start = input.read::<Start>()?.into_start()?;
                Answer::wait(async move { self.handle(&scope, orchestrator.start(start).await?) })
            }
            "resume" => {
                let Resume {
                    run,
                    options,
                    timeout_ms,
                } = input.read()?;
                let timeout = timeout_ms.map(Duration::from_millis);
                Answer::wait(async move {
                    self.handle(
                        &scope,
                        orchestrator.resume(run, &options.into(), timeout).await?,
                    )
                })
            }
            "resumeAll" => Answer::wait(async move {
                Reply::json(&ReportReply::from(orchestrator.resume_all().await?))
            }),
            "spawnAgents" => {
                let Spawn {
                    run,
                    requests,
                    tool_call_id,
                } = input.read()?;
                let requests = requests.iter().map(spawn_request).collect();
                Answer::wait(async move {
                    Reply::json(&match tool_call_id {
                        Some(id) => orchestrator.spawn_agents_for(run, id, requests).await?,
                        None => orchestrator.spawn_agents(run, requests).await?,
                    })
                })
            }
            "cancel" => {
                let Of { run } = input.read()?;
                Answer::wait(async move {
                    orchestrator.cancel(run).await?;
                    Ok(Reply::DONE)
                })
            }
            "send" => {
                let Of { run } = input.read()?;
                let command = input.json()?;
                Answer::write(async move {
                    orchestrator.send(run, &command).await?;
                    Ok(Reply::DONE)
                })
            }
            "handle" => {
                let Of { run } = input.read()?;
                Answer::known(match orchestrator.handle(run) {
                    Some(handle) => self.handle(&scope, handle),
                    None => Reply::json(&()),
                })
            }
            "liveCount" => Answer::known(Reply::json(&orchestrator.live_count())),
            _ => return Ok(None),
        }))
    }
}

impl Object for HandleObject {
    fn name(&self) -> &'static str {
        "an agent's run"
    }

    fn call(self: Rc<Self>, _: &Scope, input: Input<'_>) -> Result<Option<Answer>> {
        self.of.store()?;
        Ok(Some(match input.method {
            "wait" => Answer::wait(async move { Reply::json(&self.handle.wait().await?) }),
            "cancel" => Answer::wait(async move {
                self.handle.cancel().await?;
                Ok(Reply::DONE)
            }),
            "send" => {
                let command = input.json()?;
                Answer::write(async move {
                    self.handle.send(&command).await?;
                    Ok(Reply::DONE)
                })
            }
            _ => match space::call(&mut self.handle.space(), input)? {
                Some(reply) => Answer::known(Ok(reply)),
                None => return Ok(None),
            },
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_of_steps_that_is_none_is_told_by_its_name_and_value() {
        for given in ["0", "1.5", "1000000000000", "\"3\""] {
            let request = format!(r#"{{"agentName":"worker","maxSteps":{given}}}"#);
            let told = runlog::contexts::read_json::<SpawnArgument>(&request)
                .map(drop)
                .unwrap_err();
            assert_eq!(
                told,
                format!("`maxSteps`: {given} is not a whole number from 1 to 4294967295")
            );
        }
        let request =
            runlog::contexts::read_json::<SpawnArgument>(r#"{"agentName":"worker","maxSteps":3}"#);
        assert_eq!(request.map(|request| request.max_steps), Ok(Some(3)));
    }
}
