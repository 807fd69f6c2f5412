//! [`ContextRepository`]: [`AsyncContextRepository`] for callers that wait.

use pollster::block_on;
use runlog_model::{AgentInstance, ContextEvent, ContextEventKind, InstanceId, RawJson, SessionId};

use crate::{AppendOptions, AsyncContextRepository, AsyncEventPages, Result};

/// The contexts of a store.
///
/// ```
/// use runlog::{ContextEventKind, NewSession, RawJson, Store};
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
pub struct ContextRepository {
    pub(super) inner: AsyncContextRepository,
}

impl ContextRepository {
    pub(super) fn new(inner: AsyncContextRepository) -> Self {
        Self { inner }
    }

    /// See [`AsyncContextRepository::create_instance`].
    ///
    /// # Errors
    /// As there.
    pub fn create_instance(
        &self,
        session_id: SessionId,
        agent_name: &str,
        parent: Option<InstanceId>,
    ) -> Result<AgentInstance> {
        block_on(self.inner.create_instance(session_id, agent_name, parent))
    }

    /// See [`AsyncContextRepository::get_instance`].
    ///
    /// # Errors
    /// As there.
    pub fn get_instance(&self, id: InstanceId) -> Result<Option<AgentInstance>> {
        block_on(self.inner.get_instance(id))
    }

    /// See [`AsyncContextRepository::append_event`].
    ///
    /// # Errors
    /// As there.
    pub fn append_event(
        &self,
        instance: InstanceId,
        kind: ContextEventKind,
        content: RawJson,
        tool_call_id: Option<&str>,
    ) -> Result<ContextEvent> {
        block_on(self.inner.append_event(instance, kind, content, tool_call_id))
    }

    /// See [`AsyncContextRepository::append_event_with`].
    ///
    /// # Errors
    /// As there.
    pub fn append_event_with(
        &self,
        instance: InstanceId,
        kind: ContextEventKind,
        content: RawJson,
        tool_call_id: Option<&str>,
        options: &AppendOptions,
    ) -> Result<ContextEvent> {
        block_on(self.inner.append_event_with(instance, kind, content, tool_call_id, options))
    }

    /// See [`AsyncContextRepository::get_events`].
    ///
    /// # Errors
    /// As there.
    pub fn get_events(&self, instance: InstanceId, from_sequence: u64) -> Result<Vec<ContextEvent>> {
        block_on(self.inner.get_events(instance, from_sequence))
    }

    /// The events of a context from a sequence on, one by one, in bounded memory.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such instance.
    pub fn events(&self, instance: InstanceId, from_sequence: u64) -> Result<Events> {
        let pages = block_on(self.inner.events(instance, from_sequence))?;
        Ok(Events { pages, page: Vec::new().into_iter() })
    }

    /// See [`AsyncContextRepository::event`].
    ///
    /// # Errors
    /// As there.
    pub fn event(&self, instance: InstanceId, sequence: u64) -> Result<Option<ContextEvent>> {
        block_on(self.inner.event(instance, sequence))
    }

    /// See [`AsyncContextRepository::last_sequence`].
    ///
    /// # Errors
    /// As there.
    pub fn last_sequence(&self, instance: InstanceId) -> Result<u64> {
        block_on(self.inner.last_sequence(instance))
    }

    /// See [`AsyncContextRepository::delete_events_after`].
    ///
    /// # Errors
    /// As there.
    pub fn delete_events_after(&self, instance: InstanceId, sequence: u64) -> Result<u64> {
        block_on(self.inner.delete_events_after(instance, sequence))
    }

    /// See [`AsyncContextRepository::copy_events`].
    ///
    /// # Errors
    /// As there.
    pub fn copy_events(&self, source: InstanceId, target: InstanceId, up_to_sequence: Option<u64>) -> Result<u64> {
        block_on(self.inner.copy_events(source, target, up_to_sequence))
    }
}

/// The events of a context, one by one; a page of them is held in memory. Ends after an error.
#[derive(Debug)]
pub struct Events {
    pages: AsyncEventPages,
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
