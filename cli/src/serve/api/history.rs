//! The history of agent runs in a project: six endpoints with field names of their own, for clients of that API.

use runlog::{
    Run, RunId, Store,
    pages::Page,
    runs::{ListRunMessages, ListRuns, ListToolCalls, RunMessage, RunSummary, ToolCall},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::runs;
use crate::serve::{
    endpoint::{Endpoint, NoQuery, get},
    problem::{Answer, Problem},
};

pub(super) fn endpoints() -> Vec<Endpoint> {
    let all = vec![
        get(
            "/api/projects/{id}/agent-runs",
            "Lists the runs of a project, newest first, in pages.",
            list,
        )
        .said_by_path("project")
        .example_query("status=paused&limit=10"),
        get(
            "/api/projects/{id}/agent-runs/{run_id}",
            "Gives the whole of a run.",
            run,
        ),
        get(
            "/api/projects/{id}/agent-runs/{run_id}/messages",
            "Lists the messages of a run in the order of its steps, each as it was sent to the model.",
            messages,
        )
        .example_query("limit=10"),
        get(
            "/api/projects/{id}/agent-runs/{run_id}/messages/{message_id}",
            "Gives one message of a run.",
            message,
        ),
        get(
            "/api/projects/{id}/agent-runs/{run_id}/tool-calls",
            "Lists the tool calls of a run in the order of its steps.",
            tool_calls,
        )
        .example_query("status=completed&limit=10"),
        get(
            "/api/projects/{id}/agent-runs/{run_id}/tool-calls/{call_id}",
            "Gives one tool call of a run, with its whole input and output.",
            tool_call,
        ),
    ];
    all.into_iter().map(Endpoint::cached).collect()
}

#[derive(Deserialize, JsonSchema)]
struct OfProject {
    /// The project.
    id: String,
}

#[derive(Deserialize, JsonSchema)]
struct OfRun {
    /// The project.
    id: String,
    /// The run.
    run_id: RunId,
}

#[derive(Deserialize, JsonSchema)]
struct OfMessage {
    /// The project.
    id: String,
    /// The run.
    run_id: RunId,
    /// The `id` that the list of messages gives.
    message_id: u64,
}

#[derive(Deserialize, JsonSchema)]
struct OfToolCall {
    /// The project.
    id: String,
    /// The run.
    run_id: RunId,
    /// The `id` that the list of tool calls gives.
    call_id: u64,
}

/// Which runs of a project to list, and how many.
#[derive(Deserialize, JsonSchema)]
struct ListProjectRuns {
    /// Only runs of the agent of this name, as `agent_name`.
    #[serde(rename = "agentId")]
    agent_id: Option<String>,
    #[serde(flatten)]
    runs: ListRuns,
}

/// What a list tells of a run.
#[derive(Serialize, JsonSchema)]
struct ListedRun {
    #[serde(flatten)]
    run: RunSummary,
    /// The agent's name.
    agent_id: String,
    /// How long it ran, until it paused or was over, in milliseconds; `null` while it runs.
    duration: Option<u64>,
    /// When it was over: milliseconds since 1970-01-01 UTC; `null` while it runs, or is paused.
    completed_at: Option<u64>,
}

/// The whole of a run. What it doesn't have is `null`.
#[derive(Serialize, JsonSchema)]
struct WholeRun {
    #[serde(flatten)]
    run: Run,
    /// The agent's name.
    agent_id: String,
    /// How long it ran, until it paused or was over, in milliseconds.
    duration: Option<u64>,
    /// When it was over: milliseconds since 1970-01-01 UTC.
    completed_at: Option<u64>,
    /// What came of it.
    summary: Option<String>,
    /// Why it failed.
    error_message: Option<String>,
    /// The steps it may take itself; as many as it likes where there is no such number.
    max_steps: Option<u32>,
    /// The run that spawned it.
    parent_run_id: Option<RunId>,
    /// The run it goes on from.
    resumed_from: Option<RunId>,
}

/// One invocation of a tool.
#[derive(Serialize, JsonSchema)]
struct WholeToolCall {
    #[serde(flatten)]
    call: ToolCall,
    /// How long the tool itself took, in milliseconds of wall clock.
    duration: Option<u64>,
}

impl From<RunSummary> for ListedRun {
    fn from(mut run: RunSummary) -> Self {
        Self {
            agent_id: run.agent_name.clone(),
            duration: run.duration_ms.take(),
            completed_at: run.completed_at_ms.take(),
            run,
        }
    }
}

impl From<Run> for WholeRun {
    fn from(mut run: Run) -> Self {
        Self {
            agent_id: run.agent_name.clone(),
            duration: run.duration_ms.take(),
            completed_at: run.completed_at_ms.take(),
            summary: run.summary.take(),
            error_message: run.error_message.take(),
            max_steps: run.max_steps.take(),
            parent_run_id: run.parent_run_id.take(),
            resumed_from: run.resumed_from.take(),
            run,
        }
    }
}

impl From<ToolCall> for WholeToolCall {
    fn from(call: ToolCall) -> Self {
        Self {
            duration: call.duration_ms,
            call,
        }
    }
}

async fn list(store: Store, of: OfProject, given: ListProjectRuns) -> Answer<Page<ListedRun>> {
    let ListProjectRuns { agent_id, runs } = given;
    let mut options = runs;
    if options.project.is_some_and(|project| project != of.id) {
        return Err(Problem::invalid(
            "`project` is another one than that of the address; leave it out",
        ));
    }
    options.project = Some(of.id);
    if agent_id.is_some() {
        if options.agent_name.is_some() {
            return Err(Problem::invalid(
                "`agent_id` and `agent_name` are the same filter; give one of them",
            ));
        }
        options.agent_name = agent_id;
    }
    Ok(store.runs().list(&options).await?.map(Into::into))
}

/// An error if a run isn't in the project. This uses the list of runs, without reading the run.
async fn check_of_project(store: &Store, project: &str, id: RunId) -> Answer<()> {
    let own = store.runs().project(id).await?;
    check_project(own.as_deref(), project, id)
}

fn check_project(own: Option<&str>, project: &str, id: RunId) -> Answer<()> {
    if own == Some(project) {
        return Ok(());
    }
    Err(Problem::not_found(format!(
        "no run {id} in the project {project:?}"
    )))
}

async fn run(store: Store, of: OfRun, _: NoQuery) -> Answer<WholeRun> {
    let run = runs::whole(&store, of.run_id).await?;
    check_project(run.project.as_deref(), &of.id, of.run_id)?;
    Ok(run.into())
}

async fn messages(store: Store, of: OfRun, options: ListRunMessages) -> Answer<Page<RunMessage>> {
    check_of_project(&store, &of.id, of.run_id).await?;
    runs::some_messages(&store, of.run_id, options).await
}

async fn message(store: Store, of: OfMessage, _: NoQuery) -> Answer<RunMessage> {
    check_of_project(&store, &of.id, of.run_id).await?;
    runs::one_message(&store, of.run_id, of.message_id).await
}

async fn tool_calls(
    store: Store,
    of: OfRun,
    options: ListToolCalls,
) -> Answer<Page<WholeToolCall>> {
    check_of_project(&store, &of.id, of.run_id).await?;
    let page = runs::some_tool_calls(&store, of.run_id, options).await?;
    Ok(page.map(Into::into))
}

async fn tool_call(store: Store, of: OfToolCall, _: NoQuery) -> Answer<WholeToolCall> {
    check_of_project(&store, &of.id, of.run_id).await?;
    Ok(runs::one_tool_call(&store, of.run_id, of.call_id)
        .await?
        .into())
}
