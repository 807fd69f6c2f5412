//! [`Contexts`]: [`crate::contexts::Contexts`] for callers that wait.

use pollster::block_on;
use runlog_model::{AgentInstance, ContextEvent, ContextEventKind, InstanceId, RawJson, SessionId};

use crate::{Result, contexts::AppendOptions};

/// The contexts of a store.
///
/// ```
/// use runlog::{NewSession, RawJson, blocking::Store, contexts::ContextEventKind};
///
/// let store = Store::in_memory();
/// let session = store.create_session(NewSession::default())?;
/// let contexts = store.contexts();
/// let agent = contexts.create_instance(session.id, "planner", None)?;
/// let content = RawJson::parse(r#"{"role":"user","content":"hello"}"#)?;
/// contexts.append_event(agent.id, ContextEventKind::UserMessage, content, None)?;
/// assert_eq!(contexts.get_events(agent.id, 0)?.len(), 1);
/// assert_eq!(contexts.delete_events_after(agent.id, 0)?, 1);
/// # Ok::<(), runlog::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Contexts {
    pub(super) inner: crate::contexts::Contexts,
}

impl Contexts {
    pub(super) fn new(inner: crate::contexts::Contexts) -> Self {
        Self { inner }
    }

    /// Makes an agent instance in a session, with an empty context. Durable when it returns.
    ///
    /// # Errors
    /// As [`Store::create_instance`](crate::Store::create_instance).
    pub fn create_instance(
        &self,
        session_id: SessionId,
        agent_name: &str,
        parent: Option<InstanceId>,
    ) -> Result<AgentInstance> {
        block_on(self.inner.create_instance(session_id, agent_name, parent))
    }

    /// The instance with this id, `None` when there is none.
    ///
    /// # Errors
    /// Those of reading the store.
    pub fn get_instance(&self, id: InstanceId) -> Result<Option<AgentInstance>> {
        block_on(self.inner.get_instance(id))
    }

    /// Appends one event. Durable when it returns.
    ///
    /// The content is a JSON object, kept byte for byte. A message's role may be left out, its kind then says
    /// it. `tool_call_id` names the call that a tool_result answers, where its content doesn't.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such instance, or its session was deleted;
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when content, kind and tool call id don't fit each other.
    pub fn append_event(
        &self,
        instance: InstanceId,
        kind: ContextEventKind,
        content: RawJson,
        tool_call_id: Option<&str>,
    ) -> Result<ContextEvent> {
        block_on(
            self.inner
                .append_event(instance, kind, content, tool_call_id),
        )
    }

    /// [`append_event`](Self::append_event) with options.
    ///
    /// # Errors
    /// As [`append_event`](Self::append_event); [`Conflict`](crate::ErrorKind::Conflict) when the context's last
    /// sequence isn't the expected one.
    pub fn append_event_with(
        &self,
        instance: InstanceId,
        kind: ContextEventKind,
        content: RawJson,
        tool_call_id: Option<&str>,
        options: &AppendOptions,
    ) -> Result<ContextEvent> {
        block_on(
            self.inner
                .append_event_with(instance, kind, content, tool_call_id, options),
        )
    }

    /// The events of a context from a sequence on; 0 and 1 are all of them, a sequence beyond the end is none.
    ///
    /// All of them are held in memory; [`events`](Self::events) holds one page.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such instance.
    pub fn get_events(
        &self,
        instance: InstanceId,
        from_sequence: u64,
    ) -> Result<Vec<ContextEvent>> {
        block_on(self.inner.get_events(instance, from_sequence))
    }

    /// The events of a context from a sequence on, one by one, in bounded memory.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such instance.
    pub fn events(&self, instance: InstanceId, from_sequence: u64) -> Result<Events> {
        let pages = block_on(self.inner.events(instance, from_sequence))?;
        Ok(Events {
            pages,
            page: Vec::new().into_iter(),
        })
    }

    /// The event at a sequence of a context, `None` when the context doesn't reach it, or for sequence 0.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such instance.
    pub fn event(&self, instance: InstanceId, sequence: u64) -> Result<Option<ContextEvent>> {
        block_on(self.inner.event(instance, sequence))
    }

    /// The last sequence of a context, 0 when it is empty.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such instance.
    pub fn last_sequence(&self, instance: InstanceId) -> Result<u64> {
        block_on(self.inner.last_sequence(instance))
    }

    /// Deletes the events after a sequence, and says how many they were. Later ones continue at
    /// `sequence + 1`. Forks keep what they share. Durable when it returns.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such instance,
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when the context ends before the sequence.
    pub fn delete_events_after(&self, instance: InstanceId, sequence: u64) -> Result<u64> {
        block_on(self.inner.delete_events_after(instance, sequence))
    }

    /// Copies the events of one context, up to a sequence, into another one that is empty, and says how many
    /// they were. The copy's events keep sequence, content and time. Durable when it returns.
    ///
    /// Into an instance that never had an event this is a fork: no bytes are copied, however many events.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when either instance isn't there,
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists) when the target has events,
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when the source ends before `up_to_sequence`. Nothing is
    /// copied then.
    pub fn copy_events(
        &self,
        source: InstanceId,
        target: InstanceId,
        up_to_sequence: Option<u64>,
    ) -> Result<u64> {
        block_on(self.inner.copy_events(source, target, up_to_sequence))
    }
}

/// The events of a context, one by one; a page of them is held in memory. Ends after an error.
#[derive(Debug)]
pub struct Events {
    pages: crate::contexts::EventPages,
    page: std::vec::IntoIter<ContextEvent>,
}

impl Iterator for Events {
    type Item = Result<ContextEvent>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(event) = self.page.next() {
                return Some(Ok(event));
            }
            match block_on(self.pages.next_page()) {
                Ok(Some(page)) => self.page = page.into_iter(),
                Ok(None) => return None,
                Err(error) => {
                    self.pages.end();
                    return Some(Err(error));
                }
            }
        }
    }
}
