//! Runs: the work of one agent in its context, recorded as it happens; pausing and resuming it, and its history.
//!
//! A run has a stream of its own for its events (its id is the stream's). Its messages and tool calls are the events of
//! its instance's context that carry its id: nothing is stored twice. A well-known stream, the runs catalog, gets one
//! record when a run starts and one whenever its status changes, in the same batch as the run's own. Its fold in memory
//! lists runs; periodic checkpoints of the fold make opening fast.

mod adopt;
mod changes;
mod creation;
mod dangling;
mod enter;
mod events;
mod extras;
mod failed_calls;
mod handle;
mod history;
mod labelled;
mod load;
mod open_calls;
mod outcome;
mod rebuilt;
mod recorder;
mod recover;
mod relist;
mod resumable;
mod resume;
mod short;
mod start;
mod tool_calls;
mod turns;

pub use crate::kernel::runs::RUNS_STREAM;
pub(crate) use changes::BatchExtras;
pub(crate) use creation::fresh_run;
pub use dangling::Dangling;
pub(crate) use extras::NewStatus;
pub use handle::Runs;
pub use history::ListRunMessages;
pub use outcome::ToolOutcome;
pub use recorder::{Recorded, RunEntry, RunRecorder};
pub(crate) use resume::{CONTINUE, ResumeExtras, ResumedBy, check as check_resumable};
pub use resume::{Continuation, MAX_TOTAL_STEPS_PER_RUN, ResumeOptions, ResumedRun};
pub use runlog_model::{
    ListRuns, Run, RunDetails, RunId, RunMessage, RunStatus, RunSummary, Stop, StopKind, ToolCall,
    ToolCallStatus, pause_reason,
};
pub(crate) use short::ShortRun;
pub use start::{NewRun, RunPlace};
pub use tool_calls::ListToolCalls;
