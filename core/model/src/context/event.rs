//! [`ContextEvent`]: one immutable entry of an agent's context, and [`NewContextEvent`]: one to append.

use runlog_log::{Label, Record};
use serde::{Deserialize, Serialize};

use super::{ContextEventKind, Role, placeholder};
use crate::{
    Error, InstanceId, RawJson, Result, RunId,
    codec::{self, EventMeta, ToolMark},
};

/// One immutable entry of an agent's context.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ContextEvent {
    /// Its id: its position in the log, unique and kept for ever.
    pub position: u64,
    /// The agent instance whose context it is in. A fork's instance for an event that the fork inherits.
    pub instance_id: InstanceId,
    /// Its sequence in the instance's context: 1, 2, 3, … without holes.
    pub sequence_number: u64,
    /// What it is.
    pub event_type: ContextEventKind,
    /// Its content, byte for byte as it was given. `null` when it was redacted.
    pub content: RawJson,
    /// The tool call it is, or the (first) one it answers.
    pub tool_call_id: Option<String>,
    /// The tool calls that it answers, in order: one for each result in the message.
    pub tool_results: Vec<ToolMark>,
    /// The run it belongs to.
    pub run_id: Option<RunId>,
    /// The step of the run.
    pub step_number: Option<u32>,
    /// When it happened: milliseconds since 1970-01-01 UTC.
    pub created_at_ms: u64,
    /// Whether its content was redacted.
    pub redacted: bool,
    /// Whether the content lacks the message's role, which [`message_json`](Self::message_json) then adds.
    #[serde(skip)]
    pub role_implied: bool,
    /// Whether a resume added it to make the agent continue, so that it is no user's message.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_continuation: bool,
}

impl ContextEvent {
    /// Reads an event from a stored record.
    ///
    /// # Errors
    /// [`UnsupportedVersion`](crate::ErrorKind::UnsupportedVersion) for metadata of a version this build doesn't
    /// know, [`Damaged`](crate::ErrorKind::Damaged) for a record that isn't a context event.
    pub fn decode(instance_id: InstanceId, record: &Record) -> Result<Self> {
        let place = |error: Error| {
            let message = format!(
                "event {} of instance {instance_id}: {error}",
                record.sequence
            );
            Error::new(error.kind(), message)
        };
        let event_type = ContextEventKind::from_byte(record.kind.0).ok_or_else(|| {
            place(Error::damaged(format!(
                "{} is not the kind byte of a context event",
                record.kind.0
            )))
        })?;
        let (meta, content) = if record.redacted {
            (EventMeta::default(), RawJson::null())
        } else {
            (
                codec::decode_event_meta(&record.meta).map_err(place)?,
                RawJson::from_stored(record.payload.clone()).map_err(place)?,
            )
        };
        let tool_call_id = meta
            .tools
            .first()
            .and_then(|mark| mark.tool_call_id.clone());
        let tool_results = match event_type {
            ContextEventKind::ToolResult => meta.tools,
            _ => Vec::new(),
        };
        Ok(Self {
            position: record.position.0,
            instance_id,
            sequence_number: record.sequence.0,
            event_type,
            content,
            tool_call_id,
            tool_results,
            run_id: meta.run_id,
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
            return Ok(Some(placeholder::redacted(
                role,
                self.tool_call_id.as_deref(),
            )));
        }
        if !self.role_implied {
            return Ok(Some(self.content.clone()));
        }
        let call = match self.tool_results.as_slice() {
            [mark] => mark.tool_call_id.as_deref(),
            _ => None,
        };
        placeholder::with_role(&self.content, role, call)
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
            Some(role) => placeholder::redacted(role, self.tool_call_id.as_deref()),
            None => RawJson::from_own_text(
                "{\"id\":null,\"name\":\"[redacted]\",\"arguments\":null}".to_owned(),
            ),
        }
    }

    /// The same event to append elsewhere: same content, same time. A redacted one goes as its placeholder.
    pub fn to_new(&self) -> NewContextEvent {
        let tools = match self.event_type {
            ContextEventKind::ToolResult => self.tool_results.clone(),
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
                run_id: self.run_id,
                step_number: self.step_number,
                tools,
                is_continuation: self.is_continuation,
            },
        }
    }
}

/// The metadata of an event: run, step, time, and how its tool call went.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct EventOptions {
    /// The run it belongs to; a recorder takes only its own.
    pub run_id: Option<RunId>,
    /// The step of the run; a recorder gives it, and takes none.
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
    /// The metadata stored beside the content.
    pub meta: EventMeta,
}

impl NewContextEvent {
    /// The bytes of the metadata part.
    ///
    /// # Errors
    /// [`TooLarge`](crate::ErrorKind::TooLarge) when it would be over
    /// [`META_BYTES_MAX`](crate::limits::META_BYTES_MAX).
    pub fn encode_meta(&self) -> Result<Vec<u8>> {
        codec::encode_event_meta(&self.meta)
    }

    /// Its metadata part, and the labels of its record in a context.
    ///
    /// # Errors
    /// As [`encode_meta`](Self::encode_meta).
    pub fn encode(&self, context: InstanceId) -> Result<EncodedMeta> {
        let EventMeta { run_id, tools, .. } = &self.meta;
        Ok(EncodedMeta {
            meta: self.encode_meta()?,
            labels: match self.kind {
                ContextEventKind::ToolCall => labels_of_call(*run_id, &self.content),
                ContextEventKind::ToolResult => labels_of_result(context, tools),
                _ => Vec::new(),
            },
        })
    }

    pub(super) fn apply(&mut self, options: &EventOptions) {
        self.meta.created_at_ms = options.created_at_ms;
        self.meta.run_id = options.run_id;
        self.meta.step_number = options.step_number;
        if self.kind == ContextEventKind::ToolResult {
            for mark in &mut self.meta.tools {
                mark.is_error = options.tool_is_error.unwrap_or(mark.is_error);
                mark.duration_ms = options.tool_duration_ms.or(mark.duration_ms);
            }
        }
    }
}

/// The encoded metadata of an event to append, and its labels.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EncodedMeta {
    /// The metadata part.
    pub meta: Vec<u8>,
    /// What the record can be found by: a tool call by its run and the name of its tool, the result of one that failed
    /// by its context: whoever made the call, anybody may record its result.
    pub labels: Vec<Label>,
}

/// The label of a run's calls of a tool.
pub fn tool_call_label(run: RunId, tool_name: &str) -> Label {
    Label::of(
        "tool call",
        [run.0.as_bytes(), tool_name.as_bytes()].concat(),
    )
}

/// The label of the results in a context whose tools failed.
pub fn tool_error_label(context: InstanceId) -> Label {
    Label::of("tool error", context.as_uuid().as_bytes())
}

/// What a record of a context is found by, for whoever appends it as it stands in another log.
pub fn context_labels(context: InstanceId, kind: u8, meta: &[u8], payload: &[u8]) -> Vec<Label> {
    let [call, result] =
        [ContextEventKind::ToolCall, ContextEventKind::ToolResult].map(ContextEventKind::byte);
    if kind != call && kind != result {
        return Vec::new();
    }
    // One that can't be read is no event of a context.
    let Ok(meta) = codec::decode_event_meta(meta) else {
        return Vec::new();
    };
    if kind == result {
        return labels_of_result(context, &meta.tools);
    }
    RawJson::from_stored(payload.to_vec().into())
        .map_or_else(|_| Vec::new(), |call| labels_of_call(meta.run_id, &call))
}

fn labels_of_call(run: Option<RunId>, call: &RawJson) -> Vec<Label> {
    #[derive(serde::Deserialize)]
    struct Named {
        name: String,
    }
    let name = call.to_value().ok().map(|Named { name }| name);
    let label = run.zip(name).map(|(run, name)| tool_call_label(run, &name));
    label.into_iter().collect()
}

fn labels_of_result(context: InstanceId, marks: &[ToolMark]) -> Vec<Label> {
    let is_error = marks.iter().any(|mark| mark.is_error);
    let label = is_error.then(|| tool_error_label(context));
    label.into_iter().collect()
}
