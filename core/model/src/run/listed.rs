//! [`RunCatalogEvent`]: the events of the catalog of runs.

use super::{RunStatus, RunSummary};
use crate::{
    RunId,
    encoding::{Event, events},
};

events! {
    /// One entry of the catalog of runs, written together with the run's own event.
    pub enum RunCatalogEvent {
        /// A run was made.
        LISTED_RUN_CREATED => Created(run: Box<RunSummary>),
        /// A run paused, or ended.
        LISTED_RUN_STATUS_CHANGED => StatusChanged {
            /// The run.
            id: RunId,
            /// The new status.
            status: RunStatus,
            /// The steps begun until then.
            step_count: u32,
            /// When: milliseconds since 1970-01-01 UTC.
            at_ms: u64,
        },
        /// Details of a run were recorded.
        LISTED_RUN_DESCRIBED => Described {
            /// The run.
            id: RunId,
            /// Their sequence in the run's own stream.
            sequence: u32,
        },
    }
}

impl Event for RunCatalogEvent {
    const NAME: &'static str = "an event of the catalog of runs";
}
