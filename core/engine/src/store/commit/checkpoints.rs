//! Saving checkpoints of a store that is open.

use super::shared::{Saved, Shared};
use crate::{
    Result,
    format::files,
    index::checkpoint::{self, End},
    limits,
    store::{files::small, segments::seal::encode_index},
    sync::{MutexGuard, Ordering, PoisonError},
};

impl Shared {
    /// Saves the directory, so that the next open needn't rebuild it.
    pub(crate) fn save_checkpoint(&self) -> Result<()> {
        let (end, active, streams, redacted, index) = {
            let durable = self.durable();
            let Some(active) = durable.active() else {
                return Ok(());
            };
            let end = End {
                store: self.identity.store,
                segment: active.id().0,
                salt: active.header.salt,
                offset: durable.end,
                records: durable.active_index.records(),
                time_last_ms: durable.last_time_ms,
                next_position: durable.next_position,
                epoch: self.epoch,
                time_first_ms: durable
                    .active_index
                    .times_ms()
                    .map_or(durable.last_time_ms, |times| times.0),
            };
            if self.saved().end == Some((end.segment, end.offset)) {
                return Ok(());
            }
            let directory = &durable.directory;
            (
                end,
                active.clone(),
                directory.streams().clone(),
                directory.redacted().to_words(),
                durable.active_index.copy(),
            )
        };
        // Encoded without the directory's lock: no append waits for it.
        let next_stream = u32::try_from(streams.len() + 1).unwrap_or(u32::MAX);
        let index = encode_index(&active, &streams, index, end.offset, next_stream);
        let bytes = checkpoint::encode(end, &streams, &redacted, &index.bytes);
        self.checkpoint_bytes
            .store(bytes.len() as u64, Ordering::Relaxed);
        if bytes.len() as u64 > limits::CHECKPOINT_BYTES_MAX {
            // Too large to be read back.
            return Ok(());
        }
        // A checkpoint records an end of the log, so the records before that end must be durable first.
        self.flush_staged(true)?;
        // The flush may have woken a thread that saved a newer one, or closed the store. From here on no other can.
        let mut saved = self.saved();
        if saved.is_over || saved.end >= Some((end.segment, end.offset)) {
            return Ok(());
        }
        small::replace(&*self.storage, files::CHECKPOINT, &bytes)?;
        saved.end = Some((end.segment, end.offset));
        Ok(())
    }

    /// Waits for a checkpoint being written, and prevents further ones.
    pub(crate) fn end_checkpoints(&self) {
        self.saved().is_over = true;
    }

    pub(crate) fn saved(&self) -> MutexGuard<'_, Saved> {
        self.saved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
