//! [`Slot`]: the place of one segment, and what can be used of the file there.

use std::sync::Arc;

use crate::{
    Result, SegmentId,
    format::{files::SegmentFile, index::Trailer, segment::Header},
    limits,
    log::segment::Segment,
    storage::{File, IoContext},
};

/// The place of one segment.
pub(crate) struct Slot {
    pub(crate) id: SegmentId,
    pub(crate) state: State,
}

impl Slot {
    /// The last segment that it is: of a pack, it stands for several.
    pub(super) fn last_id(&self) -> SegmentId {
        match &self.state {
            State::Usable(segment) => segment.last_id(),
            State::Lost(Some(unusable)) => unusable.file.last,
            _ => self.id,
        }
    }

    pub(super) fn file_bytes(&self) -> Result<u64> {
        let length = match &self.state {
            State::Usable(segment) => segment.file.len(),
            State::Headless { file, .. } => file.len(),
            State::Lost(_) => Ok(0),
        };
        let length = length.with_context(|| format!("measuring segment {}", self.id))?;
        Ok(length.min(limits::SEGMENT_BYTES_MAX))
    }

    /// The header, where it is there.
    pub(super) fn header(&self) -> Option<&Header> {
        match &self.state {
            State::Usable(segment) => Some(&segment.header),
            _ => None,
        }
    }
}

/// What is there.
pub(crate) enum State {
    /// A segment with a header.
    Usable(Arc<Segment>),
    /// Every copy of its header is lost; its records are there.
    Headless { file: Arc<dyn File>, seed: u32 },
    /// No usable segment; if a file exists, why it isn't usable.
    Lost(Option<Unusable>),
}

/// A file that is named like a segment and can't be used as that.
pub(crate) struct Unusable {
    pub(crate) file: SegmentFile,
    pub(crate) why: String,
    /// It is a pack without a readable index, and some of its blocks are whole: it isn't put aside.
    pub(crate) has_records: bool,
    /// It is another segment of the same store.
    pub(crate) is_segment: Option<SegmentId>,
    /// The position behind the highest that it is known to have.
    pub(crate) next_position: u64,
}

impl Unusable {
    pub(super) fn of(file: SegmentFile, why: String) -> Self {
        Self {
            file,
            why,
            has_records: false,
            is_segment: None,
            next_position: 0,
        }
    }

    /// A segment that is no part of the log here.
    fn stray(segment: &Segment, why: String) -> Self {
        let next_position = next_position(&segment.header, segment.trailer());
        Self {
            next_position,
            ..Self::of(segment.named(), why)
        }
    }
}

pub(super) fn next_position(header: &Header, trailer: Option<&Trailer>) -> u64 {
    trailer.map_or(header.base_position, |trailer| {
        trailer.next_position.max(header.base_position)
    })
}

impl State {
    pub(super) fn next_position(&self) -> u64 {
        match self {
            Self::Usable(segment) => next_position(&segment.header, segment.trailer()),
            Self::Lost(Some(unusable)) => unusable.next_position,
            Self::Headless { .. } | Self::Lost(None) => 0,
        }
    }

    /// The same, as what can't be used.
    pub(super) fn stray(&self, id: SegmentId, why: String) -> Unusable {
        match self {
            Self::Usable(segment) => Unusable::stray(segment, why),
            _ => Unusable::of(SegmentFile::of_log(id), why),
        }
    }
}
