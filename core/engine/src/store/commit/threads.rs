//! The work of the flusher thread and of the maintenance thread.

use std::time::Duration;

use super::{
    background::{FlushRequest, Mail, MaintenanceTasks, Work},
    shared::Shared,
};
use crate::{
    store::staging::open_group::FlushUrgency,
    sync::{self, Arc, Ordering, wait_for},
};

/// How long a group may gather when no thread waits for it.
const GATHER: Duration = Duration::from_millis(1);

impl Shared {
    /// The work of this store's background threads. It holds weak references, so the threads don't keep the store open.
    pub(crate) fn background_work(self: &Arc<Self>) -> Work {
        let work = |run: fn(&Self)| -> Arc<dyn Fn() + Send + Sync> {
            let shared = Arc::downgrade(self);
            Arc::new(move || {
                if let Some(shared) = shared.upgrade() {
                    run(&shared);
                }
            })
        };
        Work {
            flush: work(Self::flush_in_turn),
            maintain: work(Self::run_maintenance),
        }
    }

    fn flush_in_turn(&self) {
        let flusher = &self.background.flusher;
        loop {
            let due_in = self.due_in();
            let mut mail = flusher.lock();
            let idle = |mail: &mut Mail<FlushRequest>| {
                mail.request.urgency == FlushUrgency::Nothing
                    && !mail.request.is_due_new
                    && !mail.stop
            };
            let mut is_due = false;
            (mail, is_due) = match due_in {
                Some(left) => wait_for(&flusher.changed, &flusher.state, mail, left, idle),
                None => (sync::wait_while(&flusher.changed, mail, idle), is_due),
            };
            if mail.request.urgency == FlushUrgency::Soon && !mail.stop && !is_due {
                let idle = |mail: &mut Mail<FlushRequest>| {
                    mail.request.urgency != FlushUrgency::Now && !mail.stop
                };
                (mail, _) = wait_for(&flusher.changed, &flusher.state, mail, GATHER, idle);
            }
            let request = std::mem::take(&mut mail.request);
            let stop = mail.stop;
            drop(mail);
            if stop {
                return;
            }
            if is_due || self.due_in().is_some_and(|left| left.is_zero()) {
                // A failure poisons the writer; the next append returns it.
                let _ = self.flush_staged(true);
            } else if request.urgency != FlushUrgency::Nothing {
                self.lead_if_idle();
            }
        }
    }

    fn run_maintenance(&self) {
        let maintainer = &self.background.maintainer;
        loop {
            let mail = maintainer.lock();
            let idle = |mail: &mut Mail<MaintenanceTasks>| !mail.request.any() && !mail.stop;
            let mut mail = sync::wait_while(&maintainer.changed, mail, idle);
            let tasks = std::mem::take(&mut mail.request);
            let stop = mail.stop;
            drop(mail);
            if stop {
                return;
            }
            if tasks.start_writeback {
                self.start_writeback();
            }
            if tasks.make_spare {
                self.make_spare();
            }
            if tasks.save_checkpoint {
                // Without a checkpoint the next open takes longer; nothing else is lost.
                let _ = self.save_checkpoint();
            }
            if tasks.drop_dead {
                // A dead segment that can't be given up now is found again by the search after the next rotation.
                let is_left = self.compact_dead().is_err();
                self.is_dead_left.fetch_or(is_left, Ordering::Relaxed);
            }
        }
    }
}
