//! [`Inbox`]: the events of an agent's process that weren't processed yet.

use std::{
    collections::VecDeque,
    io::BufReader,
    process,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::event::ChildEvent;
use crate::lines::{Line, Lines};

/// The most bytes of lines that wait to be recorded, without the newest line.
const WAITING_BYTES: usize = 16 << 20;
/// What is read at least after the agent has ended: the largest pipe, in which its last lines may still be.
const PIPE_BYTES_MAX: usize = 1 << 20;
/// The most bytes of a line that count for that: of a longer one only the end is still in the pipe.
const LINE_BYTES_COUNTED: usize = 64 << 10;

/// The events that weren't processed yet.
#[derive(Default)]
pub(super) struct Inbox {
    state: Mutex<InboxState>,
    changed: Condvar,
}

#[derive(Default)]
struct InboxState {
    events: VecDeque<ChildEvent>,
    bytes: usize,
    is_over: bool,
    /// How many bytes the agent's last lines may still have; `None` before it has ended.
    last_bytes: Option<usize>,
    /// Whether no line is added any more.
    is_closed: bool,
}

impl Inbox {
    fn state(&self) -> MutexGuard<'_, InboxState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line, unless it is closed; blocks while too many bytes wait, so that an agent can't write faster than the disk.
    fn push_line(&self, line: Line) {
        let mut state = self.state();
        while state.bytes > WAITING_BYTES && !state.is_closed {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_closed {
            return;
        }
        if let Some(last_bytes) = &mut state.last_bytes {
            *last_bytes = last_bytes.saturating_sub(length_of_line(&line).min(LINE_BYTES_COUNTED));
        }
        state.bytes += size_of_line(&line);
        state.events.push_back(ChildEvent::Line(line));
        self.changed.notify_all();
    }

    /// Adds something that is not a line, before the lines that wait.
    pub(super) fn push_first(&self, event: ChildEvent) {
        self.state().events.push_front(event);
        self.changed.notify_all();
    }

    fn end(&self) {
        self.state().is_over = true;
        self.changed.notify_all();
    }

    /// The agent has ended: its own lines are among the next ones.
    pub(super) fn count_down(&self) {
        self.state().last_bytes = Some(PIPE_BYTES_MAX);
    }

    /// Takes no more lines once those that the agent itself may have written are there.
    pub(super) fn close_if_read(&self) {
        let mut state = self.state();
        state.is_closed |= state.last_bytes == Some(0);
        self.changed.notify_all();
    }

    fn is_closed(&self) -> bool {
        self.state().is_closed
    }

    pub(super) fn is_over(&self) -> bool {
        self.state().is_over
    }

    pub(super) fn take(&self, patience: Duration) -> Option<ChildEvent> {
        let mut state = self.state();
        if state.events.is_empty() && !patience.is_zero() {
            state = self
                .changed
                .wait_timeout(state, patience)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        let event = state.events.pop_front()?;
        if let ChildEvent::Line(line) = &event {
            state.bytes = state.bytes.saturating_sub(size_of_line(line));
            self.changed.notify_all();
        }
        Some(event)
    }
}

/// The memory that a waiting line counts for. It has a minimum, so that the number of lines is bounded too.
fn size_of_line(line: &Line) -> usize {
    64 + match line {
        Line::Whole(bytes) | Line::Partial(bytes) => bytes.len(),
        Line::TooLong(_) => 0,
    }
}

/// How many bytes a line has, its line feed included.
fn length_of_line(line: &Line) -> usize {
    1 + match line {
        Line::Whole(bytes) | Line::Partial(bytes) => bytes.len(),
        Line::TooLong(bytes) => usize::try_from(*bytes).unwrap_or(usize::MAX - 1),
    }
}

pub(super) fn read_from(mut lines: Lines<BufReader<process::ChildStdout>>, inbox: &Inbox) {
    // A read that fails is the end of what can be read.
    while let Ok(Some(line)) = lines.next()
        && !inbox.is_closed()
    {
        inbox.push_line(line);
    }
    inbox.end();
}
