//! Resuming from a checkpoint: whether it matches the segments, and from which place the log is read.

use crate::{
    Error, Result, SegmentId,
    format::files::{self, Watermark},
    index::{
        checkpoint::{self, Checkpoint},
        memory::MemoryIndex,
        stream::Run,
    },
    limits,
    log::segment::Segment,
    store::published::durable::Durable,
    sync::Arc,
};

/// Whether a reader limited to `limit` may use a checkpoint made at `end`.
pub(super) fn covers(limit: &Watermark, end: &checkpoint::End) -> bool {
    (end.segment, end.offset) <= (limit.segment.0, limit.offset)
}

/// Checks that the log reaches the checkpoint's end. Everything before it was durable, so a shorter log is damaged.
pub(super) fn check_reached(segments: &[Arc<Segment>], found: &Checkpoint) -> Result<()> {
    let id = SegmentId(found.end.segment);
    let is_packed = |segment: &&Arc<Segment>| {
        segment.is_pack() && (segment.id()..=segment.last_id()).contains(&id)
    };
    if let Some(pack) = segments.iter().find(is_packed) {
        let reached = pack.trailer().map_or(0, |trailer| trailer.next_position);
        return if reached < found.end.next_position {
            let message = format!(
                "it ends before position {reached}, but the checkpoint says the log had come to {}",
                found.end.next_position
            );
            Err(pack.damaged(0, message))
        } else {
            Ok(())
        };
    }
    let segment = segments
        .iter()
        .find(|segment| segment.id() == id && segment.header.salt == found.end.salt);
    let Some(segment) = segment else {
        return Err(Error::damaged(format!(
            "{} is missing: the checkpoint says the log reached it",
            files::segment_name(id)
        )));
    };
    let length = segment.file_bytes()?;
    if length < found.end.offset {
        let message = format!(
            "the file ends here, but the checkpoint says it was durable up to {}",
            found.end.offset
        );
        return Err(segment.damaged(length, message));
    }
    Ok(())
}

/// Resumes from a checkpoint: the place in `segments` and the offset at which to continue reading. `None` if it can't
/// be used.
pub(super) fn resume(
    durable: &mut Durable,
    found: Checkpoint,
    segments: &[Arc<Segment>],
) -> Option<(usize, u64)> {
    let first = segments
        .iter()
        .position(|segment| !segment.is_pack() && segment.id().0 == found.end.segment)?;
    let segment = &segments[first];
    let block = found.active_block(&segment.header)?;
    let trailer = block.trailer();
    let times =
        (found.end.records > 0).then_some((found.end.time_first_ms, found.end.time_last_ms));
    let agrees = block.stream_rows().all(|row| {
        let stream = found.directory.stream(row.stream);
        let last = row.first_ordinal.checked_add(row.count).map(|end| end - 1);
        stream.is_some_and(|stream| {
            Some(stream.ordinals) == last
                && stream.runs.last()
                    == Some(&Run {
                        segment: segment.id(),
                        first_ordinal: row.first_ordinal,
                    })
        })
    });
    let counted =
        trailer.records == found.end.records && trailer.next_position == found.end.next_position;
    // Later records have no earlier time, and none may have one above the limit.
    let is_in_time = found.end.time_last_ms <= limits::TIME_MS_MAX;
    if !agrees || !counted || !is_in_time {
        return None;
    }
    durable.directory = found.directory;
    durable.active_index = MemoryIndex::from_parts(block.parts(), found.end.records, times);
    durable.end = found.end.offset;
    durable.next_position = found.end.next_position;
    durable.last_time_ms = found.end.time_last_ms;
    Some((first, found.end.offset))
}
