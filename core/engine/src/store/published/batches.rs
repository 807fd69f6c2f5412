//! Publishing the records of a segment: batch by batch from its records, or at once from its index block.

use std::ops::ControlFlow;

use super::durable::Durable;
use crate::{
    Error, ErrorKind, Result, SegmentId,
    format::{files, index::Block, record::Flags},
    limits,
    log::{frame::Frame, scan::Scan, segment::Segment},
    sync::Arc,
};

/// Applies the index block of a sealed segment, from an offset on.
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
    for control in block.controls().filter(|control| control.offset >= from) {
        durable
            .directory
            .apply_control(&control, segment)
            .map_err(whole)?;
    }
    for row in block.stream_rows() {
        durable.directory.apply_row(&row, segment).map_err(whole)?;
    }
    Ok(())
}

/// The result of a scan.
pub(crate) struct Scanned {
    pub(crate) records: u64,
    /// The highest offset that one of the records proves durable.
    pub(crate) watermark: u64,
    /// Why it ended before its end.
    pub(crate) stopped: Option<Error>,
}

/// Publishes whole batches from an offset on, up to `end` or to the first bytes that are no record that
/// could follow. `durable.end` is then where the last whole batch ends.
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
    // Checked before the record is kept: a batch that never ends would fill the memory.
    if batch.len() >= limits::BATCH_RECORDS_MAX || batch_bytes > limits::BATCH_BYTES_MAX as u64 {
        return ControlFlow::Break(segment.damaged(frame.offset, "a batch larger than one can be"));
    }
    ControlFlow::Continue(())
}
