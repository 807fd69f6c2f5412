//! Recovery: reads the log, and plans the writes that are needed before it can be appended to.
//!
//! The end of the log is not stored while a writer is active: the log ends at the last whole batch of the last segment.
//! Recovery has to decide whether bytes after that are a torn write, which may be discarded, or damage to acknowledged
//! records. The records decide: each stores the offset up to which its segment was durable when its group was written
//! ([`check_torn`]). Besides, the checkpoint, the end marker of a clean close and the watermark each name an offset
//! that the log had reached; if it is shorter now, it is damaged, and nothing is changed.
//!
//! [`load`] only reads, and decides; [`Plan::apply`] then writes. A crash between or during these steps is harmless:
//! the next open decides the same.

use super::{
    plan::{Plan, SealPlan},
    resume::{check_reached, covers, resume},
    torn::check_torn,
};
use crate::{
    Error, Recovery, Result, SegmentId,
    format::{
        files::{self, Identity, Watermark},
        index::Trailer,
        segment::DATA_START,
    },
    index::memory::MemoryIndex,
    log::{scan, segment::Segment},
    storage::{Access, Storage},
    store::{
        files::{checkpoint, end},
        published::{
            batches::{apply_block, scan_batches},
            durable::Durable,
        },
        segments::{
            chain::{
                behind_pack, has_no_index, is_seal_unproven, no_index, open_segments,
                pack_without_index,
            },
            seal::encode_index,
        },
    },
    sync::Arc,
};

/// The log as it was found, and the writes that are needed before appending.
pub(crate) struct Loaded {
    pub(crate) durable: Durable,
    pub(crate) plan: Plan,
    /// The end of the log at the checkpoint: segment and offset.
    pub(crate) checkpoint_end: Option<(u32, u64)>,
    /// The end of the log by the end marker: segment and offset.
    pub(crate) marked_end: Option<(SegmentId, u64)>,
    pub(crate) report: Recovery,
    /// The offset up to which the records of the last segment prove it durable.
    pub(crate) proven: Option<(SegmentId, u64)>,
}

/// Reads the log. `limit` is the writer's watermark, for a reader in another process.
pub(crate) fn load(
    storage: &dyn Storage,
    identity: &Identity,
    access: Access,
    mode: LoadMode,
) -> Result<Loaded> {
    let store = &identity.store;
    let limit = match mode {
        LoadMode::Reader(Some(watermark)) => {
            let (segment, offset) = behind_pack(storage, (watermark.segment, watermark.offset))?;
            Some(Watermark {
                segment,
                offset,
                ..watermark
            })
        }
        LoadMode::Reader(None) | LoadMode::Writer(_) => None,
    };
    let segments = open_segments(storage, store, access, limit.map(|limit| limit.segment))?;
    let found = checkpoint::read(storage, &identity.hash_key)?;
    let found = found.filter(|checkpoint| checkpoint.end.store == *store);
    let found = found.filter(|found| limit.is_none_or(|limit| covers(&limit, &found.end)));
    let checkpoint_end = found
        .as_ref()
        .map(|found| (found.end.segment, found.end.offset));
    if let Some(found) = &found {
        check_reached(&segments, found)?;
    }
    let end =
        end::read(storage, store)?.filter(|end| limit.is_none_or(|limit| end.is_within(&limit)));
    if let Some(end) = &end {
        end::check(&segments, end)?;
    }
    let mut durable = Durable::new(identity.hash_key);
    let epochs = [
        segments.last().map(|segment| segment.header.epoch),
        end.map(|end| end.epoch),
        found.as_ref().map(|found| found.end.epoch),
    ];
    durable.epoch = epochs.into_iter().flatten().max().unwrap_or(0);
    let mut loader = Loader {
        durable,
        plan: Plan::default(),
        report: Recovery::default(),
        limit,
        mode,
        proven: None,
    };
    let resume = found.and_then(|found| resume(&mut loader.durable, found, &segments));
    let (first, offset) = resume.unwrap_or((0, DATA_START));
    if let Some(open) = segments[..first]
        .iter()
        .find(|segment| segment.trailer().is_none())
    {
        return Err(no_index(open));
    }
    loader.durable.segments = segments[..first].to_vec();
    for (index, segment) in segments.iter().enumerate().skip(first) {
        let from = if index == first { offset } else { DATA_START };
        loader.segment(segment, segments.get(index + 1), from)?;
    }
    if let LoadMode::Writer(Some(watermark)) = mode {
        check_published(&loader.durable, &watermark)?;
    }
    let stands = loader
        .durable
        .active()
        .map(|active| (active.id(), loader.durable.end));
    let marked_end = end.map(|end| (end.segment, end.offset));
    loader.report.clean &= stands.is_none() || marked_end == stands;
    Ok(Loaded {
        durable: loader.durable,
        plan: loader.plan,
        checkpoint_end,
        marked_end,
        report: loader.report,
        proven: loader.proven,
    })
}

/// The role in which the log is loaded, and the watermark, if known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoadMode {
    /// A reader, which reads up to the writer's watermark.
    Reader(Option<Watermark>),
    /// The writer, and the watermark of the previous one, if the machine was not rebooted since.
    Writer(Option<Watermark>),
}

/// Checks that the log reaches the watermark. Published records are at least in the page cache, unless the machine was
/// rebooted.
fn check_published(durable: &Durable, watermark: &Watermark) -> Result<()> {
    let end = durable.active().map_or((SegmentId(0), 0), |active| {
        (active.id(), durable.end_of(active))
    });
    if end >= (watermark.segment, watermark.offset) {
        return Ok(());
    }
    Err(Error::damaged(format!(
        "{}: offset {}: the log ends with position {}, but records up to position {} were acknowledged: restore the \
             files, or `runlog verify --repair` goes on without what is lost",
        files::segment_name(end.0),
        end.1,
        durable.next_position - 1,
        watermark.position
    )))
}

struct Loader {
    durable: Durable,
    plan: Plan,
    report: Recovery,
    limit: Option<Watermark>,
    mode: LoadMode,
    proven: Option<(SegmentId, u64)>,
}

impl Loader {
    /// Applies one segment from an offset on.
    pub(crate) fn segment(
        &mut self,
        segment: &Arc<Segment>,
        next: Option<&Arc<Segment>>,
        from: u64,
    ) -> Result<()> {
        let fresh = from == DATA_START;
        if fresh {
            self.durable.active_index = MemoryIndex::default();
            self.durable.end = from;
            if self.durable.next_position > segment.header.base_position {
                let message = format!(
                    "it begins with position {}, but the log before goes on up to position {}",
                    segment.header.base_position,
                    self.durable.next_position - 1
                );
                return Err(segment.damaged(0, message));
            }
            // A repair skips positions whose records were acknowledged and lost.
            self.durable.next_position = segment.header.base_position;
        }
        self.durable.segments.push(segment.clone());
        if let Some(next) = next
            && has_no_index(segment, next)?
        {
            if segment.is_pack() {
                return Err(pack_without_index(segment)?);
            }
            if is_seal_unproven(next)? {
                return self.half_sealed(segment, next, from);
            }
            // Damage of the block is one error, a missing block another.
            segment.block()?;
            return Err(no_index(segment));
        }
        match segment.trailer().copied() {
            Some(trailer) => self.sealed(segment, &trailer, from),
            None => self.active(segment, from),
        }
    }

    fn sealed(&mut self, segment: &Arc<Segment>, trailer: &Trailer, from: u64) -> Result<()> {
        let Some(block) = segment.block()? else {
            return Ok(());
        };
        self.report.index_blocks_read += 1;
        apply_block(&mut self.durable, segment.id(), &block, from)?;
        self.durable.next_position = trailer.next_position;
        if let Some((_, last_ms)) = segment.times_ms() {
            self.durable.last_time_ms = self.durable.last_time_ms.max(last_ms);
        }
        self.durable.active_index = MemoryIndex::default();
        self.durable.end = trailer.data_end;
        Ok(())
    }

    /// The second to last segment, which a crash left unsealed: its records were flushed, and the next one's header
    /// tells where they end.
    fn half_sealed(
        &mut self,
        segment: &Arc<Segment>,
        next: &Arc<Segment>,
        from: u64,
    ) -> Result<()> {
        let end = next.header.predecessor_end;
        let scanned = scan_batches(&mut self.durable, segment, from, end)?;
        self.report.records_scanned += scanned.records;
        if self.durable.end != end {
            let what = scanned.stopped.map_or_else(
                || "records end too early".to_owned(),
                |error| error.to_string(),
            );
            let message = format!(
                "records were durable up to {end}, as {} says: {what}",
                next.name
            );
            return Err(segment.damaged(self.durable.end, message));
        }
        let memory = std::mem::take(&mut self.durable.active_index);
        let streams = self.durable.directory.streams();
        let index = encode_index(
            segment,
            streams,
            memory.copy(),
            end,
            next.header.next_stream,
        );
        if index.crc != next.header.predecessor_index_crc {
            let message = format!(
                "the index made from its records has the CRC {:08x}, but {} names {:08x}",
                index.crc, next.name, next.header.predecessor_index_crc
            );
            return Err(segment.damaged(end, message));
        }
        // In memory it is sealed from now on; the file is sealed when the plan is applied.
        if let Some(last) = self.durable.segments.last_mut() {
            *last = Arc::new(segment.with_index(end, index.bytes.clone())?);
        }
        self.plan.seals.push(SealPlan {
            segment: segment.clone(),
            end,
            index: index.bytes,
        });
        Ok(())
    }

    /// The last segment: its records end at the last whole batch.
    fn active(&mut self, segment: &Arc<Segment>, from: u64) -> Result<()> {
        let length = segment.file_bytes()?;
        segment.file.will_read(from, length.saturating_sub(from));
        let limit = self
            .limit
            .filter(|limit| limit.segment == segment.id())
            .map(|limit| limit.offset);
        let scanned = scan_batches(
            &mut self.durable,
            segment,
            from,
            limit.unwrap_or(length).min(length),
        )?;
        self.report.records_scanned += scanned.records;
        let end = self.durable.end;
        if let Some(limit) = limit {
            if end != limit {
                let what = scanned
                    .stopped
                    .map_or_else(|| "records end too early".to_owned(), |e| e.to_string());
                return Err(
                    segment.damaged(end, format!("the writer published up to {limit}: {what}"))
                );
            }
            return Ok(());
        }
        // A torn write is at the front of the free space, so records are searched for only up to the last nonzero byte.
        let torn_end =
            scan::last_nonzero(end, length, |offset, bytes| segment.bytes_at(offset, bytes))?;
        if torn_end > end {
            check_torn(segment, end, torn_end, length, scanned.stopped)?;
            self.plan.zero = Some((end, torn_end));
            self.report.torn_bytes = torn_end - end;
        }
        self.report.clean = torn_end == end && self.plan.seals.is_empty();
        let proven = scanned.watermark.max(from);
        self.proven = Some((segment.id(), proven));
        if end > from {
            self.plan.unproven = (proven < end).then_some((proven, end));
            self.plan.shown = match self.mode {
                LoadMode::Writer(Some(watermark)) if watermark.segment == segment.id() => {
                    watermark.offset.min(end)
                }
                _ => 0,
            };
        }
        Ok(())
    }
}
