//! [`RecordRef`]: a borrowed record.

use bytes::Bytes;

use crate::{Kind, Position, Record, Sequence, StreamId};

/// A record borrowed from the read buffer, checked like every other. It is valid for the call it is passed to;
/// [`to_record`](Self::to_record) copies it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordRef<'a> {
    /// The stream it was appended to, also when it is read through a fork of that.
    pub stream: StreamId,
    /// Its number in its stream.
    pub sequence: Sequence,
    /// Its number in the log.
    pub position: Position,
    /// When it was appended, in milliseconds since 1970-01-01 UTC.
    pub time_ms: u64,
    /// Its kind.
    pub kind: Kind,
    /// Whether it was redacted: then metadata and payload are empty.
    pub redacted: bool,
    /// As [`Record::lost`].
    pub lost: bool,
    /// The metadata; empty for none.
    pub meta: &'a [u8],
    /// The payload.
    pub payload: &'a [u8],
}

impl RecordRef<'_> {
    /// An owned copy of the record.
    pub fn to_record(&self) -> Record {
        Record {
            stream: self.stream,
            sequence: self.sequence,
            position: self.position,
            time_ms: self.time_ms,
            kind: self.kind,
            redacted: self.redacted,
            lost: self.lost,
            meta: Bytes::copy_from_slice(self.meta),
            payload: Bytes::copy_from_slice(self.payload),
        }
    }
}
