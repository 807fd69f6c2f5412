//! [`ActiveRun`]: a run that has begun and not ended, and its place in the tree of those that spawned it.
//!
//! Invariant: whoever writes for the run holds a read lock of its `gate`, and whoever spawns for it one of
//! its `nursery`. Whoever ends the run write-locks both first, parents before their children, so that nothing is under way
//! when the end is written, and no child is created that the end misses.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use runlog_model::{AgentDefinition, RunId, RunStatus, Stop, StopKind, pause_reason};
use tokio::sync::{
    OwnedRwLockWriteGuard, OwnedSemaphorePermit, RwLock, RwLockReadGuard, Semaphore,
};
use tokio_util::sync::CancellationToken;

use super::{SpawnResult, space::SharedSpace};
use crate::{Error, kernel::inbox::Inbox, runs::RunRecorder};

pub(super) struct ActiveRun {
    pub(super) recorder: RunRecorder,
    /// What the agent is; `None` for a run that somebody else works on.
    pub(super) definition: Option<Arc<AgentDefinition>>,
    /// What it was asked to do.
    pub(super) task: String,
    /// How many runs are above it.
    pub(super) depth: u32,
    /// Whether somebody else works on it, or nobody does.
    pub(super) is_external: bool,
    /// Tells it and all below it to stop.
    pub(super) token: CancellationToken,
    /// Cancelled when its step budget is spent: the run is paused, whatever its executor does.
    pub(super) spent: CancellationToken,
    /// Cancelled when its executor has ended, or will never start.
    pub(super) over: CancellationToken,
    /// Cancelled when its executor's grace period is over.
    pub(super) abandoned: CancellationToken,
    /// Cancelled when its end is written, or can't be.
    pub(super) ended: CancellationToken,
    pub(super) space: SharedSpace,
    pub(super) inbox: Arc<Inbox>,
    parent: Weak<ActiveRun>,
    gate: Arc<RwLock<()>>,
    nursery: Arc<RwLock<()>>,
    children: Mutex<BTreeMap<RunId, Arc<ActiveRun>>>,
    slot: Mutex<Slot>,
    /// Held by the one task that waits for the run's permit to work again.
    returning: tokio::sync::Mutex<()>,
    failure: Mutex<Option<Error>>,
    /// Whether it is about to be paused, and with it what is below it.
    is_pausing: AtomicBool,
    /// Why it was told to stop, where that wasn't the run above it.
    stop: OnceLock<Stop>,
    /// Who writes its end.
    ender: Mutex<Ender>,
}

/// Who writes the end of a run: decided once, so that a status reported early is the one that is written.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Ender {
    /// Nobody yet: it is at work.
    #[default]
    Undecided,
    /// The run itself, by its agent's outcome.
    Itself,
    /// Whoever stops it, mostly together with its parent.
    Another,
}

/// The permit to work, given back while the run waits for its sub-agents.
#[derive(Default)]
struct Slot {
    permit: Option<OwnedSemaphorePermit>,
    waits: u32,
    /// Whether it held a permit before it began to wait.
    lent: bool,
    /// Whether its work is over, so that a permit that comes now isn't needed.
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
        let live = Arc::new(Self::made(beginning, parent, false));
        if let Some(parent) = parent {
            locked(&parent.children).insert(live.id(), Arc::clone(&live));
        }
        live
    }

    /// A run that somebody else works on, or nobody does.
    pub(super) fn outside(beginning: Beginning) -> Arc<Self> {
        let live = Self::made(beginning, None, true);
        live.over.cancel();
        Arc::new(live)
    }

    fn made(beginning: Beginning, parent: Option<&Arc<Self>>, is_external: bool) -> Self {
        let Beginning {
            recorder,
            definition,
            task,
            depth,
            space,
            inbox,
        } = beginning;
        let token = parent.map_or_else(CancellationToken::new, |parent| parent.token.child_token());
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

    /// A read lock of the gate. An agent that hangs may keep it for ever, so that the run's end waits for it
    /// for a while only; what it then writes is refused.
    pub(super) async fn write_guard(&self) -> RwLockReadGuard<'_, ()> {
        self.gate.read().await
    }

    /// A read lock of the nursery. Only tasks of the orchestrator's own hold it: the run's end waits for it.
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

    /// Takes it out of the tree.
    pub(super) fn leave(&self) {
        if let Some(parent) = self.parent.upgrade() {
            locked(&parent.children).remove(&self.id());
        }
    }

    pub(super) fn work_with(&self, permit: OwnedSemaphorePermit) {
        let mut slot = locked(&self.slot);
        slot.permit = Some(permit).filter(|_| !slot.is_over);
    }

    /// Gives the permit to another agent while this one waits, until the returned value is [over](Waiting::over).
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

    /// Takes a permit again; drops it where the run has begun to wait for others again:
    /// those may need it, and the run gets another when they are done.
    fn work_again(&self, permit: OwnedSemaphorePermit) {
        let mut slot = locked(&self.slot);
        if slot.waits > 0 {
            return;
        }
        slot.lent = false;
        slot.permit = Some(permit).filter(|_| !slot.is_over);
    }

    /// Gives the permit to work back for good.
    pub(super) fn stop_working(&self) {
        let mut slot = locked(&self.slot);
        slot.is_over = true;
        slot.permit = None;
    }

    /// Tells it and all below it to stop, and why; what it was told first stays.
    pub(super) fn tell_to_stop(&self, stop: Stop) {
        // Another told it before.
        let _ = self.stop.set(stop);
        self.token.cancel();
    }

    /// Why it was told to stop, by itself or with a run above it; `None` before it is.
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

    /// Says that it is about to be paused.
    pub(super) fn pausing(&self) {
        self.is_pausing.store(true, Ordering::Release);
    }

    /// Whether it is about to be paused, by itself or with a run above it.
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

    /// Has the run write its own end; `false` when somebody else does.
    pub(super) fn ends_itself(&self) -> bool {
        let mut ender = locked(&self.ender);
        if *ender == Ender::Undecided {
            *ender = Ender::Itself;
        }
        *ender == Ender::Itself
    }

    /// Has somebody else write its end; `false` when it does itself.
    pub(super) fn ends_by_another(&self) -> bool {
        let mut ender = locked(&self.ender);
        if *ender == Ender::Undecided {
            *ender = Ender::Another;
        }
        *ender == Ender::Another
    }

    /// The result that the model of the run that spawned it is given when that is about to be paused: it is paused too,
    /// unless it has come to an end by itself.
    pub(super) async fn result_of_pausing(&self) -> SpawnResult {
        if !self.ends_by_another() || self.ended.is_cancelled() {
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

    /// What became of it, as far as that is written.
    pub(super) fn result(&self) -> SpawnResult {
        SpawnResult::ended(self.recorder.run(), self.failure().as_ref())
    }
}

/// While it exists, the run waits for others, and its permit is free for another agent.
pub(super) struct Waiting {
    live: Arc<ActiveRun>,
}

impl Waiting {
    /// Waits for a permit to work again, or until the run is to stop. A run that still waits for others gets none.
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

/// What those below a run are told of its stop.
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
