//! [`Group`]: batches that one write (and one flush) acknowledges together, and those who wait for it.

use std::{io, task::Waker};

use super::{due::Due, durable::Entries, staging::Held};
use crate::{
    Error, Result,
    format::record,
    storage::File,
    sync::{
        Arc, AtomicU8, Mutex, MutexGuard, Ordering,
        thread::{self, Thread},
    },
};

/// A waiting thread yields so often before it parks. Waking a parked thread takes longer than writing a small
/// group where processors sleep when idle; while it yields, anyone else who wants the processor has it.
const YIELDS_MAX: u32 = if cfg!(runlog_shuttle) { 1 } else { 128 };

/// The unit in which the operating system writes files.
pub(crate) const PAGE_BYTES: u64 = 4096;
/// A buffer has room for so many bytes from the start.
const BUFFER_BYTES_MIN: usize = 16 << 10;

const PENDING: u8 = 0;
const LEAD: u8 = 1;
const DONE: u8 = 2;

/// What the waiters of a group share.
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

/// Where a future that awaits a group has its waker there.
#[derive(Clone, Copy, Default)]
pub(crate) struct Slot(Option<usize>);

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
            thread::yield_now();
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

    /// The outcome, or has `waker` woken when there is one. Each future has its own slot, so that it needn't look for its
    /// waker among those of all others.
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

    /// Gives the group its result: it is there for everyone from now on. Those who wait are yet to be woken, when the caller
    /// has released the writer's lock.
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

/// Who waits for a group that has its result.
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

/// A group that still gathers.
pub(crate) struct OpenGroup {
    pub(crate) group: Arc<Group>,
    /// The offset of its first byte.
    pub(crate) start: u64,
    /// Its bytes, behind `lead` bytes that make them lie in memory as they will lie in pages of the file: then
    /// a storage may hand them to the device as they are.
    pub(crate) bytes: Vec<u8>,
    lead: usize,
    pub(crate) entries: Entries,
    /// Whether one of its batches is to be flushed.
    pub(crate) sync: bool,
    /// How many threads wait for it.
    pub(crate) waiters: u32,
    /// What was asked of the flusher thread for it.
    pub(crate) urgency: FlushUrgency,
    /// The header of its last record.
    pub(crate) last: Option<Held>,
    /// When it is to be flushed at the latest, if one of its batches says so.
    pub(crate) due: Option<Due>,
}

/// How soon the flusher thread is to lead a group that no thread waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum FlushUrgency {
    #[default]
    Nothing,
    /// After a short while, so that more can gather.
    Soon,
    Now,
}

impl OpenGroup {
    /// A group that begins at `start`, and gathers in a buffer that was used before.
    pub(crate) fn new(start: u64, mut bytes: Vec<u8>) -> Self {
        bytes.clear();
        bytes.reserve(BUFFER_BYTES_MIN);
        let in_memory = bytes.as_ptr().addr() as u64 % PAGE_BYTES;
        let lead = (PAGE_BYTES + start % PAGE_BYTES - in_memory) % PAGE_BYTES;
        let lead = usize::try_from(lead).expect("less than a page");
        bytes.resize(lead, 0);
        Self {
            group: Arc::default(),
            start,
            bytes,
            lead,
            entries: Entries::default(),
            sync: false,
            waiters: 0,
            urgency: FlushUrgency::Nothing,
            last: None,
            due: None,
        }
    }

    /// The offset after its last byte.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.staged().len() as u64
    }

    /// The bytes to write at `start`.
    pub(crate) fn staged(&self) -> &[u8] {
        &self.bytes[self.lead..]
    }

    /// Has the last record say up to where the segment is durable now, when the group is about to be written. What was staged
    /// while the group before was being flushed says no more than that one did. After this, only the last group of the log is
    /// one that nothing behind it proves durable.
    pub(crate) fn prove(&mut self, synced_end: u64, salt: u32) {
        let Some(last) = self
            .last
            .as_mut()
            .filter(|last| last.header.watermark < synced_end)
        else {
            return;
        };
        last.header.watermark = synced_end;
        self.bytes[last.at..last.at + record::HEADER_BYTES]
            .copy_from_slice(&last.header.encode(salt, last.offset));
    }

    /// Writes it into a file that has room up to `capacity`, and flushes it if one of its batches asks for that, together
    /// with what was written before and isn't flushed.
    pub(crate) fn write_to(
        &mut self,
        file: &dyn File,
        capacity: u64,
        earlier_unsynced: bool,
    ) -> std::result::Result<(), Unwritten> {
        // The operating system then needn't read the last page before it changes part of it.
        if self.end().next_multiple_of(PAGE_BYTES) <= capacity {
            self.pad();
        }
        let written = match (self.sync, earlier_unsynced) {
            (true, false) => file.write_durable_at(self.start, self.staged()),
            _ => file.write_at(self.start, self.staged()),
        };
        written.map_err(Unwritten::of_these_bytes)?;
        if self.sync && earlier_unsynced {
            file.sync().map_err(Unwritten::Failed)
        } else {
            Ok(())
        }
    }

    /// Fills up the last page with zeros.
    fn pad(&mut self) {
        let end = self.end();
        let padding =
            usize::try_from(end.next_multiple_of(PAGE_BYTES) - end).expect("less than a page");
        self.bytes.resize(self.bytes.len() + padding, 0);
    }
}

/// Why a group was not written.
pub(crate) enum Unwritten {
    /// The device is full. Bytes before the group are not concerned.
    Full(io::Error),
    /// Something else: nobody can tell what is on the device.
    Failed(io::Error),
}

impl Unwritten {
    /// A failure that concerns the bytes of the group alone: they were written, and flushed only if all before them was
    /// flushed already.
    fn of_these_bytes(error: io::Error) -> Self {
        if is_full(&error) {
            Self::Full(error)
        } else {
            Self::Failed(error)
        }
    }
}

/// Whether an error says that there is no room.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
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

/// The error that waiters of a group get for which the device had no room.
pub(crate) fn refused(cause: &Error) -> Error {
    Error::new(
        crate::ErrorKind::StorageFull,
        format!(
            "no room is left, and nothing of this append was written; free some space and go on: {cause}"
        ),
    )
}

#[cfg(test)]
mod tests {
    use std::task::Wake;

    use super::*;

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
