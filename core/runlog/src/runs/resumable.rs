//! Checking whether a run can be resumed, without resuming it.

use runlog_model::{Run, RunId};

use super::{ResumeOptions, Runs, load::LoadedRun, resume::check};
use crate::Result;

impl Runs {
    /// Returns the run if it can be resumed with these options: it is paused (or has ended, with
    /// [`ended`](ResumeOptions::ended)), it wasn't resumed yet, and it has taken fewer steps than the
    /// [maximum](ResumeOptions::max_total_steps). [`resume`](Self::resume) checks the same; this is for callers that
    /// have to prepare something first. Nothing is written.
    ///
    /// # Errors
    /// [`WrongStatus`](crate::ErrorKind::WrongStatus), [`LimitReached`](crate::ErrorKind::LimitReached) and
    /// [`NotFound`](crate::ErrorKind::NotFound), as [`resume`](Self::resume) returns them.
    pub async fn resumable(&self, id: RunId, options: &ResumeOptions) -> Result<Run> {
        let LoadedRun { run, .. } = self.load(id).await?;
        check(&run, options.max_total_steps, options.ended)?;
        Ok(run)
    }
}
