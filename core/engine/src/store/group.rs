//! [`Group`]: batches that one write (and one flush) acknowledges together, and those who wait for it.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard},
    task::Waker,
};

use super::durable::Entries;
use crate::{Error, Result};

/// What the waiters of a group share.
#[derive(Default)]
pub(crate) struct Group {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    result: Option<Result<()>>,
    /// One of the waiting threads is asked to lead the group.
    lead: bool,
    wakers: Vec<Waker>,
}

/// Why a wait ended.
pub(crate) enum Woken {
    /// The group is done.
    Done(Result<()>),
    /// This thread is to lead it.
    Lead,
}

impl Group {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic under this lock")
    }

    /// The outcome, once there is one.
    pub(crate) fn result(&self) -> Option<Result<()>> {
        self.state().result.clone()
    }

    /// Blocks until the group is done or this thread is asked to lead it.
    pub(crate) fn wait(&self) -> Woken {
        let mut state = self.state();
        loop {
            if let Some(result) = &state.result {
                return Woken::Done(result.clone());
            }
            if std::mem::take(&mut state.lead) {
                return Woken::Lead;
            }
            state = self.changed.wait(state).expect("no panic under this lock");
        }
    }

    /// The outcome, or has `waker` woken when there is one.
    pub(crate) fn poll(&self, waker: &Waker) -> Option<Result<()>> {
        let mut state = self.state();
        if state.result.is_none() && !state.wakers.iter().any(|other| other.will_wake(waker)) {
            state.wakers.push(waker.clone());
        }
        state.result.clone()
    }

    /// Asks one of the waiting threads to lead.
    pub(crate) fn offer_lead(&self) {
        self.state().lead = true;
        self.changed.notify_one();
    }

    /// Ends every wait.
    pub(crate) fn complete(&self, result: Result<()>) {
        let mut state = self.state();
        state.result = Some(result);
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        self.changed.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// A group that still gathers.
pub(crate) struct OpenGroup {
    pub(crate) group: Arc<Group>,
    /// The offset of its first byte.
    pub(crate) start: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) entries: Entries,
    /// Whether one of its batches is to be flushed.
    pub(crate) sync: bool,
    /// How many threads wait for it.
    pub(crate) waiters: u32,
    /// What was asked of the flusher thread for it.
    pub(crate) asked: Asked,
}

/// How soon the flusher thread is to lead a group that no thread waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum Asked {
    #[default]
    Nothing,
    /// After a short while, so that more can gather.
    Soon,
    Now,
}

impl OpenGroup {
    pub(crate) fn new(start: u64, bytes: Vec<u8>) -> Self {
        Self {
            group: Arc::default(),
            start,
            bytes,
            entries: Entries::default(),
            sync: false,
            waiters: 0,
            asked: Asked::Nothing,
        }
    }

    /// The offset after its last byte.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

/// The error that waiters of a failed group get: what they wrote may or may not be there.
pub(crate) fn outcome_unknown(cause: &Error) -> Error {
    Error::new(
        crate::ErrorKind::OutcomeUnknown,
        format!(
            "a write failed while this append was under way, so it may or may not be there after reopening \
             (use an idempotency key to repeat it safely): {cause}"
        ),
    )
}
