//! [`RunRecorder`]: writes a run while it happens.

mod calls;
mod entries;
pub(super) mod open;
mod repeat;
mod status;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard},
};

use runlog_log::{Appended, Batch, Expected, Op, Sequence};
use runlog_model::{
    EncodedEvent, EventOptions, NewContextEvent, NewMessage, RawJson, Run, RunEvent, RunFold,
    RunId, RunStatus, pause_reason, tool_calls_of,
};
use serde::Serialize;

use calls::Calls;
pub use entries::RunEntry;
use repeat::expected_of;
use status::running;

use super::{
    Runs, ToolOutcome,
    extras::BatchExtras,
    gate::Gate,
    index::{ContextOrder, LiveGuard},
    load::stream_of,
    outcome::AnsweredCall,
    start::context_records,
};
use crate::{
    Error, ErrorKind, Result,
    contexts::{AppendOptions, RawMessage, events},
    journal::attempts::ATTEMPTS_MAX,
};

/// Writes one run while it happens. [`blocking::RunRecorder`](crate::blocking::RunRecorder) is the same for
/// callers that wait.
///
/// Cheap to clone, and usable from many tasks. Every write is refused with
/// [`WrongStatus`](ErrorKind::WrongStatus) once the run has paused or ended, whoever ended it. A recorder that
/// is dropped leaves its run `running`, to be found by [`Runs::recover`].
///
/// The recorders of a context write in turn. Await the future of a write, or drop it: one that was polled once and is kept,
/// as a branch of `select!` is that is polled by reference, may hold its turn, and the others wait for it.
///
/// ```
/// use runlog::{ErrorKind, NewMessage, NewRun, NewSession, Store};
///
/// # pollster::block_on(async {
/// let store = Store::in_memory();
/// let run = store.runs().start(NewRun::in_new_session(NewSession::default(), "coder")).await?;
/// run.next_step().await?;
/// let recorded = run.record_message(NewMessage::assistant("Done.")).await?;
/// assert_eq!(recorded.step_number, 1);
/// run.complete(Some("done")).await?;
/// let late = run.record_message(NewMessage::assistant("One more thing")).await;
/// assert_eq!(late.unwrap_err().kind(), ErrorKind::WrongStatus);
/// # Ok::<(), runlog::Error>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct RunRecorder {
    inner: Arc<Inner>,
}

struct Inner {
    runs: Runs,
    _live: LiveGuard,
    gate: Gate,
    id: RunId,
    steps_before: u32,
    order: ContextOrder,
    state: Mutex<State>,
}

struct State {
    run: Run,
    /// The run as its stream tells of it, up to `folded`: what is read of the stream is read once.
    fold: RunFold,
    folded: Sequence,
    /// The last sequence of the run's stream: what a write expects, so that none gets into a run that ended.
    last_sequence: Sequence,
    /// The last step that the run's stream tells of.
    recorded_step: u32,
    calls: Calls,
}

/// Where a message was recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Recorded {
    /// The id of the (first) message: its place in the whole log.
    pub id: u64,
    /// Its sequence in the instance's context.
    pub sequence_number: u64,
    /// The sequence of the last event recorded with it: its tool calls, and their results.
    pub last_sequence: u64,
    /// The step it belongs to.
    pub step_number: u32,
    /// Whether an earlier write had the same idempotency key, so that nothing was written now.
    pub repeated: bool,
    /// Of a repeat: whether the context was truncated since, so that what was written then is not in it any more. Its
    /// sequences may be those of other events by now.
    pub truncated: bool,
}

impl Runs {
    /// Writes on with a run, from where it is. It may have ended: the run is then told, and writes are refused.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) when there is no such run.
    pub async fn recorder(&self, id: RunId) -> Result<RunRecorder> {
        let live = self.index().shared().live(id);
        let loaded = self.load(id).await?;
        Ok(self.recorder_at(live, loaded.run, loaded.fold, loaded.last_sequence))
    }

    /// Writes a run whose creation is about to be written, or just was, as the first event of its stream.
    pub(crate) fn recorder_of_new(&self, run: &Run) -> Result<RunRecorder> {
        let mut fold = RunFold::new();
        fold.push(RunEvent::Created(Box::new(run.clone())))?;
        // From before it is there, so that a recovery at the same time doesn't take it for an orphan.
        let live = self.index().shared().live(run.id);
        Ok(self.recorder_at(live, run.clone(), fold, Sequence::FIRST))
    }

    fn recorder_at(
        &self,
        live: LiveGuard,
        run: Run,
        fold: RunFold,
        last_sequence: Sequence,
    ) -> RunRecorder {
        let inner = Inner {
            runs: self.clone(),
            _live: live,
            gate: self.index().shared().gate(run.id),
            id: run.id,
            steps_before: fold.steps_before(),
            order: self.index().shared().order_in(run.instance_id),
            state: Mutex::new(State {
                recorded_step: run.step_count,
                run,
                fold,
                folded: last_sequence,
                last_sequence,
                calls: Calls::default(),
            }),
        };
        RunRecorder {
            inner: Arc::new(inner),
        }
    }
}

impl RunRecorder {
    /// The id of the run.
    pub fn id(&self) -> RunId {
        self.inner.id
    }

    /// The run as far as this recorder knows.
    pub fn run(&self) -> Run {
        self.state().run.clone()
    }

    /// The run as far as this recorder knows, and where its stream stood then.
    pub(crate) fn run_at(&self) -> (Run, Sequence) {
        let state = self.state();
        (state.run.clone(), state.last_sequence)
    }

    /// The lock is never held across a wait.
    fn state(&self) -> MutexGuard<'_, State> {
        self.inner
            .state
            .lock()
            .expect("a run's recorder was left broken by a panic")
    }

    /// Begins the next step, and says its number, counted over all resumes. It is written with the first
    /// message recorded in it.
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
                    return Ok(state.run.step_count);
                }
            }
        };
        self.pause(pause_reason::STEP_BUDGET).await?;
        Err(Error::new(
            ErrorKind::LimitReached,
            format!(
                "run {} has taken the {max_steps} steps it may, and was paused; resume it to go on",
                self.id()
            ),
        ))
    }

    /// Records a message given in parts, with the tool calls it asks for and the step it begins, as one batch.
    /// Durable when it returns.
    ///
    /// # Errors
    /// [`WrongStatus`](ErrorKind::WrongStatus) when the run isn't running,
    /// [`InvalidInput`](ErrorKind::InvalidInput) or [`TooLarge`](ErrorKind::TooLarge) when the message is refused: no
    /// provider takes it, it is the result of a tool call that the context doesn't have, or it isn't a result and the
    /// context has tool calls that await theirs,
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) when it is a second result of one,
    /// [`NotFound`](ErrorKind::NotFound) when its session was deleted. Nothing is written then.
    pub async fn record_message(&self, message: NewMessage) -> Result<Recorded> {
        self.record_raw_message(message.to_json()?).await
    }

    /// Records a message in the provider's own JSON, kept byte for byte; else as
    /// [`record_message`](Self::record_message).
    ///
    /// # Errors
    /// As [`record_message`](Self::record_message).
    pub async fn record_raw_message(&self, json: RawJson) -> Result<Recorded> {
        self.record_raw_message_with(json, &AppendOptions::default())
            .await
    }

    /// [`record_raw_message`](Self::record_raw_message) with options. Run and step are the recorder's own.
    ///
    /// # Errors
    /// As [`record_message`](Self::record_message); [`Conflict`](ErrorKind::Conflict) when the context's last
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

    /// Records what a tool gave for a call that was recorded before, as a message in the provider's form.
    /// Durable when it returns.
    ///
    /// # Errors
    /// As [`record_message`](Self::record_message): [`InvalidInput`](ErrorKind::InvalidInput) when the context has no
    /// such call, [`AlreadyExists`](ErrorKind::AlreadyExists) when the call has its result already.
    pub async fn record_tool_result(&self, outcome: &ToolOutcome) -> Result<Recorded> {
        self.record_tool_result_with(outcome, &BatchExtras::default())
            .await
    }

    /// [`record_tool_result`](Self::record_tool_result), and something else in the same batch.
    pub(crate) async fn record_tool_result_with(
        &self,
        outcome: &ToolOutcome,
        extras: &BatchExtras<'_>,
    ) -> Result<Recorded> {
        outcome.check()?;
        let call = self.call_of(&outcome.tool_call_id).await?;
        self.record_with(&[outcome.message(&call)], &AppendOptions::default(), extras)
            .await
    }

    /// Records the assistant message that asked for tool calls together with what the tools gave: message,
    /// calls, results and the step as one batch, and one flush. Durable when it returns.
    ///
    /// # Errors
    /// As [`record_message`](Self::record_message); [`InvalidInput`](ErrorKind::InvalidInput) when an outcome
    /// answers no call of the message.
    pub async fn record_tool_call(
        &self,
        message: RawJson,
        outcomes: &[ToolOutcome],
    ) -> Result<Recorded> {
        let calls = tool_calls_of(&message)?;
        let mut messages = vec![RawMessage::from(message)];
        for outcome in outcomes {
            outcome.check()?;
            let answered = calls
                .iter()
                .find(|call| call.id.as_deref() == Some(&outcome.tool_call_id));
            let call = answered.map(AnsweredCall::from).ok_or_else(|| {
                Error::invalid(format!(
                    "the message asks for no tool call {:?}, which the outcome answers",
                    outcome.tool_call_id
                ))
            })?;
            messages.push(outcome.message(&call));
        }
        self.record(&messages, &AppendOptions::default()).await
    }

    /// Pauses the run: it can be resumed. Durable when it returns.
    ///
    /// # Errors
    /// [`WrongStatus`](ErrorKind::WrongStatus) when the run isn't running, [`TooLarge`](ErrorKind::TooLarge) for a
    /// reason over its limit.
    pub async fn pause(&self, reason: &str) -> Result<Run> {
        self.change(RunStatus::Paused, |change| {
            change.pause_reason = Some(reason.to_owned())
        })
        .await
    }

    /// Ends the run well, with what came of it. Durable when it returns.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    pub async fn complete(&self, summary: Option<&str>) -> Result<Run> {
        self.change(RunStatus::Completed, |change| {
            change.summary = summary.map(str::to_owned)
        })
        .await
    }

    /// Ends the run with an error. Durable when it returns.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    pub async fn fail(&self, error_message: &str) -> Result<Run> {
        self.change(RunStatus::Failed, |change| {
            change.error_message = Some(error_message.to_owned())
        })
        .await
    }

    /// Ends the run because nobody wants it any more. A paused run can be cancelled too, unless another goes on
    /// from it. Durable when it returns.
    ///
    /// # Errors
    /// [`WrongStatus`](ErrorKind::WrongStatus) when the run has ended or was resumed, [`TooLarge`](ErrorKind::TooLarge)
    /// for a summary over its limit.
    pub async fn cancel(&self, summary: Option<&str>) -> Result<Run> {
        self.change(RunStatus::Cancelled, |change| {
            change.summary = summary.map(str::to_owned)
        })
        .await
    }

    async fn record(&self, messages: &[RawMessage], options: &AppendOptions) -> Result<Recorded> {
        self.record_with(messages, options, &BatchExtras::default())
            .await
    }

    /// Records messages, and something else in the same batch. Without a message, what is said of it is that
    /// of the run's stream.
    pub(crate) async fn record_with(
        &self,
        messages: &[RawMessage],
        options: &AppendOptions,
        extras: &BatchExtras<'_>,
    ) -> Result<Recorded> {
        let instance = self.state().run.instance_id;
        self.inner.runs.store.writable_instance(instance).await?;
        let mut events = self.events_of(messages)?;
        let _turn = self.turn(events.iter()).await;
        let (taken, calls) = self.take_calls(events.iter()).await;
        let (mut attempt, mut refused) = (1, None);
        loop {
            let key = options.idempotency_key.as_ref().map(String::as_bytes);
            let (step_number, recorded_step, last) = {
                let state = self.state();
                let checked = running(&state.run, "be written to").and_then(|()| calls.clone());
                let last = expected_of(&state, checked, key, &mut refused)?;
                (state.run.step_count, state.recorded_step, last)
            };
            events
                .iter_mut()
                .for_each(|event| event.meta.step_number = Some(step_number));
            let metas = events
                .iter()
                .map(NewContextEvent::encode_meta)
                .collect::<Result<Vec<_>>>()?;
            let at_ms = self.inner.runs.store.backend().now_ms();
            let step = (step_number > recorded_step)
                .then(|| RunEvent::StepStarted { step_number, at_ms }.encode());
            let step = step.transpose()?;
            let expected = options
                .expected_last_sequence
                .map_or(Expected::Any, |last| Expected::Last(Sequence(last)));
            let mut ops = Vec::with_capacity(2 + extras.ops.len());
            if !events.is_empty() {
                let stream = events::stream_of(instance);
                ops.push(Op::Append {
                    stream,
                    expected,
                    records: context_records(&events, &metas),
                });
            }
            // Also without a record: it sees to it that the run hasn't ended.
            ops.push(Op::Append {
                stream: stream_of(self.id()),
                expected: Expected::Last(last),
                records: step
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
                Err(error) if error.kind() == ErrorKind::Conflict && attempt < ATTEMPTS_MAX => {
                    attempt += 1;
                    // Nobody wrote to the run's stream: it was the context that wasn't as expected.
                    if self.refresh().await? == last && options.expected_last_sequence.is_some() {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn events_of(&self, messages: &[RawMessage]) -> Result<Vec<NewContextEvent>> {
        let mut events = Vec::new();
        for message in messages {
            let options = EventOptions {
                run_id: Some(self.id()),
                ..message.event.clone()
            };
            events.extend(NewContextEvent::of_message(message.json.clone(), &options)?);
        }
        Ok(events)
    }

    fn recorded(
        &self,
        appended: &Appended,
        events: &[NewContextEvent],
        step_number: u32,
    ) -> Result<Recorded> {
        // A repeated batch doesn't tell of steps that wrote nothing, such as that of a run whose step was told.
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
        Ok(Recorded {
            id: context.position.0,
            sequence_number: (context.last_sequence.0 + 1).saturating_sub(events.len() as u64),
            last_sequence: context.last_sequence.0,
            step_number,
            repeated: appended.repeated,
            truncated: appended.truncated,
        })
    }

    /// Refuses to go on with a run that has paused or ended, whoever ended it.
    async fn check_running(&self) -> Result<()> {
        self.refresh_if_moved().await?;
        running(&self.state().run, "be written to")
    }

    async fn refresh_if_moved(&self) -> Result<()> {
        let info = self
            .inner
            .runs
            .store
            .backend()
            .stream(stream_of(self.id()))
            .await?;
        if info.map(|info| info.last_sequence) != Some(self.state().last_sequence) {
            self.refresh().await?;
        }
        Ok(())
    }

    /// Takes in what the run's stream has got since, and says where it ends.
    pub(crate) async fn refresh(&self) -> Result<Sequence> {
        let (mut fold, after) = {
            let state = self.state();
            (state.fold.clone(), state.folded)
        };
        let last_sequence = self.inner.runs.follow(self.id(), &mut fold, after).await?;
        let mut state = self.state();
        // Another task may have written and come here first.
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

impl fmt::Debug for RunRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunRecorder")
            .field("id", &self.id())
            .finish_non_exhaustive()
    }
}
