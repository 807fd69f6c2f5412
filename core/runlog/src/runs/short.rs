//! Shortening a run whose content was erased: without its steps and its flow.

use runlog_log::{Kind, ReadOptions, Record, Sequence};
use runlog_model::{RunId, kinds};

use super::Runs;
use crate::{ErrorKind, Result, kernel::records::run_stream};

/// The part of a run that is kept when its content is erased.
pub(crate) struct ShortRun {
    /// The last sequence of its stream.
    pub(crate) last: Sequence,
    /// The records that describe the run: its creation, its details, its last step, its end.
    pub(crate) kept: Vec<Record>,
}

impl Runs {
    /// The part of a run that is kept when its content is erased. `None` if the run has nothing else.
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
