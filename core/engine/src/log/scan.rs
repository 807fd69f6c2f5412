//! [`Scan`]: the records of a segment one after the other, in bounded memory.

use bytes::Bytes;

use super::segment::{Frame, Segment};
use crate::{
    Error, ErrorKind, Result,
    format::{aligned, record, segment},
};

/// Bytes are read ahead in pieces of this size, unless less is asked for.
pub(crate) const READ_AHEAD_BYTES: u64 = 256 << 10;

/// Walks over the records between two offsets.
pub(crate) struct Scan<'a> {
    segment: &'a Segment,
    offset: u64,
    end: u64,
    read_ahead: u64,
    window: Bytes,
    window_start: u64,
}

impl<'a> Scan<'a> {
    /// From the record at `offset` up to `end`.
    pub(crate) fn new(segment: &'a Segment, offset: u64, end: u64) -> Self {
        Self { segment, offset, end, read_ahead: READ_AHEAD_BYTES, window: Bytes::new(), window_start: 0 }
    }

    /// The same, reading so many bytes ahead: for one who may want no more than the first records.
    pub(crate) fn reading_ahead(mut self, bytes: u64) -> Self {
        self.read_ahead = bytes.min(READ_AHEAD_BYTES);
        self
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
        let header = self.header()?;
        let body_start = self.offset + record::HEADER_BYTES as u64;
        let body = self.bytes(body_start, header.padded_body_bytes() as u64)?;
        let frame = self.segment.checked(self.offset, header, body)?;
        self.offset = frame.end();
        Ok(Some(frame))
    }

    /// Steps over the next record without reading its body; an error where bytes are no record.
    pub(crate) fn skip(&mut self) -> Result<()> {
        let header = self.header()?;
        self.offset += header.frame_bytes();
        Ok(())
    }

    /// The header of the next record, without stepping over it.
    pub(crate) fn peek(&mut self) -> Result<Option<record::Header>> {
        if self.offset >= self.end { Ok(None) } else { self.header().map(Some) }
    }

    /// After an error: goes to the next whole record behind the damaged place, and gives its header; to the end, and
    /// `None`, when there is none. Its index in the segment is `index_min` at least.
    pub(crate) fn pass_damage(&mut self, index_min: u32) -> Result<Option<record::Header>> {
        let from = self.offset;
        // Mostly it is the body that is damaged, and the header still says where it ends.
        if let Ok(header) = self.header() {
            let after = from + header.frame_bytes();
            let mut next = Scan::new(self.segment, after, self.end).reading_ahead(0);
            if let Ok(Some(frame)) = next.next()
                && frame.header.index == index_min
            {
                self.offset = after;
                return Ok(Some(frame.header));
            }
        }
        let mut found = None;
        let searched = search(self.segment, from + aligned(1) as u64, self.end, |whole| {
            found = Some(whole).filter(|whole| whole.header.index >= index_min);
            found.is_none()
        });
        match searched {
            Ok(()) => {}
            Err(error) if is_damage(&error) => {}
            Err(error) => return Err(error),
        }
        self.offset = found.map_or(self.end, |whole| whole.offset);
        Ok(found.map(|whole| whole.header))
    }

    fn header(&mut self) -> Result<record::Header> {
        let wanted = (record::HEADER_BYTES as u64).min(self.end.saturating_sub(self.offset));
        let bytes = self.bytes(self.offset, wanted)?;
        self.segment.header_in(&bytes, self.offset, self.end)
    }

    fn bytes(&mut self, offset: u64, length: u64) -> Result<Bytes> {
        if self.segment.map().is_some() {
            return self.segment.bytes_at(offset, length);
        }
        let inside = offset >= self.window_start && offset + length <= self.window_start + self.window.len() as u64;
        if !inside {
            let ahead = length.max(self.read_ahead.min(self.end.saturating_sub(offset)));
            // What can't be read further on doesn't hide what is here.
            let window = self.segment.bytes_at(offset, ahead);
            self.window =
                if ahead > length { window.or_else(|_| self.segment.bytes_at(offset, length))? } else { window? };
            self.window_start = offset;
        }
        let start = usize::try_from(offset - self.window_start).expect("the window is in memory");
        Ok(self.window.slice(start..start + usize::try_from(length).expect("the window is in memory")))
    }
}

/// Whether an error tells damage, which is the same however often it is read.
pub(crate) fn is_damage(error: &Error) -> bool {
    error.kind() == ErrorKind::Damaged
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
