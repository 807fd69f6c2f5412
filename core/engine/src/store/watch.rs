//! [`Watch`]: wakes those who wait for new records.

use std::{
    sync::{
        Condvar, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    task::Waker,
    time::Duration,
};

/// The last published position, and who waits for it to grow.
#[derive(Default)]
pub(crate) struct Watch {
    position: AtomicU64,
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    threads: usize,
    /// How often everyone was woken with nothing new.
    wakes: u64,
    wakers: Vec<Waker>,
}

impl Watch {
    pub(crate) fn position(&self) -> u64 {
        self.position.load(Ordering::SeqCst)
    }

    /// Everything up to `position` is published.
    pub(crate) fn advance(&self, position: u64) {
        self.position.fetch_max(position, Ordering::SeqCst);
        let mut waiting = self.waiting.lock().expect("no panic under this lock");
        let wakers = std::mem::take(&mut waiting.wakers);
        let threads = waiting.threads;
        drop(waiting);
        if threads > 0 {
            self.changed.notify_all();
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Wakes everyone, with nothing new.
    pub(crate) fn wake(&self) {
        self.waiting.lock().expect("no panic under this lock").wakes += 1;
        self.advance(0);
    }

    /// Blocks until the position is past `seen`, everyone is woken, or `timeout` is over; whether it was over.
    pub(crate) fn wait_past(&self, seen: u64, timeout: Duration) -> bool {
        let mut waiting = self.waiting.lock().expect("no panic under this lock");
        waiting.threads += 1;
        let wakes = waiting.wakes;
        let nothing_new = |waiting: &mut Waiting| self.position() <= seen && waiting.wakes == wakes;
        let (mut waiting, waited) =
            self.changed.wait_timeout_while(waiting, timeout, nothing_new).expect("no panic under this lock");
        waiting.threads -= 1;
        waited.timed_out()
    }

    /// The position, if it is past `seen`; else `waker` is woken when it may be.
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
}
