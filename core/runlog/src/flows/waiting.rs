//! The commands that wait for a flow, without resuming it.

use runlog_engine::Sequence;
use runlog_model::{RunId, RunSnapshot, RuntimeCommand};

use super::{
    AsyncFlowRun,
    run::{load_snapshot, receive_since},
};
use crate::{AsyncStore, Result};

impl AsyncFlowRun {
    /// The commands that a resume would find in the inbox of a run: those of its latest snapshot, and those that were
    /// received since. Nothing is written, so it may be asked of a store that is open for reading.
    ///
    /// # Errors
    /// [`Damaged`](crate::ErrorKind::Damaged) when the snapshot can't be read; else those of the storage.
    pub async fn waiting(store: &AsyncStore, run: RunId) -> Result<Vec<RuntimeCommand>> {
        let loaded = load_snapshot(store, run, Sequence::MAX).await?;
        let (covered, mut state) = loaded.unwrap_or_else(|| (0, RunSnapshot::new("running")));
        receive_since(store, run, covered, &mut state).await?;
        Ok(state.inbox)
    }
}
