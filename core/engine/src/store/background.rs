//! [`Background`]: the flusher thread, which leads groups that no thread waits for, and the keeper thread,
//! which makes segments ahead of need, saves checkpoints and flushes at intervals. Started when first needed.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, Weak},
    thread::JoinHandle,
    time::Duration,
};

use super::{group::Asked, shared::Shared};

/// So long a group may gather when nobody waits for it.
const GATHER: Duration = Duration::from_millis(1);

/// The two threads, and what was asked of them.
#[derive(Default)]
pub(crate) struct Background {
    flusher: Mailbox<Asked>,
    keeper: Mailbox<Chores>,
    threads: Mutex<Threads>,
}

#[derive(Default)]
struct Threads {
    shared: Weak<Shared>,
    flusher: Option<JoinHandle<()>>,
    keeper: Option<JoinHandle<()>>,
}

/// What the keeper is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Chores {
    pub(crate) make_spare: bool,
    pub(crate) save_checkpoint: bool,
}

impl Chores {
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
    asked: T,
    stop: bool,
}

impl<T: Default> Default for Mailbox<T> {
    fn default() -> Self {
        Self { state: Mutex::default(), changed: Condvar::new() }
    }
}

impl<T> Mailbox<T> {
    fn lock(&self) -> MutexGuard<'_, Mail<T>> {
        self.state.lock().expect("no panic under this lock")
    }
}

impl Background {
    /// Tells which store the threads are of.
    pub(crate) fn attach(&self, shared: &Arc<Shared>) {
        self.threads().shared = Arc::downgrade(shared);
        if shared.options.durability.interval_ms().is_some() && !shared.is_read_only() {
            self.start_keeper();
        }
    }

    fn threads(&self) -> MutexGuard<'_, Threads> {
        self.threads.lock().expect("no panic under this lock")
    }

    /// Has the flusher lead the open group.
    pub(crate) fn ask(&self, asked: Asked) {
        let mut mail = self.flusher.lock();
        mail.asked = mail.asked.max(asked);
        drop(mail);
        self.flusher.changed.notify_one();
        let mut threads = self.threads();
        if threads.flusher.is_none() {
            let shared = threads.shared.clone();
            threads.flusher = start("runlog-flusher", shared, |shared| shared.background.flush_in_turn(&shared));
        }
    }

    /// Has the keeper do its chores.
    pub(crate) fn keep(&self, chores: Chores) {
        let mut mail = self.keeper.lock();
        mail.asked.make_spare |= chores.make_spare;
        mail.asked.save_checkpoint |= chores.save_checkpoint;
        drop(mail);
        self.keeper.changed.notify_one();
        self.start_keeper();
    }

    fn start_keeper(&self) {
        let mut threads = self.threads();
        if threads.keeper.is_none() {
            let shared = threads.shared.clone();
            threads.keeper = start("runlog-keeper", shared, |shared| shared.background.keep_house(&shared));
        }
    }

    /// Ends the threads and waits for them.
    pub(crate) fn stop(&self) {
        self.flusher.lock().stop = true;
        self.flusher.changed.notify_all();
        self.keeper.lock().stop = true;
        self.keeper.changed.notify_all();
        let (flusher, keeper) = {
            let mut threads = self.threads();
            (threads.flusher.take(), threads.keeper.take())
        };
        for thread in [flusher, keeper].into_iter().flatten() {
            if thread.thread().id() != std::thread::current().id() {
                let _ = thread.join();
            }
        }
    }

    fn flush_in_turn(&self, shared: &Shared) {
        loop {
            let mut mail = self.flusher.lock();
            while mail.asked == Asked::Nothing && !mail.stop {
                mail = self.flusher.changed.wait(mail).expect("no panic under this lock");
            }
            if mail.asked == Asked::Soon && !mail.stop {
                let (guard, _) = self
                    .flusher
                    .changed
                    .wait_timeout_while(mail, GATHER, |mail| mail.asked != Asked::Now && !mail.stop)
                    .expect("no panic under this lock");
                mail = guard;
            }
            mail.asked = Asked::Nothing;
            let stop = mail.stop;
            drop(mail);
            if stop {
                return;
            }
            shared.lead_if_idle();
        }
    }

    fn keep_house(&self, shared: &Shared) {
        let interval = shared.options.durability.interval_ms().map(|ms| Duration::from_millis(u64::from(ms)));
        loop {
            let mut mail = self.keeper.lock();
            let idle = |mail: &mut Mail<Chores>| !mail.asked.any() && !mail.stop;
            mail = match interval {
                Some(interval) => {
                    self.keeper.changed.wait_timeout_while(mail, interval, idle).expect("no panic under this lock").0
                }
                None => self.keeper.changed.wait_while(mail, idle).expect("no panic under this lock"),
            };
            let chores = std::mem::take(&mut mail.asked);
            let stop = mail.stop;
            drop(mail);
            if stop {
                return;
            }
            if interval.is_some() {
                // A failure poisons the writer, which then tells it to whoever appends.
                let _ = shared.flush(true);
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

fn start(name: &str, shared: Weak<Shared>, work: fn(Arc<Shared>)) -> Option<JoinHandle<()>> {
    let run = move || {
        if let Some(shared) = shared.upgrade() {
            work(shared);
        }
    };
    std::thread::Builder::new().name(name.to_owned()).spawn(run).ok()
}
