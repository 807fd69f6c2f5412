//! What the catalog makes of events that follow from lost ones.

use super::Catalog;
use crate::{CatalogEvent, Session, SessionId, SessionStatus};

/// The title of a session whose creation is lost, until an event gives it another.
const LOST_SESSION_TITLE: &str = "(its creation is lost)";

impl Catalog {
    /// Makes a session whose creation is lost, if the event is of one, so that what belongs to it can be found; and ends one
    /// whose deletion is lost, if the event gives its name to another: a name is free again only then.
    pub(super) fn make_up_for_lost(
        &mut self,
        sequence: u64,
        event: &CatalogEvent,
    ) -> Result<(), String> {
        let (id, at_ms) = match event {
            CatalogEvent::SessionCreated(session) => {
                let name = session.name.as_deref();
                if let Some(before) = name.and_then(|name| self.session_named(name)) {
                    let before = before.id;
                    let at_ms = session.created_at_ms;
                    self.change(before, |session| {
                        (session.updated_at_ms, session.deleted_at_ms) = (at_ms, Some(at_ms));
                        Ok(())
                    })?;
                }
                return Ok(());
            }
            // What is deleted needn't be made up.
            CatalogEvent::SessionDeleted { .. } => return Ok(()),
            CatalogEvent::InstanceCreated(instance) => {
                (instance.session_id, instance.created_at_ms)
            }
            CatalogEvent::SessionUpdated { id, at_ms, .. }
            | CatalogEvent::SessionRestored { id, at_ms }
            | CatalogEvent::ChatUpdated { id, at_ms, .. }
            | CatalogEvent::ChatTouched { id, at_ms } => (*id, *at_ms),
            CatalogEvent::SessionDescribed(description) => (description.id, 0),
            CatalogEvent::ChatReordered { id } | CatalogEvent::ChatRequestChanged { id, .. } => {
                (*id, 0)
            }
        };
        match self.session(id) {
            None => {
                self.add_session(sequence, Session::lost(id, at_ms))?;
                self.made_up.insert(id);
            }
            Some(session) if session.is_lost() || self.made_up.contains(&id) => {
                // A description has no time.
                if session.created_at_ms == 0 {
                    self.change(id, |session| {
                        (session.created_at_ms, session.updated_at_ms) = (at_ms, at_ms);
                        Ok(())
                    })?;
                }
            }
            Some(_) => return Ok(()),
        }
        // A chat may be a copy, or have been reordered before.
        match event {
            CatalogEvent::ChatUpdated { .. }
            | CatalogEvent::ChatTouched { .. }
            | CatalogEvent::ChatRequestChanged { .. } => self
                .change(id, |session| {
                    session.chat.get_or_insert_default().reordered = true;
                    Ok(())
                })
                .map(drop),
            _ => Ok(()),
        }
    }
}

impl Session {
    /// A session whose creation is lost, as it is listed, until an event gives it another title.
    pub fn lost(id: SessionId, at_ms: u64) -> Self {
        Self {
            id,
            name: None,
            project: None,
            title: Some(LOST_SESSION_TITLE.to_owned()),
            status: SessionStatus::Active,
            metadata: None,
            copied_from: None,
            created_at_ms: at_ms,
            updated_at_ms: at_ms,
            deleted_at_ms: None,
            chat: None,
        }
    }

    /// Whether it was made by [`lost`](Self::lost).
    pub(super) fn is_lost(&self) -> bool {
        self.name.is_none() && self.title.as_deref() == Some(LOST_SESSION_TITLE)
    }
}
