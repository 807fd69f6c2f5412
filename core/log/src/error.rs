//! [`Error`]: what went wrong, where, and a coarse [`ErrorKind`] that tells the caller what to do.

use std::{fmt, io, sync::Arc};

/// The result of an operation on a log.
pub type Result<T> = std::result::Result<T, Error>;

/// What the caller can do about an [`Error`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The argument is refused; change it. Nothing was written.
    InvalidInput,
    /// Over a documented limit; make it smaller. Nothing was written.
    TooLarge,
    /// The store, stream, position, session, run or other object doesn't exist.
    NotFound,
    /// It exists already, or its id was used before. Nothing was written.
    AlreadyExists,
    /// More than one object matches; be more precise.
    Ambiguous,
    /// The last sequence isn't the expected one; read again, then decide. Nothing was written.
    Conflict,
    /// The run isn't in a status that allows it: it has ended, or isn't paused. Nothing was written.
    WrongStatus,
    /// A budget of steps is spent, one run's or the total, or a bound is reached: nesting depth, or concurrent work.
    /// Nothing was written, except the pause that the call reports.
    LimitReached,
    /// Another process (or another handle of this one) has the store open for writing.
    Locked,
    /// The store was opened for reading, or is on a file system that is mounted for reading only.
    ReadOnly,
    /// The operating system doesn't allow this process to read or write a file; change the permissions, or the account.
    PermissionDenied,
    /// No space is left on the device. Nothing acknowledged is lost; free some space.
    StorageFull,
    /// The operating system or the backend refused or failed an operation.
    Io,
    /// Bytes that were durable are damaged, or decode to a value that this build never writes; verify, then restore or
    /// repair.
    Damaged,
    /// A version of the format or of a schema that this build doesn't know; use a newer one.
    UnsupportedVersion,
    /// The folder holds something else, not a store.
    NotAStore,
    /// The backend of this store can't do this; the message names the call.
    Unsupported,
    /// A write failed while this call was in progress: its records may or may not exist after reopening.
    OutcomeUnknown,
    /// An earlier write failed, so the store refuses appends until it is reopened.
    Poisoned,
    /// The store was closed.
    Closed,
}

impl ErrorKind {
    /// A stable name in snake_case, the same in the command line's output and in JavaScript.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InvalidInput => "invalid_input",
            Self::TooLarge => "too_large",
            Self::NotFound => "not_found",
            Self::AlreadyExists => "already_exists",
            Self::Ambiguous => "ambiguous",
            Self::Conflict => "conflict",
            Self::WrongStatus => "wrong_status",
            Self::LimitReached => "limit_reached",
            Self::Locked => "locked",
            Self::ReadOnly => "read_only",
            Self::PermissionDenied => "permission_denied",
            Self::StorageFull => "storage_full",
            Self::Io => "io",
            Self::Damaged => "damaged",
            Self::UnsupportedVersion => "unsupported_version",
            Self::NotAStore => "not_a_store",
            Self::Unsupported => "unsupported",
            Self::OutcomeUnknown => "outcome_unknown",
            Self::Poisoned => "poisoned",
            Self::Closed => "closed",
        }
    }
}

impl ErrorKind {
    /// Every kind.
    const ALL: [Self; 20] = [
        Self::InvalidInput,
        Self::TooLarge,
        Self::NotFound,
        Self::AlreadyExists,
        Self::Ambiguous,
        Self::Conflict,
        Self::WrongStatus,
        Self::LimitReached,
        Self::Locked,
        Self::ReadOnly,
        Self::PermissionDenied,
        Self::StorageFull,
        Self::Io,
        Self::Damaged,
        Self::UnsupportedVersion,
        Self::NotAStore,
        Self::Unsupported,
        Self::OutcomeUnknown,
        Self::Poisoned,
        Self::Closed,
    ];

    /// The kind of this [name](Self::name).
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// The error of every operation: a [kind](Error::kind), a message that names what and where, and the source where there
/// is one.
///
/// ```
/// use runlog_log::{Error, ErrorKind};
///
/// let error = Error::from_io(std::io::ErrorKind::StorageFull.into(), "writing 00000001.seg");
/// assert_eq!(error.kind(), ErrorKind::StorageFull);
/// assert_eq!(error.to_string(), "writing 00000001.seg: no storage space; free some space on the disk, then try again");
/// ```
#[derive(Clone)]
pub struct Error {
    inner: Arc<Inner>,
}

struct Inner {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of `kind` that says `message`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            inner: Arc::new(Inner {
                kind,
                message: message.into(),
                source: None,
            }),
        }
    }

    /// An error of `kind` that says `message`, and what it came from.
    pub fn with_source(
        kind: ErrorKind,
        message: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                kind,
                message: message.into(),
                source: Some(source.into()),
            }),
        }
    }

    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// An operating system's error from doing `what`, with its kind derived from the source.
    pub fn from_io(source: io::Error, what: impl fmt::Display) -> Self {
        let kind = match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::StorageFull,
            io::ErrorKind::ReadOnlyFilesystem => ErrorKind::ReadOnly,
            io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
            _ => ErrorKind::Io,
        };
        let advice = match kind {
            ErrorKind::StorageFull => "; free some space on the disk, then try again",
            _ => "",
        };
        let message = format!("{what}: {source}{advice}");
        Self::with_source(kind, message, source)
    }

    /// An error of [`ErrorKind::InvalidInput`].
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidInput, message)
    }

    /// An error of [`ErrorKind::TooLarge`].
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::TooLarge, message)
    }

    /// An error of [`ErrorKind::NotFound`].
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// An error of [`ErrorKind::Damaged`].
    pub fn damaged(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Damaged, message)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.inner.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.inner.kind)
            .field("message", &self.inner.message)
            .finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.inner.source.as_ref().map(|source| &**source as _)
    }
}

/// Errors are equal when kind and message are equal; the source is not compared.
impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        (self.inner.kind, &self.inner.message) == (other.inner.kind, &other.inner.message)
    }
}

impl Eq for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_by_the_system_is_told_apart_from_a_medium_that_takes_no_writes() {
        let of = |kind: io::ErrorKind| Error::from_io(kind.into(), "open it").kind();
        assert_eq!(
            of(io::ErrorKind::PermissionDenied),
            ErrorKind::PermissionDenied
        );
        assert_eq!(of(io::ErrorKind::ReadOnlyFilesystem), ErrorKind::ReadOnly);
        assert_eq!(of(io::ErrorKind::QuotaExceeded), ErrorKind::StorageFull);
        assert_eq!(of(io::ErrorKind::Other), ErrorKind::Io);
    }
}
