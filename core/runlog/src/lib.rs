//! Record, replay, resume, truncate and fork AI-agent runs.
//!
//! A [`Store`] holds sessions; a session holds agent instances; an instance has a context: the messages, tool calls and
//! tool results of one agent, as immutable events. Each part of it has a module:
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`sessions`] | sessions and agent instances: creating, finding, listing, changing and copying them |
//! | [`contexts`] | [`Contexts`](contexts::Contexts) has the events of every instance, [`Context`](contexts::Context) the messages that one agent's model sees |
//! | [`runs`] | a run is one stretch of an agent's work: [`Runs`](runs::Runs) starts, resumes and lists them, a [`RunRecorder`] writes one |
//! | [`chats`] | a session as its user sees it: [`Chats`](chats::Chats) has its messages and steps, a [`RequestBuffer`](chats::RequestBuffer) records a request in two writes, a [`Resumption`](chats::Resumption) describes how to resume an interrupted one |
//! | [`flows`] | a [`FlowRun`](flows::FlowRun) records nodes and agents and is resumed from its snapshot, a [`Playback`](flows::Playback) plays it back |
//! | [`agents`] | an [`Orchestrator`] starts agents, lets them spawn others, stops them as trees and resumes what a crash interrupted; [`Agents`](agents::Agents) are their definitions, an [`Executor`](agents::Executor) does their work |
//! | [`transcripts`] | transcripts of other tools, read and written |
//! | [`scan`] | fast reads of the whole log: the heads of all events, and a search of all contents |
//! | [`retention`] | which sessions a store keeps, and erasing content |
//! | [`archive`] | a store, or some of its sessions, as JSON lines |
//! | [`blocking`] | the same objects with blocking calls |
//! | [`backend`] | the storage of the log: the trait that another backend implements |
//! | [`engine`], [`log`] | the crates below: streams of opaque records in a segmented log, and their types |
//!
//! The names that most programs use are re-exported at the root.

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
/// The storage of a log: the trait that every backend implements, from the crate `runlog-log`.
pub mod backend {
    pub use runlog_log::{Backend, BackendFuture, Decorator, Maintenance, Page, if_supported};

    pub use crate::kernel::lookup::is_list;
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
pub mod pages;
mod repair;
pub mod retention;
pub mod runs;
pub mod scan;
pub mod sessions;
pub mod transcripts;
pub mod watch;

pub use runlog_engine::{self as engine, OpenOptions as StoreOptions};
pub use runlog_log::{self as log, Durability, Error, ErrorKind, Result};

pub use agents::{AgentDefinition, Orchestrator};
pub use contexts::{Message, NewMessage, NewToolCall, RawJson, Role};
pub use kernel::store::Store;
pub use runs::{NewRun, Run, RunId, RunRecorder, RunStatus};
pub use sessions::{AgentInstance, InstanceId, NewInstance, NewSession, Session, SessionId};
