//! [`Phase`]: what the writer is doing, as one explicit state machine; and how group commit works.
//!
//! # Group commit
//!
//! This is leader/follower group commit: the threads that append take turns in writing for each other.
//!
//! A flush takes so much longer than anything else that many batches have to share one. A thread that appends stages its
//! batch in the *open group*, under the writer's lock: from then on its positions and sequences are settled, and batches
//! staged later are checked against it. Then the thread needs the group to be written. If nothing is under way, it *leads*:
//! it takes the open group, releases the lock, writes the group in one piece, flushes it if one of its batches asks for that,
//! and publishes it to readers. While it does so, other threads stage in the next open group, and wait.
//!
//! When the write is over, the leader takes the lock again, settles the group (whoever waits for it has its result from then
//! on), leaves the state `Writing`, and *hands over*: it offers the lead to one of the threads that wait for the group which
//! gathered meanwhile. Only then does it wake those whose group is done. So a lone writer never waits for another thread, and
//! many writers keep the device busy: while one group is flushed, the next one gathers.
//!
//! Threads that wrote together were woken together and are about to append again. One that would lead right away would take a
//! group of one, and the rest would form another. Where more than one thread was seen, the leader therefore gathers first: it
//! yields as long as more threads join, a few times at most.
//!
//! A batch that was only put in line (`Store::stage`) has nobody who waits yet. The flusher thread leads such a group a moment
//! later, or at once when somebody awaits one of its batches. Without threads the polling task leads, and where no thread can
//! be started, the thread that stages.
//!
//! # What the writer is doing
//!
//! ```text
//!            more than one thread writes
//!         ┌──────────────────────────────▶ Gathering
//!         │                                    │ they came, or didn't
//!         │                                    ▼
//!   ┌──▶ Idle ── lead the open group ──────▶ Writing ──────┐ published, refused, or failed
//!   │     │                                                │
//!   │     ├── flush what was only written ─▶ Flushing ─────┤
//!   │     │                                                │
//!   │     └── the active segment is full ──▶ MakingRoom ───┤
//!   └──────────────────────────────────────────────────────┘
//! ```
//!
//! At most one thread is in `Writing`, `Flushing` or `MakingRoom`: it alone writes to the log, without the writer's lock.
//! Others may stage meanwhile, except while room is made, because nobody knows yet where in which segment the next record
//! will be. Who needs the state to be left waits for its group. That group is settled under the lock before the state is left,
//! so that `Idle` always means: all that was led has its result.
//!
//! # Whether it takes batches
//!
//! ```text
//!   Open ───────────────── close ──▶ Closing ── all is written, and the lock released ──▶ Closed
//!     │ a write or a flush failed       ▲
//!     └──────────▶ Failed ── close ─────┘
//! ```
//!
//! A new batch is taken in `Open` alone. In `Closing`, what is in line and under way is still written, by its own threads or
//! by the one that closes; that one saves the checkpoint, cuts the file, and releases the store's lock as the very last. So
//! nothing is written, and no batch gets its result, after another writer may have the store. Other threads that close
//! meanwhile wait until it is `Closed`.
//!
//! In `Failed` nothing is written any more: nobody can tell what the failed write or flush left on the device. Every batch that
//! was in line got that as its result.

use super::group::Group;
use crate::{
    Error, ErrorKind, Result,
    sync::{Arc, thread::ThreadId},
};

/// What the writer is doing, and whether it takes batches.
#[derive(Default)]
pub(crate) struct Phase {
    activity: Activity,
    lifecycle: Lifecycle,
    /// Why nothing more is written, if so.
    failure: Option<Error>,
}

#[derive(Default)]
enum Activity {
    #[default]
    Idle,
    /// A thread lets others join the open group before it leads it.
    Gathering,
    /// The group is being written.
    Writing(Arc<Group>),
    /// What was written is being flushed. Those that wait for it wait on this group.
    Flushing(Arc<Group>),
    /// The active segment is being extended or rotated. Those that wait for it wait on this group.
    MakingRoom(Arc<Group>),
}

#[derive(Default)]
enum Lifecycle {
    #[default]
    Open,
    Closing {
        by: ThreadId,
        end: Arc<Group>,
    },
    Closed,
}

/// What a thread that wants to close the store has to do.
pub(crate) enum Close {
    /// All of it.
    Do,
    /// Wait: another thread closes it.
    Wait { by: ThreadId, end: Arc<Group> },
    /// Nothing: it is closed.
    Nothing,
}

impl Phase {
    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.activity, Activity::Idle)
    }

    pub(crate) fn is_gathering(&self) -> bool {
        matches!(self.activity, Activity::Gathering)
    }

    /// Whether nothing can be staged now.
    pub(crate) fn is_making_room(&self) -> bool {
        matches!(self.activity, Activity::MakingRoom(_))
    }

    /// What to wait for until the thread that alone writes to the log has left its state; `None` when there is none.
    pub(crate) fn in_progress(&self) -> Option<&Arc<Group>> {
        match &self.activity {
            Activity::Idle | Activity::Gathering => None,
            Activity::Writing(group) | Activity::Flushing(group) | Activity::MakingRoom(group) => {
                Some(group)
            }
        }
    }

    /// From `Idle` to `Gathering`.
    pub(crate) fn start_gathering(&mut self) {
        self.leave_idle(Activity::Gathering);
    }

    /// From `Gathering` to `Idle`; the same thread leads next.
    pub(crate) fn end_gathering(&mut self) {
        assert!(
            self.is_gathering(),
            "a thread ends the gathering of another"
        );
        self.activity = Activity::Idle;
    }

    /// From `Idle` to `Writing`.
    pub(crate) fn start_writing(&mut self, group: Arc<Group>) {
        assert!(
            self.may_write(),
            "a group is written after a failure or a close"
        );
        self.leave_idle(Activity::Writing(group));
    }

    /// From `Idle` to `Flushing`.
    pub(crate) fn start_flushing(&mut self) {
        assert!(self.may_write(), "a flush after a failure or a close");
        self.leave_idle(Activity::Flushing(Arc::default()));
    }

    /// From `Idle` to `MakingRoom`.
    pub(crate) fn start_making_room(&mut self) {
        assert!(
            self.check().is_ok(),
            "room is made for a batch that isn't taken"
        );
        self.leave_idle(Activity::MakingRoom(Arc::default()));
    }

    /// From `Writing`, `Flushing` or `MakingRoom` to `Idle`. The group that was waited for is to be settled before the writer's
    /// lock is released.
    #[must_use]
    pub(crate) fn end(&mut self) -> Arc<Group> {
        match std::mem::take(&mut self.activity) {
            Activity::Writing(group) | Activity::Flushing(group) | Activity::MakingRoom(group) => {
                group
            }
            Activity::Idle | Activity::Gathering => panic!("what isn't under way has ended"),
        }
    }

    fn leave_idle(&mut self, next: Activity) {
        assert!(self.is_idle(), "two threads write to the log at once");
        self.activity = next;
    }

    fn may_write(&self) -> bool {
        #[cfg(runlog_shuttle)]
        if crate::faults::closes_early() {
            return true;
        }
        self.failure.is_none() && !matches!(self.lifecycle, Lifecycle::Closed)
    }

    /// A write or a flush failed. The first failure is the one that is reported.
    pub(crate) fn fail(&mut self, error: &Error) {
        self.failure.get_or_insert_with(|| error.clone());
    }

    /// An error when new batches are refused.
    pub(crate) fn check(&self) -> Result<()> {
        match self.lifecycle {
            Lifecycle::Open => self.check_failure(),
            Lifecycle::Closing { .. } | Lifecycle::Closed => {
                Err(Error::new(ErrorKind::Closed, "the store is closed"))
            }
        }
    }

    /// An error when staged batches can't be written any more.
    pub(crate) fn check_failure(&self) -> Result<()> {
        match &self.failure {
            None => Ok(()),
            Some(cause) => Err(Error::new(
                ErrorKind::Poisoned,
                format!(
                    "a write failed earlier, so nothing more is appended until the store is reopened: {cause}"
                ),
            )),
        }
    }

    /// To `Closing`, unless another thread was faster.
    pub(crate) fn start_closing(&mut self, own: ThreadId) -> Close {
        match &self.lifecycle {
            Lifecycle::Open => {
                self.lifecycle = Lifecycle::Closing {
                    by: own,
                    end: Arc::default(),
                };
                Close::Do
            }
            Lifecycle::Closing { by, end } => Close::Wait {
                by: *by,
                end: end.clone(),
            },
            Lifecycle::Closed => Close::Nothing,
        }
    }

    /// From `Closing` to `Closed`. The group that other threads wait for is to be settled.
    pub(crate) fn end_closing(&mut self) -> Arc<Group> {
        match std::mem::replace(&mut self.lifecycle, Lifecycle::Closed) {
            Lifecycle::Closing { end, .. } => end,
            Lifecycle::Open | Lifecycle::Closed => {
                panic!("a store that isn't being closed is closed")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::thread;

    #[test]
    fn batches_are_taken_while_open_only_and_the_first_failure_is_told() {
        let mut phase = Phase::default();
        phase.check().unwrap();
        phase.fail(&Error::new(ErrorKind::Io, "first"));
        phase.fail(&Error::new(ErrorKind::Io, "second"));
        let refused = phase.check().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Poisoned);
        assert!(refused.to_string().contains("first"), "{refused}");
        assert!(matches!(
            phase.start_closing(thread::current().id()),
            Close::Do
        ));
        assert_eq!(phase.check().unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(
            phase.check_failure().unwrap_err().kind(),
            ErrorKind::Poisoned
        );
        assert!(matches!(
            phase.start_closing(thread::current().id()),
            Close::Wait { .. }
        ));
        let _ = phase.end_closing();
        assert!(matches!(
            phase.start_closing(thread::current().id()),
            Close::Nothing
        ));
    }

    #[test]
    fn what_is_in_line_is_written_while_the_store_is_being_closed() {
        let mut phase = Phase::default();
        assert!(matches!(
            phase.start_closing(thread::current().id()),
            Close::Do
        ));
        phase.start_writing(Arc::default());
        let _ = phase.end();
        phase.start_flushing();
        let _ = phase.end();
        let _ = phase.end_closing();
    }

    fn panics(work: impl FnOnce(&mut Phase)) -> bool {
        let mut phase = Phase::default();
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&mut phase))).is_err()
    }

    #[test]
    fn illegal_transitions_are_assertions() {
        let group = || Arc::<Group>::default();
        assert!(panics(|phase| {
            phase.start_writing(group());
            phase.start_writing(group());
        }));
        assert!(panics(|phase| {
            phase.start_writing(group());
            phase.start_gathering();
        }));
        assert!(panics(|phase| {
            phase.start_gathering();
            phase.start_flushing();
        }));
        assert!(panics(|phase| drop(phase.end())));
        assert!(panics(Phase::end_gathering));
        assert!(panics(|phase| drop(phase.end_closing())));
        assert!(panics(|phase| {
            phase.fail(&Error::new(ErrorKind::Io, "a flush"));
            phase.start_writing(group());
        }));
        assert!(panics(|phase| {
            let _ = phase.start_closing(thread::current().id());
            phase.start_making_room();
        }));
        assert!(panics(|phase| {
            let _ = phase.start_closing(thread::current().id());
            let _ = phase.end_closing();
            phase.start_writing(group());
        }));
    }
}
