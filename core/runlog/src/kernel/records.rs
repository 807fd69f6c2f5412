//! Where sessions, instances and runs are kept, and what is appended there.

use runlog_log::{Kind, NewRecord, StreamId};
use runlog_model::{
    EncodedCatalogEvent, EncodedRunEvent, InstanceId, NewContextEvent, RunId, SessionId,
};

/// The stream that an instance's context is kept in.
pub(crate) fn context_stream(instance: InstanceId) -> StreamId {
    StreamId(instance.as_uuid())
}

pub(crate) fn run_stream(run: RunId) -> StreamId {
    StreamId(run.as_uuid())
}

/// The stream that a chat's messages and steps are kept in: the session's own.
pub(crate) fn chat_stream(session: SessionId) -> StreamId {
    StreamId(session.as_uuid())
}

pub(crate) fn context_records<'a>(
    events: &'a [NewContextEvent],
    metas: &'a [Vec<u8>],
) -> Vec<NewRecord<'a>> {
    let record = |(event, meta): (&'a NewContextEvent, &'a Vec<u8>)| NewRecord {
        kind: Kind(event.kind.byte()),
        meta,
        payload: event.content.as_bytes(),
    };
    events.iter().zip(metas).map(record).collect()
}

pub(crate) fn run_record(event: &EncodedRunEvent) -> NewRecord<'_> {
    NewRecord {
        kind: Kind(event.kind),
        meta: &event.meta,
        payload: &event.payload,
    }
}

pub(crate) fn catalog_record(event: &EncodedCatalogEvent) -> NewRecord<'_> {
    NewRecord {
        kind: Kind(event.kind),
        meta: &event.meta,
        payload: &event.payload,
    }
}
