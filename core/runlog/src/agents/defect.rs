//! [`Defect`]: ways to break the orchestration on purpose, so that the tests show that they would notice. Nothing is
//! broken unless the `broken-orchestrator` feature is on, and a test asks for it.

use runlog_log::{Batch, Op};
use runlog_model::{EventOptions, RawJson};

use super::{active_run::ActiveRun, orchestrator::Inner};
use crate::{Result, contexts::AppendOptions};

/// What an orchestrator does wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(
    not(feature = "broken-orchestrator"),
    expect(unreachable_pub, reason = "it is public with the feature")
)]
pub enum Defect {
    /// What a run records after its end gets into its context.
    WritesLate,
    /// A tree that ends leaves out those below.
    ForgetsSubAgents,
    /// A cancelled tree leaves out who paused in the moment of the cancellation.
    LeavesPaused,
    /// Sub-agents are made in one batch, and their parent's record in the next.
    SplitsSpawn,
    /// A run that goes on after a crash is begun twice.
    StartsTwice,
    /// A run that goes on after a crash may take steps over the bound of all resumes.
    LosesBudget,
    /// The results of a spawn are recorded twice.
    RecordsTwice,
    /// A message is acknowledged before it is durable.
    AcknowledgesEarly,
    /// An agent works without waiting for its turn.
    IgnoresTurns,
}

#[cfg(feature = "broken-orchestrator")]
impl Defect {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::WritesLate,
        Self::ForgetsSubAgents,
        Self::LeavesPaused,
        Self::SplitsSpawn,
        Self::StartsTwice,
        Self::LosesBudget,
        Self::RecordsTwice,
        Self::AcknowledgesEarly,
        Self::IgnoresTurns,
    ];
}

#[cfg(feature = "broken-orchestrator")]
impl super::Orchestrator {
    /// Breaks it, for good.
    #[doc(hidden)]
    pub fn break_with(&self, defect: Defect) {
        let _ = self.inner().defect.set(defect);
    }
}

impl Inner {
    /// Whether it is broken in a way.
    #[cfg(feature = "broken-orchestrator")]
    pub(super) fn is_broken(&self, defect: Defect) -> bool {
        self.defect.get() == Some(&defect)
    }

    /// It is not.
    #[cfg(not(feature = "broken-orchestrator"))]
    #[expect(clippy::unused_self, reason = "with the feature it says")]
    pub(super) const fn is_broken(&self, _: Defect) -> bool {
        false
    }

    /// Writes to the context of a run, whatever became of the run.
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

    /// Makes children in a batch of their own.
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
