//! [`Examiner`]: the state of examining one store, and [`Part`]: what it says of one segment.

use super::{seed, sources::Sources, walker::Walker};
use crate::{
    SegmentId,
    format::{Features, WRITER_VERSION, segment::Header},
    index::checkpoint::Checkpoint,
    log::segment::Segment,
    sync::Arc,
};

/// One segment, and what has to be done to it.
pub(crate) struct Part {
    pub(crate) header: Header,
    /// Whether there was no header, so that this one was made.
    pub(crate) is_header_made: bool,
    /// `None` when its file is missing, or can't be used.
    pub(crate) segment: Option<Arc<Segment>>,
    pub(crate) data_end: u64,
    pub(crate) next_position: u64,
    /// The CRC of its index block as it stays.
    pub(crate) index_crc: Option<u32>,
    /// Its index block is to be made again: its draft is kept.
    pub(crate) needs_index: bool,
    /// Whether something in it is, or was, lost.
    pub(crate) has_losses: bool,
    /// Where copies of its header are to be written again.
    pub(crate) wrong_copies: Vec<usize>,
    /// The copies of a pack's dictionary that are damaged while another is whole.
    pub(crate) wrong_dictionaries: Vec<usize>,
    /// The file is longer than a segment can be; it is to be so long.
    pub(crate) shorten_to: Option<u64>,
}

/// Which of the small files say what isn't so.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Wrong {
    pub(crate) end: bool,
    pub(crate) checkpoint: bool,
    pub(crate) watermark: bool,
}

pub(super) struct Examiner<'a> {
    pub(super) walker: Walker,
    pub(super) parts: Vec<Part>,
    /// Where the records of the last segment end, when the store opens.
    pub(super) end: Option<u64>,
    /// The furthest place that the small files say was reached, and which of them does.
    pub(super) reached: Option<((SegmentId, u64), &'static str)>,
    /// The position after the highest that they say was given.
    pub(super) given: u64,
    pub(super) saved: Option<Checkpoint>,
    pub(super) sources: &'a Sources,
    pub(super) next_segment: Option<u64>,
}

impl Examiner<'_> {
    /// A header for a segment that has none: what its neighbours and the log before it give.
    pub(super) fn missing_header(&self, id: SegmentId, salt: u32, seed: u32) -> Header {
        let identity = &self.sources.identity;
        let before = self.parts.last();
        Header {
            store: identity.store,
            segment: id,
            salt,
            uuid: seed::uuid_for(&identity.store, salt, seed),
            base_position: self.walker.durable.next_position,
            base_time_ms: self
                .walker
                .durable
                .last_time_ms
                .max(before.map_or(0, |part| part.header.base_time_ms)),
            predecessor_end: before.map_or(0, |part| part.data_end),
            predecessor_salt: before.map_or(0, |part| part.header.salt),
            predecessor_index_crc: before.and_then(|part| part.index_crc).unwrap_or(0),
            next_stream: self.walker.durable.directory.next_number(),
            features: Features {
                incompatible: 0,
                read_only_compatible: 0,
                compatible: 0,
            },
            epoch: self.walker.durable.epoch.max(1),
            writer_version: WRITER_VERSION,
            hash_key: identity.hash_key,
            compacted: None,
        }
    }
}
