//! [`RunCatalogEvent`]: what the runs catalog is told.

use serde::{Deserialize, Serialize};

use crate::{
    EncodedRunEvent, Result, RunId, RunStatus, RunSummary, codec,
    run_event::{read, unknown_kind},
};

const CREATED: u8 = 40;
const STATUS_CHANGED: u8 = 41;

/// One entry of the runs catalog, written together with the run's own event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RunCatalogEvent {
    /// A run was made.
    Created(RunSummary),
    /// A run paused, or ended.
    StatusChanged {
        /// The run.
        id: RunId,
        /// What it is now.
        status: RunStatus,
        /// The steps begun until then.
        step_count: u32,
        /// When: milliseconds since 1970-01-01 UTC.
        at_ms: u64,
    },
}

#[derive(Serialize, Deserialize)]
struct StatusChanged {
    id: RunId,
    status: RunStatus,
    step_count: u32,
    at_ms: u64,
}

impl RunCatalogEvent {
    /// The event as the parts of a record, in the form of [`RunEvent`](crate::RunEvent)s.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when it has no JSON form.
    pub fn encode(&self) -> Result<EncodedRunEvent> {
        match self {
            Self::Created(run) => EncodedRunEvent::of(CREATED, run),
            Self::StatusChanged {
                id,
                status,
                step_count,
                at_ms,
            } => EncodedRunEvent::of(
                STATUS_CHANGED,
                &StatusChanged {
                    id: *id,
                    status: *status,
                    step_count: *step_count,
                    at_ms: *at_ms,
                },
            ),
        }
    }

    /// Reads an event from the parts of a record.
    ///
    /// # Errors
    /// As [`RunEvent::decode`](crate::RunEvent::decode).
    pub fn decode(kind: u8, meta: &[u8], payload: &[u8]) -> Result<Self> {
        let version = codec::decode_run_meta(meta)?;
        match kind {
            CREATED => read(version, kind, payload).map(Self::Created),
            STATUS_CHANGED => read(version, kind, payload).map(
                |StatusChanged {
                     id,
                     status,
                     step_count,
                     at_ms,
                 }| {
                    Self::StatusChanged {
                        id,
                        status,
                        step_count,
                        at_ms,
                    }
                },
            ),
            _ => Err(unknown_kind(kind)),
        }
    }
}
