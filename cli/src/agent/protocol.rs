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
        let refusal = |id, code, message| Refusal::new(id, number, code, message);
        if !line.trim_ascii_start().starts_with(b"{") {
            return Err(refusal(
                None,
                "invalid_json",
                "a line is a JSON object with a `type`".to_owned(),
            ));
        }
        let fields: Fields<'_> = match serde_json::from_slice(line) {
            Ok(fields) => fields,
            Err(error) => {
                let code = if error.is_data() {
                    "invalid_message"
                } else {
                    "invalid_json"
                };
                // The other fields can't be read, but the line's type can.
                let is_done =
                    serde_json::from_slice::<OfType>(line).is_ok_and(|of| of.kind == "done");
                return Err(Refusal {
                    is_done,
                    ..refusal(None, code, error.to_string())
                });
            }
        };
        let id = fields.id.and_then(raw);
        let events = match fields.kind.as_deref() {
            Some("message") => message(&fields),
            Some("event") => event(&fields),
            Some("step") => return Ok(Self::Step { id }),
            Some("describe") => {
                let details = RunDetails {
                    usage: fields.usage.and_then(raw),
                    metadata: fields.metadata.and_then(raw),
                };
                return match details.check().map_err(wrong) {
                    Ok(()) => Ok(Self::Describe { id, details }),
                    Err((code, message)) => Err(refusal(id, code, message)),
                };
            }
            Some("list_available_agents") => {
                return Ok(Self::Ask(Ask {
                    id,
                    line: number,
                    what: Asked::List,
                }));
            }
            Some("spawn_agents") => {
                let asked =
                    spawn(&fields).map_err(|(code, message)| refusal(id.clone(), code, message));
                return asked.map(|what| {
                    Self::Ask(Ask {
                        id,
                        line: number,
                        what,
                    })
                });
            }
            Some("done") => {
                let done = done(fields);
                let refused = |(code, message)| Refusal {
                    is_done: true,
                    ..refusal(id, code, message)
                };
                return done.map(Self::Done).map_err(refused);
            }
            Some("hello") => {
                let version = fields.protocol.map_or("none", RawValue::get);
                if version == PROTOCOL.to_string() {
                    return Ok(Self::Hello {
                        commands: fields.commands.unwrap_or(false),
                    });
                }
                let message =
                    format!("this is protocol version {PROTOCOL}; the agent asks for {version}");
                return Err(refusal(id, UNSUPPORTED_PROTOCOL, message));
            }
            Some(other) => {
                let message = format!(
                    "{other:?} is none of hello, message, event, step, describe, list_available_agents, spawn_agents, done"
                );
                return Err(Refusal {
                    is_echo: ONLY_TO_AGENT.contains(&other),
                    ..refusal(id, "unknown_type", message)
                });
            }
            None => {
                return Err(refusal(
                    id,
                    "invalid_message",
                    "the line has no `type`".to_owned(),
                ));
            }
        };
        let events =
            events.and_then(|events| check(fields.key.as_deref(), &events).map(|()| events));
        match events {
            Ok(events) => Ok(Self::Record {
                id,
                key: fields.key,
                events,
            }),
            Err((code, message)) => Err(refusal(id, code, message)),
        }
    }
}

type Wrong = (&'static str, String);

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
