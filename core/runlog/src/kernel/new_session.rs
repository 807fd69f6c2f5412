//! [`NewSession`] and [`NewInstance`]: the parameters of a new session and of a new agent instance.

use runlog_model::{InstanceId, RawJson, SessionId};
use serde::Deserialize;

/// A session to make. Everything may be left out.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NewSession {
    /// Its id, where the caller has one already; else a fresh one.
    pub id: Option<SessionId>,
    /// Its name elsewhere, such as `claude-code:4f1d…`; unique among the store's sessions.
    pub name: Option<String>,
    /// The project it belongs to.
    pub project: Option<String>,
    /// Its title, for people.
    pub title: Option<String>,
    /// Whatever its source says of it, as JSON.
    pub metadata: Option<RawJson>,
    /// When it was made, where that isn't now: milliseconds since 1970-01-01 UTC.
    pub created_at_ms: Option<u64>,
}

impl NewSession {
    /// A session with a title.
    pub fn titled(title: impl Into<String>) -> Self {
        Self {
            title: Some(title.into()),
            ..Self::default()
        }
    }

    /// A session with an external name.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: Some(name.into()),
            ..Self::default()
        }
    }
}

/// An agent instance to make.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewInstance {
    /// The session it works in.
    pub session_id: SessionId,
    /// The agent's name.
    pub agent_name: String,
    /// The instance that spawned it.
    pub parent_instance_id: Option<InstanceId>,
    /// Its id, where the caller has one already; else a fresh one.
    pub id: Option<InstanceId>,
    /// When it was made, where that isn't now: milliseconds since 1970-01-01 UTC.
    pub created_at_ms: Option<u64>,
}

impl NewInstance {
    /// A root instance, made now.
    pub fn new(session_id: SessionId, agent_name: impl Into<String>) -> Self {
        Self {
            session_id,
            agent_name: agent_name.into(),
            parent_instance_id: None,
            id: None,
            created_at_ms: None,
        }
    }
}
