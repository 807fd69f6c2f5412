//! Streams of opaque records in a segmented, CRC-framed, append-only log.

mod bounded;
mod checksum;
mod embedded;
#[cfg(runlog_shuttle)]
pub mod faults;
mod format;
mod host;
mod index;
pub mod limits;
mod log;
pub mod storage;
mod store;
mod sync;

pub use embedded::{Embedded, Wait};
pub use format::VERSION as FORMAT_VERSION;
pub use host::Host;
#[cfg(not(target_family = "wasm"))]
pub use host::SystemHost;
pub use runlog_log::{
    Appended, Batch, Direction, Durability, Error, ErrorKind, Expected, Kind, NewRecord, Op,
    OpResult, Position, ReadOptions, Record, Result, SegmentId, Sequence, Snapshot, StreamId,
    StreamInfo,
};
pub use store::{
    Backup, BackupOptions, Commit, LogReader, Missing, Mode, OpenOptions, Preallocation, Problem,
    Reader, Recovery, Repair, Salvage, Salvaged, Stat, Store, Subscription, Verification, repair,
    salvage, verify, verify_with,
};
