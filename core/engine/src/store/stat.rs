//! [`Stat`]: how large a store is and what is in it.

use super::commit::shared::Shared;
use crate::{Position, Result};

/// How large a store is and what is in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stat {
    /// The id of the store, given when it was made.
    pub store: uuid::Uuid,
    /// When it was made: milliseconds since 1970-01-01 UTC.
    pub created_ms: u64,
    /// How many segments it has, the active one included.
    pub segments: u64,
    /// How many streams it has, without those deleted.
    pub streams: u64,
    /// How many streams were deleted.
    pub streams_deleted: u64,
    /// The last position, which is also how many records were ever appended.
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

pub(crate) fn stat(shared: &Shared) -> Result<Stat> {
    let durable = shared.durable();
    let (mut segment_bytes, mut used_bytes) = (0, 0);
    for segment in &durable.segments {
        let length = segment.file_bytes()?;
        segment_bytes += length;
        used_bytes += if segment.trailer().is_some() {
            length
        } else {
            durable.end
        };
    }
    let deleted = durable
        .directory
        .streams()
        .iter()
        .filter(|stream| stream.deleted)
        .count() as u64;
    Ok(Stat {
        store: uuid::Uuid::from_bytes(shared.identity.store),
        created_ms: shared.identity.created_ms,
        segments: durable.segments.len() as u64,
        streams: durable.directory.streams().len() as u64 - deleted,
        streams_deleted: deleted,
        last_position: Position(durable.next_position - 1),
        last_time_ms: durable.last_time_ms,
        segment_bytes,
        used_bytes,
        readers_behind: shared.watermark_failure().map(|error| error.to_string()),
    })
}
