//! The checkpoint, as opening reads it, holds it against the segments, and goes on from it.

use std::sync::Arc;

use super::Loader;
use crate::{
    Error, ErrorKind, Result, SegmentId,
    format::{
        files::{self, Watermark},
        index::{Block, TRAILER_BYTES, Trailer},
    },
    index::{
        checkpoint::{self, Checkpoint},
        directory::Run,
        memory::MemoryIndex,
    },
    limits,
    log::segment::Segment,
    storage::{Access, Storage},
};

pub(crate) fn read_checkpoint(storage: &dyn Storage) -> Result<Option<Checkpoint>> {
    let failed = |error| {
        Error::from_io(
            error,
            format!("{}: reading {}", storage.describe(), files::CHECKPOINT),
        )
    };
    let file = match storage.open(files::CHECKPOINT, Access::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let length = file.len().map_err(failed)?;
    let mut header = [0; checkpoint::HEADER_BYTES];
    if length > limits::CHECKPOINT_BYTES_MAX || length < header.len() as u64 {
        return Ok(None);
    }
    // Its header first: what is no checkpoint is not read into memory.
    file.read_at(0, &mut header).map_err(failed)?;
    if checkpoint::announced_bytes(&header) != Some(length) {
        return Ok(None);
    }
    let mut bytes = vec![0; usize::try_from(length).expect("the length is limited")];
    match file.read_at(0, &mut bytes) {
        Ok(()) => Ok(checkpoint::decode(&bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

/// Whether a reader that may go up to `limit` may use a checkpoint made at `end`.
pub(super) fn covers(limit: &Watermark, end: &checkpoint::End) -> bool {
    (end.segment, end.offset) <= (limit.segment.0, limit.offset)
}

/// What a checkpoint covers was durable: it must be there.
pub(super) fn check_reached(segments: &[Arc<Segment>], found: &Checkpoint) -> Result<()> {
    let id = SegmentId(found.end.segment);
    let segment = segments
        .iter()
        .find(|segment| segment.id() == id && segment.header.salt == found.end.salt);
    let Some(segment) = segment else {
        return Err(Error::new(
            ErrorKind::Damaged,
            format!(
                "{} is missing: the checkpoint says the log reached it",
                files::segment_name(id)
            ),
        ));
    };
    let length = segment
        .file
        .len()
        .map_err(|error| Error::from_io(error, format!("measuring {}", segment.name)))?;
    if length < found.end.offset {
        let message = format!(
            "the file ends here, but the checkpoint says it was durable up to {}",
            found.end.offset
        );
        return Err(segment.damaged(length, message));
    }
    Ok(())
}

impl Loader {
    /// Takes over a checkpoint: the place in `segments` of the one to go on with, and the offset. `None` when
    /// it can't be used.
    pub(super) fn resume(
        &mut self,
        found: Checkpoint,
        segments: &[Arc<Segment>],
    ) -> Option<(usize, u64)> {
        let first = segments
            .iter()
            .position(|segment| segment.id().0 == found.end.segment)?;
        let segment = &segments[first];
        let (block, trailer) = found.active_index.split_last_chunk::<TRAILER_BYTES>()?;
        let length = found.end.offset + found.active_index.len() as u64;
        let trailer = Trailer::decode(trailer, &segment.header, length).ok()??;
        let block = Block::check(
            bytes::Bytes::copy_from_slice(block),
            trailer,
            segment.seed,
            files::CHECKPOINT,
        )
        .ok()?;
        let times =
            (found.end.records > 0).then_some((found.end.time_first_ms, found.end.time_last_ms));
        let known = |id: SegmentId| segments[..=first].iter().any(|segment| segment.id() == id);
        let sound = found
            .directory
            .streams()
            .iter()
            .flat_map(|stream| &stream.runs)
            .all(|run| known(run.segment));
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
        let counted = trailer.records == found.end.records
            && trailer.next_position == found.end.next_position;
        if !sound || !agrees || !counted {
            return None;
        }
        self.durable.directory = found.directory;
        self.durable.active_index =
            MemoryIndex::from_parts(block.parts(), found.end.records, times);
        self.durable.end = found.end.offset;
        self.durable.next_position = found.end.next_position;
        self.durable.last_time_ms = found.end.time_last_ms;
        Some((first, found.end.offset))
    }
}
