//! [`Tasks`]: the futures of one JavaScript thread, polled only on that thread.
//!
//! A future is polled once when it is started, so that writes are staged in the order of the calls. A write that looks at what
//! is there (an update, a truncation, a copy) would not see those that are still on their way: it is started once they are done,
//! and what changes the same thing after it is started once it is done.
//!
//! Each future has a waker of its own, detached tasks included: of many messages of a run, each waits for its turn, and all of
//! them would be polled for each that is written. Only appends to streams, which wait for nothing but a flush, share one: a flush
//! acknowledges many of them, and each is polled once or twice.

use std::{
    collections::BTreeMap,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll, Wake, Waker},
};

use runlog::Store;

use crate::{
    Failure, Reply, Result,
    appends::{Appends, Settled},
    changes::{Changes, Key},
};

/// The answer of a call, as a future.
pub(crate) struct Answer {
    pub(crate) lane: Lane,
    /// What it changes, where the order matters.
    pub(crate) key: Option<Key>,
    pub(crate) future: Pin<Box<dyn Future<Output = Result<Reply>>>>,
}

/// How a future is woken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lane {
    /// By itself, as a write: what looks at what is there waits for it.
    Write,
    /// By itself.
    Own,
    /// By itself, and its end is not reported.
    Detached,
    /// As [`Own`](Self::Own), from when on the writes that were started before it are done.
    AfterWrites,
    /// As [`AfterWrites`](Self::AfterWrites), and one at a time of those that change one thing.
    Change,
}

impl Answer {
    /// A write: staged when it is first polled, ready when it is durable.
    pub(crate) fn write(future: impl Future<Output = Result<Reply>> + 'static) -> Self {
        Self {
            lane: Lane::Write,
            key: None,
            future: Box::pin(future),
        }
    }

    /// A write that looks at what is there.
    pub(crate) fn change(key: Key, future: impl Future<Output = Result<Reply>> + 'static) -> Self {
        Self {
            lane: Lane::Change,
            key: Some(key),
            future: Box::pin(future),
        }
    }

    /// Anything else.
    pub(crate) fn wait(future: impl Future<Output = Result<Reply>> + 'static) -> Self {
        Self {
            lane: Lane::Own,
            key: None,
            future: Box::pin(future),
        }
    }

    /// A task that no call awaits.
    pub(crate) fn detached(task: runlog::agents::Task) -> Self {
        let future = Box::pin(async move {
            task.await;
            Ok(Reply::DONE)
        });
        Self {
            lane: Lane::Detached,
            key: None,
            future,
        }
    }

    /// An answer that is known.
    pub(crate) fn known(result: Result<Reply>) -> Self {
        Self::wait(std::future::ready(result))
    }
}

/// The pending futures.
pub(crate) struct Tasks {
    last_ticket: u64,
    writes: BTreeMap<u64, Answer>,
    appends: Appends,
    others: BTreeMap<u64, Answer>,
    /// What waits for those before it, in the order of the calls.
    waiting: Vec<Waiting>,
    /// What is changed by those of the lane [`Change`](Lane::Change) that aren't done, and by those of them that have begun.
    changes: Changes,
    begun: Changes,
    woken: Arc<Woken>,
    append_waker: Waker,
}

/// A future that hasn't been polled yet.
struct Waiting {
    ticket: u64,
    /// The ticket of the append that was staged next when it was started.
    next_append: u64,
    answer: Answer,
}

/// The futures that were woken since the last poll.
pub(crate) struct Woken {
    state: Mutex<State>,
    /// Asks the JavaScript thread to poll.
    wake: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct State {
    appends: bool,
    tickets: Vec<u64>,
    /// Whether the thread was asked already.
    asked: bool,
}

struct WakeAppends(Arc<Woken>);

struct WakeOne {
    woken: Arc<Woken>,
    ticket: u64,
}

impl Woken {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Asks the JavaScript thread to poll.
    pub(crate) fn ask(&self) {
        self.update(|_| {});
    }

    /// Whether the thread was asked, and hasn't polled yet.
    pub(crate) fn is_asked(&self) -> bool {
        self.state().asked
    }

    fn update(&self, what: impl FnOnce(&mut State)) {
        let mut state = self.state();
        what(&mut state);
        let was_asked = std::mem::replace(&mut state.asked, true);
        drop(state);
        if !was_asked {
            (self.wake)();
        }
    }
}

impl Wake for WakeAppends {
    fn wake(self: Arc<Self>) {
        self.0.update(|state| state.appends = true);
    }
}

impl Wake for WakeOne {
    fn wake(self: Arc<Self>) {
        self.woken.update(|state| state.tickets.push(self.ticket));
    }
}

impl Tasks {
    pub(crate) fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        let woken = Arc::new(Woken {
            state: Mutex::default(),
            wake: Box::new(wake),
        });
        let append_waker = Waker::from(Arc::new(WakeAppends(Arc::clone(&woken))));
        Self {
            last_ticket: 0,
            writes: BTreeMap::new(),
            appends: Appends::default(),
            others: BTreeMap::new(),
            waiting: Vec::new(),
            changes: Changes::default(),
            begun: Changes::default(),
            woken,
            append_waker,
        }
    }

    /// The woken futures.
    pub(crate) fn woken(&self) -> &Arc<Woken> {
        &self.woken
    }

    /// Polls a future for the first time: returns its result, or the ticket of its later answer.
    pub(crate) fn start(&mut self, answer: Answer) -> std::result::Result<Result<Reply>, u64> {
        self.last_ticket += 1;
        let ticket = self.last_ticket;
        let is_changed = match answer.key {
            Some(key) => self.changes.has(key),
            None => answer.lane == Lane::AfterWrites && !self.changes.is_empty(),
        };
        let comes_after = matches!(answer.lane, Lane::AfterWrites | Lane::Change);
        if let (Lane::Change, Some(key)) = (answer.lane, answer.key) {
            self.changes.add(key);
        }
        if is_changed || comes_after && self.is_writing() {
            self.waiting.push(Waiting {
                ticket,
                next_append: self.appends.next_ticket(),
                answer,
            });
            return Err(ticket);
        }
        self.begin(ticket, answer).ok_or(ticket)
    }

    /// Whether writes were started that aren't done.
    fn is_writing(&self) -> bool {
        let is_write = |waiting: &Waiting| waiting.answer.lane == Lane::Write;
        !self.writes.is_empty()
            || self.appends.first_pending().is_some()
            || self.waiting.iter().any(is_write)
    }

    /// Polls a future for the first time: returns its result, or keeps it.
    fn begin(&mut self, ticket: u64, mut answer: Answer) -> Option<Result<Reply>> {
        let waker = self.waker_of(ticket);
        if let Poll::Ready(result) = poll(&mut answer, &waker) {
            self.end(&answer);
            return Some(result);
        }
        if let (Lane::Change, Some(key)) = (answer.lane, answer.key) {
            self.begun.add(key);
        }
        self.keep(ticket, answer);
        None
    }

    /// What it changed is changed.
    fn end(&mut self, answer: &Answer) {
        if let (Lane::Change, Some(key)) = (answer.lane, answer.key) {
            self.changes.remove(key);
        }
    }

    /// Stages many appends, then polls all of them: returns the ticket of the first, and those that are settled already.
    pub(crate) fn append(
        &mut self,
        packed: &[u8],
        store_of: impl Fn(u32) -> Result<Store>,
    ) -> Result<(u64, Settled)> {
        let first = self.appends.next_ticket();
        let mut settled = Settled::default();
        let staged = self.appends.stage(packed, store_of, &mut settled);
        self.appends.poll(&self.append_waker, &mut settled);
        staged.map(|()| (first, settled))
    }

    /// Polls the woken futures, and returns the answers that are ready.
    pub(crate) fn poll(&mut self) -> (Vec<(u64, Result<Reply>)>, Settled) {
        let (appends, mut tickets) = {
            let mut state = self.woken.state();
            state.asked = false;
            (
                std::mem::take(&mut state.appends),
                std::mem::take(&mut state.tickets),
            )
        };
        let mut ready = Vec::new();
        let mut settled = Settled::default();
        if appends {
            self.appends.poll(&self.append_waker, &mut settled);
        }
        // Those that are done together are answered in the order of the calls.
        runlog::log::order::sort(&mut tickets);
        tickets.dedup();
        for ticket in tickets {
            let of_lane = match self.writes.contains_key(&ticket) {
                true => &mut self.writes,
                false => &mut self.others,
            };
            let Some(mut answer) = of_lane.remove(&ticket) else {
                continue;
            };
            let waker = self.waker_of(ticket);
            match poll(&mut answer, &waker) {
                Poll::Ready(_) if answer.lane == Lane::Detached => {}
                Poll::Ready(result) => {
                    if let (Lane::Change, Some(key)) = (answer.lane, answer.key) {
                        self.begun.remove(key);
                    }
                    self.end(&answer);
                    ready.push((ticket, result));
                }
                Poll::Pending => self.keep(ticket, answer),
            }
        }
        self.begin_waiting(&mut ready);
        (ready, settled)
    }

    /// Begins what waits for nothing any more, in the order of the calls.
    fn begin_waiting(&mut self, ready: &mut Vec<(u64, Result<Reply>)>) {
        if self.waiting.is_empty() {
            return;
        }
        let first_write = self.writes.keys().next().copied();
        let first_append = self.appends.first_pending();
        // What those before it change that have begun, or wait.
        let mut before = self.begun.clone();
        let mut is_write_before = false;
        for waiting in std::mem::take(&mut self.waiting) {
            let (lane, key) = (waiting.answer.lane, waiting.answer.key);
            let comes_after = matches!(lane, Lane::AfterWrites | Lane::Change);
            let is_held = comes_after
                && (is_write_before
                    || first_write.is_some_and(|write| write < waiting.ticket)
                    || first_append.is_some_and(|append| append < waiting.next_append))
                || match key {
                    Some(key) => before.has(key),
                    None => !before.is_empty(),
                };
            if is_held {
                self.waiting.push(waiting);
            } else if let Some(result) = self.begin(waiting.ticket, waiting.answer) {
                ready.push((waiting.ticket, result));
                continue;
            }
            is_write_before |= lane == Lane::Write;
            if let (Lane::Change, Some(key)) = (lane, key) {
                before.add(key);
            }
        }
    }

    /// Drops a future that isn't a write; the work it waited for continues.
    pub(crate) fn cancel(&mut self, ticket: u64) -> bool {
        let is_write = |answer: &Answer| answer.lane == Lane::Change;
        if self.others.get(&ticket).is_some_and(is_write) {
            return false;
        }
        self.others.remove(&ticket).is_some()
    }

    /// Keeps a future that isn't done.
    fn keep(&mut self, ticket: u64, answer: Answer) {
        let of_lane = match answer.lane {
            Lane::Write => &mut self.writes,
            Lane::Own | Lane::Detached | Lane::AfterWrites | Lane::Change => &mut self.others,
        };
        of_lane.insert(ticket, answer);
    }

    fn waker_of(&self, ticket: u64) -> Waker {
        Waker::from(Arc::new(WakeOne {
            woken: Arc::clone(&self.woken),
            ticket,
        }))
    }
}

fn poll(answer: &mut Answer, waker: &Waker) -> Poll<Result<Reply>> {
    let mut context = Context::from_waker(waker);
    // A panic ends only this call. Its state is dropped with it.
    catch_unwind(AssertUnwindSafe(|| {
        answer.future.as_mut().poll(&mut context)
    }))
    .unwrap_or_else(|panic| Poll::Ready(Err(Failure::panicked(&*panic))))
}

#[cfg(test)]
#[path = "tasks_tests.rs"]
mod tests;
