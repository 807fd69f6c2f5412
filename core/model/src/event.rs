//! [`ContextEvent`]: one immutable entry of an agent's context, and [`NewContextEvent`]: one to append.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    ContextEventKind, Error, InstanceId, RawJson, Result, Role, RunId,
    codec::{self, EventMeta, ToolMark},
    message::{self, Content},
};

/// One immutable entry of an agent's context.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct ContextEvent {
    /// Its id: its place in the whole log, unique and kept for ever.
    pub position: u64,
    /// The agent instance whose context it is in. A fork's instance for an event that the fork inherits.
    pub instance_id: InstanceId,
    /// Its place in the instance's context: 1, 2, 3, … without holes.
    pub sequence_number: u64,
    /// What it is.
    pub event_type: ContextEventKind,
    /// Its content, byte for byte as it was given. `null` when it was redacted.
    pub content: RawJson,
    /// The tool call it is, or the (first) one it answers.
    pub tool_call_id: Option<String>,
    /// The tool calls that it answers, in order: one for each result in the message.
    pub tool_results: Vec<ToolResultMark>,
    /// The run it belongs to.
    pub run_id: Option<RunId>,
    /// The step of the run.
    pub step_number: Option<u32>,
    /// When it happened: milliseconds since 1970-01-01 UTC.
    pub created_at_ms: u64,
    /// Whether its content was taken out of the store.
    pub redacted: bool,
    /// Whether the content lacks the message's role, which [`message_json`](Self::message_json) then adds.
    #[serde(skip)]
    pub role_implied: bool,
    /// Whether a resume added it to tell the agent to go on: nobody said it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_continuation: bool,
}

/// One result of a tool call, as far as its event tells beside the content.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolResultMark {
    /// The call it answers, `None` with the providers that give calls no id.
    pub tool_call_id: Option<String>,
    /// Whether the tool failed.
    pub is_error: bool,
    /// How long the tool itself took, in milliseconds of wall clock.
    pub duration_ms: Option<u64>,
}

/// A stored record, as the parts that an event is read from.
#[derive(Clone, Debug)]
pub struct StoredEvent<'a> {
    /// Its place in the whole log.
    pub position: u64,
    /// Its place in its stream.
    pub sequence: u64,
    /// When it was appended: milliseconds since 1970-01-01 UTC.
    pub time_ms: u64,
    /// Its kind byte.
    pub kind: u8,
    /// Whether its metadata and payload were taken out of the store.
    pub redacted: bool,
    /// Its metadata.
    pub meta: &'a [u8],
    /// Its payload.
    pub payload: Bytes,
}

impl ContextEvent {
    /// Reads an event from a stored record.
    ///
    /// # Errors
    /// [`UnsupportedVersion`](crate::ErrorKind::UnsupportedVersion) for metadata of a version this build doesn't
    /// know, [`Damaged`](crate::ErrorKind::Damaged) for a record that isn't a context event.
    pub fn decode(instance_id: InstanceId, record: StoredEvent<'_>) -> Result<Self> {
        let place = |error: Error| {
            let message = format!(
                "event {} of instance {instance_id}: {error}",
                record.sequence
            );
            Error::new(error.kind(), message)
        };
        let event_type = ContextEventKind::from_byte(record.kind).ok_or_else(|| {
            place(Error::damaged(format!(
                "{} is not the kind byte of a context event",
                record.kind
            )))
        })?;
        let (meta, content) = if record.redacted {
            (EventMeta::default(), RawJson::null())
        } else {
            (
                codec::decode_event_meta(record.meta).map_err(place)?,
                RawJson::from_stored(record.payload.clone()).map_err(place)?,
            )
        };
        let tool_call_id = meta
            .tools
            .first()
            .and_then(|mark| mark.tool_call_id.clone());
        let tool_results = match event_type {
            ContextEventKind::ToolResult => {
                meta.tools.into_iter().map(ToolResultMark::from).collect()
            }
            _ => Vec::new(),
        };
        Ok(Self {
            position: record.position,
            instance_id,
            sequence_number: record.sequence,
            event_type,
            content,
            tool_call_id,
            tool_results,
            run_id: meta.run_id.map(|bytes| RunId(Uuid::from_bytes(bytes))),
            step_number: meta.step_number,
            created_at_ms: meta.created_at_ms.unwrap_or(record.time_ms),
            redacted: record.redacted,
            role_implied: meta.role_implied,
            is_continuation: meta.is_continuation,
        })
    }

    /// The message this event is, exactly as it was sent to the model. `None` for a tool_call, which is a
    /// record beside its message.
    ///
    /// An event that was appended without a role gets it in front; a redacted one says so in its place.
    ///
    /// # Errors
    /// [`Damaged`](crate::ErrorKind::Damaged) when the content isn't a JSON object.
    pub fn message_json(&self) -> Result<Option<RawJson>> {
        let Some(role) = self.event_type.role() else {
            return Ok(None);
        };
        if self.redacted {
            return Ok(Some(message::redacted(role, self.tool_call_id.as_deref())));
        }
        if !self.role_implied {
            return Ok(Some(self.content.clone()));
        }
        message::with_role(&self.content, role)
            .map(Some)
            .map_err(|error| {
                Error::damaged(format!(
                    "event {} of instance {}: {error}",
                    self.sequence_number, self.instance_id
                ))
            })
    }

    /// Whose message this event is; `None` for a tool_call.
    pub fn role(&self) -> Option<Role> {
        self.event_type.role()
    }

    fn redacted_content(&self) -> RawJson {
        match self.event_type.role() {
            Some(role) => message::redacted(role, self.tool_call_id.as_deref()),
            None => RawJson::from_own_text(
                "{\"id\":null,\"name\":\"[redacted]\",\"arguments\":null}".to_owned(),
            ),
        }
    }

    /// The same event to append elsewhere: same content, same time. A redacted one goes as its placeholder.
    pub fn to_new(&self) -> NewContextEvent {
        let tools = match self.event_type {
            ContextEventKind::ToolResult => self
                .tool_results
                .iter()
                .cloned()
                .map(ToolMark::from)
                .collect(),
            _ if self.tool_call_id.is_some() || self.event_type == ContextEventKind::ToolCall => {
                vec![ToolMark {
                    tool_call_id: self.tool_call_id.clone(),
                    ..ToolMark::default()
                }]
            }
            _ => Vec::new(),
        };
        NewContextEvent {
            kind: self.event_type,
            content: if self.redacted {
                self.redacted_content()
            } else {
                self.content.clone()
            },
            meta: EventMeta {
                role_implied: self.role_implied,
                created_at_ms: Some(self.created_at_ms),
                run_id: self.run_id.map(|id| *id.0.as_bytes()),
                step_number: self.step_number,
                tools,
                is_continuation: self.is_continuation,
            },
        }
    }
}

/// What an event says beside its content.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct EventOptions {
    /// The run it belongs to.
    pub run_id: Option<RunId>,
    /// The step of the run.
    pub step_number: Option<u32>,
    /// When it happened, where that isn't now: milliseconds since 1970-01-01 UTC.
    pub created_at_ms: Option<u64>,
    /// Whether the tool failed, for a tool result whose message doesn't say.
    pub tool_is_error: Option<bool>,
    /// How long the tool itself took, for a tool result: milliseconds of wall clock.
    pub tool_duration_ms: Option<u64>,
}

/// An event to append.
///
/// ```
/// use runlog_model::{ContextEventKind, EventOptions, NewContextEvent, RawJson};
///
/// let message = r#"{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"ls","input":{ "path": "/" }}]}"#;
/// let events = NewContextEvent::of_message(RawJson::parse(message)?, &EventOptions::default())?;
/// assert_eq!(events[0].content.as_str(), message);
/// assert_eq!(events[1].kind, ContextEventKind::ToolCall);
/// assert_eq!(events[1].content.as_str(), r#"{"id":"t1","name":"ls","arguments":{ "path": "/" }}"#);
/// # Ok::<(), runlog_model::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewContextEvent {
    /// What it is.
    pub kind: ContextEventKind,
    /// Its content.
    pub content: RawJson,
    /// What is kept beside the content.
    pub meta: EventMeta,
}

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
        let mut event = message::check_event(kind, content, tool_call_id)?;
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

    /// The same of a message that stands in somebody's transcript: its content is kept whatever it is.
    ///
    /// # Errors
    /// As [`of_message`](Self::of_message), but for the content.
    pub fn of_transcript(json: RawJson, options: &EventOptions) -> Result<Vec<Self>> {
        Self::split(json, Content::AsItIs, options)
    }

    fn split(json: RawJson, content: Content, options: &EventOptions) -> Result<Vec<Self>> {
        let mut events = message::split(json, content)?;
        for event in &mut events {
            event.apply(options);
        }
        Ok(events)
    }

    /// The bytes of the metadata part.
    ///
    /// # Errors
    /// [`TooLarge`](crate::ErrorKind::TooLarge) when it would be over
    /// [`META_BYTES_MAX`](crate::limits::META_BYTES_MAX).
    pub fn encode_meta(&self) -> Result<Vec<u8>> {
        codec::encode_event_meta(&self.meta)
    }

    fn apply(&mut self, options: &EventOptions) {
        self.meta.created_at_ms = options.created_at_ms;
        self.meta.run_id = options.run_id.map(|id| *id.0.as_bytes());
        self.meta.step_number = options.step_number;
        if self.kind == ContextEventKind::ToolResult {
            for mark in &mut self.meta.tools {
                mark.is_error = options.tool_is_error.unwrap_or(mark.is_error);
                mark.duration_ms = options.tool_duration_ms.or(mark.duration_ms);
            }
        }
    }
}

impl From<ToolMark> for ToolResultMark {
    fn from(mark: ToolMark) -> Self {
        Self {
            tool_call_id: mark.tool_call_id,
            is_error: mark.is_error,
            duration_ms: mark.duration_ms,
        }
    }
}

impl From<ToolResultMark> for ToolMark {
    fn from(mark: ToolResultMark) -> Self {
        Self {
            tool_call_id: mark.tool_call_id,
            is_error: mark.is_error,
            duration_ms: mark.duration_ms,
        }
    }
}
