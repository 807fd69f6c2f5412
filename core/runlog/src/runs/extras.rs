//! Writes of several runs in one batch: spawns, resumes and the end of a whole tree.

use super::{
    RunRecorder, Runs,
    changes::{PlannedChange, ops_of_changes},
};
use std::collections::{HashSet, VecDeque};

use runlog_log::Batch;
use runlog_model::{EncodedEvent, ListRuns, RunCatalog, RunId, RunStatus, StatusChange, StopKind};

use crate::{ErrorKind, Result};

/// A change of a run's status.
pub(crate) struct NewStatus {
    pub(crate) recorder: RunRecorder,
    pub(crate) status: RunStatus,
    pub(crate) summary: Option<String>,
    pub(crate) error_message: Option<String>,
    pub(crate) pause_reason: Option<String>,
    pub(crate) stop_kind: Option<StopKind>,
    /// The records that are written before it.
    pub(crate) before: Vec<EncodedEvent>,
}

impl NewStatus {
    /// A change of status without details.
    pub(crate) fn new(recorder: RunRecorder, status: RunStatus) -> Self {
        Self {
            recorder,
            status,
            summary: None,
            error_message: None,
            pause_reason: None,
            stop_kind: None,
            before: Vec::new(),
        }
    }

    fn plan(&self) -> Result<PlannedChange> {
        let mut planned = self
            .recorder
            .plan_change(self.status, |change: &mut StatusChange| {
                change.words.summary.clone_from(&self.summary);
                change.words.error_message.clone_from(&self.error_message);
                change.words.pause_reason.clone_from(&self.pause_reason);
                change.stop_kind = self.stop_kind;
            })?;
        planned.own.splice(0..0, self.before.iter().cloned());
        Ok(planned)
    }
}

impl Runs {
    /// Applies the events just written to the catalog.
    pub(crate) async fn caught_up(&self) {
        self.index().after_commit().await;
    }

    /// The runs of a status, oldest first.
    pub(crate) async fn with_status(&self, status: RunStatus) -> Result<Vec<RunId>> {
        self.index()
            .read(|runs| runs.with_status(status).collect())
            .await
    }

    /// The status of a run; `None` for what is no run.
    pub(crate) async fn status(&self, id: RunId) -> Result<Option<RunStatus>> {
        self.index()
            .read(|runs: &RunCatalog| runs.run(id).map(|placed| placed.run.status))
            .await
    }

    /// Whether it is a run that hasn't ended.
    pub(crate) async fn is_unfinished(&self, id: RunId) -> Result<bool> {
        self.index()
            .read(|runs| {
                runs.run(id)
                    .is_some_and(|placed| !placed.run.status.is_final())
            })
            .await
    }

    /// The run that spawned a run.
    pub(crate) async fn parent_of(&self, id: RunId) -> Result<Option<RunId>> {
        self.index()
            .read(|runs| runs.run(id).and_then(|placed| placed.run.parent_run_id))
            .await
    }

    /// The unfinished runs below a run, and below the runs that it resumes; parents before their children.
    pub(crate) async fn unfinished_below(&self, id: RunId) -> Result<Vec<RunId>> {
        self.index()
            .read(|runs| {
                let (mut found, mut known) = (Vec::new(), HashSet::from([id]));
                let mut parents = VecDeque::from([id]);
                while let Some(parent) = parents.pop_front() {
                    // The run that it resumes is not active, but may have paused children. A run may have been resumed
                    // by a descendant, so the same run can be found twice.
                    let before = runs.run(parent).and_then(|placed| placed.run.resumed_from);
                    parents.extend(before.filter(|before| known.insert(*before)));
                    let children = ListRuns {
                        parent_run_id: Some(parent),
                        limit: usize::MAX,
                        ..ListRuns::default()
                    };
                    for child in runs.list(&children, None).items {
                        if !known.insert(child.id) {
                            continue;
                        }
                        parents.push_back(child.id);
                        if !child.status.is_final() {
                            found.push(child.id);
                        }
                    }
                }
                found
            })
            .await
    }

    /// Changes runs in one batch, with one flush. Runs that can't change this way any more are skipped. Durable when it
    /// returns; the recorders are then up to date. `false` if nothing was written because one of the runs was written
    /// to in between; the recorders are up to date then too.
    pub(crate) async fn change_all(&self, changes: &[NewStatus]) -> Result<bool> {
        let mut planned = Vec::with_capacity(changes.len());
        for change in changes {
            match change.plan() {
                Err(error) if error.kind() == ErrorKind::WrongStatus => {}
                plan => planned.push(plan?),
            }
        }
        if planned.is_empty() {
            return Ok(true);
        }
        // Locked in one order, so that there is no deadlock.
        let mut gates: Vec<_> = changes
            .iter()
            .map(|change| (change.recorder.id(), change.recorder.gate()))
            .collect();
        runlog_log::order::sort_by_key(&mut gates, |(id, _)| *id);
        gates.dedup_by_key(|(id, _)| *id);
        let mut closed = Vec::with_capacity(gates.len());
        for (_, gate) in gates {
            closed.push(gate.close().await);
        }
        let is_written = match self
            .store
            .backend()
            .commit(Batch::new(ops_of_changes(&planned)))
            .await
        {
            Ok(_) => true,
            Err(error) if error.kind() == ErrorKind::Conflict => false,
            Err(error) => return Err(error),
        };
        drop(closed);
        if is_written {
            self.index().after_commit().await;
        }
        for change in changes {
            change.recorder.refresh().await?;
        }
        Ok(is_written)
    }
}
