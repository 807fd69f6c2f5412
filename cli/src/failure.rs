//! [`Failure`]: why a command failed, and its exit code.

use std::{fmt, io, path::Path, process::ExitCode};

use runlog::ErrorKind;

/// How a command ended. The numbers are documented in `runlog --help` and stable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Exit {
    /// It did what was asked.
    Ok,
    /// It failed: an I/O error, a file that is no transcript, a check of the demo.
    Failure,
    /// The arguments are invalid.
    Usage,
    /// No such store, session or instance, or more than one matches.
    NotFound,
    /// The object exists already, another process has the store open, or the run's status or budget forbids it.
    Conflict,
    /// The store is damaged.
    Damaged,
    /// Something was imported or exported, but not everything.
    Partial,
    /// The agent that was run ended with a failure.
    Agent,
    /// The steps of the run were spent, and it was paused.
    StepBudget,
    /// A signal ended it: 128 and the signal's number.
    Signal(u8),
}

impl Exit {
    /// This one, or the other if this one is that all was done.
    pub(crate) fn or(self, other: Self) -> Self {
        match self {
            Self::Ok => other,
            told => told,
        }
    }

    /// The number that the shell sees.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Failure => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Conflict => 4,
            Self::Damaged => 5,
            Self::Partial => 6,
            Self::Agent => 7,
            Self::StepBudget => 8,
            Self::Signal(number) => number.saturating_add(128),
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// The result of a command's parts.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// Why a command stopped.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    kind: &'static str,
    /// `None` if the reader of the output has closed it, which is not a failure.
    message: Option<String>,
}

impl Failure {
    /// A failure that says `message`.
    pub(crate) fn new(exit: Exit, kind: &'static str, message: impl Into<String>) -> Self {
        Self {
            exit,
            kind,
            message: Some(message.into()),
        }
    }

    /// Invalid arguments.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "usage", message)
    }

    /// An object named on the command line doesn't exist.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(Exit::NotFound, ErrorKind::NotFound.name(), message)
    }

    /// A name on the command line is ambiguous.
    pub(crate) fn ambiguous(message: impl Into<String>) -> Self {
        Self::new(Exit::NotFound, ErrorKind::Ambiguous.name(), message)
    }

    /// A store's error about an argument: invalid input is a usage failure.
    pub(crate) fn of_argument(error: runlog::Error) -> Self {
        match error.kind() {
            kind @ (ErrorKind::InvalidInput | ErrorKind::TooLarge) => {
                Self::new(Exit::Usage, kind.name(), error.to_string())
            }
            _ => error.into(),
        }
    }

    /// A failure of no other kind.
    pub(crate) fn other(message: impl Into<String>) -> Self {
        Self::new(Exit::Failure, "failed", message)
    }

    /// An I/O error met while doing `what`.
    pub(crate) fn io(error: &io::Error, what: impl fmt::Display) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self {
                exit: Exit::Ok,
                kind: "closed",
                message: None,
            };
        }
        let (exit, kind) = match error.kind() {
            io::ErrorKind::NotFound => (Exit::NotFound, "not_found"),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                (Exit::Failure, ErrorKind::StorageFull.name())
            }
            _ => (Exit::Failure, "io"),
        };
        let advice = match kind == ErrorKind::StorageFull.name() {
            true => "; free some space on the disk, then try again",
            false => "",
        };
        Self::new(exit, kind, format!("{what}: {}{advice}", plain(error)))
    }

    /// An I/O error met while writing the new file at a path.
    pub(crate) fn unwritten(error: &io::Error, path: &Path) -> Self {
        if error.kind() == io::ErrorKind::AlreadyExists {
            let message = format!(
                "{} is there already; remove it, or give another name",
                path.display()
            );
            return Self::new(Exit::Conflict, ErrorKind::AlreadyExists.name(), message);
        }
        Self::io(error, format!("can't write {}", path.display()))
    }

    /// The same failure, prefixed with its subject.
    #[must_use]
    pub(crate) fn about(mut self, what: impl fmt::Display) -> Self {
        self.message = self.message.map(|message| format!("{what}: {message}"));
        self
    }

    /// The same failure, with a hint appended.
    #[must_use]
    pub(crate) fn and(mut self, what: impl fmt::Display) -> Self {
        self.message = self.message.map(|message| format!("{message}; {what}"));
        self
    }

    /// How the command ends.
    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// The kind, by which programs can branch.
    pub(crate) fn kind(&self) -> &'static str {
        self.kind
    }

    pub(crate) fn message(&self) -> &str {
        self.message.as_deref().unwrap_or("nobody reads the output")
    }

    /// Whether it only means that the reader of the output has closed it, which is not reported.
    pub(crate) fn is_silent(&self) -> bool {
        self.message.is_none()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl From<runlog::Error> for Failure {
    fn from(error: runlog::Error) -> Self {
        let kind = error.kind();
        let exit = match kind {
            ErrorKind::NotFound | ErrorKind::NotAStore | ErrorKind::Ambiguous => Exit::NotFound,
            ErrorKind::Conflict
            | ErrorKind::Locked
            | ErrorKind::AlreadyExists
            | ErrorKind::WrongStatus
            | ErrorKind::LimitReached => Exit::Conflict,
            ErrorKind::Damaged => Exit::Damaged,
            _ => Exit::Failure,
        };
        let mut message = error.to_string();
        if kind == ErrorKind::Damaged
            && !message.contains("salvage")
            && !message.contains("--repair")
        {
            message +=
                "; `runlog verify` says what is lost, `runlog salvage` gives all that can be read";
        }
        Self::new(exit, kind.name(), message)
    }
}

/// The system's message, without the error number that Rust appends.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut chars = text.chars();
    chars
        .next()
        .map(|first| first.to_lowercase().collect::<String>() + chars.as_str())
        .unwrap_or_default()
}
