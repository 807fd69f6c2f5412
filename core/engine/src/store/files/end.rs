//! The end marker: reading it, and checking the log against it.

use super::small;
use crate::{
    Error, ErrorKind, Result,
    format::{
        files::{self, End, Watermark},
        segment::DATA_START,
    },
    log::segment::Segment,
    storage::Storage,
    sync::Arc,
};

impl End {
    /// Whether a reader limited to `limit` has to find the records that the marker names.
    pub(crate) fn is_within(&self, limit: &Watermark) -> bool {
        (self.segment, self.offset) <= (limit.segment, limit.offset)
    }
}

/// The end marker of a store. `None` if there is none or its CRC is wrong: it then proves nothing, and the next close
/// replaces it.
pub(crate) fn read(storage: &dyn Storage, store: &[u8; 16]) -> Result<Option<End>> {
    match read_damaged(storage) {
        Ok(end) => Ok(end.filter(|end| end.store == *store)),
        Err(error) if error.kind() == ErrorKind::Damaged => Ok(None),
        Err(error) => Err(error),
    }
}

/// As [`read`](Self::read), but a wrong CRC is an error.
pub(crate) fn read_damaged(storage: &dyn Storage) -> Result<Option<End>> {
    let bytes = small::read(storage, files::END, |file| {
        small::start(file, 2 * files::END_BYTES)
    })?;
    let end = bytes.map(|bytes| End::decode(&bytes, &storage.describe()));
    end.transpose()
}

/// Checks that the log reaches the end marker. Everything before it was durable, so a shorter log is damaged.
pub(crate) fn check(segments: &[Arc<Segment>], end: &End) -> Result<()> {
    let name = files::segment_name(end.segment);
    let has = |segment: &&Arc<Segment>| (segment.id()..=segment.last_id()).contains(&end.segment);
    let found = segments.iter().find(has);
    // A pack has replaced the segment: the compaction has read it whole.
    if let Some(pack) = found.filter(|segment| segment.is_pack()) {
        let reached = pack.trailer().map_or(0, |trailer| trailer.next_position);
        return if reached < end.next_position {
            let message = format!(
                "it ends before position {reached}, but {} when the store was closed",
                end.next_position
            );
            Err(pack.damaged(0, message))
        } else {
            Ok(())
        };
    }
    let Some(segment) = found else {
        let message =
            format!("{name} is missing: the store was closed when the log had reached it");
        return Err(Error::damaged(message));
    };
    if segment.header.salt != end.salt {
        return Err(segment.damaged(0, "another segment stood here when the store was closed"));
    }
    let length = match segment.trailer() {
        Some(trailer) => trailer.data_end,
        None => segment.file_bytes()?,
    };
    if length < end.offset || end.offset < DATA_START {
        let message = format!(
            "it ends here, but reached {} when the store was closed",
            end.offset
        );
        return Err(segment.damaged(length, message));
    }
    let Some((offset, crc)) = end.last_record else {
        return Ok(());
    };
    let frame =
        segment.frame(offset, end.offset).map_err(|error| {
            match error.kind() {
        ErrorKind::Damaged => segment.damaged(
            offset,
            format!(
                "the last record when the store was closed, with position {}, is damaged: {error}",
                end.next_position - 1
            ),
        ),
        _ => error,
    }
        })?;
    let found = frame.header.crc_field(segment.seed, offset);
    if found != crc {
        let message = format!(
            "the last record when the store was closed had the CRC {crc:08x}, found {found:08x}"
        );
        return Err(segment.damaged(offset, message));
    }
    Ok(())
}
