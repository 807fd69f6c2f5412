//! [`CatalogEvent`]: the events of sessions and instances.

use serde::{Deserialize, Serialize};

use super::{AgentInstance, Session, SessionDescription, SessionStatus};
use crate::{
    OpenRequest, RawJson, Result, SessionId, Updates,
    encoding::{Event, events},
};

events! {
    /// One entry of the catalog.
    pub enum CatalogEvent {
        /// A session was made.
        SESSION_CREATED => SessionCreated(session: Session),
        /// A session was changed.
        SESSION_UPDATED => SessionUpdated {
            /// The session.
            id: SessionId,
            /// When: milliseconds since 1970-01-01 UTC.
            at_ms: u64,
            /// What changed.
            changes: SessionChanges,
        },
        /// A session was deleted, softly.
        SESSION_DELETED => SessionDeleted {
            /// The session.
            id: SessionId,
            /// When: milliseconds since 1970-01-01 UTC.
            at_ms: u64,
        },
        /// A deleted session was restored.
        SESSION_RESTORED => SessionRestored {
            /// The session.
            id: SessionId,
            /// When: milliseconds since 1970-01-01 UTC.
            at_ms: u64,
        },
        /// What tells of a session's people and subject was written, all of it anew.
        SESSION_DESCRIBED => SessionDescribed(description: SessionDescription),
        /// An agent instance was made.
        INSTANCE_CREATED => InstanceCreated(instance: AgentInstance),
        /// A session was changed as a chat.
        CHAT_UPDATED => ChatUpdated {
            /// The chat's session.
            id: SessionId,
            /// When: milliseconds since 1970-01-01 UTC.
            at_ms: u64,
            /// The new values, by the names of a [`Chat`](crate::Chat)'s fields.
            updates: Updates,
        },
        /// A message was saved in a chat.
        CHAT_TOUCHED => ChatTouched {
            /// The chat's session.
            id: SessionId,
            /// When its newest message was made: milliseconds since 1970-01-01 UTC; 0 where only steps were saved.
            at_ms: u64,
        },
        /// In a chat the order of the messages is not that in which they were saved any more: one was given a sequence that isn't
        /// after those before it.
        CHAT_REORDERED => ChatReordered {
            /// The chat's session.
            id: SessionId,
        },
        /// A request of a chat was begun, or has ended.
        CHAT_REQUEST_CHANGED => ChatRequestChanged {
            /// The chat's session.
            id: SessionId,
            /// The request, with its new status.
            request: OpenRequest,
        },
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

/// New values for some fields of a session; `None` leaves a field unchanged.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionChanges {
    /// The title; an empty one removes the title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<SessionStatus>,
    /// The metadata, replaced as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<RawJson>,
}
