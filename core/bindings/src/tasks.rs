//! [`Tasks`]: the futures of one JavaScript thread, polled only on that thread.
//!
//! A future is polled once when it is started, so that writes are staged in the order of the calls. One that isn't
//! ready waits in one of two lanes. All writes share a waker: a flush acknowledges many of them, and each is polled
//! once or twice. All other futures, detached tasks included, have a waker of their own.

use std::{
    collections::BTreeMap,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll, Wake, Waker},
};

use runlog::backend::Backend;

use crate::{
    Failure, Reply, Result,
    appends::{Appends, Settled},
};

/// The answer of a call, as a future.
pub(crate) struct Answer {
    pub(crate) lane: Lane,
    pub(crate) future: Pin<Box<dyn Future<Output = Result<Reply>>>>,
}

/// How a future is woken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lane {
    /// With all other writes.
    Write,
    /// By itself.
    Own,
    /// By itself, and its end is not reported.
    Detached,
    /// As [`Own`](Self::Own), from when on the writes that were started before it are done.
    AfterWrites,
}

impl Answer {
    /// A write: staged when it is first polled, ready when it is durable.
    pub(crate) fn write(future: impl Future<Output = Result<Reply>> + 'static) -> Self {
        Self {
            lane: Lane::Write,
            future: Box::pin(future),
        }
    }

    /// Anything else.
    pub(crate) fn wait(future: impl Future<Output = Result<Reply>> + 'static) -> Self {
        Self {
            lane: Lane::Own,
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
    writes: Vec<(u64, Answer)>,
    appends: Appends,
    others: BTreeMap<u64, Answer>,
    /// What waits for the writes before it.
    after_writes: Vec<(u64, Answer)>,
    woken: Arc<Woken>,
    write_waker: Waker,
}

/// The futures that were woken since the last poll.
pub(crate) struct Woken {
    state: Mutex<State>,
    /// Asks the JavaScript thread to poll.
    wake: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct State {
    writes: bool,
    tickets: Vec<u64>,
    /// Whether the thread was asked already.
    asked: bool,
}

struct WakeWrites(Arc<Woken>);

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

impl Wake for WakeWrites {
    fn wake(self: Arc<Self>) {
        self.0.update(|state| state.writes = true);
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
        let write_waker = Waker::from(Arc::new(WakeWrites(Arc::clone(&woken))));
        Self {
            last_ticket: 0,
            writes: Vec::new(),
            appends: Appends::default(),
            others: BTreeMap::new(),
            after_writes: Vec::new(),
            woken,
            write_waker,
        }
    }

    /// The woken futures.
    pub(crate) fn woken(&self) -> &Arc<Woken> {
        &self.woken
    }

    /// Polls a future for the first time: returns its result, or the ticket of its later answer.
    pub(crate) fn start(&mut self, mut answer: Answer) -> std::result::Result<Result<Reply>, u64> {
        self.last_ticket += 1;
        let ticket = self.last_ticket;
        if answer.lane == Lane::AfterWrites && !self.writes.is_empty() {
            self.after_writes.push((ticket, answer));
            return Err(ticket);
        }
        let waker = self.waker_of(ticket, answer.lane);
        if let Poll::Ready(result) = poll(&mut answer, &waker) {
            return Ok(result);
        }
        match answer.lane {
            Lane::Write => self.writes.push((ticket, answer)),
            Lane::Own | Lane::Detached | Lane::AfterWrites => {
                drop(self.others.insert(ticket, answer));
            }
        }
        Err(ticket)
    }

    /// Stages many appends, then polls all of them: returns the ticket of the first, and those that are settled already.
    pub(crate) fn append(
        &mut self,
        packed: &[u8],
        backend_of: impl Fn(u32) -> Result<Arc<dyn Backend>>,
    ) -> Result<(u64, Settled)> {
        let first = self.appends.next_ticket();
        let mut settled = Settled::default();
        let staged = self.appends.stage(packed, backend_of, &mut settled);
        self.appends.poll(&self.write_waker, &mut settled);
        staged.map(|()| (first, settled))
    }

    /// Polls the woken futures, and returns the answers that are ready.
    pub(crate) fn poll(&mut self) -> (Vec<(u64, Result<Reply>)>, Settled) {
        let (writes, tickets) = {
            let mut state = self.woken.state();
            state.asked = false;
            (
                std::mem::take(&mut state.writes),
                std::mem::take(&mut state.tickets),
            )
        };
        let mut ready = Vec::new();
        let mut settled = Settled::default();
        if writes {
            self.appends.poll(&self.write_waker, &mut settled);
            let waker = &self.write_waker;
            self.writes
                .retain_mut(|(ticket, answer)| match poll(answer, waker) {
                    Poll::Ready(result) => {
                        ready.push((*ticket, result));
                        false
                    }
                    Poll::Pending => true,
                });
            self.start_after_writes(&mut ready);
        }
        for ticket in tickets {
            let Some(mut answer) = self.others.remove(&ticket) else {
                continue;
            };
            let waker = self.waker_of(ticket, answer.lane);
            match poll(&mut answer, &waker) {
                Poll::Ready(_) if answer.lane == Lane::Detached => {}
                Poll::Ready(result) => ready.push((ticket, result)),
                Poll::Pending => drop(self.others.insert(ticket, answer)),
            }
        }
        (ready, settled)
    }

    fn start_after_writes(&mut self, ready: &mut Vec<(u64, Result<Reply>)>) {
        let first_write = self.writes.iter().map(|(ticket, _)| *ticket).min();
        let waits = |ticket: u64| first_write.is_some_and(|write| write < ticket);
        let (waiting, begun): (Vec<_>, Vec<_>) = std::mem::take(&mut self.after_writes)
            .into_iter()
            .partition(|(ticket, _)| waits(*ticket));
        self.after_writes = waiting;
        for (ticket, mut answer) in begun {
            let waker = self.waker_of(ticket, answer.lane);
            match poll(&mut answer, &waker) {
                Poll::Ready(result) => ready.push((ticket, result)),
                Poll::Pending => drop(self.others.insert(ticket, answer)),
            }
        }
    }

    /// Drops a future that isn't a write; the work it waited for continues.
    pub(crate) fn cancel(&mut self, ticket: u64) -> bool {
        self.others.remove(&ticket).is_some()
    }

    fn waker_of(&self, ticket: u64, lane: Lane) -> Waker {
        match lane {
            Lane::Write => self.write_waker.clone(),
            Lane::Own | Lane::Detached | Lane::AfterWrites => Waker::from(Arc::new(WakeOne {
                woken: Arc::clone(&self.woken),
                ticket,
            })),
        }
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
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn tasks() -> (Tasks, Arc<AtomicUsize>) {
        let wakes = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&wakes);
        let wake = move || {
            counted.fetch_add(1, Ordering::SeqCst);
        };
        (Tasks::new(wake), wakes)
    }

    #[test]
    fn what_is_ready_at_once_needs_no_ticket() {
        let (mut tasks, wakes) = tasks();
        assert_eq!(
            tasks.start(Answer::known(Ok(Reply::DONE))),
            Ok(Ok(Reply::DONE))
        );
        assert_eq!(wakes.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn many_wakes_ask_the_thread_once() {
        let (mut tasks, wakes) = tasks();
        let (send, receive): (Vec<_>, Vec<_>) = (0..10)
            .map(|_| tokio::sync::oneshot::channel::<()>())
            .unzip();
        for receive in receive {
            let answer = Answer::write(async move {
                receive.await.map_err(|_| Failure::closed("it"))?;
                Ok(Reply::DONE)
            });
            assert!(tasks.start(answer).is_err());
        }
        send.into_iter().for_each(|send| send.send(()).unwrap());
        assert_eq!(wakes.load(Ordering::SeqCst), 1);
        assert_eq!(tasks.poll().0.len(), 10);
        assert_eq!(tasks.poll().0, []);
    }

    #[test]
    fn what_comes_after_writes_begins_once_those_before_it_are_done() {
        let (mut tasks, _) = tasks();
        let after = |began: &Arc<AtomicUsize>| {
            let began = Arc::clone(began);
            Answer {
                lane: Lane::AfterWrites,
                ..Answer::wait(async move {
                    began.fetch_add(1, Ordering::SeqCst);
                    Ok(Reply::DONE)
                })
            }
        };
        let began = Arc::new(AtomicUsize::new(0));
        assert_eq!(tasks.start(after(&began)), Ok(Ok(Reply::DONE)));
        let mut write = || {
            let (send, receive) = tokio::sync::oneshot::channel::<()>();
            let ticket = tasks.start(Answer::write(async move {
                receive.await.map_err(|_| Failure::closed("it"))?;
                Ok(Reply::DONE)
            }));
            (send, ticket.unwrap_err())
        };
        let (one, other) = (write(), write());
        let last = tasks.start(after(&began)).unwrap_err();
        let (later, _) = {
            let (send, receive) = tokio::sync::oneshot::channel::<()>();
            let ticket = tasks.start(Answer::write(async move {
                receive.await.map_err(|_| Failure::closed("it"))?;
                Ok(Reply::DONE)
            }));
            (send, ticket.unwrap_err())
        };
        other.0.send(()).unwrap();
        assert_eq!(tasks.poll().0, [(other.1, Ok(Reply::DONE))]);
        assert_eq!(began.load(Ordering::SeqCst), 1);
        one.0.send(()).unwrap();
        let done = [(one.1, Ok(Reply::DONE)), (last, Ok(Reply::DONE))];
        assert_eq!(tasks.poll().0, done);
        assert_eq!(
            began.load(Ordering::SeqCst),
            2,
            "the later write isn't waited for"
        );
        drop(later);
    }

    #[test]
    fn a_panic_fails_its_own_call_alone() {
        let (mut tasks, _) = tasks();
        let (send, receive) = tokio::sync::oneshot::channel::<()>();
        let panics = Answer::wait(async move {
            let _ = receive.await;
            panic!("on purpose")
        });
        let ticket = tasks.start(panics).unwrap_err();
        drop(send);
        let (found, result) = tasks.poll().0.remove(0);
        assert_eq!((found, result.unwrap_err().code), (ticket, "internal"));
        assert!(tasks.start(Answer::known(Ok(Reply::DONE))).is_ok());
    }

    #[test]
    fn a_cancelled_future_is_dropped() {
        let (mut tasks, _) = tasks();
        let (send, receive) = tokio::sync::oneshot::channel::<()>();
        let answer = Answer::wait(async move {
            let _ = receive.await;
            Ok(Reply::DONE)
        });
        let ticket = tasks.start(answer).unwrap_err();
        assert!(tasks.cancel(ticket));
        assert!(send.is_closed());
        assert!(!tasks.cancel(ticket));
    }
}
