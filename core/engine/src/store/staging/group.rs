//! [`Group`]: batches that one write (and one flush) acknowledges together, and the threads and tasks that wait for it.

use std::task::Waker;

use crate::{
    Error, Result,
    sync::{
        AtomicU8, Mutex, MutexGuard, Ordering,
        thread::{self, Thread},
        yield_briefly,
    },
};

/// A waiting thread yields this often before it parks. Waking a parked thread takes longer than writing a small group
/// where processors sleep when idle; while it yields, other runnable threads get the processor. Where those keep it, the thread
/// parks at once.
const YIELDS_MAX: u32 = if cfg!(runlog_shuttle) { 1 } else { 128 };

const PENDING: u8 = 0;

const LEAD: u8 = 1;

const DONE: u8 = 2;

/// The state that the waiters of a group share.
///
/// Each waiting thread is parked and unparked by itself: threads that share a condition variable would queue
/// up at its lock all at once.
#[derive(Default)]
pub(crate) struct Group {
    /// `LEAD` asks one of the waiting threads to lead the group.
    flag: AtomicU8,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    result: Option<Result<()>>,
    threads: Vec<Thread>,
    /// One for each future that awaits the group.
    wakers: Vec<Waker>,
    /// How often two wakers were compared.
    #[cfg(test)]
    compared: usize,
}

/// The index of a future's waker in the group.
#[derive(Clone, Copy, Default)]
pub(crate) struct Slot(Option<usize>);

/// Why a wait ended.
pub(crate) enum Woken {
    /// The group is done.
    Done(Result<()>),
    /// This thread has to lead the group.
    Lead,
}

impl Group {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic under this lock")
    }

    /// The outcome, once there is one.
    pub(crate) fn result(&self) -> Option<Result<()>> {
        if self.flag.load(Ordering::Acquire) == DONE {
            self.state().result.clone()
        } else {
            None
        }
    }

    /// Why a waiting thread need not wait any longer.
    fn woken(&self) -> Option<Woken> {
        if self
            .flag
            .compare_exchange(LEAD, PENDING, Ordering::AcqRel, Ordering::Acquire)
            == Ok(LEAD)
        {
            return Some(Woken::Lead);
        }
        self.result().map(Woken::Done)
    }

    /// Blocks until the group is done or this thread is asked to lead it.
    pub(crate) fn wait(&self) -> Woken {
        for _ in 0..YIELDS_MAX {
            if let Some(woken) = self.woken() {
                return woken;
            }
            if !yield_briefly() {
                break;
            }
        }
        let mut was_parked = false;
        loop {
            let mut state = self.state();
            if let Some(result) = &state.result {
                return Woken::Done(result.clone());
            }
            let own = thread::current();
            if !was_parked || !state.threads.iter().any(|other| other.id() == own.id()) {
                state.threads.push(own);
            }
            drop(state);
            if let Some(woken) = self.woken() {
                return woken;
            }
            thread::park();
            was_parked = true;
        }
    }

    /// The outcome; if there is none yet, registers `waker`. Each future has its own slot, so that it needn't look for
    /// its waker among those of all others.
    pub(crate) fn poll(&self, slot: &mut Slot, waker: &Waker) -> Option<Result<()>> {
        let state = &mut *self.state();
        if state.result.is_some() {
            return state.result.clone();
        }
        match slot.0.and_then(|place| state.wakers.get_mut(place)) {
            Some(known) => {
                #[cfg(test)]
                {
                    state.compared += 1;
                }
                known.clone_from(waker);
            }
            None => {
                *slot = Slot(Some(state.wakers.len()));
                state.wakers.push(waker.clone());
            }
        }
        None
    }

    /// Asks one of the waiting threads to lead.
    pub(crate) fn offer_lead(&self) {
        let mut state = self.state();
        if state.result.is_none() {
            self.flag.store(LEAD, Ordering::Release);
        }
        // One that yields sees it by itself; if one parks, wake it too, and the first takes it.
        let thread = state.threads.pop();
        drop(state);
        thread.inspect(Thread::unpark);
    }

    /// Sets the group's result, visible to all from now on. The caller wakes the returned waiters once it has released
    /// the writer's lock.
    pub(crate) fn settle(&self, result: Result<()>) -> Waiters {
        let mut state = self.state();
        state.result = Some(result);
        self.flag.store(DONE, Ordering::Release);
        Waiters {
            threads: std::mem::take(&mut state.threads),
            wakers: std::mem::take(&mut state.wakers),
        }
    }
}

/// The waiters of a settled group, to be woken.
#[must_use = "they wait for ever"]
pub(crate) struct Waiters {
    threads: Vec<Thread>,
    wakers: Vec<Waker>,
}

impl Waiters {
    /// Ends every wait. No lock may be held: a waker may do anything.
    pub(crate) fn wake(self) {
        self.threads.iter().for_each(Thread::unpark);
        self.wakers.into_iter().for_each(Waker::wake);
    }
}

/// The error for the waiters of a failed group: their records may or may not exist.
pub(crate) fn outcome_unknown(cause: &Error) -> Error {
    Error::new(
        crate::ErrorKind::OutcomeUnknown,
        format!(
            "a write failed while this append was under way, so it may or may not be there after reopening \
             (use an idempotency key to repeat it safely): {cause}"
        ),
    )
}

/// The error for the waiters of a group that didn't fit on the device.
pub(crate) fn refused(cause: &Error) -> Error {
    Error::new(
        crate::ErrorKind::StorageFull,
        format!("no room is left, and nothing of this append was written: {cause}"),
    )
}

#[cfg(test)]
mod tests {
    use std::task::Wake;

    use super::*;
    use crate::sync::Arc;

    #[derive(Default)]
    struct Woken(AtomicU8);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn each_future_is_registered_once_and_looks_at_no_other() {
        let (group, woken) = (Group::default(), Arc::<Woken>::default());
        let waker = Waker::from(woken.clone());
        let mut slots = [Slot::default(); 200];
        for _ in 0..3 {
            for slot in &mut slots {
                assert!(group.poll(slot, &waker).is_none());
            }
        }
        assert_eq!(group.state().wakers.len(), slots.len());
        // Once for each poll after the first.
        assert_eq!(group.state().compared, 2 * slots.len());
        group.settle(Ok(())).wake();
        assert_eq!(usize::from(woken.0.load(Ordering::SeqCst)), slots.len());
        assert!(
            slots
                .iter_mut()
                .all(|slot| group.poll(slot, &waker).is_some())
        );
    }

    #[test]
    fn future_that_moves_to_another_task_wakes_that_one() {
        let (group, mut slot) = (Group::default(), Slot::default());
        let [before, after] = [Arc::<Woken>::default(), Arc::default()];
        assert!(group.poll(&mut slot, &before.clone().into()).is_none());
        assert!(group.poll(&mut slot, &after.clone().into()).is_none());
        group.settle(Ok(())).wake();
        assert_eq!(
            [before, after].map(|woken| woken.0.load(Ordering::SeqCst)),
            [0, 1]
        );
    }
}
