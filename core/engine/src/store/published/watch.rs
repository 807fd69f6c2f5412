//! [`Watch`]: wakes the threads and tasks that wait for new records.

use std::{task::Waker, time::Duration};

use crate::sync::{AtomicBool, AtomicU64, Condvar, Mutex, Ordering, wait_for};

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
    wakers: Vec<Waker>,
    /// Whether a thread follows another process's writer for the wakers.
    #[cfg(not(target_family = "wasm"))]
    is_followed: bool,
}

impl Watch {
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
        let mut waiting = self.waiting.lock().expect("no panic under this lock");
        let wakers = std::mem::take(&mut waiting.wakers);
        let threads = waiting.threads;
        drop(waiting);
        if threads > 0 {
            self.changed.notify_all();
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Blocks until the position is past `seen`, the store is closed, or `timeout` is over; returns whether it timed
    /// out.
    pub(crate) fn wait_past(&self, seen: u64, timeout: Duration) -> bool {
        let mut waiting = self.waiting.lock().expect("no panic under this lock");
        waiting.threads += 1;
        let nothing_new = |_: &mut Waiting| self.position() <= seen && !self.is_closed();
        let (mut waiting, is_over) =
            wait_for(&self.changed, &self.waiting, waiting, timeout, nothing_new);
        waiting.threads -= 1;
        is_over
    }

    /// The position, if it is past `seen`; else `waker` is woken when it may be, or the store is closed.
    pub(crate) fn poll_past(&self, seen: u64, waker: &Waker) -> Option<u64> {
        let mut waiting = self.waiting.lock().expect("no panic under this lock");
        let position = self.position();
        if position > seen {
            return Some(position);
        }
        if !waiting.wakers.iter().any(|other| other.will_wake(waker)) {
            waiting.wakers.push(waker.clone());
        }
        None
    }

    /// Whether the caller is to follow another process's writer for the wakers, because no thread does yet.
    #[cfg(not(target_family = "wasm"))]
    pub(crate) fn begin_following(&self) -> bool {
        let mut waiting = self.waiting.lock().expect("no panic under this lock");
        !std::mem::replace(&mut waiting.is_followed, true)
    }

    /// Marks the writer as followed by no thread.
    #[cfg(not(target_family = "wasm"))]
    pub(crate) fn end_following(&self) {
        let mut waiting = self.waiting.lock().expect("no panic under this lock");
        waiting.is_followed = false;
    }

    /// The same if there are no wakers, decided together with whether a new one begins; returns whether it was so.
    #[cfg(not(target_family = "wasm"))]
    pub(crate) fn end_following_unawaited(&self) -> bool {
        let mut waiting = self.waiting.lock().expect("no panic under this lock");
        if waiting.wakers.is_empty() {
            waiting.is_followed = false;
        }
        !waiting.is_followed
    }
}
