//! [`Creation`]: the records of a new run.

use runlog_log::{Expected, Op, Sequence};
use runlog_model::{
    AgentInstance, EncodedEvent, Run, RunCatalogEvent, RunDescription, RunDetails, RunEvent, RunId,
    RunStatus,
};

use crate::{
    Result,
    kernel::{
        records::{append, run_stream},
        runs::RUNS_STREAM,
    },
};

/// A run that begins now in an instance, with nothing that a caller may say of it.
pub(crate) fn fresh_run(id: RunId, instance: &AgentInstance, now_ms: u64) -> Run {
    Run {
        id,
        project: None,
        session_id: instance.session_id,
        instance_id: instance.id,
        agent_name: instance.agent_name.clone(),
        status: RunStatus::Running,
        step_count: 0,
        max_steps: None,
        parent_run_id: None,
        resumed_from: None,
        resumed_by: None,
        summary: None,
        error_message: None,
        pause_reason: None,
        stop_kind: None,
        node_id: None,
        usage: None,
        metadata: None,
        created_at_ms: now_ms,
        completed_at_ms: None,
        duration_ms: None,
        extra: serde_json::Map::new(),
    }
}

/// The first events of a run's stream, and the events that list the run.
pub(super) struct Creation {
    id: RunId,
    own: Vec<EncodedEvent>,
    listed: Vec<EncodedEvent>,
}

impl Creation {
    /// The creation of a run with these details.
    pub(super) fn new(run: &Run, details: RunDetails) -> Result<Self> {
        let mut own = vec![RunEvent::Created(Box::new(run.clone())).encode()?];
        let mut listed = vec![RunCatalogEvent::Created(Box::new(run.to_summary())).encode()?];
        if !details.is_empty() {
            details.check()?;
            own.push(described(details, run.created_at_ms)?);
            listed.push(listed_description(run.id, Sequence(own.len() as u64))?);
        }
        Ok(Self {
            id: run.id,
            own,
            listed,
        })
    }

    /// The operations that write it.
    pub(super) fn ops(&self) -> Vec<Op<'_>> {
        vec![
            Op::Append {
                stream: run_stream(self.id),
                expected: Expected::Absent,
                records: self.own.iter().map(EncodedEvent::record).collect(),
            },
            append(
                RUNS_STREAM,
                self.listed.iter().map(EncodedEvent::record).collect(),
            ),
        ]
    }

    /// The last sequence of the run's stream after it.
    pub(super) fn last(&self) -> Sequence {
        Sequence(self.own.len() as u64)
    }
}

/// Details of a run, as an event of its stream.
pub(super) fn described(details: RunDetails, at_ms: u64) -> Result<EncodedEvent> {
    RunEvent::Described(RunDescription::new(details, at_ms)).encode()
}

/// The sequence of that event, as an event of the catalog. It is only a hint: if it is wrong, the event is searched
/// for, so the conversion may saturate.
pub(super) fn listed_description(id: RunId, sequence: Sequence) -> Result<EncodedEvent> {
    let sequence = u32::try_from(sequence.0).unwrap_or(u32::MAX);
    RunCatalogEvent::Described { id, sequence }.encode()
}
