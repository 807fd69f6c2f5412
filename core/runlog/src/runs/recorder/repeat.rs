//! Repeats: a batch with a known idempotency key returns the first result, even if the run has ended since.

use runlog_log::Sequence;
use runlog_model::ContextEvent;

use super::state::{Recorded, RunRecorder, State};
use crate::{Error, Result, kernel::records::context_stream};

impl RunRecorder {
    /// The result of a repeat, with the step of the first time.
    pub(super) async fn as_it_was(&self, recorded: Recorded) -> Result<Recorded> {
        let instance = self.state().run.instance_id;
        let contexts = self.inner.runs.store.contexts();
        let is_it = |event: &ContextEvent| event.position == recorded.id;
        let mut event = contexts
            .event(instance, recorded.sequence_number)
            .await?
            .filter(is_it);
        if event.is_none() {
            // It had another number of events the first time, or it was truncated.
            let (stream, last) = (context_stream(instance), Sequence(recorded.last_sequence));
            let before = self
                .inner
                .runs
                .store
                .last_before(stream, last, recorded.id.saturating_add(1))
                .await?;
            let sequence = before.map_or(0, |record| record.sequence.0);
            event = contexts.event(instance, sequence).await?.filter(is_it);
        }
        let sequence_number = event
            .as_ref()
            .map_or(recorded.sequence_number, |event| event.sequence_number);
        let step_number = event
            .and_then(|event| event.step_number)
            .unwrap_or(recorded.step_number);
        Ok(Recorded {
            step_number,
            sequence_number,
            ..recorded
        })
    }
}

/// The last sequence that a batch expects of the run's stream. A refused batch may be a repeat, which returns the first
/// result if its key is known: so it is submitted with an expectation that never holds.
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
