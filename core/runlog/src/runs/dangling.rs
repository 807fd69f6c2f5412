//! [`Dangling`]: how to treat tool calls without a result when a run is resumed.

use std::collections::{HashMap, VecDeque};

use runlog_model::{
    DanglingToolCall, EventOptions, NewContextEvent, RawJson, Role, Run, ToolStyle, error_results,
};

use super::{
    open_calls::some_of,
    outcome::{AnsweredCall, ToolOutcome, result_events},
    rebuilt::Rebuilt,
};
use crate::{Error, Result};
use serde::Deserialize;

/// The result text of an interrupted call.
const INTERRUPTED: &str =
    "The tool call was interrupted: the run stopped before its result was recorded.";

/// What becomes of tool calls that have no result when a run is resumed, or started in a context that is there.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Dangling {
    /// Each gets an error result that says it was interrupted, so that no provider refuses the context.
    #[default]
    Close,
    /// Each gets an error result with this text.
    CloseWith(String),
    /// Each gets its outcome: the caller has found the calls with
    /// [`dangling_tool_calls`](crate::contexts::Context::dangling_tool_calls) and run the tools, or asked them. Those
    /// without one are closed. The results come before the message that tells the agent to go on, where providers
    /// want them.
    Answer(Vec<ToolOutcome>),
    /// They are left open: the caller records their results before the model is called, and before any other message.
    Report,
}

pub(super) fn leaves_open(calls: &[DanglingToolCall], dangling: &Dangling) -> bool {
    *dangling == Dangling::Report && !calls.is_empty()
}

pub(super) fn between(calls: &[DanglingToolCall]) -> Error {
    let names = calls
        .iter()
        .map(|call| call.id.clone().unwrap_or_else(|| call.name.clone()));
    let names = some_of(calls.len(), names);
    Error::invalid(format!(
        "a message can't stand between tool calls and their results, and these have none: {}; have them closed or \
         answered, or leave the message out and record it after their results",
        names.join(", ")
    ))
}

/// Whether the model answers next, in a form whose provider takes no message of the user's there: behind results, or in Bedrock's behind
/// any message of the user's. Open calls have their results by then.
pub(super) fn is_the_models_turn(context: &Rebuilt) -> bool {
    let open = &context.dangling;
    let style = open.first().map(|call| call.style).or(context.style);
    let newest = context.newest.as_ref().map(|(role, _)| *role);
    let ends_with_results = !open.is_empty() || newest == Some(Role::Tool);
    match style {
        Some(ToolStyle::OpenAiCamel) => ends_with_results,
        Some(ToolStyle::Bedrock) => ends_with_results || newest == Some(Role::User),
        _ => false,
    }
}

/// The results that close open calls, as events of the run that made them, or of the run that resumes it.
pub(super) fn closing_events(
    run: &Run,
    calls: &[DanglingToolCall],
    dangling: &Dangling,
) -> Result<Vec<NewContextEvent>> {
    let options = EventOptions {
        run_id: Some(run.id),
        step_number: Some(run.step_count),
        ..EventOptions::default()
    };
    let closing = EventOptions {
        tool_is_error: Some(true),
        ..options.clone()
    };
    let mut events = Vec::new();
    let close = |calls: &[DanglingToolCall], reason| -> Result<Vec<NewContextEvent>> {
        let results = error_results(calls, reason)
            .into_iter()
            .map(|json| NewContextEvent::of_message(json, &closing));
        Ok(results
            .collect::<Result<Vec<_>>>()?
            .into_iter()
            .flatten()
            .collect())
    };
    match dangling {
        Dangling::Close => events = close(calls, INTERRUPTED)?,
        Dangling::CloseWith(reason) => events = close(calls, reason)?,
        Dangling::Report => {}
        Dangling::Answer(outcomes) => {
            let mut left: HashMap<&str, VecDeque<&ToolOutcome>> = HashMap::new();
            for outcome in outcomes {
                let same = left.entry(&outcome.tool_call_id).or_default();
                same.push_back(outcome);
            }
            let mut together = Vec::new();
            for call in calls {
                // A call without an id is named by its tool.
                let named = call.id.as_ref().unwrap_or(&call.name);
                let same = left.get_mut(named.as_str());
                let outcome = match same.and_then(VecDeque::pop_front) {
                    Some(outcome) => outcome.clone(),
                    // Its result must be in one content with those of the others.
                    None if call.style.is_answered_at_once() => {
                        let id = call.id.clone().unwrap_or_default();
                        ToolOutcome::error(id, RawJson::string(INTERRUPTED))
                    }
                    None => {
                        events.extend(close(std::slice::from_ref(call), INTERRUPTED)?);
                        continue;
                    }
                };
                let answer = (outcome, AnsweredCall::from(call));
                if call.style.is_answered_at_once() {
                    together.push(answer);
                } else {
                    events.extend(result_events(&[answer], &options)?);
                }
            }
            events.extend(result_events(&together, &options)?);
            // As given: the first of those that are left.
            let is_left = |outcome: &&ToolOutcome| {
                let same = left.get(outcome.tool_call_id.as_str());
                same.is_some_and(|same| !same.is_empty())
            };
            if let Some(stray) = outcomes.iter().find(is_left) {
                let (run, id) = (run.id, &stray.tool_call_id);
                let is_twice = calls
                    .iter()
                    .any(|call| call.id.as_ref().unwrap_or(&call.name) == id);
                let message = match is_twice {
                    true => format!(
                        "tool call {id:?} of run {run} is answered more often than it was made; answer each call once"
                    ),
                    false => format!("run {run} has no open tool call {id:?} to be answered"),
                };
                return Err(Error::invalid(message));
            }
        }
    }
    Ok(events)
}
