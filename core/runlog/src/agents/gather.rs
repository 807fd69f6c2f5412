//! The results of sub-agents, recorded as the result of the tool call in their parent's context.

use runlog_log::Durability;
use runlog_model::{EncodedEvent, NewMessage, RawJson};

use super::{SpawnResult, active_run::ActiveRun, defect::Defect, report::recorded_results};
use crate::{
    ErrorKind, Result,
    agents::{call::Place, inner::Inner},
    runs::{BatchExtras, ToolOutcome},
};

impl Inner {
    /// Records the results of a call's sub-agents when their parent is about to be paused, so that its agent's last
    /// message doesn't come between the call and its result, and its model learns the runs' ids. Not done when the
    /// parent is cancelled: the children's statuses are known only once they are cancelled with it.
    pub(super) async fn record_pausing(
        &self,
        parent: &ActiveRun,
        call_id: &str,
        places: &[Option<Place>],
        began_ms: u64,
    ) -> Result<()> {
        let mut results = Vec::with_capacity(places.len());
        for place in places.iter().flatten() {
            results.push(match place {
                Place::Refused(result) => result.clone(),
                Place::Spawned(live) => live.result_of_pausing().await,
            });
        }
        // Not flushed by itself: the run's end follows and is flushed, so that a tree is stopped with one flush.
        self.record_results(parent, call_id, &results, began_ms, Some(Durability::Os))
            .await
    }

    /// Waits for every sub-agent of a call, and records their outcomes in the parent's context.
    pub(super) async fn gather(
        &self,
        parent: &ActiveRun,
        call_id: &str,
        places: Vec<Option<Place>>,
        began_ms: u64,
    ) -> Result<Vec<SpawnResult>> {
        let mut results = Vec::with_capacity(places.len());
        for place in places.into_iter().flatten() {
            results.push(match place {
                Place::Refused(result) => result,
                Place::Spawned(live) => {
                    live.ended.cancelled().await;
                    live.result()
                }
            });
        }
        self.record_results(parent, call_id, &results, began_ms, None)
            .await?;
        Ok(results)
    }

    async fn record_results(
        &self,
        parent: &ActiveRun,
        call_id: &str,
        results: &[SpawnResult],
        began_ms: u64,
        durability: Option<Durability>,
    ) -> Result<()> {
        let took_ms = self.now_ms().saturating_sub(began_ms);
        let output = RawJson::string(&recorded_results(results)?);
        let outcome = ToolOutcome::completed(call_id, output).took_ms(took_ms);
        let _pass = parent.write_guard().await;
        let unsaved = parent.space.unsaved(self.now_ms())?;
        let events: Vec<EncodedEvent> = unsaved
            .iter()
            .map(|unsaved| unsaved.record.clone())
            .collect();
        let extras = BatchExtras {
            run_events: &events,
            ops: &[],
            durability,
        };
        match parent
            .recorder
            .record_tool_results_with(std::slice::from_ref(&outcome), &extras)
            .await
        {
            Ok(_) => {
                if let Some(unsaved) = &unsaved {
                    parent.space.saved(unsaved);
                }
                if self.is_broken(Defect::RecordsTwice) {
                    self.record_again(parent, call_id).await?;
                }
                Ok(())
            }
            // The parent was stopped meanwhile; the results are in the sub-agents' own runs.
            Err(error) if error.kind() == ErrorKind::WrongStatus => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// A second result, which a recorder would refuse.
    async fn record_again(&self, parent: &ActiveRun, call_id: &str) -> Result<()> {
        let context = self
            .store
            .context(parent.recorder.run().instance_id)
            .await?;
        context
            .append_message(NewMessage::tool(call_id, "again"))
            .await
            .map(drop)
    }
}
