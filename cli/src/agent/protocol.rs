//! The agent protocol, and its one decoder of lines from agents. docs/agent-protocol.md is normative.

mod to_agent;

use runlog::{
    ErrorKind, RawJson,
    agents::spawn_requests,
    contexts::{ContextEventKind, EventOptions},
    runs::RunDetails,
    transcripts::NewContextEvent,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use self::to_agent::ONLY_TO_AGENT;
pub(crate) use self::to_agent::{Ack, Dangling, Hello, Ready, Refusal, Step, ToAgent};
use super::ask::{Ask, Asked};

/// The version of the protocol.
pub(crate) const PROTOCOL: u64 = 1;

/// The longest summary, reason or error message that an agent gives: 1 MiB, what a run may have.
const DONE_TEXT_BYTES_MAX: usize = 1 << 20;

/// A line from the agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum FromAgent {
    /// It speaks a known version.
    Hello {
        /// Whether it reads the commands that are sent to its run.
        commands: bool,
    },
    /// Events to record.
    Record {
        /// The line's own id, as JSON.
        id: Option<RawJson>,
        /// An idempotency key.
        key: Option<String>,
        /// The events: a message and its tool calls, or a single one.
        events: Vec<NewContextEvent>,
    },
    /// Its next step begins.
    Step {
        /// The line's own id, as JSON.
        id: Option<RawJson>,
    },
    /// Usage and metadata of its run.
    Describe {
        /// The line's own id, as JSON.
        id: Option<RawJson>,
        details: RunDetails,
    },
    /// A request to the orchestration.
    Ask(Ask),
    /// Nothing follows.
    Done(Done),
}

/// The agent's report of how its run ended.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Done {
    /// The summary of a completed run.
    pub(crate) summary: Option<String>,
    /// Why it only paused.
    pub(crate) pause_reason: Option<String>,
    /// Why it failed.
    pub(crate) error_message: Option<String>,
}

/// The kind of a failure caused by the agent: the program doesn't speak the protocol.
pub(crate) const UNSUPPORTED_PROTOCOL: &str = "unsupported_protocol";

#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    event_type: Option<String>,
    tool_call_id: Option<String>,
    key: Option<String>,
    time_ms: Option<u64>,
    is_error: Option<bool>,
    duration_ms: Option<u64>,
    #[serde(borrow)]
    requests: Option<&'a RawValue>,
    commands: Option<bool>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    protocol: Option<&'a RawValue>,
    summary: Option<String>,
    pause_reason: Option<String>,
    error_message: Option<String>,
}

/// The type of a line.
#[derive(Deserialize)]
struct OfType {
    #[serde(rename = "type")]
    kind: String,
}

impl FromAgent {
    /// Reads a line, the `number`th of the agent's.
    ///
    /// # Errors
    /// The refusal to send to the agent.
    pub(crate) fn read(line: &[u8], number: u64) -> Result<Self, Refusal> {
        let fields = fields_of(line).map_err(|(is_done, (code, message))| Refusal {
            is_done,
            ..Refusal::new(None, number, code, message)
        })?;
        let id = fields.id.and_then(raw);
        let kind = fields.kind.as_deref();
        let is_done = kind == Some("done");
        let is_echo = kind.is_some_and(|kind| ONLY_TO_AGENT.contains(&kind));
        Self::of(fields, id.clone(), number).map_err(|(code, message)| Refusal {
            is_done,
            is_echo,
            ..Refusal::new(id, number, code, message)
        })
    }

    fn of(fields: Fields<'_>, id: Option<RawJson>, line: u64) -> Result<Self, Wrong> {
        match fields.kind.as_deref() {
            Some("hello") => hello(&fields),
            Some("message") => record(id, message(&fields)?, fields.key),
            Some("event") => record(id, event(&fields)?, fields.key),
            Some("step") => Ok(Self::Step { id }),
            Some("describe") => {
                let details = RunDetails {
                    usage: fields.usage.and_then(raw),
                    metadata: fields.metadata.and_then(raw),
                };
                details.check().map_err(wrong)?;
                Ok(Self::Describe { id, details })
            }
            Some("list_available_agents") => Ok(Self::Ask(Ask {
                id,
                line,
                what: Asked::List,
            })),
            Some("spawn_agents") => {
                let what = spawn(&fields)?;
                Ok(Self::Ask(Ask { id, line, what }))
            }
            Some("done") => done(fields).map(Self::Done),
            Some(other) => {
                let message = format!(
                    "{other:?} is none of hello, message, event, step, describe, list_available_agents, spawn_agents, done"
                );
                Err(("unknown_type", message))
            }
            None => Err(("invalid_message", "the line has no `type`".to_owned())),
        }
    }
}

/// A code, and what it is about.
type Wrong = (&'static str, String);

/// The fields of a line; of one that has none to read, also whether it was to be the agent's last.
fn fields_of(line: &[u8]) -> Result<Fields<'_>, (bool, Wrong)> {
    if !line.trim_ascii_start().starts_with(b"{") {
        let message = "a line is a JSON object with a `type`".to_owned();
        return Err((false, ("invalid_json", message)));
    }
    serde_json::from_slice(line).map_err(|error| {
        let code = if error.is_data() {
            "invalid_message"
        } else {
            "invalid_json"
        };
        // The other fields can't be read, but the line's type can.
        let is_done = serde_json::from_slice::<OfType>(line).is_ok_and(|of| of.kind == "done");
        (is_done, (code, error.to_string()))
    })
}

fn hello(fields: &Fields<'_>) -> Result<FromAgent, Wrong> {
    let version = fields.protocol.map_or("none", RawValue::get);
    if version != PROTOCOL.to_string() {
        let message = format!("this is protocol version {PROTOCOL}; the agent asks for {version}");
        return Err((UNSUPPORTED_PROTOCOL, message));
    }
    Ok(FromAgent::Hello {
        commands: fields.commands.unwrap_or(false),
    })
}

fn record(
    id: Option<RawJson>,
    events: Vec<NewContextEvent>,
    key: Option<String>,
) -> Result<FromAgent, Wrong> {
    check(key.as_deref(), &events)?;
    Ok(FromAgent::Record { id, key, events })
}

fn message(fields: &Fields<'_>) -> Result<Vec<NewContextEvent>, Wrong> {
    let message = fields
        .message
        .and_then(raw)
        .ok_or_else(|| missing("message"))?;
    NewContextEvent::of_message(message, &options(fields)).map_err(wrong)
}

fn event(fields: &Fields<'_>) -> Result<Vec<NewContextEvent>, Wrong> {
    let kind = fields
        .event_type
        .as_deref()
        .ok_or_else(|| missing("event_type"))?;
    let kind: ContextEventKind = kind.parse().map_err(wrong)?;
    let content = fields
        .content
        .and_then(raw)
        .ok_or_else(|| missing("content"))?;
    let event = NewContextEvent::new(
        kind,
        content,
        fields.tool_call_id.as_deref(),
        &options(fields),
    );
    Ok(vec![event.map_err(wrong)?])
}

fn spawn(fields: &Fields<'_>) -> Result<Asked, Wrong> {
    let requests = fields
        .requests
        .and_then(raw)
        .ok_or_else(|| missing("requests"))?;
    Ok(Asked::Spawn {
        tool_call_id: fields.tool_call_id.clone(),
        requests: spawn_requests(&requests).map_err(wrong)?,
    })
}

fn done(fields: Fields<'_>) -> Result<Done, Wrong> {
    let done = Done {
        summary: fields.summary,
        pause_reason: fields.pause_reason,
        error_message: fields.error_message,
    };
    if done.pause_reason.is_some() && done.error_message.is_some() {
        return Err((
            "invalid_message",
            "a run has paused or failed: give `pause_reason` or `error_message`, not both"
                .to_owned(),
        ));
    }
    for text in [&done.summary, &done.pause_reason, &done.error_message]
        .into_iter()
        .flatten()
    {
        if text.len() > DONE_TEXT_BYTES_MAX {
            let message = format!(
                "a text of {} bytes; at most {DONE_TEXT_BYTES_MAX} are taken",
                text.len()
            );
            return Err(("too_large", message));
        }
    }
    Ok(done)
}

fn check(key: Option<&str>, events: &[NewContextEvent]) -> Result<(), Wrong> {
    if key.is_some_and(|key| key.is_empty() || key.len() > 255) {
        return Err(("invalid_message", "`key` has 1 to 255 bytes".to_owned()));
    }
    events
        .iter()
        .try_for_each(|event| event.encode_meta().map(|_| ()).map_err(wrong))
}

fn options(fields: &Fields<'_>) -> EventOptions {
    EventOptions {
        created_at_ms: fields.time_ms,
        tool_is_error: fields.is_error,
        tool_duration_ms: fields.duration_ms,
        ..EventOptions::default()
    }
}

fn raw(value: &RawValue) -> Option<RawJson> {
    RawJson::from_stored(value.get().to_owned().into()).ok()
}

fn missing(field: &str) -> Wrong {
    ("invalid_message", format!("`{field}` is missing"))
}

fn wrong(error: impl Into<runlog::Error>) -> Wrong {
    let error = error.into();
    let code = if error.kind() == ErrorKind::TooLarge {
        "too_large"
    } else {
        "invalid_message"
    };
    (code, error.to_string())
}

#[cfg(test)]
mod tests;
