//! [`Check`]: verifies the bytes of a segment while they are copied or compared.
//!
//! It checks the very bytes that the backup gets, since a device may return other bytes at a second read.

use bytes::{Bytes, BytesMut};

use super::source::{Source, header};
use crate::{
    Error, Result,
    format::{
        index::{Block, TRAILER_BYTES, Trailer},
        record,
        segment::{COPIES, COPY_BYTES, DATA_START, HEADER_BYTES, Header},
    },
    log::{scan::is_damage, segment::Segment},
};

/// Takes the bytes of a segment in order, from the first one on.
pub(super) struct Check<'a> {
    source: &'a Source,
    /// Bytes not checked yet, because the record they belong to isn't complete.
    pending: BytesMut,
    /// Where that begins.
    offset: u64,
    damage: Option<Error>,
}

impl<'a> Check<'a> {
    pub(super) fn new(source: &'a Source) -> Self {
        Self {
            source,
            pending: BytesMut::new(),
            offset: 0,
            damage: None,
        }
    }

    /// Adds the next bytes. After the first damage nothing is checked any more.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        if self.damage.is_some() {
            return;
        }
        self.pending.extend_from_slice(bytes);
        if let Err(error) = self.advance() {
            self.fail(error);
        }
    }

    /// The first damage of the bytes that were taken.
    pub(super) fn finish(mut self) -> Option<Error> {
        if self.damage.is_none() && self.offset == self.source.data_end {
            let tail = self.pending.split().freeze();
            self.damage = check_tail(self.source, tail);
        }
        self.damage
    }

    fn fail(&mut self, error: Error) {
        self.damage = Some(error);
        self.pending = BytesMut::new();
    }

    /// Checks all that is whole: the header, then record by record.
    fn advance(&mut self) -> Result<()> {
        let (segment, data_end) = (&self.source.segment, self.source.data_end);
        loop {
            if self.offset < DATA_START {
                let Some(bytes) = self.next(HEADER_BYTES) else {
                    return Ok(());
                };
                check_header(segment, &bytes)?;
                continue;
            }
            let left = data_end.saturating_sub(self.offset);
            // The end of the records may leave less than a header's room; then its decoding fails.
            if left == 0 || (self.pending.len() as u64) < left.min(record::HEADER_BYTES as u64) {
                return Ok(());
            }
            let (offset, header) = (
                self.offset,
                segment.header_in(&self.pending, self.offset, data_end)?,
            );
            let Some(bytes) = self.next(record::HEADER_BYTES + header.padded_body_bytes()) else {
                return Ok(());
            };
            damage_of(segment.checked(offset, header, bytes.slice(record::HEADER_BYTES..)))?;
        }
    }

    /// The next `length` pending bytes, once they are all there.
    fn next(&mut self, length: usize) -> Option<Bytes> {
        let is_there = self.pending.len() >= length;
        is_there.then(|| {
            self.offset += length as u64;
            self.pending.split_to(length).freeze()
        })
    }
}

/// A newer build's record with a right CRC is not damage, and is copied as it is.
fn damage_of<T>(checked: Result<T>) -> Result<()> {
    match checked {
        Err(error) if is_damage(&error) => Err(error),
        _ => Ok(()),
    }
}

/// The damage of a copy of the header.
fn check_header(segment: &Segment, bytes: &[u8]) -> Result<()> {
    for start in COPIES {
        let copy = bytes
            .get(start..)
            .and_then(|rest| rest.first_chunk::<COPY_BYTES>());
        let copy = copy.ok_or_else(|| {
            segment.damaged(start as u64, "the file ends before this copy of the header")
        })?;
        match Header::decode_copy(copy, &segment.name, start) {
            Ok(header) if header != segment.header => {
                return Err(segment.damaged(
                    start as u64,
                    "this copy of the header says something else than the other",
                ));
            }
            Err(error) if is_damage(&error) => {
                return Err(segment.damaged(
                    start as u64,
                    format!("a copy of the header is damaged: {error}"),
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The damage of a segment's seal, its index block and trailer. A segment that a crash left unsealed has none.
pub(super) fn check_tail(source: &Source, mut bytes: Bytes) -> Option<Error> {
    let segment = &source.segment;
    let trailer = segment
        .trailer()
        .filter(|_| segment.has_block_in_file() && !bytes.is_empty())?;
    let block = bytes.split_to(bytes.len().saturating_sub(TRAILER_BYTES));
    let offset = source.data_end + block.len() as u64;
    let found = bytes
        .first_chunk()
        .map(|bytes| Trailer::decode(bytes, &segment.header, source.end));
    match found {
        Some(Ok(Some(found))) if found == *trailer => {}
        Some(Err(error)) if !is_damage(&error) => return None,
        _ => {
            return Some(segment.damaged(
                offset,
                "the trailer isn't the one that the segment was opened with",
            ));
        }
    }
    Block::check(block, *trailer, segment.seed, &segment.name)
        .err()
        .filter(is_damage)
}

impl Source {
    /// The first damage of a pack, all of which is read for it.
    pub(super) fn damage_of_pack(&self) -> Result<Option<Error>> {
        let header = header(&*self.file).map_err(|error| {
            Error::from_io(error, format!("reading the header of {}", self.name))
        })?;
        if let Err(error) = check_header(&self.segment, &header) {
            return Ok(Some(error));
        }
        if let Some(damaged) = self.segment.image().and_then(|image| image.damaged_table()) {
            return Ok(Some(self.segment.damaged(0, &damaged.why)));
        }
        let blocks = self.segment.image().map_or(0, |image| image.blocks());
        for place in 0..blocks {
            let read = self.segment.image().map(|image| image.read_block(place));
            match read {
                Some(Err(error)) if is_damage(&error) => return Ok(Some(error)),
                Some(Err(error)) => return Err(error),
                _ => {}
            }
        }
        Ok(None)
    }
}
