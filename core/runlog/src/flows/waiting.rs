//! Reading the commands that wait for a flow, and sending it one, without resuming it.

use runlog_log::Sequence;
use runlog_model::{RunId, RuntimeCommand};

use super::{
    FlowRun,
    state::{load_snapshot, receive_since},
};
use crate::{Error, Result, Store};

impl FlowRun {
    /// Another handle of a flow, for a task or a program that doesn't drive it but sends commands or events: this
    /// records nothing, and resumes no node. A command that is passed to [`command`](Self::command) waits for the
    /// handle that drives the flow.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when the run has no snapshot, [`Damaged`](crate::ErrorKind::Damaged) when it can't be
    /// read.
    pub async fn attach(store: &Store, run: RunId) -> Result<Self> {
        let loaded = load_snapshot(store, run, Sequence::MAX).await?;
        let mut saved = loaded
            .ok_or_else(|| Error::not_found(format!("run {run} has no snapshot of a flow")))?;
        let last = receive_since(store, run, saved.covered, &mut saved.state).await?;
        let mut flow = Self::of(store, run, saved.state, last);
        flow.show_own_inbox();
        Ok(flow)
    }

    /// The commands that a resume would find in the inbox of a run: those of its latest snapshot, and those that were
    /// received since. Nothing is written, so it also works in a store that is open for reading.
    ///
    /// # Errors
    /// [`Damaged`](crate::ErrorKind::Damaged) when the snapshot can't be read; else those of the storage.
    pub async fn waiting(store: &Store, run: RunId) -> Result<Vec<RuntimeCommand>> {
        let loaded = load_snapshot(store, run, Sequence::MAX).await?;
        let mut saved = loaded.unwrap_or_default();
        receive_since(store, run, saved.covered, &mut saved.state).await?;
        Ok(saved.state.inbox)
    }
}
