//! The records of the catalog's events: what tells of a session's people and subject stands in records of its own.

use super::{CatalogEvent, Chat, Session, SessionDescription};
use crate::{EncodedEvent, Result, Updates};

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
    use crate::{Catalog, Checkpointed, RawJson, SessionId, SessionStatus};

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
