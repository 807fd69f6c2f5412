//! Typed events of AI-agent runs and their folds: what the bytes in the log mean.
//!
//! Pure: no I/O, no clock, no randomness, no runtime. An agent's context is a sequence of [`ContextEvent`]s,
//! each with JSON content kept byte for byte; [`messages`] folds them into exactly what was sent to the
//! model, and [`dangling_tool_calls`] into the calls that were never answered. [`Catalog`] folds
//! [`CatalogEvent`]s into the sessions and instances there are. A session is a [`Chat`] to its users, whose
//! messages and steps [`ChatFold`] folds from [`ChatEvent`]s. A flow is told in [`RuntimeEvent`]s, and resumed from
//! a [`RunSnapshot`]. [`AgentCatalog`] folds the definitions of agents that can be spawned.

mod agent;
mod catalog;
mod chat;
mod checkpoint;
pub mod codec;
mod event;
mod extra;
mod fields;
mod flow;
mod fold;
mod ids;
mod kind;
pub mod limits;
mod message;
mod new_message;
mod page;
mod raw_json;
mod reading;
mod run;
mod run_catalog;
mod run_event;
mod run_history;
mod session;
mod time;

pub use agent::{
    AgentCatalog, AgentCatalogEvent, AgentDefinition, AgentSummary, AgentVisibility, DeletedAgent,
    ListAgents, SPACE_SAVED, SPAWNED, SpaceRecord, SpawnRecord, SpawnedAgent, max_steps,
};
pub use catalog::{
    Catalog, CatalogEvent, ChatFilter, ChatList, ChatOrder, ChatPlace, ChatTouched, ChatUpdated,
    Deleted, EncodedCatalogEvent, ListSessions, SessionChanges, SessionDeleted, SessionUpdated,
};
pub use chat::{
    Chat, ChatEvent, ChatFields, ChatFold, ChatMessage, ChatRole, ChatShare, EncodedChatEvent,
    KeptMessage, MessageFilter, Space, Step, StepStatus, StepType, Touched, Updates, id_in_copy,
};
pub use checkpoint::{Checkpoint, Checkpointed, Progress};
pub use event::{ContextEvent, EventOptions, NewContextEvent, StoredEvent, ToolResultMark};
pub use flow::{
    AgentEvent, AgentUsage, EdgeStatus, FLOW_FINAL_STATUSES, FlowCatalog, FlowCatalogEvent,
    FlowEventKind, FlowSummary, ListFlows, ModelUsage, NodeStatus, RunSnapshot, RuntimeCommand,
    RuntimeEvent,
};
pub use fold::{
    DanglingFold, DanglingToolCall, Message, MessageFold, dangling_tool_calls, error_results,
    messages,
};
pub use ids::{InstanceId, RunId, SessionId};
pub use kind::{ContextEventKind, Role};
pub use message::{ToolCallRequest, ToolStyle, role_of, tool_calls_of};
pub use new_message::{NewMessage, NewToolCall};
pub use page::Page;
pub use raw_json::{JsonText, RawJson};
pub use reading::{read_json, read_value};
pub use run::{Run, RunStatus, RunSummary, ToolCallStatus, pause_reason};
pub use run_catalog::{ListRuns, PlacedRun, RunCatalog, RunCatalogEvent};
pub use run_event::{EncodedRunEvent, RUN_EVENT_KINDS, RunEvent, RunFold, StatusChange};
pub use run_history::{RunMessage, ToolCall, ToolCallFold, tool_calls};
pub use runlog_log::{Error, ErrorKind, Result};
pub use session::{AgentInstance, Session, SessionStatus};
pub use time::Timestamp;
