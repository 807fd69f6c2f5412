//! [`Remote`]: requests of other code to the JavaScript thread: to run tasks, to set timers, to do an agent's work.

use std::{
    collections::HashMap,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll, Waker},
    time::Duration,
};

use runlog::{
    Store,
    agents::{AgentEnd, AgentError, RunContext, Runtime, Task},
};
use tokio::sync::oneshot;

use crate::{reads::Reads, tasks::Woken};

/// How an agent's work ends.
pub(crate) type Done = oneshot::Sender<Result<AgentEnd, AgentError>>;

/// A request to JavaScript.
pub(crate) enum Ask {
    /// To set a timer.
    Sleep { timer: u64, ms: f64 },
    /// To clear a timer.
    Forget { timer: u64 },
    /// To do an agent's work.
    Execute {
        orchestrator: u64,
        run: Box<RunContext>,
        reads: (Store, Reads),
        done: Done,
    },
}

/// A handle of the JavaScript thread, for any thread.
pub(crate) struct Remote {
    woken: Arc<Woken>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    tasks: Vec<Task>,
    asks: Vec<Ask>,
    timers: HashMap<u64, Arc<Timer>>,
    last_timer: u64,
}

#[derive(Default)]
struct Timer {
    state: Mutex<TimerState>,
}

#[derive(Default)]
struct TimerState {
    is_over: bool,
    waker: Option<Waker>,
}

impl Remote {
    pub(crate) fn new(woken: Arc<Woken>) -> Self {
        Self {
            woken,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The tasks that were added since the last call.
    pub(crate) fn take_tasks(&self) -> Vec<Task> {
        std::mem::take(&mut self.state().tasks)
    }

    /// The requests that were added since the last call.
    pub(crate) fn take_asks(&self) -> Vec<Ask> {
        std::mem::take(&mut self.state().asks)
    }

    pub(crate) fn ask(&self, ask: Ask) {
        self.state().asks.push(ask);
        self.woken.ask();
    }

    /// To be called when a timer has expired.
    pub(crate) fn is_over(&self, timer: u64) {
        let timer = self.state().timers.remove(&timer);
        if let Some(timer) = timer {
            let waker = {
                let mut state = timer.state();
                state.is_over = true;
                state.waker.take()
            };
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

impl Timer {
    fn state(&self) -> MutexGuard<'_, TimerState> {
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// The event loop of the JavaScript thread as a [`Runtime`].
pub(crate) struct EventLoop(pub(crate) Arc<Remote>);

impl Runtime for EventLoop {
    fn spawn(&self, task: Task) {
        self.0.state().tasks.push(task);
        self.0.woken.ask();
    }

    fn sleep(&self, duration: Duration) -> Task {
        let timer = Arc::new(Timer::default());
        let id = {
            let mut state = self.0.state();
            state.last_timer += 1;
            let id = state.last_timer;
            state.timers.insert(id, Arc::clone(&timer));
            id
        };
        self.0.ask(Ask::Sleep {
            timer: id,
            ms: duration.as_secs_f64() * 1000.0,
        });
        Box::pin(Sleep {
            remote: Arc::clone(&self.0),
            id,
            timer,
        })
    }
}

struct Sleep {
    remote: Arc<Remote>,
    id: u64,
    timer: Arc<Timer>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.timer.state();
        if state.is_over {
            return Poll::Ready(());
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let forgotten = self.remote.state().timers.remove(&self.id).is_some();
        if forgotten {
            self.remote.ask(Ask::Forget { timer: self.id });
        }
    }
}
