//! What there is to ask of runs, as tools: each takes JSON and gives JSON, and changes nothing.

use runlog::{
    Error, ErrorKind, RunId, RunStatus, SessionId, Store,
    agents::ToolDefinition,
    flows::ListFlows,
    runs::{ListRunMessages, ListRuns, ListToolCalls, ToolCallStatus},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

/// The most of a list that one call gives.
const LIMIT_MAX: usize = 200;
const LIMIT: usize = 50;

/// The tools.
pub(crate) fn definitions() -> Vec<ToolDefinition> {
    let run = json!({"type": "string", "description": "The run's id."});
    let limit = json!({"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "description": "At most so many; 50 unless given."});
    let cursor =
        json!({"type": "string", "description": "Where to go on: the `next` of the page before."});
    let statuses = RunStatus::ALL.map(RunStatus::name);
    vec![
        tool(
            "list_runs",
            "Lists runs of agents, newest first: id, agent, status, steps, times.",
            json!({
                "status": {"type": "string", "enum": statuses}, "agent_id": text("Only runs of this agent."),
                "parent_run_id": text("Only runs that this run spawned."), "session_id": text("Only runs of this session."),
                "limit": limit, "cursor": cursor
            }),
            &[],
        ),
        tool(
            "get_run",
            "Gives the whole of a run: also its summary, error and pause reason.",
            json!({"run_id": run}),
            &["run_id"],
        ),
        tool(
            "list_run_messages",
            "Lists the messages of a run in the order of its steps, each as it was sent to the model.",
            json!({"run_id": run, "step_number": {"type": "integer", "minimum": 0}, "limit": limit, "cursor": cursor}),
            &["run_id"],
        ),
        tool(
            "get_run_message",
            "Gives one message of a run.",
            json!({"run_id": run, "message_id": {"type": "integer", "minimum": 1}}),
            &["run_id", "message_id"],
        ),
        tool(
            "list_tool_calls",
            "Lists the tool calls of a run in the order of its steps, with input, output, status and duration.",
            json!({
                "run_id": run, "tool_name": text("Only calls of this tool."),
                "status": {"type": "string", "enum": ["pending", "completed", "error"]}, "limit": limit, "cursor": cursor
            }),
            &["run_id"],
        ),
        tool(
            "get_tool_call",
            "Gives one tool call of a run.",
            json!({"run_id": run, "tool_call_id": {"type": "integer", "minimum": 1, "description": "The `id` that list_tool_calls gives."}}),
            &["run_id", "tool_call_id"],
        ),
        tool(
            "list_flows",
            "Lists flows of nodes and agents, newest first: status, the status of its run, whether it is over.",
            json!({
                "status": text("Only flows of this status."), "parent_run_id": text("Only flows of runs that this run spawned."),
                "resumable": {"type": "boolean", "description": "Only flows that are to be resumed."},
                "limit": limit, "cursor": cursor
            }),
            &[],
        ),
    ]
}

fn tool(name: &str, description: &str, properties: Value, required: &[&str]) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        description: description.to_owned(),
        input_schema: json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false}),
    }
}

fn text(what: &str) -> Value {
    json!({"type": "string", "description": what})
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Runs {
    status: Option<RunStatus>,
    agent_id: Option<String>,
    parent_run_id: Option<RunId>,
    session_id: Option<SessionId>,
    limit: Option<usize>,
    cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Flows {
    status: Option<String>,
    parent_run_id: Option<RunId>,
    #[serde(default)]
    resumable: bool,
    limit: Option<usize>,
    cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfRun {
    run_id: RunId,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Messages {
    run_id: RunId,
    step_number: Option<u32>,
    limit: Option<usize>,
    cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OneMessage {
    run_id: RunId,
    message_id: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolCalls {
    run_id: RunId,
    tool_name: Option<String>,
    status: Option<ToolCallStatus>,
    limit: Option<usize>,
    cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OneToolCall {
    run_id: RunId,
    tool_call_id: u64,
}

/// Answers a call; `None` when it is of another tool.
///
/// # Errors
/// What is wrong with the arguments, and those of reading the store.
pub(crate) async fn answer(
    store: &Store,
    tool: &str,
    arguments: Map<String, Value>,
) -> runlog::Result<Option<Value>> {
    let runs = store.runs();
    let answer = match tool {
        "list_runs" => {
            let Runs {
                status,
                agent_id,
                parent_run_id,
                session_id,
                limit,
                cursor,
            } = read(tool, arguments)?;
            let options = ListRuns {
                status,
                agent_id,
                parent_run_id,
                session_id,
                project: None,
                limit: at_most(limit),
                cursor,
            };
            value(runs.list(&options).await?)
        }
        "get_run" => {
            let OfRun { run_id } = read(tool, arguments)?;
            value(
                runs.get(run_id)
                    .await?
                    .ok_or_else(|| missing(format!("no run {run_id}")))?,
            )
        }
        "list_run_messages" => {
            let Messages {
                run_id,
                step_number,
                limit,
                cursor,
            } = read(tool, arguments)?;
            value(
                runs.messages(
                    run_id,
                    &ListRunMessages {
                        step_number,
                        limit: at_most(limit),
                        cursor,
                    },
                )
                .await?,
            )
        }
        "get_run_message" => {
            let OneMessage { run_id, message_id } = read(tool, arguments)?;
            let message = runs.message(run_id, message_id).await?;
            value(
                message
                    .ok_or_else(|| missing(format!("no message {message_id} in run {run_id}")))?,
            )
        }
        "list_tool_calls" => {
            let ToolCalls {
                run_id,
                tool_name,
                status,
                limit,
                cursor,
            } = read(tool, arguments)?;
            value(
                runs.tool_calls(
                    run_id,
                    &ListToolCalls {
                        tool_name,
                        status,
                        limit: at_most(limit),
                        cursor,
                    },
                )
                .await?,
            )
        }
        "get_tool_call" => {
            let OneToolCall {
                run_id,
                tool_call_id,
            } = read(tool, arguments)?;
            let call = runs.tool_call(run_id, tool_call_id).await?;
            value(
                call.ok_or_else(|| {
                    missing(format!("no tool call {tool_call_id} in run {run_id}"))
                })?,
            )
        }
        "list_flows" => {
            let Flows {
                status,
                parent_run_id,
                resumable,
                limit,
                cursor,
            } = read(tool, arguments)?;
            let options = ListFlows {
                status,
                parent_run_id,
                resumable,
                limit: at_most(limit),
                cursor,
            };
            value(store.flows().list(&options).await?)
        }
        _ => return Ok(None),
    };
    answer.map(Some)
}

fn read<T: DeserializeOwned>(tool: &str, arguments: Map<String, Value>) -> runlog::Result<T> {
    serde_json::from_value(Value::Object(arguments)).map_err(|error| {
        Error::new(
            ErrorKind::InvalidInput,
            format!("the arguments of {tool}: {error}"),
        )
    })
}

fn value(found: impl serde::Serialize) -> runlog::Result<Value> {
    serde_json::to_value(found)
        .map_err(|error| Error::new(ErrorKind::Damaged, format!("it has no JSON form: {error}")))
}

fn missing(message: String) -> Error {
    Error::new(ErrorKind::NotFound, message)
}

fn at_most(limit: Option<usize>) -> usize {
    limit.unwrap_or(LIMIT).min(LIMIT_MAX)
}
