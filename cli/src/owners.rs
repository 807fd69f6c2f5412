//! The owners of a log's streams, and the topics of the records in them.

use std::{collections::HashMap, sync::Arc};

use runlog::{
    AgentInstance, InstanceId, Result, RunId, SessionId, Store,
    contexts::ContextEventKind,
    flows::{FlowEventKind, RuntimeEvent},
    log::{Record, StreamId},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The prefix of the ids of a store's list streams.
const LISTS: &[u8] = b"runlog:";
/// The most streams whose owners are cached.
const OWNERS_MAX: usize = 10_000;

/// What a record is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Topic {
    /// An event of an agent's context.
    Context,
    /// What happened to a run.
    Run,
    /// An event of a flow.
    Flow,
    /// A message or a step of a chat.
    Chat,
    /// An entry of the lists of sessions, runs, flows and agents.
    List,
    /// A record of a stream that is none of these.
    Stream,
    /// What the log was asked to do: truncate, fork, …; `kind` is 128 or more.
    Log,
    /// Records that can't be read. Sent whatever else is asked for, since they may have been that.
    Damaged,
}

impl Topic {
    /// The topic of a record in a stream with this owner.
    pub(crate) fn of(owner: &Owner, record: &Record) -> Self {
        if !record.kind.is_data() {
            return Self::Log;
        }
        match owner {
            Owner::Instance(_) if ContextEventKind::from_byte(record.kind.0).is_some() => {
                Self::Context
            }
            Owner::Run(..) if is_flow(record) => Self::Flow,
            Owner::Run(..) => Self::Run,
            Owner::Chat(_) => Self::Chat,
            Owner::Lists => Self::List,
            Owner::Nobody if is_flow(record) => Self::Flow,
            Owner::Instance(_) | Owner::Nobody => Self::Stream,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Context => "context",
            Self::Run => "run",
            Self::Flow => "flow",
            Self::Chat => "chat",
            Self::List => "list",
            Self::Stream => "stream",
            Self::Log => "log",
            Self::Damaged => "damaged",
        }
    }
}

/// The owner of a stream.
#[derive(Clone)]
pub(crate) enum Owner {
    Instance(Arc<AgentInstance>),
    Run(RunId, SessionId),
    Chat(SessionId),
    Lists,
    Nobody,
}

/// Finds the owners of streams, and caches them.
#[derive(Default)]
pub(crate) struct Owners {
    known: HashMap<StreamId, Owner>,
}

impl Owner {
    /// The session of its stream.
    pub(crate) fn session(&self) -> Option<SessionId> {
        match self {
            Self::Instance(instance) => Some(instance.session_id),
            Self::Run(_, session) | Self::Chat(session) => Some(*session),
            Self::Lists | Self::Nobody => None,
        }
    }

    /// The run of a record in its stream, unless the record itself says which.
    pub(crate) fn run(&self, record: &Record) -> Option<RunId> {
        match self {
            Self::Run(run, _) => Some(*run),
            // A flow that belongs to no run has a stream of its own.
            Self::Nobody => is_flow(record).then_some(RunId(record.stream.0)),
            Self::Instance(_) | Self::Chat(_) | Self::Lists => None,
        }
    }

    /// The agent instance whose context its stream is.
    pub(crate) fn instance(&self) -> Option<&AgentInstance> {
        match self {
            Self::Instance(instance) => Some(instance),
            _ => None,
        }
    }
}

impl Owners {
    pub(crate) async fn of(&mut self, store: &Store, stream: StreamId) -> Result<Owner> {
        if let Some(owner) = self.known.get(&stream) {
            return Ok(owner.clone());
        }
        let owner = owner(store, stream).await?;
        // A stream without an owner may get one later.
        if !matches!(owner, Owner::Nobody) {
            if self.known.len() >= OWNERS_MAX {
                self.known.clear();
            }
            self.known.insert(stream, owner.clone());
        }
        Ok(owner)
    }
}

async fn owner(store: &Store, stream: StreamId) -> Result<Owner> {
    if stream.as_bytes().starts_with(LISTS) {
        return Ok(Owner::Lists);
    }
    if let Some(instance) = store.get_instance(InstanceId(stream.0)).await? {
        return Ok(Owner::Instance(Arc::new(instance)));
    }
    if let Some(run) = store.runs().get(RunId(stream.0)).await? {
        return Ok(Owner::Run(run.id, run.session_id));
    }
    let session = store.get_session(SessionId(stream.0)).await?;
    Ok(session.map_or(Owner::Nobody, |session| Owner::Chat(session.id)))
}

/// Whether a record is an event of a flow.
pub(crate) fn is_flow(record: &Record) -> bool {
    FlowEventKind::of_byte(record.kind.0).is_some()
        && RuntimeEvent::decode(&record.meta, &record.payload).is_ok()
}
