//! The words of an event log, and the [`Backend`] that keeps one.
//!
//! A log holds streams of records. A [`Batch`] of [`Op`]s is written whole or not at all; what is read are [`Record`]s, each
//! with a [`Sequence`] in its stream and a [`Position`] in the log. Every crate above and below speaks in these types and in
//! the one [`Error`], so that a backend depends on nothing else: no file, no thread and no runtime are in here.

mod backend;
mod batch;
pub mod calendar;
mod compaction;
mod error;
mod find;
mod future;
mod ids;
mod label;
pub mod limits;
mod maintenance;

pub use backend::{Backend, Decorator, Page, Wait};
pub use batch::{
    Appended, Batch, Direction, Durability, Expected, Kind, NewRecord, Op, OpResult, ReadOptions,
    Record, Snapshot, StreamInfo,
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
