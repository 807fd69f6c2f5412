//! The chain of segments: that each follows the one before, and what tells whether one is sealed.

use crate::sync::Arc;

use crate::{
    Error, ErrorKind, Result, SegmentId,
    format::files,
    log::segment::Segment,
    storage::{Access, Storage},
};

/// The segments whose files are there, in order.
pub(crate) fn segment_ids(storage: &dyn Storage) -> Result<Vec<SegmentId>> {
    let names = storage
        .list()
        .map_err(|error| Error::from_io(error, format!("listing {}", storage.describe())))?;
    let mut ids: Vec<_> = names
        .iter()
        .filter_map(|name| files::segment_of_name(name))
        .collect();
    ids.sort_unstable();
    Ok(ids)
}

/// Opens every segment up to `last`, and checks that each follows the one before. Those behind `last` must follow too: they
/// may be a writer's newest, but no others.
pub(crate) fn open_segments(
    storage: &dyn Storage,
    store: &[u8; 16],
    access: Access,
    last: Option<SegmentId>,
) -> Result<Vec<Arc<Segment>>> {
    let mut ids = segment_ids(storage)?;
    let mut segments: Vec<Arc<Segment>> = Vec::with_capacity(ids.len());
    loop {
        for id in ids.iter().skip(segments.len()) {
            let expected = next_id(&segments);
            if *id != expected {
                return Err(missing(storage, expected));
            }
            // Only the last is appended to; who seals one opens it anew.
            let access = if Some(id) == ids.last() {
                access
            } else {
                Access::Read
            };
            let segment = Segment::open(storage, *id, access, store)?;
            match segments.last() {
                Some(before) => follows(before, &segment)?,
                None if segment.header.predecessor_end == 0 => {}
                None => {
                    return Err(
                        segment.damaged(0, "the first segment's header names one before it")
                    );
                }
            }
            segments.push(Arc::new(segment));
        }
        // A segment is sealed only once the next has its name. A writer may have named and sealed since the folder was
        // listed; then the next is there now.
        if segments
            .last()
            .is_none_or(|segment| segment.trailer().is_none())
        {
            break;
        }
        ids = segment_ids(storage)?;
        if ids.len() <= segments.len() {
            return Err(missing_last(storage, next_id(&segments)));
        }
    }
    if let Some(last) = last {
        if segments.last().is_none_or(|found| found.id() < last) {
            return Err(missing_last(storage, last));
        }
        segments.retain(|segment| segment.id() <= last);
    }
    Ok(segments)
}

fn next_id(segments: &[Arc<Segment>]) -> SegmentId {
    SegmentId(
        segments
            .last()
            .map_or(1, |segment| segment.id().0.saturating_add(1)),
    )
}

fn missing(storage: &dyn Storage, id: SegmentId) -> Error {
    let message = format!(
        "{}: {} is missing; {MENDABLE}",
        storage.describe(),
        files::segment_name(id)
    );
    Error::new(ErrorKind::Damaged, message)
}

fn missing_last(storage: &dyn Storage, id: SegmentId) -> Error {
    let (place, name) = (storage.describe(), files::segment_name(id));
    Error::new(
        ErrorKind::Damaged,
        format!("{place}: {name} is missing, the last of the log; {MENDABLE}"),
    )
}

const MENDABLE: &str = "restore it, or `runlog verify --repair` goes on with what is there";

fn follows(before: &Segment, segment: &Segment) -> Result<()> {
    let header = &segment.header;
    let next_position = before.trailer().map(|trailer| trailer.next_position);
    let end = before.trailer().map(|trailer| trailer.data_end);
    // An older copy of the file, from a backup, has another index block. So has one that a repair made again.
    let index_crc = before
        .trailer()
        .filter(|trailer| !trailer.repaired)
        .map(|trailer| trailer.index_crc);
    if header.predecessor_salt != before.header.salt
        || next_position.is_some_and(|position| position > header.base_position)
        || end.is_some_and(|end| end != header.predecessor_end)
        || index_crc.is_some_and(|crc| crc != header.predecessor_index_crc)
        || header.base_position < before.header.base_position
    {
        let message = format!(
            "it does not follow {}: it expects an end at {}, a next position of at most {} and an index with CRC {:08x}, \
             found {end:?}, {next_position:?} and {index_crc:08x?}",
            before.name, header.predecessor_end, header.base_position, header.predecessor_index_crc
        );
        return Err(segment.damaged(0, message));
    }
    Ok(())
}

pub(crate) fn no_index(segment: &Segment) -> Error {
    Error::new(
        ErrorKind::Damaged,
        format!(
            "{}: its index block, which was durable, is missing; `runlog verify --repair` makes it again from the records",
            segment.name
        ),
    )
}

/// Whether a segment's index block is missing or doesn't check.
pub(crate) fn has_no_index(segment: &Segment) -> Result<bool> {
    match segment.block() {
        Ok(block) => Ok(block.is_none()),
        Err(error) if error.kind() == ErrorKind::Damaged => Ok(true),
        Err(error) => Err(error),
    }
}

/// Whether nothing proves that the seal of the segment before `next` was durable. Only a record there does.
pub(crate) fn is_seal_unproven(next: &Segment) -> Result<bool> {
    Ok(next.trailer().is_none() && !next.has_record()?)
}

/// Whether a crash kept the index block of a segment from being written whole. Else one that is missing or
/// doesn't check is damage.
pub(crate) fn is_half_written(segment: &Segment, next: &Segment) -> Result<bool> {
    Ok(has_no_index(segment)? && is_seal_unproven(next)?)
}
