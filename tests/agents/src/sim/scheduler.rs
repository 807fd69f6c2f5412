//! [`Scheduler`]: tasks in one thread, in an order that a seed says, and a clock that moves when nothing else does.

use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use runlog::{
    agents::{Runtime, Task},
    engine::Host,
};

use runlog_tests::{host::TestHost, random::Random};

/// Clones share the tasks and the clock.
#[derive(Clone)]
pub(super) struct Scheduler {
    state: Arc<Mutex<State>>,
    host: TestHost,
}

struct State {
    random: Random,
    next_id: u64,
    /// A task is taken out while it is polled.
    tasks: BTreeMap<u64, Option<Task>>,
    ready: Vec<u64>,
    timers: BTreeMap<(u64, u64), Waker>,
    is_closed: bool,
}

/// What one turn did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Turn {
    /// A task went on, or the time.
    Done,
    /// Everything waits for something that never comes.
    Idle,
}

impl Scheduler {
    pub(super) fn new(seed: u64, host: TestHost) -> Self {
        let state = State {
            random: Random::new(seed),
            next_id: 0,
            tasks: BTreeMap::new(),
            ready: Vec::new(),
            timers: BTreeMap::new(),
            is_closed: false,
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            host,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn random(&self) -> Random {
        Random::new(self.state().random.next_u64())
    }

    /// One task goes on, or, when none can, the clock moves to the next timer. Now and then it does so early, as
    /// happens to a machine that has too much to do.
    pub(super) fn turn(&self) -> Turn {
        let mut state = self.state();
        if (state.ready.is_empty() || state.random.one_in(24)) && !state.timers.is_empty() {
            self.pass_time(state);
            return Turn::Done;
        }
        if state.ready.is_empty() {
            return Turn::Idle;
        }
        let count = state.ready.len();
        let place = state.random.place(count);
        let id = state.ready.swap_remove(place);
        let Some(mut task) = state.tasks.get_mut(&id).and_then(Option::take) else {
            return Turn::Done;
        };
        drop(state);
        let waker = Waker::from(Arc::new(TaskWaker {
            scheduler: self.clone(),
            id,
        }));
        let polled = task.as_mut().poll(&mut Context::from_waker(&waker));
        let mut state = self.state();
        if polled.is_pending() && !state.is_closed {
            state.tasks.insert(id, Some(task));
        } else {
            state.tasks.remove(&id);
            drop(state);
            drop(task);
        }
        Turn::Done
    }

    fn pass_time(&self, mut state: MutexGuard<'_, State>) {
        let Some((&(next_ms, _), _)) = state.timers.first_key_value() else {
            return;
        };
        self.host
            .pass_ms(next_ms.saturating_sub(self.host.now_ms()));
        let later = state.timers.split_off(&(next_ms.saturating_add(1), 0));
        let due = std::mem::replace(&mut state.timers, later);
        drop(state);
        due.into_values().for_each(Waker::wake);
    }

    /// Drops every task, as the end of a process or of its runtime does, and takes no more.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        let tasks = std::mem::take(&mut state.tasks);
        drop(state);
        drop(tasks);
        let timers = std::mem::take(&mut self.state().timers);
        drop(timers);
    }

    /// Gives way to others for a turn or more, or for a time, or not at all.
    pub(super) async fn give_way(&self) {
        let mut random = self.random();
        match random.below(16) {
            0..8 => {}
            8..15 => {
                for _ in 0..1 + random.below(3) {
                    GiveWay { was_polled: false }.await;
                }
            }
            _ => self.sleep(Duration::from_millis(1 + random.below(3))).await,
        }
    }
}

impl Runtime for Scheduler {
    fn spawn(&self, task: Task) {
        let mut state = self.state();
        if state.is_closed {
            drop(state);
            drop(task);
            return;
        }
        let id = state.next_id;
        state.next_id += 1;
        state.tasks.insert(id, Some(task));
        state.ready.push(id);
    }

    fn sleep(&self, duration: Duration) -> Task {
        let Ok(ms) = u64::try_from(duration.as_millis()) else {
            return Box::pin(std::future::pending());
        };
        let due_ms = self.host.now_ms().saturating_add(ms.max(1));
        Box::pin(Sleep {
            scheduler: self.clone(),
            due_ms,
            id: None,
        })
    }
}

struct TaskWaker {
    scheduler: Scheduler,
    id: u64,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        let mut state = self.scheduler.state();
        if state.tasks.contains_key(&self.id) && !state.ready.contains(&self.id) {
            state.ready.push(self.id);
        }
    }
}

struct Sleep {
    scheduler: Scheduler,
    due_ms: u64,
    /// Its place among the timers, once it is one.
    id: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.scheduler.host.now_ms() >= self.due_ms {
            return Poll::Ready(());
        }
        let mut state = self.scheduler.state();
        let id = self.id.unwrap_or(state.next_id);
        if self.id.is_none() {
            state.next_id += 1;
        }
        let before = state
            .timers
            .insert((self.due_ms, id), context.waker().clone());
        drop(state);
        drop(before);
        self.id = Some(id);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            let waker = self.scheduler.state().timers.remove(&(self.due_ms, id));
            drop(waker);
        }
    }
}

/// Ready at the second poll.
struct GiveWay {
    was_polled: bool,
}

impl Future for GiveWay {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.was_polled, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}
