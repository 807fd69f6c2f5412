//! [`Phase`]: the state machine of the writer, and the protocol of group commit.
//!
//! # Group commit
//!
//! This is leader/follower group commit: one of the appending threads writes the batches of all, and the role passes
//! from thread to thread.
//!
//! A flush takes so much longer than anything else that many batches have to share one. A thread that appends stages
//! its batch in the *open group*, under the writer's lock: from then on its positions and sequences are assigned, and
//! batches staged later are checked against it. Then the thread needs the group to be written. If no write is in
//! progress, it *leads*: it takes the open group, releases the lock, writes the group in one piece, flushes it if one
//! of its batches requests that, and publishes it to readers. While it does so, other threads stage in the next open
//! group, and wait.
//!
//! When the write is over, the leader takes the lock again, settles the group (its waiters have their result from then
//! on), leaves the state `Writing`, and *hands over*: it offers the lead to one of the threads that wait for the group
//! gathered meanwhile. Only then does it wake the waiters of the finished group. So a lone writer never waits for
//! another thread, and many writers keep the device busy: while one group is flushed, the next one gathers.
//!
//! Threads whose batches were in one group are woken together and are about to append again. A thread that led right
//! away would write a group of one batch, and the rest would form another group. If more than one thread was seen, the
//! leader therefore gathers first: it yields as long as more threads join, a few times at most.
//!
//! A batch that was only queued (`Store::stage`) has no waiting thread yet. The flusher thread leads such a group a
//! moment later, or at once when a task awaits one of its batches. On a host without threads the polling task leads,
//! and if no thread can be started, the thread that stages.
//!
//! # Activity
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
//! At most one thread is in `Writing`, `Flushing` or `MakingRoom`: it alone writes to the log, without the writer's
//! lock. Others may stage meanwhile, except while room is made, because the segment and offset of the next record
//! aren't known yet. A thread that has to wait for the end of a state waits for its group. That group is settled under
//! the lock before the state is left, so that in `Idle` every group that was led has its result.
//!
//! # Lifecycle
//!
//! ```text
//!   Open ───────────────── close ──▶ Closing ── all is written, and the lock released ──▶ Closed
//!     │ a write or a flush failed       ▲
//!     └──────────▶ Failed ── close ─────┘
//! ```
//!
//! New batches are accepted in `Open` only. In `Closing`, queued batches and groups in progress are still written, by
//! their own threads or by the closing thread; that one saves the checkpoint, truncates the file, and releases the
//! store's lock as its last action. So no byte is written, and no batch gets its result, once another writer may have
//! the store. Other threads that close meanwhile wait until it is `Closed`.
//!
//! In `Failed` nothing is written any more, because it is unknown which bytes the failed write or flush left on the
//! device. Every queued batch got that error as its result.

use super::group::Group;
use crate::{
    Error, ErrorKind, Result,
    sync::{Arc, thread::ThreadId},
};

/// The activity and the lifecycle of the writer.
#[derive(Default)]
pub(crate) struct Phase {
    activity: Activity,
    lifecycle: Lifecycle,
    /// The failure after which nothing is written, if there was one.
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
    /// Written bytes are being flushed. Threads that wait for it wait on this group.
    Flushing(Arc<Group>),
    /// The active segment is being extended or rotated. Threads that wait for it wait on this group.
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

/// The part of a thread in closing the store.
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

    /// The group to wait for until the thread that writes to the log has left its state; `None` if no thread writes.
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

    /// From `Writing`, `Flushing` or `MakingRoom` to `Idle`. The caller has to settle the returned group before it
    /// releases the writer's lock.
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

    /// Records a failed write or flush. The first failure is the one that is reported.
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

    /// From `Closing` to `Closed`. The caller has to settle the returned group, which other threads wait for.
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
