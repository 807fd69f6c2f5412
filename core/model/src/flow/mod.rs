//! Flows: the events that the nodes and agents of a run emit, and the snapshots from which a run is resumed.
//!
//! A flow is resumed from its snapshot alone; events are for observers. Both are JSON with camelCase names, and an
//! event's JSON is kept byte for byte.

mod agent_event;
mod catalog;
mod command;
mod event;
mod snapshot;
mod snapshot_diff;

pub use agent_event::{AgentEvent, AgentUsage, ModelUsage};
pub use catalog::{FLOW_FINAL_STATUSES, FlowCatalog, FlowCatalogEvent, FlowSummary, ListFlows};
pub use command::RuntimeCommand;
pub use event::{FlowEventKind, RuntimeEvent};
pub use snapshot::{EdgeStatus, EncodedSnapshot, NodeStatus, RunSnapshot};
pub use snapshot_diff::{SnapshotChain, SnapshotRead, SnapshotTexts, new_texts_of_snapshot};
