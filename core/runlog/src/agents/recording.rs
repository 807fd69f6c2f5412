//! What an executor records of its run: messages, what tools gave, and events.

use runlog_log::Durability;
use runlog_model::{EncodedEvent, NewMessage, RawJson, RuntimeEvent};

use super::{active_run::ActiveRun, commands::taken_record, context::RunContext, defect::Defect};
#[cfg(doc)]
use crate::ErrorKind;
use crate::{
    Result,
    contexts::AppendOptions,
    runs::{BatchExtras, Recorded, ToolOutcome},
};

impl RunContext {
    /// Records a message built from its parts, with the tool calls it requests.
    ///
    /// # Errors
    /// As [`RunRecorder::record_message`](crate::runs::RunRecorder::record_message).
    pub async fn record_message(&self, message: NewMessage) -> Result<Recorded> {
        self.record_raw_message(message.to_json()?).await
    }

    /// Records a message in the provider's own JSON, stored byte for byte.
    ///
    /// # Errors
    /// As [`record_message`](Self::record_message).
    pub async fn record_raw_message(&self, json: RawJson) -> Result<Recorded> {
        let durability = self
            .inner
            .is_broken(Defect::AcknowledgesEarly)
            .then_some(Durability::Os);
        self.record_raw_message_with(
            json,
            &AppendOptions {
                durability,
                ..AppendOptions::default()
            },
        )
        .await
    }

    /// [`record_raw_message`](Self::record_raw_message) with options. Run and step are the run's own.
    ///
    /// # Errors
    /// As [`record_message`](Self::record_message); [`Conflict`](ErrorKind::Conflict) when the context's last
    /// sequence isn't the expected one.
    pub async fn record_raw_message_with(
        &self,
        json: RawJson,
        options: &AppendOptions,
    ) -> Result<Recorded> {
        let messages = vec![json.clone()];
        let recorded = self.record_raw_messages(messages, options).await;
        if recorded.is_err() && self.inner.is_broken(Defect::WritesLate) {
            self.inner.write_late(&self.live, json).await?;
        }
        recorded
    }

    /// Records several messages in the provider's own JSON as one batch, all or none of them; as
    /// [`RunRecorder::record_raw_messages`](crate::runs::RunRecorder::record_raw_messages).
    ///
    /// # Errors
    /// As [`RunRecorder::record_raw_messages`](crate::runs::RunRecorder::record_raw_messages).
    pub async fn record_raw_messages(
        &self,
        messages: Vec<RawJson>,
        options: &AppendOptions,
    ) -> Result<Recorded> {
        self.results_of_pausing().await;
        let _pass = self.live.write_guard().await;
        let events = self.unrecorded().await?;
        let extras = BatchExtras::events(&events.records);
        let recorder = &self.live.recorder;
        let recorded = recorder
            .record_raw_messages_with(messages, options, &extras)
            .await?;
        events.mark_recorded(&self.live);
        Ok(recorded)
    }

    /// Checks, before the work of a tool is done, that its result could be recorded now; as
    /// [`RunRecorder::check_tool_call`](crate::runs::RunRecorder::check_tool_call).
    ///
    /// # Errors
    /// As [`RunRecorder::check_tool_call`](crate::runs::RunRecorder::check_tool_call).
    pub async fn check_tool_call(&self, tool_call_id: &str) -> Result<usize> {
        self.live.recorder.check_tool_call(tool_call_id).await
    }

    /// Records a tool's result of a call that was recorded before.
    ///
    /// # Errors
    /// As [`record_message`](Self::record_message).
    pub async fn record_tool_result(&self, outcome: &ToolOutcome) -> Result<Recorded> {
        self.record_tool_results(std::slice::from_ref(outcome))
            .await
    }

    /// Records the results of several calls that were recorded before, as one batch; as
    /// [`RunRecorder::record_tool_results`](crate::runs::RunRecorder::record_tool_results).
    ///
    /// # Errors
    /// As [`record_message`](Self::record_message).
    pub async fn record_tool_results(&self, outcomes: &[ToolOutcome]) -> Result<Recorded> {
        let _pass = self.live.write_guard().await;
        let events = self.unrecorded().await?;
        let extras = BatchExtras::events(&events.records);
        let recorded = self
            .live
            .recorder
            .record_tool_results_with(outcomes, &extras)
            .await?;
        events.mark_recorded(&self.live);
        Ok(recorded)
    }

    /// Records the assistant message that requested tool calls together with their results, as one batch.
    ///
    /// # Errors
    /// As [`record_message`](Self::record_message); [`InvalidInput`](ErrorKind::InvalidInput) when an outcome answers no
    /// call of the message.
    pub async fn record_tool_call(
        &self,
        message: RawJson,
        outcomes: &[ToolOutcome],
    ) -> Result<Recorded> {
        self.results_of_pausing().await;
        let _pass = self.live.write_guard().await;
        let events = self.unrecorded().await?;
        let extras = BatchExtras::events(&events.records);
        let recorded = self
            .live
            .recorder
            .record_tool_call_with(message, outcomes, &extras)
            .await?;
        events.mark_recorded(&self.live);
        Ok(recorded)
    }

    /// Records an event for observers, such as one of the eight `agent:*` events.
    ///
    /// # Errors
    /// As [`record_message`](Self::record_message).
    pub async fn record_event(&self, event: &RuntimeEvent) -> Result<()> {
        self.record_events(std::slice::from_ref(event)).await
    }

    /// Records events, all of them or none, with one flush.
    ///
    /// # Errors
    /// As [`record_message`](Self::record_message).
    pub async fn record_events(&self, events: &[RuntimeEvent]) -> Result<()> {
        let events: Vec<EncodedEvent> = events.iter().map(RuntimeEvent::encode).collect();
        let _pass = self.live.write_guard().await;
        let extras = BatchExtras::events(&events);
        self.live
            .recorder
            .record_with(&[], &AppendOptions::default(), &extras)
            .await
            .map(|_| ())
    }

    /// Waits, where the run is about to be paused, until the results of its sub-agents are recorded: its last words are
    /// refused before that.
    async fn results_of_pausing(&self) {
        if self.live.token.is_cancelled() && self.live.is_pausing() {
            self.live.spawns_closed().await;
        }
    }

    /// The changes of its space and the taken commands that aren't in the run's stream yet.
    async fn unrecorded(&self) -> Result<Unrecorded<'_>> {
        let now_ms = self.inner.now_ms();
        let unsaved = self.live.space.unsaved(now_ms)?;
        let taken = match self.live.inbox.unrecorded() {
            0 => None,
            _ => {
                let pass = self.live.inbox.writing().await;
                Some((self.live.inbox.unrecorded(), pass)).filter(|(count, _)| *count > 0)
            }
        };
        let mut records = Vec::new();
        if let Some((count, _)) = &taken {
            records.push(taken_record(*count, now_ms)?);
        }
        records.extend(unsaved.iter().map(|unsaved| unsaved.record.clone()));
        Ok(Unrecorded {
            records,
            unsaved,
            taken,
        })
    }
}

/// What is recorded in the same batch as the run's next record.
struct Unrecorded<'a> {
    records: Vec<EncodedEvent>,
    unsaved: Option<super::space::Unsaved>,
    /// How many commands were taken, and the lock that keeps others from recording that too.
    taken: Option<(u32, tokio::sync::MutexGuard<'a, ()>)>,
}

impl Unrecorded<'_> {
    fn mark_recorded(self, live: &ActiveRun) {
        if let Some(unsaved) = &self.unsaved {
            live.space.saved(unsaved);
        }
        if let Some((count, _)) = &self.taken {
            live.inbox.mark_recorded(*count);
        }
    }
}
