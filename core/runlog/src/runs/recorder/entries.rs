//! Recording many entries of a run in one batch and one flush.

use runlog_log::{Appended, Batch, Expected, Op, Sequence};
use runlog_model::{EncodedEvent, EncodedMeta, NewContextEvent, RunEvent};

use super::{
    repeat::expected_of,
    state::{Recorded, RunRecorder, State},
    status::running,
};
use crate::{
    Error, ErrorKind, Result,
    journal::attempts::Retries,
    kernel::records::{append, context_records, context_stream, run_stream},
};

/// An entry of [`record_entries`](RunRecorder::record_entries): a message with its tool calls, or an event.
///
/// ```
/// use runlog::{
///     NewMessage, NewRun, NewSession, blocking::Store, contexts::EventOptions, runs::RunEntry,
///     transcripts::NewContextEvent,
/// };
///
/// let store = Store::in_memory();
/// let run = store.runs().start(NewRun::in_new_session(NewSession::default(), "coder"))?;
/// let events = NewContextEvent::of_message(NewMessage::assistant("Done.").to_json()?, &EventOptions::default())?;
/// let recorded = run.record_entries(&[RunEntry { events, begins_step: true }], None)?;
/// assert_eq!((recorded[0].sequence_number, recorded[0].step_number), (1, 1));
/// # Ok::<(), runlog::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunEntry {
    /// Its events, at least one. Run and step are filled in.
    pub events: Vec<NewContextEvent>,
    /// Whether the next step begins with it.
    pub begins_step: bool,
}

/// The records to write.
struct Plan {
    /// The events of each entry with their metadata, and the step that they belong to.
    entries: Vec<(Vec<NewContextEvent>, Vec<EncodedMeta>, u32)>,
    /// The step events that the run's stream doesn't have yet.
    steps: Vec<EncodedEvent>,
    /// The last sequence of the run's stream.
    last: Sequence,
    /// Why nothing new may be written; a repeat still returns the first result.
    refused: Option<Error>,
}

impl RunRecorder {
    /// Records entries in their order and the steps that they begin, as one batch: all or nothing. Returns where each
    /// was recorded. With an idempotency key of 1 to 255 bytes, unique in the context, the batch is recorded once: a
    /// repeat returns the first result. Durable when it returns.
    ///
    /// # Errors
    /// [`WrongStatus`](ErrorKind::WrongStatus) when the run isn't running, [`LimitReached`](ErrorKind::LimitReached)
    /// when its budget has fewer steps left than the entries begin (the run stays running;
    /// [`next_step`](Self::next_step) pauses it), [`InvalidInput`](ErrorKind::InvalidInput) or
    /// [`TooLarge`](ErrorKind::TooLarge) for an entry that is refused. Nothing is written then.
    pub async fn record_entries(
        &self,
        entries: &[RunEntry],
        idempotency_key: Option<&str>,
    ) -> Result<Vec<Recorded>> {
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        let instance = self.state().run.instance_id;
        self.inner.runs.store.writable_instance(instance).await?;
        let _turn = self
            .turn(entries.iter().flat_map(|entry| &entry.events))
            .await;
        let (taken, calls) = self
            .take_calls(entries.iter().flat_map(|entry| &entry.events))
            .await;
        let mut retries = Retries::default();
        loop {
            let key = idempotency_key.map(str::as_bytes);
            let plan = self.plan_entries(entries, &calls, key)?;
            let mut ops: Vec<Op<'_>> = plan
                .entries
                .iter()
                .map(|(events, metas, _)| {
                    append(context_stream(instance), context_records(events, metas))
                })
                .collect();
            // Needed even without a record: its expected sequence fails if the run has ended.
            ops.push(Op::Append {
                stream: run_stream(self.id()),
                expected: Expected::Last(plan.last),
                records: plan.steps.iter().map(EncodedEvent::record).collect(),
            });
            match self
                .inner
                .runs
                .store
                .backend()
                .commit(Batch {
                    ops,
                    key,
                    durability: None,
                })
                .await
            {
                Ok(appended) if appended.repeated => {
                    let mut recorded = self.recorded_entries(&appended, &plan)?;
                    for recorded in &mut recorded {
                        *recorded = self.as_it_was(*recorded).await?;
                    }
                    return Ok(recorded);
                }
                Ok(appended) => {
                    taken.keep();
                    return self.recorded_entries(&appended, &plan);
                }
                Err(error) if error.kind() == ErrorKind::Conflict && plan.refused.is_some() => {
                    return Err(plan.refused.unwrap_or(error));
                }
                Err(error) => {
                    retries.again(error)?;
                    self.refresh().await?;
                }
            }
        }
    }

    fn plan_entries(
        &self,
        entries: &[RunEntry],
        calls: &Result<()>,
        key: Option<&[u8]>,
    ) -> Result<Plan> {
        let at_ms = self.inner.runs.store.backend().now_ms();
        let state = self.state();
        let checked = running(&state.run, "be written to")
            .and_then(|()| self.check_steps(&state, entries))
            .and_then(|()| calls.clone());
        let mut refused = None;
        let last = expected_of(&state, checked, key, &mut refused)?;
        let mut plan = Plan {
            entries: Vec::with_capacity(entries.len()),
            steps: Vec::new(),
            last,
            refused,
        };
        let (mut step_number, mut recorded_step) = (state.run.step_count, state.recorded_step);
        for (index, entry) in entries.iter().enumerate() {
            if entry.events.is_empty() {
                return Err(Error::invalid(format!(
                    "entry {} of those to record has no event",
                    index + 1
                )));
            }
            step_number = step_number.saturating_add(u32::from(entry.begins_step));
            if step_number > recorded_step {
                recorded_step = step_number;
                plan.steps
                    .push(RunEvent::StepStarted { step_number, at_ms }.encode()?);
            }
            let mut events = entry.events.clone();
            for event in &mut events {
                event.meta.run_id = Some(self.id());
                event.meta.step_number = Some(step_number);
            }
            let metas = events
                .iter()
                .map(|event| event.encode(state.run.instance_id))
                .collect::<Result<Vec<_>>>()?;
            plan.entries.push((events, metas, step_number));
        }
        Ok(plan)
    }

    fn check_steps(&self, state: &State, entries: &[RunEntry]) -> Result<()> {
        let Some(max_steps) = state.run.max_steps else {
            return Ok(());
        };
        let taken = state.run.step_count.saturating_sub(self.inner.steps_before);
        let left = max_steps.saturating_sub(taken) as usize;
        let begun = entries.iter().filter(|entry| entry.begins_step).count();
        if begun <= left {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::LimitReached,
            format!(
                "run {} has {left} of its {max_steps} steps left, and {begun} more would begin",
                self.id()
            ),
        ))
    }

    fn recorded_entries(&self, appended: &Appended, plan: &Plan) -> Result<Vec<Recorded>> {
        let missing_result = || {
            Error::new(
                ErrorKind::Io,
                "the backend acknowledged a batch without saying where it is",
            )
        };
        let mut recorded = Vec::with_capacity(plan.entries.len());
        for (index, (events, _, step_number)) in plan.entries.iter().enumerate() {
            let written = appended.ops.get(index).ok_or_else(missing_result)?;
            recorded.push(Recorded {
                id: written.position.0,
                sequence_number: (written.last_sequence.0 + 1).saturating_sub(events.len() as u64),
                last_sequence: written.last_sequence.0,
                step_number: *step_number,
                repeated: appended.repeated,
                truncated: appended.truncated,
            });
        }
        if appended.repeated {
            return Ok(recorded);
        }
        let run = appended
            .ops
            .get(plan.entries.len())
            .ok_or_else(missing_result)?;
        let mut state = self.state();
        state.last_sequence = state.last_sequence.max(run.last_sequence);
        let written = plan
            .entries
            .iter()
            .map(|(events, ..)| events.len() as u64)
            .sum();
        if let Some(last) = recorded.last() {
            state
                .calls
                .after_commit(written, Sequence(last.last_sequence));
        }
        for (_, _, step_number) in &plan.entries {
            state.recorded_step = state.recorded_step.max(*step_number);
            state.run.step_count = state.run.step_count.max(*step_number);
        }
        Ok(recorded)
    }
}
