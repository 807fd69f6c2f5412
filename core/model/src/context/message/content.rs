//! Checks that providers accept a message's content.
//!
//! A context is sent to a model again at every call: one message that a provider refuses makes every later call fail,
//! long after the mistake. So content that no provider accepts is refused when it is appended.

use memchr::memmem;

use super::envelope::Envelope;
use crate::{
    Error, RawJson, Result, Role,
    json::slices::{beginning, has_field, unique_fields},
};

/// How strictly a message is checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::context) enum Content {
    /// It will be sent to a model: a provider must be able to accept it.
    Checked,
    /// It is part of a transcript, and kept as it is.
    AsItIs,
}

/// What an assistant's message may consist of where it has no content and asks for no tool call.
const INSTEAD_OF_CONTENT: [&str; 5] = [
    "refusal",
    "audio",
    "reasoning",
    "reasoning_content",
    "reasoning_details",
];

/// Refuses a content that is missing, `null`, a number or a boolean. An assistant's may be missing where the message asks
/// for tool calls, or says something in another field; a tool's may be any value, for it is what the tool gave.
pub(in crate::context) fn check(json: &RawJson, envelope: &Envelope<'_>, role: Role) -> Result<()> {
    check_tools(json, envelope, role)?;
    if envelope.parts.is_some() {
        return Ok(());
    }
    if let Some(item) = envelope.item {
        return match (item.output_type(), envelope.fields(["output"])?) {
            (Some(what), [None]) => Err(Error::invalid(format!(
                "a {what} item has no output, and OpenAI takes none without"
            ))),
            _ => Ok(()),
        };
    }
    if role == Role::Tool && has_field(json.as_str(), "content") {
        return Ok(());
    }
    let Some(content) = envelope.content else {
        if role == Role::Assistant && (says_something_else(json)? || !envelope.calls()?.is_empty())
        {
            return Ok(());
        }
        return Err(missing(json, role)?);
    };
    let text = content;
    if text.starts_with(['"', '[', '{']) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the content of the {role} message is {}, which no provider takes; give a string, or an array of content parts",
        beginning(text)
    )))
}

/// Refuses calls and results that would count as nothing: those under a second name of their field, calls in a message of the user's,
/// results in an assistant's.
fn check_tools(json: &RawJson, envelope: &Envelope<'_>, role: Role) -> Result<()> {
    // Most messages speak of neither, and a search is far cheaper than another look at each block.
    let speaks_of = |name: &str| memmem::find(json.as_bytes(), name.as_bytes()).is_some();
    if !["tool", "unctionCall", "unctionResponse", "unction_"]
        .iter()
        .any(|name| speaks_of(name))
    {
        return Ok(());
    }
    for names in [["tool_calls", "toolCalls"], ["tool_call_id", "toolCallId"]] {
        if let [Some(_), Some(_)] = envelope.fields(names)? {
            let [snake, camel] = names;
            return Err(Error::invalid(format!(
                "the message has both {snake:?} and {camel:?}, of which one would be lost; leave one out"
            )));
        }
    }
    let wrong = match role {
        Role::User => !envelope.calls()?.is_empty(),
        Role::Assistant => !envelope.results(Role::User)?.is_empty(),
        Role::System | Role::Tool => false,
    };
    match (wrong, role) {
        (false, _) => Ok(()),
        (true, Role::User) => Err(Error::invalid(
            "a message of the user's asks for tool calls, which models do, in an assistant's message",
        )),
        (true, _) => Err(Error::invalid(
            "an assistant's message has the results of tools, which belong into a message of the user's behind it",
        )),
    }
}

fn says_something_else(json: &RawJson) -> Result<bool> {
    Ok(
        unique_fields(json.as_str(), "a message", INSTEAD_OF_CONTENT)?
            .iter()
            .any(Option::is_some),
    )
}

fn missing(json: &RawJson, role: Role) -> Result<Error> {
    let [parts] = unique_fields(json.as_str(), "a message", ["parts"])?;
    let what = if parts.is_some() {
        "it has `parts`, as the Vercel AI SDK keeps messages for a user interface; record the model messages that \
         `convertToModelMessages` makes of them"
    } else if role == Role::Assistant {
        "give a string, an array of content parts, or tool calls"
    } else {
        "give a string, or an array of content parts"
    };
    Ok(Error::invalid(format!(
        "the {role} message has no content, and no provider takes one without; {what}"
    )))
}
