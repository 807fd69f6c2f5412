//! Streams of opaque records in a segmented, CRC-framed, append-only log.

mod bounded;
mod checksum;
mod embedded;
#[cfg(runlog_shuttle)]
pub mod faults;
mod format;
mod host;
mod index;
mod large;
pub mod limits;
mod log;
#[cfg(target_os = "linux")]
mod process;
pub mod storage;
mod store;
mod sync;

/// Empties the caches that the stores of this process share. Whatever was in them is read again when it is needed, so this
/// changes no result: tests of readings whose files were removed need it.
#[doc(hidden)]
pub fn clear_caches() {
    log::clear_caches();
}

pub use embedded::Embedded;
pub use format::VERSION as FORMAT_VERSION;
pub use host::Host;
#[cfg(not(target_family = "wasm"))]
pub use host::SystemHost;
pub use runlog_log::{
    Appended, Backup, BackupOptions, Batch, Codec, CompactOptions, CompactProgress, CompactScope,
    Compaction, Direction, Durability, Error, ErrorKind, Expected, FindOptions, Kind, Label,
    NewRecord, OnCompactProgress, Op, OpResult, Position, Problem, ReadOptions, Record, Recovery,
    Repair, Result, SegmentId, Sequence, Snapshot, Stat, StreamId, StreamInfo, Verification, Wait,
};
pub use store::{
    Commit, Finder, LogReader, Missing, Mode, OpenOptions, Preallocation, Reader, RecordRef,
    Salvage, Salvaged, Store, Subscription, repair, salvage, verify, verify_with,
};
