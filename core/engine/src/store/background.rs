//! [`Background`]: the flusher thread, which leads groups that no thread waits for and flushes what is due, and the keeper
//! thread, which makes segments ahead of need and saves checkpoints. Started when first needed.

use std::time::Duration;

use super::{group::FlushUrgency, shared::Shared};
use crate::sync::{
    Arc, Condvar, Mutex, MutexGuard, Weak,
    thread::{self, JoinHandle, ThreadId},
    wait_for,
};

/// So long a group may gather when nobody waits for it.
const GATHER: Duration = Duration::from_millis(1);

/// The two threads, and what was asked of them.
#[derive(Default)]
pub(crate) struct Background {
    flusher: Mailbox<Errand>,
    keeper: Mailbox<MaintenanceTasks>,
    threads: Mutex<Threads>,
}

#[derive(Default)]
struct Threads {
    shared: Weak<Shared>,
    flusher: Option<JoinHandle<()>>,
    keeper: Option<JoinHandle<()>>,
    /// Both, as long as the store is open or closed by one of them.
    own: Vec<ThreadId>,
    is_over: bool,
    /// As where the system has no thread left.
    #[cfg(test)]
    are_refused: bool,
}

/// What the flusher is to do.
#[derive(Default)]
struct Errand {
    urgency: FlushUrgency,
    /// When something is due has changed.
    is_due_new: bool,
}

/// What the keeper is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct MaintenanceTasks {
    pub(crate) make_spare: bool,
    pub(crate) save_checkpoint: bool,
}

impl MaintenanceTasks {
    fn any(self) -> bool {
        self != Self::default()
    }
}

struct Mailbox<T> {
    state: Mutex<Mail<T>>,
    changed: Condvar,
}

#[derive(Default)]
struct Mail<T> {
    errand: T,
    stop: bool,
}

impl<T: Default> Default for Mailbox<T> {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }
}

impl<T> Mailbox<T> {
    fn lock(&self) -> MutexGuard<'_, Mail<T>> {
        self.state.lock().expect("no panic under this lock")
    }

    fn send(&self, change: impl FnOnce(&mut T)) {
        change(&mut self.lock().errand);
        self.changed.notify_one();
    }

    fn stop(&self) {
        self.lock().stop = true;
        self.changed.notify_all();
    }
}

impl Background {
    /// Tells which store the threads are of.
    pub(crate) fn attach(&self, shared: &Arc<Shared>) {
        self.threads().shared = Arc::downgrade(shared);
    }

    fn threads(&self) -> MutexGuard<'_, Threads> {
        self.threads.lock().expect("no panic under this lock")
    }

    /// Has the flusher lead the open group; whether there is one.
    pub(crate) fn request_flush(&self, urgency: FlushUrgency) -> bool {
        self.flusher
            .send(|errand| errand.urgency = errand.urgency.max(urgency));
        self.start_flusher()
    }

    /// Has the flusher look at when something is due; whether there is one.
    pub(crate) fn watch_due(&self) -> bool {
        self.flusher.send(|errand| errand.is_due_new = true);
        self.start_flusher()
    }

    /// Has the keeper do its chores. Where none can be started, they are left, and cost time later.
    pub(crate) fn keep(&self, chores: MaintenanceTasks) {
        self.keeper.send(|urgency| {
            urgency.make_spare |= chores.make_spare;
            urgency.save_checkpoint |= chores.save_checkpoint;
        });
        let threads = &mut *self.threads();
        if threads.keeper.is_none() {
            threads.keeper = threads.start("runlog-maintain", |shared| {
                shared.background.run_maintenance(&shared)
            });
        }
    }

    fn start_flusher(&self) -> bool {
        let threads = &mut *self.threads();
        if threads.flusher.is_none() {
            threads.flusher = threads.start("runlog-flusher", |shared| {
                shared.background.flush_in_turn(&shared)
            });
        }
        threads.flusher.is_some()
    }

    /// Whether a thread is one of these two.
    pub(crate) fn is_own(&self, thread: ThreadId) -> bool {
        self.threads().own.contains(&thread)
    }

    /// Has the threads end, and starts none any more.
    pub(crate) fn end(&self) {
        self.threads().is_over = true;
        self.flusher.stop();
        self.keeper.stop();
    }

    /// Waits for the threads, which were told to end.
    pub(crate) fn join(&self) {
        let (flusher, keeper) = {
            let mut threads = self.threads();
            (threads.flusher.take(), threads.keeper.take())
        };
        for handle in [flusher, keeper].into_iter().flatten() {
            if handle.thread().id() != thread::current().id() {
                // A panic of it was told to those who waited for what it did.
                let _ = handle.join();
            }
        }
    }

    /// Forgets the threads, which are another process's.
    pub(crate) fn abandon(&self) {
        let mut threads = self.threads();
        std::mem::forget((threads.flusher.take(), threads.keeper.take()));
        threads.is_over = true;
    }

    /// From now on no thread can be started.
    #[cfg(test)]
    pub(crate) fn refuse_threads(&self) {
        self.threads().are_refused = true;
    }

    fn flush_in_turn(&self, shared: &Shared) {
        loop {
            let due_in = shared.due_in();
            let mut mail = self.flusher.lock();
            let idle = |mail: &mut Mail<Errand>| {
                mail.errand.urgency == FlushUrgency::Nothing
                    && !mail.errand.is_due_new
                    && !mail.stop
            };
            let mut is_due = false;
            (mail, is_due) = match due_in {
                Some(left) => {
                    wait_for(&self.flusher.changed, &self.flusher.state, mail, left, idle)
                }
                None => (
                    self.flusher
                        .changed
                        .wait_while(mail, idle)
                        .expect("no panic under this lock"),
                    is_due,
                ),
            };
            if mail.errand.urgency == FlushUrgency::Soon && !mail.stop && !is_due {
                let idle = |mail: &mut Mail<Errand>| {
                    mail.errand.urgency != FlushUrgency::Now && !mail.stop
                };
                (mail, _) = wait_for(
                    &self.flusher.changed,
                    &self.flusher.state,
                    mail,
                    GATHER,
                    idle,
                );
            }
            let errand = std::mem::take(&mut mail.errand);
            let stop = mail.stop;
            drop(mail);
            if stop {
                return;
            }
            if is_due || shared.due_in().is_some_and(|left| left.is_zero()) {
                // A failure poisons the writer, which then tells it to whoever appends.
                let _ = shared.flush_staged(true);
            } else if errand.urgency != FlushUrgency::Nothing {
                shared.lead_if_idle();
            }
        }
    }

    fn run_maintenance(&self, shared: &Shared) {
        loop {
            let mail = self.keeper.lock();
            let idle = |mail: &mut Mail<MaintenanceTasks>| !mail.errand.any() && !mail.stop;
            let mut mail = self
                .keeper
                .changed
                .wait_while(mail, idle)
                .expect("no panic under this lock");
            let chores = std::mem::take(&mut mail.errand);
            let stop = mail.stop;
            drop(mail);
            if stop {
                return;
            }
            if chores.make_spare {
                shared.make_spare();
            }
            if chores.save_checkpoint {
                // Without a checkpoint the next open takes longer; nothing else is lost.
                let _ = shared.save_checkpoint();
            }
        }
    }
}

impl Threads {
    fn start(&mut self, name: &str, work: fn(Arc<Shared>)) -> Option<JoinHandle<()>> {
        #[cfg(test)]
        if self.are_refused {
            return None;
        }
        if self.is_over {
            return None;
        }
        let shared = self.shared.clone();
        let run = move || {
            if let Some(shared) = shared.upgrade() {
                work(shared);
            }
        };
        let handle = thread::Builder::new()
            .name(name.to_owned())
            .spawn(run)
            .ok()?;
        self.own.push(handle.thread().id());
        Some(handle)
    }
}
