//! [`Error`]: what went wrong, where, and a coarse [`ErrorKind`] that tells the caller what to do.

use std::{fmt, sync::Arc};

/// The result of a runlog operation.
pub type Result<T> = std::result::Result<T, Error>;

/// What the caller can do about an [`Error`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The argument is refused; change it. Nothing was written.
    InvalidInput,
    /// Over a documented limit; make it smaller. Nothing was written.
    TooLarge,
    /// No such session, instance, event or store.
    NotFound,
    /// It exists already, or its id was used before. Nothing was written.
    AlreadyExists,
    /// More than one thing fits; be more precise.
    Ambiguous,
    /// The last sequence isn't the expected one; read again, then decide. Nothing was written.
    Conflict,
    /// The run isn't in a status that allows it: it has ended, or isn't paused. Nothing was written.
    WrongStatus,
    /// A budget is spent, of steps or of all steps together, or a bound is reached: too deep, or too much at one
    /// time. Nothing was written, but for the pause that the call tells of.
    LimitReached,
    /// Another process (or another handle of this one) has the store open for writing.
    Locked,
    /// The store or the folder can't be written to.
    ReadOnly,
    /// No space is left on the device. Nothing acknowledged is lost; free some space.
    StorageFull,
    /// The operating system or the backend refused or failed an operation.
    Io,
    /// Bytes that were durable are damaged; verify, then restore or repair.
    Damaged,
    /// A format version this build doesn't know; use a newer one.
    UnsupportedVersion,
    /// The folder holds something else, not a store.
    NotAStore,
    /// A write failed while this was under way: it may or may not be there after reopening.
    OutcomeUnknown,
    /// An earlier write failed, so the store refuses appends until it is reopened.
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
            Self::Ambiguous => "ambiguous",
            Self::Conflict => "conflict",
            Self::WrongStatus => "wrong_status",
            Self::LimitReached => "limit_reached",
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

/// The error of every runlog operation: a [kind](Error::kind), a message that names what and where, and the
/// source where there is one.
///
/// ```
/// use runlog::{ErrorKind, InstanceId, Store};
///
/// let store = Store::in_memory();
/// let nobody: InstanceId = "0198c7e0-0000-7000-8000-000000000000".parse()?;
/// let error = store.context(nobody).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::NotFound);
/// # Ok::<(), runlog::Error>(())
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
        Self { inner: Arc::new(Inner { kind, message: message.into(), source: None }) }
    }

    /// An error of `kind` that says `message`, and what it came from.
    pub fn with_source(
        kind: ErrorKind,
        message: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { inner: Arc::new(Inner { kind, message: message.into(), source: Some(source.into()) }) }
    }

    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidInput, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
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
        self.inner.source.as_ref().map(|source| &**source as _)
    }
}

impl From<runlog_engine::Error> for Error {
    fn from(error: runlog_engine::Error) -> Self {
        use runlog_engine::ErrorKind as Engine;
        let kind = match error.kind() {
            Engine::InvalidInput => ErrorKind::InvalidInput,
            Engine::TooLarge => ErrorKind::TooLarge,
            Engine::NotFound => ErrorKind::NotFound,
            Engine::AlreadyExists => ErrorKind::AlreadyExists,
            Engine::Conflict => ErrorKind::Conflict,
            Engine::Locked => ErrorKind::Locked,
            Engine::ReadOnly => ErrorKind::ReadOnly,
            Engine::StorageFull => ErrorKind::StorageFull,
            Engine::Damaged => ErrorKind::Damaged,
            Engine::UnsupportedVersion => ErrorKind::UnsupportedVersion,
            Engine::NotAStore => ErrorKind::NotAStore,
            Engine::OutcomeUnknown => ErrorKind::OutcomeUnknown,
            Engine::Poisoned => ErrorKind::Poisoned,
            Engine::Closed => ErrorKind::Closed,
            _ => ErrorKind::Io,
        };
        let message = error.to_string();
        match std::error::Error::source(&error) {
            Some(_) => Self::with_source(kind, message, error),
            None => Self::new(kind, message),
        }
    }
}

impl From<runlog_model::Error> for Error {
    fn from(error: runlog_model::Error) -> Self {
        use runlog_model::ErrorKind as Model;
        let kind = match error.kind() {
            Model::InvalidInput => ErrorKind::InvalidInput,
            Model::TooLarge => ErrorKind::TooLarge,
            Model::UnsupportedVersion => ErrorKind::UnsupportedVersion,
            _ => ErrorKind::Damaged,
        };
        Self::new(kind, error.to_string())
    }
}
