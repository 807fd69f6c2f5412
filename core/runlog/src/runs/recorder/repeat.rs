//! Repeats: a batch whose idempotency key is known is told what it became the first time, whatever became of the run.

use runlog_engine::Sequence;

use super::{AsyncRunRecorder, Recorded, State};
use crate::{Error, Result};

impl AsyncRunRecorder {
    /// What a repeat is told: the step is that of the first time.
    pub(super) async fn as_it_was(&self, recorded: Recorded) -> Result<Recorded> {
        let instance = self.state().run.instance_id;
        let event = self.inner.runs.store.contexts().event(instance, recorded.sequence_number).await?;
        // A truncation may have taken it.
        let event = event.filter(|event| event.position == recorded.id);
        let step_number = event.and_then(|event| event.step_number).unwrap_or(recorded.step_number);
        Ok(Recorded { step_number, ..recorded })
    }
}

/// Where a batch expects the run's stream to end. What is refused may be a repeat, which is told what the first one was,
/// if its key is known: it is asked with an expectation that nothing fulfils.
pub(super) fn expected_of(
    state: &State,
    checked: Result<()>,
    key: Option<&[u8]>,
    refused: &mut Option<Error>,
) -> Result<Sequence> {
    match (checked, key) {
        (Ok(()), _) => {
            *refused = None;
            Ok(state.last_sequence)
        }
        (Err(error), Some(_)) => {
            *refused = Some(error);
            Ok(Sequence::MAX)
        }
        (Err(error), None) => Err(error),
    }
}
