//! [`Background`]: the flusher thread, which leads groups that no thread waits for and flushes at deadlines, and the
//! maintenance thread, which preallocates segments and saves checkpoints. Both start at first use. Their work is in
//! [`threads`](super::threads).

use crate::{
    store::staging::open_group::FlushUrgency,
    sync::{
        self, Arc, Condvar, Mutex, MutexGuard,
        thread::{self, JoinHandle, ThreadId},
    },
};

/// The two threads, and their pending requests.
#[derive(Default)]
pub(crate) struct Background {
    pub(super) flusher: Mailbox<FlushRequest>,
    pub(super) maintainer: Mailbox<MaintenanceTasks>,
    threads: Mutex<Threads>,
}

/// What the two threads run.
#[derive(Clone)]
pub(crate) struct Work {
    pub(crate) flush: Arc<dyn Fn() + Send + Sync>,
    pub(crate) maintain: Arc<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct Threads {
    /// The work of each, until the store is dropped.
    work: Option<Work>,
    flusher: Option<JoinHandle<()>>,
    maintainer: Option<JoinHandle<()>>,
    /// Both, as long as the store is open or closed by one of them.
    own: Vec<ThreadId>,
    is_over: bool,
    /// Simulates a system without threads left.
    #[cfg(test)]
    are_refused: bool,
}

/// The requests to the flusher thread.
#[derive(Default)]
pub(super) struct FlushRequest {
    pub(super) urgency: FlushUrgency,
    /// The time of the next deadline has changed.
    pub(super) is_due_new: bool,
}

/// The requests to the maintenance thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a task by itself, asked for or not"
)]
pub(crate) struct MaintenanceTasks {
    pub(crate) start_writeback: bool,
    pub(crate) make_spare: bool,
    pub(crate) save_checkpoint: bool,
    pub(crate) drop_dead: bool,
}

impl MaintenanceTasks {
    pub(super) fn any(self) -> bool {
        self != Self::default()
    }
}

pub(super) struct Mailbox<T> {
    pub(super) state: Mutex<Mail<T>>,
    pub(super) changed: Condvar,
}

#[derive(Default)]
pub(super) struct Mail<T> {
    pub(super) request: T,
    pub(super) stop: bool,
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
    pub(super) fn lock(&self) -> MutexGuard<'_, Mail<T>> {
        sync::lock(&self.state)
    }

    fn send(&self, change: impl FnOnce(&mut T)) {
        change(&mut self.lock().request);
        self.changed.notify_one();
    }

    pub(super) fn stop(&self) {
        self.lock().stop = true;
        self.changed.notify_all();
    }
}

impl Background {
    /// Sets the work of the threads, which they run once started.
    pub(crate) fn attach(&self, work: Work) {
        self.threads().work = Some(work);
    }

    fn threads(&self) -> MutexGuard<'_, Threads> {
        sync::lock(&self.threads)
    }

    /// Requests that the flusher thread lead the open group; `false` if no such thread can be started.
    pub(crate) fn request_flush(&self, urgency: FlushUrgency) -> bool {
        self.flusher
            .send(|request| request.urgency = request.urgency.max(urgency));
        self.start_flusher()
    }

    /// Requests that the flusher thread watch the next deadline; `false` if no such thread can be started.
    pub(crate) fn watch_due(&self) -> bool {
        self.flusher.send(|request| request.is_due_new = true);
        self.start_flusher()
    }

    /// Requests tasks of the maintenance thread. If it can't be started, they are skipped, which costs time later.
    pub(crate) fn keep(&self, tasks: MaintenanceTasks) {
        self.maintainer.send(|asked| {
            asked.start_writeback |= tasks.start_writeback;
            asked.make_spare |= tasks.make_spare;
            asked.save_checkpoint |= tasks.save_checkpoint;
            asked.drop_dead |= tasks.drop_dead;
        });
        let threads = &mut *self.threads();
        if threads.maintainer.is_none() {
            threads.maintainer = threads.start("runlog-maintain", |work| work.maintain);
        }
    }

    fn start_flusher(&self) -> bool {
        let threads = &mut *self.threads();
        if threads.flusher.is_none() {
            threads.flusher = threads.start("runlog-flusher", |work| work.flush);
        }
        threads.flusher.is_some()
    }

    /// Whether a thread is one of these two.
    pub(crate) fn is_own(&self, thread: ThreadId) -> bool {
        self.threads().own.contains(&thread)
    }

    /// Requests the threads to end, and prevents new ones.
    pub(crate) fn end(&self) {
        self.threads().is_over = true;
        self.flusher.stop();
        self.maintainer.stop();
    }

    /// Waits for the threads, which were asked to end.
    pub(crate) fn join(&self) {
        let (flusher, maintainer) = {
            let mut threads = self.threads();
            (threads.flusher.take(), threads.maintainer.take())
        };
        for handle in [flusher, maintainer].into_iter().flatten() {
            if handle.thread().id() != thread::current().id() {
                // A panic of the thread was already reported to those that waited for its work.
                let _ = handle.join();
            }
        }
    }

    /// Forgets the threads, which belong to another process.
    pub(crate) fn abandon(&self) {
        let mut threads = self.threads();
        std::mem::forget((threads.flusher.take(), threads.maintainer.take()));
        threads.is_over = true;
    }

    /// From now on no thread can be started.
    #[cfg(test)]
    pub(crate) fn refuse_threads(&self) {
        self.threads().are_refused = true;
    }
}

impl Threads {
    fn start(
        &mut self,
        name: &str,
        which: fn(Work) -> Arc<dyn Fn() + Send + Sync>,
    ) -> Option<JoinHandle<()>> {
        #[cfg(test)]
        if self.are_refused {
            return None;
        }
        if self.is_over {
            return None;
        }
        let run = which(self.work.clone()?);
        let handle = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || run())
            .ok()?;
        self.own.push(handle.thread().id());
        Some(handle)
    }
}
