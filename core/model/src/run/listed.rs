//! [`RunCatalogEvent`]: what the catalog of runs is told.

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
            /// What it is now.
            status: RunStatus,
            /// The steps begun until then.
            step_count: u32,
            /// When: milliseconds since 1970-01-01 UTC.
            at_ms: u64,
        },
        /// Something was said of a run.
        LISTED_RUN_DESCRIBED => Described {
            /// The run.
            id: RunId,
            /// Where in the run's own stream that stands.
            sequence: u32,
        },
    }
}

impl Event for RunCatalogEvent {
    const NAME: &'static str = "an event of the catalog of runs";
}
