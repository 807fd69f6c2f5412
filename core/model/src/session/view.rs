//! [`Session`] and [`AgentInstance`]: what a context belongs to.

use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

use super::{chat::ChatFields, status::SessionStatus};
use crate::{
    Error, InstanceId, RawJson, Result, SessionId,
    check::{check_length, given_time},
    limits::{
        AGENT_NAME_BYTES_MAX, PROJECT_BYTES_MAX, SESSION_METADATA_BYTES_MAX,
        SESSION_NAME_BYTES_MAX, TITLE_BYTES_MAX,
    },
};

/// One conversation or task, with the agent instances that worked on it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// Its name elsewhere, such as `claude-code:4f1d…`: unique among the store's sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The project it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Its title, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Whether it is in use.
    #[serde(default)]
    pub status: SessionStatus,
    /// Metadata from its source, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<RawJson>,
    /// The session it was copied from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copied_from: Option<SessionId>,
    /// When it was made: milliseconds since 1970-01-01 UTC.
    pub created_at_ms: u64,
    /// When it was last changed: milliseconds since 1970-01-01 UTC. Appending to a context doesn't change it.
    pub updated_at_ms: u64,
    /// When it was deleted, softly: its contexts can still be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_at_ms: Option<u64>,
    /// What it has as a chat; [`Chat`](crate::Chat) is the whole view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat: Option<Box<ChatFields>>,
}

impl Session {
    /// Checks what a caller may have put into a session.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for an empty name,
    /// [`TooLarge`](crate::ErrorKind::TooLarge) for a field over its limit.
    pub fn check(&self) -> Result<()> {
        if self.name.as_deref() == Some("") {
            return Err(Error::invalid(
                "the session's name is empty; leave it out, or give one",
            ));
        }
        given_time("the session's `created_at_ms`", self.created_at_ms)?;
        check_length(
            "the session's name",
            self.name.as_deref(),
            SESSION_NAME_BYTES_MAX,
        )?;
        check_length(
            "the session's title",
            self.title.as_deref(),
            TITLE_BYTES_MAX,
        )?;
        check_length(
            "the session's project",
            self.project.as_deref(),
            PROJECT_BYTES_MAX,
        )?;
        check_length(
            "the session's metadata",
            self.metadata.as_ref().map(RawJson::as_str),
            SESSION_METADATA_BYTES_MAX,
        )?;
        self.chat.as_deref().map_or(Ok(()), ChatFields::check)
    }
}

// The order of its fields is that of a checkpoint.
/// One agent at work in a session, with a context of its own.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, Encode, Decode)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AgentInstance {
    /// Its id, and that of the stream its context is kept in.
    pub id: InstanceId,
    /// The session it works in.
    pub session_id: SessionId,
    /// The agent's name.
    pub agent_name: String,
    /// The instance that spawned it; `None` for a root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_instance_id: Option<InstanceId>,
    /// When it was made: milliseconds since 1970-01-01 UTC.
    pub created_at_ms: u64,
}

impl AgentInstance {
    /// Checks what a caller may have put into an instance.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for an empty agent name,
    /// [`TooLarge`](crate::ErrorKind::TooLarge) for one over its limit.
    pub fn check(&self) -> Result<()> {
        if self.agent_name.is_empty() {
            return Err(Error::invalid("the agent's name is empty; give one"));
        }
        check_length(
            "the agent's name",
            Some(&self.agent_name),
            AGENT_NAME_BYTES_MAX,
        )
    }
}
