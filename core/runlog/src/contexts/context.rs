//! [`Context`]: one agent's context as the list of messages that its model sees.

use runlog_model::{
    ContextEvent, DanglingFold, DanglingToolCall, EventOptions, InstanceId, Message,
    NewContextEvent, NewMessage, RawJson, error_results,
};

use crate::{
    Result, Store,
    contexts::{AppendOptions, AppendResult, Contexts},
};

/// The context of one agent instance. [`blocking::Context`](crate::blocking::Context) is its blocking counterpart.
/// It reads messages; [`Contexts::get_events`] reads the events that they are recorded as.
///
/// ```
/// use runlog::{NewSession, RawJson, Store};
///
/// # pollster::block_on(async {
/// let store = Store::in_memory();
/// let session = store.create_session(NewSession::default()).await?;
/// let agent = store.create_instance(session.id, "planner", None).await?;
/// let context = store.context(agent.id).await?;
/// let message = RawJson::parse(r#"{ "role": "user", "content": "hello" }"#)?;
/// context.append_raw_message(message.clone()).await?;
/// assert_eq!(context.get_messages().await?[0].json, message);
/// # Ok::<(), runlog::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Context {
    contexts: Contexts,
    instance: InstanceId,
}

/// A message in the provider's own JSON, and the metadata of its events.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RawMessage {
    /// The message, stored byte for byte.
    pub json: RawJson,
    /// The metadata of its events.
    pub event: EventOptions,
}

impl From<RawJson> for RawMessage {
    fn from(json: RawJson) -> Self {
        Self {
            json,
            event: EventOptions::default(),
        }
    }
}

impl Store {
    /// The context of one agent instance.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such instance.
    pub async fn context(&self, instance: InstanceId) -> Result<Context> {
        Context::new(self.contexts(), instance).await
    }
}

impl Context {
    /// The context of one agent instance.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such instance.
    pub async fn new(contexts: Contexts, instance: InstanceId) -> Result<Self> {
        contexts.store().known_instance(instance).await?;
        Ok(Self { contexts, instance })
    }

    /// The instance whose context this is.
    pub fn instance_id(&self) -> InstanceId {
        self.instance
    }

    /// Appends a message built from its parts: one event for the message and one for each tool call it requests, all or
    /// none of them. Durable when it returns.
    ///
    /// It isn't checked that providers accept the context with it: a result may answer no call, and a message may come
    /// between a call and its result. Appends may run concurrently, so the place of a message isn't known in advance. A
    /// run's recorder does check; [`dangling_tool_calls`](Self::dangling_tool_calls) returns the open calls.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when the tool fields don't fit the role,
    /// [`NotFound`](crate::ErrorKind::NotFound) when the session was deleted.
    pub async fn append_message(&self, message: NewMessage) -> Result<AppendResult> {
        self.append_message_with(message, &AppendOptions::default())
            .await
    }

    /// [`append_message`](Self::append_message) with options.
    ///
    /// # Errors
    /// As [`append_message`](Self::append_message); [`Conflict`](crate::ErrorKind::Conflict) when the context's
    /// last sequence isn't the expected one.
    pub async fn append_message_with(
        &self,
        message: NewMessage,
        options: &AppendOptions,
    ) -> Result<AppendResult> {
        self.append_raw_message_with(message.to_json()?, options)
            .await
    }

    /// Appends a message in the provider's own JSON, stored byte for byte. Role, tool calls and tool results are read
    /// out of it, in OpenAI's form or Anthropic's. Durable when it returns.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when it isn't an object with a known role, or a tool call
    /// in it can't be read; [`NotFound`](crate::ErrorKind::NotFound) when the session was deleted.
    pub async fn append_raw_message(&self, json: RawJson) -> Result<AppendResult> {
        self.append_raw_message_with(json, &AppendOptions::default())
            .await
    }

    /// [`append_raw_message`](Self::append_raw_message) with options.
    ///
    /// # Errors
    /// As [`append_raw_message`](Self::append_raw_message); [`Conflict`](crate::ErrorKind::Conflict) when the
    /// context's last sequence isn't the expected one.
    pub async fn append_raw_message_with(
        &self,
        json: RawJson,
        options: &AppendOptions,
    ) -> Result<AppendResult> {
        let events = NewContextEvent::of_message(json, &options.event)?;
        self.contexts.append(self.instance, &events, options).await
    }

    /// Appends several messages, all or none of them: one flush for a whole conversation. Each message's own event
    /// options apply; those of `options` are ignored.
    ///
    /// # Errors
    /// As [`append_raw_message_with`](Self::append_raw_message_with), for any of them.
    pub async fn append_raw_messages(
        &self,
        messages: impl IntoIterator<Item = RawMessage>,
        options: &AppendOptions,
    ) -> Result<AppendResult> {
        let mut events = Vec::new();
        for (index, message) in messages.into_iter().enumerate() {
            let of_message =
                NewContextEvent::of_message(message.json, &message.event).map_err(|error| {
                    let error = error;
                    crate::Error::new(
                        error.kind(),
                        format!("message {} of the batch: {error}", index + 1),
                    )
                })?;
            events.extend(of_message);
        }
        self.contexts.append(self.instance, &events, options).await
    }

    /// The messages of the context: exactly what was sent to the model, in order, byte for byte.
    ///
    /// # Errors
    /// Those of reading the store.
    pub async fn get_messages(&self) -> Result<Vec<Message>> {
        self.replay_from_sequence(0).await
    }

    /// The messages from a sequence on; 0 and 1 are all of them, a sequence beyond the end is none.
    ///
    /// # Errors
    /// Those of reading the store.
    pub async fn replay_from_sequence(&self, sequence: u64) -> Result<Vec<Message>> {
        let mut fold = self.contexts.message_fold(self.instance).await?;
        let mut messages = Vec::new();
        self.each_event(sequence, |event| fold.push(event, &mut messages))
            .await?;
        fold.finish(&mut messages);
        Ok(messages)
    }

    /// The last sequence of the context, 0 when it is empty.
    ///
    /// # Errors
    /// Those of reading the store.
    pub async fn get_last_sequence(&self) -> Result<u64> {
        self.contexts.last_sequence(self.instance).await
    }

    /// Copies the context, up to a sequence, to another instance whose context is empty; returns how many events.
    ///
    /// # Errors
    /// As [`Contexts::copy_events`].
    pub async fn copy_to_new_instance(
        &self,
        target: InstanceId,
        up_to_sequence: Option<u64>,
    ) -> Result<u64> {
        self.contexts
            .copy_events(self.instance, target, up_to_sequence)
            .await
    }

    /// Deletes the events after a sequence, and returns how many.
    ///
    /// # Errors
    /// As [`Contexts::delete_events_after`].
    pub async fn truncate_after_sequence(&self, sequence: u64) -> Result<u64> {
        self.contexts
            .delete_events_after(self.instance, sequence)
            .await
    }

    /// The tool calls without a result, in the order in which they were made: for example, because the process died in between.
    ///
    /// # Errors
    /// Those of reading the store.
    pub async fn dangling_tool_calls(&self) -> Result<Vec<DanglingToolCall>> {
        self.dangling_at().await.map(|(calls, _)| calls)
    }

    /// The tool calls without a result, and the sequence that the context ends with.
    pub(crate) async fn dangling_at(&self) -> Result<(Vec<DanglingToolCall>, u64)> {
        let (mut fold, mut last) = (DanglingFold::new(), 0);
        self.each_event(0, |event| {
            last = event.sequence_number;
            fold.push(event)
        })
        .await?;
        Ok((fold.finish(), last))
    }

    /// Appends an error result for every tool call without one, so that no provider refuses the context; returns these
    /// calls. Nothing is appended when there are none, or when the context changed meanwhile.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) when the context changed meanwhile; else those of reading and
    /// appending.
    pub async fn close_dangling_tool_calls(&self, reason: &str) -> Result<Vec<DanglingToolCall>> {
        let (dangling, last) = self.dangling_at().await?;
        if dangling.is_empty() {
            return Ok(dangling);
        }
        let event = EventOptions {
            tool_is_error: Some(true),
            ..EventOptions::default()
        };
        let results = error_results(&dangling, reason).into_iter();
        let messages = results.map(|json| RawMessage {
            json,
            event: event.clone(),
        });
        let options = AppendOptions {
            expected_last_sequence: Some(last),
            ..AppendOptions::default()
        };
        self.append_raw_messages(messages, &options).await?;
        Ok(dangling)
    }

    async fn each_event(
        &self,
        from: u64,
        mut take: impl FnMut(&ContextEvent) -> Result<()>,
    ) -> Result<()> {
        let mut pages = self.contexts.events(self.instance, from).await?;
        while let Some(page) = pages.next_page().await? {
            for event in &page {
                take(event)?;
            }
        }
        Ok(())
    }
}
