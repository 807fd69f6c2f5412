//! Flows over a backend: what a run tells while it works, the snapshots it is resumed from, and playing it back.
//!
//! A flow is recorded in its run's own stream: events as records, run snapshots as snapshots of the stream.

mod carry;
mod list;
mod playback;
mod run;
mod waiting;

pub(crate) use carry::CarriedFlow;
pub use list::{AsyncFlows, FLOWS_STREAM};
pub(crate) use list::{FlowsReader, FlowsShared, PARTS_STREAM, listing};
pub use playback::{AsyncPlayback, PlaybackOptions, RecordedEvent, Speed};
pub use run::{AsyncFlowRun, Resumed, RunningNode};
pub(crate) use run::{command_received, load_snapshot, receive_since};
