//! Record, replay, resume, truncate and fork AI-agent runs.
//!
//! A [`Store`] holds sessions; a session holds agent instances; an instance has a context: the messages,
//! tool calls and tool results of one agent, as immutable events. [`ContextRepository`] works on events,
//! [`ContextService`] on the messages that one agent's model sees. A run is one stretch of an agent's work in
//! its context: [`Runs`] starts, resumes and lists them, a [`RunRecorder`] writes one. Each has a twin for callers that await
//! ([`AsyncStore`], …); the work is done by one implementation, over any [`Backend`](backend::Backend).

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/record-an-agent.md")]
struct RecordAnAgent;

pub mod backend;
mod blocking;
mod catalog;
mod embedded;
mod error;
mod lookup;
pub mod memory;
mod repository;
mod runs;
mod service;
mod sessions;
mod store;
pub mod transcript;

pub use blocking::{ContextRepository, ContextService, Events, ResumedRun, RunRecorder, Runs, Store};
pub use catalog::CATALOG_STREAM;
pub use embedded::{Embedded, Wait};
pub use error::{Error, ErrorKind, Result};
pub use repository::{AppendOptions, AppendResult, AsyncContextRepository, AsyncEventPages};
#[cfg(not(target_family = "wasm"))]
pub use runlog_engine::SystemHost;
pub use runlog_engine::{self as engine, Missing, Mode, OpenOptions as StoreOptions};
pub use runlog_engine::{Durability, Host};
pub use runlog_model::{
    AgentInstance, ContextEvent, ContextEventKind, DanglingToolCall, Deleted, EventOptions, InstanceId, ListRuns,
    ListSessions, Message, NewMessage, NewToolCall, RawJson, Role, Run, RunId, RunMessage, RunStatus, RunSummary,
    Session, SessionChanges, SessionId, SessionPage, SessionStatus, ToolCall, ToolCallStatus, ToolResultMark,
    ToolStyle, pause_reason,
};
pub use runs::{
    AsyncResumedRun, AsyncRunRecorder, AsyncRuns, Dangling, ListRunMessages, ListToolCalls, MAX_TOTAL_STEPS_PER_RUN,
    NewRun, Paged, RUNS_STREAM, Recorded, ResumeOptions, RunPlace, ToolOutcome,
};
pub use service::{AsyncContextService, RawMessage};
pub use sessions::{CopiedInstance, CopiedSession, CopySession};
pub use store::{AsyncStore, NewInstance, NewSession};
