//! [`Writer`]: the state of the one writer: everything that is staged or written and not yet published.

use std::collections::{HashMap, HashSet};

use super::{
    due::Due,
    heads::{Head, Heads},
    open_group::OpenGroup,
    phase::Phase,
    prepare::Prepared,
};
use crate::{
    OpResult, Position, StreamId,
    format::{index, record},
    limits,
    log::segment::Segment,
    store::published::durable::Durable,
    sync::Arc,
};

/// A buffer larger than this is not kept for the next group.
const SPARE_BYTES_MAX: usize = 16 << 20;

/// The bytes of a mark.
pub(crate) const MARK_BYTES: u64 = record::frame_bytes(8) as u64;

/// The state that only the writer has: everything staged but not published.
pub(crate) struct Writer {
    pub(crate) active: Arc<Segment>,
    /// Where the staged records of the active segment end.
    pub(crate) end: u64,
    /// The offset up to which bytes were written to the operating system.
    pub(crate) written_end: u64,
    /// The offset up to which bytes are known durable.
    pub(crate) synced_end: u64,
    /// The end of the bytes found after a crash that aren't proven durable. They begin at `synced_end`, and are made
    /// durable before the first append.
    pub(crate) unproven_end: Option<u64>,
    /// The offset up to which the active segment may be filled.
    pub(crate) capacity: u64,
    /// The size of the active segment's index block if all that is staged were in it.
    pub(crate) index_bytes: u64,
    /// The position that the next staged record gets.
    pub(crate) next_position: u64,
    /// The time of the last staged record, or the active segment's base time if it has none.
    pub(crate) last_time_ms: u64,
    /// The epoch for the mark of this writer, until the mark is staged: before the first batch.
    pub(crate) mark: Option<u32>,
    /// The epoch of a mark that is staged and not yet published: if it is refused, it is staged again.
    pub(super) staged_mark: Option<u32>,
    pub(crate) heads: Heads,
    pub(crate) new_ids: HashMap<StreamId, u32>,
    /// Keys that are staged but not published: their streams and hashes.
    pub(crate) new_keys: HashSet<(u32, u64)>,
    pub(crate) open: Option<OpenGroup>,
    /// The writer's activity and lifecycle.
    pub(crate) phase: Phase,
    /// Whether a flush of the next group was requested, together with everything written before.
    pub(crate) sync_asked: bool,
    /// The deadline for flushing written bytes, if a batch sets one.
    pub(crate) due: Option<Due>,
    /// How many threads wrote at the same time, as the last write saw it.
    pub(crate) threads_seen: u32,
    pub(crate) spare_buffer: Vec<u8>,
    /// The old heads that the batch being staged has changed. Kept between batches to reuse its memory.
    pub(crate) changed: Vec<(u32, Head)>,
    /// Whether the active segment's file may be extended: it was truncated at the last close, or the device had no
    /// space for more.
    pub(crate) extendable: bool,
    /// Whether the maintenance thread was requested to preallocate the next segment.
    pub(crate) spare_asked: bool,
    /// The end of the active segment when a checkpoint was last requested; its start if that was in an earlier segment.
    pub(crate) checkpoint_asked: u64,
    /// How many bytes were written in earlier segments since that request.
    pub(crate) unsaved_before: u64,
    /// The offset up to which writeback of the active segment was last started.
    pub(crate) writeback_asked: u64,
}

/// The result of staging a batch.
pub(crate) struct Staged {
    /// Whether the batch has no record.
    pub(crate) is_empty: bool,
    pub(crate) last_position: Position,
    pub(crate) ops: Vec<OpResult>,
}

impl Writer {
    pub(crate) fn new(
        durable: &Durable,
        active: Arc<Segment>,
        synced_end: u64,
        capacity: u64,
    ) -> Self {
        let last_time_ms = durable.last_time_ms.max(active.header.base_time_ms);
        Self {
            active,
            end: durable.end,
            written_end: durable.end,
            synced_end,
            unproven_end: (synced_end < durable.end).then_some(durable.end),
            capacity,
            index_bytes: durable.active_index.encoded_bytes(),
            next_position: durable.next_position,
            last_time_ms,
            mark: None,
            staged_mark: None,
            heads: Heads::new(durable),
            new_ids: HashMap::new(),
            new_keys: HashSet::new(),
            open: None,
            phase: Phase::default(),
            sync_asked: false,
            due: None,
            threads_seen: 0,
            spare_buffer: Vec::new(),
            changed: Vec::new(),
            extendable: true,
            spare_asked: false,
            checkpoint_asked: durable.end,
            unsaved_before: 0,
            writeback_asked: synced_end,
        }
    }

    /// Switches to a new active segment.
    pub(crate) fn switch_to(&mut self, active: Arc<Segment>, capacity: u64) {
        let start = crate::format::segment::DATA_START;
        self.unsaved_before += self.end.saturating_sub(self.checkpoint_asked);
        self.last_time_ms = self.last_time_ms.max(active.header.base_time_ms);
        self.active = active;
        (self.end, self.written_end, self.synced_end) = (start, start, start);
        self.capacity = capacity;
        self.extendable = false;
        self.due = None;
        self.spare_asked = false;
        self.checkpoint_asked = start;
        self.writeback_asked = start;
        self.index_bytes = index::Counts::default().block_bytes_max();
    }

    /// Whether a checkpoint is due, one every `step` bytes, with the active segment at `end`; if so, counts it as
    /// requested.
    pub(crate) fn ask_for_checkpoint(&mut self, end: u64, step: u64) -> bool {
        let is_due = self.unsaved_before + end.saturating_sub(self.checkpoint_asked) >= step;
        if is_due {
            (self.unsaved_before, self.checkpoint_asked) = (0, end);
        }
        is_due
    }

    /// Whether `step` bytes were written since the last flush or writeback; if so, counts their writeback as started.
    pub(crate) fn ask_for_writeback(&mut self, step: u64) -> bool {
        let handed = self.writeback_asked.max(self.synced_end);
        let is_due = self.written_end.saturating_sub(handed) >= step;
        if is_due {
            self.writeback_asked = self.written_end;
        }
        is_due
    }

    /// Whether a prepared batch fits into the active segment, index block included.
    pub(crate) fn has_room(&self, prepared: &Prepared) -> bool {
        let used = self.end
            + MARK_BYTES
            + self.index_bytes
            + prepared.bytes_max
            + prepared.index_bytes_max;
        used <= self.capacity
    }

    /// Whether a time can be stored in the active segment: up to 49 days from its base time on.
    pub(crate) fn time_fits(&self, now_ms: u64) -> bool {
        u32::try_from(self.time_ms(now_ms) - self.active.header.base_time_ms).is_ok()
    }

    /// The time of a record staged now: never before the previous record's, even if the clock was set back. Nor after the
    /// last that a segment can begin at, whatever the clock says: no new segment would ever fit it.
    pub(super) fn time_ms(&self, now_ms: u64) -> u64 {
        now_ms.max(self.last_time_ms).min(limits::TIME_MS_MAX)
    }

    /// The number of a stream that exists, staged ones included.
    pub(crate) fn number(&self, durable: &Durable, id: &StreamId) -> Option<u32> {
        durable
            .directory
            .number(id)
            .or_else(|| self.new_ids.get(id).copied())
    }

    /// Whether a batch with a key of this hash is staged but not published.
    pub(crate) fn is_key_staged(&self, stream: u32, hash: u64) -> bool {
        self.new_keys.contains(&(stream, hash))
    }

    /// Whether a stream is deleted, or about to be.
    pub(crate) fn is_deleted(&self, number: u32, durable: &Durable) -> bool {
        self.heads.get(number, &durable.directory).deleted
    }

    /// Sets the properties of the open group that are known only just before its write: whether to flush it, and its
    /// watermark.
    pub(crate) fn prepare_to_write(&mut self, open: &mut OpenGroup, now_ms: impl FnOnce() -> u64) {
        let due = Due::earliest(open.due, self.due);
        open.sync |=
            std::mem::take(&mut self.sync_asked) || due.is_some_and(|due| due.is_over(now_ms()));
        open.prove(self.synced_end, self.active.seed);
    }

    /// Updates the state after a group was written and published.
    pub(crate) fn published(&mut self, mut open: OpenGroup, end: u64, durable: &Durable) {
        self.written_end = end;
        self.staged_mark = None;
        self.threads_seen = open.waiters + self.open.as_ref().map_or(0, |next| next.waiters);
        if open.sync {
            self.flushed(end);
        } else {
            self.due = Due::earliest(self.due, open.due);
        }
        self.forget_published(durable);
        if self.spare_buffer.capacity() == 0 && open.bytes.capacity() <= SPARE_BYTES_MAX {
            self.spare_buffer = std::mem::take(&mut open.bytes);
        }
    }

    /// Updates the state after a flush: everything written in the active segment is durable.
    pub(crate) fn flushed(&mut self, end: u64) {
        self.synced_end = end;
        self.due = None;
    }

    /// Rolls back to the published state. Returns the open group.
    pub(crate) fn take_back(&mut self, durable: &Durable) -> Option<OpenGroup> {
        assert_eq!(
            self.written_end, durable.end,
            "what was written in good order was published"
        );
        self.end = self.written_end;
        self.index_bytes = durable.active_index.encoded_bytes();
        self.next_position = durable.next_position;
        self.last_time_ms = durable.last_time_ms.max(self.active.header.base_time_ms);
        self.heads = Heads::new(durable);
        self.new_ids.clear();
        self.new_keys.clear();
        self.changed.clear();
        self.mark = self.staged_mark.take().or(self.mark);
        self.open.take()
    }

    /// Drops the staged state that was just published.
    fn forget_published(&mut self, durable: &Durable) {
        if !self.new_ids.is_empty() {
            self.new_ids
                .retain(|id, _| durable.directory.number(id).is_none());
        }
        if !self.new_keys.is_empty() {
            self.new_keys.clear();
            let open = self.open.iter().flat_map(|open| &open.entries.keys);
            self.new_keys.extend(open.map(|key| (key.stream, key.hash)));
        }
    }
}
