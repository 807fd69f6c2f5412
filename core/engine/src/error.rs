//! [`Error`]: what went wrong, where, and a coarse [`ErrorKind`] that tells the caller what to do.

use std::{fmt, io};

/// The result of an engine operation.
pub type Result<T> = std::result::Result<T, Error>;

/// What the caller can do about an [`Error`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The argument is refused; change it. Nothing was written.
    InvalidInput,
    /// Over a documented limit; make it smaller. Nothing was written.
    TooLarge,
    /// No such stream, position or store.
    NotFound,
    /// The stream exists already, or was deleted and its id can't be used again.
    AlreadyExists,
    /// The stream's last sequence isn't the expected one; read it again, then decide. Nothing was written.
    Conflict,
    /// Another process (or another handle of this one) has the store open for writing.
    Locked,
    /// The store or the folder can't be written to.
    ReadOnly,
    /// No space is left on the device. Nothing acknowledged is lost; free some space.
    StorageFull,
    /// The operating system refused or failed an operation.
    Io,
    /// Bytes that were durable are damaged; verify, then restore or repair.
    Damaged,
    /// A format version this build doesn't know.
    UnsupportedVersion,
    /// The folder holds something else, not a store.
    NotAStore,
    /// A write or flush failed while this was under way: it may or may not be there after reopening.
    OutcomeUnknown,
    /// An earlier write or flush failed, so the store refuses appends until it is reopened.
    Poisoned,
    /// The store was closed.
    Closed,
}

impl ErrorKind {
    /// A stable name in snake_case, the same in the CLI, HTTP and JavaScript.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InvalidInput => "invalid_input",
            Self::TooLarge => "too_large",
            Self::NotFound => "not_found",
            Self::AlreadyExists => "already_exists",
            Self::Conflict => "conflict",
            Self::Locked => "locked",
            Self::ReadOnly => "read_only",
            Self::StorageFull => "storage_full",
            Self::Io => "io",
            Self::Damaged => "damaged",
            Self::UnsupportedVersion => "unsupported_version",
            Self::NotAStore => "not_a_store",
            Self::OutcomeUnknown => "outcome_unknown",
            Self::Poisoned => "poisoned",
            Self::Closed => "closed",
        }
    }
}

/// An engine error: a [kind](Error::kind), a message that names what and where, and the source where there is one.
#[derive(Clone)]
pub struct Error {
    inner: std::sync::Arc<Inner>,
}

struct Inner {
    kind: ErrorKind,
    message: String,
    source: Option<io::Error>,
}

impl Error {
    /// An error of `kind` that says `message`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { inner: std::sync::Arc::new(Inner { kind, message: message.into(), source: None }) }
    }

    /// An I/O error met while doing `what`, with its kind told from the source.
    pub fn from_io(source: io::Error, what: impl fmt::Display) -> Self {
        let kind = match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::StorageFull,
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => ErrorKind::ReadOnly,
            _ => ErrorKind::Io,
        };
        let message = format!("{what}: {source}");
        Self { inner: std::sync::Arc::new(Inner { kind, message, source: Some(source) }) }
    }

    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.inner.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error").field("kind", &self.inner.kind).field("message", &self.inner.message).finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.inner.source.as_ref().map(|source| source as _)
    }
}
