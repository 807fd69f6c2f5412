//! Checks and changes of a run's status.

use runlog_log::Batch;
use runlog_model::{Run, RunStatus, RunWords, StatusChange};

use super::RunRecorder;
use crate::{
    Error, ErrorKind, Result,
    journal::attempts::Retries,
    kernel::gates::Gate,
    runs::changes::{PlannedChange, ops_of_changes},
};

impl RunRecorder {
    pub(super) async fn change(
        &self,
        status: RunStatus,
        fill: impl Fn(&mut StatusChange),
    ) -> Result<Run> {
        // Behind the writes that were begun before it: what a caller didn't wait for is recorded, not refused.
        let _turn = self.inner.order.turn(false).await;
        let mut retries = Retries::default();
        loop {
            let planned = self.plan_change(status, &fill)?;
            let _closed = self.gate().close().await;
            match self
                .inner
                .runs
                .store
                .backend()
                .commit(Batch::new(ops_of_changes(&[planned])))
                .await
            {
                Ok(_) => {
                    self.gate().tell_stopped();
                    self.inner.runs.index().after_commit().await;
                    self.refresh().await?;
                    return Ok(self.run());
                }
                Err(error) => {
                    retries.again(error)?;
                    self.refresh().await?;
                }
            }
        }
    }

    /// The gate that is closed while the run's status changes.
    pub(in crate::runs) fn gate(&self) -> &Gate {
        &self.inner.gate
    }

    /// Waits until the run is ended or paused in this process: by this recorder, another one, or an orchestrator.
    /// [`Runs::get`](crate::runs::Runs::get) then tells how.
    pub async fn stopped(&self) {
        self.gate().stopped().await;
    }

    /// Wakes all that wait for [`stopped`](Self::stopped): the end was recorded without a recorder.
    pub(crate) fn tell_stopped(&self) {
        self.gate().tell_stopped();
    }

    /// The records of this change of the run.
    ///
    /// # Errors
    /// [`WrongStatus`](ErrorKind::WrongStatus) when it can't, [`TooLarge`](ErrorKind::TooLarge) for a text over its
    /// limit.
    pub(crate) fn plan_change(
        &self,
        status: RunStatus,
        fill: impl Fn(&mut StatusChange),
    ) -> Result<PlannedChange> {
        let state = self.state();
        changeable(&state.run, status)?;
        let mut change = StatusChange {
            status,
            at_ms: self.inner.runs.store.backend().now_ms(),
            step_count: state.run.step_count,
            words: RunWords::default(),
            stop_kind: None,
        };
        fill(&mut change);
        PlannedChange::new(self.id(), state.last_sequence, change)
    }
}

/// An error if the run isn't running.
pub(super) fn running(run: &Run, what: &str) -> Result<()> {
    if run.status == RunStatus::Running {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::WrongStatus,
        format!(
            "run {} is {}, and can't {what}{}",
            run.id,
            run.status,
            resume(run)
        ),
    ))
}

/// What to do about a run that is paused.
fn resume(run: &Run) -> String {
    match (run.status, run.resumed_by) {
        (RunStatus::Paused, None) => "; resume it, and go on with the run that does".to_owned(),
        (RunStatus::Paused, Some(by)) => format!("; run {by} resumed it"),
        _ => String::new(),
    }
}

/// An error if the status can't change this way.
pub(super) fn changeable(run: &Run, to: RunStatus) -> Result<()> {
    match (run.status, to, run.resumed_by) {
        (RunStatus::Running, ..) | (RunStatus::Paused, RunStatus::Cancelled, None) => Ok(()),
        (RunStatus::Paused, RunStatus::Cancelled, Some(by)) => Err(Error::new(
            ErrorKind::WrongStatus,
            format!("run {} was resumed as run {by}; cancel that one", run.id),
        )),
        (status, to, _) if status == to => Err(Error::new(
            ErrorKind::WrongStatus,
            format!("run {} is {status} already{}", run.id, resume(run)),
        )),
        (status, ..) => Err(Error::new(
            ErrorKind::WrongStatus,
            format!(
                "run {} is {status}, and can't become {to}{}",
                run.id,
                resume(run)
            ),
        )),
    }
}
