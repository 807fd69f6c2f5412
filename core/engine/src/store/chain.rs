//! The chain of segments: that each follows the one before, and what tells whether one is sealed.

use crate::sync::Arc;

use crate::{
    Error, ErrorKind, Result, SegmentId,
    format::files,
    log::segment::Segment,
    storage::{Access, Storage},
};

/// Opens every segment up to `last`, and checks that each follows the one before.
pub(crate) fn open_segments(
    storage: &dyn Storage,
    store: &[u8; 16],
    access: Access,
    last: Option<SegmentId>,
) -> Result<Vec<Arc<Segment>>> {
    let names = storage.list().map_err(|error| Error::from_io(error, format!("listing {}", storage.describe())))?;
    let mut ids: Vec<_> = names.iter().filter_map(|name| files::segment_of_name(name)).collect();
    ids.sort_unstable();
    let beyond = ids.iter().copied().find(|id| last.is_some_and(|last| *id > last));
    ids.retain(|id| last.is_none_or(|last| *id <= last));
    let mut segments: Vec<Arc<Segment>> = Vec::with_capacity(ids.len());
    for (index, id) in ids.iter().enumerate() {
        let expected = SegmentId(u32::try_from(index + 1).expect("segment ids have 32 bits"));
        if *id != expected {
            return Err(Error::new(
                ErrorKind::Damaged,
                format!("{}: {} is missing", storage.describe(), files::segment_name(expected)),
            ));
        }
        // Only the last is appended to; who seals one opens it anew.
        let access = if index + 1 == ids.len() { access } else { Access::Read };
        let segment = Segment::open(storage, *id, access, store)?;
        if let Some(before) = segments.last() {
            follows(before, &segment)?;
        } else if segment.header.base_position != 1 || segment.header.predecessor_end != 0 {
            return Err(segment.damaged(0, "the first segment's header names one before it"));
        }
        segments.push(Arc::new(segment));
    }
    // A segment is sealed only once the next is there.
    let found = segments.last().map(|segment| segment.id());
    let missing = match segments.last() {
        Some(segment) if segment.trailer().is_some() && beyond.is_none() => Some(SegmentId(segment.id().0 + 1)),
        _ => last.filter(|last| found.is_none_or(|found| found < *last)),
    };
    match missing {
        Some(id) => Err(Error::new(
            ErrorKind::Damaged,
            format!("{}: {} is missing, the last of the log", storage.describe(), files::segment_name(id)),
        )),
        None => Ok(segments),
    }
}

fn follows(before: &Segment, segment: &Segment) -> Result<()> {
    let header = &segment.header;
    let next_position = before.trailer().map(|trailer| trailer.base_position + u64::from(trailer.records));
    let end = before.trailer().map(|trailer| trailer.data_end);
    if header.predecessor_salt != before.header.salt
        || next_position.is_some_and(|position| position != header.base_position)
        || end.is_some_and(|end| end != header.predecessor_end)
        || header.base_position < before.header.base_position
    {
        let message = format!(
            "it does not follow {}: it expects an end at {} and base position {}, found {:?} and {:?}",
            before.name, header.predecessor_end, header.base_position, end, next_position
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
