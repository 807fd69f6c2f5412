//! [`CatalogEvent`]: what happens to sessions and instances.

use serde::{Deserialize, Serialize};

use super::{AgentInstance, Session, SessionStatus};
use crate::{
    RawJson, Result, SessionId, Updates,
    encoding::{Event, events},
};

events! {
    /// One entry of the catalog.
    pub enum CatalogEvent {
        /// A session was made.
        SESSION_CREATED => SessionCreated(session: Session),
        /// A session was changed.
        SESSION_UPDATED => SessionUpdated(updated: SessionUpdated),
        /// A session was deleted, softly.
        SESSION_DELETED => SessionDeleted(deleted: SessionDeleted),
        /// An agent instance was made.
        INSTANCE_CREATED => InstanceCreated(instance: AgentInstance),
        /// A session was changed as a chat.
        CHAT_UPDATED => ChatUpdated(updated: ChatUpdated),
        /// A message was saved in a chat.
        CHAT_TOUCHED => ChatTouched(touched: ChatTouched),
    }
}

impl Event for CatalogEvent {
    const NAME: &'static str = "a catalog event";

    fn check(&self) -> Result<()> {
        match self {
            Self::SessionCreated(session) => session.check(),
            Self::InstanceCreated(instance) => instance.check(),
            _ => Ok(()),
        }
    }
}

/// What changed of a chat.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ChatUpdated {
    /// The chat's session.
    pub id: SessionId,
    /// When: milliseconds since 1970-01-01 UTC.
    pub at_ms: u64,
    /// The new values, by the names of a [`Chat`](crate::Chat)'s fields.
    pub updates: Updates,
}

/// That a message was saved in a chat.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ChatTouched {
    /// The chat's session.
    pub id: SessionId,
    /// When its newest message was made: milliseconds since 1970-01-01 UTC; 0 where only steps were saved.
    pub at_ms: u64,
}

/// What changed of a session; what is `None` stays as it was.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SessionUpdated {
    /// The session.
    pub id: SessionId,
    /// When: milliseconds since 1970-01-01 UTC.
    pub at_ms: u64,
    /// What changed.
    pub changes: SessionChanges,
}

/// New values for some fields of a session; what is `None` stays as it was.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SessionChanges {
    /// The title; an empty one takes the title away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<SessionStatus>,
    /// The metadata, replaced as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<RawJson>,
}

/// That a session was deleted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SessionDeleted {
    /// The session.
    pub id: SessionId,
    /// When: milliseconds since 1970-01-01 UTC.
    pub at_ms: u64,
}
