//! [`RunRecorder`]: the handle that writes a run, and its cached state of the run.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard},
};

use runlog_log::Sequence;
use runlog_model::{Run, RunEvent, RunFold, RunId};
use serde::Serialize;

use super::known_calls::Calls;
#[cfg(doc)]
use crate::ErrorKind;
use crate::{
    Result,
    kernel::{gates::Gate, live::LiveGuard, runs::ContextOrder},
    runs::Runs,
};

/// Writes one run while it happens. [`blocking::RunRecorder`](crate::blocking::RunRecorder) is its blocking counterpart.
///
/// Cheap to clone, and usable from many tasks. Every write is refused with [`WrongStatus`](ErrorKind::WrongStatus) once
/// the run has paused or ended, for whatever reason. Dropping a recorder leaves its run `running`; [`Runs::recover`]
/// then pauses it.
///
/// The recorders of a context write in turn. Await the future of a write, or drop it: a future that was polled once and
/// is neither awaited nor dropped, such as a `select!` branch polled by reference, may hold its turn and block the others.
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
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) runs: Runs,
    pub(super) _live: LiveGuard,
    pub(super) gate: Gate,
    pub(super) id: RunId,
    /// How many records had been redacted when the run was read.
    pub(super) redactions: u64,
    pub(super) steps_before: u32,
    pub(super) order: ContextOrder,
    pub(super) state: Mutex<State>,
}

pub(super) struct State {
    pub(super) run: Run,
    /// The fold of the run's stream up to `folded`, so that each event is read once.
    pub(super) fold: RunFold,
    pub(super) folded: Sequence,
    /// The last sequence of the run's stream. Writes expect it, so that none succeeds after the run has ended.
    pub(super) last_sequence: Sequence,
    /// The last step that is recorded in the run's stream.
    pub(super) recorded_step: u32,
    /// How many steps this recorder has begun.
    pub(super) steps_begun: u32,
    pub(super) calls: Calls,
}

/// The step in which something was recorded, as it was when that was called for: a write may wait while further steps begin.
#[derive(Clone, Copy)]
pub(super) struct StepNow {
    /// How many steps the recorder had begun. The step's number isn't kept, because another recorder of the run may have begun
    /// further ones by then.
    begun: u32,
}

impl StepNow {
    pub(super) fn number(self, state: &State) -> u32 {
        let since = state.steps_begun.wrapping_sub(self.begun);
        state.run.step_count.saturating_sub(since)
    }
}

/// Where a message was recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Recorded {
    /// The id of the (first) message: its position in the log.
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
    /// A recorder that continues a run from its current state. For an ended run it returns that state, and refuses writes.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) when there is no such run.
    pub async fn recorder(&self, id: RunId) -> Result<RunRecorder> {
        let live = self.index().shared().live().enter(id);
        let redactions = self.store.backend().redactions();
        let loaded = self.load(id).await?;
        let (fold, last) = (loaded.fold, loaded.last_sequence);
        Ok(self.recorder_at(live, loaded.run, fold, last, redactions))
    }

    /// A recorder of a run whose creation is about to be written, or was just written, as the first event of its stream.
    pub(crate) fn recorder_of_new(&self, run: &Run) -> Result<RunRecorder> {
        let mut fold = RunFold::new();
        fold.push(RunEvent::Created(Box::new(run.clone())))?;
        // Before the run is in the log, so that a concurrent recovery doesn't mistake it for an orphan.
        let live = self.index().shared().live().enter(run.id);
        let redactions = self.store.backend().redactions();
        Ok(self.recorder_at(live, run.clone(), fold, Sequence::FIRST, redactions))
    }

    fn recorder_at(
        &self,
        live: LiveGuard,
        run: Run,
        fold: RunFold,
        last_sequence: Sequence,
        redactions: u64,
    ) -> RunRecorder {
        let inner = Inner {
            runs: self.clone(),
            _live: live,
            gate: self.index().shared().gate(run.id),
            id: run.id,
            redactions,
            steps_before: fold.steps_before(),
            order: self.index().shared().order_in(run.instance_id),
            state: Mutex::new(State {
                recorded_step: run.step_count,
                steps_begun: 0,
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

    /// The run as last known to this recorder.
    pub fn run(&self) -> Run {
        self.state().run.clone()
    }

    /// The run as last known to this recorder, with the last sequence of its stream then.
    pub(crate) fn run_at(&self) -> (Run, Sequence) {
        let state = self.state();
        (state.run.clone(), state.last_sequence)
    }

    /// The step of what is recorded now; to be taken before anything is waited for.
    pub(super) fn step_now(&self) -> StepNow {
        StepNow {
            begun: self.state().steps_begun,
        }
    }

    /// The lock is never held across a wait.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.inner
            .state
            .lock()
            .expect("a run's recorder was left broken by a panic")
    }
}

impl fmt::Debug for RunRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunRecorder")
            .field("id", &self.id())
            .finish_non_exhaustive()
    }
}
