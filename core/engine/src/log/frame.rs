//! [`Frame`]: one record as it lies in a segment, and how it is read and checked.
//!
//! Everything read is an immutable copy, checked after it was made. Small records of sealed segments are copied from
//! the file's memory map if there is one; a record that doesn't check there is read again from the file, which decides.

use bytes::{Buf, Bytes};

use super::{arena::Arena, segment::Segment};
use crate::{
    ErrorKind, Label, Result, checksum,
    format::{extension, newer, record, segment},
    storage::Map,
};

/// How many bytes the first read of a record takes; a longer record takes a second read.
pub(crate) const READ_BYTES: u64 = 4096;
/// From this size on a record's body is read into memory of its own: one call costs less than the copy then.
const LARGE_BYTES: usize = 64 << 10;

/// One record as it lies in a segment; its body's CRC was found right.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) offset: u64,
    pub(crate) header: record::Header,
    /// Without its padding.
    pub(crate) body: Bytes,
}

impl Frame {
    /// The offset after this record.
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.header.frame_bytes()
    }

    /// The metadata and the payload.
    pub(crate) fn parts(&self) -> Option<(Bytes, Bytes)> {
        let ranges = record::BodyRanges::decode(self.header.flags, &self.body)?;
        Some((
            self.body.slice(ranges.meta.0..ranges.meta.1),
            self.body.slice(ranges.payload.0..ranges.payload.1),
        ))
    }

    /// As [`parts`](Self::parts), consuming the record: the payload reuses the body's reference, which saves a
    /// reference count up and down, most of the cost of a small record in a sequential read.
    #[inline]
    pub(crate) fn into_parts(self) -> Option<(Bytes, Bytes)> {
        let ranges = record::BodyRanges::decode(self.header.flags, &self.body)?;
        let meta = match ranges.meta {
            (start, end) if start == end => Bytes::new(),
            (start, end) => self.body.slice(start..end),
        };
        let mut payload = self.body;
        payload.advance(ranges.payload.0);
        Some((meta, payload))
    }

    /// The critical feature of the record that this build doesn't know, if any.
    pub(crate) fn unknown(&self) -> Option<String> {
        self.header
            .unknown()
            .or_else(|| unknown_field(&self.header, &self.body))
    }

    /// Whether some build, this or a newer one, can have written its extension fields.
    pub(crate) fn has_possible_extension(&self) -> bool {
        !self.header.flags.has(record::Flags::EXTENDED)
            || extension::check(&self.body) != Err(extension::Fault::Impossible)
                && self.header.kind.is_data()
    }

    /// Its labels.
    pub(crate) fn labels(&self) -> impl Iterator<Item = Label> + '_ {
        let is_extended = self.header.flags.has(record::Flags::EXTENDED);
        extension::labels(if is_extended { &self.body } else { &[] })
    }

    /// The idempotency key, empty for none.
    pub(crate) fn key(&self) -> Option<&[u8]> {
        record::Body::decode(self.header.flags, &self.body).map(|body| body.key)
    }
}

impl Segment {
    /// The record at an offset from the index; `end` is the end of the known records.
    pub(crate) fn frame(&self, offset: u64, end: u64) -> Result<Frame> {
        self.frame_in(self.first_bytes(offset, end)?, offset, end)
    }

    /// The bytes that the first read of a record takes: its header at least.
    pub(crate) fn first_bytes(&self, offset: u64, end: u64) -> Result<Bytes> {
        self.check_start(offset, end)?;
        let bytes = READ_BYTES.min(end - offset);
        let error = match self.bytes_at(offset, bytes) {
            Err(error)
                if error.kind() == ErrorKind::Damaged && self.spans_blocks(offset, bytes) =>
            {
                error
            }
            bytes => return bytes,
        };
        // A record of a pack that ends before the next block, which is damaged, is whole.
        let header = self.bytes_at(offset, record::HEADER_BYTES as u64)?;
        match self.header_in(&header, offset, end) {
            Ok(header) if header.frame_bytes() < READ_BYTES => {
                self.bytes_at(offset, header.frame_bytes())
            }
            _ => Err(error),
        }
    }

    /// As [`frame`](Self::frame), from the map of the segment into an arena. `None` if it isn't whole there:
    /// [`frame`](Self::frame) then returns the error.
    pub(crate) fn frame_in_map(
        &self,
        map: &dyn Map,
        offset: u64,
        end: u64,
        arena: &mut Arena,
    ) -> Option<Frame> {
        self.check_start(offset, end).ok()?;
        let header = self.header_in_map(map, offset, end)?;
        let (start, bytes) = (
            offset + record::HEADER_BYTES as u64,
            header.padded_body_bytes(),
        );
        let body = if bytes < LARGE_BYTES {
            arena.add(bytes, |to| map.append(start, bytes, to))?
        } else {
            self.bytes_at(start, bytes as u64).ok()?
        };
        self.checked(offset, header, body).ok()
    }

    /// The header of the record at an offset, from the map.
    pub(crate) fn header_in_map(
        &self,
        map: &dyn Map,
        offset: u64,
        end: u64,
    ) -> Option<record::Header> {
        let mut bytes = [0; record::HEADER_BYTES];
        if !map.copy(offset, &mut bytes) {
            return None;
        }
        self.header_in(&bytes, offset, end).ok()
    }

    /// As [`frame`](Self::frame), where `bytes`, read at the offset, have at least the record's header.
    pub(crate) fn frame_in(&self, bytes: Bytes, offset: u64, end: u64) -> Result<Frame> {
        self.check_start(offset, end)?;
        let header = self.header_in(&bytes, offset, end)?;
        let body_bytes = header.padded_body_bytes();
        let whole = record::HEADER_BYTES + body_bytes;
        let body = if whole <= bytes.len() {
            bytes.slice(record::HEADER_BYTES..whole)
        } else {
            self.bytes_at(offset + record::HEADER_BYTES as u64, body_bytes as u64)?
        };
        self.checked(offset, header, body)
    }

    fn check_start(&self, offset: u64, end: u64) -> Result<()> {
        if offset < segment::HEADER_BYTES as u64
            || end.saturating_sub(offset) < record::HEADER_BYTES as u64
        {
            return Err(self.damaged(
                offset,
                format!("no record can begin here: records end at {end}"),
            ));
        }
        Ok(())
    }

    /// The header that `bytes`, read at `offset`, begin with.
    #[inline]
    pub(crate) fn header_in(&self, bytes: &[u8], offset: u64, end: u64) -> Result<record::Header> {
        let header = bytes
            .first_chunk()
            .and_then(|bytes| record::Header::decode(bytes, self.seed, offset))
            .ok_or_else(|| {
                let found = &bytes[..bytes.len().min(record::HEADER_BYTES)];
                self.damaged(offset, no_header(found))
            })?;
        if header.frame_bytes() > end.saturating_sub(offset) {
            let message = format!(
                "the record is {} bytes long, but records end at {end}",
                header.frame_bytes()
            );
            return Err(self.damaged(offset, message));
        }
        Ok(header)
    }

    /// The record of a header and its body, which comes with its padding, once the CRC is right.
    #[inline]
    pub(crate) fn checked(
        &self,
        offset: u64,
        header: record::Header,
        mut body: Bytes,
    ) -> Result<Frame> {
        self.check(offset, &header, &body)?;
        body.truncate(header.body_bytes as usize);
        Ok(Frame {
            offset,
            header,
            body,
        })
    }

    /// Checks that a body, given with its padding, belongs to a header, and that neither needs a newer build.
    #[inline]
    pub(crate) fn check(&self, offset: u64, header: &record::Header, body: &[u8]) -> Result<()> {
        let crc = checksum::crc(body);
        if crc != header.body_crc {
            let message = format!("record CRC is {crc:08x}, expected {:08x}", header.body_crc);
            return Err(self.damaged(offset, message));
        }
        if let Some(unknown) = header.unknown() {
            return Err(newer(&format!("{}: offset {offset}", self.name), &unknown));
        }
        match unknown_field(
            header,
            body.get(..header.body_bytes as usize).unwrap_or(body),
        ) {
            None => Ok(()),
            Some(unknown) => Err(newer(&format!("{}: offset {offset}", self.name), &unknown)),
        }
    }
}

/// What this build doesn't know of a record's extension fields; the body comes without its padding.
#[inline]
fn unknown_field(header: &record::Header, body: &[u8]) -> Option<String> {
    let is_extended = header.flags.has(record::Flags::EXTENDED);
    match is_extended.then(|| extension::check(body))? {
        Err(extension::Fault::Unknown(what)) => Some(what),
        Ok(()) | Err(extension::Fault::Impossible) => None,
    }
}

/// What is wrong with bytes that should be the header of a record, and aren't.
pub(crate) fn no_header(found: &[u8]) -> String {
    let hex: String = found.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("expected a record header of this segment, found {hex}")
}
