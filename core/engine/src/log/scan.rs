//! [`Scan`]: the records of a segment one after the other, in bounded memory.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;

use super::{frame::Frame, segment::Segment};
use crate::{
    Error, ErrorKind, Result,
    format::{aligned, record, segment},
    storage::Map,
};

/// Bytes are read ahead in pieces of this size, unless less is asked for.
pub(crate) const READ_AHEAD_BYTES: u64 = 256 << 10;
/// From a map they are copied in pieces that grow from the first to the second size, so that reading one record copies
/// little.
const COPY_BYTES_MIN: u64 = 4 << 10;
const COPY_BYTES_MAX: u64 = 64 << 10;
/// How far ahead a mapped file is prefetched: the operating system's own readahead at page faults is too short to keep
/// a fast device busy.
const ASK_AHEAD_BYTES: u64 = 8 << 20;
const ASK_STEP_BYTES: u64 = 2 << 20;

/// How many bytes of false records are read at one damaged place before the scan skips the rest of the segment: a
/// hostile file could contain them everywhere.
const PASS_BYTES_MAX: u64 = 64 << 20;

/// Walks over the records between two offsets.
pub(crate) struct Scan<'a> {
    segment: &'a Segment,
    offset: u64,
    end: u64,
    read_ahead: u64,
    /// The source of the bytes, until a record in it doesn't check: then the file is read instead.
    map: Option<Arc<dyn Map>>,
    window: Window,
}

/// Bytes that were read, and where they begin.
#[derive(Clone, Default)]
pub(crate) struct Window {
    bytes: Bytes,
    start: u64,
    /// The offset up to which the device was asked to prefetch.
    asked: u64,
}

/// A record in a window; its body's CRC was found right.
#[derive(Clone, Debug)]
pub(crate) struct Spot {
    pub(crate) offset: u64,
    pub(crate) header: record::Header,
    /// Where its body is in the window, without its padding.
    pub(crate) body: Range<usize>,
}

impl Window {
    /// Where the bytes from `offset` on are in it, if all of them are.
    fn range(&self, offset: u64, length: u64) -> Option<Range<usize>> {
        let start = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        let end = start.checked_add(usize::try_from(length).ok()?)?;
        (end <= self.bytes.len()).then_some(start..end)
    }
}

impl<'a> Scan<'a> {
    /// From the record at `offset` up to `end`.
    pub(crate) fn new(segment: &'a Segment, offset: u64, end: u64) -> Self {
        Self {
            map: segment.map(),
            ..Self::of_file(segment, offset, end)
        }
    }

    /// As [`new`](Self::new), but never from the map: for verification, which must check the device's bytes.
    pub(crate) fn of_file(segment: &'a Segment, offset: u64, end: u64) -> Self {
        Self {
            segment,
            offset,
            end,
            read_ahead: READ_AHEAD_BYTES,
            map: None,
            window: Window::default(),
        }
    }

    /// Sets the readahead, for a caller that may need the first records only.
    pub(crate) fn reading_ahead(mut self, bytes: u64) -> Self {
        self.read_ahead = bytes.min(READ_AHEAD_BYTES);
        self
    }

    /// Continues with the window of an earlier scan of the same segment. Published bytes don't change, so it stays
    /// valid.
    pub(crate) fn with_window(mut self, window: Window) -> Self {
        self.window = window;
        self
    }

    /// The bytes of the window, to be kept with what [`next_spot`](Self::next_spot) found in it.
    pub(crate) fn window_bytes(&self) -> Bytes {
        self.window.bytes.clone()
    }

    /// Whether no record is left.
    pub(crate) fn is_at_end(&self) -> bool {
        self.offset >= self.end
    }

    /// What was read ahead.
    pub(crate) fn into_window(self) -> Window {
        self.window
    }

    /// Where the next record begins.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The next record that has a position; `None` at the end; an error where bytes are no record.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<Frame>> {
        loop {
            match self.next_of_any_kind()? {
                Some(frame) if !frame.header.has_position() => {}
                frame => return Ok(frame),
            }
        }
    }

    /// The next record, marks and padding included.
    #[inline]
    pub(crate) fn next_of_any_kind(&mut self) -> Result<Option<Frame>> {
        if self.offset >= self.end {
            return Ok(None);
        }
        let frame = match self.frame() {
            Err(_) if self.map.take().is_some() => {
                self.window = Window::default();
                self.frame()?
            }
            frame => frame?,
        };
        self.offset = frame.end();
        self.prefetch(&frame);
        Ok(Some(frame))
    }

    /// The next record that has a position, as its place in the window. With `stays`, only one that lies in the window
    /// there is: `None` at its end, and where something in it doesn't check that may be read again from the file.
    #[inline]
    pub(crate) fn next_spot(&mut self, stays: bool) -> Result<Option<Spot>> {
        loop {
            if self.is_at_end() || (stays && !self.has_next()) {
                return Ok(None);
            }
            let spot = match self.spot() {
                Err(_) if self.map.is_some() => {
                    if stays {
                        return Ok(None);
                    }
                    self.map = None;
                    self.window = Window::default();
                    self.spot()?
                }
                spot => spot?,
            };
            self.offset = spot.offset + spot.header.frame_bytes();
            if let Some(map) = self.map.as_deref() {
                let ahead = self.window.bytes.len() as u64;
                map.prefetch(spot.offset + ahead, spot.header.frame_bytes());
            }
            if spot.header.has_position() {
                return Ok(Some(spot));
            }
        }
    }

    /// Whether the window has the next record whole, as far as its header, which isn't checked yet, tells.
    #[inline]
    fn has_next(&self) -> bool {
        let header = self
            .window
            .range(self.offset, record::HEADER_BYTES as u64)
            .and_then(|header| record::Header::frame_bytes_in(&self.window.bytes[header]));
        header.is_some_and(|frame_bytes| self.window.range(self.offset, frame_bytes).is_some())
    }

    #[inline]
    fn spot(&mut self) -> Result<Spot> {
        let header = self.header()?;
        let body_start = self.offset + record::HEADER_BYTES as u64;
        let padded = self.fetch(body_start, header.padded_body_bytes() as u64)?;
        self.segment
            .check(self.offset, &header, &self.window.bytes[padded.clone()])?;
        Ok(Spot {
            offset: self.offset,
            header,
            body: padded.start..padded.start + header.body_bytes as usize,
        })
    }

    /// Prefetches the bytes one window ahead into the processor's caches: memory is then read while the records of this
    /// window are checked, and the next window is copied from the cache.
    #[inline]
    fn prefetch(&self, frame: &Frame) {
        if let Some(map) = self.map.as_deref() {
            let ahead = self.window.bytes.len() as u64;
            map.prefetch(frame.offset + ahead, frame.header.frame_bytes());
        }
    }

    /// Skips the next record without reading its body; an error if the bytes are no record.
    pub(crate) fn step_over(&mut self) -> Result<()> {
        let header = self.small_header()?;
        self.offset += header.frame_bytes();
        Ok(())
    }

    /// The header of the next record, without skipping the record.
    pub(crate) fn peek(&mut self) -> Result<Option<record::Header>> {
        if self.offset >= self.end {
            Ok(None)
        } else {
            self.small_header().map(Some)
        }
    }

    /// After an error: advances to the next whole record after the damaged place, and returns its header; or to the
    /// end, and returns `None`. Its index in the segment is `index_min` at least.
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
        let mut budget = SearchBudget(PASS_BYTES_MAX);
        let searched = search(
            self.segment,
            from + aligned(1) as u64,
            self.end,
            self.end,
            &mut budget,
            |whole| {
                found = Some(whole)
                    .filter(|whole| whole.header.has_position() && whole.header.index >= index_min);
                found.is_none()
            },
        );
        match searched {
            Ok(()) => {}
            Err(error) if is_damage(&error) => {}
            Err(error) => return Err(error),
        }
        self.offset = found.map_or(self.end, |whole| whole.offset);
        Ok(found.map(|whole| whole.header))
    }

    /// The header of the next record, for a caller that doesn't need the body: from the map, without copying a window.
    fn small_header(&mut self) -> Result<record::Header> {
        let found = self
            .map
            .as_deref()
            .and_then(|map| self.segment.header_in_map(map, self.offset, self.end));
        found.map_or_else(|| self.header(), Ok)
    }

    #[inline]
    fn frame(&mut self) -> Result<Frame> {
        let header = self.header()?;
        let body_start = self.offset + record::HEADER_BYTES as u64;
        let body = self.fetch(body_start, header.padded_body_bytes() as u64)?;
        self.segment
            .checked(self.offset, header, self.window.bytes.slice(body))
    }

    fn header(&mut self) -> Result<record::Header> {
        let wanted = (record::HEADER_BYTES as u64).min(self.end.saturating_sub(self.offset));
        let header = self.fetch(self.offset, wanted)?;
        self.segment
            .header_in(&self.window.bytes[header], self.offset, self.end)
    }

    /// Has these bytes in the window, and says where in it.
    #[inline]
    fn fetch(&mut self, offset: u64, length: u64) -> Result<Range<usize>> {
        if let Some(range) = self.window.range(offset, length) {
            return Ok(range);
        }
        let left = self.end.saturating_sub(offset);
        self.ask_ahead(offset);
        let bytes = match self.copied(offset, length, left) {
            Some(bytes) => bytes,
            None => {
                let ahead = length.max(self.read_ahead.min(left));
                // An unreadable byte in the readahead must not hide the record itself.
                let bytes = self.segment.bytes_at(offset, ahead);
                if ahead > length {
                    bytes.or_else(|_| self.segment.bytes_at(offset, length))?
                } else {
                    bytes?
                }
            }
        };
        self.window.bytes = bytes;
        self.window.start = offset;
        self.window
            .range(offset, length)
            .ok_or_else(|| self.segment.damaged(offset, "the file ends here"))
    }

    /// Prefetches from the device what a sequential reader needs next.
    fn ask_ahead(&mut self, offset: u64) {
        let is_sequential = self.read_ahead == READ_AHEAD_BYTES;
        let Some(map) = self.map.as_deref().filter(|_| is_sequential) else {
            return;
        };
        let wanted = (offset + ASK_AHEAD_BYTES).min(self.end);
        let asked = self.window.asked.max(offset);
        if wanted >= asked + ASK_STEP_BYTES || (wanted == self.end && wanted > asked) {
            map.will_need_all(asked, wanted - asked);
            self.window.asked = wanted;
        }
    }

    /// A window copied from the map, into the memory of the previous window if no record still references it. A record
    /// larger than a window is read from the file instead, which costs less than copying.
    fn copied(&mut self, offset: u64, length: u64, left: u64) -> Option<Bytes> {
        let map = self.map.as_deref().filter(|_| length < COPY_BYTES_MAX)?;
        let wanted = (self.window.bytes.len() as u64 * 4).clamp(COPY_BYTES_MIN, COPY_BYTES_MAX);
        let wanted = usize::try_from(wanted.min(left).max(length)).ok()?;
        let before = std::mem::take(&mut self.window.bytes);
        let mut bytes = before.try_into_mut().unwrap_or_default();
        bytes.clear();
        map.append(offset, wanted, &mut bytes)
            .then(|| bytes.freeze())
    }
}

/// Whether an error means damage, which another read doesn't change.
pub(crate) fn is_damage(error: &Error) -> bool {
    error.kind() == ErrorKind::Damaged
}

/// The end of the bytes between two offsets that aren't zero; `from` when all are. `read` gives bytes from an offset, so many.
///
/// From the front, although what isn't zero stands there: nearly all of it is read anyway, and the operating system reads ahead
/// only forwards. Of 32 MiB that aren't in memory that is half of the time.
pub(crate) fn last_nonzero(
    from: u64,
    to: u64,
    read: impl Fn(u64, u64) -> Result<Bytes>,
) -> Result<u64> {
    let (mut offset, mut last) = (from, from);
    while offset < to {
        let piece = READ_AHEAD_BYTES.min(to - offset);
        let bytes = read(offset, piece)?;
        if let Some(index) = last_nonzero_byte(&bytes) {
            last = offset + index as u64 + 1;
        }
        offset += piece;
    }
    Ok(last)
}

fn last_nonzero_byte(bytes: &[u8]) -> Option<usize> {
    // Blocks first: free space is tens of megabytes long.
    let mut end = bytes.len();
    for block in bytes.rchunks(64) {
        if block.iter().fold(0, |all, byte| all | byte) != 0 {
            break;
        }
        end -= block.len();
    }
    bytes[..end].iter().rposition(|byte| *byte != 0)
}

/// A whole record found beyond a damaged place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub(crate) offset: u64,
    pub(crate) header: record::Header,
}

/// How many bytes a search may read of bodies that turn out to be none: a hostile file could contain headers
/// everywhere, each with a body up to the end of the file.
pub(crate) struct SearchBudget(u64);

impl SearchBudget {
    /// Enough for any file that an accident damaged.
    pub(crate) fn of(file_bytes: u64) -> Self {
        Self(file_bytes.saturating_mul(4))
    }
}

/// Searches for whole records from `offset` on, at every aligned offset before `starts_before`, that end before `end`:
/// a record may end in zeros, after the last nonzero byte. Calls `visit` with each, which decides whether to continue.
///
/// # Errors
/// [`Damaged`](crate::ErrorKind::Damaged) when the budget is used up.
pub(crate) fn search(
    segment: &Segment,
    mut offset: u64,
    starts_before: u64,
    end: u64,
    budget: &mut SearchBudget,
    mut visit: impl FnMut(Found) -> bool,
) -> Result<()> {
    offset = offset
        .max(segment::HEADER_BYTES as u64)
        .next_multiple_of(aligned(1) as u64);
    let mut window = Bytes::new();
    let mut window_start = offset;
    while offset < starts_before && offset + record::HEADER_BYTES as u64 <= end {
        let window_end = window_start + window.len() as u64;
        if offset + record::HEADER_BYTES as u64 > window_end {
            window = segment.bytes_at(offset, READ_AHEAD_BYTES.min(end - offset))?;
            window_start = offset;
        }
        let at = usize::try_from(offset - window_start).expect("the window is in memory");
        if let Some(zeros) = whole_zero_units(&window[at..]) {
            offset += zeros;
            continue;
        }
        let bytes = window[at..]
            .first_chunk()
            .expect("the window was just refilled");
        let header = record::Header::decode(bytes, segment.seed, offset)
            .filter(|header| header.frame_bytes() <= end - offset);
        let whole = match header {
            Some(header) => {
                let body_start = offset + record::HEADER_BYTES as u64;
                budget.0 = budget.0.checked_sub(header.frame_bytes()).ok_or_else(|| {
                    segment.damaged(
                        offset,
                        "too many false record headers to tell what is a record from here on",
                    )
                })?;
                let body = segment.bytes_at(body_start, header.padded_body_bytes() as u64)?;
                match segment.checked(offset, header, body) {
                    Ok(_) => Some(header),
                    Err(error) if error.kind() == ErrorKind::Damaged => None,
                    Err(error) => return Err(error),
                }
            }
            None => None,
        };
        match whole {
            Some(header) => {
                // The bytes of a whole record don't count against the budget.
                budget.0 = budget.0.saturating_add(header.frame_bytes());
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

/// How many bytes, a multiple of the alignment and at least a block, are zero from here on, where no record can begin.
pub(crate) fn whole_zero_units(bytes: &[u8]) -> Option<u64> {
    const BLOCK: usize = 64;
    let blocks = bytes
        .chunks_exact(BLOCK)
        .take_while(|block| block.iter().fold(0, |all, byte| all | byte) == 0)
        .count();
    // A record's header has a byte that isn't zero among its first 16, so one may begin in the last block only.
    blocks
        .checked_sub(1)
        .filter(|blocks| *blocks > 0)
        .map(|blocks| (blocks * BLOCK) as u64)
}
