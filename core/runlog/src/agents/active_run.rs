//! [`ActiveRun`]: a run that has begun and not ended, and its place in the tree of those that spawned it.
//!
//! Invariant: a task that writes for the run holds a read lock of its `gate`; a task that spawns for it holds a read
//! lock of its `nursery`. The task that ends the run first takes the write lock of both, parents before their children.
//! So no write is in progress when the end is written, and no child is created that the end misses.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use runlog_model::{AgentDefinition, RunId, RunStatus, Stop, StopKind, pause_reason};
use tokio::sync::{
    OwnedRwLockWriteGuard, OwnedSemaphorePermit, RwLock, RwLockReadGuard, Semaphore, watch,
};
use tokio_util::sync::CancellationToken;

use super::{SpawnResult, space::SharedSpace};
use crate::{Error, kernel::inbox::Inbox, runs::RunRecorder};

pub(super) struct ActiveRun {
    pub(super) recorder: RunRecorder,
    /// What the agent is; `None` for a run that isn't executed by this orchestrator.
    pub(super) definition: Option<Arc<AgentDefinition>>,
    /// What it was asked to do.
    pub(super) task: String,
    /// How many runs are above it.
    pub(super) depth: u32,
    /// Whether it is executed outside this orchestrator, or not at all.
    pub(super) is_external: bool,
    /// Cancelled when it and all runs below it are to stop.
    pub(super) token: CancellationToken,
    /// Cancelled when its step budget is spent: the run is paused, whatever its executor does.
    pub(super) spent: CancellationToken,
    /// Cancelled when its executor has ended, or will never start.
    pub(super) over: CancellationToken,
    /// Cancelled when its executor's grace period has expired.
    pub(super) abandoned: CancellationToken,
    /// Cancelled when its end is written, or can't be.
    pub(super) ended: CancellationToken,
    pub(super) space: SharedSpace,
    pub(super) inbox: Arc<Inbox>,
    parent: Weak<ActiveRun>,
    gate: Arc<RwLock<()>>,
    nursery: Arc<RwLock<()>>,
    children: Mutex<BTreeMap<RunId, Arc<ActiveRun>>>,
    /// How many of its spawns are being written or waited for, or have results that aren't recorded yet.
    open_spawns: watch::Sender<usize>,
    /// The steps that it began with, taken by the runs that it resumes.
    steps_before: u32,
    slot: Mutex<Slot>,
    /// Held by the one task that waits for the run's permit to work again.
    returning: tokio::sync::Mutex<()>,
    failure: Mutex<Option<Error>>,
    /// Whether it is about to be paused, and with it all runs below it.
    is_pausing: AtomicBool,
    /// Why it was asked to stop, unless it stops because its parent does.
    stop: OnceLock<Stop>,
    /// Who writes its end.
    ender: Mutex<Ender>,
}

/// Who writes the end of a run: decided once, so that a status reported early is the one that is written.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Ender {
    /// Not decided: it is still working.
    #[default]
    Undecided,
    /// The run itself, by its agent's outcome.
    Itself,
    /// The task that stops it, mostly together with its parent.
    Another,
}

/// The permit to work, given back while the run waits for its sub-agents.
#[derive(Default)]
struct Slot {
    permit: Option<OwnedSemaphorePermit>,
    waits: u32,
    /// Whether it held a permit before it began to wait.
    lent: bool,
    /// Whether its work has ended: a permit that arrives later is returned.
    is_over: bool,
}

/// What a run begins with.
pub(super) struct Beginning {
    pub(super) recorder: RunRecorder,
    pub(super) definition: Option<Arc<AgentDefinition>>,
    pub(super) task: String,
    pub(super) depth: u32,
    pub(super) space: SharedSpace,
    pub(super) inbox: Arc<Inbox>,
}

impl ActiveRun {
    pub(super) fn new(beginning: Beginning, parent: Option<&Arc<Self>>) -> Arc<Self> {
        let live = Arc::new(Self::build(beginning, parent, false));
        if let Some(parent) = parent {
            locked(&parent.children).insert(live.id(), Arc::clone(&live));
        }
        live
    }

    /// A run that is executed outside this orchestrator, or not at all.
    pub(super) fn outside(beginning: Beginning) -> Arc<Self> {
        let live = Self::build(beginning, None, true);
        live.over.cancel();
        Arc::new(live)
    }

    fn build(beginning: Beginning, parent: Option<&Arc<Self>>, is_external: bool) -> Self {
        let Beginning {
            recorder,
            definition,
            task,
            depth,
            space,
            inbox,
        } = beginning;
        let token = parent.map_or_else(CancellationToken::new, |parent| parent.token.child_token());
        let steps_before = recorder.run().step_count;
        Self {
            recorder,
            definition,
            task,
            depth,
            is_external,
            token,
            spent: CancellationToken::new(),
            over: CancellationToken::new(),
            abandoned: CancellationToken::new(),
            ended: CancellationToken::new(),
            space,
            inbox,
            parent: parent.map_or_else(Weak::new, Arc::downgrade),
            gate: Arc::default(),
            nursery: Arc::default(),
            children: Mutex::default(),
            open_spawns: watch::Sender::new(0),
            steps_before,
            slot: Mutex::default(),
            returning: tokio::sync::Mutex::default(),
            failure: Mutex::default(),
            is_pausing: AtomicBool::new(false),
            stop: OnceLock::new(),
            ender: Mutex::default(),
        }
    }

    pub(super) fn id(&self) -> RunId {
        self.recorder.id()
    }

    /// A read lock of the gate. An agent that hangs may hold it for ever, so the run's end waits for it only for the
    /// grace period; later writes are refused.
    pub(super) async fn write_guard(&self) -> RwLockReadGuard<'_, ()> {
        self.gate.read().await
    }

    /// A read lock of the nursery. Only the orchestrator's own tasks hold it, so the run's end can wait for it without
    /// a timeout.
    pub(super) async fn spawn_guard(&self) -> RwLockReadGuard<'_, ()> {
        self.nursery.read().await
    }

    /// Blocks writes for the run until the guard is dropped.
    pub(super) async fn block_writes(&self) -> OwnedRwLockWriteGuard<()> {
        Arc::clone(&self.gate).write_owned().await
    }

    /// Blocks new children until the guard is dropped.
    pub(super) async fn block_spawns(&self) -> OwnedRwLockWriteGuard<()> {
        Arc::clone(&self.nursery).write_owned().await
    }

    /// The runs it spawned that haven't ended.
    pub(super) fn children(&self) -> Vec<Arc<Self>> {
        locked(&self.children).values().cloned().collect()
    }

    /// Counts a spawn of it as open until the returned value is dropped.
    pub(super) fn open_spawn(self: &Arc<Self>) -> OpenSpawn {
        self.open_spawns.send_modify(|open| *open += 1);
        OpenSpawn {
            live: Arc::clone(self),
        }
    }

    /// How many of its spawns are open, and each change of that.
    pub(super) fn open_spawns(&self) -> watch::Receiver<usize> {
        self.open_spawns.subscribe()
    }

    /// Waits until none of its spawns is open. Once it is to stop, that is when their results are recorded, or won't be.
    pub(super) async fn spawns_closed(&self) {
        // The sender lives as long as `self`, so this can't fail.
        let _ = self.open_spawns().wait_for(|open| *open == 0).await;
    }

    /// Whether its next step would be over its budget.
    pub(super) fn is_spent(&self) -> bool {
        let run = self.recorder.run();
        let taken = run.step_count.saturating_sub(self.steps_before);
        run.max_steps.is_some_and(|max_steps| taken >= max_steps)
    }

    /// Removes it from the tree.
    pub(super) fn leave(&self) {
        if let Some(parent) = self.parent.upgrade() {
            locked(&parent.children).remove(&self.id());
        }
    }

    pub(super) fn work_with(&self, permit: OwnedSemaphorePermit) {
        let mut slot = locked(&self.slot);
        slot.permit = Some(permit).filter(|_| !slot.is_over);
    }

    /// Releases the permit for other agents while this one waits, until [`Waiting::over`] is called on the returned value.
    pub(super) fn wait_for_others(self: &Arc<Self>) -> Waiting {
        let mut slot = locked(&self.slot);
        slot.waits += 1;
        slot.lent |= slot.permit.take().is_some();
        Waiting {
            live: Arc::clone(self),
        }
    }

    /// Whether it has to wait for its turn before it works again.
    fn is_out_of_turn(&self) -> bool {
        let slot = locked(&self.slot);
        slot.waits == 0 && slot.lent
    }

    /// Stores a new permit, or drops it if the run has begun to wait for others again: those may need it, and the run
    /// gets another one once they have ended.
    fn work_again(&self, permit: OwnedSemaphorePermit) {
        let mut slot = locked(&self.slot);
        if slot.waits > 0 {
            return;
        }
        slot.lent = false;
        slot.permit = Some(permit).filter(|_| !slot.is_over);
    }

    /// Returns the permit for good.
    pub(super) fn stop_working(&self) {
        let mut slot = locked(&self.slot);
        slot.is_over = true;
        slot.permit = None;
    }

    /// Asks it and all runs below it to stop. The first reason is kept.
    pub(super) fn request_stop(&self, stop: Stop) {
        // An error means that a reason is set already.
        let _ = self.stop.set(stop);
        self.token.cancel();
    }

    /// Why it was asked to stop, alone or together with a run above it; `None` before that.
    pub(super) fn stop(&self) -> Option<Stop> {
        if let Some(stop) = self.stop.get() {
            return Some(stop.clone());
        }
        if !self.token.is_cancelled() {
            return None;
        }
        let above = self.parent.upgrade().and_then(|parent| parent.stop());
        Some(above.map_or_else(|| StopKind::Parent.into(), stop_below))
    }

    /// Marks it as about to be paused.
    pub(super) fn pausing(&self) {
        self.is_pausing.store(true, Ordering::Release);
    }

    /// Whether it is about to be paused, alone or together with a run above it.
    pub(super) fn is_pausing(&self) -> bool {
        self.is_pausing.load(Ordering::Acquire)
            || self
                .parent
                .upgrade()
                .is_some_and(|parent| parent.is_pausing())
    }

    pub(super) fn fail(&self, error: Error) {
        locked(&self.failure).get_or_insert(error);
    }

    /// Why its end couldn't be written.
    pub(super) fn failure(&self) -> Option<Error> {
        locked(&self.failure).clone()
    }

    /// Claims the writing of the end for the run's own task; `false` if another task has claimed it.
    pub(super) fn claim_end_for_itself(&self) -> bool {
        let mut ender = locked(&self.ender);
        if *ender == Ender::Undecided {
            *ender = Ender::Itself;
        }
        *ender == Ender::Itself
    }

    /// Claims the writing of the end for a task that stops the run; `false` if the run's own task has claimed it.
    pub(super) fn claim_end_for_another(&self) -> bool {
        let mut ender = locked(&self.ender);
        if *ender == Ender::Undecided {
            *ender = Ender::Another;
        }
        *ender == Ender::Another
    }

    /// The result that is recorded for the parent's model when the parent is about to be paused: this run is paused
    /// too, unless it ended by itself before.
    pub(super) async fn result_of_pausing(&self) -> SpawnResult {
        if !self.claim_end_for_another() || self.ended.is_cancelled() {
            self.ended.cancelled().await;
            return self.result();
        }
        let pause_reason = Some(pause_reason::PARENT.to_owned());
        SpawnResult {
            status: RunStatus::Paused,
            pause_reason,
            stop_kind: Some(StopKind::Parent),
            ..SpawnResult::of(self.recorder.run())
        }
    }

    /// Its outcome, as far as that is written.
    pub(super) fn result(&self) -> SpawnResult {
        SpawnResult::ended(self.recorder.run(), self.failure().as_ref())
    }
}

/// While this exists, the run waits for others, and other agents can use its permit.
pub(super) struct Waiting {
    live: Arc<ActiveRun>,
}

impl Waiting {
    /// Ends the wait: waits for a permit, or until the run is to stop. A run that still waits for other spawns gets none.
    pub(super) async fn over(self, slots: &Arc<Semaphore>) {
        let live = Arc::clone(&self.live);
        drop(self);
        let turn = async {
            let _returning = live.returning.lock().await;
            if live.is_out_of_turn()
                && let Ok(permit) = Arc::clone(slots).acquire_owned().await
            {
                live.work_again(permit);
            }
        };
        live.token.run_until_cancelled(turn).await;
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        locked(&self.live.slot).waits -= 1;
    }
}

/// A spawn whose results may still be recorded in its parent's context.
pub(super) struct OpenSpawn {
    live: Arc<ActiveRun>,
}

impl Drop for OpenSpawn {
    fn drop(&mut self) {
        self.live.open_spawns.send_modify(|open| *open -= 1);
    }
}

/// The stop reason of the runs below a run that is stopped.
pub(super) fn stop_below(above: Stop) -> Stop {
    if above.kind == StopKind::Parent {
        return above;
    }
    let reason = format!("the run above it is to stop: {}", above.reason);
    Stop::new(StopKind::Parent, reason)
}

/// None of these locks is held across an `await`.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("a live run was left broken by a panic")
}
