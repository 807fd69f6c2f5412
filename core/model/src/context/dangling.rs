//! [`DanglingToolCall`]: a tool call without a result; and the results that the store writes itself, of calls that were cut off, or whose
//! result was redacted.

use serde::Serialize;

use super::message::ToolStyle;
use crate::{
    RawJson,
    limits::{MESSAGE_TOOLS_MAX, META_BYTES_MAX, TOOL_CALL_ID_BYTES_MAX},
};

/// The most bytes that one tool result takes in its message's metadata beside its id.
const MARK_BYTES: usize = 24;
/// The most bytes that all tool results of a message may take there.
const MARKS_BYTES: usize = META_BYTES_MAX - TOOL_CALL_ID_BYTES_MAX;

/// A tool call without a result: the process died, or stopped, between the two.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DanglingToolCall {
    /// The call's id, `None` with the providers that give none.
    pub id: Option<String>,
    /// The tool.
    pub name: String,
    /// The arguments as the provider wrote them.
    pub arguments: RawJson,
    /// The sequence of the call's event: the tool_call, or the assistant message if a truncation removed the tool_call.
    pub sequence_number: u64,
    /// How the provider writes tool calls, and so how it wants the result.
    pub style: ToolStyle,
}

/// The messages that close tool calls with an error, so that no provider refuses the context: one for each
/// call in OpenAI's forms, one for all of them in Anthropic's, Bedrock's, Gemini's and the Vercel AI SDK's.
pub fn error_results(calls: &[DanglingToolCall], reason: &str) -> Vec<RawJson> {
    results(calls, reason, true)
}

/// The messages that answer tool calls with a text.
pub(super) fn results(calls: &[DanglingToolCall], text: &str, is_error: bool) -> Vec<RawJson> {
    let reason = RawJson::string(text);
    let either = |of_error: &'static str, of_output: &'static str| match is_error {
        true => of_error,
        false => of_output,
    };
    let mut messages = Vec::new();
    let (mut blocks, mut parts, mut responses) = (Vec::new(), Vec::new(), Vec::new());
    let mut converse = Vec::new();
    for call in calls {
        let id = call.id.as_deref().map(RawJson::string);
        match (call.style, id) {
            (ToolStyle::Anthropic, Some(id)) => {
                let block = format!(
                    "{{\"type\":\"tool_result\",\"tool_use_id\":{id}{},\"content\":{reason}}}",
                    either(",\"is_error\":true", "")
                );
                blocks.push((MARK_BYTES + call.id.as_ref().map_or(0, String::len), block));
            }
            (ToolStyle::OpenAi, Some(id)) => {
                messages.push(format!(
                    "{{\"role\":\"tool\",\"tool_call_id\":{id},\"content\":{reason}}}"
                ));
            }
            (ToolStyle::OpenAiCamel, Some(id)) => {
                messages.push(format!(
                    "{{\"role\":\"tool\",\"toolCallId\":{id},\"content\":{reason}}}"
                ));
            }
            (ToolStyle::Bedrock, Some(id)) => {
                let block = format!(
                    "{{\"toolResult\":{{\"toolUseId\":{id},\"content\":[{{\"text\":{reason}}}],\"status\":\"{}\"}}}}",
                    either("error", "success")
                );
                converse.push((MARK_BYTES + call.id.as_ref().map_or(0, String::len), block));
            }
            (ToolStyle::AiSdk | ToolStyle::AiSdk4, Some(id)) => {
                let name = RawJson::string(&call.name);
                let output = match call.style {
                    ToolStyle::AiSdk4 => {
                        format!("\"result\":{reason}{}", either(",\"isError\":true", ""))
                    }
                    _ => format!(
                        "\"output\":{{\"type\":\"{}\",\"value\":{reason}}}",
                        either("error-text", "text")
                    ),
                };
                let part = format!(
                    "{{\"type\":\"tool-result\",\"toolCallId\":{id},\"toolName\":{name},{output}}}"
                );
                parts.push((MARK_BYTES + call.id.as_ref().map_or(0, String::len), part));
            }
            (ToolStyle::OpenAiResponses, Some(id)) => {
                messages.push(format!(
                    "{{\"type\":\"function_call_output\",\"call_id\":{id},\"output\":{reason}}}"
                ));
            }
            (ToolStyle::Gemini, id) => {
                let id = id.map_or_else(String::new, |id| format!("\"id\":{id},"));
                let name = RawJson::string(&call.name);
                let part = format!(
                    "{{\"functionResponse\":{{{id}\"name\":{name},\"response\":{{\"{}\":{reason}}}}}}}",
                    either("error", "output")
                );
                responses.push((MARK_BYTES + call.id.as_ref().map_or(0, String::len), part));
            }
            (ToolStyle::Function, _) => {
                let name = RawJson::string(&call.name);
                messages.push(format!(
                    "{{\"role\":\"function\",\"name\":{name},\"content\":{reason}}}"
                ));
            }
            (_, None) => {
                let name = RawJson::string(&call.name);
                messages.push(format!(
                    "{{\"role\":\"tool\",\"name\":{name},\"content\":{reason}}}"
                ));
            }
        }
    }
    join_results(("user", "content"), blocks, &mut messages);
    join_results(("user", "content"), converse, &mut messages);
    join_results(("tool", "content"), parts, &mut messages);
    join_results(("user", "parts"), responses, &mut messages);
    messages.into_iter().map(RawJson::from_own_text).collect()
}

/// Results that are parts of a message: one message where it can be, as the provider wants it; as many as there must be
/// where their ids are too long.
fn join_results(
    (role, field): (&str, &str),
    parts: Vec<(usize, String)>,
    messages: &mut Vec<String>,
) {
    let mut parts = parts.into_iter().peekable();
    while parts.peek().is_some() {
        let (mut marks, mut of_message) = (0, Vec::new());
        while let Some((mark, part)) = parts.next_if(|(mark, _)| {
            marks + mark <= MARKS_BYTES && of_message.len() < MESSAGE_TOOLS_MAX
        }) {
            marks += mark;
            of_message.push(part);
        }
        messages.push(format!(
            "{{\"role\":\"{role}\",\"{field}\":[{}]}}",
            of_message.join(",")
        ));
    }
}
