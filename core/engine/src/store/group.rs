//! [`Group`]: batches that one write (and one flush) acknowledges together, and those who wait for it.

use std::{
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU8, Ordering},
    },
    task::Waker,
    thread::{self, Thread},
};

use super::durable::Entries;
use crate::{Error, Result, storage::File};

/// A waiting thread yields so often before it parks. Waking a parked thread takes longer than writing a small
/// group where processors sleep when idle; while it yields, anyone else who wants the processor has it.
const YIELDS_MAX: u32 = 128;

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
        if self.flag.load(Ordering::Acquire) == DONE { self.state().result.clone() } else { None }
    }

    /// Why a waiting thread need not wait any longer.
    fn woken(&self) -> Option<Woken> {
        if self.flag.compare_exchange(LEAD, PENDING, Ordering::AcqRel, Ordering::Acquire) == Ok(LEAD) {
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
        loop {
            let mut state = self.state();
            if let Some(result) = &state.result {
                return Woken::Done(result.clone());
            }
            let own = thread::current();
            if !state.threads.iter().any(|other| other.id() == own.id()) {
                state.threads.push(own);
            }
            drop(state);
            if let Some(woken) = self.woken() {
                return woken;
            }
            thread::park();
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
        let mut state = self.state();
        if state.result.is_none() {
            self.flag.store(LEAD, Ordering::Release);
        }
        // One that yields sees it by itself; if one parks, wake it too, and the first takes it.
        let thread = state.threads.pop();
        drop(state);
        thread.inspect(Thread::unpark);
    }

    /// Ends every wait.
    pub(crate) fn complete(&self, result: Result<()>) {
        let mut state = self.state();
        state.result = Some(result);
        self.flag.store(DONE, Ordering::Release);
        let (threads, wakers) = (std::mem::take(&mut state.threads), std::mem::take(&mut state.wakers));
        drop(state);
        threads.iter().for_each(Thread::unpark);
        wakers.into_iter().for_each(Waker::wake);
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
            asked: Asked::Nothing,
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

    /// Writes it into a file that has room up to `capacity`, and flushes it if one of its batches asks for that, together
    /// with what was written before and isn't flushed.
    pub(crate) fn write_to(&mut self, file: &dyn File, capacity: u64, earlier_unsynced: bool) -> std::io::Result<()> {
        // The operating system then needn't read the last page before it changes part of it.
        if self.end().next_multiple_of(PAGE_BYTES) <= capacity {
            self.pad();
        }
        match (self.sync, earlier_unsynced) {
            (false, _) => file.write_at(self.start, self.staged()),
            (true, false) => file.write_durable_at(self.start, self.staged()),
            (true, true) => {
                file.write_at(self.start, self.staged())?;
                file.sync()
            }
        }
    }

    /// Fills up the last page with zeros.
    fn pad(&mut self) {
        let end = self.end();
        let padding = usize::try_from(end.next_multiple_of(PAGE_BYTES) - end).expect("less than a page");
        self.bytes.resize(self.bytes.len() + padding, 0);
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
