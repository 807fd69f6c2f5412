//! [`Ledger`]: what callers were told, and so may count on whatever happens.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use runlog::{InstanceId, RunId, agents::SpawnResult};

/// Clones share it. It outlives processes.
#[derive(Clone, Default)]
pub(super) struct Ledger {
    told: Arc<Mutex<Told>>,
}

/// What was told.
#[derive(Clone, Default)]
pub(super) struct Told {
    /// Everything up to here was acknowledged as durable.
    pub(super) position: u64,
    /// The executions of each run.
    pub(super) executions: BTreeMap<RunId, u32>,
    /// Messages that an agent was told are recorded.
    pub(super) messages: Vec<ToldMessage>,
    /// Results that an agent was given while its run went on.
    pub(super) spawns: Vec<ToldSpawn>,
    /// The trees that somebody was told are cancelled.
    pub(super) cancelled: Vec<ToldCancelled>,
    /// What waiting for a run gave.
    pub(super) ends: Vec<SpawnResult>,
    /// The runs that a recovery left paused, with why.
    pub(super) left: BTreeMap<RunId, String>,
    /// The runs that a crash had cut off and that were resumed.
    pub(super) revived: u64,
    /// The agents that are at work, and not waiting for others.
    working: i64,
    /// What was wrong at once.
    pub(super) faults: Vec<String>,
}

/// A run that somebody was told is cancelled, with all below it.
#[derive(Clone)]
pub(super) struct ToldCancelled {
    pub(super) root: RunId,
    /// Up to where somebody had been told that the log is durable. What was made by then has to be over.
    pub(super) told: u64,
    /// Up to where readers saw it. Whoever cancels reads ends that those who wrote them haven't been told of yet.
    pub(super) seen: u64,
}

#[derive(Clone)]
pub(super) struct ToldMessage {
    pub(super) run: RunId,
    pub(super) instance: InstanceId,
    pub(super) sequence: u64,
    pub(super) step: u32,
    pub(super) json: Vec<u8>,
}

#[derive(Clone)]
pub(super) struct ToldSpawn {
    pub(super) parent: RunId,
    /// The tool call, where the caller knows it.
    pub(super) call_id: Option<String>,
    pub(super) results: Vec<SpawnResult>,
}

impl Ledger {
    pub(super) fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn acknowledged_to(&self, position: u64) {
        let mut told = self.told();
        told.position = told.position.max(position);
    }

    /// Notes that somebody was told that a tree is cancelled; readers see the log up to `seen`.
    pub(super) fn cancelled(&self, root: RunId, seen: u64) {
        let mut told = self.told();
        let position = told.position;
        told.cancelled.push(ToldCancelled {
            root,
            told: position,
            seen: seen.max(position),
        });
    }

    /// Notes that a run is executed; tells which execution of it this is.
    pub(super) fn began(&self, run: RunId) -> u32 {
        let mut told = self.told();
        let count = told.executions.entry(run).or_default();
        *count += 1;
        *count
    }

    pub(super) fn fault(&self, fault: String) {
        self.told().faults.push(fault);
    }

    /// An agent works from now on, until what this gives is dropped.
    pub(super) fn works(&self, most: usize) -> Working {
        let mut told = self.told();
        told.working += 1;
        if told.working > i64::try_from(most).unwrap_or(i64::MAX) {
            let fault = format!(
                "{} agents are at work at once, at most {most} may be",
                told.working
            );
            told.faults.push(fault);
        }
        Working {
            ledger: self.clone(),
        }
    }
}

/// That an agent is at work.
pub(super) struct Working {
    ledger: Ledger,
}

impl Drop for Working {
    fn drop(&mut self) {
        self.ledger.told().working -= 1;
    }
}
