//! Compaction of a store, while it is used.

use std::ops::ControlFlow;

use runlog_log::{CompactOptions, Compaction, OnCompactProgress};

#[cfg(doc)]
use crate::ErrorKind;
use crate::{Result, Store};

impl Store {
    /// Gives the disk space back of what nothing refers to any more, and compresses the rest, while the store is used. What
    /// was truncated or deleted and no copy shares, and the payloads of what was redacted, are gone for good. Every answer is
    /// as before: no position, no sequence and no byte that is kept changes. It blocks the thread; durable when it returns,
    /// and after a crash done in part or not at all.
    ///
    /// # Errors
    /// [`ReadOnly`](ErrorKind::ReadOnly) for a store opened for reading, [`Damaged`](ErrorKind::Damaged) for what doesn't
    /// read back as it was written (a segment that is damaged itself is left as it is, and counted), [`StorageFull`](ErrorKind::StorageFull): it takes room for one pack before it gives any back;
    /// [`Unsupported`](ErrorKind::Unsupported) for a store on another machine. The store goes on in any case.
    pub fn compact(&self, options: CompactOptions) -> Result<Compaction> {
        self.compact_with(options, |_| ControlFlow::Continue(()))
    }

    /// [`compact`](Self::compact); `progress` is told how far it is about once a megabyte, and says whether it goes on.
    ///
    /// # Errors
    /// As [`compact`](Self::compact).
    pub fn compact_with(
        &self,
        options: CompactOptions,
        mut progress: impl FnMut(runlog_log::CompactProgress) -> ControlFlow<()> + Send,
    ) -> Result<Compaction> {
        let progress: &mut OnCompactProgress<'_> = &mut progress;
        pollster::block_on(self.backend().maintenance().compact(options, progress))
    }
}
