//! [`SessionDescription`]: what is known of a session's people and subject, apart from all else that is listed of it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{CatalogEvent, Chat, Session};
use crate::{EncodedEvent, RawJson, Result, SessionId, Updates};

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
    /// As [`Chat::created_by`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    /// As [`Chat::updated_by`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_by: Option<String>,
    /// As [`Chat::extra`].
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

impl CatalogEvent {
    /// The records of an event: of one that creates a session its description stands in a record of its own.
    ///
    /// # Errors
    /// As [`encode`](Self::encode).
    pub fn encode_all(&self) -> Result<Vec<EncodedEvent>> {
        let Self::SessionCreated(session) = self else {
            return Ok(vec![self.encode()?]);
        };
        // What is refused of a field is refused of the whole.
        session.check()?;
        let description = session.description();
        if description.is_empty() {
            return Ok(vec![self.encode()?]);
        }
        let mut bare = session.clone();
        bare.describe(SessionDescription::empty(session.id));
        Ok(vec![
            Self::SessionCreated(bare).encode()?,
            Self::SessionDescribed(description).encode()?,
        ])
    }

    /// The events of updates of a chat, which make this session of it.
    pub fn of_chat_updates(updated: &Session, at_ms: u64, updates: &Updates) -> Vec<Self> {
        let is_listed = |field: &str| Chat::NAMES.contains(&field) && !is_described(field);
        let (listed, described) = updates.clone().partition(is_listed);
        let mut events = vec![Self::ChatUpdated {
            id: updated.id,
            at_ms,
            updates: listed,
        }];
        if !described.is_empty() {
            events.push(Self::SessionDescribed(updated.description()));
        }
        events
    }
}

/// Whether a field of a chat that is known here belongs to its description.
fn is_described(field: &str) -> bool {
    ["title", "metadata", "created_by", "updated_by"].contains(&field)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Catalog, Checkpointed, SessionStatus};

    fn session() -> Session {
        let mut session = Session::lost(SessionId(uuid::Uuid::from_u128(1)), 1_000);
        session.title = Some("Oslo".into());
        session.metadata = Some(RawJson::parse(r#"{"user":"Ada"}"#).unwrap());
        session.status = SessionStatus::Archived;
        session
    }

    fn decoded(event: &EncodedEvent) -> CatalogEvent {
        CatalogEvent::decode(event.kind, &event.meta, &event.payload).unwrap()
    }

    fn text(events: &[EncodedEvent]) -> String {
        let texts = events
            .iter()
            .map(|event| String::from_utf8_lossy(&event.payload));
        texts.collect()
    }

    #[test]
    fn only_its_own_records_have_a_description() {
        let session = session();
        let records = CatalogEvent::SessionCreated(session.clone())
            .encode_all()
            .unwrap();
        assert!(!text(&records[..1]).contains("Oslo") && !text(&records[..1]).contains("Ada"));
        let mut catalog = Catalog::new();
        for (record, sequence) in records.iter().zip(1..) {
            catalog.apply(sequence, decoded(record)).unwrap();
        }
        assert_eq!(catalog.session(session.id), Some(&session));

        let updates =
            Updates::parse(r#"{"title":"Rome","sort":3,"mood":"good","mode":"plan"}"#).unwrap();
        let mut updated = session.clone();
        let chat = Chat::of(&session, 1).updated(&updates, 2_000).unwrap();
        chat.write_to(&mut updated);
        let events = CatalogEvent::of_chat_updates(&updated, 2_000, &updates);
        let records: Vec<_> = events.iter().map(|it| it.encode().unwrap()).collect();
        let listed = text(&records[..1]);
        assert!(
            !listed.contains("Rome") && !listed.contains("mood"),
            "{listed}"
        );
        for (record, sequence) in records.iter().zip(3..) {
            catalog.apply(sequence, decoded(record)).unwrap();
        }
        assert_eq!(catalog.session(session.id), Some(&updated));
    }

    #[test]
    fn updates_of_other_fields_write_no_description() {
        let updates = Updates::parse(r#"{"sort":3,"status":"archived"}"#).unwrap();
        let events = CatalogEvent::of_chat_updates(&session(), 2_000, &updates);
        assert_eq!(events.len(), 1);
    }
}
