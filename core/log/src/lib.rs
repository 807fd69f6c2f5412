//! The types of an event log, and the [`Backend`] trait of its storage.
//!
//! A log holds streams of records. A [`Batch`] of [`Op`]s is written atomically; reads return [`Record`]s, each with a
//! [`Sequence`] in its stream and a [`Position`] in the log. All other crates use these types and the one [`Error`], so
//! a backend depends on this crate only: it contains no files, threads or runtime.

mod backend;
mod batch;
pub mod calendar;
mod compaction;
pub mod crc;
mod error;
mod find;
mod future;
mod ids;
mod label;
pub mod limits;
mod maintenance;
pub mod order;

pub use backend::{Backend, Decorator, Page, Wait};
pub use batch::{
    Appended, Batch, Direction, Durability, Expected, Kind, NewRecord, Op, OpResult, ReadOptions,
    Record, Snapshot, StreamInfo, redacted_positions,
};
pub use compaction::{
    Codec, CompactOptions, CompactProgress, CompactScope, Compaction, OnCompactProgress,
};
pub use error::{Error, ErrorKind, Result};
pub use find::FindOptions;
pub use future::BackendFuture;
pub use ids::{Position, SegmentId, Sequence, StreamId};
pub use label::Label;
pub use maintenance::{
    Backup, BackupOptions, Maintenance, Problem, Recovery, Repair, Stat, Verification, if_supported,
};
