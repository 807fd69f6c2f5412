//! Whether a run can be resumed, before anything is done for it.

use runlog_model::{Run, RunId};

use super::{ResumeOptions, Runs, load::LoadedRun, resume::check};
use crate::Result;

impl Runs {
    /// The run, where it can be resumed with these options: it is paused, or has ended where that will do, no other goes on
    /// from it, and fewer than the [maximum](ResumeOptions::max_total_steps) of steps are taken. [`resume`](Self::resume)
    /// checks the same; this is for whoever has to prepare something first. Nothing is written.
    ///
    /// # Errors
    /// [`WrongStatus`](crate::ErrorKind::WrongStatus), [`LimitReached`](crate::ErrorKind::LimitReached) and
    /// [`NotFound`](crate::ErrorKind::NotFound), as [`resume`](Self::resume) would say.
    pub async fn resumable(&self, id: RunId, options: &ResumeOptions) -> Result<Run> {
        let LoadedRun { run, .. } = self.load(id).await?;
        check(&run, options.max_total_steps, options.ended)?;
        Ok(run)
    }
}
