//! A run without what it is no longer needed for: its steps, and the flow that it was.

use runlog_log::{Kind, ReadOptions, Record, Sequence};
use runlog_model::{RunId, kinds};

use super::Runs;
use crate::{ErrorKind, Result, kernel::records::run_stream};

/// What is kept of a run whose content is given up.
pub(crate) struct ShortRun {
    /// The last sequence of its stream.
    pub(crate) last: Sequence,
    /// The records that say all that is told of the run: its creation, what was said of it, its last step, how it ended.
    pub(crate) kept: Vec<Record>,
}

impl Runs {
    /// What is kept of a run whose content is given up. `None` where that is all there is of it.
    pub(crate) async fn short(&self, id: RunId) -> Result<Option<ShortRun>> {
        let backend = self.store.backend();
        let Some(info) = backend.stream(run_stream(id)).await? else {
            return Ok(None);
        };
        let created = ReadOptions {
            last: Sequence::FIRST,
            kinds: vec![Kind(kinds::RUN_CREATED)],
            ..ReadOptions::default()
        };
        let page = match backend.read(run_stream(id), created).await {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            page => page?,
        };
        let mut kept = page.records;
        kept.extend(self.description(id).await?);
        let mut later = self.last_events(id, info.last_sequence).await?;
        later.reverse();
        kept.extend(later);
        // A snapshot of a flow is at a sequence of its own events, so that a run without any has none.
        let is_short = kept.is_empty() || kept.len() as u64 == info.last_sequence.0;
        Ok((!is_short).then_some(ShortRun {
            last: info.last_sequence,
            kept,
        }))
    }
}
