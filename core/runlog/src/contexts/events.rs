//! [`Contexts`]: the events of agent instances, one by one.

use std::fmt;

use runlog_log::{
    Batch, Direction, Durability, Expected, Kind, NewRecord, Op, OpResult, Position, ReadOptions,
    Record, Sequence,
};
use runlog_model::{
    AgentInstance, ContextEvent, ContextEventKind, EventOptions, InstanceId, NewContextEvent,
    RawJson, SessionId,
};
use serde::{Deserialize, Serialize};

use crate::{
    Error, ErrorKind, Result, Store,
    backend::Page,
    durability,
    kernel::{lookup::live_session, records::context_stream},
};

/// The contexts of a store. [`blocking::Contexts`](crate::blocking::Contexts) is the same for callers
/// that wait.
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
    store: Store,
}

/// The options of an append.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AppendOptions {
    /// The last sequence that the context must have, 0 for an empty one; `None` takes any. A mismatch is a
    /// [`Conflict`](ErrorKind::Conflict), and nothing is written.
    pub expected_last_sequence: Option<u64>,
    /// A key of 1 to 255 bytes, unique in this context: the same key again returns the first result, and
    /// appends nothing.
    pub idempotency_key: Option<String>,
    /// How durable it is when acknowledged; `None` is the store's own setting.
    #[serde(deserialize_with = "durability::deserialize")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<durability::Given>"))]
    pub durability: Option<Durability>,
    /// The metadata of the events.
    pub event: EventOptions,
}

/// The result of an append.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AppendResult {
    /// The sequence of the first event: that of the message, with its tool_call events after it.
    pub first_sequence: u64,
    /// The context's last sequence after the append.
    pub last_sequence: u64,
    /// The position of the first event.
    pub position: u64,
    /// Whether the same idempotency key had been used before, so that nothing was appended now.
    pub repeated: bool,
    /// Of a repeat: whether the context was truncated since, so that the events of the first append are not in it any more.
    /// Their sequences may be those of other events by now.
    pub truncated: bool,
}

/// Where a follower of a context stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Followed {
    /// The last sequence that it has been given and that is still there.
    pub kept: u64,
    /// The position of the event at that sequence; 0 where nothing is left of what it was given.
    pub position: u64,
    /// Whether the session was deleted: nothing comes any more.
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

    /// Makes an agent instance in a session, with an empty context. Durable when it returns.
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

    /// Appends one event. Durable when it returns.
    ///
    /// The content is a JSON object, kept byte for byte. A message's role may be left out, its kind then says
    /// it. `tool_call_id` names the call that a tool_result answers, where its content doesn't.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) when there is no such instance, or its session was deleted;
    /// [`InvalidInput`](ErrorKind::InvalidInput) when content, kind and tool call id don't fit each other.
    pub async fn append_event(
        &self,
        instance: InstanceId,
        kind: ContextEventKind,
        content: RawJson,
        tool_call_id: Option<&str>,
    ) -> Result<ContextEvent> {
        self.append_event_with(
            instance,
            kind,
            content,
            tool_call_id,
            &AppendOptions::default(),
        )
        .await
    }

    /// [`append_event`](Self::append_event) with options.
    ///
    /// # Errors
    /// As [`append_event`](Self::append_event); [`Conflict`](ErrorKind::Conflict) when the context's last sequence
    /// isn't the expected one.
    pub async fn append_event_with(
        &self,
        instance: InstanceId,
        kind: ContextEventKind,
        content: RawJson,
        tool_call_id: Option<&str>,
        options: &AppendOptions,
    ) -> Result<ContextEvent> {
        let event = NewContextEvent::new(kind, content, tool_call_id, &options.event)?;
        let appended = self
            .append(instance, std::slice::from_ref(&event), options)
            .await?;
        match self.event(instance, appended.first_sequence).await {
            // Not a later event that reuses the sequence after a truncation.
            Ok(Some(event)) if event.position == appended.position => Ok(event),
            // It was written, but is truncated since or can't be read: give it as it was appended.
            _ => {
                let meta = event.encode_meta()?;
                let record = Record {
                    stream: context_stream(instance),
                    position: Position(appended.position),
                    sequence: Sequence(appended.first_sequence),
                    time_ms: self.store.backend().now_ms(),
                    kind: Kind(kind.byte()),
                    redacted: false,
                    meta: meta.into(),
                    payload: event.content.into_bytes(),
                };
                Ok(ContextEvent::decode(instance, &record)?)
            }
        }
    }

    /// Appends events as one atomic batch.
    pub(crate) async fn append(
        &self,
        instance: InstanceId,
        events: &[NewContextEvent],
        options: &AppendOptions,
    ) -> Result<AppendResult> {
        self.store.writable_instance(instance).await?;
        let metas = events
            .iter()
            .map(NewContextEvent::encode_meta)
            .collect::<Result<Vec<_>>>()?;
        let records = events.iter().zip(&metas).map(|(event, meta)| NewRecord {
            kind: Kind(event.kind.byte()),
            meta,
            payload: event.content.as_bytes(),
        });
        let batch = Batch {
            ops: vec![Op::Append {
                stream: context_stream(instance),
                expected: options
                    .expected_last_sequence
                    .map_or(Expected::Any, |last| Expected::Last(Sequence(last))),
                records: records.collect(),
            }],
            key: options.idempotency_key.as_ref().map(String::as_bytes),
            durability: options.durability,
        };
        let appended = self
            .store
            .backend()
            .commit(batch)
            .await
            .map_err(|error| name_instance(error, instance))?;
        let OpResult {
            position,
            last_sequence,
        } = appended.ops.first().copied().ok_or_else(|| {
            Error::new(
                ErrorKind::Io,
                "the backend acknowledged an append without saying where it is",
            )
        })?;
        // A repeated batch may have had another number of events: then only the position is that of its first event.
        Ok(AppendResult {
            first_sequence: (last_sequence.0 + 1).saturating_sub(events.len() as u64),
            last_sequence: last_sequence.0,
            position: position.0,
            repeated: appended.repeated,
            truncated: appended.truncated,
        })
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
        self.store.known_instance(instance).await?;
        Ok(EventPages {
            contexts: self.clone(),
            instance,
            next: Some(Sequence(from_sequence)),
            last: Sequence::MAX,
            limit: u64::MAX,
        })
    }

    /// What `look` finds first in the events of some kinds, from a context's end.
    pub(crate) async fn find_back<T>(
        &self,
        instance: InstanceId,
        kinds: &[ContextEventKind],
        mut look: impl FnMut(&ContextEvent) -> Option<T>,
    ) -> Result<Option<T>> {
        let kinds: Vec<Kind> = kinds.iter().map(|kind| Kind(kind.byte())).collect();
        // Mostly it is near the end; what is further away is read in larger pages.
        let (mut next, mut limit) = (Some(Sequence::MAX), 4);
        while let Some(last) = next {
            let direction = Direction::Backward;
            let options = ReadOptions {
                last,
                kinds: kinds.clone(),
                direction,
                limit,
                ..ReadOptions::default()
            };
            let page = self.read_page(instance, options).await?;
            (next, limit) = (page.next, 1_024);
            for record in page.records {
                if let Some(found) = look(&ContextEvent::decode(instance, &record)?) {
                    return Ok(Some(found));
                }
            }
        }
        Ok(None)
    }

    /// The state of a follower that was given a context's events up to a sequence, the last of which has this
    /// position: events after [`kept`](Followed::kept) were truncated since, and their sequences are reused.
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
        // After catching up: a read-only store learns of the deletion from the catalog alone.
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
        // Positions only grow, so every event up to this position was already given.
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
        self.store.known_instance(instance).await?;
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
        self.store.known_instance(instance).await?;
        Ok(self.stream_last(instance).await?.unwrap_or_default().0)
    }

    /// Deletes the events after a sequence, and says how many they were. Later ones continue at
    /// `sequence + 1`. Forks keep what they share. Durable when it returns.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) when there is no such instance, [`InvalidInput`](ErrorKind::InvalidInput)
    /// when the context ends before the sequence.
    pub async fn delete_events_after(&self, instance: InstanceId, sequence: u64) -> Result<u64> {
        self.delete_events_with(instance, sequence, || std::future::ready(Ok(None)))
            .await
    }

    /// [`delete_events_after`](Self::delete_events_after), and a step more of the same batch, which is decided anew
    /// each time that another writer came in between.
    pub(crate) async fn delete_events_with<Step>(
        &self,
        instance: InstanceId,
        sequence: u64,
        along: impl Fn() -> Step,
    ) -> Result<u64>
    where
        Step: Future<Output = Result<Option<Op<'static>>>>,
    {
        self.store.writable_instance(instance).await?;
        let stream = context_stream(instance);
        let after = Sequence(sequence);
        let mut attempts = self
            .store
            .shared
            .folds
            .queues
            .attempts(&**self.store.backend(), stream)
            .await;
        loop {
            let last = self.stream_last(instance).await?.unwrap_or_default();
            check_within(instance, after, last)?;
            if after == last {
                return Ok(0);
            }
            let truncate = Op::Truncate {
                stream,
                expected: Expected::Last(last),
                after,
            };
            let ops = std::iter::once(truncate).chain(along().await?).collect();
            match self.store.backend().commit(Batch::new(ops)).await {
                Ok(_) => return Ok(last.0 - after.0),
                // Another writer appended in between; what it appended is deleted and counted too.
                Err(error) => attempts
                    .again(error)
                    .await
                    .map_err(|error| name_instance(error, instance))?,
            }
        }
    }

    /// Copies the events of one context, up to a sequence, into another one that is empty, and says how many
    /// they were. The copy's events keep sequence, content and time. Durable when it returns.
    ///
    /// Into an instance that never had an event this is a fork: no bytes are copied, however many events.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) when either instance isn't there, [`AlreadyExists`](ErrorKind::AlreadyExists)
    /// when the target has events, [`InvalidInput`](ErrorKind::InvalidInput) when the source ends before
    /// `up_to_sequence`. Nothing is copied then.
    pub async fn copy_events(
        &self,
        source: InstanceId,
        target: InstanceId,
        up_to_sequence: Option<u64>,
    ) -> Result<u64> {
        if source == target {
            return Err(Error::invalid(format!(
                "instance {source} can't be copied to itself; make a new one"
            )));
        }
        self.store.known_instance(source).await?;
        self.store.writable_instance(target).await?;
        let source_last = self.stream_last(source).await?;
        let last = source_last.unwrap_or_default();
        let at = up_to_sequence.map_or(last, Sequence);
        check_within(source, at, last)?;
        let target_last = self.stream_last(target).await?;
        if let Some(events) = target_last.filter(|last| last.0 > 0) {
            return Err(Error::new(
                ErrorKind::AlreadyExists,
                format!(
                    "instance {target} has {events} events already; copy to an instance that has none"
                ),
            ));
        }
        if at == Sequence::ZERO {
            return Ok(0);
        }
        if target_last.is_some() {
            return self.copy_records(source, target, at).await;
        }
        let (parent, child) = (context_stream(source), context_stream(target));
        let fork = Op::Fork {
            parent,
            expected: Expected::Any,
            at,
            child,
        };
        self.store
            .backend()
            .commit(Batch::new(vec![fork]))
            .await
            .map_err(|error| name_instance(error, target))?;
        Ok(at.0)
    }

    /// Writes the events out once more, as one batch: the target's stream exists, so that it can't be a fork.
    async fn copy_records(
        &self,
        source: InstanceId,
        target: InstanceId,
        at: Sequence,
    ) -> Result<u64> {
        let mut pages = self.events(source, 1).await?;
        pages.last = at;
        let mut events = Vec::new();
        while let Some(page) = pages.next_page().await? {
            events.extend(page.iter().map(ContextEvent::to_new));
        }
        let options = AppendOptions {
            expected_last_sequence: Some(0),
            ..AppendOptions::default()
        };
        match self.append(target, &events, &options).await {
            Ok(_) => Ok(events.len() as u64),
            Err(error) if error.kind() == ErrorKind::TooLarge => Err(Error::with_source(
                ErrorKind::TooLarge,
                format!(
                    "{at} events are too many to write out in one batch; copy to an instance that never had any: {error}"
                ),
                error,
            )),
            Err(error) => Err(error),
        }
    }

    /// The last sequence of an instance's stream, `None` when it has no stream yet.
    async fn stream_last(&self, instance: InstanceId) -> Result<Option<Sequence>> {
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
            // An instance gets its stream with its first event.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Page {
                records: Vec::new(),
                next: None,
            }),
            page => page,
        }
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
    /// Begins with a page of so many events, for who may need no more.
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
}

impl EventPages {
    /// Gives no more pages.
    pub(crate) fn end(&mut self) {
        self.next = None;
    }
}

fn check_within(instance: InstanceId, sequence: Sequence, last: Sequence) -> Result<()> {
    if sequence <= last {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the context of instance {instance} ends at sequence {last}, before {sequence}; give at most {last}"
    )))
}

fn name_instance(error: Error, instance: InstanceId) -> Error {
    let message = format!("context of instance {instance}: {error}");
    Error::with_source(error.kind(), message, error)
}
