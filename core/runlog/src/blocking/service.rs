//! [`ContextService`]: [`AsyncContextService`] for callers that wait.

use pollster::block_on;
use runlog_model::{DanglingToolCall, InstanceId, Message, NewMessage, RawJson};

use super::ContextRepository;
use crate::{AppendOptions, AppendResult, AsyncContextService, RawMessage, Result};

/// The context of one agent instance, as the list of messages that its model sees.
///
/// ```
/// use runlog::{NewSession, RawJson, Store};
///
/// let store = Store::in_memory();
/// let session = store.create_session(NewSession::default())?;
/// let agent = store.create_instance(session.id, "planner", None)?;
/// let context = store.context(agent.id)?;
/// let asked = RawJson::parse(
///     r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"ls","arguments":"{}"}}]}"#,
/// )?;
/// context.append_raw_message(asked.clone())?;
/// // The process died here. The message is there, and its tool call is known to have no result.
/// assert_eq!(context.get_messages()?[0].json, asked);
/// assert_eq!(context.dangling_tool_calls()?[0].name, "ls");
/// # Ok::<(), runlog::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ContextService {
    inner: AsyncContextService,
}

impl ContextService {
    /// See [`AsyncContextService::new`].
    ///
    /// # Errors
    /// As there.
    pub fn new(repository: &ContextRepository, instance: InstanceId) -> Result<Self> {
        Ok(Self { inner: block_on(AsyncContextService::new(repository.inner.clone(), instance))? })
    }

    /// The instance whose context this is.
    pub fn instance_id(&self) -> InstanceId {
        self.inner.instance_id()
    }

    /// See [`AsyncContextService::append_message`].
    ///
    /// # Errors
    /// As there.
    pub fn append_message(&self, message: NewMessage) -> Result<AppendResult> {
        block_on(self.inner.append_message(message))
    }

    /// See [`AsyncContextService::append_message_with`].
    ///
    /// # Errors
    /// As there.
    pub fn append_message_with(&self, message: NewMessage, options: &AppendOptions) -> Result<AppendResult> {
        block_on(self.inner.append_message_with(message, options))
    }

    /// See [`AsyncContextService::append_raw_message`].
    ///
    /// # Errors
    /// As there.
    pub fn append_raw_message(&self, json: RawJson) -> Result<AppendResult> {
        block_on(self.inner.append_raw_message(json))
    }

    /// See [`AsyncContextService::append_raw_message_with`].
    ///
    /// # Errors
    /// As there.
    pub fn append_raw_message_with(&self, json: RawJson, options: &AppendOptions) -> Result<AppendResult> {
        block_on(self.inner.append_raw_message_with(json, options))
    }

    /// See [`AsyncContextService::append_raw_messages`].
    ///
    /// # Errors
    /// As there.
    pub fn append_raw_messages(
        &self,
        messages: impl IntoIterator<Item = RawMessage>,
        options: &AppendOptions,
    ) -> Result<AppendResult> {
        block_on(self.inner.append_raw_messages(messages, options))
    }

    /// See [`AsyncContextService::get_messages`].
    ///
    /// # Errors
    /// As there.
    pub fn get_messages(&self) -> Result<Vec<Message>> {
        block_on(self.inner.get_messages())
    }

    /// See [`AsyncContextService::replay_from_sequence`].
    ///
    /// # Errors
    /// As there.
    pub fn replay_from_sequence(&self, sequence: u64) -> Result<Vec<Message>> {
        block_on(self.inner.replay_from_sequence(sequence))
    }

    /// See [`AsyncContextService::get_last_sequence`].
    ///
    /// # Errors
    /// As there.
    pub fn get_last_sequence(&self) -> Result<u64> {
        block_on(self.inner.get_last_sequence())
    }

    /// See [`AsyncContextService::copy_to_new_instance`].
    ///
    /// # Errors
    /// As there.
    pub fn copy_to_new_instance(&self, target: InstanceId, up_to_sequence: Option<u64>) -> Result<u64> {
        block_on(self.inner.copy_to_new_instance(target, up_to_sequence))
    }

    /// See [`AsyncContextService::truncate_after_sequence`].
    ///
    /// # Errors
    /// As there.
    pub fn truncate_after_sequence(&self, sequence: u64) -> Result<u64> {
        block_on(self.inner.truncate_after_sequence(sequence))
    }

    /// See [`AsyncContextService::dangling_tool_calls`].
    ///
    /// # Errors
    /// As there.
    pub fn dangling_tool_calls(&self) -> Result<Vec<DanglingToolCall>> {
        block_on(self.inner.dangling_tool_calls())
    }

    /// See [`AsyncContextService::close_dangling_tool_calls`].
    ///
    /// # Errors
    /// As there.
    pub fn close_dangling_tool_calls(&self, reason: &str) -> Result<Vec<DanglingToolCall>> {
        block_on(self.inner.close_dangling_tool_calls(reason))
    }
}
