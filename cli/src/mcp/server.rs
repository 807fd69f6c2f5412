//! [`Server`]: the tools for a client of the Model Context Protocol.

use std::sync::Arc;

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
        InitializeResult, ListToolsResult, PaginatedRequestParams, ServerCapabilities, Tool,
    },
    service::RequestContext,
};
use runlog::{
    NewRun, NewSession, Orchestrator, RawJson, RunId, RunRecorder, RunStatus, SessionId, Store,
    agents::{
        LIST_AVAILABLE_AGENTS, SPAWN_AGENTS, SpawnRequest, ToolDefinition, spawn_requests,
        tool_definitions,
    },
    runs::{Stop, StopKind},
    sessions::NewInstance,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::{progress::Progress, queries};
use crate::failure::Failure;

/// The agent that represents the client: a run of it is the parent of the runs that the client spawns.
const CLIENT: &str = "mcp-client";

/// The tool that sends a message to an active run.
const SEND_TO_RUN: &str = "send_to_run";

/// A message for a run.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SendToRun {
    /// The run, at work under this server
    run_id: RunId,
    /// What its agent is told
    message: String,
}

/// The arguments of the tool that lists agents: none.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListAvailableAgents {}

/// Why the client's run was paused.
const DISCONNECTED: &str = "the client disconnected";

/// The state that the tools use.
#[derive(Clone)]
pub(crate) struct Server {
    shared: Arc<Shared>,
}

struct Shared {
    store: Store,
    project: Option<String>,
    /// Spawns agents; `None` if there are none to spawn.
    orchestrator: Option<Orchestrator>,
    parents: Mutex<Parents>,
    /// Cancelled when the client has disconnected.
    disconnected: CancellationToken,
}

/// The parent runs of the client's sub-agents, in one session. Calls at once have one each: in a context no call can stand
/// between another and its result.
#[derive(Default)]
struct Parents {
    session: Option<SessionId>,
    all: Vec<RunRecorder>,
    /// Those in which no call is open.
    idle: Vec<RunId>,
}

impl Server {
    /// A server for a store, and for the agents of an orchestrator.
    pub(crate) fn new(
        store: Store,
        project: Option<String>,
        orchestrator: Option<Orchestrator>,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                store,
                project,
                orchestrator,
                parents: Mutex::default(),
                disconnected: CancellationToken::new(),
            }),
        }
    }

    /// Cancelled by the task that reads the client's messages, at their end.
    pub(crate) fn disconnected(&self) -> CancellationToken {
        self.shared.disconnected.clone()
    }

    fn tools(&self) -> Vec<ToolDefinition> {
        let has_agents = self.shared.orchestrator.is_some();
        let own = tool_definitions()
            .into_iter()
            .filter(|tool| has_agents || tool.name != SPAWN_AGENTS);
        let send = queries::definition::<SendToRun>(
            SEND_TO_RUN,
            "Sends a message to a sub-agent that is at work. It waits in the inbox of its run until the agent takes it; an agent \
             that reads no messages never does.",
        );
        own.chain(has_agents.then_some(send))
            .chain(queries::definitions())
            .collect()
    }

    /// Ends the client's runs. Those whose sub-agents are still active are paused together with them, so that a client that
    /// returns can resume them.
    ///
    /// # Errors
    /// Those of the storage.
    pub(crate) async fn close(&self) -> runlog::Result<()> {
        let Some(orchestrator) = &self.shared.orchestrator else {
            return Ok(());
        };
        let parents = std::mem::take(&mut *self.shared.parents.lock().await);
        for parent in parents.all {
            if orchestrator.live_count() > 0 && !parents.idle.contains(&parent.id()) {
                let stop = Stop::new(StopKind::Shutdown, DISCONNECTED);
                orchestrator.pause(parent.id(), stop).await?;
            } else if self.is_running(parent.id()).await? {
                parent.complete(None).await?;
            }
        }
        Ok(())
    }

    async fn is_running(&self, run: RunId) -> runlog::Result<bool> {
        let run = self.shared.store.runs().get(run).await?;
        Ok(run.is_some_and(|run| run.status == RunStatus::Running))
    }

    /// A run of the client's in which no call is open. It is idle again once the call has its results; one whose call was
    /// dropped never is, for that call's end may not be recorded yet.
    async fn parent(&self) -> runlog::Result<RunId> {
        let mut parents = self.shared.parents.lock().await;
        while let Some(idle) = parents.idle.pop() {
            // Somebody else may have ended it.
            if self.is_running(idle).await? {
                return Ok(idle);
            }
        }
        let new = match parents.session {
            Some(session) => NewRun::in_new_instance(NewInstance::new(session, CLIENT)),
            None => {
                let session = NewSession {
                    project: self.shared.project.clone(),
                    title: Some("MCP client".to_owned()),
                    ..NewSession::default()
                };
                NewRun::in_new_session(session, CLIENT)
            }
        };
        let run = self.shared.store.runs().start(new).await?;
        let id = run.id();
        parents.session = Some(run.run().session_id);
        parents.all.push(run);
        Ok(id)
    }

    async fn answer(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        progress: Option<Progress>,
    ) -> Result<Option<RawJson>, Failure> {
        let shared = &self.shared;
        let answer = match (tool, &shared.orchestrator) {
            (LIST_AVAILABLE_AGENTS, _) => {
                queries::read::<ListAvailableAgents>(tool, arguments)?;
                let mut agents = shared
                    .store
                    .agents()
                    .list_available_agents(shared.project.as_deref())
                    .await?;
                // The store may have definitions of agents that the file doesn't name any more; they have no executor.
                if let Some(orchestrator) = &shared.orchestrator {
                    agents.retain(|agent| orchestrator.has_executor(&agent.name));
                }
                json!({"agents": agents})
            }
            (SPAWN_AGENTS, Some(orchestrator)) => {
                let arguments = RawJson::from_value(&arguments)?;
                self.spawn(orchestrator, spawn_requests(&arguments)?, progress)
                    .await?
            }
            (SEND_TO_RUN, Some(orchestrator)) => {
                let send: SendToRun = queries::read(tool, arguments)?;
                let command =
                    json!({"type": "send", "runId": send.run_id, "message": send.message});
                let command = RawJson::from_value(&command)?;
                orchestrator.send(send.run_id, &command).await?;
                json!({"run_id": send.run_id, "sent": true})
            }
            _ => return queries::answer(&shared.store, tool, arguments).await,
        };
        Ok(Some(RawJson::from_value(&answer)?))
    }

    async fn spawn(
        &self,
        orchestrator: &Orchestrator,
        requests: Vec<SpawnRequest>,
        progress: Option<Progress>,
    ) -> runlog::Result<Value> {
        let parent = self.parent().await?;
        let names: Vec<_> = requests.iter().map(|it| it.agent_name.clone()).collect();
        let spawned = orchestrator.spawn(parent, requests).await;
        if spawned.is_err() {
            // Nothing was recorded.
            self.shared.parents.lock().await.idle.push(parent);
        }
        let mut spawned = spawned?;
        if let Some(progress) = progress {
            progress.report(&names, &mut spawned).await;
        }
        let results = spawned.results().await?;
        self.shared.parents.lock().await.idle.push(parent);
        Ok(json!({"parent_run_id": parent, "results": results}))
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> InitializeResult {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        InitializeResult::new(capabilities)
            .with_server_info(Implementation::new("runlog", env!("CARGO_PKG_VERSION")))
            .with_instructions(
                "Spawn sub-agents, each of which is recorded as a run, and look at the runs that a store has.",
            )
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self
            .tools()
            .into_iter()
            .filter_map(|tool| match tool.input_schema {
                Value::Object(schema) => Some(Tool::new(tool.name, tool.description, schema)),
                _ => None,
            });
        Ok(ListToolsResult::with_all_items(tools.collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        // A call that the client cancels is dropped, which cancels the agents it spawned. If the client has
        // disconnected, it isn't dropped: these agents are paused with the client's run.
        let (server, name) = (self.clone(), request.name.clone());
        let progress = Progress::of(&context);
        let mut work = tokio::spawn(async move { server.answer(&name, arguments, progress).await });
        let answer = tokio::select! {
            answer = &mut work => answer.map_err(|error| ErrorData::internal_error(error.to_string(), None))?,
            () = context.ct.cancelled() => {
                if !self.shared.disconnected.is_cancelled() {
                    work.abort();
                }
                return Err(ErrorData::internal_error("the call was cancelled", None));
            }
        };
        let result = match answer {
            Ok(Some(json)) => {
                let text = ContentBlock::text(json.as_str());
                let mut result = CallToolResult::success(vec![text]);
                // What was recorded may be such as no value can hold, like 1e400: then it is in the text alone.
                result.structured_content = json.to_value().ok();
                result
            }
            Ok(None) => {
                let message = format!("there is no tool {:?}", request.name);
                return Err(ErrorData::invalid_params(message, None));
            }
            Err(error) => {
                let value = json!({"error": {"code": error.kind(), "message": error.message()}});
                CallToolResult::error(vec![ContentBlock::text(value.to_string())])
            }
        };
        Ok(result.into())
    }
}
