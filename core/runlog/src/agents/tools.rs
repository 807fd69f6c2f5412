//! The tools for models: their definitions, and the dispatcher that takes a call's JSON and returns its result.

use std::sync::Arc;

use runlog_model::{AgentSummary, RawJson, read_json};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    SpawnRequest,
    active_run::ActiveRun,
    report::{SPAWN_AGENTS, recorded_results},
};
use crate::{
    Error, ErrorKind, Result,
    agents::inner::Inner,
    runs::{BatchExtras, ToolOutcome},
};

/// The name of the tool that lists the agents.
pub const LIST_AVAILABLE_AGENTS: &str = "list_available_agents";

/// A tool as a model is told of it.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolDefinition {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// What its arguments are: a JSON Schema.
    pub input_schema: Value,
}

impl ToolDefinition {
    /// As an entry of the `tools` of a request to OpenAI.
    pub fn to_openai(&self) -> Value {
        let Self {
            name,
            description,
            input_schema,
        } = self;
        json!({"type": "function", "function": {"name": name, "description": description, "parameters": input_schema}})
    }

    /// As an entry of the `tools` of a request to Anthropic.
    pub fn to_anthropic(&self) -> Value {
        let Self {
            name,
            description,
            input_schema,
        } = self;
        json!({"name": name, "description": description, "input_schema": input_schema})
    }
}

/// What a tool call came to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "ToolAnswer"))]
pub struct ToolReply {
    /// JSON: what to send to the model as the content of the result.
    pub output: RawJson,
    /// Whether the call was refused; the output then has an `error`.
    pub is_error: bool,
}

/// The definitions of `list_available_agents` and `spawn_agents`, for the tools of a request to a model.
///
/// ```
/// let tools = runlog::agents::tool_definitions();
/// let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
/// assert_eq!(names, ["list_available_agents", "spawn_agents"]);
/// assert_eq!(tools[1].to_openai()["function"]["parameters"]["required"][0], "requests");
/// ```
pub fn tool_definitions() -> Vec<ToolDefinition> {
    let tool = |name: &str, description: &str, input_schema| ToolDefinition {
        name: name.to_owned(),
        description: description.to_owned(),
        input_schema,
    };
    vec![
        tool(
            LIST_AVAILABLE_AGENTS,
            "Lists the agents of this project that can be spawned with spawn_agents: name, description, tools, flow \
             type and visibility of each.",
            json!({"type": "object", "properties": {}, "additionalProperties": false}),
        ),
        tool(
            SPAWN_AGENTS,
            "Runs one or more agents in parallel, each with its own context and tools, and waits for all of them. \
             Returns one result for each request, in order: run_id, agent_name, status (completed, paused, \
             failed or cancelled), summary (the agent's final text), steps, error (why it failed), pause_reason (why it \
             is paused, in words) and stop_kind (what stopped a run that is paused or cancelled). The stop_kind is \
             requested (the agent itself or a caller asked for it; pause_reason may say what it waits for), timeout \
             (its time was up), budget (its steps were used up), cancelled, parent (the run that spawned it had \
             stopped), orphaned (its process had died) or shutdown (its process was ended). A paused run can be \
             continued by naming its run_id as resume_run_id: it keeps its context, and has its time and its steps anew.",
            json!({
                "type": "object",
                "properties": {
                    "requests": {
                        "type": "array",
                        "minItems": 1,
                        "items": {
                            "type": "object",
                            "properties": {
                                "agent_name": {
                                    "type": "string",
                                    "description": "The agent, as list_available_agents names it."
                                },
                                "task": {
                                    "type": "string",
                                    "description": "What the agent is to do. It knows nothing but this: say all that \
                                                    it needs. When resuming, what it is told besides to continue."
                                },
                                "timeout": {
                                    "type": "number",
                                    "exclusiveMinimum": 0,
                                    "description": "How many seconds it may take; unless given, what its definition \
                                                    says."
                                },
                                "max_steps": {
                                    "type": "integer",
                                    "minimum": 1,
                                    "description": "How many steps it may take, where its definition doesn't allow \
                                                    fewer."
                                },
                                "resume_run_id": {
                                    "type": "string",
                                    "description": "The run_id of a paused run of this agent, to continue it."
                                }
                            },
                            "required": ["agent_name", "task"],
                            "additionalProperties": false
                        }
                    }
                },
                "required": ["requests"],
                "additionalProperties": false
            }),
        ),
    ]
}

/// The arguments of `spawn_agents`.
#[derive(Deserialize)]
#[serde(expecting = "an object with `requests`, an array")]
struct NamedRequests {
    requests: Vec<Value>,
}

/// The requests in a call's arguments: as the definition says, or a bare array as some models write it, or a string
/// that holds the JSON of either. One that can't be read is [refused alone](SpawnRequest::unreadable).
///
/// # Errors
/// [`InvalidInput`](ErrorKind::InvalidInput) for anything else, and for an empty list.
pub fn spawn_requests(arguments: &RawJson) -> Result<Vec<SpawnRequest>> {
    let inner: Option<String> = arguments.to_value().ok();
    let arguments = inner.map_or_else(|| Ok(arguments.clone()), RawJson::parse)?;
    // The form is chosen before parsing, so that the error is about the form that was meant.
    let requests = if arguments.as_str().trim_start().starts_with('[') {
        read_json::<Vec<Value>>(arguments.as_str())
    } else {
        read_json::<NamedRequests>(arguments.as_str()).map(|named| named.requests)
    };
    let requests: Vec<_> = requests
        .map(|requests| requests.iter().map(SpawnRequest::of_json).collect())
        .map_err(|error| Error::invalid(format!("the arguments of {SPAWN_AGENTS}: {error}")))?;
    if requests.is_empty() {
        return Err(Error::invalid(
            "no request is given; ask for at least one agent",
        ));
    }
    Ok(requests)
}

#[derive(Serialize)]
struct Listed {
    agents: Vec<AgentSummary>,
}

impl Inner {
    pub(super) async fn answer_tool_call(
        self: &Arc<Self>,
        live: &Arc<ActiveRun>,
        tool_call_id: &str,
        name: &str,
        arguments: &RawJson,
    ) -> Result<Option<ToolReply>> {
        if ![LIST_AVAILABLE_AGENTS, SPAWN_AGENTS].contains(&name) {
            return Ok(None);
        }
        // Checked first, so that no agent works for a result that couldn't be recorded.
        live.recorder.check_unanswered(tool_call_id).await?;
        let answer = match name {
            LIST_AVAILABLE_AGENTS => {
                let project = live.recorder.run().project;
                let agents = self
                    .store
                    .agents()
                    .list_available_agents(project.as_deref())
                    .await?;
                Ok(RawJson::from_value(&Listed { agents })?)
            }
            SPAWN_AGENTS => match spawn_requests(arguments) {
                Ok(requests) => {
                    let spawned = self
                        .spawn_agents(live, Some(tool_call_id.to_owned()), requests)
                        .await;
                    match spawned {
                        // It is recorded with the results.
                        Ok(results) => {
                            let output = RawJson::parse(recorded_results(&results)?)?;
                            return Ok(Some(ToolReply {
                                output,
                                is_error: false,
                            }));
                        }
                        Err(error) if is_the_models(&error) => Err(error),
                        Err(error) => return Err(error),
                    }
                }
                Err(error) => Err(error),
            },
            _ => return Ok(None),
        };
        let (output, is_error) = match answer {
            Ok(output) => (output, false),
            Err(error) => (refusal(&error), true),
        };
        let content = RawJson::string(output.as_str());
        let outcome = match is_error {
            false => ToolOutcome::completed(tool_call_id, content),
            true => ToolOutcome::error(tool_call_id, content),
        };
        let _pass = live.write_guard().await;
        live.recorder
            .record_tool_results_with(std::slice::from_ref(&outcome), &BatchExtras::default())
            .await?;
        Ok(Some(ToolReply { output, is_error }))
    }
}

/// Whether an error was caused by the model's request.
fn is_the_models(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::InvalidInput | ErrorKind::TooLarge | ErrorKind::LimitReached
    )
}

fn refusal(error: &Error) -> RawJson {
    let value = json!({"error": {"code": error.kind().name(), "message": error.to_string()}});
    RawJson::from_value(&value).expect("texts have a JSON form")
}

#[cfg(test)]
mod tests {
    use runlog_model::{RunStatus, StopKind};

    use super::*;
    use crate::agents::SpawnResult;

    #[test]
    fn a_model_is_told_of_all_that_a_result_says() {
        let result = SpawnResult {
            summary: Some("s".to_owned()),
            pause_reason: Some("p".to_owned()),
            stop_kind: Some(StopKind::Budget),
            ..SpawnResult::refused("a", "e")
        };
        let result = serde_json::to_value(result).unwrap();
        let fields = result.as_object().unwrap().keys().cloned();
        let tools = tool_definitions();
        let described: Vec<&str> = tools[1]
            .description
            .split(|it: char| !it.is_alphabetic() && it != '_')
            .collect();
        let statuses = RunStatus::ALL
            .into_iter()
            .filter(|it| *it != RunStatus::Running);
        for name in fields
            .chain(statuses.map(|it| it.to_string()))
            .chain(StopKind::ALL.map(|it| it.to_string()))
        {
            assert!(described.contains(&&*name), "{name}");
        }
    }

    #[test]
    fn arguments_are_read_as_models_write_them() {
        let requests = r#"[{"agent_name":"a","task":"t"}]"#;
        let named = format!("{{\"requests\":{requests}}}");
        let expected = [SpawnRequest::new("a", "t")];
        for arguments in [requests.to_owned(), named.clone()] {
            assert_eq!(
                spawn_requests(&RawJson::parse(arguments.clone()).unwrap()).unwrap(),
                expected
            );
            assert_eq!(
                spawn_requests(&RawJson::string(&arguments)).unwrap(),
                expected
            );
        }
    }

    #[test]
    fn what_is_wrong_with_one_request_is_told_of_it_alone() {
        for (request, says) in [
            (r#"{"task":"t"}"#, "`agent_name` is missing"),
            (
                r#"{"agent_name":"a","task":"t","resume_run_id":"x"}"#,
                r#"`resume_run_id`: "x" is not an id"#,
            ),
            (
                r#"{"agent_name":"a","task":"t","timeout":"30s"}"#,
                r#"`timeout`: "30s" is not a number"#,
            ),
            (
                r#"{"agent_name":"a","task":"t","timeout":-1}"#,
                "timeout is no number of seconds to wait: -1.0 is negative or too large",
            ),
            (
                r#"{"agent_name":"a","task":"t","timeout":1e30}"#,
                "1e30 is negative or too large",
            ),
            (
                r#"{"agent_name":"a","task":"t","max_step":1}"#,
                "`max_step` is not a field",
            ),
            ("7", "7 is not an object"),
        ] {
            let arguments = format!(r#"[{request},{{"agent_name":"a","task":"t"}}]"#);
            let requests = spawn_requests(&RawJson::parse(arguments).unwrap()).unwrap();
            let why = requests[0].unreadable.as_deref().unwrap();
            assert!(why.contains(says), "{request}: {why}");
            assert_eq!(requests[1], SpawnRequest::new("a", "t"));
        }
    }

    #[test]
    fn what_is_wrong_with_arguments_is_told() {
        for (arguments, says) in [
            ("{}", "requests"),
            (r#"{"requests":[]}"#, "at least one"),
            (r#"[]"#, "at least one"),
            ("5", "requests"),
        ] {
            let error = spawn_requests(&RawJson::parse(arguments).unwrap()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{arguments}");
            assert!(error.to_string().contains(says), "{arguments}: {error}");
        }
    }
}
