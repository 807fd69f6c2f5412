//! [`Stat`]: the size of a store and of its contents.

use super::commit::shared::Shared;
use crate::{Position, Result, Stat};

pub(crate) fn stat(shared: &Shared) -> Result<Stat> {
    let durable = shared.durable();
    let (mut segment_bytes, mut used_bytes) = (0, 0);
    for segment in &durable.segments {
        let length = segment.stored_bytes()?;
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
        has_writer: shared.has_writer(),
        readers_behind: shared.watermark_failure().map(|error| error.to_string()),
    })
}
