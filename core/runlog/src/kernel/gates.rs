//! [`Gate`]: prevents that a run's flow writes while the run's status changes, and tells of the change.
//!
//! A recorder writes on condition that its run's stream is as it knows it. A flow can't do so too: it writes to a
//! stream that the recorder writes all the time, and one of the two would starve. Only one process writes a store, so a
//! lock in memory suffices.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use runlog_model::RunId;
use tokio::sync::{OwnedMutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio_util::sync::CancellationToken;

use super::saved_states::{KeptStates, SavedStates};

/// The gates of the runs that this process writes to.
#[derive(Default)]
pub(crate) struct Gates {
    of_runs: Mutex<HashMap<RunId, Weak<OfRun>>>,
    states: Mutex<KeptStates>,
}

/// What the gates of a run share.
#[derive(Default)]
struct OfRun {
    lock: RwLock<()>,
    /// Cancelled when a recorder has ended or paused the run.
    stopped: CancellationToken,
    /// The number of who drives the flow.
    driver: AtomicU64,
    /// The last number that was given; none is given twice.
    last_driver: AtomicU64,
    /// Taken by who saves a state of the flow.
    saving: Arc<tokio::sync::Mutex<()>>,
}

/// The lock of a run's stream.
pub(crate) struct Gate {
    gates: Arc<Gates>,
    id: RunId,
    of_run: Arc<OfRun>,
}

impl Gates {
    /// The gate of a run, the same one for all callers.
    pub(crate) fn gate(self: &Arc<Self>, id: RunId) -> Gate {
        let mut of_runs = self.of_runs();
        let of_run = of_runs.get(&id).and_then(Weak::upgrade).unwrap_or_else(|| {
            let of_run = Arc::default();
            of_runs.insert(id, Arc::downgrade(&of_run));
            of_run
        });
        drop(of_runs);
        Gate {
            gates: Arc::clone(self),
            id,
            of_run,
        }
    }

    /// The lock is never held across a wait.
    fn of_runs(&self) -> MutexGuard<'_, HashMap<RunId, Weak<OfRun>>> {
        self.of_runs
            .lock()
            .expect("the list of gates was left broken by a panic")
    }
}

impl Gate {
    /// Lets a flow write: until the guard is dropped, the run's status doesn't change.
    pub(crate) async fn pass(&self) -> RwLockReadGuard<'_, ()> {
        self.of_run.lock.read().await
    }

    /// Keeps flows out while the run's status is changed.
    pub(crate) async fn close(&self) -> RwLockWriteGuard<'_, ()> {
        self.of_run.lock.write().await
    }

    /// Lets one state of the flow be saved, the flow's handle and the run's agent one after the other.
    pub(crate) async fn saving(&self) -> Saving {
        let _alone = Arc::clone(&self.of_run.saving).lock_owned().await;
        // A gate of its own, so that what it keeps is forgotten behind it.
        let gate = self.gates.gate(self.id);
        Saving { gate, _alone }
    }

    /// The saved states of all flows. The lock is never held across a wait.
    fn kept_states(&self) -> MutexGuard<'_, KeptStates> {
        let states = self.gates.states.lock();
        states.expect("the states of flows were left broken by a panic")
    }

    /// Who drives the flow: a number that another has once somebody has resumed it.
    pub(crate) fn driver(&self) -> u64 {
        self.of_run.driver.load(Ordering::Acquire)
    }

    /// Takes the flow over from whoever drove it, behind what that one is writing. It is given back when this is dropped.
    pub(crate) async fn take_over(&self) -> TakenOver<'_> {
        let _closed = self.close().await;
        let OfRun {
            driver,
            last_driver,
            ..
        } = &*self.of_run;
        let before = driver.swap(
            last_driver.fetch_add(1, Ordering::AcqRel) + 1,
            Ordering::AcqRel,
        );
        TakenOver(Some((driver, before)))
    }

    /// Tells whoever works on the run that a recorder has ended or paused it.
    pub(crate) fn tell_stopped(&self) {
        self.of_run.stopped.cancel();
    }

    /// Waits until a recorder has ended or paused the run.
    pub(crate) async fn stopped(&self) {
        self.of_run.stopped.cancelled().await;
    }
}

/// Lets one state of a flow be saved: the flow's handle and the run's agent do it one after the other.
pub(crate) struct Saving {
    gate: Gate,
    _alone: OwnedMutexGuard<()>,
}

impl Saving {
    /// Takes what was saved before. It comes back with [`keep`](Self::keep), with the new state, when that is durable: a state
    /// that may be in the log or not, since its save failed or was given up, could stand in the place of another.
    pub(crate) fn take(&mut self) -> SavedStates {
        self.gate.kept_states().take(self.gate.id)
    }

    /// Keeps what the next state may differ from.
    pub(crate) fn keep(&mut self, states: SavedStates) {
        self.gate.kept_states().keep(self.gate.id, states);
    }
}

/// A flow that was taken over, unless what was to be done with it fails.
pub(crate) struct TakenOver<'a>(Option<(&'a AtomicU64, u64)>);

impl TakenOver<'_> {
    /// It stays so.
    pub(crate) fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for TakenOver<'_> {
    fn drop(&mut self) {
        if let Some((driver, before)) = self.0 {
            driver.store(before, Ordering::Release);
        }
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let mut of_runs = self.gates.of_runs();
        // No other reference can be taken in between: that needs the list's lock.
        if Arc::strong_count(&self.of_run) == 1 {
            of_runs.remove(&self.id);
            self.kept_states().take(self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_gate_is_the_same_for_all_and_forgotten_with_the_last() {
        let gates = Arc::new(Gates::default());
        let id = RunId(Uuid::from_u128(1));
        let (one, other) = (gates.gate(id), gates.gate(id));
        let closed = pollster::block_on(one.close());
        assert!(other.of_run.lock.try_read().is_err());
        drop(closed);
        drop(one);
        assert_eq!(gates.of_runs().len(), 1);
        drop(other);
        assert!(gates.of_runs().is_empty());
    }

    #[test]
    fn what_a_flow_saved_is_kept_as_long_as_somebody_has_its_gate() {
        let gates = Arc::new(Gates::default());
        let gate = gates.gate(RunId(Uuid::from_u128(1)));
        let redactions = || {
            let mut saving = pollster::block_on(gate.saving());
            let states = saving.take();
            saving.keep(SavedStates {
                redactions: states.redactions + 1,
                ..states
            });
            states.redactions
        };
        assert_eq!([redactions(), redactions(), redactions()], [0, 1, 2]);
        drop(gate);
        assert!(gates.of_runs().is_empty());
        assert!(gates.states.lock().unwrap().is_empty());
    }
}
