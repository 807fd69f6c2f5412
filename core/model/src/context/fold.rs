//! Folds of an instance's events: the messages of the context, and the tool calls left without a result.

use std::collections::VecDeque;

use serde::{Serialize, Serializer};

use super::{
    ContextEvent, ContextEventKind, Role,
    message::{self, ToolStyle},
    placeholder,
};
use crate::{
    RawJson, Result,
    limits::{MESSAGE_TOOLS_MAX, META_BYTES_MAX, TOOL_CALL_ID_BYTES_MAX},
};

/// The most bytes that one tool result takes in its message's metadata beside its id.
const MARK_BYTES: usize = 24;
/// The most bytes that all tool results of a message may take there.
const MARKS_BYTES: usize = META_BYTES_MAX - TOOL_CALL_ID_BYTES_MAX;

/// One message of a context, exactly as it was sent to the model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// The sequence of its event.
    pub sequence_number: u64,
    /// Who it is from. [`Role::Tool`] for every message with tool results, whatever role its JSON names.
    pub role: Role,
    /// The message, byte for byte.
    pub json: RawJson,
}

/// Written as the message itself.
impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        self.json.serialize(serializer)
    }
}

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

/// Folds events, given in order from the first, into messages.
#[derive(Clone, Debug, Default)]
pub struct MessageFold {
    /// Ids of calls without a result so far: a redacted result, which lost its id, most likely answered the first of
    /// them.
    open: VecDeque<String>,
}

impl MessageFold {
    /// A fold of no events yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The message that an event is; `None` for a tool_call, which is a record beside its message.
    ///
    /// # Errors
    /// [`Damaged`](crate::ErrorKind::Damaged) when the event's content isn't a JSON object.
    pub fn push(&mut self, event: &ContextEvent) -> Result<Option<Message>> {
        match event.event_type {
            ContextEventKind::ToolCall => self.open.extend(event.tool_call_id.clone()),
            ContextEventKind::ToolResult if event.redacted => {
                let json = placeholder::redacted(Role::Tool, self.open.pop_front().as_deref());
                return Ok(Some(Message {
                    sequence_number: event.sequence_number,
                    role: Role::Tool,
                    json,
                }));
            }
            ContextEventKind::ToolResult => {
                for mark in &event.tool_results {
                    let answered = self
                        .open
                        .iter()
                        .position(|id| Some(id) == mark.tool_call_id.as_ref());
                    answered.map(|place| self.open.remove(place));
                }
            }
            _ => {}
        }
        let Some(role) = event.role() else {
            return Ok(None);
        };
        let json = event.message_json()?;
        Ok(json.map(|json| Message {
            sequence_number: event.sequence_number,
            role,
            json,
        }))
    }
}

/// The messages of a context, in order and byte for byte as they were sent to the model.
///
/// ```
/// use runlog_log::{Kind, Position, Record, Sequence, StreamId};
/// use runlog_model::{EventOptions, InstanceId, NewContextEvent, RawJson, ContextEvent, messages};
///
/// let sent = RawJson::parse(r#"{ "role": "user", "content": "hello" }"#)?;
/// let new = NewContextEvent::of_message(sent.clone(), &EventOptions::default())?.remove(0);
/// // A store keeps three parts of an event, and gives them back with its sequence and position:
/// let instance: InstanceId = "0198c7e0-0000-7000-8000-000000000000".parse()?;
/// let record = Record {
///     kind: Kind(new.kind.byte()), meta: new.encode_meta()?.into(), payload: new.content.into_bytes(),
///     stream: StreamId(instance.as_uuid()), sequence: Sequence(1), position: Position(7), time_ms: 0, redacted: false,
/// };
/// let events = [ContextEvent::decode(instance, &record)?];
/// assert_eq!(messages(&events)?[0].json, sent);
/// # Ok::<(), runlog_model::Error>(())
/// ```
///
/// # Errors
/// As [`MessageFold::push`].
pub fn messages<'a>(events: impl IntoIterator<Item = &'a ContextEvent>) -> Result<Vec<Message>> {
    let mut fold = MessageFold::new();
    let mut messages = Vec::new();
    for event in events {
        messages.extend(fold.push(event)?);
    }
    Ok(messages)
}

/// Folds events, given in order from the first, into the tool calls that have no result.
#[derive(Clone, Debug, Default)]
pub struct DanglingFold {
    open: Vec<DanglingToolCall>,
    /// The calls of the last assistant message that still await their own tool_call event.
    unmatched: Vec<Option<String>>,
    /// The sequence of that message.
    message: u64,
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
        match event.event_type {
            ContextEventKind::AssistantMessage => self.assistant(event),
            ContextEventKind::ToolCall => self.tool_call(event),
            ContextEventKind::ToolResult => self.tool_result(event),
            ContextEventKind::SystemMessage | ContextEventKind::UserMessage => {}
        }
        Ok(())
    }

    /// The calls without a result, in the order they were made.
    pub fn finish(self) -> Vec<DanglingToolCall> {
        self.open
    }

    fn assistant(&mut self, event: &ContextEvent) {
        self.unmatched.clear();
        self.message = event.sequence_number;
        // A message that can't be read has no calls in it; its writer appended the calls as events.
        for call in message::tool_calls_of(&event.content).unwrap_or_default() {
            self.unmatched.push(call.id.clone());
            self.open.push(DanglingToolCall {
                id: call.id,
                name: call.name,
                arguments: call.arguments,
                sequence_number: event.sequence_number,
                style: call.style,
            });
        }
    }

    fn tool_call(&mut self, event: &ContextEvent) {
        if let Some(place) = self
            .unmatched
            .iter()
            .position(|id| *id == event.tool_call_id)
        {
            self.unmatched.remove(place);
            let of_message = |call: &&mut DanglingToolCall| {
                call.sequence_number == self.message && call.id == event.tool_call_id
            };
            if let Some(call) = self.open.iter_mut().find(of_message) {
                call.sequence_number = event.sequence_number;
            }
            return;
        }
        let content = message::plain_call(&event.content);
        self.open.push(DanglingToolCall {
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
        if event.redacted && !self.open.is_empty() {
            self.open.remove(0);
        }
        let mut tools = None;
        for mark in &event.tool_results {
            let place = match &mark.tool_call_id {
                Some(_) => self
                    .open
                    .iter()
                    .position(|call| call.id == mark.tool_call_id),
                None => {
                    let tool = tools
                        .get_or_insert_with(|| message::tools_without_id(&event.content))
                        .pop_front();
                    let open = self.open.iter().enumerate();
                    let without_id = open
                        .filter(|(_, call)| call.id.is_none())
                        .map(|(place, call)| (place, call.name.as_str()));
                    message::place_without_id(without_id, tool.flatten().as_deref())
                }
            };
            if let Some(place) = place {
                self.open.remove(place);
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

/// The messages that close tool calls with an error, so that no provider refuses the context: one for each
/// call in OpenAI's forms, one for all of them in Anthropic's, Bedrock's, Gemini's and the Vercel AI SDK's.
pub fn error_results(calls: &[DanglingToolCall], reason: &str) -> Vec<RawJson> {
    let reason = RawJson::string(reason);
    let mut messages = Vec::new();
    let (mut blocks, mut parts, mut responses) = (Vec::new(), Vec::new(), Vec::new());
    let mut converse = Vec::new();
    for call in calls {
        let id = call.id.as_deref().map(RawJson::string);
        match (call.style, id) {
            (ToolStyle::Anthropic, Some(id)) => {
                let block = format!(
                    "{{\"type\":\"tool_result\",\"tool_use_id\":{id},\"is_error\":true,\"content\":{reason}}}"
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
                    "{{\"toolResult\":{{\"toolUseId\":{id},\"content\":[{{\"text\":{reason}}}],\"status\":\"error\"}}}}"
                );
                converse.push((MARK_BYTES + call.id.as_ref().map_or(0, String::len), block));
            }
            (ToolStyle::AiSdk | ToolStyle::AiSdk4, Some(id)) => {
                let name = RawJson::string(&call.name);
                let output = match call.style {
                    ToolStyle::AiSdk4 => format!("\"result\":{reason},\"isError\":true"),
                    _ => format!("\"output\":{{\"type\":\"error-text\",\"value\":{reason}}}"),
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
                    "{{\"functionResponse\":{{{id}\"name\":{name},\"response\":{{\"error\":{reason}}}}}}}"
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

#[cfg(test)]
mod tests;
