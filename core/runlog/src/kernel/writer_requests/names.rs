//! The names of the files of requests: an id, and how far the request has come.

use std::io;

use uuid::Uuid;

/// The endings of a file's name: being written, posted, claimed by the writer, answered; locked by a process that claims.
pub(super) const WRITING: &str = "tmp";
pub(super) const POSTED: &str = "request";
pub(super) const CLAIMED: &str = "claimed";
pub(super) const ANSWERED: &str = "answer";
pub(super) const WRITER: &str = "writer";

/// What a file of the folder is.
pub(super) enum Entry {
    Writing(Uuid),
    Posted(Uuid),
    /// With who claimed it.
    Claimed(Uuid, Uuid),
    Answered(Uuid),
    Writer(Uuid),
}

impl Entry {
    /// `None` for what isn't ours: others name files by ids too.
    pub(super) fn of(name: &str) -> Option<Self> {
        let (id, rest) = name.split_once('.')?;
        let id = uuid_of(id)?;
        if let Some((by, CLAIMED)) = rest.split_once('.') {
            return Some(Self::Claimed(id, uuid_of(by)?));
        }
        match rest {
            WRITING => Some(Self::Writing(id)),
            POSTED => Some(Self::Posted(id)),
            ANSWERED => Some(Self::Answered(id)),
            WRITER => Some(Self::Writer(id)),
            _ => None,
        }
    }
}

/// An id in the one form that we write, so that the file is found by it again.
fn uuid_of(text: &str) -> Option<Uuid> {
    let id = Uuid::try_parse(text).ok()?;
    (id.to_string() == text).then_some(id)
}

pub(super) fn named(id: Uuid, ending: &str) -> String {
    format!("{id}.{ending}")
}

pub(super) fn claimed(id: Uuid, by: Uuid) -> String {
    format!("{id}.{by}.{CLAIMED}")
}

/// How long ago a request was posted, by its id: a UUID of version 7 begins with the milliseconds since 1970-01-01 UTC.
pub(super) fn age_ms(id: Uuid, now_ms: u64) -> u64 {
    now_ms.saturating_sub(id.as_u64_pair().0 >> 16)
}

/// `None` where there is no such file or folder.
pub(super) fn there<T>(done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
