//! Where sessions, instances and runs are kept, and what is appended there.

use runlog_log::{Expected, Kind, NewRecord, Op, StreamId};
use runlog_model::{EncodedMeta, InstanceId, NewContextEvent, RunId, SessionId};

/// The stream that an instance's context is kept in.
pub(crate) fn context_stream(instance: InstanceId) -> StreamId {
    StreamId(instance.as_uuid())
}

/// The stream that tells of a run, and of its flow.
pub(crate) fn run_stream(run: RunId) -> StreamId {
    StreamId(run.as_uuid())
}

/// The stream that a chat's messages and steps are kept in: the session's own.
pub(crate) fn chat_stream(session: SessionId) -> StreamId {
    StreamId(session.as_uuid())
}

/// Events of a context with their encoded metadata, as records of its stream.
pub(crate) fn context_records<'a>(
    events: &'a [NewContextEvent],
    metas: &'a [EncodedMeta],
) -> Vec<NewRecord<'a>> {
    let record = |(event, encoded): (&'a NewContextEvent, &'a EncodedMeta)| NewRecord {
        labels: &encoded.labels,
        kind: Kind(event.kind.byte()),
        meta: &encoded.meta,
        payload: event.content.as_bytes(),
    };
    events.iter().zip(metas).map(record).collect()
}

/// Appends records to a stream, however many it has.
pub(crate) fn append<'a>(stream: StreamId, records: Vec<NewRecord<'a>>) -> Op<'a> {
    Op::Append {
        stream,
        expected: Expected::Any,
        records,
    }
}
