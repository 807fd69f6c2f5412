//! The streams of sessions, instances and runs, and the records for them.

use runlog_log::{Expected, Kind, NewRecord, Op, StreamId};
use runlog_model::{EncodedMeta, InstanceId, NewContextEvent, RunId, SessionId};

/// The stream of an instance's context.
pub(crate) fn context_stream(instance: InstanceId) -> StreamId {
    StreamId(instance.as_uuid())
}

/// The stream of a run and its flow.
pub(crate) fn run_stream(run: RunId) -> StreamId {
    StreamId(run.as_uuid())
}

/// The stream of a chat's messages and steps: the session's own.
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

/// Appends records to a stream, without a condition on its length.
pub(crate) fn append<'a>(stream: StreamId, records: Vec<NewRecord<'a>>) -> Op<'a> {
    Op::Append {
        stream,
        expected: Expected::Any,
        records,
    }
}
