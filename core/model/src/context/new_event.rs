//! Making events: from a message for a model, or from a single event of a caller.

use super::{
    ContextEventKind, EventOptions, NewContextEvent, Role,
    message::{
        Content, Envelope, ToolCallRequest, check_content, check_id_length, id_string, string,
    },
};
use crate::{
    Error, RawJson, Result,
    check::given_time,
    codec::{EventMeta, ToolMark},
    json::slices::{has_field, unique_fields},
};

impl NewContextEvent {
    /// One event of this kind, checked to be one: the content is an object, its role is the kind's or not
    /// there, a tool_call has a name, and a tool_result says what it answers.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) or [`TooLarge`](crate::ErrorKind::TooLarge), saying which.
    pub fn new(
        kind: ContextEventKind,
        content: RawJson,
        tool_call_id: Option<&str>,
        options: &EventOptions,
    ) -> Result<Self> {
        let mut event = check_event(kind, content, tool_call_id)?;
        check_options(options)?;
        event.apply(options);
        Ok(event)
    }

    /// The events of one message that a model is to be sent, kept byte for byte: the message itself, then one
    /// tool_call for each call that an assistant message asks for.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for what no provider takes: a role that isn't known, a content
    /// that is missing, `null`, a number or a boolean, a tool call without a name.
    /// [`TooLarge`](crate::ErrorKind::TooLarge) for more tool calls, or longer ids, than the limits allow.
    pub fn of_message(json: RawJson, options: &EventOptions) -> Result<Vec<Self>> {
        Self::split(json, Content::Checked, options)
    }

    /// As [`of_message`](Self::of_message), for a message of an imported transcript, whose content is not checked.
    ///
    /// # Errors
    /// As [`of_message`](Self::of_message), but for the content.
    pub fn of_transcript(json: RawJson, options: &EventOptions) -> Result<Vec<Self>> {
        Self::split(json, Content::AsItIs, options)
    }

    fn split(json: RawJson, content: Content, options: &EventOptions) -> Result<Vec<Self>> {
        let mut events = split(json, content)?;
        check_options(options)?;
        for event in &mut events {
            event.apply(options);
        }
        Ok(events)
    }
}

fn check_options(options: &EventOptions) -> Result<()> {
    given_time(
        "the event's `created_at_ms`",
        options.created_at_ms.unwrap_or(0),
    )
}

/// The events of one message: itself, then one tool_call for each call it asks for.
fn split(json: RawJson, content: Content) -> Result<Vec<NewContextEvent>> {
    let envelope = Envelope::of(&json)?;
    let role = envelope.role()?;
    if content == Content::Checked {
        check_content(&json, &envelope, role)?;
    }
    let results = envelope.results(role)?;
    let kind = if results.is_empty() {
        role.event_kind()
    } else {
        ContextEventKind::ToolResult
    };
    let calls = if role == Role::Assistant {
        envelope.calls()?
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

/// One event as a caller of `append_event` gives it.
fn check_event(
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
            let envelope = Envelope::of(&content)?;
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

fn check_message(
    kind: ContextEventKind,
    expected: Role,
    envelope: &Envelope<'_>,
    meta: &mut EventMeta,
) -> Result<Vec<ToolMark>> {
    if envelope.role.is_none() && envelope.item.is_none() {
        meta.role_implied = true;
        return envelope.results(expected);
    }
    let role = envelope.role()?;
    let results = envelope.results(role)?;
    // Anthropic's tool results come in a message of the user's.
    let carries_results =
        role == Role::User && kind == ContextEventKind::ToolResult && !results.is_empty();
    if role == expected || carries_results {
        return Ok(results);
    }
    Err(Error::invalid(format!(
        "a {kind} event needs a message of role {expected:?}, but its role is {:?}",
        envelope
            .role
            .map_or(role.name(), |raw| raw.trim_matches('"')),
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
    let [id, name] = unique_fields(content.as_str(), "a tool_call event", ["id", "name"])?;
    let own = id.map(|raw| id_string(raw, "id")).transpose()?;
    let name = name.ok_or_else(|| {
        Error::invalid(
            "a tool_call event needs the tool's name; its content is {id, name, arguments}",
        )
    })?;
    if string(name, "name")?.is_empty() {
        return Err(Error::invalid(
            "the `name` of a tool_call event is empty; it names the tool",
        ));
    }
    if own.as_deref().or(tool_call_id) == Some("") {
        return Err(Error::invalid(
            "the id of a tool_call event is empty; give one, or leave it out where the provider gives none",
        ));
    }
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
    // By the name of the field readers tell a text of any form from JSON that stands in a string.
    let field = if call.is_text { "input" } else { "arguments" };
    let content = format!(
        "{{\"id\":{id},\"name\":{name},\"{field}\":{}}}",
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

#[cfg(test)]
mod tests;
