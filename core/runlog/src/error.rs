//! [`Error`]: what went wrong, where, and a coarse [`ErrorKind`] that tells the caller what to do.

pub use runlog_engine::ErrorKind;

/// The result of a runlog operation.
pub type Result<T> = std::result::Result<T, Error>;

/// The error of every runlog operation. The engine's own, until this layer has kinds of its own.
pub use runlog_engine::Error;
