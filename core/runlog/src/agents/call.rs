//! [`Call`]: a spawn of several requests, while it is planned and written.

use std::{sync::Arc, time::Duration};

use runlog_model::{EncodedEvent, RunId, SpawnRecord, SpawnedAgent, ToolStyle};

use super::{SpawnRequest, SpawnResult, active_run::ActiveRun, inner::AgentWork};
use crate::{Error, Result};

/// The outcome of one request of a call.
pub(super) enum Place {
    /// It was refused.
    Refused(SpawnResult),
    /// Its run was created.
    Spawned(Arc<ActiveRun>),
}

/// A task to start: the run, its executor and its timeout.
pub(super) type Work = (Arc<ActiveRun>, Arc<dyn AgentWork>, Option<Duration>);

/// A spawn call of a run, while it is planned and written.
pub(super) struct Call<'a> {
    pub(super) parent: &'a Arc<ActiveRun>,
    pub(super) id: String,
    pub(super) requests: &'a [SpawnRequest],
    /// The form in which the call and the tasks are written; OpenAI's where none is known.
    pub(super) style: Option<ToolStyle>,
    /// Whether the call itself is in the parent's context.
    pub(super) is_recorded: bool,
    /// The outcomes that aren't in the parent's stream yet.
    pub(super) unrecorded: Vec<SpawnedAgent>,
    pub(super) places: Vec<Option<Place>>,
    pub(super) works: Vec<Work>,
}

impl Call<'_> {
    pub(super) fn agent_name(&self, index: usize) -> &str {
        self.requests
            .get(index)
            .map_or("", |request| &request.agent_name)
    }

    pub(super) fn spawned_run(
        &self,
        index: usize,
        run_id: RunId,
        timeout: Option<Duration>,
    ) -> SpawnedAgent {
        let timeout_ms =
            timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        SpawnedAgent {
            run_id: Some(run_id),
            timeout_ms,
            ..self.spawned(index)
        }
    }

    pub(super) fn spawned(&self, index: usize) -> SpawnedAgent {
        let agent_name = self.agent_name(index).to_owned();
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        SpawnedAgent {
            index,
            agent_name,
            run_id: None,
            timeout_ms: None,
            error: None,
        }
    }

    pub(super) fn refuse(&mut self, index: usize, error: &Error) {
        let refusal = SpawnedAgent {
            error: Some(error.to_string()),
            ..self.spawned(index)
        };
        self.unrecorded.push(refusal);
        self.places[index] = Some(Place::Refused(self.refused(index, error)));
    }

    pub(super) fn refused(&self, index: usize, error: &Error) -> SpawnResult {
        SpawnResult::refused(self.agent_name(index), error.to_string())
    }

    pub(super) fn record(&self, at_ms: u64) -> Result<EncodedEvent> {
        let count = u32::try_from(self.requests.len()).unwrap_or(u32::MAX);
        let record = SpawnRecord {
            call_id: self.id.clone(),
            count,
            agents: self.unrecorded.clone(),
            at_ms,
        };
        record.encode()
    }

    pub(super) fn begin(
        &mut self,
        index: usize,
        live: Arc<ActiveRun>,
        executor: Arc<dyn AgentWork>,
        timeout: Option<Duration>,
    ) {
        self.places[index] = Some(Place::Spawned(Arc::clone(&live)));
        self.works.push((live, executor, timeout));
    }
}
