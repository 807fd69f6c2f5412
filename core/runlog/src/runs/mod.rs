//! Runs: one agent at work in its context, recorded as it happens, paused, resumed and looked back on.
//!
//! A run is a stream of its own with what happens to it (its id is the stream's). Its messages and tool calls
//! are the events of its instance's context that carry its id: nothing is stored twice. A well-known stream,
//! the runs catalog, gets one record when a run starts and one whenever its status changes, in the same batch
//! as the run's own; folded in memory, it lists runs, and is written down now and then to open faster.

mod extras;
mod gate;
mod history;
mod index;
mod load;
mod outcome;
mod recorder;
mod recover;
mod resumable;
mod resume;
mod start;

use std::fmt;

pub(crate) use extras::{BatchExtras, NewStatus};
pub(crate) use gate::Gate;
pub(crate) use history::check_limit;
pub use history::{ListRunMessages, ListToolCalls, Paged};
pub(crate) use index::PARTS_STREAM;
pub use index::RUNS_STREAM;
pub(crate) use index::{RunsReader, RunsShared};
pub(crate) use load::stream_of as run_stream;
pub use outcome::ToolOutcome;
pub use recorder::{Recorded, RunEntry, RunRecorder};
pub use resume::{Continuation, Dangling, MAX_TOTAL_STEPS_PER_RUN, ResumeOptions, ResumedRun};
pub(crate) use resume::{ResumeExtras, ResumedBy, check as check_resumable};
pub use runlog_model::{
    ListRuns, Run, RunId, RunMessage, RunStatus, RunSummary, ToolCall, ToolCallStatus, pause_reason,
};
pub(crate) use start::context_records as stored_events;
pub use start::{NewRun, RunPlace};

use crate::Store;

/// The runs of a store. [`blocking::Runs`](crate::blocking::Runs) is the same for callers that wait.
///
/// ```
/// use runlog::{NewMessage, NewRun, NewSession, Store, runs::ListRuns};
///
/// # pollster::block_on(async {
/// let store = Store::in_memory();
/// let run = store.runs().start(NewRun::in_new_session(NewSession::titled("Fix it"), "coder")).await?;
/// run.record_message(NewMessage::user("The parser drops the last line.")).await?;
/// run.next_step().await?;
/// run.record_message(NewMessage::assistant("Fixed.")).await?;
/// run.complete(Some("fixed")).await?;
/// assert_eq!(store.runs().list(&ListRuns::default()).await?.items[0].step_count, 1);
/// # Ok::<(), runlog::Error>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct Runs {
    pub(crate) store: Store,
}

impl Runs {
    pub(crate) fn new(store: Store) -> Self {
        Self { store }
    }

    /// The store these runs are in.
    pub fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) fn index(&self) -> &RunsReader {
        &self.store.shared.runs
    }
}

impl fmt::Debug for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runs").finish_non_exhaustive()
    }
}
