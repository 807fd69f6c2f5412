//! [`Table`]: the tables that can be imported.

/// A table, one JSON object per line. Rows that exist already, or were deleted since, are skipped, so that an import
/// can be repeated. A line that can't be read is reported, and the others are imported. Unknown columns are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Table {
    /// `agent_chat`: chats. The columns of the owner, `__yao_created_by` and so on, become
    /// [`created_by`](runlog_model::Chat::created_by) and so on.
    Chat,
    /// `agent_history`, an older table of messages: `role` is kept, `content` becomes the props of a text message, `id`
    /// its id. The chats must exist. The rows of a chat are ordered by `created_at`, then by `id` where that is a
    /// number; one without a time goes with the row before it. So lines may be in any order within one import.
    History,
    /// `agent_message`, with the columns of a [`ChatMessage`](runlog_model::ChatMessage): ids, sequences and times are
    /// kept, and the row's own `id` is stored as `old_id`. A missing chat is created, with the first assistant and the
    /// first time among its rows: import `agent_chat` first if you have it. Deleted rows, and rows of deleted chats,
    /// are skipped. A line whose sequence another message of the chat has is reported, because the table doesn't define
    /// their order; [`save_messages`](crate::chats::Chats::save_messages) accepts such messages.
    Message,
    /// `agent_step`, with the columns of a [`Step`](runlog_model::Step); otherwise as `agent_message`.
    Step,
}

impl Table {
    /// Every table.
    pub const ALL: [Self; 4] = [Self::Chat, Self::History, Self::Message, Self::Step];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Chat => "agent_chat",
            Self::History => "agent_history",
            Self::Message => "agent_message",
            Self::Step => "agent_step",
        }
    }
}
