//! Record, replay, resume, truncate and fork AI-agent runs.
//!
//! A [`Store`] holds sessions; a session holds agent instances; an instance has a context: the messages, tool calls and
//! tool results of one agent, as immutable events. Each part of it has a module:
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`sessions`] | sessions and agent instances: to make, find, list, change and copy them |
//! | [`contexts`] | [`Contexts`](contexts::Contexts) has the events of every instance, [`Context`](contexts::Context) the messages that one agent's model sees |
//! | [`runs`] | a run is one stretch of an agent's work: [`Runs`](runs::Runs) starts, resumes and lists them, a [`RunRecorder`] writes one |
//! | [`chats`] | a session as its user sees it: [`Chats`](chats::Chats) has its messages and steps, a [`RequestBuffer`](chats::RequestBuffer) records a request in two writes, a [`Resumption`](chats::Resumption) says how an interrupted one goes on |
//! | [`flows`] | a [`FlowRun`](flows::FlowRun) records nodes and agents and is resumed from its snapshot, a [`Playback`](flows::Playback) plays it back |
//! | [`agents`] | an [`Orchestrator`] starts agents, lets them spawn others, stops them as trees and goes on with what a crash cut off; [`Agents`](agents::Agents) are their definitions, an [`Executor`](agents::Executor) does their work |
//! | [`transcripts`] | transcripts of other tools, read and written |
//! | [`scan`] | the log as a whole, quickly: what lists show of every event, and a search of all contents |
//! | [`retention`] | which sessions a store keeps, and what is erased of it |
//! | [`archive`] | a store, or some of its sessions, as JSON lines |
//! | [`blocking`] | the same objects for callers that wait instead of awaiting |
//! | [`backend`] | where the log is kept: what a store elsewhere has to implement |
//! | [`engine`], [`log`] | what lies below: streams of opaque records in a segmented log, and their words |
//!
//! At the root stand the names that most programs use.

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/record-an-agent.md")]
struct RecordAnAgent;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/resume-after-a-crash.md")]
struct ResumeAfterACrash;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/spawn-sub-agents.md")]
struct SpawnSubAgents;

pub mod agents;
pub mod archive;
/// Where a log is kept: the trait that every backend implements, of the crate `runlog-log`.
pub mod backend {
    pub use runlog_log::{Backend, BackendFuture, Decorator, Maintenance, Page, if_supported};
}
#[cfg(not(target_family = "wasm"))]
mod backup;
pub mod blocking;
pub mod chats;
mod compaction;
pub mod contexts;
pub mod durability;
pub mod flows;
mod journal;
mod kernel;
mod opening;
pub mod retention;
pub mod runs;
pub mod scan;
pub mod sessions;
pub mod transcripts;

pub use runlog_engine::{self as engine, OpenOptions as StoreOptions};
pub use runlog_log::{self as log, Durability, Error, ErrorKind, Result};

pub use agents::{AgentDefinition, Orchestrator};
pub use contexts::{Message, NewMessage, NewToolCall, RawJson, Role};
pub use kernel::store::Store;
pub use runlog_model::Page;
pub use runs::{NewRun, Run, RunId, RunRecorder, RunStatus};
pub use sessions::{AgentInstance, InstanceId, NewInstance, NewSession, Session, SessionId};
