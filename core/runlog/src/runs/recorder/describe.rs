//! Recording details of a run: its usage and metadata.

use runlog_log::{Batch, Expected, Op};
use runlog_model::{Run, RunDetails, RunId};

use super::state::RunRecorder;
#[cfg(doc)]
use crate::ErrorKind;
use crate::{
    Result,
    journal::attempts::Retries,
    kernel::{
        records::{append, run_stream},
        runs::RUNS_STREAM,
    },
    runs::{
        Runs,
        creation::{described, listed_description},
    },
};

impl RunRecorder {
    /// Records details of the run, such as its token usage and cost, any number of times and whatever its status.
    /// Fields that are left out stay as they were. Lists of runs include the details. When a run is resumed, its
    /// metadata is copied to the new run; its usage isn't, because each run has its own. Durable when it returns.
    ///
    /// ```
    /// use runlog::{NewRun, NewSession, RawJson, blocking::Store, runs::RunDetails};
    ///
    /// let store = Store::in_memory();
    /// let run = store.runs().start(NewRun::in_new_session(NewSession::default(), "coder"))?;
    /// let usage = RawJson::parse(r#"{"input_tokens":812,"output_tokens":97,"cost":0.0041}"#)?;
    /// run.describe(RunDetails { usage: Some(usage.clone()), ..RunDetails::default() })?;
    /// assert_eq!(store.runs().list(&Default::default())?.items[0].usage, Some(usage));
    /// # Ok::<(), runlog::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) when the usage isn't a JSON object, [`TooLarge`](ErrorKind::TooLarge) for more
    /// than 64 KiB of it or of metadata, [`NotFound`](ErrorKind::NotFound) when the run's session was deleted.
    pub async fn describe(&self, details: RunDetails) -> Result<Run> {
        details.check()?;
        let instance = self.run().instance_id;
        self.inner.runs.store.writable_instance(instance).await?;
        let backend = self.inner.runs.store.backend();
        // Blocks the run's flow, which writes to the same stream all the time.
        let _closed = self.gate().close().await;
        let mut retries = Retries::default();
        // What stays as it was is written again.
        let _beside = self.inner.runs.store.beside_erasures().await;
        self.refresh_if_moved().await?;
        loop {
            let (run, last) = self.run_at();
            let all = self.details_now(&run).await?.and(details.clone());
            let own = described(all, backend.now_ms())?;
            let listed = listed_description(run.id, last.next())?;
            let ops = vec![
                Op::Append {
                    stream: run_stream(run.id),
                    expected: Expected::Last(last),
                    records: vec![own.record()],
                },
                append(RUNS_STREAM, vec![listed.record()]),
            ];
            match backend.commit(Batch::new(ops)).await {
                Ok(_) => {
                    self.inner.runs.index().after_commit().await;
                    self.refresh().await?;
                    return Ok(self.run());
                }
                Err(error) => {
                    retries.again(error)?;
                    self.refresh().await?;
                }
            }
        }
    }
}

impl RunRecorder {
    /// The details of the run: where something was erased since this recorder began, as the store has them.
    async fn details_now(&self, run: &Run) -> Result<RunDetails> {
        let runs = &self.inner.runs;
        if runs.store.backend().redactions() == self.inner.redactions {
            return Ok(RunDetails::of(run));
        }
        Ok(RunDetails::of(&runs.load(run.id).await?.run))
    }
}

impl Runs {
    /// Records details of a run as [`RunRecorder::describe`] does, even if the run has ended or is recorded by another recorder.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) when there is no such run; else as [`RunRecorder::describe`].
    pub async fn describe(&self, id: RunId, details: RunDetails) -> Result<Run> {
        self.recorder(id).await?.describe(details).await
    }
}
