//! Events of a run that are found by a label.

use runlog_log::{Direction, FindOptions, Label, Position};
use runlog_model::ContextEvent;

use super::{Runs, load::LoadedRun};
use crate::{ErrorKind, Result, kernel::records::context_stream};

impl Runs {
    /// The position after an event of the run's context, or, without one, after the run's creation; `None` if the event was
    /// truncated since, with everything after it.
    pub(super) async fn position_after(
        &self,
        run: &LoadedRun,
        sequence: Option<u64>,
    ) -> Result<Option<Position>> {
        let Some(sequence) = sequence else {
            return Ok(Some(Position(run.created_position).next()));
        };
        let contexts = self.store.contexts();
        let event = contexts.event(run.run.instance_id, sequence).await?;
        Ok(event.map(|event| Position(event.position).next()))
    }

    /// The events of a run's context that have a label and were recorded while the run was at work, from a position on, at most
    /// so many; and where to go on.
    pub(super) async fn labelled_events(
        &self,
        run: &LoadedRun,
        label: Label,
        first: Position,
        limit: usize,
    ) -> Result<(Vec<ContextEvent>, Option<Position>)> {
        let instance = run.run.instance_id;
        let find = FindOptions {
            stream: Some(context_stream(instance)),
            direction: Direction::Forward,
            first,
            last: Position(run.ended_position.unwrap_or(u64::MAX)),
            limit: limit as u64,
        };
        let page = match self.store.backend().find(label, find).await {
            // An instance has no stream before its first event.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok((Vec::new(), None)),
            page => page?,
        };
        let records = page.records.iter();
        let events = records.map(|record| ContextEvent::decode(instance, record));
        Ok((events.collect::<Result<_>>()?, page.next))
    }
}
