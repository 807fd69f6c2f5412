//! [`Contexts`]: the events of agent instances, read one by one or page by page.

use std::fmt;

use runlog_log::{Direction, Kind, ReadOptions, Record, Sequence};
use runlog_model::{
    AgentInstance, ContextEvent, ContextEventKind, InstanceId, MessageFold, SessionId, ToolStyle,
    style_of,
};

use crate::{
    Error, ErrorKind, Result, Store,
    backend::Page,
    kernel::{lookup::live_session, records::context_stream},
};

/// The contexts of a store. [`blocking::Contexts`](crate::blocking::Contexts) is its blocking counterpart.
///
/// ```
/// use runlog::{NewSession, RawJson, Store, contexts::ContextEventKind};
///
/// # pollster::block_on(async {
/// let store = Store::in_memory();
/// let session = store.create_session(NewSession::default()).await?;
/// let contexts = store.contexts();
/// let agent = contexts.create_instance(session.id, "planner", None).await?;
/// let content = RawJson::parse(r#"{"role":"user","content":"hello"}"#)?;
/// let event = contexts.append_event(agent.id, ContextEventKind::UserMessage, content, None).await?;
/// assert_eq!(event.sequence_number, 1);
/// # Ok::<(), runlog::Error>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct Contexts {
    pub(super) store: Store,
}

/// The state of a follower of a context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Followed {
    /// The last sequence that it has received and that still exists.
    pub kept: u64,
    /// The position of the event at that sequence; 0 if none of its events still exist.
    pub position: u64,
    /// Whether the session was deleted: no more events follow.
    pub is_deleted: bool,
}

impl Store {
    /// All contexts of the store, by instance id.
    pub fn contexts(&self) -> Contexts {
        Contexts::new(self.clone())
    }
}

impl Contexts {
    pub(crate) fn new(store: Store) -> Self {
        Self { store }
    }

    /// The store these contexts are in.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Creates an agent instance in a session, with an empty context. Durable when it returns.
    ///
    /// # Errors
    /// As [`Store::create_instance`].
    pub async fn create_instance(
        &self,
        session_id: SessionId,
        agent_name: &str,
        parent: Option<InstanceId>,
    ) -> Result<AgentInstance> {
        self.store
            .create_instance(session_id, agent_name, parent)
            .await
    }

    /// The instance with this id, `None` when there is none.
    ///
    /// # Errors
    /// Those of reading the store.
    pub async fn get_instance(&self, id: InstanceId) -> Result<Option<AgentInstance>> {
        self.store.get_instance(id).await
    }

    /// The events of a context from a sequence on; 0 and 1 are all of them, a sequence beyond the end is none.
    ///
    /// All of them are held in memory; [`events`](Self::events) holds one page.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) when there is no such instance.
    pub async fn get_events(
        &self,
        instance: InstanceId,
        from_sequence: u64,
    ) -> Result<Vec<ContextEvent>> {
        let mut pages = self.events(instance, from_sequence).await?;
        let mut events = Vec::new();
        while let Some(page) = pages.next_page().await? {
            events.extend(page);
        }
        Ok(events)
    }

    /// The events of a context from a sequence on, page by page, in bounded memory.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) when there is no such instance.
    pub async fn events(&self, instance: InstanceId, from_sequence: u64) -> Result<EventPages> {
        self.store.check_known(instance).await?;
        Ok(EventPages {
            contexts: self.clone(),
            instance,
            next: Some(Sequence(from_sequence)),
            last: Sequence::MAX,
            limit: u64::MAX,
        })
    }

    /// The first result of `look` over the events of some kinds, backwards from a sequence.
    pub(crate) async fn find_back<T>(
        &self,
        instance: InstanceId,
        from: Sequence,
        kinds: &[ContextEventKind],
        mut look: impl FnMut(&ContextEvent) -> Option<T>,
    ) -> Result<Option<T>> {
        let mut pages = self.pages_back(instance, from, kinds);
        while let Some(page) = pages.next_page().await? {
            for record in &page {
                if let Some(found) = look(&ContextEvent::decode(instance, record)?) {
                    return Ok(Some(found));
                }
            }
        }
        Ok(None)
    }

    /// The events of some kinds, backwards from a sequence, in pages that grow: what is looked for is usually near.
    pub(crate) fn pages_back(
        &self,
        instance: InstanceId,
        from: Sequence,
        kinds: &[ContextEventKind],
    ) -> PagesBack<'_> {
        PagesBack {
            contexts: self,
            instance,
            kinds: kinds.iter().map(|kind| Kind(kind.byte())).collect(),
            next: Some(from),
            limit: 4,
        }
    }

    /// A fold of a context's messages, which knows the form of the context where something of it may be redacted.
    ///
    /// # Errors
    /// As [`style`](Self::style).
    pub(crate) async fn message_fold(&self, instance: InstanceId) -> Result<MessageFold> {
        let fold = MessageFold::new();
        if self.store.backend().redactions() == 0 {
            return Ok(fold);
        }
        Ok(fold.in_form(self.style(instance).await?))
    }

    /// The provider's form that a context is in, where one of its latest messages tells it.
    ///
    /// # Errors
    /// Those of the storage; [`Damaged`](ErrorKind::Damaged) for an event that can't be read.
    pub(crate) async fn style(&self, instance: InstanceId) -> Result<Option<ToolStyle>> {
        const LOOKED_AT: usize = 64;
        let mut left = LOOKED_AT;
        let kinds = [
            ContextEventKind::UserMessage,
            ContextEventKind::AssistantMessage,
        ];
        let look = |event: &ContextEvent| {
            left -= 1;
            let style = style_of(&event.content);
            style.map(Some).or((left == 0).then_some(None))
        };
        let found = self
            .find_back(instance, Sequence::MAX, &kinds, look)
            .await?;
        Ok(found.flatten())
    }

    /// The state of a follower that has received a context's events up to a sequence, the last at this position: events
    /// after [`kept`](Followed::kept) were truncated since, and their sequences are reused.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) when there is no such instance.
    pub async fn followed(
        &self,
        instance: InstanceId,
        sequence: u64,
        position: u64,
    ) -> Result<Followed> {
        let session = self.store.known_instance(instance).await?.session_id;
        // After catching up: a read-only store sees the deletion only in the catalog.
        let is_deleted = self
            .store
            .shared
            .catalog
            .read(|catalog| live_session(catalog, session).is_err())
            .await?;
        if sequence == 0
            || self
                .event(instance, sequence)
                .await?
                .is_some_and(|event| event.position == position)
        {
            return Ok(Followed {
                kept: sequence,
                position,
                is_deleted,
            });
        }
        // Positions only grow, so every event up to this position was received.
        let stream = context_stream(instance);
        let last = self.stream_last(instance).await?.unwrap_or_default();
        let before = self
            .store
            .last_before(stream, last, position.saturating_add(1))
            .await?;
        let (kept, position) =
            before.map_or((0, 0), |record| (record.sequence.0, record.position.0));
        Ok(Followed {
            kept,
            position,
            is_deleted,
        })
    }

    /// The event at a sequence of a context, `None` when the context doesn't reach it, or for sequence 0.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) when there is no such instance.
    pub async fn event(&self, instance: InstanceId, sequence: u64) -> Result<Option<ContextEvent>> {
        self.store.check_known(instance).await?;
        if sequence == 0 {
            return Ok(None);
        }
        let range = ReadOptions {
            first: Sequence(sequence),
            last: Sequence(sequence),
            ..ReadOptions::default()
        };
        let page = self.read_page(instance, range).await?;
        page.records
            .into_iter()
            .next()
            .map(|record| ContextEvent::decode(instance, &record))
            .transpose()
    }

    /// The last sequence of a context, 0 when it is empty.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) when there is no such instance.
    pub async fn last_sequence(&self, instance: InstanceId) -> Result<u64> {
        self.store.check_known(instance).await?;
        Ok(self.stream_last(instance).await?.unwrap_or_default().0)
    }

    /// The last sequence of an instance's stream, `None` when it has no stream yet.
    pub(super) async fn stream_last(&self, instance: InstanceId) -> Result<Option<Sequence>> {
        Ok(self
            .store
            .backend()
            .stream(context_stream(instance))
            .await?
            .map(|info| info.last_sequence))
    }

    async fn read_page(
        &self,
        instance: InstanceId,
        options: ReadOptions,
    ) -> Result<Page<Sequence>> {
        match self
            .store
            .backend()
            .read(context_stream(instance), options)
            .await
        {
            // An instance has no stream before its first event.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Page {
                records: Vec::new(),
                next: None,
            }),
            page => page,
        }
    }
}

/// Events of a context, backwards.
pub(crate) struct PagesBack<'a> {
    contexts: &'a Contexts,
    instance: InstanceId,
    kinds: Vec<Kind>,
    next: Option<Sequence>,
    limit: u64,
}

impl PagesBack<'_> {
    /// The records of the next page, the newest first; `None` after the last one.
    pub(crate) async fn next_page(&mut self) -> Result<Option<Vec<Record>>> {
        let Some(last) = self.next else {
            return Ok(None);
        };
        let options = ReadOptions {
            last,
            kinds: self.kinds.clone(),
            direction: Direction::Backward,
            limit: self.limit,
            ..ReadOptions::default()
        };
        let page = self.contexts.read_page(self.instance, options).await?;
        (self.next, self.limit) = (page.next, self.limit.saturating_mul(8).min(1_024));
        Ok(Some(page.records))
    }
}

impl fmt::Debug for Contexts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contexts").finish_non_exhaustive()
    }
}

/// The events of a context, page by page, in bounded memory.
#[derive(Clone, Debug)]
pub struct EventPages {
    contexts: Contexts,
    instance: InstanceId,
    next: Option<Sequence>,
    last: Sequence,
    /// The most events of the next page; each page has twice as many as the one before.
    limit: u64,
}

impl EventPages {
    /// Begins with a page of `limit` events, for callers that may need no more.
    #[must_use]
    pub fn beginning_with(self, limit: u64) -> Self {
        Self { limit, ..self }
    }

    /// The next page, about 1 MiB of content beyond its first event; `None` at the end.
    ///
    /// # Errors
    /// Those of reading the store; [`Damaged`](ErrorKind::Damaged) for a record that isn't a context event.
    pub async fn next_page(&mut self) -> Result<Option<Vec<ContextEvent>>> {
        let Some(first) = self.next else {
            return Ok(None);
        };
        let options = ReadOptions {
            first,
            last: self.last,
            limit: self.limit,
            ..ReadOptions::default()
        };
        let page = self.contexts.read_page(self.instance, options).await?;
        self.next = page.next;
        self.limit = self.limit.saturating_mul(2);
        if page.records.is_empty() {
            self.next = None;
            return Ok(None);
        }
        page.records
            .into_iter()
            .map(|record| ContextEvent::decode(self.instance, &record))
            .collect::<Result<_>>()
            .map(Some)
    }

    /// Ends the pages.
    pub(crate) fn end(&mut self) {
        self.next = None;
    }

    /// Ends at a sequence, that one included.
    pub(super) fn up_to(self, last: Sequence) -> Self {
        Self { last, ..self }
    }
}

/// Adds the instance to an error of the storage, which only knows streams. That of a context has the same id.
pub(super) fn name_instance(error: Error, instance: InstanceId) -> Error {
    let text = error.to_string();
    let stream = format!("stream {instance}");
    let context = format!("context of instance {instance}");
    let message = match text.contains(&stream) {
        true => text.replacen(&stream, &context, 1),
        false => format!("{context}: {text}"),
    };
    Error::with_source(error.kind(), message, error)
}
