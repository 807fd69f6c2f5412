//! The fold of a chat, caught up.

use runlog_log::{Kind, ReadOptions, Record, Sequence, StreamId};
use runlog_model::{ChatEvent, ChatFold, SessionId, kinds};

use crate::{
    Error, Result, Store,
    journal::follow::read_each,
    kernel::{records::chat_stream, shared_fold::SharedFold},
};

impl Store {
    /// The chat's fold, caught up.
    pub(crate) async fn chat_fold(&self, session: SessionId) -> Result<SharedFold> {
        let stream = chat_stream(session);
        let Some(info) = self.backend().stream(stream).await? else {
            return Ok(SharedFold::default());
        };
        let cache = self.chat_cache();
        let redactions = self.backend().redactions();
        cache.folds().forget_unless(redactions);
        if let Some((fold, at)) = cache.known(session)
            && at == info
        {
            return Ok(fold);
        }
        // One task at a time: a second one would find no cached fold, and fold the whole chat.
        let turn = cache.folds().turn_of(session);
        let _alone = turn.lock().await;
        let Some(info) = self.backend().stream(stream).await? else {
            return Ok(SharedFold::default());
        };
        let last = info.last_sequence.0;
        // Taken out of the cache until it is caught up, so that a fold that fails halfway isn't used again.
        let kept = cache.folds().take(session);
        // A chat that was emptied and restored may be as long as it was before.
        let fold = kept
            .filter(|(_, at)| info.goes_on_from(at))
            .map(|(fold, _)| fold)
            .unwrap_or_default();
        self.catch_up(stream, &fold, last).await?;
        let bytes = fold.read().bytes();
        cache
            .folds()
            .keep(session, fold.clone(), bytes, (info, redactions));
        Ok(fold)
    }

    /// The chat's fold, caught up, if it is cached.
    pub(crate) async fn kept_chat_fold(&self, session: SessionId) -> Result<Option<SharedFold>> {
        self.chat_cache()
            .folds()
            .forget_unless(self.backend().redactions());
        match self.chat_cache().known(session) {
            Some(_) => self.chat_fold(session).await.map(Some),
            None => Ok(None),
        }
    }

    async fn catch_up(&self, stream: StreamId, fold: &SharedFold, last: u64) -> Result<()> {
        let first = Sequence(fold.read().last_sequence()).next();
        if first.0 > last {
            return Ok(());
        }
        let options = ReadOptions {
            first,
            last: Sequence(last),
            kinds: kinds::CHAT_EVENTS.map(Kind).collect(),
            ..ReadOptions::default()
        };
        read_each(&**self.backend(), stream, options, &mut |record| {
            apply(&mut fold.write(), stream, record)
        })
        .await?;
        fold.write().skip(last);
        Ok(())
    }
}

/// Applies a record of a chat's stream to a fold.
pub(super) fn apply(fold: &mut ChatFold, stream: StreamId, record: &Record) -> Result<()> {
    let (sequence, position) = (record.sequence.0, record.position.0);
    if record.redacted {
        fold.skip_redacted(sequence, record.kind.0);
        return Ok(());
    }
    ChatEvent::decode(record.kind.0, &record.meta, &record.payload)
        .and_then(|event| fold.apply(sequence, position, record.payload.len(), event))
        .map_err(|error| named(error, stream, record))
}

/// The error of a chat's record, with where it is.
pub(super) fn named(error: Error, stream: StreamId, record: &Record) -> Error {
    let message = format!("chat {}, event {}: {error}", stream.0, record.sequence);
    Error::new(error.kind(), message)
}
