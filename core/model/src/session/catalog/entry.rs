//! [`SessionEntry`]: a session as the catalog has it.

use super::instances::List;
use crate::{Chat, ChatOrder, Session};

/// A session as the catalog has it.
#[derive(Clone, Debug)]
pub(super) struct SessionEntry {
    /// Its place among the items.
    pub(super) place: u32,
    pub(super) session: Session,
    /// The sequence of its creation.
    pub(super) created: u64,
    pub(super) instances: List,
}

impl SessionEntry {
    pub(super) fn chat(&self) -> Chat {
        Chat::of(&self.session, self.created)
    }

    /// Where it is in an order, which goes from the highest to the lowest; of those alike the newest comes first.
    pub(super) fn rank(&self, order: ChatOrder) -> u64 {
        let chat = self.session.chat.as_deref();
        match order {
            ChatOrder::Created => 0,
            ChatOrder::LastMessage => chat
                .and_then(|chat| chat.last_message_at_ms)
                .unwrap_or(self.session.created_at_ms),
            // The lowest comes first: all bits but that of the sign are turned, so that it is the highest.
            ChatOrder::Sort => !(chat.map_or(0, |chat| chat.sort).cast_unsigned() ^ (1 << 63)),
        }
    }
}
