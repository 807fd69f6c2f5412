//! The state of the log at a place that another file names.

use crate::SegmentId;

/// A place of the log that another file names, and the state found there.
pub(crate) struct Stand {
    pub(crate) segment: SegmentId,
    pub(crate) offset: u64,
    pub(crate) seen: Option<Seen>,
}

/// The state of the log at a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    pub(crate) next_position: u64,
    /// Of the last record in the segment that has a position.
    pub(crate) last_record: Option<(u64, u32)>,
    pub(crate) epoch: u32,
    /// Whether something before it, in the same segment, is lost.
    pub(crate) is_behind_loss: bool,
}
