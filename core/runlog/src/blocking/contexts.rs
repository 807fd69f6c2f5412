//! [`Contexts`]: the blocking [`crate::contexts::Contexts`].

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

waiting! {
    Contexts: crate::contexts::Contexts;

    /// Creates an agent instance in a session, with an empty context. Durable when it returns.
    fn create_instance(
        &self,
        session_id: SessionId,
        agent_name: &str,
        parent: Option<InstanceId>,
    ) -> Result<AgentInstance>;

    /// The instance with this id, `None` when there is none.
    fn get_instance(&self, id: InstanceId) -> Result<Option<AgentInstance>>;

    /// Appends one event. Durable when it returns.
    fn append_event(
        &self,
        instance: InstanceId,
        kind: ContextEventKind,
        content: RawJson,
        tool_call_id: Option<&str>,
    ) -> Result<ContextEvent>;

    /// [`append_event`](Self::append_event) with options.
    fn append_event_with(
        &self,
        instance: InstanceId,
        kind: ContextEventKind,
        content: RawJson,
        tool_call_id: Option<&str>,
        options: &AppendOptions,
    ) -> Result<ContextEvent>;

    /// The events of a context from a sequence on; 0 and 1 are all of them, a sequence beyond the end is none.
    fn get_events(&self, instance: InstanceId, from_sequence: u64) -> Result<Vec<ContextEvent>>;

    /// The events of a context from a sequence on, one by one, in bounded memory.
    fn events(&self, instance: InstanceId, from_sequence: u64) -> Result<Events>;

    /// The event at a sequence of a context, `None` when the context doesn't reach it, or for sequence 0.
    fn event(&self, instance: InstanceId, sequence: u64) -> Result<Option<ContextEvent>>;

    /// The last sequence of a context, 0 when it is empty.
    fn last_sequence(&self, instance: InstanceId) -> Result<u64>;

    /// Deletes the events after a sequence, and returns how many. Later ones continue at `sequence + 1`. Forks keep
    /// what they share. Durable when it returns.
    fn delete_events_after(&self, instance: InstanceId, sequence: u64) -> Result<u64>;

    /// Copies the events of one context, up to a sequence, into another one that is empty, and returns how many. The
    /// copy's events keep sequence, content and time. Durable when it returns.
    fn copy_events(
        &self,
        source: InstanceId,
        target: InstanceId,
        up_to_sequence: Option<u64>,
    ) -> Result<u64>;
}

/// The events of a context, one by one; a page of them is held in memory. Ends after an error.
#[derive(Debug)]
pub struct Events {
    pages: crate::contexts::EventPages,
    page: std::vec::IntoIter<ContextEvent>,
}

impl From<crate::contexts::EventPages> for Events {
    fn from(pages: crate::contexts::EventPages) -> Self {
        Self {
            pages,
            page: Vec::new().into_iter(),
        }
    }
}

impl Events {
    /// Reads only so many at first, and twice as many each time more are asked for: for callers that may need no more.
    #[must_use]
    pub fn beginning_with(self, limit: u64) -> Self {
        Self {
            pages: self.pages.beginning_with(limit),
            ..self
        }
    }
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
