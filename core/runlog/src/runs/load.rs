//! [`LoadedRun`]: one run, folded from its own stream.

use runlog_log::{Direction, Kind, ReadOptions, Record, Sequence};
use runlog_model::{Run, RunEvent, RunFold, RunId, RunStatus, RunSummary, kinds};

use super::Runs;
use crate::{
    Error, ErrorKind, Result,
    journal::follow::{read_each, read_while},
    kernel::records::run_stream,
};

/// How many events are read at a time from the end of a run's stream: an ended run has two after its last step.
const LAST_EVENTS: u64 = 4;

/// A run, and the state of its stream.
pub(super) struct LoadedRun {
    pub(super) run: Run,
    /// The fold of its events, for applying later ones.
    pub(super) fold: RunFold,
    /// The last sequence of its stream.
    pub(super) last_sequence: Sequence,
    /// The position of its creation: its context events come after it.
    pub(super) created_position: u64,
    /// The position of the last change of its status: its context events come before it. `None` while it runs.
    pub(super) ended_position: Option<u64>,
}

impl Runs {
    /// Folds a run from its stream. [`NotFound`](ErrorKind::NotFound) if there is no such run.
    ///
    /// The stream begins with the run's creation. Of the step events only the last one matters: earlier ones aren't
    /// read, however many there are. After the last step come only changes of status and a resume. The details may be
    /// anywhere; the catalog has their sequence. A new kind of event that may come before a step must be read here too.
    pub(super) async fn load(&self, id: RunId) -> Result<LoadedRun> {
        let missing = || Error::not_found(format!("no run {id}"));
        let backend = self.store.backend();
        let info = backend.stream(run_stream(id)).await?.ok_or_else(missing)?;
        let first = ReadOptions {
            last: Sequence::FIRST,
            kinds: vec![Kind(kinds::RUN_CREATED)],
            ..ReadOptions::default()
        };
        let page = backend.read(run_stream(id), first).await?;
        // A stream with that id that isn't a run's begins with another kind of event.
        let created = page.records.into_iter().next().ok_or_else(missing)?;
        let created_position = created.position.0;
        let mut events = self.last_events(id, info.last_sequence).await?;
        events.extend(self.description(id).await?);
        events.push(created);

        let (mut fold, mut ended_position) = (RunFold::new(), None);
        for record in events.iter().rev() {
            let event = event_of(record, id)?;
            if matches!(event, RunEvent::StatusChanged(_) | RunEvent::Resumed { .. }) {
                ended_position = Some(record.position.0);
            }
            fold.push(event)
                .map_err(|error| name_run(error, id, record.sequence))?;
        }
        let run = fold.run().cloned().ok_or_else(missing)?;
        if run.status == RunStatus::Running {
            ended_position = None;
        }
        Ok(LoadedRun {
            run,
            fold,
            last_sequence: info.last_sequence,
            created_position,
            ended_position,
        })
    }

    /// The last step event of a run's stream and the events after it, from the end, without the creation.
    pub(super) async fn last_events(&self, id: RunId, last: Sequence) -> Result<Vec<Record>> {
        let mut events = Vec::new();
        let options = ReadOptions {
            first: Sequence::FIRST.next(),
            last,
            kinds: course_kinds(),
            direction: Direction::Backward,
            limit: LAST_EVENTS,
        };
        let backend = &**self.store.backend();
        read_while(backend, run_stream(id), options, &mut |record| {
            if was_erased(record) {
                return Ok(true);
            }
            events.push(record.clone());
            Ok(record.kind.0 != kinds::RUN_STEP_STARTED)
        })
        .await?;
        Ok(events)
    }

    /// The record with the latest details of a run. The catalog has its sequence; if the record isn't there, it is
    /// searched for: a run that was shortened or imported has it at another sequence.
    pub(super) async fn description(&self, id: RunId) -> Result<Option<Record>> {
        let Some(at) = self.index().read(|runs| runs.described(id)).await? else {
            return Ok(None);
        };
        let at = Sequence(at.into());
        let kinds = vec![Kind(kinds::RUN_DESCRIBED)];
        let there = ReadOptions {
            first: at,
            last: at,
            kinds: kinds.clone(),
            ..ReadOptions::default()
        };
        let mut records = self.records_of(id, there).await?;
        if records.is_empty() {
            let newest = ReadOptions {
                direction: Direction::Backward,
                kinds,
                limit: 1,
                ..ReadOptions::default()
            };
            records = self.records_of(id, newest).await?;
        }
        Ok(records.pop().filter(|record| !record.redacted))
    }

    /// Records of a run's stream; none where that was deleted, of which the lists of runs don't know.
    pub(super) async fn records_of(&self, id: RunId, options: ReadOptions) -> Result<Vec<Record>> {
        match self.store.backend().read(run_stream(id), options).await {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            page => Ok(page?.records),
        }
    }

    /// Adds the details to a listed run.
    pub(super) async fn describe_listed(&self, run: &mut RunSummary) -> Result<()> {
        let Some(record) = self.description(run.id).await? else {
            return Ok(());
        };
        if let RunEvent::Described(description) = event_of(&record, run.id)? {
            (run.usage, run.metadata) = (description.usage, description.metadata);
        }
        Ok(())
    }

    /// Applies the new events of a run's stream, and returns its last sequence.
    pub(super) async fn follow(
        &self,
        id: RunId,
        fold: &mut RunFold,
        after: Sequence,
    ) -> Result<Sequence> {
        let backend = self.store.backend();
        let info = backend
            .stream(run_stream(id))
            .await?
            .ok_or_else(|| Error::not_found(format!("no run {id}")))?;
        let options = ReadOptions {
            first: after.next(),
            last: info.last_sequence,
            kinds: event_kinds(),
            ..ReadOptions::default()
        };
        read_each(&**backend, run_stream(id), options, &mut |record| {
            if was_erased(record) {
                return Ok(());
            }
            fold.push(event_of(record, id)?)
                .map_err(|error| name_run(error, id, record.sequence))
        })
        .await?;
        Ok(info.last_sequence)
    }

    /// The number of steps that a running run has begun, from its newest step event.
    pub(super) async fn steps_now(&self, id: RunId) -> Result<Option<u32>> {
        let kinds = vec![Kind(kinds::RUN_STEP_STARTED)];
        let newest = ReadOptions {
            direction: Direction::Backward,
            kinds,
            limit: 1,
            ..ReadOptions::default()
        };
        let Some(record) = self.records_of(id, newest).await?.pop() else {
            return Ok(None);
        };
        Ok(match event_of(&record, id)? {
            RunEvent::StepStarted { step_number, .. } => Some(step_number),
            _ => None,
        })
    }
}

/// Whether a record had no more than words, and they were erased: what the run was is known without them.
fn was_erased(record: &Record) -> bool {
    record.redacted
        && !record.lost
        && [kinds::RUN_EXPLAINED, kinds::RUN_DESCRIBED].contains(&record.kind.0)
}

/// The event that a record of a run's stream has.
pub(super) fn event_of(record: &Record, id: RunId) -> Result<RunEvent> {
    if record.redacted {
        let message = format!(
            "event {} of run {id} was redacted, and what the run was isn't known without it",
            record.sequence
        );
        return Err(Error::damaged(message));
    }
    RunEvent::decode(record.kind.0, &record.meta, &record.payload)
        .map_err(|error| name_run(error, id, record.sequence))
}

fn name_run(error: Error, id: RunId, sequence: Sequence) -> Error {
    Error::new(
        error.kind(),
        format!("event {sequence} of run {id}: {error}"),
    )
}

/// The kinds of a run's own events, except its details.
fn course_kinds() -> Vec<Kind> {
    let mut kinds = event_kinds();
    kinds.retain(|kind| kind.0 != kinds::RUN_DESCRIBED);
    kinds
}

/// The kinds of a run's own events; its stream has other records too.
fn event_kinds() -> Vec<Kind> {
    RunEvent::KINDS.iter().copied().map(Kind).collect()
}
