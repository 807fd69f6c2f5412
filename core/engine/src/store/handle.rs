//! The public engine: [`Store`].

mod reading;

use std::sync::Arc;

use super::{
    commit::{
        future::{Commit, OpenStore},
        shared::Shared,
        stage::{Outcome, Waiting, appended},
    },
    open::entry,
    options::OpenOptions,
    tools::{backup, verify::verify},
};
use crate::{
    Appended, Backup, BackupOptions, Batch, CompactOptions, Compaction, Expected, NewRecord,
    OnCompactProgress, Op, Position, Recovery, Result, Sequence, StreamId, Verification,
    storage::Storage,
};

/// A log of streams of records, in a folder or in memory. Clones are handles of the same open store.
///
/// One process writes; any number may read at the same time. All methods block at most for the storage; the ones that
/// append return once the records are as durable as was requested. The store is closed when the last handle is dropped,
/// or by [`Store::close`], which reports whether that worked.
///
/// ```
/// use runlog_engine::{Expected, NewRecord, OpenOptions, ReadOptions, Store, StreamId};
///
/// # fn main() -> runlog_engine::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("store");
/// let store = Store::open(&path, OpenOptions::default())?;
/// let stream = StreamId(store.new_id());
/// // Durable when this returns: on the device, not only in memory.
/// store.append(stream, Expected::Absent, &[NewRecord::data(b"first"), NewRecord::data(b"second")])?;
/// let payloads: Vec<_> =
///     store.read(stream, ReadOptions::default())?.map(|record| record.map(|record| record.payload)).collect::<Result<_, _>>()?;
/// assert_eq!(payloads, ["first", "second"]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Store {
    open: Arc<OpenStore>,
    recovery: Recovery,
    /// Whether it has refreshed already, and its reads don't refresh again.
    has_looked: bool,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("place", &self.shared().storage.describe())
            .finish_non_exhaustive()
    }
}

impl Store {
    /// Opens the store in a folder, or makes one there.
    ///
    /// A store left by a crash is recovered: acknowledged batches exist, a torn batch doesn't.
    ///
    /// # Errors
    /// - [`Locked`](crate::ErrorKind::Locked): another process or handle has it open for writing.
    /// - [`NotAStore`](crate::ErrorKind::NotAStore): the folder holds something else.
    /// - [`NotFound`](crate::ErrorKind::NotFound): there is none, and the options say not to make one.
    /// - [`Damaged`](crate::ErrorKind::Damaged): durable bytes are damaged; nothing was changed.
    /// - [`UnsupportedVersion`](crate::ErrorKind::UnsupportedVersion),
    ///   [`ReadOnly`](crate::ErrorKind::ReadOnly), [`StorageFull`](crate::ErrorKind::StorageFull),
    ///   [`Io`](crate::ErrorKind::Io).
    #[cfg(not(target_family = "wasm"))]
    pub fn open(path: impl AsRef<std::path::Path>, options: OpenOptions) -> Result<Self> {
        Self::open_on(Arc::new(crate::storage::FsStorage::new(path)), options)
    }

    /// Makes an empty store in memory, dropped with its last handle.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for options out of range.
    pub fn in_memory(options: OpenOptions) -> Result<Self> {
        Self::open_on(Arc::new(crate::storage::MemoryStorage::new()), options)
    }

    /// Opens the store on a storage. As [`Store::open`].
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_on(storage: Arc<dyn Storage>, options: OpenOptions) -> Result<Self> {
        let (shared, recovery) = entry::open(storage, options)?;
        Ok(Self {
            open: Arc::new(OpenStore(shared)),
            recovery,
            has_looked: false,
        })
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.open.0
    }

    /// Refreshes: applies what a writer in another process has published.
    fn look(&self) -> Result<()> {
        match self.has_looked {
            true => Ok(()),
            false => self.shared().refresh(),
        }
    }

    /// A handle for several reads that together answer one query. It refreshes now, so that it sees everything that a
    /// writer in another process acknowledged before this call; its reads don't refresh again, which would read a file
    /// each time. It is not a snapshot: it may also see what other handles refresh to. Calls that wait for new records
    /// still refresh.
    ///
    /// # Errors
    /// As [`Store::stream`].
    ///
    /// ```
    /// use runlog_engine::{Expected, NewRecord, OpenOptions, Store, StreamId};
    ///
    /// # fn main() -> runlog_engine::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("store");
    /// let writer = Store::open(&path, OpenOptions::default())?;
    /// let reader = Store::open(&path, OpenOptions::default().read_only())?;
    /// let stream = StreamId(writer.new_id());
    /// writer.append(stream, Expected::Absent, &[NewRecord::data(b"there")])?;
    /// let now = reader.as_of_now()?;
    /// assert_eq!(now.stream(stream)?.map(|found| found.last_sequence.0), Some(1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn as_of_now(&self) -> Result<Self> {
        self.shared().refresh()?;
        Ok(Self {
            has_looked: self.shared().is_read_only(),
            ..self.clone()
        })
    }

    /// What opening found.
    pub fn recovery(&self) -> Recovery {
        self.recovery
    }

    /// A fresh id that sorts by time (UUID version 7).
    pub fn new_id(&self) -> uuid::Uuid {
        self.shared().options.host.new_id()
    }

    /// Lets the host wake a task after this time.
    #[cfg(target_family = "wasm")]
    pub(crate) fn wake_after(&self, duration: std::time::Duration, waker: std::task::Waker) {
        self.shared().options.host.wake_after(duration, waker);
    }

    /// The time by the store's clock: milliseconds since 1970-01-01 UTC.
    pub fn now_ms(&self) -> u64 {
        self.shared().options.host.now_ms()
    }

    /// Appends records to one stream, which is made if it doesn't exist. All of them or none.
    ///
    /// # Errors
    /// As [`Store::commit`].
    pub fn append(
        &self,
        stream: StreamId,
        expected: Expected,
        records: &[NewRecord<'_>],
    ) -> Result<Appended> {
        self.commit(&Batch::new(vec![Op::Append {
            stream,
            expected,
            records: records.to_vec(),
        }]))
    }

    /// Commits a batch atomically; returns once it is as durable as was requested.
    ///
    /// # Errors
    /// Nothing was written:
    /// - [`Conflict`](crate::ErrorKind::Conflict), [`AlreadyExists`](crate::ErrorKind::AlreadyExists),
    ///   [`NotFound`](crate::ErrorKind::NotFound): a stream is not as the batch expects.
    /// - [`InvalidInput`](crate::ErrorKind::InvalidInput), [`TooLarge`](crate::ErrorKind::TooLarge).
    /// - [`StorageFull`](crate::ErrorKind::StorageFull): the device is full; free some space and continue.
    /// - [`Closed`](crate::ErrorKind::Closed): the store was closed, or it was opened by the process that this one was forked
    ///   from.
    /// - [`ReadOnly`](crate::ErrorKind::ReadOnly), [`Poisoned`](crate::ErrorKind::Poisoned).
    ///
    /// If several streams are not as the batch expects, the error names that of the first such op; except that a
    /// deleted stream to which the key is scoped comes before all others ([`Batch::key`]).
    ///
    /// It may or may not be written: [`OutcomeUnknown`](crate::ErrorKind::OutcomeUnknown), when a write or
    /// flush failed. The store then refuses appends until it is reopened; an idempotency key makes it safe to
    /// do the batch again after that.
    pub fn commit(&self, batch: &Batch<'_>) -> Result<Appended> {
        self.shared().commit(batch)
    }

    /// Queues a batch and returns at once. The [`Commit`] can be waited for by a thread or awaited; it is acknowledged
    /// once it is as durable as was requested. Dropping it doesn't cancel the batch.
    ///
    /// It blocks while 8 MiB are queued, and during a rotation.
    ///
    /// # Errors
    /// As [`Store::commit`], but for [`OutcomeUnknown`](crate::ErrorKind::OutcomeUnknown), which the
    /// [`Commit`] returns, as it does when the device turns out to be full only when the batch is written.
    pub fn stage(&self, batch: &Batch<'_>) -> Result<Commit> {
        Ok(match self.shared().stage(batch, Waiting::Later)? {
            Outcome::Done(appended) => Commit::done(self.open.clone(), appended),
            Outcome::Staged(group, staged) => {
                Commit::staged(self.open.clone(), group, appended(staged))
            }
        })
    }

    /// Makes everything that was acknowledged so far durable, whatever its durability.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io), after which the store refuses appends until it is reopened.
    pub fn sync(&self) -> Result<()> {
        self.shared().check_process()?;
        self.shared().flush(true)
    }

    /// Reads every byte of the store's storage, also beside a writer. As [`verify()`].
    ///
    /// # Errors
    /// As [`verify()`].
    pub fn verify(&self) -> Result<Verification> {
        verify(&*self.shared().storage)
    }

    /// Copies the store to another folder while it is in use: everything acknowledged before the call, or for a reader
    /// everything it sees. Files of an earlier backup in the same folder are kept, so that only new data is copied.
    /// Durable when it returns. The folder is a store: open it there, or copy it back.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a folder that contains other files, or another
    /// store, or lies inside the store's own, [`Conflict`](crate::ErrorKind::Conflict) for a backup that was written to
    /// since, [`Locked`](crate::ErrorKind::Locked) while another backup writes there; and errors of reading and
    /// writing. After an error the copy is a valid store that ends earlier. [`Damaged`](crate::ErrorKind::Damaged)
    /// where what was copied is damaged in the store: the message names the segment and the offset, and everything was
    /// copied as it is.
    pub fn backup(&self, target: &dyn Storage) -> Result<Backup> {
        self.backup_with(target, BackupOptions::default())
    }

    /// [`backup`](Self::backup) with options.
    ///
    /// # Errors
    /// As [`backup`](Self::backup); [`Damaged`](crate::ErrorKind::Damaged) also when a segment of the backup differs and the
    /// store's own is the damaged one, which then isn't copied over it.
    pub fn backup_with(&self, target: &dyn Storage, options: BackupOptions) -> Result<Backup> {
        if self.shared().is_read_only() {
            self.shared().refresh()?;
        } else {
            self.sync()?;
        }
        let shared = self.shared();
        // Prevents this process from removing segments meanwhile; one that another process removes is looked up again.
        let _packing = crate::sync::lock(&shared.packing);
        shared.past_packs(|| backup::backup(shared, target, "a backup", options))
    }

    /// Rewrites the live records of sealed segments into packs, compressed and grouped by stream, and frees the disk
    /// space of the rest. Positions, sequences and payloads of live records don't change; a stream reads as before.
    /// Reads and appends continue meanwhile, in other processes too. It is durable when it returns; after a crash it
    /// has been done in part or not at all.
    ///
    /// Dropped permanently are: data records that no stream contains any more, because they were truncated or their
    /// stream was deleted, their snapshots, and the payloads of redacted records. A fork keeps what it shares.
    ///
    /// # Errors
    /// [`Damaged`](crate::ErrorKind::Damaged) for a pack that doesn't read back as it was written: its
    /// segments are then kept. A damaged segment is left as it is, and counted;
    /// [`StorageFull`](crate::ErrorKind::StorageFull): it needs space for the pack of one segment before it frees any;
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly), [`Closed`](crate::ErrorKind::Closed), [`Io`](crate::ErrorKind::Io).
    /// The store stays usable, and contains the packs that were finished.
    ///
    /// ```
    /// use runlog_engine::{CompactOptions, Expected, NewRecord, OpenOptions, Sequence, Store, StreamId};
    ///
    /// # fn main() -> runlog_engine::Result<()> {
    /// let store = Store::in_memory(OpenOptions::default())?;
    /// let stream = StreamId(store.new_id());
    /// store.append(stream, Expected::Absent, &[NewRecord::data(b"kept"), NewRecord::data(b"not kept")])?;
    /// store.truncate(stream, Sequence(1))?;
    /// let done = store.compact(CompactOptions::default())?;
    /// assert_eq!(done.records_dropped, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn compact(&self, options: CompactOptions) -> Result<Compaction> {
        self.compact_with(options, &mut |_| std::ops::ControlFlow::Continue(()))
    }

    /// [`compact`](Self::compact) with progress: `progress` is called about once a megabyte, and decides whether the
    /// compaction continues.
    ///
    /// # Errors
    /// As [`compact`](Self::compact).
    pub fn compact_with(
        &self,
        options: CompactOptions,
        progress: &mut OnCompactProgress<'_>,
    ) -> Result<Compaction> {
        self.shared().compact(options, progress)
    }

    /// Removes a stream's records after a sequence. O(1).
    ///
    /// # Errors
    /// As [`Store::commit`].
    pub fn truncate(&self, stream: StreamId, after: Sequence) -> Result<Appended> {
        self.commit(&Batch::new(vec![Op::Truncate {
            stream,
            expected: Expected::Any,
            after,
        }]))
    }

    /// Makes a stream that shares another's records up to a sequence. O(1) in the number of records.
    ///
    /// # Errors
    /// As [`Store::commit`].
    pub fn fork(&self, parent: StreamId, at: Sequence, child: StreamId) -> Result<Appended> {
        self.commit(&Batch::new(vec![Op::Fork {
            parent,
            expected: Expected::Any,
            at,
            child,
        }]))
    }

    /// Saves a state at a sequence of a stream.
    ///
    /// # Errors
    /// As [`Store::commit`].
    pub fn snapshot(
        &self,
        stream: StreamId,
        sequence: Sequence,
        payload: &[u8],
    ) -> Result<Appended> {
        self.commit(&Batch::new(vec![Op::Snapshot {
            stream,
            expected: Expected::Any,
            sequence,
            meta: &[],
            payload,
        }]))
    }

    /// Deletes a stream. Forks of it keep what they share.
    ///
    /// # Errors
    /// As [`Store::commit`].
    pub fn delete(&self, stream: StreamId) -> Result<Appended> {
        self.commit(&Batch::new(vec![Op::Delete {
            stream,
            expected: Expected::Any,
        }]))
    }

    /// Removes the payload of a record from every read, forks included. Its bytes stay on disk until the segment is
    /// compacted. A record that can't be read may be redacted too: reads then pass over it instead of ending with an error.
    ///
    /// # Errors
    /// As [`Store::commit`]; [`Damaged`](crate::ErrorKind::Damaged) for a record of the active segment of which the header is
    /// damaged too, until a [`repair`](crate::repair).
    pub fn redact(&self, position: Position, reason: &str) -> Result<Appended> {
        self.commit(&Batch::new(vec![Op::Redact { position, reason }]))
    }

    /// Lets reads pass over records as long as they can't be read: they are returned as redacted ones then, and are there again once
    /// their files are whole, such as restored from a backup. The positions are those that [`unreadable`](Self::unreadable) says.
    ///
    /// # Errors
    /// As [`Store::commit`]; [`InvalidInput`](crate::ErrorKind::InvalidInput) for a record that can be read.
    pub fn pass_over(&self, positions: &[Position], reason: &str) -> Result<()> {
        let positions: Vec<Position> = positions
            .iter()
            .map(|position| position.if_lost())
            .collect();
        for op in Op::redactions(&positions, reason) {
            self.commit(&Batch::new(vec![op]))?;
        }
        Ok(())
    }

    /// Writes and flushes what is queued, saves a checkpoint so that the next open is fast, frees unused space, and
    /// lets another process write. It closes all handles of the store: later batches are refused, and every [`Commit`]
    /// has its result when this returns. Threads that close concurrently all return once the store is closed, except
    /// tasks woken by the close itself, which return at once. Closing twice has no effect.
    ///
    /// # Errors
    /// The store is closed nevertheless, and everything acknowledged is safe; reported once, to the thread
    /// that closed it first:
    /// - [`Poisoned`](crate::ErrorKind::Poisoned): a write or a flush failed before.
    /// - [`Io`](crate::ErrorKind::Io), [`StorageFull`](crate::ErrorKind::StorageFull).
    ///
    /// Nothing is closed:
    /// - [`Closed`](crate::ErrorKind::Closed): another process opened the store, and this one was forked from it.
    pub fn close(&self) -> Result<()> {
        self.shared().close()
    }
}

#[cfg(test)]
#[path = "format_tests.rs"]
mod format_tests;
#[cfg(test)]
#[path = "tests.rs"]
mod tests;
