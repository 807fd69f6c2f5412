//! [`Page`]: records of the log that were read together, and lie in one piece of memory.

use std::{
    ops::{ControlFlow, Range},
    sync::Arc,
};

use bytes::Bytes;

use super::{place::position_in, published::durable::Durable, record_ref::RecordRef};
use crate::{
    Error, Position, Record, Result, Sequence, StreamId,
    format::record::BodyRanges,
    index::redacted::Redacted,
    log::{scan::Spot, segment::Segment},
};

/// Records of one segment, each lent or returned once, in order. Its memory is reused for the next page.
pub(super) struct Page {
    segment: Option<Arc<Segment>>,
    bytes: Bytes,
    spots: Vec<Spot>,
    /// The stream of each; `None` for one that was never created.
    streams: Vec<Option<StreamId>>,
    /// The next record.
    at: usize,
    redacted: Arc<Redacted>,
}

impl Page {
    pub(super) fn new(redacted: Arc<Redacted>) -> Self {
        Self {
            segment: None,
            bytes: Bytes::new(),
            spots: Vec::new(),
            streams: Vec::new(),
            at: 0,
            redacted,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.spots.len()
    }

    /// Whether no record is left.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.at >= self.spots.len()
    }

    /// Releases the memory, so that the next read can reuse it.
    pub(super) fn clear(&mut self) {
        self.spots.clear();
        self.streams.clear();
        self.at = 0;
        self.bytes = Bytes::new();
    }

    pub(super) fn push(&mut self, spot: Spot) {
        self.spots.push(spot);
    }

    /// Whether every one of these positions, which can't be read, is passed over.
    pub(super) fn passes_over(&self, mut positions: Range<u64>) -> bool {
        positions.all(|position| self.redacted.passes_over(position))
    }

    /// Completes the page: `bytes` holds its records. Their streams are looked up together.
    pub(super) fn settle(&mut self, durable: &Durable, segment: &Arc<Segment>, bytes: Bytes) {
        self.bytes = bytes;
        if !self
            .segment
            .as_ref()
            .is_some_and(|known| Arc::ptr_eq(known, segment))
        {
            self.segment = Some(segment.clone());
        }
        let directory = &durable.directory;
        if !Arc::ptr_eq(&self.redacted, directory.redacted()) {
            self.redacted = directory.redacted().clone();
        }
        let streams = self.spots.iter().map(|spot| {
            let stream = directory.stream(spot.header.stream);
            stream.map(|stream| stream.id)
        });
        self.streams.extend(streams);
    }

    /// The next record, owned.
    pub(super) fn take(&mut self) -> Option<Result<Record>> {
        let at = self.at;
        self.at += 1;
        let bytes = &self.bytes;
        Some(self.at(at)?.map(|(shown, body)| {
            // An empty slice needs no share of the piece.
            let part = |(start, end): (usize, usize)| match start == end {
                true => Bytes::new(),
                false => bytes.slice(start..end),
            };
            Record {
                stream: shown.stream,
                sequence: shown.sequence,
                position: shown.position,
                time_ms: shown.time_ms,
                kind: shown.kind,
                redacted: shown.redacted,
                lost: shown.lost,
                meta: part(body.meta),
                payload: part(body.payload),
            }
        }))
    }

    /// Lends the remaining records to `see`.
    #[inline]
    pub(super) fn show(
        &mut self,
        see: &mut impl FnMut(Result<RecordRef<'_>>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        for at in self.at..self.spots.len() {
            self.at = at + 1;
            if let Some(found) = self.at(at) {
                see(found.map(|(shown, _)| shown))?;
            }
        }
        ControlFlow::Continue(())
    }

    /// A record, and where its parts are.
    #[inline]
    fn at(&self, at: usize) -> Option<Result<(RecordRef<'_>, BodyRanges)>> {
        let (spot, stream) = (self.spots.get(at)?, *self.streams.get(at)?);
        let segment = self.segment.as_deref()?;
        let header = &spot.header;
        let damaged = |what: String| -> Error { segment.damaged(spot.offset, what) };
        let Some(stream) = stream else {
            let number = header.stream;
            return Some(Err(damaged(format!(
                "record of stream number {number}, which was never created"
            ))));
        };
        let position = position_in(segment, header);
        let redacted = self.redacted.contains(position);
        let mut ranges = BodyRanges::default();
        if !redacted {
            let body = self.bytes.get(spot.body.clone()).unwrap_or_default();
            match BodyRanges::decode(header.flags, body) {
                Some(found) => ranges = found.moved(spot.body.start),
                None => {
                    return Some(Err(damaged(
                        "the lengths in the record's body contradict each other".to_owned(),
                    )));
                }
            }
        }
        let part = |(start, end)| self.bytes.get(start..end).unwrap_or_default();
        let shown = RecordRef {
            stream,
            sequence: Sequence(u64::from(header.sequence)),
            position: Position(position),
            time_ms: segment.header.time_ms(header.time_delta_ms),
            kind: header.kind,
            redacted,
            lost: false,
            meta: part(ranges.meta),
            payload: part(ranges.payload),
        };
        Some(Ok((shown, ranges)))
    }
}
