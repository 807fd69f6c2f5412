//! [`Maintenance`]: what only some backends can do, and the reports that it gives.

use std::path::Path;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    Appended, BackendFuture, Batch, CompactOptions, Compaction, Error, ErrorKind,
    OnCompactProgress, Position, Record, Result, StreamInfo,
};

/// What a backend can do besides reading and writing streams: looking at the log as a whole, checking it, copying it.
/// Reached by [`Backend::maintenance`](crate::Backend::maintenance).
///
/// A backend overrides what it has. Every other call is refused with [`Unsupported`](ErrorKind::Unsupported), and the error
/// names the call; [`if_supported`] turns that into `None` for callers that can do without.
pub trait Maintenance: Send + Sync {
    /// The last durable position; [`Position::ZERO`] while there is no record.
    fn last_position(&self) -> BackendFuture<'_, Position> {
        unsupported("last_position")
    }

    /// The record at a position, engine records included. `None` past the end.
    fn record(&self, position: Position) -> BackendFuture<'_, Option<Record>> {
        let _ = position;
        unsupported("record")
    }

    /// The first position from `first` on whose record can be read: behind what is damaged, where that is so. `None` when none
    /// follows.
    fn next_readable(&self, first: Position) -> BackendFuture<'_, Option<Position>> {
        let _ = first;
        unsupported("next_readable")
    }

    /// Every stream that isn't deleted, in the order they were made.
    fn streams(&self) -> BackendFuture<'_, Vec<StreamInfo>> {
        unsupported("streams")
    }

    /// Queues a batch and returns at once, so that many share one flush. The future is ready once the batch is as
    /// durable as was asked; dropping it changes nothing, the batch is written all the same.
    ///
    /// # Errors
    /// As [`Backend::commit`](crate::Backend::commit), for what is known before anything is written.
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

    /// How large the log is and what is in it.
    fn stat(&self) -> BackendFuture<'_, Stat> {
        unsupported("stat")
    }

    /// Reads every byte of the log, also beside a writer, and compares what is derived from the records with them. Changes
    /// nothing. Damage is no error: it is in the [`Verification`].
    fn verify(&self) -> BackendFuture<'_, Verification> {
        unsupported("verify")
    }

    /// Copies the log to a folder while it is used: all that is acknowledged when it begins. What an earlier backup to the
    /// folder has is kept, so that the next one copies what is new. Durable when it is ready.
    fn backup<'a>(&'a self, folder: &'a Path, options: BackupOptions) -> BackendFuture<'a, Backup> {
        let _ = (folder, options);
        unsupported("backup")
    }

    /// Writes what is in use into packs, compressed, and gives the disk space of the rest back, while the log is used.
    /// `progress` is told how far it is, and says whether it goes on.
    fn compact<'a>(
        &'a self,
        options: CompactOptions,
        progress: &'a mut OnCompactProgress<'a>,
    ) -> BackendFuture<'a, Compaction> {
        let _ = (options, progress);
        unsupported("compact")
    }
}

/// The [`Maintenance`] of a backend that has none of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoMaintenance;

impl Maintenance for NoMaintenance {}

/// `None` where the backend has no such call.
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
        format!("the backend of this store has no call `{call}`"),
    )
}

fn unsupported<'a, T: Send + 'a>(call: &str) -> BackendFuture<'a, T> {
    Box::pin(std::future::ready(Err(refusal(call))))
}

/// What opening a log found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Recovery {
    /// Whether the store was closed, not left by a crash, or was just made.
    pub clean: bool,
    /// How many records of the active segment were read, because no checkpoint covered them.
    pub records_scanned: u64,
    /// How many sealed segments' index blocks were read, because no checkpoint covered them.
    pub index_blocks_read: u64,
    /// How many bytes after the last whole batch were a write that a crash cut off, never acknowledged.
    pub torn_bytes: u64,
}

/// How large a store is and what is in it.
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
    /// How many bytes the segment files take, the space made ahead of need included.
    pub segment_bytes: u64,
    /// How many of these are records, their headers included, and index blocks.
    pub used_bytes: u64,
    /// Why readers in other processes don't see newer records, when this writer can't write the file by which they follow.
    /// The records are safe all the same. Always `None` for a reader.
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
    /// Whether it tells of records that can't be read: only a copy brings them back, no repair does.
    pub is_loss: bool,
}

/// What a repair did.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Repair {
    /// What was done, a line each.
    pub actions: Vec<String>,
    /// The files in which bytes were saved that are no longer part of the log.
    pub saved: Vec<String>,
    /// What is still not as it was written: which records are lost.
    pub left: Vec<Problem>,
}

/// How to make a backup.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct BackupOptions {
    /// Compare all bytes that an earlier backup has with the store's, copy again what is damaged, and check the store's own
    /// too. Without it a segment's length, header and end are compared, and samples of its records; what is copied is
    /// checked in any case.
    pub verify: bool,
}

/// What a backup did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Backup {
    /// Segments that were copied.
    pub segments_copied: u64,
    /// Segments that the backup had already, as they are.
    pub segments_kept: u64,
    /// The bytes that were copied.
    pub bytes_copied: u64,
    /// The last position that the backup has.
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub last_position: Position,
}
