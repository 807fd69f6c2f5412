//! [`Survey`]: every whole record between two offsets of a segment, and the holes between them.
//!
//! It takes bounded memory and linear time for any bytes: reading false records is charged to one budget for the whole
//! range.

use bytes::Bytes;

use crate::{
    Result, checksum,
    format::{aligned, record},
    log::{
        frame::{Frame, no_header},
        scan::{self, whole_zero_units},
        segment::Segment,
    },
};

/// Bytes are read in pieces of this size.
const WINDOW_BYTES: u64 = 256 << 10;
/// A body from this size on is read alone, and not kept.
const LARGE_BYTES: u64 = WINDOW_BYTES / 2;
/// The budget for bodies that turn out to be none, in multiples of the range: enough for accidental damage.
const BUDGET_FACTOR: u64 = 4;

/// Where a survey reads from.
pub(crate) trait Source {
    /// `length` bytes at an offset.
    ///
    /// # Errors
    /// [`Damaged`](crate::ErrorKind::Damaged) when the file ends before; those of reading.
    fn read(&self, offset: u64, length: u64) -> Result<Bytes>;
}

impl Source for Segment {
    // Records are examined through this function only, which reads the file, never a map.
    fn read(&self, offset: u64, length: u64) -> Result<Bytes> {
        self.bytes_at(offset, length)
    }
}

/// A file of which the last unit may be cut: padding is zeros, so a record that lacks no more than that is whole.
pub(crate) struct Padded<'a> {
    segment: &'a Segment,
    file_bytes: u64,
}

impl<'a> Padded<'a> {
    pub(crate) fn new(segment: &'a Segment, file_bytes: u64) -> Self {
        Self {
            segment,
            file_bytes,
        }
    }

    /// Where the last unit ends.
    pub(crate) fn end(&self) -> u64 {
        self.file_bytes.next_multiple_of(aligned(1) as u64)
    }
}

impl Source for Padded<'_> {
    fn read(&self, offset: u64, length: u64) -> Result<Bytes> {
        if offset + length <= self.file_bytes || offset >= self.file_bytes {
            return self.segment.read(offset, length);
        }
        let mut bytes = self
            .segment
            .read(offset, self.file_bytes - offset)?
            .to_vec();
        bytes.resize(
            usize::try_from(length.min(self.end() - offset)).unwrap_or(usize::MAX),
            0,
        );
        Ok(bytes.into())
    }
}

/// What lies at an offset.
pub(crate) enum Piece {
    /// A whole record. Whether this build knows its kind and flags is for the caller to ask.
    Record(Frame),
    /// Bytes that are no record.
    Hole(Hole),
}

/// Bytes that are no record.
#[derive(Clone, Debug)]
pub(crate) struct Hole {
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// What was expected where it begins, and what was found.
    pub(crate) why: String,
}

/// Walks over a range of a segment.
pub(crate) struct Survey<'a> {
    source: &'a dyn Source,
    seed: u32,
    offset: u64,
    end: u64,
    /// From here on all bytes are zero.
    quiet_from: u64,
    budget: u64,
    window: Bytes,
    window_start: u64,
}

impl<'a> Survey<'a> {
    /// From `from`, a multiple of 8, up to `end`.
    pub(crate) fn new(source: &'a dyn Source, seed: u32, from: u64, end: u64) -> Self {
        let budget = end
            .saturating_sub(from)
            .saturating_add(WINDOW_BYTES)
            .saturating_mul(BUDGET_FACTOR);
        Self {
            source,
            seed,
            offset: from,
            end,
            quiet_from: end,
            budget,
            window: Bytes::new(),
            window_start: 0,
        }
    }

    /// The same where all bytes from an offset on are zero: no record is looked for there.
    pub(crate) fn quiet_from(mut self, offset: u64) -> Self {
        self.quiet_from = offset;
        self
    }

    /// The next record or hole; `None` at the end. Two holes never follow each other.
    pub(crate) fn next(&mut self) -> Result<Option<Piece>> {
        if self.offset >= self.end {
            return Ok(None);
        }
        let from = self.offset;
        let why = match self.record_at(from)? {
            Ok(frame) => {
                self.offset = frame.end();
                return Ok(Some(Piece::Record(frame)));
            }
            Err(why) => why,
        };
        self.offset = self.search(from + aligned(1) as u64)?;
        Ok(Some(Piece::Hole(Hole {
            from,
            to: self.offset,
            why,
        })))
    }

    /// Where the next whole record begins, or the end.
    fn search(&mut self, mut offset: u64) -> Result<u64> {
        while offset < self.quiet_from
            && self.end.saturating_sub(offset) >= record::HEADER_BYTES as u64
        {
            let start = self.bytes(offset, record::HEADER_BYTES as u64)?;
            let at = usize::try_from(offset - self.window_start).unwrap_or(usize::MAX);
            if let Some(zeros) = self.window.get(at..).and_then(whole_zero_units) {
                offset += zeros;
                continue;
            }
            // A header has a byte that isn't zero among its first 16.
            let may_begin = start.iter().take(16).any(|byte| *byte != 0);
            if may_begin && self.header(&start, offset).is_some() {
                if self.budget == 0 {
                    return Ok(self.end);
                }
                if self.record_at(offset)?.is_ok() {
                    return Ok(offset);
                }
            }
            offset += aligned(1) as u64;
        }
        Ok(self.end)
    }

    fn header(&self, bytes: &[u8], offset: u64) -> Option<record::Header> {
        record::Header::decode(bytes.first_chunk()?, self.seed, offset)
            .filter(|header| header.frame_bytes() <= self.end - offset)
    }

    /// The record at an offset, or why there is none.
    fn record_at(&mut self, offset: u64) -> Result<std::result::Result<Frame, String>> {
        let header_bytes = record::HEADER_BYTES as u64;
        if self.end - offset < header_bytes {
            return Ok(Err(format!(
                "only {} bytes are left, fewer than a record has",
                self.end - offset
            )));
        }
        let bytes = self.bytes(offset, header_bytes)?;
        let Some(header) = self.header(&bytes, offset) else {
            return Ok(Err(no_header(&bytes)));
        };
        let length = header.padded_body_bytes() as u64;
        let body = if length > LARGE_BYTES {
            self.source.read(offset + header_bytes, length)?
        } else {
            self.bytes(offset, header_bytes + length)?
                .slice(record::HEADER_BYTES..)
        };
        let crc = checksum::crc(&body);
        if crc != header.body_crc {
            self.budget = self.budget.saturating_sub(length.max(header_bytes));
            return Ok(Err(format!(
                "record CRC is {crc:08x}, expected {:08x}",
                header.body_crc
            )));
        }
        Ok(Ok(Frame {
            offset,
            header,
            body: body.slice(..header.body_bytes as usize),
        }))
    }

    /// Bytes of the window, which is moved when they aren't in it.
    fn bytes(&mut self, offset: u64, length: u64) -> Result<Bytes> {
        let inside = offset >= self.window_start
            && offset + length <= self.window_start + self.window.len() as u64;
        if !inside {
            let ahead = length.max(WINDOW_BYTES.min(self.end.saturating_sub(offset)));
            self.window = self.source.read(offset, ahead)?;
            self.window_start = offset;
        }
        let start = usize::try_from(offset - self.window_start).expect("the window is in memory");
        Ok(self
            .window
            .slice(start..start + usize::try_from(length).expect("the window is in memory")))
    }
}

/// The end of the bytes between two offsets that aren't zero; `from` when all are.
pub(crate) fn last_nonzero(source: &dyn Source, from: u64, to: u64) -> Result<u64> {
    scan::last_nonzero(from, to, |offset, length| source.read(offset, length))
}
