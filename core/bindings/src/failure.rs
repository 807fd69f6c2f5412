//! [`Failure`]: the error that JavaScript gets when a call fails.

use std::{error::Error as _, fmt};

use runlog::ErrorKind;
use serde::Serialize;

use crate::names::message_in_javascript;

/// The result of a call.
pub type Result<T> = std::result::Result<T, Failure>;

/// An error as JavaScript gets it: a code in snake_case that says what to do, a message, and what it came from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Failure {
    /// The name of the [`ErrorKind`], or `internal` for a fault of Runlog's own.
    pub code: &'static str,
    /// What was wrong, where, and what to do.
    pub message: String,
    /// The messages of the errors below it, the nearest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<String>,
}

impl Failure {
    /// A failure of this kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            code: kind.name(),
            message: message.into(),
            causes: Vec::new(),
        }
    }

    /// An argument that is refused.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidInput, message)
    }

    /// A call on something that was closed.
    pub fn closed(what: &str) -> Self {
        Self::new(
            ErrorKind::Closed,
            format!("{what} is closed; open it again"),
        )
    }

    /// A panic: a bug in Runlog, which the process survives.
    pub fn panicked(panic: &(dyn std::any::Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_default();
        Self {
            code: "internal",
            message: format!("a fault in Runlog, please report it: {text}"),
            causes: Vec::new(),
        }
    }

    /// The failure as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("strings always have a JSON form")
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for Failure {}

impl From<runlog::Error> for Failure {
    fn from(error: runlog::Error) -> Self {
        let mut causes = Vec::new();
        let mut source = error.source();
        while let Some(cause) = source {
            causes.push(cause.to_string());
            source = cause.source();
        }
        // An error about an argument names its fields in the caller's spelling.
        let message = match error.kind() {
            ErrorKind::InvalidInput => message_in_javascript(&error.to_string()),
            _ => error.to_string(),
        };
        Self {
            code: error.kind().name(),
            message,
            causes,
        }
    }
}
