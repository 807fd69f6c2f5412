//! The fold of one message, which is kept where the message is changed often.

use runlog_log::{FindOptions, Record, StreamInfo};
use runlog_model::{ChatIdOf, SessionId, kinds};

use super::{cache::apply, lookup::in_order_of};
use crate::{
    Result, Store,
    kernel::{
        often::{MessageFold, OFTEN},
        shared_fold::SharedFold,
    },
};

/// The most records of a message that are read without folding the chat.
const RECORDS_MAX: usize = 4_096;

impl Store {
    /// A fold with a message of a chat that isn't cached: of its own records, or of the whole chat where these don't say all.
    pub(super) async fn message_fold(&self, session: SessionId, id: &str) -> Result<SharedFold> {
        // An id that the store derived from a taken one is in no record.
        if id.contains('~') {
            return self.chat_fold(session).await;
        }
        let redactions = self.backend().redactions();
        let Some(info) = self.stream_in_order(session).await? else {
            return self.chat_fold(session).await;
        };
        let kept = self.often().take_fold(session, id, (info, redactions));
        if let Some(mut kept) = kept
            && self.change(session, id, &mut kept, info).await?
        {
            let fold = kept.fold.clone();
            kept.read_at.0 = info;
            self.often().keep_fold(session, id, kept);
            return Ok(fold);
        }
        let records = self.records_of_message(id, in_order_of(session)).await?;
        if records.len() > RECORDS_MAX {
            return self.chat_fold(session).await;
        }
        let (count, last) = (records.len(), records.last().map(|record| record.position));
        let fold = SharedFold::of(self.fold_of_messages(session, records, info).await?);
        if let Some(read_to) = last.filter(|_| count >= OFTEN) {
            let kept = MessageFold {
                fold: fold.clone(),
                read_to,
                read_at: (info, redactions),
            };
            self.often().keep_fold(session, id, kept);
        }
        Ok(fold)
    }

    /// Catches a message's fold up with the changes since; `false` if the message was saved anew.
    async fn change(
        &self,
        session: SessionId,
        id: &str,
        kept: &mut MessageFold,
        info: StreamInfo,
    ) -> Result<bool> {
        let options = FindOptions {
            first: kept.read_to.next(),
            ..in_order_of(session)
        };
        let records = self.records_of_message(id, options).await?;
        let is_saved = |record: &Record| record.kind.0 == kinds::MESSAGE_SAVED;
        if records.len() > RECORDS_MAX || records.iter().any(is_saved) {
            return Ok(false);
        }
        let mut fold = kept.fold.write();
        for record in &records {
            apply(&mut fold, record.stream, record)?;
            kept.read_to = record.position;
        }
        fold.skip(info.last_sequence.0);
        Ok(true)
    }

    /// The records of a message, one more than [`RECORDS_MAX`] at most.
    async fn records_of_message(&self, id: &str, options: FindOptions) -> Result<Vec<Record>> {
        let mut records = Vec::new();
        self.each_labelled(ChatIdOf::Message.label(id), options, &mut |record| {
            records.push(record.clone());
            Ok(records.len() <= RECORDS_MAX)
        })
        .await?;
        Ok(records)
    }
}
