//! Record, replay, resume, truncate and fork AI-agent runs.
//!
//! A [`Store`] holds sessions; a session holds agent instances; an instance has a context: the messages,
//! tool calls and tool results of one agent, as immutable events. [`ContextRepository`] works on events,
//! [`ContextService`] on the messages that one agent's model sees. A run is one stretch of an agent's work in
//! its context: [`Runs`] starts, resumes and lists them, a [`RunRecorder`] writes one. Each has a twin for callers that await
//! ([`AsyncStore`], …); the work is done by one implementation, over any [`Backend`](backend::Backend).
//!
//! A session is a chat to its users: [`ChatStore`] has its messages and steps, [`RequestBuffer`] records a request
//! in two writes, and [`Resumption`] says how an interrupted one goes on. [`FlowRun`] records a flow of nodes and
//! agents and resumes it from its snapshot; [`Playback`] plays it back.
//!
//! An [`Orchestrator`] starts agents, lets them spawn others, stops them as trees, and goes on with what a crash cut off;
//! [`Agents`] are their definitions, and an [`Executor`] does their work.

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

pub mod archive;
/// Where a log is kept: the trait that every backend implements, of the crate `runlog-log`.
pub mod backend {
    pub use runlog_log::{Backend, BackendFuture, Page};
}
#[cfg(not(target_family = "wasm"))]
mod backup;
mod blocking;
mod catalog;
mod chats;
mod cursor;
pub mod durability;
mod flows;
mod journal;
mod lookup;
#[cfg(not(target_family = "wasm"))]
mod new_file;
mod new_session;
mod orchestration;
mod projection;
mod repository;
mod runs;
mod service;
mod sessions;
mod store;
pub mod transcript;

pub use blocking::{
    Agents, ChatStore, ContextRepository, ContextService, Events, FlowRun, Flows, Playback,
    RequestBuffer, ResumedRun, RunRecorder, Runs, Store,
};
pub use catalog::CATALOG_STREAM;
pub use chats::{
    AsyncChatStore, AsyncRequestBuffer, ImportIssue, ImportOptions, ImportReport, ListSteps,
    NewRequest, RequestDraft, RequestEnd, ResumeAction, Resumption, StackLevel,
};
pub use flows::{
    AsyncFlowRun, AsyncFlows, AsyncPlayback, FLOWS_STREAM, PlaybackOptions, RecordedEvent, Resumed,
    RunningNode, Speed,
};
#[cfg(not(target_family = "wasm"))]
pub use new_file::NewFile;
pub use new_session::{NewInstance, NewSession};
#[cfg(feature = "broken-orchestrator")]
#[doc(hidden)]
pub use orchestration::Defect;
#[cfg(all(target_family = "wasm", feature = "js"))]
pub use orchestration::JsRuntime;
#[cfg(not(target_family = "wasm"))]
pub use orchestration::TokioRuntime;
pub use orchestration::{
    AGENTS_STREAM, AgentEnd, AgentError, AsyncAgents, Execution, Executor, LIST_AVAILABLE_AGENTS,
    MaybeSend, MaybeSync, Orchestrator, OrchestratorOptions, ResumeReport, RunContext, RunHandle,
    Runtime, SPAWN_AGENTS, SharedSpace, SpawnRequest, SpawnResult, StartAgent, StartPlace, Task,
    ToolDefinition, ToolReply, executor_fn, spawn_requests, tool_definitions,
};
pub use repository::{
    AppendOptions, AppendResult, AsyncContextRepository, AsyncEventPages, Followed,
};
#[cfg(not(target_family = "wasm"))]
pub use runlog_engine::SystemHost;
pub use runlog_engine::{self as engine, Missing, Mode, OpenOptions as StoreOptions};
pub use runlog_engine::{Durability, Embedded, Host, Wait};
pub use runlog_log::{self as log, Error, ErrorKind, Result};
pub use runlog_model::{AgentDefinition, AgentSummary, AgentVisibility, ListAgents};
pub use runlog_model::{
    AgentEvent, AgentUsage, EdgeStatus, FLOW_FINAL_STATUSES, FlowEventKind, FlowSummary, ListFlows,
    ModelUsage, NodeStatus, RunSnapshot, RuntimeCommand, RuntimeEvent,
};
pub use runlog_model::{
    AgentInstance, ContextEvent, ContextEventKind, DanglingToolCall, Deleted, EventOptions,
    InstanceId, JsonText, ListRuns, ListSessions, Message, NewMessage, NewToolCall, Page, RawJson,
    Role, Run, RunId, RunMessage, RunStatus, RunSummary, Session, SessionChanges, SessionId,
    SessionStatus, ToolCall, ToolCallStatus, ToolResultMark, ToolStyle, max_steps, pause_reason,
    read_json, read_value,
};
pub use runlog_model::{
    Chat, ChatFilter, ChatList, ChatMessage, ChatOrder, ChatRole, ChatShare, MessageFilter, Space,
    Step, StepStatus, StepType, Timestamp, Updates,
};
pub use runs::{
    AsyncResumedRun, AsyncRunRecorder, AsyncRuns, Continuation, Dangling, ListRunMessages,
    ListToolCalls, MAX_TOTAL_STEPS_PER_RUN, NewRun, RUNS_STREAM, Recorded, ResumeOptions, RunEntry,
    RunPlace, ToolOutcome,
};
pub use service::{AsyncContextService, RawMessage};
pub use sessions::{CopiedInstance, CopiedSession, CopySession};
pub use store::AsyncStore;
