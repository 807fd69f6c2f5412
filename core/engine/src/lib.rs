//! Streams of opaque records in a segmented, CRC-framed, append-only log.

mod batch;
mod error;
mod ids;
pub mod limits;

pub use batch::{
    Appended, Batch, Direction, Durability, Expected, Kind, NewRecord, Op, OpResult, ReadOptions, Record, Snapshot,
    StreamInfo,
};
pub use error::{Error, ErrorKind, Result};
pub use ids::{Position, SegmentId, Sequence, StreamId};
