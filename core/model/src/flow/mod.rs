//! Flows: what the nodes and agents of a run tell while they work, and the snapshots that a run is resumed from.
//!
//! Snapshots are what counts for resuming; events are for those who look on. Both are JSON in S3's camelCase,
//! and an event's JSON is kept byte for byte.

mod agent_event;
mod catalog;
mod command;
mod event;
mod snapshot;

pub use agent_event::{AgentEvent, AgentUsage, ModelUsage};
pub use catalog::{FLOW_FINAL_STATUSES, FlowCatalog, FlowCatalogEvent, FlowSummary, ListFlows};
pub use command::RuntimeCommand;
pub use event::{FlowEventKind, RuntimeEvent};
pub use snapshot::{EdgeStatus, NodeStatus, RunSnapshot};
