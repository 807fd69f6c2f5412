//! Streams of opaque records in a segmented, CRC-framed, append-only log.

mod batch;
mod bounded;
mod checksum;
mod error;
#[cfg(runlog_shuttle)]
pub mod faults;
mod format;
mod host;
mod ids;
mod index;
pub mod limits;
mod log;
pub mod storage;
mod store;
mod sync;

pub use batch::{
    Appended, Batch, Direction, Durability, Expected, Kind, NewRecord, Op, OpResult, ReadOptions, Record, Snapshot,
    StreamInfo,
};
pub use error::{Error, ErrorKind, Result};
pub use format::VERSION as FORMAT_VERSION;
pub use host::Host;
#[cfg(not(target_family = "wasm"))]
pub use host::SystemHost;
pub use ids::{Position, SegmentId, Sequence, StreamId};
pub use store::{
    Backup, BackupOptions, Commit, LogReader, Missing, Mode, OpenOptions, Preallocation, Problem, Reader, Recovery,
    Repair, Salvage, Salvaged, Stat, Store, Subscription, Verification, repair, salvage, verify, verify_with,
};
