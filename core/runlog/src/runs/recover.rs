//! Recovery: runs that a process left `running` become `paused`.

use runlog_log::Batch;
use runlog_model::{RunId, RunStatus, StatusChange, StopKind, pause_reason};

use super::{
    Runs,
    changes::{PlannedChange, ops_of_changes},
};
use crate::{ErrorKind, Result};

/// How many runs are paused by one batch.
const RUNS_PER_BATCH: usize = 256;

impl Runs {
    /// Pauses the runs that are `running` but aren't recorded by this process, with the reason
    /// [`ORPHANED`](pause_reason::ORPHANED), and returns their ids. Their records are kept. Opening a store for writing
    /// does this already; repeating it changes nothing. Durable when it returns.
    ///
    /// # Errors
    /// Those of reading and appending.
    pub async fn recover(&self) -> Result<Vec<RunId>> {
        let shared = self.index().shared();
        let running: Vec<RunId> = self
            .index()
            .read(|runs| {
                runs.with_status(RunStatus::Running)
                    .filter(|id| !shared.live().has(*id))
                    .collect()
            })
            .await?;
        let mut paused = Vec::new();
        for ids in running.chunks(RUNS_PER_BATCH) {
            let mut orphans = Vec::new();
            for id in ids {
                orphans.extend(self.orphan(*id).await?);
            }
            if orphans.is_empty() {
                continue;
            }
            let ops = ops_of_changes(&orphans);
            self.store.backend().commit(Batch::new(ops)).await?;
            paused.extend(orphans.iter().map(|orphan| orphan.id));
        }
        if !paused.is_empty() {
            self.index().after_commit().await;
        }
        Ok(paused)
    }

    async fn orphan(&self, id: RunId) -> Result<Option<PlannedChange>> {
        let loaded = match self.load(id).await {
            // One whose own record can't be read stays as it is: the store must open nevertheless.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Damaged) => {
                return Ok(None);
            }
            loaded => loaded?,
        };
        if loaded.run.status != RunStatus::Running {
            return Ok(None);
        }
        let change = StatusChange {
            status: RunStatus::Paused,
            at_ms: self.store.backend().now_ms(),
            step_count: loaded.run.step_count,
            summary: None,
            error_message: None,
            pause_reason: Some(pause_reason::ORPHANED.to_owned()),
            stop_kind: Some(StopKind::Orphaned),
        };
        PlannedChange::new(id, loaded.last_sequence, change).map(Some)
    }
}
