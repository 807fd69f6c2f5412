//! Typed events of AI-agent runs and their folds: the meaning of the log's records.
//!
//! Pure: no I/O, no clock, no randomness, no runtime. An agent's context is a sequence of [`ContextEvent`]s, each with
//! JSON content kept byte for byte; [`messages`] folds them into exactly what was sent to the model, and
//! [`dangling_tool_calls`] into the calls without a result. [`Catalog`] folds [`CatalogEvent`]s into the sessions and
//! instances. A session is a [`Chat`] to its users, whose messages and steps [`ChatFold`] folds from [`ChatEvent`]s. A
//! flow emits [`RuntimeEvent`]s, and is resumed from a [`RunSnapshot`]. [`AgentCatalog`] folds the definitions of
//! agents that can be spawned.

mod agent;
mod chat;
mod check;
mod checkpoint;
pub mod codec;
mod context;
mod encoding;
mod flow;
mod ids;
pub mod json;
pub mod kinds;
pub mod limits;
mod named;
mod page;
mod run;
mod search;
mod session;
mod table;
pub mod time;

pub use agent::{
    AgentCatalog, AgentCatalogEvent, AgentDefinition, AgentSummary, AgentVisibility, DeletedAgent,
    ListAgents, SpaceRecord, SpawnRecord, SpawnedAgent, TakenRecord, max_steps, run_labels,
    space_label,
};
pub use chat::{
    ChatEvent, ChatFold, ChatIdOf, ChatMessage, ChatRequest, ChatRole, ContentEnd, FoldedStep,
    KeptMessage, MessageField, MessageFilter, MessagePlace, OpenRequest, RequestDetails,
    RequestStatus, Space, Step, StepDiff, StepDiffs, StepStatus, StepTexts, StepType,
    assistant_steps_label, changed_messages_label, chat_labels, id_in_copy, is_in_copy,
    request_messages_label, status_steps_label, type_steps_label,
};
pub use checkpoint::{Checkpoint, Checkpointed, Progress, restoration::Restoration};
pub use context::{
    ContextEvent, ContextEventKind, DanglingFold, DanglingToolCall, EncodedMeta, EventOptions,
    EventSummary, InOrder, Message, MessageFold, NewContextEvent, NewMessage, NewToolCall,
    ResultForm, Role, TokenUsage, ToolCallRequest, ToolMark, ToolStyle, context_labels,
    dangling_tool_calls, error_results, is_response_item, messages, place_without_id,
    response_item_types, role_of, style_of, tool_call_label, tool_calls_of, tool_error_label,
    tools_without_id,
};
pub use encoding::EncodedEvent;
pub use flow::{
    AgentEvent, AgentUsage, EdgeStatus, EncodedSnapshot, FLOW_FINAL_STATUSES, FlowCatalog,
    FlowCatalogEvent, FlowEventKind, FlowSummary, ListFlows, ModelUsage, NodeStatus, RunSnapshot,
    RuntimeCommand, RuntimeEvent, SnapshotChain, SnapshotRead, SnapshotTexts,
    new_texts_of_snapshot,
};
pub use ids::{InstanceId, RunId, SessionId};
pub use json::{
    JsonText, RawJson, Updates, read_fields, read_json, read_json_at, read_json_borrowed,
    read_value, read_with_own_id,
};
pub use page::Page;
pub use run::{
    ListRuns, PlacedRun, Run, RunCatalog, RunCatalogEvent, RunDescription, RunDetails, RunEvent,
    RunFold, RunMessage, RunStatus, RunSummary, RunWords, StatusChange, Stop, StopKind, ToolCall,
    ToolCallFold, ToolCallStatus, pause_reason, tool_calls,
};
pub use runlog_log::{Error, ErrorKind, Result};
pub use search::{TextQuery, without_case};
pub use session::{
    AgentInstance, Catalog, CatalogEvent, Chat, ChatFields, ChatFilter, ChatList, ChatOrder,
    ChatPlace, ChatShare, Deleted, ListInstances, ListSessions, Session, SessionChanges,
    SessionDescription, SessionStatus,
};
