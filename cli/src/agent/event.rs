//! [`ChildEvent`]: what happens with an agent's process.

use std::process::ExitStatus;

use crate::{failure::Failure, lines::Line};

/// The signals that ask a process to stop: SIGHUP, SIGINT and SIGTERM.
const STOP_SIGNALS: [i32; 3] = [1, 2, 15];

/// An event of the agent's process.
#[derive(Debug)]
pub(crate) enum ChildEvent {
    /// The agent wrote a line.
    Line(Line),
    /// The agent has ended, and all of its output was read.
    End(Ended),
    /// Runlog received this signal to stop.
    Signal(i32),
    /// Somebody else ended the agent's run.
    RunOver,
    /// The context couldn't be sent to the agent.
    Failed(Failure),
}

impl ChildEvent {
    /// Whether the agent should stop.
    pub(super) fn asks_to_stop(&self) -> bool {
        matches!(self, Self::Signal(_) | Self::RunOver)
    }
}

/// How an agent ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ended {
    /// Its exit code, when it had one.
    pub(crate) code: Option<i32>,
    /// The signal that ended it, when one did.
    pub(crate) signal: Option<i32>,
}

impl Ended {
    /// Whether a signal that asks a process to stop ended it, or it says so as shells do: 128 and the signal.
    pub(crate) fn is_stopped(self) -> bool {
        let signal = self.signal.or(self.code.map(|code| code - 128));
        signal.is_some_and(|signal| STOP_SIGNALS.contains(&signal))
    }
}

impl From<ExitStatus> for Ended {
    fn from(status: ExitStatus) -> Self {
        #[cfg(unix)]
        let signal = std::os::unix::process::ExitStatusExt::signal(&status);
        #[cfg(not(unix))]
        let signal = None;
        Self {
            code: status.code(),
            signal,
        }
    }
}
