//! [`Chats`]: the blocking [`crate::chats::Chats`].

use std::{
    fmt,
    ops::{Deref, DerefMut},
};

use runlog_model::{
    Chat, ChatFilter, ChatList, ChatMessage, ChatRequest, MessageFilter, RawJson, SessionId, Step,
    Updates,
};

use crate::{
    Result,
    chats::{
        ImportOptions, ImportReport, ListMessages, ListRequests, ListSteps, NewRequest,
        RequestDraft, RequestEnd, Resumption, SearchMessages, Table, UnfinishedRequest,
    },
    pages::Page,
};

/// The chats of a store: sessions as their users see them, with messages and steps.
///
/// ```
/// use runlog::{
///     ErrorKind, RawJson,
///     blocking::Store,
///     chats::{Chat, ChatFilter, ChatMessage, ChatRole, Updates},
/// };
///
/// let chats = Store::in_memory().chats();
/// let new = Chat { chat_id: "chat_123".into(), created_by: Some("user123".into()), ..Chat::new("travel") };
/// chats.create_chat(new)?;
/// chats.update_chat("chat_123", &Updates::new().with("title", RawJson::string("Trip to Oslo")))?;
/// let saved = chats.save_messages("chat_123", vec![ChatMessage::text(ChatRole::User, "By train?")])?;
/// assert_eq!(saved[0].sequence, 1);
///
/// let filter = ChatFilter { user_id: Some("user123".into()), keywords: Some("oslo".into()), ..ChatFilter::default() };
/// assert_eq!(chats.list_chats(&filter)?.total, 1);
/// chats.delete_chat("chat_123")?;
/// assert_eq!(chats.get_chat("chat_123")?, None);
/// # Ok::<(), runlog::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Chats {
    inner: crate::chats::Chats,
}

/// An active request: the user's message is written at its entry, everything else as one atomic batch at its exit. See
/// [`crate::chats::RequestBuffer`].
///
/// ```
/// use runlog::{
///     RawJson,
///     blocking::Store,
///     chats::{Chat, ChatMessage, ChatRole, NewRequest, StepStatus, StepType},
/// };
///
/// let chats = Store::in_memory().chats();
/// let chat = chats.create_chat(Chat::new("travel"))?;
/// let asked = ChatMessage::text(ChatRole::User, "Oslo, please.");
/// let mut request = chats.begin_request(&chat.chat_id, NewRequest::new("travel"), asked)?;
/// request.start_step(StepType::Llm, RawJson::parse(r#"{"messages":[]}"#)?)?;
/// drop(request); // Whatever ends it, what it has is saved.
/// let step = chats.get_last_incomplete_step(&chat.chat_id)?.unwrap();
/// assert_eq!(step.status, StepStatus::Interrupted);
/// # Ok::<(), runlog::Error>(())
/// ```
pub struct RequestBuffer {
    inner: crate::chats::RequestBuffer,
}

waiting! {
    Chats: crate::chats::Chats;

    /// Creates a chat. The store fills in empty fields (id, times). Durable when it returns.
    fn create_chat(&self, chat: Chat) -> Result<Chat>;

    /// The chat with this id.
    fn get_chat(&self, chat_id: &str) -> Result<Option<Chat>>;

    /// The session that a chat is, by which it is copied, truncated, erased and exported.
    fn session_id(&self, chat_id: &str) -> Result<SessionId>;

    /// Changes fields of a chat. Durable when it returns.
    fn update_chat(&self, chat_id: &str, updates: &Updates) -> Result<Chat>;

    /// Soft-deletes a chat: it is no longer found or listed, and can't be written to; its events stay in the log.
    fn delete_chat(&self, chat_id: &str) -> Result<()>;

    /// Restores a deleted chat, as it was. If several had the id, the one deleted last. Durable when it returns.
    fn restore_chat(&self, chat_id: &str) -> Result<Chat>;

    /// One page of chats, by default the one with the latest message first. Paged by number and size, or by cursor;
    /// with a cursor, chats created meanwhile don't shift the pages.
    fn list_chats(&self, filter: &ChatFilter) -> Result<ChatList>;

    /// Saves messages: all of them or none. The store fills in empty fields (id, chat, sequence, times). Durable when
    /// it returns.
    fn save_messages(&self, chat_id: &str, messages: Vec<ChatMessage>) -> Result<Vec<ChatMessage>>;

    /// As [`save_messages`](Self::save_messages), if the chat's last message is the one that the caller takes for it: of two
    /// that answer it at the same time, one saves.
    fn save_messages_after(
        &self,
        chat_id: &str,
        messages: Vec<ChatMessage>,
        after: &str,
    ) -> Result<Vec<ChatMessage>>;

    /// The messages of a chat that match a filter, in the chat's order.
    fn get_messages(&self, chat_id: &str, filter: &MessageFilter) -> Result<Vec<ChatMessage>>;

    /// One page of a chat's messages, the oldest or the newest first.
    fn list_messages(&self, chat_id: &str, options: &ListMessages) -> Result<Page<ChatMessage>>;

    /// How many messages of a chat match a filter, regardless of its limit and offset.
    fn count_messages(&self, chat_id: &str, filter: &MessageFilter) -> Result<usize>;

    /// One page of the messages that have a text: those of the chat that was made last first, and of each chat the newest first.
    fn search_messages(&self, options: &SearchMessages) -> Result<Page<ChatMessage>>;

    /// Changes fields of a message. Durable when it returns.
    fn update_message(&self, message_id: &str, updates: &Updates) -> Result<ChatMessage>;

    /// Removes the content of a message, in all its versions, from every read. The message is then deleted, and no
    /// import restores it; its sequence isn't reused, and its bytes stay on disk.
    fn redact_message(&self, message_id: &str, reason: &str) -> Result<()>;

    /// Deletes messages of a chat: all of them or none. Their events stay in the log. Durable when it returns.
    fn delete_messages(&self, chat_id: &str, message_ids: &[&str]) -> Result<()>;

    /// Saves steps of one chat: all of them or none. Each names its chat. The store fills in empty fields (id,
    /// sequence, times). Durable when it returns.
    fn save_steps(&self, steps: Vec<Step>) -> Result<Vec<Step>>;

    /// Changes fields of a step, for example its status. Durable when it returns.
    fn update_step(&self, step_id: &str, updates: &Updates) -> Result<Step>;

    /// One page of the unfinished requests of the store, the newest first.
    fn list_requests(&self, options: &ListRequests) -> Result<Page<UnfinishedRequest>>;

    /// The requests of a chat, in the order in which they were begun: how each ended, and what it took.
    fn get_requests(&self, chat_id: &str) -> Result<Vec<ChatRequest>>;

    /// The record of a request, in any chat.
    fn get_request(&self, request_id: &str) -> Result<Option<ChatRequest>>;

    /// One page of a chat's steps, in the order in which they were saved, of all its requests.
    fn list_steps(&self, options: &ListSteps) -> Result<Page<Step>>;

    /// The steps of a request, in its order.
    fn get_steps(&self, request_id: &str) -> Result<Vec<Step>>;

    /// The chat's last step that isn't completed; `None` when there is nothing to resume.
    fn get_last_incomplete_step(&self, chat_id: &str) -> Result<Option<Step>>;

    /// The steps of a node of the call stack, in their order.
    fn get_steps_by_stack_id(&self, stack_id: &str) -> Result<Vec<Step>>;

    /// The nodes of the call stack from the root to this one.
    fn get_stack_path(&self, stack_id: &str) -> Result<Vec<String>>;

    /// Begins a request: the user's message is durable when it returns. The message may have any type.
    fn begin_request(
        &self,
        chat_id: &str,
        new: NewRequest,
        message: ChatMessage,
    ) -> Result<RequestBuffer>;

    /// Begins a request for a message of the user that the chat has: one whose request was never answered, or one that is
    /// answered anew.
    fn answer_again(
        &self,
        chat_id: &str,
        new: NewRequest,
        message_id: &str,
    ) -> Result<RequestBuffer>;

    /// How to resume the chat's last interrupted request: from its last step that isn't completed and wasn't retried
    /// successfully. `None` when there is nothing to resume.
    fn resume(&self, chat_id: &str) -> Result<Option<Resumption>>;

    /// As [`resume`](Self::resume), for a particular request, for example an older one. `None` when it is completed or
    /// was dismissed.
    fn resume_request(&self, request_id: &str) -> Result<Option<Resumption>>;

    /// As [`resume_request`](Self::resume_request), of a request of this chat: an import may have brought another chat with a
    /// request of the same id.
    fn resume_request_in(&self, chat_id: &str, request_id: &str) -> Result<Option<Resumption>>;

    /// Marks an interrupted request as not to be resumed any more, for example because the user asked again. Its steps
    /// keep their status, and get the time of the dismissal.
    fn dismiss(&self, request_id: &str) -> Result<Vec<Step>>;

    /// The buffer of a resumed request: its space is restored, its stack rebuilt from the root to the node of the
    /// interrupted step. Nothing is written at its entry.
    fn go_on(&self, resumption: &Resumption) -> Result<RequestBuffer>;

    /// Records that the resumed assistant has returned with an output: the interrupted step is completed, and the
    /// caller's delegate step that waits for it is completed with `{"response": output}`; both or none.
    fn complete_resumed(&self, resumption: &Resumption, output: &RawJson) -> Result<Vec<Step>>;

    /// Records that the assistant of a node has returned with an output: the delegate step that waits for it is
    /// completed with `{"response": output}`. For the levels above the one that was resumed. Durable when it returns.
    fn complete_delegate(&self, chat_id: &str, stack_id: &str, output: &RawJson) -> Result<Step>;

    /// Imports a table of a product that stores its chats in a database, one JSON object per line.
    fn import_table(&self, table: Table, lines: &str, options: ImportOptions) -> Result<ImportReport>;
}

waiting! {
    RequestBuffer: crate::chats::RequestBuffer;

    /// Adds a message, and returns its id. Chat, request and assistant are filled in if they are left out.
    now fn send(&mut self, message: ChatMessage) -> Result<String>;

    /// Writes everything buffered so far as one atomic batch, with unfinished steps as `running`: a crash then loses
    /// only what comes later. Durable when it returns.
    fn flush(&mut self) -> Result<()>;

    /// Writes all messages and steps as one atomic batch, and gives running steps the final status of the request,
    /// except that a delegate step that waits for a running step stays `running`.
    fn finish(&mut self, end: RequestEnd) -> Result<()>;
}

impl Deref for RequestBuffer {
    type Target = RequestDraft;

    fn deref(&self) -> &RequestDraft {
        &self.inner
    }
}

impl DerefMut for RequestBuffer {
    fn deref_mut(&mut self) -> &mut RequestDraft {
        &mut self.inner
    }
}

impl fmt::Debug for RequestBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
