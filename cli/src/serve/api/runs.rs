//! Runs of all projects, and of none.

use runlog::{
    Run, RunId, Store,
    pages::Page,
    runs::{ListRunMessages, ListRuns, ListToolCalls, RunMessage, RunSummary, ToolCall},
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::pages::bounded;
use crate::serve::{
    endpoint::{Endpoint, NoPath, NoQuery, get},
    problem::{Answer, Problem},
};

pub(super) fn endpoints() -> Vec<Endpoint> {
    let all = vec![
        get("/v1/runs", "Lists runs, newest first, in pages.", list)
            .example_query("status=paused&limit=10"),
        get("/v1/runs/{run_id}", "Gives the whole of a run.", run),
        get(
            "/v1/runs/{run_id}/messages",
            "Lists the messages of a run in the order of its steps, each as it was sent to the model.",
            messages,
        )
        .example_query("limit=10"),
        get(
            "/v1/runs/{run_id}/messages/{message_id}",
            "Gives one message of a run.",
            message,
        ),
        get(
            "/v1/runs/{run_id}/tool-calls",
            "Lists the tool calls of a run in the order of its steps.",
            tool_calls,
        )
        .example_query("status=completed&limit=10"),
        get(
            "/v1/runs/{run_id}/tool-calls/{call_id}",
            "Gives one tool call of a run, with its whole input and output.",
            tool_call,
        ),
    ];
    all.into_iter().map(Endpoint::cached).collect()
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct OfRun {
    /// The run.
    pub(super) run_id: RunId,
}

#[derive(Deserialize, JsonSchema)]
struct OfMessage {
    /// The run.
    run_id: RunId,
    /// The `id` that the list of messages gives.
    message_id: u64,
}

#[derive(Deserialize, JsonSchema)]
struct OfToolCall {
    /// The run.
    run_id: RunId,
    /// The `id` that the list of tool calls gives.
    call_id: u64,
}

async fn list(store: Store, _: NoPath, options: ListRuns) -> Answer<Page<RunSummary>> {
    Ok(store.runs().list(&options).await?)
}

/// A run with all details; an error if it doesn't exist.
pub(super) async fn whole(store: &Store, id: RunId) -> Answer<Run> {
    let run = store.runs().get(id).await?;
    run.ok_or_else(|| Problem::not_found(format!("no run {id}")))
}

async fn run(store: Store, of: OfRun, _: NoQuery) -> Answer<Run> {
    whole(&store, of.run_id).await
}

async fn messages(store: Store, of: OfRun, options: ListRunMessages) -> Answer<Page<RunMessage>> {
    some_messages(&store, of.run_id, options).await
}

/// A page of a run's messages.
pub(super) async fn some_messages(
    store: &Store,
    run: RunId,
    options: ListRunMessages,
) -> Answer<Page<RunMessage>> {
    let runs = store.runs();
    let list = async |options: ListRunMessages| runs.messages(run, &options).await;
    let bytes = |message: &RunMessage| message.content.as_bytes().len();
    bounded(&options, list, bytes).await
}

async fn message(store: Store, of: OfMessage, _: NoQuery) -> Answer<RunMessage> {
    one_message(&store, of.run_id, of.message_id).await
}

/// One message of a run; an error if it doesn't exist.
pub(super) async fn one_message(store: &Store, run: RunId, id: u64) -> Answer<RunMessage> {
    let message = store.runs().message(run, id).await?;
    message.ok_or_else(|| Problem::not_found(format!("no message {id} in run {run}")))
}

async fn tool_calls(store: Store, of: OfRun, options: ListToolCalls) -> Answer<Page<ToolCall>> {
    some_tool_calls(&store, of.run_id, options).await
}

/// A page of a run's tool calls.
pub(super) async fn some_tool_calls(
    store: &Store,
    run: RunId,
    options: ListToolCalls,
) -> Answer<Page<ToolCall>> {
    let runs = store.runs();
    let list = async |options: ListToolCalls| runs.tool_calls(run, &options).await;
    let bytes = |call: &ToolCall| {
        let output = call
            .output
            .as_ref()
            .map_or(0, |output| output.as_bytes().len());
        call.input.as_bytes().len() + output
    };
    bounded(&options, list, bytes).await
}

async fn tool_call(store: Store, of: OfToolCall, _: NoQuery) -> Answer<ToolCall> {
    one_tool_call(&store, of.run_id, of.call_id).await
}

/// One tool call of a run; an error if it doesn't exist.
pub(super) async fn one_tool_call(store: &Store, run: RunId, id: u64) -> Answer<ToolCall> {
    let call = store.runs().tool_call(run, id).await?;
    call.ok_or_else(|| Problem::not_found(format!("no tool call {id} in run {run}")))
}
