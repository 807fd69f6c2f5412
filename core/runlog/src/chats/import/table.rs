//! [`Table`]: which table is imported.

/// A table, one JSON object a line. What is there already, or was deleted since, is left as it is, so that an import can be
/// repeated; a line that can't be read is reported, and the others go on. Columns that aren't known are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Table {
    /// `agent_chat`: chats. The columns that say whose a chat is, `__yao_created_by` and so on, become
    /// [`created_by`](runlog_model::Chat::created_by) and so on.
    Chat,
    /// `agent_history`, an older table of messages: `role` stays, `content` becomes the props of a text message, `id` its
    /// id. The chats have to be there.
    History,
    /// `agent_message`, with the columns of a [`ChatMessage`](runlog_model::ChatMessage): ids, sequences and times stay, and
    /// the row's own `id` is kept as `old_id`. A chat that isn't there is made, with the assistant of its first row that has
    /// one, and its first time: import `agent_chat` first where there is one. A row that was deleted is passed over, and so
    /// is one of a chat that was deleted. Reported is also a line whose sequence another message of the chat has, since which
    /// of them comes first isn't told by the table; [`save_messages`](crate::chats::Chats::save_messages) takes such messages.
    Message,
    /// `agent_step`, with the columns of a [`Step`](runlog_model::Step); else as `agent_message`.
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
