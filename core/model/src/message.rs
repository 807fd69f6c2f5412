//! Messages as providers write them: role, tool calls and tool results read out of raw JSON, whose bytes stay.
//!
//! Read are OpenAI's form (`tool_calls[].function.{name, arguments}`, `tool_call_id`, the older `function_call`),
//! Anthropic's (content blocks `tool_use` and `tool_result`), that of the Vercel AI SDK's model messages (content parts
//! `tool-call` and `tool-result`), and the plain `tool_calls[].{id, name, arguments}`.
//! What is not understood is kept, not refused: only what decides where an event belongs must be right.

mod content;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    ContextEventKind, Error, NewContextEvent, RawJson, Result, Role,
    codec::{EventMeta, ToolMark},
    fields::{beginning, each_element, fields, has_field},
    limits::{MESSAGE_TOOLS_MAX, TOOL_CALL_ID_BYTES_MAX},
};

/// How a provider writes tool calls, and so how it wants their results.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ToolStyle {
    /// `tool_calls` in the assistant message; each result is a message of role `tool`.
    #[serde(rename = "openai")]
    OpenAi,
    /// `tool_use` blocks in the assistant message; all results are blocks of one user message.
    Anthropic,
    /// The older `function_call` in the assistant message; the result is a message of role `function`.
    Function,
    /// `tool-call` parts with an `input`, as the Vercel AI SDK writes model messages since version 5; all results are
    /// `tool-result` parts of one message of role `tool`.
    AiSdk,
    /// The same with `args` and `result`, as versions 3 and 4 of the Vercel AI SDK wrote them.
    #[serde(rename = "ai_sdk_4")]
    AiSdk4,
}

/// One tool call that an assistant message asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ToolCallRequest {
    /// Its id, `None` with the providers that give none.
    pub id: Option<String>,
    /// The tool.
    pub name: String,
    /// The arguments as the provider wrote them: a JSON string (OpenAI) or an object (Anthropic).
    pub arguments: RawJson,
    /// How the provider writes tool calls.
    pub style: ToolStyle,
}

/// The fields of a message that decide where it belongs.
struct Envelope<'a> {
    role: Option<&'a RawValue>,
    content: Option<&'a RawValue>,
    tool_calls: Option<&'a RawValue>,
    function_call: Option<&'a RawValue>,
    tool_call_id: Option<&'a RawValue>,
    tool_call_ids: Option<&'a RawValue>,
}

/// The role of a message.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) when the message isn't an object, or has no known role.
pub fn role_of(json: &RawJson) -> Result<Role> {
    required_role(&envelope(json)?)
}

/// The tool calls that an assistant message asks for, in order.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) when a tool call has no name, or an id that isn't a string.
pub fn tool_calls_of(json: &RawJson) -> Result<Vec<ToolCallRequest>> {
    calls(&envelope(json)?)
}

/// How strictly a message is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Content {
    /// It is to be sent to a model: a provider must be able to take it.
    Checked,
    /// It stands in a transcript as it was.
    AsItIs,
}

/// The events of one message: itself, then one tool_call for each call it asks for.
pub(crate) fn split(json: RawJson, content: Content) -> Result<Vec<NewContextEvent>> {
    let envelope = envelope(&json)?;
    let role = required_role(&envelope)?;
    if content == Content::Checked {
        content::check(&json, &envelope, role)?;
    }
    let results = results(&envelope, role)?;
    let kind = if results.is_empty() {
        role.event_kind()
    } else {
        ContextEventKind::ToolResult
    };
    let calls = if role == Role::Assistant {
        calls(&envelope)?
    } else {
        Vec::new()
    };

    let mut events = Vec::with_capacity(1 + calls.len());
    let meta = EventMeta {
        tools: results,
        ..EventMeta::default()
    };
    events.push(NewContextEvent {
        kind,
        content: json,
        meta,
    });
    events.extend(calls.into_iter().map(call_event));
    Ok(events)
}

/// The call that a tool_call event's content is; `None` when it can't be read.
pub(crate) fn plain_call(content: &RawJson) -> Option<ToolCallRequest> {
    let [id, name, arguments] = fields(
        content.as_str(),
        "a tool_call event",
        ["id", "name", "arguments"],
    )
    .ok()?;
    request(id, name, arguments, ToolStyle::OpenAi).ok()
}

/// What a tool gave as the result of a call: the content of the message or block that answers it.
pub(crate) fn output_of(content: &RawJson, id: Option<&str>) -> RawJson {
    let Ok(envelope) = envelope(content) else {
        return content.clone();
    };
    let mut block_output = None;
    let mut take = |found: Option<&RawValue>, what: &str, output: Option<&RawValue>| {
        let found = found.map(|raw| id_string(raw, what)).transpose()?;
        if block_output.is_none() && found.as_deref() == id {
            block_output = Some(output.map_or_else(RawJson::null, RawJson::from_raw));
        }
        Ok(())
    };
    let looked = each_block(&envelope, "tool_result", |block| {
        let [found, output] = fields(
            block.get(),
            "a tool_result block",
            ["tool_use_id", "content"],
        )?;
        take(found, "tool_use_id", output)
    })
    .and_then(|()| {
        each_block(&envelope, "tool-result", |part| {
            let [found, output, result] = fields(
                part.get(),
                "a tool-result part",
                ["toolCallId", "output", "result"],
            )?;
            // Version 5 says what kind of output it is; the value is the output.
            let value = output
                .filter(|output| output.get().starts_with('{'))
                .map(|output| {
                    let [value] =
                        fields(output.get(), "the output of a tool-result part", ["value"])?;
                    Ok(value.unwrap_or(output))
                });
            take(
                found,
                "toolCallId",
                value.transpose()?.or(output).or(result),
            )
        })
    });
    match (looked, block_output) {
        (Ok(()), Some(output)) => output,
        _ => envelope
            .content
            .map_or_else(|| content.clone(), RawJson::from_raw),
    }
}

/// One event as a caller of `append_event` gives it.
pub(crate) fn check_event(
    kind: ContextEventKind,
    content: RawJson,
    tool_call_id: Option<&str>,
) -> Result<NewContextEvent> {
    if let Some(id) = tool_call_id {
        check_id_length(id)?;
    }
    let mut meta = EventMeta::default();
    match kind.role() {
        None => meta.tools = vec![check_call(&content, tool_call_id)?],
        Some(expected) => {
            let envelope = envelope(&content)?;
            let results = check_message(kind, expected, &envelope, &mut meta)?;
            if meta.role_implied && has_field(content.as_str(), "role") {
                return Err(Error::invalid(format!(
                    "the role of a {kind} event's message is null; leave it out, or give {:?}",
                    expected.name()
                )));
            }
            meta.tools = check_result_ids(kind, results, tool_call_id)?;
        }
    }
    Ok(NewContextEvent {
        kind,
        content,
        meta,
    })
}

/// The same message with its role in front.
pub(crate) fn with_role(content: &RawJson, role: Role) -> Result<RawJson> {
    let text = content.as_str();
    let fields = text.trim_start().strip_prefix('{').ok_or_else(|| {
        Error::damaged(format!(
            "a message should be a JSON object, but begins {:?}",
            beginning(text)
        ))
    })?;
    let comma = if fields.trim_start().starts_with('}') {
        ""
    } else {
        ","
    };
    let message = format!("{{\"role\":\"{role}\"{comma}{fields}");
    RawJson::parse(message).map_err(|error| Error::damaged(error.to_string()))
}

/// What stands in a context where a message was redacted.
pub(crate) fn redacted(role: Role, tool_call_id: Option<&str>) -> RawJson {
    let mut text = format!("{{\"role\":\"{role}\",");
    if let Some(id) = tool_call_id {
        text.push_str("\"tool_call_id\":");
        text.push_str(RawJson::string(id).as_str());
        text.push(',');
    }
    text.push_str("\"content\":\"[redacted]\"}");
    RawJson::from_own_text(text)
}

fn check_message(
    kind: ContextEventKind,
    expected: Role,
    envelope: &Envelope<'_>,
    meta: &mut EventMeta,
) -> Result<Vec<ToolMark>> {
    let Some(raw) = envelope.role else {
        meta.role_implied = true;
        return results(envelope, expected);
    };
    let role: Role = string(raw, "role")?.parse()?;
    let results = results(envelope, role)?;
    // Anthropic's tool results come in a message of the user's.
    let carries_results =
        role == Role::User && kind == ContextEventKind::ToolResult && !results.is_empty();
    if role == expected || carries_results {
        return Ok(results);
    }
    Err(Error::invalid(format!(
        "a {kind} event needs a message of role {expected:?}, but its role is {raw}",
        expected = expected.name()
    )))
}

fn check_result_ids(
    kind: ContextEventKind,
    results: Vec<ToolMark>,
    tool_call_id: Option<&str>,
) -> Result<Vec<ToolMark>> {
    if kind != ContextEventKind::ToolResult {
        return match tool_call_id {
            None => Ok(Vec::new()),
            Some(id) => Err(Error::invalid(format!(
                "a {kind} event answers no tool call, but the tool call id {id:?} was given; leave it out"
            ))),
        };
    }
    let named: Vec<&str> = results
        .iter()
        .filter_map(|mark| mark.tool_call_id.as_deref())
        .collect();
    match (tool_call_id, named.as_slice()) {
        (None, []) => Err(Error::invalid(
            "a tool_result event needs the id of the tool call it answers; give tool_call_id, or have it in the content",
        )),
        (Some(id), []) => Ok(vec![ToolMark {
            tool_call_id: Some(id.to_owned()),
            ..ToolMark::default()
        }]),
        (Some(id), named) if !named.contains(&id) => Err(Error::invalid(format!(
            "the tool_result event was given tool call id {id:?}, but its content answers {named:?}"
        ))),
        _ => Ok(results),
    }
}

fn check_call(content: &RawJson, tool_call_id: Option<&str>) -> Result<ToolMark> {
    let [id, name] = fields(content.as_str(), "a tool_call event", ["id", "name"])?;
    let own = id.map(|raw| id_string(raw, "id")).transpose()?;
    let name = name.ok_or_else(|| {
        Error::invalid(
            "a tool_call event needs the tool's name; its content is {id, name, arguments}",
        )
    })?;
    string(name, "name")?;
    if let (Some(given), Some(own)) = (tool_call_id, own.as_deref())
        && given != own
    {
        return Err(Error::invalid(format!(
            "the tool_call event was given id {given:?}, but its content has {own:?}"
        )));
    }
    let tool_call_id = tool_call_id.map(str::to_owned).or(own);
    Ok(ToolMark {
        tool_call_id,
        ..ToolMark::default()
    })
}

fn call_event(call: ToolCallRequest) -> NewContextEvent {
    let id = call
        .id
        .as_deref()
        .map_or_else(RawJson::null, RawJson::string);
    let name = RawJson::string(&call.name);
    let content = format!(
        "{{\"id\":{id},\"name\":{name},\"arguments\":{}}}",
        call.arguments
    );
    let mark = ToolMark {
        tool_call_id: call.id,
        ..ToolMark::default()
    };
    NewContextEvent {
        kind: ContextEventKind::ToolCall,
        content: RawJson::from_own_text(content),
        meta: EventMeta {
            tools: vec![mark],
            ..EventMeta::default()
        },
    }
}

fn envelope(json: &RawJson) -> Result<Envelope<'_>> {
    let names = [
        "role",
        "content",
        "tool_calls",
        "function_call",
        "tool_call_id",
        "tool_call_ids",
    ];
    let [
        role,
        content,
        tool_calls,
        function_call,
        tool_call_id,
        tool_call_ids,
    ] = fields(json.as_str(), "a message", names)?;
    Ok(Envelope {
        role,
        content,
        tool_calls,
        function_call,
        tool_call_id,
        tool_call_ids,
    })
}

fn required_role(envelope: &Envelope<'_>) -> Result<Role> {
    match envelope.role {
        Some(raw) => string(raw, "role")?.parse(),
        None => Err(Error::invalid(
            "the message has no role; it is one of system, user, assistant, tool",
        )),
    }
}

fn calls(envelope: &Envelope<'_>) -> Result<Vec<ToolCallRequest>> {
    let mut calls = Vec::new();
    if let Some(raw) = envelope.tool_calls {
        each_element(raw, "tool_calls", |item| {
            push(&mut calls, openai_call(item)?, "tool calls")
        })?;
    }
    if let Some(raw) = envelope.function_call {
        let [name, arguments] = fields(raw.get(), "function_call", ["name", "arguments"])?;
        push(
            &mut calls,
            request(None, name, arguments, ToolStyle::Function)?,
            "tool calls",
        )?;
    }
    each_block(envelope, "tool_use", |block| {
        let [id, name, input] = fields(block.get(), "a tool_use block", ["id", "name", "input"])?;
        push(
            &mut calls,
            request(id, name, input, ToolStyle::Anthropic)?,
            "tool calls",
        )
    })?;
    each_block(envelope, "tool-call", |part| {
        let names = [
            "toolCallId",
            "toolName",
            "input",
            "args",
            "providerExecuted",
        ];
        let [id, name, input, args, by_provider] = fields(part.get(), "a tool-call part", names)?;
        // Its result stands in the same message.
        if by_provider.is_some_and(|raw| raw.get() == "true") {
            return Ok(());
        }
        let style = if input.is_none() && args.is_some() {
            ToolStyle::AiSdk4
        } else {
            ToolStyle::AiSdk
        };
        push(
            &mut calls,
            request(id, name, input.or(args), style)?,
            "tool calls",
        )
    })?;
    Ok(calls)
}

fn openai_call(raw: &RawValue) -> Result<ToolCallRequest> {
    let names = ["id", "function", "custom", "name", "arguments", "input"];
    let [id, function, custom, name, arguments, input] = fields(raw.get(), "a tool call", names)?;
    let Some(inner) = function.or(custom) else {
        return request(id, name, arguments.or(input), ToolStyle::OpenAi);
    };
    let [name, arguments, input] = fields(
        inner.get(),
        "the function of a tool call",
        ["name", "arguments", "input"],
    )?;
    request(id, name, arguments.or(input), ToolStyle::OpenAi)
}

fn request(
    id: Option<&RawValue>,
    name: Option<&RawValue>,
    arguments: Option<&RawValue>,
    style: ToolStyle,
) -> Result<ToolCallRequest> {
    let name = name.ok_or_else(|| Error::invalid("a tool call of the message has no name"))?;
    Ok(ToolCallRequest {
        id: id
            .map(|raw| id_string(raw, "the id of a tool call"))
            .transpose()?,
        name: string(name, "the name of a tool call")?.into_owned(),
        arguments: arguments.map_or_else(RawJson::null, RawJson::from_raw),
        style,
    })
}

fn results(envelope: &Envelope<'_>, role: Role) -> Result<Vec<ToolMark>> {
    let mut marks = Vec::new();
    match role {
        Role::User => each_block(envelope, "tool_result", |block| {
            let [id, is_error] = fields(
                block.get(),
                "a tool_result block",
                ["tool_use_id", "is_error"],
            )?;
            let id = id.ok_or_else(|| {
                Error::invalid(
                    "a tool_result block of the message has no tool_use_id; it must name the call it answers",
                )
            })?;
            let mark = ToolMark {
                tool_call_id: Some(id_string(id, "tool_use_id")?),
                is_error: is_error.is_some_and(|raw| raw.get() == "true"),
                duration_ms: None,
            };
            push(&mut marks, mark, "tool results")
        })?,
        Role::Tool => {
            if let Some(raw) = envelope.tool_call_id {
                marks.push(named_mark(id_string(raw, "tool_call_id")?));
            }
            if let Some(raw) = envelope.tool_call_ids {
                each_element(raw, "tool_call_ids", |raw| {
                    let mark = named_mark(id_string(raw, "tool_call_ids")?);
                    if marks.contains(&mark) {
                        Ok(())
                    } else {
                        push(&mut marks, mark, "tool results")
                    }
                })?;
            }
            each_block(envelope, "tool-result", |part| {
                push(&mut marks, part_mark(part)?, "tool results")
            })?;
            if marks.is_empty() {
                marks.push(ToolMark::default());
            }
        }
        Role::System | Role::Assistant => {}
    }
    Ok(marks)
}

/// What a part of the Vercel AI SDK's says: its output names an error by its type, in older versions by a field.
fn part_mark(part: &RawValue) -> Result<ToolMark> {
    let names = ["toolCallId", "output", "isError"];
    let [id, output, is_error] = fields(part.get(), "a tool-result part", names)?;
    let id = id.ok_or_else(|| {
        Error::invalid(
            "a tool-result part of the message has no toolCallId; it must name the call it answers",
        )
    })?;
    let kind = match output.filter(|output| output.get().starts_with('{')) {
        Some(output) => fields(output.get(), "the output of a tool-result part", ["type"])?[0],
        None => None,
    };
    let is_error = is_error.is_some_and(|raw| raw.get() == "true")
        || kind.is_some_and(|raw| {
            raw.get().starts_with("\"error-") || raw.get() == "\"execution-denied\""
        });
    Ok(ToolMark {
        tool_call_id: Some(id_string(id, "toolCallId")?),
        is_error,
        duration_ms: None,
    })
}

fn named_mark(id: String) -> ToolMark {
    ToolMark {
        tool_call_id: Some(id),
        ..ToolMark::default()
    }
}

/// Gives every content block of a type to `take`. Content that has no blocks has none of them.
fn each_block<'a>(
    envelope: &Envelope<'a>,
    kind: &str,
    mut take: impl FnMut(&'a RawValue) -> Result<()>,
) -> Result<()> {
    let Some(content) = envelope.content.filter(|raw| raw.get().starts_with('[')) else {
        return Ok(());
    };
    each_element(content, "content", |block| {
        if !block.get().starts_with('{') {
            return Ok(());
        }
        let [found] = fields(block.get(), "a content block", ["type"])?;
        match found
            .map(RawValue::get)
            .and_then(|text| text.strip_prefix('"')?.strip_suffix('"'))
        {
            Some(name) if name == kind => take(block),
            _ => Ok(()),
        }
    })
}

fn push<T>(items: &mut Vec<T>, item: T, what: &str) -> Result<()> {
    if items.len() == MESSAGE_TOOLS_MAX {
        return Err(Error::too_large(format!(
            "the message has more than {MESSAGE_TOOLS_MAX} {what}; split it into several messages"
        )));
    }
    items.push(item);
    Ok(())
}

fn string<'a>(raw: &'a RawValue, what: &str) -> Result<Cow<'a, str>> {
    /// `Cow<str>` alone would always be copied.
    #[derive(Deserialize)]
    #[serde(transparent)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

    serde_json::from_str::<Text<'a>>(raw.get())
        .map(|text| text.0)
        .map_err(|_| {
            Error::invalid(format!(
                "{what} should be a string, but is {:?}",
                beginning(raw.get())
            ))
        })
}

fn id_string(raw: &RawValue, what: &str) -> Result<String> {
    let id = string(raw, what)?;
    check_id_length(&id)?;
    Ok(id.into_owned())
}

fn check_id_length(id: &str) -> Result<()> {
    if id.len() <= TOOL_CALL_ID_BYTES_MAX {
        return Ok(());
    }
    Err(Error::too_large(format!(
        "a tool call id has {} bytes, at most {TOOL_CALL_ID_BYTES_MAX} are allowed: {:?}…",
        id.len(),
        beginning(id)
    )))
}

#[cfg(test)]
mod tests;
