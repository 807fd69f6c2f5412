//! What a deliberately broken orchestrator does in addition; other defects only leave something out.

use runlog_log::{Batch, Op};
use runlog_model::{EventOptions, RawJson};

use super::{active_run::ActiveRun, inner::Inner};
use crate::{Result, contexts::AppendOptions};

impl Inner {
    /// Writes to the context of a run, even if the run has ended.
    pub(super) async fn write_late(&self, live: &ActiveRun, json: RawJson) -> Result<()> {
        let run = live.recorder.run();
        let event = EventOptions {
            run_id: Some(run.id),
            step_number: Some(run.step_count),
            ..EventOptions::default()
        };
        let options = AppendOptions {
            event,
            ..AppendOptions::default()
        };
        self.store
            .context(run.instance_id)
            .await?
            .append_raw_message_with(json, &options)
            .await
            .map(|_| ())
    }

    /// Creates the children in a batch of their own.
    pub(super) async fn split_off(&self, ops: &mut Vec<Op<'_>>) -> Result<()> {
        if !ops.is_empty() {
            self.store
                .backend()
                .commit(Batch::new(std::mem::take(ops)))
                .await?;
        }
        Ok(())
    }
}
