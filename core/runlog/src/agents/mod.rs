//! Orchestration: agents that are defined, started, spawned by other agents, stopped and gone on with, each of them
//! recorded as a run.
//!
//! An [`Orchestrator`] holds a store, a [`Runtime`] and the [`Executor`]s of agents. Everything it knows is in the
//! log, so that a crash loses nothing of it: a spawn is one batch (what the parent's stream says of it, the
//! children's instances and runs), an end is one batch for a whole tree, and [`Orchestrator::resume_all`] goes on
//! with what a crash cut off. In memory are only the runs that are under way, as a tree.

mod active_run;
mod breaking;
mod call;
mod commands;
mod context;
mod create;
mod defect;
mod definitions;
mod end;
mod executor;
mod gather;
mod inner;
#[cfg(all(target_family = "wasm", feature = "js"))]
mod js;
mod orchestrator;
mod plan;
mod report;
mod request;
mod runtime;
mod space;
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
#[cfg(feature = "broken-orchestrator")]
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
