//! [`Place`]: the location of the record with a position. It is found under the directory's lock, and read without it,
//! so that no append waits for the device.

use std::sync::Arc;

use super::published::durable::Durable;
use crate::{
    Error, Result,
    format::{index::SampleRow, record, segment::HEADER_BYTES},
    log::{
        frame::{Frame, READ_BYTES},
        scan::{Scan, is_damage},
        segment::Segment,
    },
};

/// The segment that holds a position which was published.
pub(crate) struct Place {
    pub(crate) segment: Arc<Segment>,
    pub(crate) position: u64,
    /// Where the published records of the segment end.
    pub(crate) end: u64,
    /// The position after the last of them.
    pub(crate) end_position: u64,
    /// Of an active segment, a record at or before it.
    sample: Option<SampleRow>,
}

impl Place {
    /// The place of a position; `None` if it isn't published, or was lost and skipped by a repair.
    pub(crate) fn of(durable: &Durable, position: u64) -> Option<Self> {
        let segment = durable.segment_of_position(position)?;
        let index = index_in(segment, position);
        let (end_position, sample) = match segment.trailer() {
            Some(trailer) => (trailer.next_position, None),
            None => (durable.next_position, durable.active_index.sample(index)),
        };
        let end = durable.end_of(segment);
        (position < end_position).then(|| Self {
            segment: segment.clone(),
            position,
            end,
            end_position,
            sample,
        })
    }

    /// The first published position from `position` on, and where it is.
    pub(crate) fn of_next(durable: &Durable, position: u64) -> Option<Self> {
        Self::of(durable, position).or_else(|| {
            let after = durable
                .segments
                .partition_point(|segment| segment.header.base_position <= position);
            Self::of(durable, durable.segments.get(after)?.header.base_position)
        })
    }

    /// A scan positioned at the record; if that is damaged, at the next whole one.
    pub(crate) fn scan(&self, read_ahead: u64) -> Result<Scan<'_>> {
        let wanted = index_in(&self.segment, self.position);
        let start = SampleRow {
            index: 0,
            offset: HEADER_BYTES as u64,
        };
        let sample = match (self.sample, self.segment.block()) {
            (Some(sample), _) => sample,
            (None, Ok(block)) => block
                .and_then(|block| block.sample(wanted))
                .unwrap_or(start),
            // The index block only speeds up the search, so its damage doesn't hide the records.
            (None, Err(error)) if is_damage(&error) => start,
            (None, Err(error)) => return Err(error),
        };
        // Only headers are read on the way, which are small.
        let mut scan = Scan::new(&self.segment, sample.offset, self.end).reading_ahead(READ_BYTES);
        let mut index = sample.index;
        loop {
            let stepped = match scan.peek() {
                Ok(None) => break,
                Ok(Some(header)) if header.has_position() && header.index >= wanted => break,
                Ok(Some(header)) if header.index < index => Err(self
                    .segment
                    .damaged(scan.offset(), format!("expected record {index} here"))),
                Ok(Some(header)) => scan
                    .step_over()
                    .map(|()| header.index + u32::from(header.has_position())),
                Err(error) => Err(error),
            };
            index = match stepped {
                Ok(index) => index,
                Err(error) if is_damage(&error) => {
                    match scan.pass_damage(index.saturating_add(1))? {
                        Some(header) => header.index,
                        None => break,
                    }
                }
                Err(error) => return Err(error),
            };
        }
        Ok(Scan::new(&self.segment, scan.offset(), self.end).reading_ahead(read_ahead))
    }

    /// The record; `None` if a compaction dropped it.
    pub(crate) fn frame(&self) -> Result<Option<Frame>> {
        if self.segment.is_pack() {
            return self.frame_in_pack();
        }
        self.frame_in_log().map(Some)
    }

    /// Every record of a pack has a sample.
    fn frame_in_pack(&self) -> Result<Option<Frame>> {
        let wanted = index_in(&self.segment, self.position);
        let block = self.segment.block();
        let block = block.map_err(|error| self.unreadable(&error))?;
        let sample = block.and_then(|block| block.samples_from(wanted).next());
        let sample = sample.filter(|sample| sample.index == wanted);
        let read = |sample: SampleRow| {
            let frame = self.segment.frame(sample.offset, self.end)?;
            let found = frame.header.index;
            let is_it = found == wanted && frame.header.has_position();
            let other = || {
                let message = format!("expected record {wanted} here, found {found}");
                self.segment.damaged(sample.offset, message)
            };
            is_it.then_some(frame).ok_or_else(other)
        };
        sample
            .map(read)
            .transpose()
            .map_err(|error| self.unreadable(&error))
    }

    fn frame_in_log(&self) -> Result<Frame> {
        let mut scan = self.scan(READ_BYTES)?;
        let offset = scan.offset();
        let lost = || self.segment.damaged(offset, "no record can be found here");
        let frame = scan
            .next()
            .and_then(|frame| frame.ok_or_else(lost))
            .map_err(|error| self.unreadable(&error))?;
        match position_of(&self.segment, &frame) {
            found if found == self.position => Ok(frame),
            found => Err(self.unreadable(
                &self
                    .segment
                    .damaged(offset, format!("found position {found}")),
            )),
        }
    }

    /// The error for a record that can't be read.
    fn unreadable(&self, error: &Error) -> Error {
        unreadable(self.position, error)
    }
}

/// The error for a record that can't be read, with its position and the cause.
pub(crate) fn unreadable(position: u64, error: &Error) -> Error {
    let message = format!("position {position} can't be read: {error}");
    // Passed through unchanged: the caller looks for the pack that replaced the file.
    if Segment::is_gone(error) {
        let source = std::io::Error::from(std::io::ErrorKind::NotFound);
        return Error::with_source(error.kind(), message, source);
    }
    Error::new(error.kind(), message)
}

/// The position of a record in its segment.
pub(crate) fn position_of(segment: &Segment, frame: &Frame) -> u64 {
    position_in(segment, &frame.header)
}

/// The position of a record's header in its segment.
pub(crate) fn position_in(segment: &Segment, header: &record::Header) -> u64 {
    segment
        .header
        .base_position
        .saturating_add(u64::from(header.index))
}

/// A position's place in its segment.
pub(crate) fn index_in(segment: &Segment, position: u64) -> u32 {
    u32::try_from(position.saturating_sub(segment.header.base_position)).unwrap_or(u32::MAX)
}
