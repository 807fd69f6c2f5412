//! A session as a chat, and back.

use super::{
    chat::{Chat, ChatFields, with_fields_of},
    view::Session,
};

impl Chat {
    /// A session as a chat; `id` is the store's number of it.
    pub fn of(session: &Session, id: u64) -> Self {
        let chat_id = session
            .name
            .clone()
            .unwrap_or_else(|| session.id.to_string());
        let fields = session.chat.as_deref().cloned().unwrap_or_default();
        with_fields_of!(fields => Self {
            id: Some(id),
            chat_id,
            title: session.title.clone(),
            status: session.status,
            metadata: session.metadata.clone(),
            created_at_ms: session.created_at_ms,
            updated_at_ms: session.updated_at_ms,
        })
    }

    /// Writes the chat's fields into its session; ids and the time of creation stay.
    pub fn write_to(self, session: &mut Session) {
        session.title = self.title.filter(|title| !title.is_empty());
        session.status = self.status;
        session.metadata = self.metadata;
        session.updated_at_ms = self.updated_at_ms;
        let before = session.chat.take();
        let (open_requests, reordered) = before.map_or_else(Default::default, |chat| {
            let ChatFields {
                open_requests,
                reordered,
                ..
            } = *chat;
            (open_requests, reordered)
        });
        session.chat = Some(Box::new(
            with_fields_of!(self => ChatFields { open_requests, reordered }),
        ));
    }
}
