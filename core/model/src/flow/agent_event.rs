//! [`AgentEvent`]: the eight events of an agent at work in a node.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{RawJson, time};

/// An event emitted by an agent in a node. `timestamp` is milliseconds since 1970-01-01 UTC, of which a fraction is
/// rounded down; `run_id` is which execution of the node it is.
///
/// ```
/// use runlog_model::AgentEvent;
///
/// let json = r#"{"type":"agent:text:delta","nodeId":"task","runId":"r1","timestamp":1,"content":"Hi"}"#;
/// let event: AgentEvent = serde_json::from_str(json).unwrap();
/// assert!(matches!(&event, AgentEvent::TextDelta { content, .. } if content == "Hi"));
/// assert_eq!(serde_json::to_string(&event).unwrap(), json);
/// ```
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum AgentEvent {
    /// The agent begins.
    #[serde(rename = "agent:start")]
    Start {
        /// The node.
        node_id: String,
        /// Which execution of it.
        run_id: String,
        /// When.
        #[serde(deserialize_with = "time::read_ms")]
        timestamp: u64,
        /// The agent's own session, to go on with later.
        session_id: String,
        /// The model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// The whole prompt: a JSON string, or an array of messages.
        prompt: serde_json::Value,
    },
    /// A piece of thinking, as it streams.
    #[serde(rename = "agent:thinking:delta")]
    ThinkingDelta {
        /// The node.
        node_id: String,
        /// Which execution of it.
        run_id: String,
        /// When.
        #[serde(deserialize_with = "time::read_ms")]
        timestamp: u64,
        /// The piece.
        content: String,
        /// Its tokens.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token_count: Option<u64>,
    },
    /// A whole block of thinking, where nothing streams.
    #[serde(rename = "agent:thinking")]
    Thinking {
        /// The node.
        node_id: String,
        /// Which execution of it.
        run_id: String,
        /// When.
        #[serde(deserialize_with = "time::read_ms")]
        timestamp: u64,
        /// The block.
        content: String,
        /// Its tokens.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token_count: Option<u64>,
    },
    /// A piece of text, as it streams.
    #[serde(rename = "agent:text:delta")]
    TextDelta {
        /// The node.
        node_id: String,
        /// Which execution of it.
        run_id: String,
        /// When.
        #[serde(deserialize_with = "time::read_ms")]
        timestamp: u64,
        /// The piece.
        content: String,
    },
    /// A whole block of text, where nothing streams.
    #[serde(rename = "agent:text")]
    Text {
        /// The node.
        node_id: String,
        /// Which execution of it.
        run_id: String,
        /// When.
        #[serde(deserialize_with = "time::read_ms")]
        timestamp: u64,
        /// The block.
        content: String,
    },
    /// The agent called a tool.
    #[serde(rename = "agent:tool")]
    Tool {
        /// The node.
        node_id: String,
        /// Which execution of it.
        run_id: String,
        /// When.
        #[serde(deserialize_with = "time::read_ms")]
        timestamp: u64,
        /// The tool.
        tool_name: String,
        /// The whole input.
        tool_input: serde_json::Value,
        /// The whole output.
        tool_output: serde_json::Value,
        /// How long it took, in milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        duration_ms: Option<f64>,
        /// Why it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// An error; the flow's policy decides whether it ends the flow.
    #[serde(rename = "agent:error")]
    Error {
        /// The node.
        node_id: String,
        /// Which execution of it.
        run_id: String,
        /// When.
        #[serde(deserialize_with = "time::read_ms")]
        timestamp: u64,
        /// Its kind, such as `error_max_turns`.
        error_type: String,
        /// What it says to people.
        message: String,
        /// Details from the agent's library.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        details: Option<serde_json::Value>,
    },
    /// The agent finished.
    #[serde(rename = "agent:complete")]
    Complete {
        /// The node.
        node_id: String,
        /// Which execution of it.
        run_id: String,
        /// When.
        #[serde(deserialize_with = "time::read_ms")]
        timestamp: u64,
        /// The final text.
        result: String,
        /// The output by its schema, where there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        structured_output: Option<serde_json::Value>,
        /// The tokens it took.
        usage: AgentUsage,
        /// The tokens by model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model_usage: Option<BTreeMap<String, ModelUsage>>,
        /// What it cost, in US dollars.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        total_cost_usd: Option<f64>,
        /// How long it took, in milliseconds.
        duration_ms: f64,
        /// How many turns it took.
        num_turns: u64,
    },
}

/// The tokens an agent took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentUsage {
    /// Read.
    pub input_tokens: u64,
    /// Written.
    pub output_tokens: u64,
    /// Written to the provider's cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_creation_input_tokens: Option<u64>,
    /// Read from the provider's cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read_input_tokens: Option<u64>,
}

/// The tokens of one model.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelUsage {
    /// Read.
    pub input_tokens: u64,
    /// Written.
    pub output_tokens: u64,
}

impl AgentEvent {
    /// The `type` of every agent event, in the order of the variants.
    pub const TYPES: [&'static str; 8] = [
        "agent:start",
        "agent:thinking:delta",
        "agent:thinking",
        "agent:text:delta",
        "agent:text",
        "agent:tool",
        "agent:error",
        "agent:complete",
    ];

    /// The event as JSON.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a number that JSON has no form for.
    pub fn to_json(&self) -> crate::Result<RawJson> {
        RawJson::from_value(self)
    }
}
