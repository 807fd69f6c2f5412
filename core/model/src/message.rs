//! Messages as providers write them: role, tool calls and tool results read out of raw JSON, whose bytes stay.
//!
//! Read are OpenAI's form (`tool_calls[].function.{name, arguments}`, `tool_call_id`, the older `function_call`),
//! Anthropic's (content blocks `tool_use` and `tool_result`), and the plain `tool_calls[].{id, name, arguments}`.
//! What is not understood is kept, not refused: only what decides where an event belongs must be right.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    ContextEventKind, Error, NewContextEvent, RawJson, Result, Role,
    codec::{EventMeta, ToolMark},
    limits::{MESSAGE_TOOLS_MAX, TOOL_CALL_ID_BYTES_MAX},
};

/// How a provider writes tool calls, and so how it wants their results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ToolStyle {
    /// `tool_calls` in the assistant message; each result is a message of role `tool`.
    OpenAi,
    /// `tool_use` blocks in the assistant message; all results are blocks of one user message.
    Anthropic,
    /// The older `function_call` in the assistant message; the result is a message of role `function`.
    Function,
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

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    role: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_calls: Option<&'a RawValue>,
    #[serde(borrow)]
    function_call: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_call_id: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_call_ids: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    function: Option<&'a RawValue>,
    #[serde(borrow)]
    custom: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_use_id: Option<&'a RawValue>,
    #[serde(borrow)]
    is_error: Option<&'a RawValue>,
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

/// The events of one message: itself, then one tool_call for each call it asks for.
pub(crate) fn split(json: RawJson) -> Result<Vec<NewContextEvent>> {
    let envelope = envelope(&json)?;
    let role = required_role(&envelope)?;
    let results = results(&envelope, role)?;
    let kind = if results.is_empty() { role.event_kind() } else { ContextEventKind::ToolResult };
    let calls = if role == Role::Assistant { calls(&envelope)? } else { Vec::new() };

    let mut events = Vec::with_capacity(1 + calls.len());
    let meta = EventMeta { tools: results, ..EventMeta::default() };
    events.push(NewContextEvent { kind, content: json, meta });
    events.extend(calls.into_iter().map(call_event));
    Ok(events)
}

/// The call that a tool_call event's content is; `None` when it can't be read.
pub(crate) fn plain_call(content: &RawJson) -> Option<ToolCallRequest> {
    let call: Call<'_> = object(content.as_bytes(), "a tool_call event").ok()?;
    request(call.id, call.name, call.arguments, ToolStyle::OpenAi).ok()
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
            meta.tools = check_result_ids(kind, results, tool_call_id)?;
        }
    }
    Ok(NewContextEvent { kind, content, meta })
}

/// The same message with its role in front.
pub(crate) fn with_role(content: &RawJson, role: Role) -> Result<RawJson> {
    let text = content.as_str();
    let fields = text.trim_start().strip_prefix('{').ok_or_else(|| {
        Error::damaged(format!("a message should be a JSON object, but begins {:?}", beginning(text)))
    })?;
    let comma = if fields.trim_start().starts_with('}') { "" } else { "," };
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
    let carries_results = role == Role::User && kind == ContextEventKind::ToolResult && !results.is_empty();
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
    let named: Vec<&str> = results.iter().filter_map(|mark| mark.tool_call_id.as_deref()).collect();
    match (tool_call_id, named.as_slice()) {
        (None, []) => Err(Error::invalid(
            "a tool_result event needs the id of the tool call it answers; give tool_call_id, or have it in the content",
        )),
        (Some(id), []) => Ok(vec![ToolMark { tool_call_id: Some(id.to_owned()), ..ToolMark::default() }]),
        (Some(id), named) if !named.contains(&id) => Err(Error::invalid(format!(
            "the tool_result event was given tool call id {id:?}, but its content answers {named:?}"
        ))),
        _ => Ok(results),
    }
}

fn check_call(content: &RawJson, tool_call_id: Option<&str>) -> Result<ToolMark> {
    let call: Call<'_> = object(content.as_bytes(), "a tool_call event")?;
    let own = call.id.map(|raw| id_string(raw, "id")).transpose()?;
    match call.name {
        Some(raw) => string(raw, "name")?,
        None => {
            return Err(Error::invalid(
                "a tool_call event needs the tool's name; its content is {id, name, arguments}",
            ));
        }
    };
    if let (Some(given), Some(own)) = (tool_call_id, own.as_deref())
        && given != own
    {
        return Err(Error::invalid(format!("the tool_call event was given id {given:?}, but its content has {own:?}")));
    }
    let tool_call_id = tool_call_id.map(str::to_owned).or(own);
    Ok(ToolMark { tool_call_id, ..ToolMark::default() })
}

fn call_event(call: ToolCallRequest) -> NewContextEvent {
    let id = call.id.as_deref().map_or_else(RawJson::null, RawJson::string);
    let name = RawJson::string(&call.name);
    let content = format!("{{\"id\":{id},\"name\":{name},\"arguments\":{}}}", call.arguments);
    let mark = ToolMark { tool_call_id: call.id, ..ToolMark::default() };
    NewContextEvent {
        kind: ContextEventKind::ToolCall,
        content: RawJson::from_own_text(content),
        meta: EventMeta { tools: vec![mark], ..EventMeta::default() },
    }
}

fn envelope(json: &RawJson) -> Result<Envelope<'_>> {
    object(json.as_bytes(), "a message")
}

fn required_role(envelope: &Envelope<'_>) -> Result<Role> {
    match envelope.role {
        Some(raw) => string(raw, "role")?.parse(),
        None => Err(Error::invalid("the message has no role; it is one of system, user, assistant, tool")),
    }
}

fn calls(envelope: &Envelope<'_>) -> Result<Vec<ToolCallRequest>> {
    let mut calls = Vec::new();
    if let Some(raw) = envelope.tool_calls {
        for item in array(raw, "tool_calls")? {
            calls.push(openai_call(item)?);
        }
    }
    if let Some(raw) = envelope.function_call {
        let call: Call<'_> = object(raw.get().as_bytes(), "function_call")?;
        calls.push(request(None, call.name, call.arguments, ToolStyle::Function)?);
    }
    for block in blocks(envelope)? {
        if is_type(&block, "tool_use") {
            calls.push(request(block.id, block.name, block.input, ToolStyle::Anthropic)?);
        }
    }
    check_count(calls.len(), "tool calls")?;
    Ok(calls)
}

fn openai_call(raw: &RawValue) -> Result<ToolCallRequest> {
    let call: Call<'_> = object(raw.get().as_bytes(), "a tool call")?;
    match call.function.or(call.custom) {
        Some(inner) => {
            let inner: Call<'_> = object(inner.get().as_bytes(), "the function of a tool call")?;
            request(call.id, inner.name, inner.arguments.or(inner.input), ToolStyle::OpenAi)
        }
        None => request(call.id, call.name, call.arguments.or(call.input), ToolStyle::OpenAi),
    }
}

fn request(
    id: Option<&RawValue>,
    name: Option<&RawValue>,
    arguments: Option<&RawValue>,
    style: ToolStyle,
) -> Result<ToolCallRequest> {
    let name = name.ok_or_else(|| Error::invalid("a tool call of the message has no name"))?;
    Ok(ToolCallRequest {
        id: id.map(|raw| id_string(raw, "the id of a tool call")).transpose()?,
        name: string(name, "the name of a tool call")?.into_owned(),
        arguments: arguments.map_or_else(RawJson::null, RawJson::from_raw),
        style,
    })
}

fn results(envelope: &Envelope<'_>, role: Role) -> Result<Vec<ToolMark>> {
    let mut marks = Vec::new();
    match role {
        Role::User => {
            for block in blocks(envelope)?.into_iter().filter(|block| is_type(block, "tool_result")) {
                let id = block.tool_use_id.ok_or_else(|| {
                    Error::invalid(
                        "a tool_result block of the message has no tool_use_id; it must name the call it answers",
                    )
                })?;
                marks.push(ToolMark {
                    tool_call_id: Some(id_string(id, "tool_use_id")?),
                    is_error: block.is_error.is_some_and(|raw| raw.get() == "true"),
                    duration_ms: None,
                });
            }
        }
        Role::Tool => {
            for raw in envelope.tool_call_ids.map(|raw| array(raw, "tool_call_ids")).transpose()?.unwrap_or_default() {
                marks.push(named_mark(id_string(raw, "tool_call_ids")?));
            }
            if let Some(raw) = envelope.tool_call_id {
                let id = id_string(raw, "tool_call_id")?;
                if marks.iter().all(|mark| mark.tool_call_id.as_ref() != Some(&id)) {
                    marks.insert(0, named_mark(id));
                }
            }
            if marks.is_empty() {
                marks.push(ToolMark::default());
            }
        }
        Role::System | Role::Assistant => {}
    }
    check_count(marks.len(), "tool results")?;
    Ok(marks)
}

fn named_mark(id: String) -> ToolMark {
    ToolMark { tool_call_id: Some(id), ..ToolMark::default() }
}

fn blocks<'a>(envelope: &Envelope<'a>) -> Result<Vec<Block<'a>>> {
    let Some(content) = envelope.content.filter(|raw| raw.get().starts_with('[')) else { return Ok(Vec::new()) };
    array(content, "content")?
        .into_iter()
        .filter(|raw| raw.get().starts_with('{'))
        .map(|raw| object(raw.get().as_bytes(), "a content block"))
        .collect()
}

fn is_type(block: &Block<'_>, name: &str) -> bool {
    block.kind.is_some_and(|raw| raw.get().strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) == Some(name))
}

fn object<'a, T: Deserialize<'a>>(bytes: &'a [u8], what: &str) -> Result<T> {
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    if first != Some(&b'{') {
        let found = beginning(std::str::from_utf8(bytes).unwrap_or_default());
        return Err(Error::invalid(format!("{what} should be a JSON object, but begins {found:?}")));
    }
    serde_json::from_slice(bytes).map_err(|source| Error::invalid(format!("{what} can't be read: {source}")))
}

fn array<'a>(raw: &'a RawValue, what: &str) -> Result<Vec<&'a RawValue>> {
    serde_json::from_str(raw.get())
        .map_err(|_| Error::invalid(format!("{what} should be an array, but begins {:?}", beginning(raw.get()))))
}

fn string<'a>(raw: &'a RawValue, what: &str) -> Result<Cow<'a, str>> {
    /// `Cow<str>` alone would always be copied.
    #[derive(Deserialize)]
    #[serde(transparent)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

    serde_json::from_str::<Text<'a>>(raw.get())
        .map(|text| text.0)
        .map_err(|_| Error::invalid(format!("{what} should be a string, but is {:?}", beginning(raw.get()))))
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

fn check_count(count: usize, what: &str) -> Result<()> {
    if count <= MESSAGE_TOOLS_MAX {
        return Ok(());
    }
    Err(Error::too_large(format!("the message has {count} {what}, at most {MESSAGE_TOOLS_MAX} are allowed; split it")))
}

fn beginning(text: &str) -> &str {
    match text.char_indices().nth(40) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

#[cfg(test)]
mod tests;
