//! [`Context`]: the blocking [`crate::contexts::Context`].

use pollster::block_on;
use runlog_model::{DanglingToolCall, InstanceId, Message, NewMessage, RawJson};

use super::Contexts;
use crate::{
    Result,
    contexts::{AppendOptions, AppendResult, RawMessage},
};

/// The context of one agent instance, as the list of messages that its model sees.
///
/// ```
/// use runlog::{NewSession, RawJson, blocking::Store};
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
pub struct Context {
    inner: crate::contexts::Context,
}

impl Context {
    /// The context of one agent instance.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such instance.
    pub fn new(contexts: &Contexts, instance: InstanceId) -> Result<Self> {
        let contexts = contexts.inner.clone();
        block_on(crate::contexts::Context::new(contexts, instance)).map(Into::into)
    }

    /// Appends several messages, all or none of them: one flush for a whole conversation. Each message's own event
    /// options apply; those of `options` are ignored.
    ///
    /// # Errors
    /// As [`append_raw_message_with`](Self::append_raw_message_with), for any of them.
    pub fn append_raw_messages(
        &self,
        messages: impl IntoIterator<Item = RawMessage>,
        options: &AppendOptions,
    ) -> Result<AppendResult> {
        block_on(self.inner.append_raw_messages(messages, options))
    }
}

waiting! {
    Context: crate::contexts::Context;

    /// The instance whose context this is.
    now fn instance_id(&self) -> InstanceId;

    /// Appends a message built from its parts: one event for the message and one for each tool call it requests, all or
    /// none of them. Durable when it returns.
    fn append_message(&self, message: NewMessage) -> Result<AppendResult>;

    /// [`append_message`](Self::append_message) with options.
    fn append_message_with(
        &self,
        message: NewMessage,
        options: &AppendOptions,
    ) -> Result<AppendResult>;

    /// Appends a message in the provider's own JSON, stored byte for byte. Role, tool calls and tool results are read
    /// out of it, in OpenAI's form or Anthropic's. Durable when it returns.
    fn append_raw_message(&self, json: RawJson) -> Result<AppendResult>;

    /// [`append_raw_message`](Self::append_raw_message) with options.
    fn append_raw_message_with(
        &self,
        json: RawJson,
        options: &AppendOptions,
    ) -> Result<AppendResult>;

    /// The messages of the context: exactly what was sent to the model, in order, byte for byte.
    fn get_messages(&self) -> Result<Vec<Message>>;

    /// The messages from a sequence on; 0 and 1 are all of them, a sequence beyond the end is none.
    fn replay_from_sequence(&self, sequence: u64) -> Result<Vec<Message>>;

    /// The last sequence of the context, 0 when it is empty.
    fn get_last_sequence(&self) -> Result<u64>;

    /// Copies the context, up to a sequence, to another instance whose context is empty; returns how many events.
    fn copy_to_new_instance(&self, target: InstanceId, up_to_sequence: Option<u64>) -> Result<u64>;

    /// Deletes the events after a sequence, and returns how many.
    fn truncate_after_sequence(&self, sequence: u64) -> Result<u64>;

    /// The tool calls without a result, in the order in which they were made: for example, because the process died in between.
    fn dangling_tool_calls(&self) -> Result<Vec<DanglingToolCall>>;

    /// Appends an error result for every tool call without one, so that no provider refuses the context; returns these
    /// calls. Nothing is appended when there are none, or when the context changed meanwhile.
    fn close_dangling_tool_calls(&self, reason: &str) -> Result<Vec<DanglingToolCall>>;
}
