//! Recovery: runs that a process left `running` become `paused`.

use runlog_log::{Batch, ReadOptions};
use runlog_model::{RunId, RunStatus, RunWords, StatusChange, StopKind, pause_reason};

use super::{
    Runs,
    changes::{PlannedChange, ops_of_changes},
    load::LoadedRun,
};
use crate::{
    ErrorKind, Result,
    kernel::records::{context_stream, run_stream},
};

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
            at_ms: self.last_active_ms(&loaded).await?,
            step_count: loaded.run.step_count,
            words: RunWords {
                pause_reason: Some(pause_reason::ORPHANED.to_owned()),
                ..RunWords::default()
            },
            stop_kind: Some(StopKind::Orphaned),
        };
        PlannedChange::new(id, loaded.last_sequence, change).map(Some)
    }

    /// When something was last recorded of a run or in its context. When its process died isn't known, but that was hardly much
    /// later; the store may be opened days after it.
    async fn last_active_ms(&self, loaded: &LoadedRun) -> Result<u64> {
        let (backend, run) = (self.store.backend(), &loaded.run);
        let mut last_ms = run.created_at_ms;
        for stream in [run_stream(run.id), context_stream(run.instance_id)] {
            let Some(info) = backend.stream(stream).await? else {
                continue;
            };
            let options = ReadOptions {
                first: info.last_sequence,
                limit: 1,
                ..ReadOptions::default()
            };
            match backend.read(stream, options).await {
                Ok(page) => {
                    let times = page.records.iter().map(|record| record.time_ms);
                    last_ms = last_ms.max(times.max().unwrap_or_default());
                }
                // The run can be paused without it.
                Err(error) if error.kind() == ErrorKind::Damaged => {}
                Err(error) => return Err(error),
            }
        }
        Ok(last_ms)
    }
}
