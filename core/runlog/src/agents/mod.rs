//! Orchestration: agents are defined, started, spawned by other agents, stopped and resumed. The work of each is
//! recorded as a run.
//!
//! An [`Orchestrator`] holds a store, a [`Runtime`] and the [`Executor`]s of agents. All of its durable state is in the
//! log, so a crash loses nothing: a spawn is one batch (the record in the parent's stream, the children's instances and
//! runs), the end of a whole tree is one batch, and [`Orchestrator::resume_all`] resumes the runs that a crash
//! interrupted. Memory holds only the tree of the active runs.

mod active_run;
mod breaking;
mod call;
mod commands;
mod context;
mod create;
mod defect;
mod definitions;
#[cfg(not(target_family = "wasm"))]
mod elsewhere;
mod end;
mod executor;
mod gather;
mod inner;
#[cfg(all(target_family = "wasm", feature = "js"))]
mod js;
mod orchestrator;
mod outside;
mod plan;
mod recording;
mod report;
mod request;
mod runtime;
mod space;
mod spaces;
mod spawn;
mod spawned;
mod start;
mod starting;
mod stop;
mod supervise;
mod task;
mod tools;
mod work;

pub use context::RunContext;
#[cfg(feature = "_broken-orchestrator")]
pub use defect::Defect;
pub use definitions::{AGENTS_STREAM, Agents};
pub use end::{AgentEnd, AgentError, Execution};
pub use executor::{Executor, executor_fn};
#[cfg(all(target_family = "wasm", feature = "js"))]
pub use js::JsRuntime;
pub use orchestrator::{Orchestrator, RunHandle};
pub use report::SPAWN_AGENTS;
pub use request::{
    OrchestratorOptions, SpawnRequest, SpawnResult, StartAgent, StartPlace, StopReason,
};
pub use runlog_model::{
    AgentDefinition, AgentSummary, AgentVisibility, ListAgents, Page, max_steps,
};
#[cfg(not(target_family = "wasm"))]
pub use runtime::TokioRuntime;
pub use runtime::{MaybeSend, MaybeSync, Runtime, Task};
pub use space::SharedSpace;
pub use spawned::Spawned;
pub use supervise::ResumeReport;
pub use tools::{
    LIST_AVAILABLE_AGENTS, ToolDefinition, ToolReply, spawn_requests, tool_definitions,
};
