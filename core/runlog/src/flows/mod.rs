//! Flows over a backend: the events of a run while it works, the snapshots it is resumed from, and playing it back.
//!
//! A flow is recorded in its run's own stream: events as records, run snapshots as snapshots of the stream.

mod carry;
mod commands;
mod leave;
mod list;
mod playback;
mod resume;
mod run;
mod save;
mod state;
mod waiting;

pub use crate::kernel::flows::FLOWS_STREAM;
pub use list::Flows;
pub use playback::{Playback, PlaybackOptions, RecordedEvent, Speed};
pub use resume::{Resumed, RunningNode};
pub use run::FlowRun;
pub use runlog_model::{
    AgentEvent, AgentUsage, EdgeStatus, FLOW_FINAL_STATUSES, FlowEventKind, FlowSummary, ListFlows,
    ModelUsage, NodeStatus, RunSnapshot, RuntimeCommand, RuntimeEvent,
};
pub(crate) use save::SavedFlow;
pub(crate) use state::{command_received, load_snapshot, receive_since};
