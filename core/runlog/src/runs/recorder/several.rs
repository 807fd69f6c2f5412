//! Several messages of a run in one batch.

use runlog_model::RawJson;

use super::RunRecorder;
#[cfg(doc)]
use crate::ErrorKind;
use crate::{
    Error, Result,
    contexts::{AppendOptions, RawMessage},
    runs::{BatchExtras, Recorded},
};

impl RunRecorder {
    /// Records several messages in the provider's own JSON as one batch, with one flush, all or none of them: the items of one answer of
    /// OpenAI's Responses, of which none is to be there without those behind it. What is returned is of all of them: the first one's sequence, and the
    /// last one's. Durable when it returns.
    ///
    /// # Errors
    /// As [`record_message`](Self::record_message), for the first of them that is refused where it stands;
    /// [`InvalidInput`](ErrorKind::InvalidInput) when there is none.
    ///
    /// ```
    /// # async fn example(run: &runlog::runs::RunRecorder) -> runlog::Result<()> {
    /// use runlog::{RawJson, contexts::AppendOptions};
    ///
    /// let answer = [
    ///     r#"{"type":"reasoning","id":"rs_1","summary":[]}"#,
    ///     r#"{"type":"function_call","call_id":"c","name":"ls","arguments":"{}"}"#,
    /// ];
    /// let items = answer.map(RawJson::parse).into_iter().collect::<Result<_, _>>()?;
    /// run.record_raw_messages(items, &AppendOptions::default()).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn record_raw_messages(
        &self,
        messages: Vec<RawJson>,
        options: &AppendOptions,
    ) -> Result<Recorded> {
        self.record_raw_messages_with(messages, options, &BatchExtras::default())
            .await
    }

    /// [`record_raw_messages`](Self::record_raw_messages) with extras in the batch.
    pub(crate) async fn record_raw_messages_with(
        &self,
        messages: Vec<RawJson>,
        options: &AppendOptions,
        extras: &BatchExtras<'_>,
    ) -> Result<Recorded> {
        if messages.is_empty() {
            return Err(Error::invalid("there is no message; give one at least"));
        }
        let messages = messages.into_iter().map(|json| RawMessage {
            json,
            event: options.event.clone(),
        });
        let messages: Vec<RawMessage> = messages.collect();
        self.record_with(&messages, options, extras).await
    }
}
