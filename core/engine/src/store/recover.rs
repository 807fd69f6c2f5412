//! Opening: what the log says, and what has to be done before it can be appended to.
//!
//! [`load`] only reads, and decides; [`Plan::apply`] then writes. A crash in between or during is a crash
//! like any other: the next open decides the same.

mod checkpoint;

use std::{ops::ControlFlow, sync::Arc};

pub(crate) use checkpoint::read_checkpoint;
use checkpoint::{check_reached, covers};

use super::{
    chain::{has_no_index, is_seal_unproven, no_index, open_segments},
    durable::Durable,
    end, segments,
};
use crate::{
    Error, ErrorKind, Recovery, Result, SegmentId,
    format::{
        files::{self, Identity, Watermark},
        index::{Block, Trailer},
        record::{self, Flags},
        segment::HEADER_BYTES,
    },
    index::memory::MemoryIndex,
    limits,
    log::{
        scan::{self, Scan, SearchBudget},
        segment::{Frame, Segment},
    },
    storage::{Access, Storage},
};

/// Zeros are written in pieces of this size.
const ZEROS_BYTES: usize = 64 << 10;
/// Bytes are written again in pieces of this size.
const PIECE_BYTES: u64 = 1 << 20;
/// So many bytes that nothing proves durable are made so while opening.
const UNPROVEN_AT_OPEN_BYTES_MAX: u64 = 1 << 20;

/// The log as it was found, and what is to be done before appending.
pub(crate) struct Loaded {
    pub(crate) durable: Durable,
    pub(crate) plan: Plan,
    /// Where the log stood at the checkpoint: segment and offset.
    pub(crate) checkpoint_end: Option<(u32, u64)>,
    /// What the end marker says: segment and offset.
    pub(crate) marked_end: Option<(SegmentId, u64)>,
    pub(crate) report: Recovery,
    /// Up to where the records of the last segment prove that it was durable.
    pub(crate) proven: Option<(SegmentId, u64)>,
}

/// What is to be written before the store can be appended to.
#[derive(Default)]
pub(crate) struct Plan {
    /// The segment before the last, without an index block because of a crash while turning to the last.
    seals: Vec<SealPlan>,
    /// Bytes after the last whole batch that aren't zero: from, to.
    zero: Option<(u64, u64)>,
    /// Bytes that nothing proves durable: from, to. See [`make_durable`].
    pub(crate) unproven: Option<(u64, u64)>,
    /// Up to where readers have seen them already, while the machine was running as it is now.
    shown: u64,
}

struct SealPlan {
    segment: Arc<Segment>,
    end: u64,
    /// The index block and trailer.
    index: Vec<u8>,
}

/// Reads the log. `limit` is how far the writer has published, for a reader beside one.
pub(crate) fn load(
    storage: &dyn Storage,
    identity: &Identity,
    access: Access,
    mode: LoadMode,
) -> Result<Loaded> {
    let store = &identity.store;
    let limit = match mode {
        LoadMode::Reader(watermark) => watermark,
        LoadMode::Writer(_) => None,
    };
    let segments = open_segments(storage, store, access, limit.map(|limit| limit.segment))?;
    let found = read_checkpoint(storage)?.filter(|checkpoint| checkpoint.end.store == *store);
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
    let resume = found.and_then(|found| loader.resume(found, &segments));
    let (first, offset) = resume.unwrap_or((0, HEADER_BYTES as u64));
    if let Some(open) = segments[..first]
        .iter()
        .find(|segment| segment.trailer().is_none())
    {
        return Err(no_index(open));
    }
    loader.durable.segments = segments[..first].to_vec();
    for (index, segment) in segments.iter().enumerate().skip(first) {
        let from = if index == first {
            offset
        } else {
            HEADER_BYTES as u64
        };
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

/// Who looks at the log, and what is known of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoadMode {
    /// A reader, which goes as far as a writer has published.
    Reader(Option<Watermark>),
    /// The writer, and how far the one before had published, if the machine was not started anew since.
    Writer(Option<Watermark>),
}

/// What was published is in the operating system's memory at least, unless the machine was started anew.
fn check_published(durable: &Durable, watermark: &Watermark) -> Result<()> {
    let end = durable.active().map_or((SegmentId(0), 0), |active| {
        (active.id(), durable.end_of(active))
    });
    if end >= (watermark.segment, watermark.offset) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Damaged,
        format!(
            "{}: offset {}: the log ends with position {}, but records up to position {} were acknowledged: restore the \
             files, or `runlog verify --repair` goes on without what is lost",
            files::segment_name(end.0),
            end.1,
            durable.next_position - 1,
            watermark.position
        ),
    ))
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
    fn segment(
        &mut self,
        segment: &Arc<Segment>,
        next: Option<&Arc<Segment>>,
        from: u64,
    ) -> Result<()> {
        let fresh = from == HEADER_BYTES as u64;
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
            // A repair leaves out positions that were acknowledged and lost.
            self.durable.next_position = segment.header.base_position;
        }
        self.durable.segments.push(segment.clone());
        if let Some(next) = next
            && has_no_index(segment)?
        {
            if is_seal_unproven(next)? {
                return self.half_sealed(segment, next, from);
            }
            // Damage of the block is told as such, a missing one as missing.
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
        if trailer.records > 0 {
            self.durable.last_time_ms = self.durable.last_time_ms.max(trailer.time_max_ms);
        }
        self.durable.active_index = MemoryIndex::default();
        self.durable.end = trailer.data_end;
        Ok(())
    }

    /// The segment before the last, which a crash kept from being sealed: its records were flushed, and the
    /// next one's header says where they end.
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
        let index = segments::encode_index(
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
        // For reading it is sealed from now on; the file is when the plan is applied.
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
        let length = segment
            .file
            .len()
            .map_err(|error| Error::from_io(error, format!("measuring {}", segment.name)))?;
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
        // From the back: what is torn is at the front of the free room, and only up to there anything is looked for.
        let torn_end = scan::last_nonzero(segment, end, length)?;
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

/// Applies what the index block of a sealed segment says, from an offset on.
pub(crate) fn apply_block(
    durable: &mut Durable,
    segment: SegmentId,
    block: &Block,
    from: u64,
) -> Result<()> {
    let whole = |error: Error| {
        Error::new(
            error.kind(),
            format!("{}: {error}", files::segment_name(segment)),
        )
    };
    for step in block.steps().filter(|step| step.offset >= from) {
        durable
            .directory
            .apply_step(&step, segment)
            .map_err(whole)?;
    }
    for row in block.stream_rows() {
        durable.directory.apply_row(&row, segment).map_err(whole)?;
    }
    Ok(())
}

/// What a scan came to.
pub(crate) struct Scanned {
    pub(crate) records: u64,
    /// The highest offset that one of the records proves durable.
    pub(crate) watermark: u64,
    /// Why it ended before its end.
    pub(crate) stopped: Option<Error>,
}

/// Publishes whole batches from an offset on, up to `end` or to the first bytes that are no record that
/// could follow. `durable.end` then tells where the last whole batch ends.
pub(crate) fn scan_batches(
    durable: &mut Durable,
    segment: &Arc<Segment>,
    from: u64,
    end: u64,
) -> Result<Scanned> {
    let mut scanned = Scanned {
        records: 0,
        watermark: 0,
        stopped: None,
    };
    let mut scan = Scan::new(segment, from, end);
    let mut batch: Vec<Frame> = Vec::new();
    let mut batch_bytes = 0;
    loop {
        let frame = match scan.next_of_any_kind() {
            Ok(Some(frame)) => frame,
            Ok(None) => return Ok(scanned),
            Err(error) if error.kind() == ErrorKind::Damaged => {
                scanned.stopped = Some(error);
                return Ok(scanned);
            }
            Err(error) => return Err(error),
        };
        if batch.is_empty() {
            batch_bytes = 0;
        }
        batch_bytes += frame.header.frame_bytes();
        if let ControlFlow::Break(error) = continues(durable, segment, &batch, &frame, batch_bytes)
        {
            scanned.stopped = Some(error);
            return Ok(scanned);
        }
        let last = frame.header.flags.has(Flags::BATCH_LAST);
        batch.push(frame);
        if last {
            scanned.watermark = batch
                .iter()
                .map(|frame| frame.header.watermark)
                .fold(scanned.watermark, u64::max);
            durable.publish_frames(segment, &batch)?;
            scanned.records += batch
                .iter()
                .filter(|frame| frame.header.has_position())
                .count() as u64;
            batch.clear();
        }
    }
}

/// Whether a frame can follow the batch so far.
fn continues(
    durable: &Durable,
    segment: &Segment,
    batch: &[Frame],
    frame: &Frame,
    batch_bytes: u64,
) -> ControlFlow<Error> {
    let index = durable.next_position - segment.header.base_position + batch.len() as u64;
    let flags = frame.header.flags;
    let first = flags.has(Flags::BATCH_FIRST);
    let alone = frame.header.has_position() || (first && flags.has(Flags::BATCH_LAST));
    if u64::from(frame.header.index) != index || first != batch.is_empty() || !alone {
        let message = format!(
            "expected record {index} of the segment, found record {}",
            frame.header.index
        );
        return ControlFlow::Break(segment.damaged(frame.offset, message));
    }
    // Checked before the batch is kept: one that never ends would be kept whole.
    if batch.len() >= limits::BATCH_RECORDS_MAX || batch_bytes > limits::BATCH_BYTES_MAX as u64 {
        return ControlFlow::Break(segment.damaged(frame.offset, "a batch larger than one can be"));
    }
    ControlFlow::Continue(())
}

/// Tells a write that a crash cut off from damage to what was durable: if a whole record beyond `end` says
/// that more was durable than `end`, then what lies at `end` was.
pub(crate) fn check_torn(
    segment: &Segment,
    end: u64,
    torn_end: u64,
    length: u64,
    stopped: Option<Error>,
) -> Result<()> {
    let mut proof = None;
    scan::search(
        segment,
        end,
        torn_end,
        length,
        &mut SearchBudget::of(length),
        |found| {
            if found.header.watermark > end {
                proof = Some(found);
            }
            proof.is_none()
        },
    )?;
    let Some(proof) = proof else { return Ok(()) };
    let what = stopped.map_or_else(
        || "records end too early".to_owned(),
        |error| error.to_string(),
    );
    Err(segment.damaged(
        end,
        format!(
            "damage to what was durable: the record at offset {} says that all before offset {} was: {what}; \
             restore a backup, or `runlog verify --repair` keeps what is before the damage",
            proof.offset, proof.header.watermark
        ),
    ))
}

impl Plan {
    /// Does what is to be done, durably.
    pub(crate) fn apply(&mut self, storage: &dyn Storage, durable: &mut Durable) -> Result<()> {
        let sealed_now = !self.seals.is_empty();
        let is_empty = durable.active_index.records() == 0;
        if is_empty {
            // A process that ended between naming the last segment and flushing its name left no record there. The name has
            // to be durable before the segment before is sealed, and before a record is acknowledged.
            storage.sync_dir().map_err(|error| {
                Error::from_io(error, format!("flushing {}", storage.describe()))
            })?;
        }
        for plan in self.seals.drain(..) {
            let sealed = segments::seal(storage, &plan.segment, plan.end, &plan.index)?;
            let place = durable
                .segments
                .iter()
                .position(|segment| segment.id() == sealed.id());
            if let Some(place) = place {
                durable.segments[place] = Arc::new(sealed);
            }
        }
        if let (true, [.., before, _]) = (is_empty && !sealed_now, &durable.segments[..]) {
            make_seal_durable(storage, before)?;
        }
        let Some(active) = durable.active() else {
            return Ok(());
        };
        let failed = |error| Error::from_io(error, format!("mending the tail of {}", active.name));
        if let Some((from, to)) = self.zero {
            cut(active, from, to).map_err(failed)?;
        }
        // A few are done now; many would make opening slow, and are done before the first append. But what nobody has seen
        // yet must not be seen before it is durable: a loss of power would take it back.
        if let Some((from, to)) = self.unproven {
            let unseen = self.shown.max(from);
            if to - from <= UNPROVEN_AT_OPEN_BYTES_MAX || unseen <= from {
                make_durable(active, from, to)?;
                self.unproven = None;
            } else if unseen < to {
                make_durable(active, unseen, to)?;
                self.unproven = Some((from, unseen));
            }
        }
        Ok(())
    }
}

/// Makes the seal of a segment durable: only a record in the next one proves that it is.
fn make_seal_durable(storage: &dyn Storage, segment: &Segment) -> Result<()> {
    let Some(trailer) = segment.trailer() else {
        return Ok(());
    };
    let writable = Segment::open(storage, segment.id(), Access::Write, &segment.header.store)?;
    make_durable(
        &writable,
        trailer.data_end,
        trailer.data_end + trailer.block_bytes(),
    )
}

/// Makes bytes durable that nothing proves durable: writes them again and flushes them, because after a failed
/// flush the operating system may have them in memory only, and believe them flushed.
pub(crate) fn make_durable(segment: &Segment, mut from: u64, to: u64) -> Result<()> {
    let failed = |error| {
        Error::from_io(
            error,
            format!("making the tail of {} durable", segment.name),
        )
    };
    while from < to {
        let bytes = segment.bytes_at(from, PIECE_BYTES.min(to - from))?;
        segment.file.write_at(from, &bytes).map_err(failed)?;
        from += bytes.len() as u64;
    }
    segment.file.sync().map_err(failed)
}

/// Overwrites bytes with zeros, durably.
pub(crate) fn cut(segment: &Segment, mut from: u64, to: u64) -> std::io::Result<()> {
    let zeros = vec![0; ZEROS_BYTES];
    while from < to {
        let piece = usize::try_from(to - from).map_or(ZEROS_BYTES, |rest| rest.min(ZEROS_BYTES));
        segment.file.write_at(from, &zeros[..piece])?;
        from += piece as u64;
    }
    segment.file.sync()
}

const _: () = assert!(record::HEADER_BYTES.is_multiple_of(8));
