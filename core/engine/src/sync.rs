//! Locks, atomics and threads. They are the standard library's, except in the tests that control the schedule of
//! threads (tests/shuttle), which build the engine with Shuttle's.

#[cfg(not(runlog_shuttle))]
pub(crate) use std::{
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        Weak,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
    thread,
};

#[cfg(runlog_shuttle)]
pub(crate) use shuttle::{
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        Weak,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
    thread,
};

use std::time::Duration;

#[cfg(not(any(runlog_shuttle, target_family = "wasm")))]
mod yielding;

#[cfg(not(any(runlog_shuttle, target_family = "wasm")))]
pub(crate) use yielding::yield_briefly;

/// Yields the processor. Under a controlled schedule time means nothing, and a single thread has nobody to yield to.
#[cfg(any(runlog_shuttle, target_family = "wasm"))]
pub(crate) fn yield_briefly() -> bool {
    thread::yield_now();
    true
}

// No thread panics while it holds one of the locks below; those that a panic may poison are taken by hand.
const UNPOISONED: &str = "no panic under this lock";

/// Locks a mutex that no panic poisons.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect(UNPOISONED)
}

/// Locks for reading what no panic poisons.
pub(crate) fn read<T>(shared: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    shared.read().expect(UNPOISONED)
}

/// Locks for writing what no panic poisons.
pub(crate) fn write<T>(shared: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    shared.write().expect(UNPOISONED)
}

/// Waits on a condition while `idle` says so.
pub(crate) fn wait_while<'a, T>(
    condvar: &Condvar,
    guard: MutexGuard<'a, T>,
    idle: impl FnMut(&mut T) -> bool,
) -> MutexGuard<'a, T> {
    condvar.wait_while(guard, idle).expect(UNPOISONED)
}

/// Blocks while `idle` says so, for `timeout` at most; whether that was over.
#[cfg(not(runlog_shuttle))]
pub(crate) fn wait_for<'a, T>(
    condvar: &Condvar,
    _: &'a Mutex<T>,
    guard: MutexGuard<'a, T>,
    timeout: Duration,
    idle: impl FnMut(&mut T) -> bool,
) -> (MutexGuard<'a, T>, bool) {
    let (guard, waited) = condvar
        .wait_timeout_while(guard, timeout, idle)
        .expect(UNPOISONED);
    (guard, waited.timed_out())
}

/// Under a controlled schedule, a timeout may be over after any number of steps of other threads.
#[cfg(runlog_shuttle)]
pub(crate) fn wait_for<'a, T>(
    _: &Condvar,
    mutex: &'a Mutex<T>,
    guard: MutexGuard<'a, T>,
    _: Duration,
    mut idle: impl FnMut(&mut T) -> bool,
) -> (MutexGuard<'a, T>, bool) {
    drop(guard);
    thread::yield_now();
    let mut guard = lock(mutex);
    let is_over = idle(&mut guard);
    (guard, is_over)
}
