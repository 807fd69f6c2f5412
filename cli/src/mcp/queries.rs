//! Read-only tools about runs: each takes JSON and returns JSON.
//!
//! The arguments of a tool are a type; the doc comments of its fields are their descriptions for the client's model.

use runlog::{RawJson, RunId, Store, agents::ToolDefinition, contexts::read_fields};
use schemars::{JsonSchema, Schema, generate::SchemaSettings};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::{
    failure::{Exit, Failure, Result},
    filters::{FlowFilter, MessageFilter, Page, RunFilter, ToolCallFilter},
};

/// The most items of a list that one call returns.
const LIMIT_MAX: usize = 200;

/// Declares the tools, each with its description for the client's model, its name and the type of its arguments.
macro_rules! tools {
    ($(#[doc = $about:literal] $name:literal => $arguments:ty),* $(,)?) => {
        /// The definitions of the tools, for a client.
        pub(crate) fn definitions() -> Vec<ToolDefinition> {
            vec![$(definition::<$arguments>($name, $about)),*]
        }

        /// Answers a call; `None` if the tool isn't one of these.
        ///
        /// # Errors
        /// Those of invalid arguments, and of reading the store.
        pub(crate) async fn answer(
            store: &Store,
            tool: &str,
            arguments: Map<String, Value>,
        ) -> Result<Option<RawJson>> {
            Ok(Some(match tool {
                $($name => read::<$arguments>(tool, arguments)?.answer(store).await?,)*
                _ => return Ok(None),
            }))
        }
    };
}

tools! {
    /// Lists runs of agents, newest first: id, agent, status, steps, times.
    "list_runs" => RunFilter,
    /// Gives the whole of a run: also its summary, error and pause reason.
    "get_run" => GetRun,
    /// Lists the messages of a run in the order of its steps, each as it was sent to the model.
    "list_run_messages" => ListRunMessages,
    /// Gives one message of a run.
    "get_run_message" => GetRunMessage,
    /// Lists the tool calls of a run in the order of its steps, with input, output, status and duration.
    "list_tool_calls" => ListToolCalls,
    /// Gives one tool call of a run.
    "get_tool_call" => GetToolCall,
    /// Lists flows of nodes and agents, newest first: status, the status of its run, whether it is over.
    "list_flows" => FlowFilter,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetRun {
    /// The run's id.
    #[schemars(with = "String")]
    run_id: RunId,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListRunMessages {
    /// The run's id.
    #[schemars(with = "String")]
    run_id: RunId,
    #[serde(flatten)]
    filter: MessageFilter,
    #[serde(flatten)]
    page: Page,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetRunMessage {
    /// The run's id.
    #[schemars(with = "String")]
    run_id: RunId,
    /// The `id` that list_run_messages gives.
    message_id: u64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListToolCalls {
    /// The run's id.
    #[schemars(with = "String")]
    run_id: RunId,
    #[serde(flatten)]
    filter: ToolCallFilter,
    #[serde(flatten)]
    page: Page,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetToolCall {
    /// The run's id.
    #[schemars(with = "String")]
    run_id: RunId,
    /// The `id` that list_tool_calls gives.
    tool_call_id: u64,
}

impl RunFilter {
    async fn answer(mut self, store: &Store) -> Result<RawJson> {
        bound(&mut self.page);
        let options = self.options(&store.to_blocking())?;
        json(store.runs().list(&options).await?)
    }
}

impl GetRun {
    async fn answer(self, store: &Store) -> Result<RawJson> {
        let run = store.runs().get(self.run_id).await?;
        json(run.ok_or_else(|| Failure::not_found(format!("no run {}", self.run_id)))?)
    }
}

impl ListRunMessages {
    async fn answer(mut self, store: &Store) -> Result<RawJson> {
        bound(&mut self.page);
        let options = self.filter.on(self.page);
        json(store.runs().messages(self.run_id, &options).await?)
    }
}

impl GetRunMessage {
    async fn answer(self, store: &Store) -> Result<RawJson> {
        let Self { run_id, message_id } = self;
        let message = store.runs().message(run_id, message_id).await?;
        json(message.ok_or_else(|| missing(run_id, "message", message_id))?)
    }
}

impl ListToolCalls {
    async fn answer(mut self, store: &Store) -> Result<RawJson> {
        bound(&mut self.page);
        let options = self.filter.on(self.page);
        json(store.runs().tool_calls(self.run_id, &options).await?)
    }
}

impl GetToolCall {
    async fn answer(self, store: &Store) -> Result<RawJson> {
        let call = store
            .runs()
            .tool_call(self.run_id, self.tool_call_id)
            .await?;
        json(call.ok_or_else(|| missing(self.run_id, "tool call", self.tool_call_id))?)
    }
}

impl FlowFilter {
    async fn answer(mut self, store: &Store) -> Result<RawJson> {
        bound(&mut self.page);
        let options = self.options(&store.to_blocking())?;
        json(store.flows().list(&options).await?)
    }
}

pub(super) fn definition<T: JsonSchema>(name: &str, about: &str) -> ToolDefinition {
    let mut input_schema = schema_of::<T>();
    for of_the_type in ["$schema", "title", "description"] {
        input_schema.remove(of_the_type);
    }
    ToolDefinition {
        name: name.to_owned(),
        description: about.trim().to_owned(),
        input_schema: input_schema.to_value(),
    }
}

fn schema_of<T: JsonSchema>() -> Schema {
    let settings = SchemaSettings::default().with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<T>()
}

pub(super) fn read<T: DeserializeOwned + JsonSchema>(
    tool: &str,
    arguments: Map<String, Value>,
) -> Result<T> {
    let schema = schema_of::<T>();
    let properties = schema.get("properties").and_then(Value::as_object);
    let known: Vec<_> = properties.into_iter().flat_map(Map::keys).collect();
    let known: Vec<_> = known.into_iter().map(String::as_str).collect();
    read_fields(&arguments, &known).map_err(|error| {
        Failure::new(
            Exit::Usage,
            "invalid_input",
            format!("the arguments of {tool}: {error}"),
        )
    })
}

fn json(found: impl Serialize) -> Result<RawJson> {
    Ok(RawJson::from_value(&found)?)
}

fn missing(run: RunId, what: &str, id: u64) -> Failure {
    Failure::not_found(format!("no {what} {id} in run {run}"))
}

fn bound(page: &mut Page) {
    page.limit = page.limit.min(LIMIT_MAX);
}
