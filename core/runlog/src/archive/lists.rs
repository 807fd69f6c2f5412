//! The streams that list the sessions, runs, flows and agents of a store, one stream each.

use pollster::block_on;
use runlog_log::{Position, ReadOptions, Record, Sequence, StreamId};
use runlog_model::{
    AgentCatalogEvent, CatalogEvent, ContextEventKind, FlowCatalogEvent, RunCatalogEvent, RunId,
    SessionId, codec, kinds,
};

use super::lines::RecordLine;
use crate::{
    Error, ErrorKind, Result,
    agents::AGENTS_STREAM,
    blocking::Store,
    kernel::{
        self,
        catalog::{self, CATALOG_STREAM},
        flows::FLOWS_STREAM,
        runs::RUNS_STREAM,
    },
    transcripts::{keep::aside_stream, marks_stream},
};

/// A stream that lists things.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum List {
    /// Sessions and their agent instances.
    Sessions,
    /// Runs.
    Runs,
    /// Flows.
    Flows,
    /// Definitions of agents.
    Agents,
}

/// The subject of a list's record.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Subject {
    Session(SessionId),
    Run(RunId),
    Flow(RunId),
    Agent(Option<String>, String),
    /// Nobody knows what it was.
    Lost(List),
}

/// A decoded record of a list.
#[derive(Clone, Debug)]
pub(super) enum ListEvent {
    Session(CatalogEvent),
    Run(RunCatalogEvent),
    Flow(FlowCatalogEvent),
    Agent(AgentCatalogEvent),
    /// The description of a session that was erased.
    Erased(SessionId),
    /// One that is lost, and was passed over by a repair.
    Lost(List),
}

impl List {
    pub(super) const ALL: [Self; 4] = [Self::Sessions, Self::Runs, Self::Flows, Self::Agents];

    pub(super) const fn stream(self) -> StreamId {
        match self {
            Self::Sessions => CATALOG_STREAM,
            Self::Runs => RUNS_STREAM,
            Self::Flows => FLOWS_STREAM,
            Self::Agents => AGENTS_STREAM,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Sessions => "sessions",
            Self::Runs => "runs",
            Self::Flows => "flows",
            Self::Agents => "agents",
        }
    }

    pub(super) fn of_stream(stream: StreamId) -> Option<Self> {
        Self::ALL.into_iter().find(|list| list.stream() == stream)
    }

    /// The event of a record; `before` is the subject of the one before it in the list, to which an erased description belongs.
    pub(super) fn decode(
        self,
        before: Option<&Subject>,
        kind: u8,
        meta: &[u8],
        payload: &[u8],
    ) -> Result<ListEvent> {
        if kind == kinds::LISTED_EVENT_LOST {
            return Ok(ListEvent::Lost(self));
        }
        if kind == kinds::SESSION_DESCRIBED && payload.is_empty() && self == Self::Sessions {
            return Ok(match before {
                Some(Subject::Session(id)) => ListEvent::Erased(*id),
                _ => ListEvent::Lost(self),
            });
        }
        Ok(match self {
            Self::Sessions => ListEvent::Session(CatalogEvent::decode(kind, meta, payload)?),
            Self::Runs => ListEvent::Run(RunCatalogEvent::decode(kind, meta, payload)?),
            Self::Flows => ListEvent::Flow(FlowCatalogEvent::decode(kind, meta, payload)?),
            Self::Agents => ListEvent::Agent(AgentCatalogEvent::decode(kind, meta, payload)?),
        })
    }
}

impl List {
    /// The event of a record of the store; `before` as of [`decode`](Self::decode).
    pub(super) fn event_of(self, before: Option<&Subject>, record: &Record) -> Result<ListEvent> {
        if record.lost || (record.redacted && record.kind.0 != kinds::SESSION_DESCRIBED) {
            return Ok(ListEvent::Lost(self));
        }
        self.decode(before, record.kind.0, &record.meta, &record.payload)
    }
}

impl ListEvent {
    pub(super) fn subject(&self) -> Subject {
        match self {
            Self::Session(event) => Subject::Session(match event {
                CatalogEvent::SessionCreated(session) => session.id,
                CatalogEvent::SessionUpdated { id, .. } => *id,
                CatalogEvent::SessionDescribed(description) => description.id,
                CatalogEvent::SessionDeleted { id, .. }
                | CatalogEvent::SessionRestored { id, .. } => *id,
                CatalogEvent::InstanceCreated(instance) => instance.session_id,
                CatalogEvent::ChatUpdated { id, .. } => *id,
                CatalogEvent::ChatTouched { id, .. }
                | CatalogEvent::ChatReordered { id }
                | CatalogEvent::ChatRequestChanged { id, .. } => *id,
            }),
            Self::Run(event) => Subject::Run(match event {
                RunCatalogEvent::Created(run) => run.id,
                RunCatalogEvent::StatusChanged { id, .. }
                | RunCatalogEvent::Described { id, .. } => *id,
            }),
            Self::Flow(event) => Subject::Flow(event.run_id),
            Self::Agent(event) => match event {
                AgentCatalogEvent::Defined(agent) | AgentCatalogEvent::Updated(agent) => {
                    Subject::Agent(agent.project.clone(), agent.name.clone())
                }
                AgentCatalogEvent::Deleted(agent) => {
                    Subject::Agent(agent.project.clone(), agent.name.clone())
                }
            },
            Self::Erased(id) => Subject::Session(*id),
            Self::Lost(list) => Subject::Lost(*list),
        }
    }

    /// Its name, for people who read the file.
    pub(super) const fn what(&self) -> &'static str {
        match self {
            Self::Session(CatalogEvent::SessionCreated(_)) => "session_created",
            Self::Session(CatalogEvent::SessionUpdated { .. }) => "session_updated",
            Self::Session(CatalogEvent::SessionDescribed(_)) | Self::Erased(_) => {
                "session_described"
            }
            Self::Session(CatalogEvent::SessionDeleted { .. }) => "session_deleted",
            Self::Session(CatalogEvent::SessionRestored { .. }) => "session_restored",
            Self::Session(CatalogEvent::InstanceCreated(_)) => "instance_created",
            Self::Session(CatalogEvent::ChatUpdated { .. }) => "chat_updated",
            Self::Session(CatalogEvent::ChatTouched { .. }) => "chat_touched",
            Self::Session(CatalogEvent::ChatReordered { .. }) => "chat_reordered",
            Self::Session(CatalogEvent::ChatRequestChanged { .. }) => "chat_request_changed",
            Self::Run(RunCatalogEvent::Created(_)) => "run_created",
            Self::Run(RunCatalogEvent::StatusChanged { .. }) => "run_status_changed",
            Self::Run(RunCatalogEvent::Described { .. }) => "run_described",
            Self::Flow(_) => "flow_saved",
            Self::Agent(AgentCatalogEvent::Defined(_)) => "agent_defined",
            Self::Agent(AgentCatalogEvent::Updated(_)) => "agent_updated",
            Self::Agent(AgentCatalogEvent::Deleted(_)) => "agent_deleted",
            Self::Lost(_) => "event_lost",
        }
    }

    /// Checks that it is valid in a store.
    pub(super) fn check(&self) -> Result<()> {
        match self {
            Self::Session(event) => event.encode().map(drop)?,
            Self::Run(event) => event.encode().map(drop)?,
            Self::Flow(event) => event.encode().map(drop)?,
            Self::Agent(event) => event.encode().map(drop)?,
            Self::Erased(_) | Self::Lost(_) => {}
        }
        Ok(())
    }
}

/// The names of a context's records, for people who read the file.
pub(super) fn what_of_context(kind: u8) -> Option<&'static str> {
    ContextEventKind::from_byte(kind).map(ContextEventKind::name)
}

/// Streams that are derived from the lists, and never in an archive.
pub(super) fn is_derived(stream: StreamId) -> bool {
    [
        catalog::PARTS_STREAM,
        kernel::runs::PARTS_STREAM,
        kernel::flows::PARTS_STREAM,
    ]
    .contains(&stream)
}

/// The streams of a session in addition to those of its instances and runs, with their content types.
pub(super) fn streams_of(session: SessionId) -> [(StreamId, &'static str); 3] {
    let chat = StreamId(session.as_uuid());
    [
        (chat, "chat"),
        (aside_stream(session), "aside"),
        (marks_stream(session), "import"),
    ]
}

/// Passes on every record of a stream up to a position, one page in memory at a time; none if there is no such stream.
pub(super) fn each_record<E: From<Error>>(
    store: &Store,
    stream: StreamId,
    bound: Position,
    visit: impl FnMut(&Record) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    each_record_from(store, stream, Sequence::FIRST, bound, visit)
}

/// The same from a sequence on.
pub(super) fn each_record_from<E: From<Error>>(
    store: &Store,
    stream: StreamId,
    first: Sequence,
    bound: Position,
    mut visit: impl FnMut(&Record) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let mut next = Some(first);
    while let Some(first) = next {
        let options = ReadOptions {
            first,
            ..ReadOptions::default()
        };
        let page = match block_on(store.backend().read(stream, options)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            page => page?,
        };
        next = page.next.filter(|_| !page.records.is_empty());
        for record in &page.records {
            if record.position > bound {
                return Ok(());
            }
            visit(record)?;
        }
    }
    Ok(())
}

/// The record at a sequence of a stream, if there is one.
pub(super) fn record_at(store: &Store, stream: StreamId, sequence: u64) -> Result<Option<Record>> {
    let one = Sequence(sequence);
    let options = ReadOptions {
        first: one,
        last: one,
        limit: 1,
        ..ReadOptions::default()
    };
    match block_on(store.backend().read(stream, options)) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        page => Ok(page?.records.into_iter().next()),
    }
}

/// Whether a record of the store is that of a line. Content that is redacted on either side can't be compared.
pub(super) fn is_same(there: &Record, line: &RecordLine, is_context: bool) -> bool {
    let is_same_meta = || {
        let timed = |meta, time_ms| timed_meta(meta, time_ms).filter(|_| is_context);
        there.meta == line.meta
            || timed(&there.meta, there.time_ms)
                .is_some_and(|own| timed(&line.meta, line.time_ms) == Some(own))
    };
    let is_erased = line.kind.0 == kinds::SESSION_DESCRIBED
        && (there.payload.is_empty() || line.payload.is_empty());
    there.kind == line.kind
        && (there.redacted
            || line.redacted
            || is_erased
            || (there.payload == line.payload && is_same_meta()))
}

/// The metadata of a context's event with the time added, if only the record had it.
pub(super) fn timed_meta(meta: &[u8], time_ms: u64) -> Option<Vec<u8>> {
    let meta = codec::decode_event_meta(meta).ok()?;
    let created_at_ms = Some(meta.created_at_ms.unwrap_or(time_ms));
    codec::encode_event_meta(&codec::EventMeta {
        created_at_ms,
        ..meta
    })
    .ok()
}
