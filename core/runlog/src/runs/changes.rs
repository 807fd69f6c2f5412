//! The operations that change runs; several changes can share one batch.

use runlog_log::{Durability, Expected, Op, Sequence};
use runlog_model::{EncodedEvent, RunCatalogEvent, RunId, StatusChange};

use crate::{
    Result,
    kernel::{
        records::{append, run_stream},
        runs::RUNS_STREAM,
    },
};

/// What is written in the same batch as a run's messages.
#[derive(Default)]
pub(crate) struct BatchExtras<'a> {
    /// Records for the run's own stream.
    pub(crate) run_events: &'a [EncodedEvent],
    /// Other ops.
    pub(crate) ops: &'a [Op<'a>],
    /// The durability, if it differs from the store's.
    pub(crate) durability: Option<Durability>,
}

impl<'a> BatchExtras<'a> {
    /// Records for the run's own stream, and nothing else.
    pub(crate) fn events(run_events: &'a [EncodedEvent]) -> Self {
        Self {
            run_events,
            ..Self::default()
        }
    }
}

/// The records of a run's change of status.
pub(crate) struct PlannedChange {
    pub(crate) id: RunId,
    /// The last sequence of the run's stream.
    pub(crate) last_sequence: Sequence,
    /// The records of the run's stream.
    pub(crate) own: Vec<EncodedEvent>,
    /// The record of the runs catalog.
    pub(crate) listed: EncodedEvent,
}

impl PlannedChange {
    pub(crate) fn new(id: RunId, last_sequence: Sequence, change: StatusChange) -> Result<Self> {
        let listed = RunCatalogEvent::StatusChanged {
            id,
            status: change.status,
            step_count: change.step_count,
            at_ms: change.at_ms,
        };
        Ok(Self {
            id,
            last_sequence,
            listed: listed.encode()?,
            own: change.encode_all()?,
        })
    }
}

/// The ops of these changes: the catalog's records are one append.
pub(crate) fn ops_of_changes(changes: &[PlannedChange]) -> Vec<Op<'_>> {
    let mut ops: Vec<Op<'_>> = changes
        .iter()
        .map(|change| Op::Append {
            stream: run_stream(change.id),
            expected: Expected::Last(change.last_sequence),
            records: change.own.iter().map(EncodedEvent::record).collect(),
        })
        .collect();
    let records = changes
        .iter()
        .map(|change| change.listed.record())
        .collect();
    ops.push(append(RUNS_STREAM, records));
    ops
}
