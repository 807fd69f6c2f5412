//! Recording messages, steps and results of a run.

use runlog_log::{Appended, Batch, Expected, Op, Sequence};
use runlog_model::{
    ContextEventKind, EncodedEvent, EventOptions, NewContextEvent, NewMessage, RawJson, Run,
    RunEvent, RunStatus, Stop, StopKind, ToolCallRequest, tool_calls_of,
};

use super::{
    repeat::expected_of,
    state::{Recorded, RunRecorder, StepNow},
    status::running,
};
use crate::{
    Error, ErrorKind, Result,
    contexts::{AppendOptions, RawMessage},
    journal::attempts::Retries,
    kernel::{
        records::{context_records, context_stream, run_stream},
        runs::Turn,
    },
    runs::{
        changes::BatchExtras,
        outcome::{AnsweredCall, ToolOutcome, result_events},
    },
};

impl RunRecorder {
    /// Begins the next step, and returns its number, counted over all resumes. It is written with the first message
    /// recorded in it.
    ///
    /// # Errors
    /// [`LimitReached`](ErrorKind::LimitReached) when the run's budget of steps is spent: the run is then paused,
    /// durably. [`WrongStatus`](ErrorKind::WrongStatus) when the run isn't running.
    pub async fn next_step(&self) -> Result<u32> {
        self.refresh_if_moved().await?;
        let max_steps = {
            let mut state = self.state();
            running(&state.run, "take a step")?;
            let taken = state.run.step_count.saturating_sub(self.inner.steps_before);
            match state.run.max_steps {
                Some(max_steps) if taken >= max_steps => max_steps,
                _ => {
                    state.run.step_count = state.run.step_count.saturating_add(1);
                    state.steps_begun = state.steps_begun.wrapping_add(1);
                    return Ok(state.run.step_count);
                }
            }
        };
        self.pause(StopKind::Budget).await?;
        Err(Error::new(
            ErrorKind::LimitReached,
            format!(
                "run {} has taken all of its steps (`max_steps` is {max_steps}), and was paused; resume it to go on",
                self.id()
            ),
        ))
    }

    /// Records a message built from its parts, with the tool calls it requests and the step it begins, as one batch.
    /// Durable when it returns.
    ///
    /// # Errors
    /// [`WrongStatus`](ErrorKind::WrongStatus) when the run isn't running, [`InvalidInput`](ErrorKind::InvalidInput) or
    /// [`TooLarge`](ErrorKind::TooLarge) when the message is refused: no provider accepts it, it is the result of a
    /// tool call that the context doesn't have, or it isn't a result and the context has tool calls that await theirs,
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) when it is a second result of one, [`NotFound`](ErrorKind::NotFound)
    /// when its session was deleted. Nothing is written then.
    pub async fn record_message(&self, message: NewMessage) -> Result<Recorded> {
        self.record_raw_message(message.to_json()?).await
    }

    /// Records a message in the provider's own JSON, stored byte for byte; otherwise as [`record_message`](Self::record_message).
    ///
    /// # Errors
    /// As [`record_message`](Self::record_message).
    pub async fn record_raw_message(&self, json: RawJson) -> Result<Recorded> {
        self.record_raw_message_with(json, &AppendOptions::default())
            .await
    }

    /// [`record_raw_message`](Self::record_raw_message) with options.
    ///
    /// # Errors
    /// As [`record_message`](Self::record_message); [`InvalidInput`](ErrorKind::InvalidInput) for a run that isn't the recorder's
    /// own, or a step, which it counts itself; [`Conflict`](ErrorKind::Conflict) when the context's last
    /// sequence isn't the expected one.
    pub async fn record_raw_message_with(
        &self,
        json: RawJson,
        options: &AppendOptions,
    ) -> Result<Recorded> {
        let message = RawMessage {
            json,
            event: options.event.clone(),
        };
        self.record(&[message], options).await
    }

    /// Records a tool's result of a call that was recorded before, as a message in the provider's form. Durable when it returns.
    ///
    /// Amazon Bedrock's Converse and Gemini take the results of all calls of one answer in one message only: there, record the results of several calls together, by [`record_tool_results`](Self::record_tool_results).
    ///
    /// # Errors
    /// As [`record_message`](Self::record_message): [`InvalidInput`](ErrorKind::InvalidInput) when the context has no
    /// such call, [`AlreadyExists`](ErrorKind::AlreadyExists) when the call has its result already.
    pub async fn record_tool_result(&self, outcome: &ToolOutcome) -> Result<Recorded> {
        self.record_tool_results(std::slice::from_ref(outcome))
            .await
    }

    /// Records the results of several calls that were recorded before, as one batch, with one flush: in one message where the
    /// provider takes no other (Amazon Bedrock's Converse, Gemini), in a message each elsewhere. Durable when it returns.
    ///
    /// # Errors
    /// As [`record_tool_result`](Self::record_tool_result), also when two outcomes answer one call, or none is given. Nothing is
    /// written then.
    ///
    /// ```
    /// # async fn example(run: &runlog::runs::RunRecorder) -> runlog::Result<()> {
    /// use runlog::{RawJson, runs::ToolOutcome};
    ///
    /// run.record_tool_results(&[
    ///     ToolOutcome::completed("call_1", RawJson::string("12 °C")),
    ///     ToolOutcome::error("call_2", RawJson::string("no such town")),
    /// ])
    /// .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn record_tool_results(&self, outcomes: &[ToolOutcome]) -> Result<Recorded> {
        self.record_tool_results_with(outcomes, &BatchExtras::default())
            .await
    }

    /// [`record_tool_results`](Self::record_tool_results) with extras in the batch.
    pub(crate) async fn record_tool_results_with(
        &self,
        outcomes: &[ToolOutcome],
        extras: &BatchExtras<'_>,
    ) -> Result<Recorded> {
        if outcomes.is_empty() {
            return Err(Error::invalid("there is no result; give one at least"));
        }
        let step = self.step_now();
        let (answers, turn) = self.calls_of(outcomes).await?;
        let options = EventOptions {
            run_id: Some(self.id()),
            ..EventOptions::default()
        };
        let mut events = self.unlisted_calls(&answers, &options)?;
        events.extend(result_events(&answers, &options)?);
        let options = AppendOptions::default();
        self.record_in_turn(events, step, &options, extras, turn)
            .await
    }

    /// Records the assistant message that requested tool calls together with their results: message, calls, results and
    /// the step as one batch, with one flush. Durable when it returns.
    ///
    /// # Errors
    /// As [`record_message`](Self::record_message); [`InvalidInput`](ErrorKind::InvalidInput) when an outcome
    /// answers no call of the message.
    pub async fn record_tool_call(
        &self,
        message: RawJson,
        outcomes: &[ToolOutcome],
    ) -> Result<Recorded> {
        self.record_tool_call_with(message, outcomes, &BatchExtras::default())
            .await
    }

    /// The same with extras in the batch.
    pub(crate) async fn record_tool_call_with(
        &self,
        message: RawJson,
        outcomes: &[ToolOutcome],
        extras: &BatchExtras<'_>,
    ) -> Result<Recorded> {
        let mut calls = tool_calls_of(&message)?;
        let mut answers = Vec::with_capacity(outcomes.len());
        for outcome in outcomes {
            let id = &outcome.tool_call_id;
            // A call without an id is named by its tool.
            let named = |call: &ToolCallRequest| call.id.as_ref().unwrap_or(&call.name) == id;
            let Some(place) = calls.iter().position(named) else {
                return Err(Error::invalid(format!(
                    "the message asks for no tool call {id:?}, which the outcome answers"
                )));
            };
            answers.push((outcome.clone(), AnsweredCall::from(&calls[place])));
            // Its next result is of the next call of that tool; a second one of a call with an id is refused as such.
            if calls[place].id.is_none() {
                calls.remove(place);
            }
        }
        let options = EventOptions {
            run_id: Some(self.id()),
            ..EventOptions::default()
        };
        let mut events = self.events_of(&[RawMessage::from(message)])?;
        events.extend(result_events(&answers, &options)?);
        self.record_events(events, self.step_now(), &AppendOptions::default(), extras)
            .await
    }

    /// Pauses the run: it can be resumed. A string is the reason of a pause on request; a [`StopKind`] or [`Stop`]
    /// names another cause, which is stored as [`Run::stop_kind`]. Durable when it returns.
    ///
    /// # Errors
    /// [`WrongStatus`](ErrorKind::WrongStatus) when the run isn't running, [`TooLarge`](ErrorKind::TooLarge) for a
    /// reason over its limit.
    pub async fn pause(&self, reason: impl Into<Stop>) -> Result<Run> {
        let stop = reason.into();
        self.change(RunStatus::Paused, |change| {
            change.words.pause_reason = Some(stop.reason.clone());
            change.stop_kind = Some(stop.kind);
        })
        .await
    }

    /// Ends the run as completed, with a summary. Durable when it returns.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    pub async fn complete(&self, summary: Option<&str>) -> Result<Run> {
        self.change(RunStatus::Completed, |change| {
            change.words.summary = summary.map(str::to_owned)
        })
        .await
    }

    /// Ends the run as failed, with an error. Durable when it returns.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    pub async fn fail(&self, error_message: &str) -> Result<Run> {
        self.change(RunStatus::Failed, |change| {
            change.words.error_message = Some(error_message.to_owned())
        })
        .await
    }

    /// Ends the run as cancelled. A paused run can be cancelled too, unless it was resumed. Durable when it returns.
    ///
    /// # Errors
    /// [`WrongStatus`](ErrorKind::WrongStatus) when the run has ended or was resumed, [`TooLarge`](ErrorKind::TooLarge)
    /// for a summary over its limit.
    pub async fn cancel(&self, summary: Option<&str>) -> Result<Run> {
        self.change(RunStatus::Cancelled, |change| {
            change.words.summary = summary.map(str::to_owned);
            change.stop_kind = Some(StopKind::Cancelled);
        })
        .await
    }

    pub(super) async fn record(
        &self,
        messages: &[RawMessage],
        options: &AppendOptions,
    ) -> Result<Recorded> {
        self.record_with(messages, options, &BatchExtras::default())
            .await
    }

    /// Records messages, and extras in the same batch. Without a message, the id and the sequences returned are those
    /// of the run's stream.
    pub(crate) async fn record_with(
        &self,
        messages: &[RawMessage],
        options: &AppendOptions,
        extras: &BatchExtras<'_>,
    ) -> Result<Recorded> {
        let events = self.events_of(messages)?;
        self.record_events(events, self.step_now(), options, extras)
            .await
    }

    async fn record_events(
        &self,
        events: Vec<NewContextEvent>,
        step: StepNow,
        options: &AppendOptions,
        extras: &BatchExtras<'_>,
    ) -> Result<Recorded> {
        self.record_in_turn(events, step, options, extras, None)
            .await
    }

    /// Records events in a turn that was taken before, or in one that is taken for them.
    async fn record_in_turn(
        &self,
        mut events: Vec<NewContextEvent>,
        step: StepNow,
        options: &AppendOptions,
        extras: &BatchExtras<'_>,
        turn: Option<Turn<'_>>,
    ) -> Result<Recorded> {
        let instance = self.state().run.instance_id;
        self.inner.runs.store.writable_instance(instance).await?;
        let _turn = match turn {
            Some(turn) => turn,
            None => self.turn(events.iter()).await,
        };
        let (taken, calls) = self.take_calls(events.iter()).await;
        let (mut retries, mut refused) = (Retries::default(), None);
        loop {
            let key = options.idempotency_key.as_ref().map(String::as_bytes);
            let (step_number, recorded_step, last) = {
                let state = self.state();
                let checked = running(&state.run, "be written to").and_then(|()| calls.clone());
                let last = expected_of(&state, checked, key, &mut refused)?;
                (step.number(&state), state.recorded_step, last)
            };
            events
                .iter_mut()
                .for_each(|event| event.meta.step_number = Some(step_number));
            let metas = events
                .iter()
                .map(|event| event.encode(instance))
                .collect::<Result<Vec<_>>>()?;
            let at_ms = self.inner.runs.store.backend().now_ms();
            let begun = (step_number > recorded_step)
                .then(|| RunEvent::StepStarted { step_number, at_ms }.encode());
            let begun = begun.transpose()?;
            let expected = options
                .expected_last_sequence
                .map_or(Expected::Any, |last| Expected::Last(Sequence(last)));
            let mut ops = Vec::with_capacity(2 + extras.ops.len());
            if !events.is_empty() {
                let stream = context_stream(instance);
                ops.push(Op::Append {
                    stream,
                    expected,
                    records: context_records(&events, &metas),
                });
            }
            // Even without a record: its expectation fails when the run has ended.
            ops.push(Op::Append {
                stream: run_stream(self.id()),
                expected: Expected::Last(last),
                records: begun
                    .iter()
                    .chain(extras.run_events)
                    .map(EncodedEvent::record)
                    .collect(),
            });
            ops.extend(extras.ops.iter().cloned());
            let batch = Batch {
                ops,
                key,
                durability: extras.durability.or(options.durability),
            };
            match self.inner.runs.store.backend().commit(batch).await {
                Ok(appended) => {
                    let recorded = self.recorded(&appended, &events, step_number)?;
                    if !appended.repeated {
                        taken.keep();
                    }
                    return Ok(if appended.repeated {
                        self.as_it_was(recorded).await?
                    } else {
                        recorded
                    });
                }
                Err(error) if error.kind() == ErrorKind::Conflict && refused.is_some() => {
                    return Err(refused.unwrap_or(error));
                }
                Err(error) => {
                    retries.again(error.clone())?;
                    // The run's stream is unchanged, so it was the context that wasn't as expected.
                    if self.refresh().await? == last && options.expected_last_sequence.is_some() {
                        return Err(error);
                    }
                }
            }
        }
    }

    pub(super) fn events_of(&self, messages: &[RawMessage]) -> Result<Vec<NewContextEvent>> {
        let mut events = Vec::new();
        for message in messages {
            self.check_own(&message.event)?;
            let options = EventOptions {
                run_id: Some(self.id()),
                ..message.event.clone()
            };
            events.extend(NewContextEvent::of_message(message.json.clone(), &options)?);
        }
        Ok(events)
    }

    /// Refuses a run and a step that aren't the recorder's own: it would write others than it was told.
    fn check_own(&self, event: &EventOptions) -> Result<()> {
        if let Some(other) = event.run_id.filter(|id| *id != self.id()) {
            return Err(Error::invalid(format!(
                "an event of run {other} can't be recorded by the recorder of run {}; leave its run out, or use that run's recorder",
                self.id()
            )));
        }
        match event.step_number {
            Some(step) => Err(Error::invalid(format!(
                "an event is of the step that the recorder is in, not of one that is given ({step}); leave its step number out, next_step begins another"
            ))),
            None => Ok(()),
        }
    }

    pub(super) fn recorded(
        &self,
        appended: &Appended,
        events: &[NewContextEvent],
        step_number: u32,
    ) -> Result<Recorded> {
        // A repeated batch has no result for operations that wrote nothing, such as that of the run's stream without a
        // new step.
        let (Some(context), run) = (
            appended.ops.first(),
            appended.ops.get(usize::from(!events.is_empty())),
        ) else {
            return Err(Error::new(
                ErrorKind::Io,
                "the backend acknowledged a batch without saying where it is",
            ));
        };
        if let Some(run) = run.filter(|_| !appended.repeated) {
            let mut state = self.state();
            state.last_sequence = state.last_sequence.max(run.last_sequence);
            state.recorded_step = state.recorded_step.max(step_number);
            state
                .calls
                .after_commit(events.len() as u64, context.last_sequence);
        }
        // Records of calls that are added in front of their results are no message.
        let is_call = |event: &&NewContextEvent| event.kind == ContextEventKind::ToolCall;
        let added = events.iter().take_while(is_call).count() as u64;
        let first = (context.last_sequence.0 + 1).saturating_sub(events.len() as u64);
        Ok(Recorded {
            id: context.position.0 + added,
            sequence_number: first + added,
            last_sequence: context.last_sequence.0,
            step_number,
            repeated: appended.repeated,
            truncated: appended.truncated,
        })
    }

    /// An error if the run has paused or ended, for whatever reason.
    pub(super) async fn check_running(&self) -> Result<()> {
        self.refresh_if_moved().await?;
        running(&self.state().run, "be written to")
    }

    pub(super) async fn refresh_if_moved(&self) -> Result<()> {
        let info = self
            .inner
            .runs
            .store
            .backend()
            .stream(run_stream(self.id()))
            .await?;
        if info.map(|info| info.last_sequence) != Some(self.state().last_sequence) {
            self.refresh().await?;
        }
        Ok(())
    }

    /// Folds the new events of the run's stream, and returns its last sequence.
    pub(crate) async fn refresh(&self) -> Result<Sequence> {
        let (mut fold, after) = {
            let state = self.state();
            (state.fold.clone(), state.folded)
        };
        let last_sequence = self.inner.runs.follow(self.id(), &mut fold, after).await?;
        let mut state = self.state();
        // Another task may have written and refreshed first.
        if last_sequence >= state.last_sequence
            && let Some(run) = fold.run().cloned()
        {
            let begun = state.run.step_count;
            state.recorded_step = run.step_count;
            state.last_sequence = last_sequence;
            state.run = run;
            if state.run.status == RunStatus::Running {
                state.run.step_count = state.run.step_count.max(begun);
            }
            (state.fold, state.folded) = (fold, last_sequence);
        }
        Ok(state.last_sequence)
    }
}
