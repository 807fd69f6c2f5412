//! Records as readers see them, made of the frames in the log.

use bytes::Bytes;

use super::{
    lost::is_lost, place::position_of, published::durable::Durable, record_ref::RecordRef,
};
use crate::{
    Error, Position, Record, Result, Sequence, StreamId,
    format::record,
    index::redacted::Redacted,
    log::{frame::Frame, segment::Segment},
};

/// The record of a frame, as readers see it; its stream id comes from the directory.
#[inline]
pub(crate) fn record_in(durable: &Durable, segment: &Segment, frame: Frame) -> Result<Record> {
    let number = frame.header.stream;
    let stream = durable
        .directory
        .stream(number)
        .map(|stream| stream.id)
        .ok_or_else(|| {
            segment.damaged(
                frame.offset,
                format!("record of stream number {number}, which was never created"),
            )
        })?;
    record(stream, durable.directory.redacted(), segment, frame)
}

/// The record of a frame of this stream.
#[inline]
pub(super) fn record(
    stream: StreamId,
    redacted: &Redacted,
    segment: &Segment,
    frame: Frame,
) -> Result<Record> {
    let header = frame.header;
    let position = position_of(segment, &frame);
    let is_erased = redacted.contains(position);
    let lost = !is_erased && is_lost(&frame);
    let redacted = is_erased || lost;
    let (meta, payload) = if redacted {
        Default::default()
    } else {
        parts(segment, frame)?
    };
    Ok(Record {
        stream,
        sequence: Sequence(u64::from(header.sequence)),
        position: Position(position),
        time_ms: segment.header.time_ms(header.time_delta_ms),
        kind: header.kind,
        redacted,
        lost,
        meta,
        payload,
    })
}

/// As [`record`], without a copy.
#[inline]
pub(super) fn show<'f>(
    stream: StreamId,
    redacted: &Redacted,
    segment: &Segment,
    frame: &'f Frame,
) -> Result<RecordRef<'f>> {
    let header = &frame.header;
    let position = position_of(segment, frame);
    let is_erased = redacted.contains(position);
    let lost = !is_erased && is_lost(frame);
    let redacted = is_erased || lost;
    let body = if redacted {
        record::Body::default()
    } else {
        record::Body::decode(header.flags, &frame.body)
            .ok_or_else(|| contradiction(segment, frame.offset))?
    };
    Ok(RecordRef {
        stream,
        sequence: Sequence(u64::from(header.sequence)),
        position: Position(position),
        time_ms: segment.header.time_ms(header.time_delta_ms),
        kind: header.kind,
        redacted,
        lost,
        meta: body.meta,
        payload: body.payload,
    })
}

/// The meta and the payload of a frame that wasn't redacted.
#[inline]
pub(crate) fn parts(segment: &Segment, frame: Frame) -> Result<(Bytes, Bytes)> {
    let offset = frame.offset;
    frame
        .into_parts()
        .ok_or_else(|| contradiction(segment, offset))
}

fn contradiction(segment: &Segment, offset: u64) -> Error {
    segment.damaged(
        offset,
        "the lengths in the record's body contradict each other",
    )
}
