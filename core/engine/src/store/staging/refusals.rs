//! Why a batch is refused.

use crate::{Error, ErrorKind, Position, Sequence, StreamId};

pub(crate) fn not_found(id: &StreamId) -> Error {
    Error::not_found(format!("no stream {id}"))
}

pub(crate) fn deleted(id: &StreamId) -> Error {
    Error::not_found(format!("stream {id} was deleted; use a new id"))
}

pub(crate) fn already_exists(id: &StreamId) -> Error {
    Error::new(
        ErrorKind::AlreadyExists,
        format!("stream {id} exists already, or was deleted; use a new id"),
    )
}

pub(crate) fn conflict(id: &StreamId, expected: Sequence, found: &str) -> Error {
    Error::new(
        ErrorKind::Conflict,
        format!("stream {id}: expected last sequence {expected}, but it {found}"),
    )
}

pub(crate) fn conflict_at(id: &StreamId, expected: Position, found: &str) -> Error {
    let message =
        format!("stream {id}: expected its last record at position {expected}, but {found}");
    Error::new(ErrorKind::Conflict, message)
}
