//! The flow of a run when the run pauses or ends: whether it can still be written to, and carrying it over to the run
//! that resumes a paused one.

use runlog_log::Sequence;
use runlog_model::{FlowCatalogEvent, Run, RunId, RunSnapshot, RunStatus};

use super::{
    save::SavedFlow,
    state::{SavedState, load_snapshot, receive_since},
};
use crate::{Error, ErrorKind, Result, Store};

impl Store {
    /// The flow of a paused run, if it has one, for the run that resumes it: its state, with the waiting commands.
    /// Commands for the paused run become commands for the new one. Beside it, how many newer states can't be read.
    pub(crate) async fn carried_flow(
        &self,
        old: &Run,
        new: &Run,
    ) -> Result<Option<(SavedFlow, u32)>> {
        let Some(saved) = load_snapshot(self, old.id, Sequence::MAX).await? else {
            return Ok(None);
        };
        let SavedState {
            covered,
            mut state,
            unreadable,
        } = saved;
        receive_since(self, old.id, covered, &mut state).await?;
        let (old_id, new_id) = (old.id.to_string(), new.id.to_string());
        for command in &mut state.inbox {
            if command.run_id.as_deref() == Some(&old_id) {
                command.run_id = Some(new_id.clone());
            }
        }
        let state = RunSnapshot {
            run_id: Some(new_id),
            ..state
        };
        let listed = FlowCatalogEvent {
            run_id: new.id,
            status: state.status.clone(),
            is_of_run: true,
            parent_run_id: new.parent_run_id,
            resumed_from: Some(old.id),
            at_ms: new.created_at_ms,
        };
        let flow = SavedFlow::new(new.id, &state, Some(listed.encode()?))?;
        Ok(Some((flow, unreadable)))
    }

    /// Checks that a flow can be written to: it isn't that of a run that has paused or ended. Call it with the
    /// run's [gate](crate::kernel::gates::Gate) passed.
    ///
    /// # Errors
    /// [`WrongStatus`](ErrorKind::WrongStatus), as a recorder of the run returns.
    pub(crate) async fn check_open_flow(&self, run: RunId) -> Result<()> {
        match self.runs().status(run).await? {
            None | Some(RunStatus::Running) => Ok(()),
            Some(status) => Err(self.closed_flow(run, status).await?),
        }
    }

    async fn closed_flow(&self, run: RunId, status: RunStatus) -> Result<Error> {
        let resumed_by = self.runs().get(run).await?.and_then(|run| run.resumed_by);
        let message = match (status, resumed_by) {
            (_, Some(by)) => format!(
                "run {run} was resumed as run {by}, and its flow goes on as the flow of that one"
            ),
            (RunStatus::Paused, None) => {
                format!(
                    "run {run} is paused, and its flow with it; resume the run, which carries its flow over"
                )
            }
            _ => format!("run {run} is {status}, and its flow can't go on; begin another"),
        };
        Ok(Error::new(ErrorKind::WrongStatus, message))
    }
}
