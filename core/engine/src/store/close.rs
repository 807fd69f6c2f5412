//! Closing a store.

use std::sync::PoisonError;

use super::{segments::Spare, shared::Shared, writer::Ended};
use crate::{Result, format::files};

impl Shared {
    /// Flushes, saves a checkpoint, gives back the space that isn't used, and releases the lock.
    pub(crate) fn close(&self) -> Result<()> {
        if self.is_read_only() {
            return Ok(());
        }
        let flushed = self.flush(true);
        self.background.stop();
        let saved = flushed.and_then(|()| self.save_checkpoint()).and_then(|()| self.mark_end());
        let mut writer = self.writer()?;
        let first = !writer.is_closed();
        writer.ended = Some(Ended::Closed);
        if first && saved.is_ok() {
            let (file, end) = (writer.active.file.clone(), writer.end);
            drop(writer);
            if let Spare::Ready(..) = std::mem::take(&mut *self.spare()) {
                let _ = self.storage.remove(files::SPARE);
            }
            if file.len().is_ok_and(|length| length > end) {
                // Flushed, so that what is written there later can't be cut off by it.
                let _ = file.set_len(end).and_then(|()| file.sync());
            }
        }
        self.watch.wake();
        self.lock.lock().unwrap_or_else(PoisonError::into_inner).take();
        if first { saved } else { Ok(()) }
    }
}
