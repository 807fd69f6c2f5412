//! [`RuntimeEvent`]: one entry of a flow's log.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;

use super::AgentEvent;
use crate::{
    EncodedEvent, Error, JsonText, RawJson, Result,
    encoding::Event,
    kinds,
    limits::{CHAT_ID_CHARS_MAX, FLOW_EVENT_BYTES_MAX},
    read_json, time,
};

/// The family of a flow event: its kind byte, so that a reader can skip other families.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum FlowEventKind {
    /// `agent:*`, one of the eight, except deltas.
    Agent = kinds::FLOW_AGENT,
    /// `agent:thinking:delta` and `agent:text:delta`, which retention may drop.
    Delta = kinds::FLOW_DELTA,
    /// `flow:*`.
    Flow = kinds::FLOW,
    /// `node:*`.
    Node = kinds::FLOW_NODE,
    /// `edge:*`.
    Edge = kinds::FLOW_EDGE,
    /// `command:received`.
    Command = kinds::FLOW_COMMAND,
}

impl FlowEventKind {
    /// Every family.
    pub const ALL: [Self; 6] = [
        Self::Agent,
        Self::Delta,
        Self::Flow,
        Self::Node,
        Self::Edge,
        Self::Command,
    ];

    /// The kind byte of its records.
    pub const fn byte(self) -> u8 {
        self as u8
    }

    /// The family of a kind byte; `None` for a record that is no flow event.
    pub fn of_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.byte() == byte)
    }

    fn of_type(event_type: &str) -> Option<Self> {
        let kind = match event_type.split_once(':')? {
            ("agent", "thinking:delta" | "text:delta") => Self::Delta,
            ("agent", _) if AgentEvent::TYPES.contains(&event_type) => Self::Agent,
            ("flow", name) if !name.is_empty() => Self::Flow,
            ("node", name) if !name.is_empty() => Self::Node,
            ("edge", name) if !name.is_empty() => Self::Edge,
            ("command", "received") => Self::Command,
            _ => return None,
        };
        Some(kind)
    }
}

/// One event of a flow: its JSON byte for byte, and the fields that all events share.
///
/// ```
/// use runlog_model::RuntimeEvent;
///
/// let event = RuntimeEvent::parse(r#"{ "type":"node:started", "nodeId":"plan", "timestamp":1700000000000 }"#)?;
/// assert_eq!((event.event_type.as_str(), event.node_id.as_deref()), ("node:started", Some("plan")));
/// assert!(RuntimeEvent::parse(r#"{"type":"agent:text"}"#).is_err(), "an agent event has all its fields");
/// # Ok::<(), runlog_model::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuntimeEvent {
    /// Its family.
    pub kind: FlowEventKind,
    /// Its `type`.
    pub event_type: String,
    /// The node it is about.
    pub node_id: Option<String>,
    /// Which execution of the node, or which run.
    pub run_id: Option<String>,
    /// When, as the event says: milliseconds since 1970-01-01 UTC, of which a fraction is rounded down.
    pub timestamp: Option<u64>,
    /// The whole event, byte for byte.
    pub json: RawJson,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    #[serde(rename = "type")]
    event_type: String,
    #[serde(default)]
    node_id: Option<String>,
    #[serde(default)]
    run_id: Option<String>,
    #[serde(default, deserialize_with = "time::read_ms_if_any")]
    timestamp: Option<u64>,
}

impl Event for RuntimeEvent {
    const NAME: &'static str = "a flow event";
    const BYTES_MAX: usize = FLOW_EVENT_BYTES_MAX;
}

impl RuntimeEvent {
    /// The event of a JSON object.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when it isn't a JSON object with a type that is known, or lacks a
    /// field of its type; [`TooLarge`](crate::ErrorKind::TooLarge) over [`FLOW_EVENT_BYTES_MAX`].
    pub fn parse(json: impl JsonText) -> Result<Self> {
        Self::of_json(RawJson::parse(json)?)
    }

    /// [`parse`](Self::parse) of JSON that was checked already.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn of_json(json: RawJson) -> Result<Self> {
        Self::check_length(json.as_bytes().len())?;
        let event = Self::glance(json)?;
        if matches!(event.kind, FlowEventKind::Agent | FlowEventKind::Delta) {
            event.agent()?;
        }
        Ok(event)
    }

    /// The event of an agent.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn of_agent(event: &AgentEvent) -> Result<Self> {
        Self::of_json(event.to_json()?)
    }

    /// The typed event, where it is one of the eight of an agent.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when it is another event.
    pub fn agent(&self) -> Result<AgentEvent> {
        let event: AgentEvent =
            read_json(self.json.as_str()).map_err(|error| self.misfit(&error))?;
        let prompt_fits = match &event {
            AgentEvent::Start { prompt, .. } => prompt.is_string() || prompt.is_array(),
            _ => true,
        };
        if !prompt_fits {
            return Err(Error::invalid(
                "the prompt of agent:start should be a string or an array of messages",
            ));
        }
        Ok(event)
    }

    /// Why it is no event of an agent: what all of these say is named, with what it means.
    fn misfit(&self, error: &str) -> Error {
        let name = &self.event_type;
        let is_of_agent = matches!(self.kind, FlowEventKind::Agent | FlowEventKind::Delta);
        let all = [
            ("nodeId", self.node_id.is_none()),
            ("runId", self.run_id.is_none()),
            ("timestamp", self.timestamp.is_none()),
        ];
        let missing = all.iter().filter(|(_, is_missing)| *is_missing);
        let missing: Vec<_> = missing.map(|(field, _)| format!("`{field}`")).collect();
        if !is_of_agent || missing.is_empty() {
            return Error::invalid(format!("the {name} event doesn't fit: {error}"));
        }
        Error::invalid(format!(
            "the {name} event has no {}: every event of an agent says its node (`nodeId`), which execution of that it is \
             (`runId`: an id of your own, or the flow's id where each node is executed once), and when (`timestamp`: \
             milliseconds since 1970-01-01 UTC)",
            missing.join(" and no ")
        ))
    }

    /// Checks that events can be found by this type; one that ends in `*` stands for all that begin so.
    ///
    /// ```
    /// use runlog_model::RuntimeEvent;
    ///
    /// assert!(RuntimeEvent::check_types("agent:tool").is_ok() && RuntimeEvent::check_types("node:*").is_ok());
    /// assert!(RuntimeEvent::check_types("nodes:*").is_err());
    /// ```
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a type that no event can have.
    pub fn check_types(types: &str) -> Result<()> {
        let is_known = match types.strip_suffix('*') {
            None => FlowEventKind::of_type(types).is_some(),
            Some(beginning) => {
                let is_open =
                    |family: &str| family.starts_with(beginning) || beginning.starts_with(family);
                ["flow:", "node:", "edge:"].into_iter().any(is_open)
                    || AgentEvent::TYPES
                        .into_iter()
                        .chain(["command:received"])
                        .any(|known| known.starts_with(beginning))
            }
        };
        if is_known {
            Ok(())
        } else {
            Err(no_type(types))
        }
    }

    /// The event as the parts of a record.
    pub fn encode(&self) -> EncodedEvent {
        EncodedEvent {
            kind: self.kind.byte(),
            meta: vec![Self::VERSION],
            payload: self.json.clone().into_bytes(),
            labels: Vec::new(),
        }
    }

    /// Reads an event from the parts of a record.
    ///
    /// # Errors
    /// [`UnsupportedVersion`](crate::ErrorKind::UnsupportedVersion) for a version that this build doesn't know,
    /// [`Damaged`](crate::ErrorKind::Damaged) for a payload of another shape.
    pub fn decode(meta: &[u8], payload: &Bytes) -> Result<Self> {
        let json = match Self::open(meta, payload)? {
            Cow::Borrowed(_) => payload.clone(),
            Cow::Owned(json) => json.into(),
        };
        Self::glance(RawJson::from_stored(json)?)
            .map_err(|error| Error::damaged(format!("a flow event can't be read: {error}")))
    }

    fn glance(json: RawJson) -> Result<Self> {
        let Head {
            event_type,
            node_id,
            run_id,
            timestamp,
        } = json.to_value()?;
        let kind = FlowEventKind::of_type(&event_type).ok_or_else(|| no_type(&event_type))?;
        Ok(Self {
            kind,
            event_type,
            node_id,
            run_id,
            timestamp,
            json,
        })
    }
}

fn no_type(event_type: &str) -> Error {
    let event_type: String = event_type.chars().take(CHAT_ID_CHARS_MAX).collect();
    Error::invalid(format!(
        "no event has the type {event_type:?}; known are flow:*, node:*, edge:*, command:received and {}",
        AgentEvent::TYPES.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn a_time_with_a_fraction_is_rounded_down_and_kept_as_it_is() {
        for kind in AgentEvent::TYPES {
            let text = format!(
                r#"{{"type":"{kind}","nodeId":"n","runId":"r","timestamp":1795899331811.9398,"sessionId":"s","prompt":"p","content":"Hi","toolName":"t","toolInput":{{}},"toolOutput":1,"errorType":"e","message":"m","result":"x","usage":{{"inputTokens":1,"outputTokens":2}},"durationMs":1.5,"numTurns":1}}"#
            );
            let event = RuntimeEvent::parse(text.as_str()).unwrap();
            assert_eq!(event.timestamp, Some(1_795_899_331_811), "{kind}");
            assert_eq!(event.json.as_str(), text);
            let typed = event.agent().unwrap().to_json().unwrap();
            assert!(typed.as_str().contains(r#""timestamp":1795899331811,"#));
        }
        let node = r#"{"type":"node:started","nodeId":"n","timestamp":5.5}"#;
        assert_eq!(RuntimeEvent::parse(node).unwrap().timestamp, Some(5));
        for wrong in ["-1.5", "-1", "1e300", r#""now""#] {
            let text = format!(
                r#"{{"type":"agent:text","nodeId":"n","runId":"r","timestamp":{wrong},"content":"Hi"}}"#
            );
            let error = RuntimeEvent::parse(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().contains("milliseconds"), "{error}");
        }
    }

    #[test]
    fn an_agent_event_that_lacks_a_field_is_told_which_and_what_it_is() {
        let refused = |json: &str| {
            let error = RuntimeEvent::parse(json).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            error.to_string()
        };
        let message =
            refused(r#"{"type":"agent:text","nodeId":"plan","timestamp":1,"content":"Hi"}"#);
        assert!(
            message.starts_with("the agent:text event has no `runId`: ")
                && message.contains("which execution"),
            "{message}"
        );
        let message = refused(r#"{"type":"agent:text:delta","nodeId":"plan","content":"Hi"}"#);
        assert!(
            message.contains("has no `runId` and no `timestamp`"),
            "{message}"
        );
        let message =
            refused(r#"{"type":"agent:text","nodeId":"plan","runId":"r1","timestamp":1}"#);
        assert!(
            message.contains("the agent:text event") && message.contains("`content`"),
            "{message}"
        );
        let node = RuntimeEvent::parse(r#"{"type":"node:started","nodeId":"plan"}"#).unwrap();
        let message = node.agent().unwrap_err().to_string();
        assert!(message.contains("the node:started event"), "{message}");
    }
}
