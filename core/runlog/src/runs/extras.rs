//! What a run writes in one batch with others: spawns, resumes and endings of a whole tree.

use super::{
    RunRecorder, Runs,
    changes::{PlannedChange, ops_of_changes},
};
use std::collections::{HashSet, VecDeque};

use runlog_log::Batch;
use runlog_model::{EncodedEvent, ListRuns, RunCatalog, RunId, RunStatus, StatusChange, StopKind};

use crate::{ErrorKind, Result};

/// A run that is to change its status.
pub(crate) struct NewStatus {
    pub(crate) recorder: RunRecorder,
    pub(crate) status: RunStatus,
    pub(crate) summary: Option<String>,
    pub(crate) error_message: Option<String>,
    pub(crate) pause_reason: Option<String>,
    pub(crate) stop_kind: Option<StopKind>,
    /// What is written before it.
    pub(crate) before: Vec<EncodedEvent>,
}

impl NewStatus {
    /// A status with nothing to say about it.
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
                change.summary.clone_from(&self.summary);
                change.error_message.clone_from(&self.error_message);
                change.pause_reason.clone_from(&self.pause_reason);
                change.stop_kind = self.stop_kind;
            })?;
        planned.own.splice(0..0, self.before.iter().cloned());
        Ok(planned)
    }
}

impl Runs {
    /// Takes in what was just written.
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

    /// Whether it is a run, and not over.
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

    /// The runs below a run, and below those it goes on from, that aren't over; parents before their children.
    pub(crate) async fn unfinished_below(&self, id: RunId) -> Result<Vec<RunId>> {
        self.index()
            .read(|runs| {
                let (mut found, mut known) = (Vec::new(), HashSet::from([id]));
                let mut parents = VecDeque::from([id]);
                while let Some(parent) = parents.pop_front() {
                    // What it goes on from is over itself, but may have left runs that are paused. Whoever goes on with
                    // a run may be below it, so that a run can be come upon again.
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

    /// Changes runs all at once: one batch, and one flush. Those that can't change so any more are left alone.
    /// Durable when it returns; the recorders then know it. `false` when nothing was written because somebody else
    /// wrote to one of the runs in between; the recorders know that too.
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
        // In one order, so that none waits for another that waits for it.
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
