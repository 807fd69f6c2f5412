//! [`SessionDescription`]: what is known of a session's people and subject, apart from all else that is listed of it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Session;
use crate::{RawJson, SessionId};

/// What tells of a session's people and subject: a title often says what was talked about, metadata may say who did.
///
/// It is kept in records of its own, right behind the entry of the session that it belongs to. So it can be erased like what was
/// said, and the session is listed still: a redacted record of this kind, or an empty one, describes nothing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SessionDescription {
    /// The session.
    pub id: SessionId,
    /// As [`Session::title`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// As [`Session::metadata`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<RawJson>,
    /// As [`Chat::created_by`](crate::Chat::created_by).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    /// As [`Chat::updated_by`](crate::Chat::updated_by).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_by: Option<String>,
    /// As [`Chat::extra`](crate::Chat::extra).
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

impl SessionDescription {
    /// One that says nothing.
    pub fn empty(id: SessionId) -> Self {
        Self {
            id,
            title: None,
            metadata: None,
            created_by: None,
            updated_by: None,
            extra: Map::new(),
        }
    }

    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::empty(self.id)
    }
}

impl Session {
    /// What tells of its people and its subject.
    pub fn description(&self) -> SessionDescription {
        let chat = self.chat.as_deref();
        SessionDescription {
            id: self.id,
            title: self.title.clone(),
            metadata: self.metadata.clone(),
            created_by: chat.and_then(|chat| chat.created_by.clone()),
            updated_by: chat.and_then(|chat| chat.updated_by.clone()),
            extra: chat.map(|chat| chat.extra.clone()).unwrap_or_default(),
        }
    }

    /// Replaces what tells of its people and its subject.
    pub fn describe(&mut self, description: SessionDescription) {
        let SessionDescription {
            id: _,
            title,
            metadata,
            created_by,
            updated_by,
            extra,
        } = description;
        (self.title, self.metadata) = (title, metadata);
        // Only a chat has the others, and a session that is none stays none.
        let is_of_chat = created_by.is_some() || updated_by.is_some() || !extra.is_empty();
        if is_of_chat || self.chat.is_some() {
            let chat = self.chat.get_or_insert_default();
            (chat.created_by, chat.updated_by, chat.extra) = (created_by, updated_by, extra);
        }
    }
}
