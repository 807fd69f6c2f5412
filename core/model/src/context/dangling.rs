//! [`DanglingToolCall`]: a tool call without a result, and the fold that finds them; and the results that the store writes itself, of calls
//! that were cut off, or whose result was redacted.

use std::collections::VecDeque;

use serde::Serialize;

use super::{
    ContextEvent, ContextEventKind,
    in_order::InOrder,
    message::{self, ToolStyle},
};
use crate::{
    RawJson, Result,
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

/// Folds events, given in order from the first, into the tool calls that have no result.
#[derive(Clone, Debug, Default)]
pub struct DanglingFold {
    open: InOrder<DanglingToolCall>,
    /// The calls of the last assistant message that still await their own tool_call event.
    unmatched: InOrder<()>,
    /// The sequence of that message.
    message: u64,
    /// The sequences of calls without a result whose message was redacted: the context doesn't show them.
    hidden: VecDeque<u64>,
    /// How many results were redacted since the last message that is none: they have lost which calls they answered.
    redacted: usize,
    /// Whether the last assistant message was redacted.
    is_redacted: bool,
}

impl DanglingFold {
    /// A fold of no events yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next event.
    ///
    /// # Errors
    /// [`Damaged`](crate::ErrorKind::Damaged) when the content of a tool_call can't be read.
    pub fn push(&mut self, event: &ContextEvent) -> Result<()> {
        if self.redacted > 0 && is_no_result(event) {
            // All calls before it have their results.
            self.open.clear();
            self.hidden.clear();
            self.redacted = 0;
        }
        match event.event_type {
            ContextEventKind::AssistantMessage => {
                if !self.hidden.is_empty() && begins_another_answer(event) {
                    self.hidden.clear();
                }
                self.is_redacted = event.redacted;
                self.assistant(event);
            }
            ContextEventKind::ToolCall if self.is_redacted => {
                self.hidden.push_back(event.sequence_number);
            }
            ContextEventKind::ToolCall => self.tool_call(event),
            ContextEventKind::ToolResult => self.tool_result(event),
            ContextEventKind::SystemMessage | ContextEventKind::UserMessage => {
                self.hidden.clear();
                self.is_redacted = false;
            }
        }
        Ok(())
    }

    /// The calls without a result, in the order they were made.
    pub fn finish(mut self) -> Vec<DanglingToolCall> {
        let Some(style) = self.open.first().map(|(_, call)| call.style) else {
            return Vec::new();
        };
        if self.redacted > 0 && !has_a_message_each(style) {
            return Vec::new();
        }
        // They most likely answered the first of them.
        for _ in 0..self.redacted {
            let first = self.open.first();
            let first = first.map(|(number, call)| (number, call.sequence_number));
            let hidden = self.hidden.front().copied();
            match (hidden, first) {
                (Some(hidden), first) if first.is_none_or(|(_, first)| hidden < first) => {
                    self.hidden.pop_front();
                }
                (_, Some((number, _))) => drop(self.open.remove(number)),
                (_, None) => {}
            }
        }
        self.open.into_items()
    }

    fn assistant(&mut self, event: &ContextEvent) {
        self.unmatched.clear();
        self.message = event.sequence_number;
        // A message that can't be read has no calls in it; its writer appended the calls as events.
        for call in message::tool_calls_of(&event.content).unwrap_or_default() {
            self.unmatched.push(call.id.clone(), ());
            self.add(DanglingToolCall {
                id: call.id,
                name: call.name,
                arguments: call.arguments,
                sequence_number: event.sequence_number,
                style: call.style,
            });
        }
    }

    fn add(&mut self, call: DanglingToolCall) {
        self.open.push(call.id.clone(), call);
    }

    fn tool_call(&mut self, event: &ContextEvent) {
        // The record of a call of the message before it has lost its id; the message has it still.
        let unmatched = match event.redacted {
            true => self.unmatched.first(),
            false => None,
        };
        if let Some((number, ())) = unmatched {
            self.unmatched.remove(number);
            return;
        }
        let unmatched = self.unmatched.with_id(&event.tool_call_id).next();
        if let Some((number, ())) = unmatched {
            self.unmatched.remove(number);
            let mut open = self.open.with_id(&event.tool_call_id);
            let of_message = open.find(|(_, call)| call.sequence_number == self.message);
            let of_message = of_message.map(|(number, _)| number);
            drop(open);
            if let Some(call) = of_message.and_then(|number| self.open.get_mut(number)) {
                call.sequence_number = event.sequence_number;
            }
            return;
        }
        let content = message::plain_call(&event.content);
        self.add(DanglingToolCall {
            id: event.tool_call_id.clone(),
            name: content
                .as_ref()
                .map_or_else(|| "[redacted]".to_owned(), |call| call.name.clone()),
            arguments: content.map_or_else(RawJson::null, |call| call.arguments),
            sequence_number: event.sequence_number,
            style: ToolStyle::OpenAi,
        });
    }

    fn tool_result(&mut self, event: &ContextEvent) {
        self.redacted += usize::from(event.redacted);
        let mut tools = None;
        for mark in &event.tool_results {
            let number = {
                let mut open = self.open.with_id(&mark.tool_call_id);
                match &mark.tool_call_id {
                    Some(_) => open.next().map(|(number, _)| number),
                    None => {
                        let tool = tools
                            .get_or_insert_with(|| message::tools_without_id(&event.content))
                            .pop_front();
                        let without_id = open.map(|(number, call)| (number, call.name.as_str()));
                        message::place_without_id(without_id, tool.flatten().as_deref())
                    }
                }
            };
            match number {
                Some(number) => drop(self.open.remove(number)),
                None => drop(self.hidden.pop_front()),
            }
        }
    }
}

/// The tool calls that have no result, in the order they were made.
///
/// # Errors
/// As [`DanglingFold::push`].
pub fn dangling_tool_calls<'a>(
    events: impl IntoIterator<Item = &'a ContextEvent>,
) -> Result<Vec<DanglingToolCall>> {
    let mut fold = DanglingFold::new();
    for event in events {
        fold.push(event)?;
    }
    Ok(fold.finish())
}

fn is_no_result(event: &ContextEvent) -> bool {
    !matches!(
        event.event_type,
        ContextEventKind::ToolCall | ContextEventKind::ToolResult
    )
}

/// Whether all calls before a message have their results: it is no further item of an answer, as OpenAI's Responses have them. A redacted one
/// may be one.
pub(crate) fn begins_another_answer(event: &ContextEvent) -> bool {
    event.event_type != ContextEventKind::AssistantMessage
        || (!event.redacted && !message::is_response_item(&event.content))
}

/// Whether each result is a message of its own; elsewhere one may have several.
pub(crate) fn has_a_message_each(style: ToolStyle) -> bool {
    match style {
        ToolStyle::OpenAi
        | ToolStyle::OpenAiCamel
        | ToolStyle::Function
        | ToolStyle::OpenAiResponses
        | ToolStyle::OpenAiResponsesCustom => true,
        ToolStyle::Anthropic
        | ToolStyle::AiSdk
        | ToolStyle::AiSdk4
        | ToolStyle::Gemini
        | ToolStyle::Bedrock => false,
    }
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
            (ToolStyle::OpenAiResponsesCustom, Some(id)) => {
                messages.push(format!(
                    "{{\"type\":\"custom_tool_call_output\",\"call_id\":{id},\"output\":{reason}}}"
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
