//! [`Located`]: where records are that are read next, and what their segment gives them from.

use std::sync::Arc;

use bytes::Bytes;

use crate::{StreamId, format::record, log::segment::Segment, storage::Map};

/// Where a record is.
pub(super) struct Located {
    pub(super) segment: Arc<Segment>,
    pub(super) end: u64,
    pub(super) offset: u64,
    pub(super) source: u32,
    pub(super) ordinal: u32,
    /// The stream with that number.
    pub(super) stream: StreamId,
    pub(super) sequence: u32,
}

impl Located {
    /// Whether a header is that of the record that should be there.
    pub(super) fn is_it(&self, header: &record::Header) -> bool {
        (header.stream, header.sequence) == (self.source, self.sequence)
    }
}

/// A segment, and its map if it has one.
pub(super) struct Mapped {
    pub(super) segment: Arc<Segment>,
    pub(super) map: Option<Arc<dyn Map>>,
}

/// What was read at once for several records of a segment that isn't mapped.
pub(super) struct Together {
    pub(super) segment: Arc<Segment>,
    pub(super) start: u64,
    pub(super) bytes: Bytes,
}

impl Together {
    /// Where a record is in the bytes, when its header is among them.
    pub(super) fn place(&self, located: &Located) -> Option<usize> {
        let at = usize::try_from(located.offset.checked_sub(self.start)?).ok()?;
        let is_there = Arc::ptr_eq(&self.segment, &located.segment)
            && at + record::HEADER_BYTES <= self.bytes.len();
        is_there.then_some(at)
    }
}
