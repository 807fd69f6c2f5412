//! Compaction of a store, while it is used.

use std::ops::ControlFlow;

use runlog_log::{CompactOptions, Compaction, OnCompactProgress};

#[cfg(doc)]
use crate::ErrorKind;
use crate::{Result, Store};

impl Store {
    /// Frees the disk space of unreferenced data and compresses the rest, while the store is used. Truncated or deleted
    /// records that no copy shares, and the payloads of redacted records, are removed for good. Reads return the same
    /// as before: no position, no sequence and no byte of the rest changes. It blocks the thread; durable when it
    /// returns. After a crash it is done in part or not at all.
    ///
    /// # Errors
    /// [`ReadOnly`](ErrorKind::ReadOnly) for a store opened for reading (which a dry run may be), [`Damaged`](ErrorKind::Damaged) if new data
    /// doesn't read back as it was written (a segment that is damaged before is left unchanged, and counted),
    /// [`StorageFull`](ErrorKind::StorageFull): it needs space for the pack of one segment before it frees any;
    /// [`Unsupported`](ErrorKind::Unsupported) for a store on another machine. The store stays usable in any case.
    pub fn compact(&self, options: CompactOptions) -> Result<Compaction> {
        self.compact_with(options, |_| ControlFlow::Continue(()))
    }

    /// [`compact`](Self::compact); `progress` is called about once a megabyte, and returns whether to continue.
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
