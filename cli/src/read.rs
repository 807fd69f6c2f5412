//! Reading streams and the log.

use runlog::{
    ErrorKind, InstanceId, Session,
    blocking::Store,
    log::{Position, ReadOptions, Record, Sequence, StreamId},
};

use crate::failure::Result;

/// How many events an instance has.
pub(crate) fn event_count(store: &Store, instance: InstanceId) -> Result<u64> {
    let info = pollster::block_on(store.backend().stream(StreamId(instance.as_uuid())))?;
    Ok(info.map_or(0, |info| info.last_sequence.0))
}

/// Whether a session has the messages of a chat, and no agent that has a context.
pub(crate) fn is_only_chat(store: &Store, session: &Session) -> Result<bool> {
    if !store.instances(session.id)?.is_empty() {
        return Ok(false);
    }
    let id = session.id.to_string();
    Ok(store.chats().count_messages(&id, &Default::default())? > 0)
}

/// How many events an instance shares with what it is a copy of, if it has no others.
pub(crate) fn inherited_count(store: &Store, instance: InstanceId) -> Result<Option<u64>> {
    let (stream, count) = (StreamId(instance.as_uuid()), event_count(store, instance)?);
    let options = ReadOptions {
        first: Sequence(count),
        limit: 1,
        ..ReadOptions::default()
    };
    if count == 0 {
        return Ok(Some(0));
    }
    let page = pollster::block_on(store.backend().read(stream, options))?;
    let is_shared = |record: &Record| record.stream != stream;
    Ok(page.records.first().is_some_and(is_shared).then_some(count))
}

/// The records of a stream in order, a page at a time; none when there is no such stream.
pub(crate) fn records(store: &Store, stream: StreamId) -> impl Iterator<Item = Result<Record>> {
    let mut next = Some(Sequence::FIRST);
    let mut page = Vec::new().into_iter();
    std::iter::from_fn(move || {
        loop {
            if let Some(record) = page.next() {
                return Some(Ok(record));
            }
            let options = ReadOptions {
                first: next?,
                ..ReadOptions::default()
            };
            match pollster::block_on(store.backend().read(stream, options)) {
                Ok(read) => {
                    next = read.next.filter(|_| !read.records.is_empty());
                    page = read.records.into_iter();
                }
                Err(error) => {
                    next = None;
                    return (error.kind() != ErrorKind::NotFound).then(|| Err(error.into()));
                }
            }
        }
    })
}

/// The last position of the log that is durable.
pub(crate) fn last_position(store: &Store) -> Result<Position> {
    Ok(pollster::block_on(
        store.backend().maintenance().last_position(),
    )?)
}
