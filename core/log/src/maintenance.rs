//! [`Maintenance`]: the operations that only some backends support, and their reports.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    Appended, BackendFuture, Batch, CompactOptions, Compaction, Error, ErrorKind,
    OnCompactProgress, Position, Record, Result, StreamInfo,
};

/// A backend's operations on the log as a whole: statistics, verification, backup, compaction. Reached by
/// [`Backend::maintenance`](crate::Backend::maintenance).
///
/// A backend overrides the calls it supports. Every other call is refused with [`Unsupported`](ErrorKind::Unsupported),
/// and the error names the call; [`if_supported`] turns that into `None` for callers that can do without.
pub trait Maintenance: Send + Sync {
    /// The folder that the log is in, by which other processes of the machine reach it. `None` where it is elsewhere: in
    /// memory, in a browser, or in a folder that was moved since.
    fn folder(&self) -> Option<PathBuf> {
        None
    }

    /// Whether a process has the log open for writing, as in [`Stat::has_writer`].
    fn has_writer(&self) -> Option<bool> {
        None
    }

    /// The last durable position; [`Position::ZERO`] while there is no record.
    fn last_position(&self) -> BackendFuture<'_, Position> {
        unsupported("last_position")
    }

    /// The record at a position, engine records included. `None` past the end.
    fn record(&self, position: Position) -> BackendFuture<'_, Option<Record>> {
        let _ = position;
        unsupported("record")
    }

    /// The first position at or after `first` whose record can be read, so that a reader can skip damaged records.
    /// `None` if none follows.
    fn next_readable(&self, first: Position) -> BackendFuture<'_, Option<Position>> {
        let _ = first;
        unsupported("next_readable")
    }

    /// Every stream that isn't deleted, in the order they were made.
    fn streams(&self) -> BackendFuture<'_, Vec<StreamInfo>> {
        unsupported("streams")
    }

    /// Queues a batch and returns at once, so that many share one flush. The future is ready once the batch is as
    /// durable as was requested; dropping it doesn't cancel the write.
    ///
    /// # Errors
    /// As [`Backend::commit`](crate::Backend::commit), for errors detected before anything is written.
    fn stage(&self, batch: &Batch<'_>) -> Result<BackendFuture<'static, Appended>> {
        let _ = batch;
        Err(refusal("stage"))
    }

    /// Makes everything that was acknowledged so far durable, whatever its durability.
    fn flush(&self) -> BackendFuture<'_, ()> {
        unsupported("flush")
    }

    /// What opening the log found.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported).
    fn recovery(&self) -> Result<Recovery> {
        Err(refusal("recovery"))
    }

    /// The size of the log and of its contents.
    fn stat(&self) -> BackendFuture<'_, Stat> {
        unsupported("stat")
    }

    /// Reads every byte of the log, also while a writer is active, and compares all derived data with the records.
    /// Changes nothing. Damage is not an error: it is reported in the [`Verification`].
    fn verify(&self) -> BackendFuture<'_, Verification> {
        unsupported("verify")
    }

    /// Copies the log to a folder while it is in use: everything acknowledged before the call. Files of an earlier
    /// backup in the folder are kept, so that only new data is copied. The backup is durable when the future is ready.
    fn backup<'a>(&'a self, folder: &'a Path, options: BackupOptions) -> BackendFuture<'a, Backup> {
        let _ = (folder, options);
        unsupported("backup")
    }

    /// Rewrites live records into compressed packs and frees the disk space of the rest, while the log is in use.
    /// `progress` is called now and then, and decides whether the compaction continues.
    fn compact<'a>(
        &'a self,
        options: CompactOptions,
        progress: &'a mut OnCompactProgress<'a>,
    ) -> BackendFuture<'a, Compaction> {
        let _ = (options, progress);
        unsupported("compact")
    }
}

/// The [`Maintenance`] of a backend that supports none of the calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoMaintenance;

impl Maintenance for NoMaintenance {}

/// Turns [`Unsupported`](ErrorKind::Unsupported) into `None`.
///
/// # Errors
/// All others than [`Unsupported`](ErrorKind::Unsupported).
pub fn if_supported<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(None),
        Err(error) => Err(error),
    }
}

fn refusal(call: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("`{call}` isn't possible with this store: its backend doesn't offer it"),
    )
}

fn unsupported<'a, T: Send + 'a>(call: &str) -> BackendFuture<'a, T> {
    Box::pin(std::future::ready(Err(refusal(call))))
}

/// What opening a log found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Recovery {
    /// Whether the store was closed cleanly or just created, not left by a crash.
    pub clean: bool,
    /// How many records of the active segment were read, because no checkpoint covered them.
    pub records_scanned: u64,
    /// How many sealed segments' index blocks were read, because no checkpoint covered them.
    pub index_blocks_read: u64,
    /// The size in bytes of an incomplete write after the last whole batch, cut off by a crash and never acknowledged.
    pub torn_bytes: u64,
}

/// The size of a store and of its contents.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stat {
    /// The id of the store, given when it was made.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub store: Uuid,
    /// When it was made: milliseconds since 1970-01-01 UTC.
    pub created_ms: u64,
    /// How many segments it has, the active one included.
    pub segments: u64,
    /// How many streams it has, without those deleted.
    pub streams: u64,
    /// How many streams were deleted.
    pub streams_deleted: u64,
    /// The last position, which is also how many records were ever appended.
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub last_position: Position,
    /// The time of the last record: milliseconds since 1970-01-01 UTC; 0 when there is none.
    pub last_time_ms: u64,
    /// The size of the segment files in bytes, preallocated space included.
    pub segment_bytes: u64,
    /// How many of these bytes are used by records, their headers included, and index blocks.
    pub used_bytes: u64,
    /// Whether a process has the store open for writing. Where none has, nobody is at work on what is `running`: its process was
    /// killed. The next one that opens it for writing pauses runs; requests of chats stay `running` until they are gone on with, or
    /// dismissed. `None` where it can't be told: of files that were handed over one by one, as in a browser, where they can't be
    /// read, and on a file system without locks.
    pub has_writer: Option<bool>,
    /// Why readers in other processes don't see newer records: the error of writing the watermark file that they
    /// follow. The records are safe nevertheless. Always `None` for a reader.
    pub readers_behind: Option<String>,
}

/// What a verification found.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Verification {
    /// How many segments there are.
    pub segments: u64,
    /// How many records were read and found whole.
    pub records: u64,
    /// How many records are lost: they had a position, and can't be read.
    pub lost: u64,
    /// How many bytes were read.
    pub bytes: u64,
    /// Bytes after the last whole batch that a crash cut off, never acknowledged: no damage.
    pub torn_bytes: u64,
    /// Each problem, at most 1,000 of them.
    pub problems: Vec<Problem>,
    /// How many problems there are.
    pub problems_count: u64,
    /// Files that a repair neither makes again nor puts aside, because it would lose whole records: it changes nothing until
    /// they are restored from a copy, or moved elsewhere.
    pub to_restore: Vec<String>,
}

impl Verification {
    /// Whether nothing is damaged.
    pub fn is_sound(&self) -> bool {
        self.problems_count == 0
    }
}

/// Something that is not as it was written.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Problem {
    /// The file, by its name in the store's folder.
    pub file: String,
    /// Where in the file, in bytes from its beginning.
    pub offset: u64,
    /// What was expected and what was found, and which records are lost by it.
    pub message: String,
    /// Whether records are lost by it: only a copy of the store can restore them, a repair can't.
    pub is_loss: bool,
}

/// What a repair did.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Repair {
    /// The actions taken, one line each.
    pub actions: Vec<String>,
    /// The files that hold bytes removed from the log.
    pub saved: Vec<String>,
    /// The problems that remain: which records are lost.
    pub left: Vec<Problem>,
}

/// How to make a backup.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct BackupOptions {
    /// Whether all bytes of an earlier backup are compared with the store's, damaged files copied again, and the
    /// store's own bytes checked. Otherwise a segment's length, header and end are compared, and samples of its
    /// records; whatever is copied is checked in any case.
    pub verify: bool,
}

/// What a backup did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Backup {
    /// Segments that were copied.
    pub segments_copied: u64,
    /// Segments that the backup contained already, unchanged.
    pub segments_kept: u64,
    /// The bytes that were copied.
    pub bytes_copied: u64,
    /// The last position that the backup contains.
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub last_position: Position,
}
