//! [`Scan`]: the records of a segment one after the other, in bounded memory.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::segment::{Frame, Segment};
use crate::{
    Result,
    format::{aligned, record, segment},
    storage::Map,
};

/// Bytes are read ahead in pieces of this size.
const READ_AHEAD_BYTES: u64 = 256 << 10;
/// From a map they are copied in pieces that grow from the first to the second size: who wants one record copies little.
const COPY_BYTES_MIN: u64 = 4 << 10;
const COPY_BYTES_MAX: u64 = 64 << 10;

/// Walks over the records between two offsets.
pub(crate) struct Scan<'a> {
    segment: &'a Segment,
    offset: u64,
    end: u64,
    /// Where bytes are copied from, until something of it doesn't check: then the file is asked.
    map: Option<Arc<dyn Map>>,
    window: Bytes,
    window_start: u64,
}

impl<'a> Scan<'a> {
    /// From the record at `offset` up to `end`.
    pub(crate) fn new(segment: &'a Segment, offset: u64, end: u64) -> Self {
        Self { map: segment.map(), ..Self::of_file(segment, offset, end) }
    }

    /// The same, of the file alone: what is checked is what the device gives.
    pub(crate) fn of_file(segment: &'a Segment, offset: u64, end: u64) -> Self {
        Self { segment, offset, end, map: None, window: Bytes::new(), window_start: 0 }
    }

    /// Where the next record begins.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The next record; `None` at the end; an error where bytes are no record.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>> {
        if self.offset >= self.end {
            return Ok(None);
        }
        let frame = match self.frame() {
            Err(_) if self.map.take().is_some() => {
                self.window = Bytes::new();
                self.frame()?
            }
            frame => frame?,
        };
        self.offset = frame.end();
        Ok(Some(frame))
    }

    /// Steps over the next record without reading its body; an error where bytes are no record.
    pub(crate) fn skip(&mut self) -> Result<()> {
        let found = self.map.as_deref().and_then(|map| self.segment.header_in_map(map, self.offset, self.end));
        let header = match found {
            Some(header) => header,
            None => self.header()?,
        };
        self.offset += header.frame_bytes();
        Ok(())
    }

    fn frame(&mut self) -> Result<Frame> {
        let header = self.header()?;
        let body_start = self.offset + record::HEADER_BYTES as u64;
        let body = self.bytes(body_start, header.padded_body_bytes() as u64)?;
        self.segment.checked(self.offset, header, body)
    }

    fn header(&mut self) -> Result<record::Header> {
        let wanted = (record::HEADER_BYTES as u64).min(self.end.saturating_sub(self.offset));
        let bytes = self.bytes(self.offset, wanted)?;
        self.segment.header_in(&bytes, self.offset, self.end)
    }

    fn bytes(&mut self, offset: u64, length: u64) -> Result<Bytes> {
        let inside = offset >= self.window_start && offset + length <= self.window_start + self.window.len() as u64;
        if !inside {
            let left = self.end.saturating_sub(offset);
            self.window = match self.copied(offset, length, left) {
                Some(window) => window,
                None => self.segment.bytes_at(offset, length.max(READ_AHEAD_BYTES.min(left)))?,
            };
            self.window_start = offset;
        }
        let start = usize::try_from(offset - self.window_start).expect("the window is in memory");
        Ok(self.window.slice(start..start + usize::try_from(length).expect("the window is in memory")))
    }

    /// A window from the map. Of what is larger than one, reading it costs less than copying.
    fn copied(&self, offset: u64, length: u64, left: u64) -> Option<Bytes> {
        let map = self.map.as_deref().filter(|_| length < COPY_BYTES_MAX)?;
        let wanted = (self.window.len() as u64 * 4).clamp(COPY_BYTES_MIN, COPY_BYTES_MAX);
        let wanted = usize::try_from(wanted.min(left).max(length)).ok()?;
        let mut bytes = BytesMut::new();
        map.append(offset, wanted, &mut bytes).then(|| bytes.freeze())
    }
}

/// The first place from `offset` on, of a segment file `file_bytes` long, where the bytes are not zero.
pub(crate) fn first_nonzero(segment: &Segment, mut offset: u64, file_bytes: u64) -> Result<Option<u64>> {
    while offset < file_bytes {
        let piece = segment.bytes_at(offset, READ_AHEAD_BYTES.min(file_bytes - offset))?;
        if let Some(index) = first_nonzero_byte(&piece) {
            return Ok(Some(offset + index as u64));
        }
        offset += piece.len() as u64;
    }
    Ok(None)
}

fn first_nonzero_byte(bytes: &[u8]) -> Option<usize> {
    // Words first: a tail of zeros is tens of megabytes long.
    let words = bytes.chunks_exact(64);
    let rest = bytes.len() - words.remainder().len();
    let block = words
        .into_iter()
        .position(|block| block.iter().fold(0, |all, byte| all | byte) != 0)
        .map_or(rest, |index| index * 64);
    bytes[block..].iter().position(|byte| *byte != 0).map(|index| block + index)
}

/// A whole record found beyond a damaged place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub(crate) offset: u64,
    pub(crate) header: record::Header,
}

/// Looks for whole records from `offset` on, at every place one could begin; gives each to `visit`, which
/// says whether to go on.
pub(crate) fn search(
    segment: &Segment,
    mut offset: u64,
    file_bytes: u64,
    mut visit: impl FnMut(Found) -> bool,
) -> Result<()> {
    offset = offset.max(segment::HEADER_BYTES as u64).next_multiple_of(aligned(1) as u64);
    let mut window = Bytes::new();
    let mut window_start = offset;
    // A hostile file could hold headers everywhere, each with a body to the end.
    let mut budget = file_bytes.saturating_mul(4);
    while offset + record::HEADER_BYTES as u64 <= file_bytes {
        let window_end = window_start + window.len() as u64;
        if offset + record::HEADER_BYTES as u64 > window_end {
            window = segment.bytes_at(offset, READ_AHEAD_BYTES.min(file_bytes - offset))?;
            window_start = offset;
        }
        let at = usize::try_from(offset - window_start).expect("the window is in memory");
        let bytes = window[at..].first_chunk().expect("the window was just refilled");
        let header = record::Header::decode(bytes, segment.header.salt, offset)
            .filter(|header| header.frame_bytes() <= file_bytes - offset);
        let whole = match header {
            Some(header) => {
                let body_start = offset + record::HEADER_BYTES as u64;
                budget = budget.checked_sub(header.frame_bytes()).ok_or_else(|| {
                    segment.damaged(offset, "too many false record headers to tell a torn tail from damage")
                })?;
                let body = segment.bytes_at(body_start, header.padded_body_bytes() as u64)?;
                segment.checked(offset, header, body).is_ok().then_some(header)
            }
            None => None,
        };
        match whole {
            Some(header) => {
                if !visit(Found { offset, header }) {
                    return Ok(());
                }
                offset += header.frame_bytes();
            }
            None => offset += aligned(1) as u64,
        }
    }
    Ok(())
}
