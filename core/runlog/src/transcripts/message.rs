//! The events of one message in a context: its own, and those of its tool calls.

use bytes::Bytes;
use runlog_model::{
    ContextEventKind, EventOptions, NewContextEvent, RawJson,
    json::slices::{fields, for_each_element, kind_of, string},
    response_item_types,
    time::LAST_MS,
};

use super::python_literal;

/// A message, read.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) events: Vec<NewContextEvent>,
    /// What is unusual about it.
    pub(super) warning: Option<String>,
}

/// Whether a type, as JSON, is one of the items of OpenAI's Responses that have no role.
fn is_item_type(raw: &str) -> bool {
    let name = raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"'));
    name.is_some_and(|name| response_item_types().any(|own| own == name))
}

/// Reads the message `raw`.
///
/// # Errors
/// Why it is no message that a model could be sent.
pub(super) fn read(raw: &Bytes, time_ms: Option<u64>) -> Result<Message, String> {
    let text = std::str::from_utf8(raw).map_err(|error| error.to_string())?;
    if !text.starts_with('{') {
        return Err(format!("a message is an object; this is {}", kind_of(text)));
    }
    let json = RawJson::parse(raw.clone()).map_err(|error| error.to_string())?;
    let names = [
        "content",
        "tool_calls",
        "toolCalls",
        "function_call",
        "parts",
        "role",
        "type",
    ];
    let found = fields(text, names).map_err(|error| error.to_string())?;
    let [
        content,
        tool_calls,
        camel_calls,
        function_call,
        parts,
        role,
        kind,
    ] = found;
    // An item of OpenAI's Responses has none, and no role.
    let is_item = role.is_none() && kind.is_some_and(is_item_type);
    let parts = parts.filter(|parts| are_geminis(parts));
    let says = [content, tool_calls, camel_calls, function_call, parts];
    if says.iter().all(Option::is_none) && !is_item {
        return Err("the message has no `content`".to_owned());
    }
    let options = EventOptions {
        // Another number than a time in milliseconds tells nothing.
        created_at_ms: time_ms.filter(|ms| *ms <= LAST_MS),
        ..EventOptions::default()
    };
    let from_python = match tool_calls {
        Some(literal) if literal.starts_with('"') && role == Some("\"assistant\"") => {
            Some(python_calls(literal)?)
        }
        _ => None,
    };
    let events = match from_python {
        Some(calls) => with_calls(json, calls, &options),
        None => NewContextEvent::of_transcript(json, &options),
    }
    .map_err(|error| error.to_string())?;
    for event in &events {
        event.encode_meta().map_err(|error| error.to_string())?;
    }
    Ok(Message {
        events,
        warning: content.and_then(odd_content),
    })
}

/// Whether parts are those of Gemini's: objects without a `type`, which those of an interface's messages have.
fn are_geminis(parts: &str) -> bool {
    let mut fit = true;
    let read = for_each_element(parts, |part| {
        fit &= matches!(fields(part, ["type"]), Ok([None]));
    });
    fit && read.is_ok()
}

/// A message with the tool calls that SWE-agent stores as the text of a Python literal.
fn python_calls(literal: &str) -> Result<RawJson, String> {
    let text = string(literal).unwrap_or_default();
    let calls = python_literal::to_json(&text).ok_or(
        "`tool_calls` is a string, and not a Python list of tool calls as SWE-agent keeps them",
    )?;
    let message = format!(r#"{{"role":"assistant","tool_calls":{calls}}}"#);
    RawJson::parse(message).map_err(|error| error.to_string())
}

/// The events of `message`, with the tool calls of another one.
fn with_calls(
    message: RawJson,
    calls: RawJson,
    options: &EventOptions,
) -> runlog_model::Result<Vec<NewContextEvent>> {
    let mut events = vec![NewContextEvent::new(
        ContextEventKind::AssistantMessage,
        message,
        None,
        options,
    )?];
    let calls = NewContextEvent::of_transcript(calls, options)?;
    events.extend(
        calls
            .into_iter()
            .filter(|event| event.kind == ContextEventKind::ToolCall),
    );
    Ok(events)
}

/// What is unusual about a `content`.
fn odd_content(content: &str) -> Option<String> {
    match content.as_bytes().first() {
        Some(b'"' | b'n') => None,
        Some(b'[') => {
            let mut index = 0_usize;
            let mut odd = None;
            let read = for_each_element(content, |block| {
                if !block.starts_with('{') && odd.is_none() {
                    odd = Some(format!(
                        "`content[{index}]` is {}, not an object",
                        kind_of(block)
                    ));
                }
                index += 1;
            });
            read.err().map(|error| error.to_string()).or(odd)
        }
        _ => Some(format!(
            "`content` is {}, neither text nor an array",
            kind_of(content)
        )),
    }
}

/// A name from a hostile source, short enough for a message or an agent's name.
pub(super) fn shorten(name: &str) -> String {
    let mut short: String = name
        .chars()
        .take(60)
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect();
    if short.len() < name.len() {
        short.push('…');
    }
    short
}
