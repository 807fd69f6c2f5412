//! What the status of a run allows.

use runlog_model::{Run, RunStatus};

use crate::{Error, ErrorKind, Result};

/// Refuses what only a running run may do.
pub(super) fn running(run: &Run, what: &str) -> Result<()> {
    if run.status == RunStatus::Running {
        return Ok(());
    }
    Err(Error::new(ErrorKind::WrongStatus, format!("run {} is {}, and can't {what}", run.id, run.status)))
}

/// Refuses a change of status that there is none of.
pub(super) fn changeable(run: &Run, to: RunStatus) -> Result<()> {
    match (run.status, to, run.resumed_by) {
        (RunStatus::Running, ..) | (RunStatus::Paused, RunStatus::Cancelled, None) => Ok(()),
        (RunStatus::Paused, RunStatus::Cancelled, Some(by)) => {
            Err(Error::new(ErrorKind::WrongStatus, format!("run {} was resumed as run {by}; cancel that one", run.id)))
        }
        (status, ..) => {
            Err(Error::new(ErrorKind::WrongStatus, format!("run {} is {status}, and can't become {to}", run.id)))
        }
    }
}
