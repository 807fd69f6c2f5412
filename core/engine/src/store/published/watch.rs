//! [`Watch`]: wakes the threads and tasks that wait for new records.

use std::{collections::BTreeMap, task::Waker, time::Duration};

use crate::sync::{Arc, AtomicBool, AtomicU64, Condvar, Mutex, MutexGuard, Ordering, wait_for};

/// The last published position, and the threads and tasks that wait for it to grow.
#[derive(Default)]
pub(crate) struct Watch {
    position: AtomicU64,
    is_closed: AtomicBool,
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    threads: usize,
    /// Of tasks that poll without a future of ours, which can't tell that they gave up: each stays until the next record.
    wakers: Vec<Waker>,
    /// Of [`Waiter`]s, by their keys.
    waiters: BTreeMap<u64, Waker>,
    last_key: u64,
    /// Whether a thread follows another process's writer for the waiters.
    #[cfg(not(target_family = "wasm"))]
    is_followed: bool,
}

/// A task's place among those that wait, given back when it is dropped: a future that is polled once and cancelled, as
/// by `select!` in a loop, leaves nothing behind.
pub(crate) struct Waiter {
    watch: Arc<Watch>,
    /// Taken when it first has to wait; no other ever has the same.
    key: Option<u64>,
}

impl Waiter {
    pub(crate) fn new(watch: Arc<Watch>) -> Self {
        Self { watch, key: None }
    }

    /// As [`Watch::poll_past`]. Only the waker of the last poll is woken.
    pub(crate) fn poll_past(&mut self, seen: u64, waker: &Waker) -> Option<u64> {
        let mut waiting = self.watch.waiting();
        let position = self.watch.position();
        if position > seen {
            return Some(position);
        }
        let key = *self.key.get_or_insert_with(|| {
            waiting.last_key += 1;
            waiting.last_key
        });
        let is_known = waiting
            .waiters
            .get(&key)
            .is_some_and(|known| known.will_wake(waker));
        let former = (!is_known).then(|| waiting.waiters.insert(key, waker.clone()));
        // Without the lock: a waker may be the last owner of its task, which may have a place here itself.
        drop(waiting);
        drop(former);
        None
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let waker = self.watch.waiting().waiters.remove(&key);
            // Without the lock, as above.
            drop(waker);
        }
    }
}

impl Watch {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("no panic under this lock")
    }

    pub(crate) fn position(&self) -> u64 {
        self.position.load(Ordering::SeqCst)
    }

    /// Whether the store was closed. Nothing is published after it was.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// Sets the last published position; [`wake`](Self::wake) then wakes the waiters.
    pub(crate) fn note(&self, position: u64) {
        self.position.fetch_max(position, Ordering::SeqCst);
    }

    /// Sets the last published position and wakes the waiters.
    pub(crate) fn advance(&self, position: u64) {
        self.note(position);
        self.wake();
    }

    /// Marks the store as closed and wakes the waiters.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// Wakes all waiters.
    pub(crate) fn wake(&self) {
        let mut waiting = self.waiting();
        let wakers = std::mem::take(&mut waiting.wakers);
        let waiters = std::mem::take(&mut waiting.waiters);
        let threads = waiting.threads;
        drop(waiting);
        if threads > 0 {
            self.changed.notify_all();
        }
        wakers.into_iter().for_each(Waker::wake);
        waiters.into_values().for_each(Waker::wake);
    }

    /// Blocks until the position is past `seen`, the store is closed, or `timeout` is over; returns whether it timed
    /// out.
    pub(crate) fn wait_past(&self, seen: u64, timeout: Duration) -> bool {
        let mut waiting = self.waiting();
        waiting.threads += 1;
        let nothing_new = |_: &mut Waiting| self.position() <= seen && !self.is_closed();
        let (mut waiting, is_over) =
            wait_for(&self.changed, &self.waiting, waiting, timeout, nothing_new);
        waiting.threads -= 1;
        is_over
    }

    /// The position, if it is past `seen`; else `waker` is woken when it may be, or the store is closed.
    pub(crate) fn poll_past(&self, seen: u64, waker: &Waker) -> Option<u64> {
        let mut waiting = self.waiting();
        let position = self.position();
        if position > seen {
            return Some(position);
        }
        if !waiting.wakers.iter().any(|other| other.will_wake(waker)) {
            waiting.wakers.push(waker.clone());
        }
        None
    }

    /// Whether the caller is to follow another process's writer for the waiters, because no thread does yet.
    #[cfg(not(target_family = "wasm"))]
    pub(crate) fn begin_following(&self) -> bool {
        let mut waiting = self.waiting();
        !std::mem::replace(&mut waiting.is_followed, true)
    }

    /// Marks the writer as followed by no thread.
    #[cfg(not(target_family = "wasm"))]
    pub(crate) fn end_following(&self) {
        let mut waiting = self.waiting();
        waiting.is_followed = false;
    }

    /// The same if no [`Waiter`] waits, decided together with whether a new one begins; returns whether it was so.
    #[cfg(not(target_family = "wasm"))]
    pub(crate) fn end_following_unawaited(&self) -> bool {
        let mut waiting = self.waiting();
        if waiting.waiters.is_empty() {
            waiting.is_followed = false;
        }
        !waiting.is_followed
    }
}
