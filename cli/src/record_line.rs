//! [`RecordLine`]: a record as a program reads it, and [`said`]: what one of a chat or a flow says, in one line for people.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use runlog::{RawJson, RunId, SessionId, flows::RuntimeEvent, log::Record};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::{
    owners::{Owner, Topic},
    text,
};

/// A record that is no event of a context.
#[derive(Serialize, JsonSchema)]
pub(crate) struct RecordLine {
    /// Its place in the log.
    position: u64,
    /// The stream that it is of, or about.
    #[schemars(with = "String")]
    stream_id: uuid::Uuid,
    /// Its place in the stream; of what the log was asked to do, the sequence that it speaks of.
    sequence_number: u64,
    /// Its kind byte.
    kind: u8,
    /// When it was recorded: milliseconds since 1970-01-01 UTC.
    recorded_at: u64,
    /// Whether its content was taken out of the store.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    redacted: bool,
    /// The session that it is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<SessionId>,
    /// The run that it is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<RunId>,
    /// Its content, where that is JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<RawJson>,
    /// Its content, where that is something else and the stream is nobody's.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
}

impl RecordLine {
    /// The line of a record in a stream with this owner.
    pub(crate) fn of(owner: &Owner, record: &Record) -> Self {
        let topic = Topic::of(owner, record);
        let payload = payload(record, topic);
        // Binary payloads are only included for streams of users: others are derived, or useless without the rest of the log.
        let bytes = (topic == Topic::Stream && payload.is_none() && !record.payload.is_empty())
            .then(|| BASE64_STANDARD.encode(&record.payload));
        Self {
            position: record.position.0,
            stream_id: record.stream.0,
            sequence_number: record.sequence.0,
            kind: record.kind.0,
            recorded_at: record.time_ms,
            redacted: record.redacted,
            session_id: owner.session(),
            run_id: owner.run(record),
            payload,
            payload_base64: bytes,
        }
    }
}

fn payload(record: &Record, topic: Topic) -> Option<RawJson> {
    if record.payload.is_empty() {
        return None;
    }
    if topic == Topic::Flow {
        let event = RuntimeEvent::decode(&record.meta, &record.payload);
        return event.ok().map(|event| event.json);
    }
    let text = std::str::from_utf8(&record.payload).ok()?;
    RawJson::parse(text).ok()
}

/// What kind of record of a chat or a flow it is, and what it says.
pub(crate) fn said(topic: Topic, record: &Record) -> (&'static str, String) {
    let (kind, said) = match topic {
        Topic::Flow => ("flow", of_flow(record)),
        _ => of_chat(record),
    };
    match record.redacted {
        true => (kind, "[redacted]".to_owned()),
        false => (kind, said),
    }
}

fn of_flow(record: &Record) -> String {
    let Ok(event) = RuntimeEvent::decode(&record.meta, &record.payload) else {
        return String::new();
    };
    let node = event.node_id.map(|node| format!("{node} "));
    format!(
        "{} {}{}",
        event.event_type,
        node.unwrap_or_default(),
        event.json.as_str()
    )
}

/// The kind bytes are those of docs/model.md, and never change.
fn of_chat(record: &Record) -> (&'static str, String) {
    let fields: Value = serde_json::from_slice(&record.payload).unwrap_or_default();
    match record.kind.0 {
        64 => {
            let role = match fields["role"].as_str() {
                Some("assistant") => "assistant",
                Some(_) => "user",
                None => "message",
            };
            (role, content(&fields["props"]))
        }
        65 => {
            let appended = fields["appended"].as_str().filter(|it| !it.is_empty());
            let said = match appended {
                Some(appended) => format!("goes on: {appended}"),
                None => format!("changed: {}", content(&fields["updates"])),
            };
            ("message", said)
        }
        66 => {
            let messages = fields["message_ids"].as_array().map_or(0, Vec::len) as u64;
            let messages = text::count(messages, "message", "messages");
            ("message", format!("deleted: {messages}"))
        }
        67 => ("step", words(&fields, ["type", "status", "assistant_id"])),
        68 => ("step", format!("changed: {}", content(&fields["updates"]))),
        69 => ("chat", "copied: what follows is the copy's".to_owned()),
        70 => (
            "request",
            words(&fields, ["status", "error", "assistant_id"]),
        ),
        71 => (
            "step",
            words(&fields["step"], ["type", "status", "assistant_id"]),
        ),
        _ => ("chat", fields.to_string()),
    }
}

/// The text of a message's props, or all that there is.
fn content(fields: &Value) -> String {
    let text = fields["content"].as_str();
    let text = text.or_else(|| fields["props"]["content"].as_str());
    text.map_or_else(|| fields.to_string(), str::to_owned)
}

fn words(fields: &Value, names: [&str; 3]) -> String {
    let words = names.map(|name| fields[name].as_str().unwrap_or_default());
    words.join(" ")
}
