//! [`Chats`]: [`crate::chats::Chats`] for callers that wait.

use std::{
    fmt,
    ops::{Deref, DerefMut},
};

use pollster::block_on;
use runlog_model::{
    Chat, ChatFilter, ChatList, ChatMessage, MessageFilter, RawJson, Step, Updates,
};

use super::Store;
use crate::{
    Page, Result,
    chats::{
        ImportOptions, ImportReport, ListSteps, NewRequest, RequestDraft, RequestEnd, Resumption,
    },
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
/// assert_eq!(chats.get_chat("chat_123").unwrap_err().kind(), ErrorKind::NotFound);
/// # Ok::<(), runlog::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Chats {
    inner: crate::chats::Chats,
}

/// A request under way: the user's message is written at its entry, everything else as one atomic batch at its
/// exit. As [`crate::chats::RequestBuffer`], for callers that wait.
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

impl Store {
    /// The chats of this store: its sessions as their users see them.
    pub fn chats(&self) -> Chats {
        Chats {
            inner: self.as_async().chats(),
        }
    }
}

impl Chats {
    /// As [`crate::chats::Chats::create_chat`].
    ///
    /// # Errors
    /// As there.
    pub fn create_chat(&self, chat: Chat) -> Result<Chat> {
        block_on(self.inner.create_chat(chat))
    }

    /// As [`crate::chats::Chats::get_chat`].
    ///
    /// # Errors
    /// As there.
    pub fn get_chat(&self, chat_id: &str) -> Result<Chat> {
        block_on(self.inner.get_chat(chat_id))
    }

    /// As [`crate::chats::Chats::update_chat`].
    ///
    /// # Errors
    /// As there.
    pub fn update_chat(&self, chat_id: &str, updates: &Updates) -> Result<Chat> {
        block_on(self.inner.update_chat(chat_id, updates))
    }

    /// As [`crate::chats::Chats::delete_chat`].
    ///
    /// # Errors
    /// As there.
    pub fn delete_chat(&self, chat_id: &str) -> Result<()> {
        block_on(self.inner.delete_chat(chat_id))
    }

    /// As [`crate::chats::Chats::list_chats`].
    ///
    /// # Errors
    /// As there.
    pub fn list_chats(&self, filter: &ChatFilter) -> Result<ChatList> {
        block_on(self.inner.list_chats(filter))
    }

    /// As [`crate::chats::Chats::save_messages`].
    ///
    /// # Errors
    /// As there.
    pub fn save_messages(
        &self,
        chat_id: &str,
        messages: Vec<ChatMessage>,
    ) -> Result<Vec<ChatMessage>> {
        block_on(self.inner.save_messages(chat_id, messages))
    }

    /// As [`crate::chats::Chats::get_messages`].
    ///
    /// # Errors
    /// As there.
    pub fn get_messages(&self, chat_id: &str, filter: &MessageFilter) -> Result<Vec<ChatMessage>> {
        block_on(self.inner.get_messages(chat_id, filter))
    }

    /// As [`crate::chats::Chats::update_message`].
    ///
    /// # Errors
    /// As there.
    pub fn update_message(&self, message_id: &str, updates: &Updates) -> Result<ChatMessage> {
        block_on(self.inner.update_message(message_id, updates))
    }

    /// As [`crate::chats::Chats::redact_message`].
    ///
    /// # Errors
    /// As there.
    pub fn redact_message(&self, message_id: &str, reason: &str) -> Result<()> {
        block_on(self.inner.redact_message(message_id, reason))
    }

    /// As [`crate::chats::Chats::delete_messages`].
    ///
    /// # Errors
    /// As there.
    pub fn delete_messages(&self, chat_id: &str, message_ids: &[&str]) -> Result<()> {
        block_on(self.inner.delete_messages(chat_id, message_ids))
    }

    /// As [`crate::chats::Chats::save_steps`].
    ///
    /// # Errors
    /// As there.
    pub fn save_steps(&self, steps: Vec<Step>) -> Result<Vec<Step>> {
        block_on(self.inner.save_steps(steps))
    }

    /// As [`crate::chats::Chats::update_step`].
    ///
    /// # Errors
    /// As there.
    pub fn update_step(&self, step_id: &str, updates: &Updates) -> Result<Step> {
        block_on(self.inner.update_step(step_id, updates))
    }

    /// As [`crate::chats::Chats::list_steps`].
    ///
    /// # Errors
    /// As there.
    pub fn list_steps(&self, chat_id: &str, options: &ListSteps) -> Result<Page<Step>> {
        block_on(self.inner.list_steps(chat_id, options))
    }

    /// As [`crate::chats::Chats::get_steps`].
    ///
    /// # Errors
    /// As there.
    pub fn get_steps(&self, request_id: &str) -> Result<Vec<Step>> {
        block_on(self.inner.get_steps(request_id))
    }

    /// As [`crate::chats::Chats::get_last_incomplete_step`].
    ///
    /// # Errors
    /// As there.
    pub fn get_last_incomplete_step(&self, chat_id: &str) -> Result<Option<Step>> {
        block_on(self.inner.get_last_incomplete_step(chat_id))
    }

    /// As [`crate::chats::Chats::get_steps_by_stack_id`].
    ///
    /// # Errors
    /// As there.
    pub fn get_steps_by_stack_id(&self, stack_id: &str) -> Result<Vec<Step>> {
        block_on(self.inner.get_steps_by_stack_id(stack_id))
    }

    /// As [`crate::chats::Chats::get_stack_path`].
    ///
    /// # Errors
    /// As there.
    pub fn get_stack_path(&self, stack_id: &str) -> Result<Vec<String>> {
        block_on(self.inner.get_stack_path(stack_id))
    }

    /// As [`crate::chats::Chats::begin_request`].
    ///
    /// # Errors
    /// As there.
    pub fn begin_request(
        &self,
        chat_id: &str,
        new: NewRequest,
        message: ChatMessage,
    ) -> Result<RequestBuffer> {
        Ok(RequestBuffer {
            inner: block_on(self.inner.begin_request(chat_id, new, message))?,
        })
    }

    /// As [`crate::chats::Chats::resume`].
    ///
    /// # Errors
    /// As there.
    pub fn resume(&self, chat_id: &str) -> Result<Option<Resumption>> {
        block_on(self.inner.resume(chat_id))
    }

    /// As [`crate::chats::Chats::resume_request`].
    ///
    /// # Errors
    /// As there.
    pub fn resume_request(&self, request_id: &str) -> Result<Option<Resumption>> {
        block_on(self.inner.resume_request(request_id))
    }

    /// As [`crate::chats::Chats::dismiss`].
    ///
    /// # Errors
    /// As there.
    pub fn dismiss(&self, request_id: &str) -> Result<Vec<Step>> {
        block_on(self.inner.dismiss(request_id))
    }

    /// As [`crate::chats::Chats::go_on`].
    ///
    /// # Errors
    /// As there.
    pub fn go_on(&self, resumption: &Resumption) -> Result<RequestBuffer> {
        Ok(RequestBuffer {
            inner: block_on(self.inner.go_on(resumption))?,
        })
    }

    /// As [`crate::chats::Chats::complete_resumed`].
    ///
    /// # Errors
    /// As there.
    pub fn complete_resumed(&self, resumption: &Resumption, output: &RawJson) -> Result<Vec<Step>> {
        block_on(self.inner.complete_resumed(resumption, output))
    }

    /// As [`crate::chats::Chats::complete_delegate`].
    ///
    /// # Errors
    /// As there.
    pub fn complete_delegate(
        &self,
        chat_id: &str,
        stack_id: &str,
        output: &RawJson,
    ) -> Result<Step> {
        block_on(self.inner.complete_delegate(chat_id, stack_id, output))
    }

    /// As [`crate::chats::Chats::import_agent_chat`].
    ///
    /// # Errors
    /// As there.
    pub fn import_agent_chat(&self, lines: &str) -> Result<ImportReport> {
        block_on(self.inner.import_agent_chat(lines))
    }

    /// As [`crate::chats::Chats::import_agent_chat_with`].
    ///
    /// # Errors
    /// As there.
    pub fn import_agent_chat_with(
        &self,
        lines: &str,
        options: ImportOptions,
    ) -> Result<ImportReport> {
        block_on(self.inner.import_agent_chat_with(lines, options))
    }

    /// As [`crate::chats::Chats::import_agent_history`].
    ///
    /// # Errors
    /// As there.
    pub fn import_agent_history(&self, lines: &str) -> Result<ImportReport> {
        block_on(self.inner.import_agent_history(lines))
    }

    /// As [`crate::chats::Chats::import_agent_history_with`].
    ///
    /// # Errors
    /// As there.
    pub fn import_agent_history_with(
        &self,
        lines: &str,
        options: ImportOptions,
    ) -> Result<ImportReport> {
        block_on(self.inner.import_agent_history_with(lines, options))
    }

    /// As [`crate::chats::Chats::import_agent_message`].
    ///
    /// # Errors
    /// As there.
    pub fn import_agent_message(&self, lines: &str) -> Result<ImportReport> {
        block_on(self.inner.import_agent_message(lines))
    }

    /// As [`crate::chats::Chats::import_agent_message_with`].
    ///
    /// # Errors
    /// As there.
    pub fn import_agent_message_with(
        &self,
        lines: &str,
        options: ImportOptions,
    ) -> Result<ImportReport> {
        block_on(self.inner.import_agent_message_with(lines, options))
    }

    /// As [`crate::chats::Chats::import_agent_step`].
    ///
    /// # Errors
    /// As there.
    pub fn import_agent_step(&self, lines: &str) -> Result<ImportReport> {
        block_on(self.inner.import_agent_step(lines))
    }

    /// As [`crate::chats::Chats::import_agent_step_with`].
    ///
    /// # Errors
    /// As there.
    pub fn import_agent_step_with(
        &self,
        lines: &str,
        options: ImportOptions,
    ) -> Result<ImportReport> {
        block_on(self.inner.import_agent_step_with(lines, options))
    }
}

impl RequestBuffer {
    /// As [`crate::chats::RequestBuffer::send`].
    ///
    /// # Errors
    /// As there.
    pub fn send(&mut self, message: ChatMessage) -> Result<String> {
        self.inner.send(message)
    }

    /// As [`crate::chats::RequestBuffer::finish`].
    ///
    /// # Errors
    /// As there.
    pub fn finish(&mut self, end: RequestEnd) -> Result<()> {
        block_on(self.inner.finish(end))
    }
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
