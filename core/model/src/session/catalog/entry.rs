//! [`SessionEntry`]: a session as the catalog has it.

use crate::{Chat, InstanceId, Session};

/// A session as the catalog has it.
#[derive(Clone, Debug)]
pub(super) struct SessionEntry {
    /// Its place among the items.
    pub(super) place: u32,
    pub(super) session: Session,
    /// The sequence of its creation.
    pub(super) created: u64,
    pub(super) instances: Vec<InstanceId>,
}

impl SessionEntry {
    pub(super) fn chat(&self) -> Chat {
        Chat::of(&self.session, self.created)
    }

    pub(super) fn sort(&self) -> i64 {
        self.session.chat.as_ref().map_or(0, |chat| chat.sort)
    }

    pub(super) fn last_message_at(&self) -> u64 {
        let at = self
            .session
            .chat
            .as_ref()
            .and_then(|chat| chat.last_message_at);
        at.map_or(self.session.created_at_ms, |at| at.0)
    }
}
