//! The agent's process: reading its lines, writing to it, and the signals that end it.

use std::{
    collections::VecDeque,
    ffi::{OsStr, OsString},
    io::{self, BufReader, Write},
    process::{self, ChildStdin, Command, Stdio},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use super::{
    event::{ChildEvent, Ended},
    inbox::{Inbox, read_from},
    parent_death::die_with_parent,
};
use crate::{
    failure::{Failure, Result},
    lines::{LINE_BYTES_MAX, Lines},
};

/// The most lines that wait to be read by the agent; beyond that the oldest are dropped.
const UNREAD_MAX: usize = 1024;
/// The interval at which the process is polled for its end.
const POLL: Duration = Duration::from_millis(20);
/// The same for more output that comes late, which may come in steps for ever.
const LATE_POLL: Duration = Duration::from_millis(1);
/// How long to wait for more output after the agent has ended, in case a child process of its own still holds the pipe.
const GRACE: Duration = Duration::from_secs(1);
/// The signal that asks a process to end.
pub(super) const SIGTERM: i32 = 15;
/// How long a signal to Runlog may take to arrive after the agent was ended by one.
const SIGNAL_PATIENCE: Duration = Duration::from_millis(500);

/// Writes an agent's first lines: they are generated while the agent reads, so that the whole context is never in
/// memory.
pub(crate) type Opening =
    Box<dyn FnOnce(&mut dyn FnMut(Vec<u8>) -> io::Result<()>) -> Result<()> + Send>;

/// A running agent.
pub(crate) struct Child {
    process: process::Child,
    inbox: Arc<Inbox>,
    outbox: Arc<Outbox>,
    exited: Option<(Ended, Instant)>,
    /// Whether a signal to stop was among its events.
    is_signalled: bool,
    ends: Option<Ends>,
}

/// Stops an agent from another thread, in the way a signal to stop Runlog does.
#[derive(Clone)]
pub(crate) struct Stopper {
    inbox: Arc<Inbox>,
}

impl Stopper {
    /// Sends the agent SIGTERM the first time, and kills it the second time.
    pub(crate) fn stop(&self) {
        self.inbox.push_first(ChildEvent::Signal(SIGTERM));
    }

    /// As [`stop`](Self::stop), where nothing more can be recorded in the agent's run.
    pub(crate) fn stop_as_run_is_over(&self) {
        self.inbox.push_first(ChildEvent::RunOver);
    }
}

/// Writes to an agent from another thread.
pub(crate) struct LineSender {
    outbox: Arc<Outbox>,
}

impl LineSender {
    /// As [`Child::send`].
    pub(crate) fn send(&self, line: Vec<u8>) {
        self.outbox.push(line);
    }
}

/// The state of ending an agent that should end.
struct Ends {
    at: Instant,
    patience: Duration,
    signal: Option<i32>,
}

impl Child {
    /// Starts a program as an agent. Nothing is written to it before its [opening](Self::open). Signals that tell
    /// Runlog to stop are forwarded to it.
    pub(crate) fn start(program: &OsStr, arguments: &[OsString]) -> Result<Self> {
        let inbox = Arc::new(Inbox::default());
        // Before the process exists, so that no signal is missed.
        watch_signals(&inbox)?;
        Self::start_with(program, arguments, inbox)
    }

    /// Starts a program as one agent of many: signals to Runlog are not forwarded to it.
    pub(crate) fn start_one_of_many(program: &OsStr, arguments: &[OsString]) -> Result<Self> {
        Self::start_with(program, arguments, Arc::default())
    }

    fn start_with(program: &OsStr, arguments: &[OsString], inbox: Arc<Inbox>) -> Result<Self> {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = die_with_parent(&mut command)
            .spawn()
            .map_err(|error| cannot_run(program, &error))?;
        let outbox = Arc::new(Outbox::default());
        if let Some(stdout) = process.stdout.take() {
            let inbox = Arc::clone(&inbox);
            thread::spawn(move || {
                read_from(Lines::new(BufReader::new(stdout), LINE_BYTES_MAX), &inbox)
            });
        }
        Ok(Self {
            process,
            inbox,
            outbox,
            exited: None,
            is_signalled: false,
            ends: None,
        })
    }

    /// Writes the opening to the agent, and then what is [sent](Self::send).
    pub(crate) fn open(&mut self, opening: Opening) {
        if let Some(stdin) = self.process.stdin.take() {
            let (inbox, outbox) = (Arc::clone(&self.inbox), Arc::clone(&self.outbox));
            thread::spawn(move || write_to(stdin, opening, &outbox, &inbox));
        }
    }

    /// A handle that stops it from another thread.
    pub(crate) fn stopper(&self) -> Stopper {
        Stopper {
            inbox: Arc::clone(&self.inbox),
        }
    }

    /// The next event; blocks until there is one.
    pub(crate) fn next(&mut self) -> Result<ChildEvent> {
        loop {
            self.press();
            // Also while it writes: what still holds its output may never stop.
            let is_late = self.has_ended_before(GRACE)?;
            if is_late {
                self.inbox.close_if_read();
            }
            let patience = if is_late { LATE_POLL } else { POLL };
            if let Some(event) = self.inbox.take(patience) {
                self.is_signalled |= event.asks_to_stop();
                return Ok(event);
            }
            if let Some((ended, _)) = self.exited
                && (self.inbox.is_over() || is_late)
            {
                // A terminal sends Ctrl-C to the agent and to Runlog at once, and the agent's end may be seen first.
                let patience = if ended.is_stopped() && !self.is_signalled {
                    SIGNAL_PATIENCE
                } else {
                    Duration::ZERO
                };
                let event = self.inbox.take(patience);
                self.is_signalled |= event.as_ref().is_some_and(ChildEvent::asks_to_stop);
                return Ok(event.unwrap_or(ChildEvent::End(ended)));
            }
        }
    }

    /// Whether the agent ended longer ago than this.
    fn has_ended_before(&mut self, time: Duration) -> Result<bool> {
        if self.exited.is_none() {
            let status = self
                .process
                .try_wait()
                .map_err(|error| Failure::io(&error, "can't wait for the agent"))?;
            if let Some(status) = status {
                self.exited = Some((Ended::from(status), Instant::now()));
                self.inbox.count_down();
            }
        }
        Ok(self.exited.is_some_and(|(_, at)| at.elapsed() > time))
    }

    /// The next event, if there is one already.
    pub(crate) fn next_now(&mut self) -> Option<ChildEvent> {
        let event = self.inbox.take(Duration::ZERO);
        self.is_signalled |= event.as_ref().is_some_and(ChildEvent::asks_to_stop);
        event
    }

    /// Writes a line to the agent once it reads. When too many wait, the oldest are dropped.
    pub(crate) fn send(&self, line: Vec<u8>) {
        self.outbox.push(line);
    }

    /// A handle that writes to it from another thread.
    pub(crate) fn sender(&self) -> LineSender {
        LineSender {
            outbox: Arc::clone(&self.outbox),
        }
    }

    /// Ends the agent's input once everything before is written.
    pub(crate) fn close_input(&self) {
        self.outbox.close();
    }

    /// Sends the agent a signal, unless it has ended.
    pub(crate) fn signal(&mut self, signal: i32) {
        if self.exited.is_none() {
            send_signal(&self.process, signal);
        }
    }

    /// Waits `patience` for the agent to end by itself, then the same time after SIGTERM; then kills it.
    pub(crate) fn end_within(&mut self, patience: Duration) {
        self.ends = Some(Ends {
            at: Instant::now() + patience,
            patience,
            signal: Some(SIGTERM),
        });
    }

    fn press(&mut self) {
        let Some(ends) = self.ends.as_mut().filter(|ends| Instant::now() >= ends.at) else {
            return;
        };
        ends.at += ends.patience;
        match ends.signal.take() {
            Some(signal) => self.signal(signal),
            None => self.kill(),
        }
    }

    /// Ends the agent without asking it.
    pub(crate) fn kill(&mut self) {
        // It fails when the agent has ended already.
        let _ = self.process.kill();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.outbox.close();
        if self.exited.is_none() && matches!(self.process.try_wait(), Ok(None)) {
            self.kill();
            let _ = self.process.wait();
        }
    }
}

fn cannot_run(program: &OsStr, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::NotFound => {
            let message = format!(
                "can't run {program:?}: there is no such program; check the name, or give its path"
            );
            Failure::not_found(message)
        }
        _ => Failure::io(error, format!("can't run {program:?}")),
    }
}

/// What is written to the agent once it reads.
#[derive(Default)]
struct Outbox {
    state: Mutex<OutboxState>,
    changed: Condvar,
}

#[derive(Default)]
struct OutboxState {
    lines: VecDeque<Vec<u8>>,
    is_closed: bool,
}

impl Outbox {
    fn state(&self) -> MutexGuard<'_, OutboxState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, line: Vec<u8>) {
        let mut state = self.state();
        if state.lines.len() >= UNREAD_MAX {
            state.lines.pop_front();
        }
        state.lines.push_back(line);
        self.changed.notify_all();
    }

    fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_all();
    }

    fn take(&self) -> Option<Vec<u8>> {
        let mut state = self.state();
        loop {
            if let Some(line) = state.lines.pop_front() {
                return Some(line);
            }
            if state.is_closed {
                return None;
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn write_to(mut stdin: ChildStdin, opening: Opening, outbox: &Outbox, inbox: &Inbox) {
    let mut reads = true;
    let opened = opening(&mut |line| {
        let written = stdin.write_all(&line);
        reads &= written.is_ok();
        written
    });
    if let Err(failure) = opened
        && reads
    {
        inbox.push_first(ChildEvent::Failed(failure));
    }
    // Lines for an agent that has closed its input are dropped.
    while let Some(line) = outbox.take() {
        reads = reads && stdin.write_all(&line).and_then(|()| stdin.flush()).is_ok();
    }
}

#[cfg(unix)]
fn watch_signals(inbox: &Arc<Inbox>) -> Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT};
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(|error| Failure::io(&error, "can't watch for signals"))?;
    let inbox = Arc::clone(inbox);
    thread::spawn(move || {
        for signal in signals.forever() {
            inbox.push_first(ChildEvent::Signal(signal));
        }
    });
    Ok(())
}

#[cfg(not(unix))]
fn watch_signals(_: &Arc<Inbox>) -> Result<()> {
    Ok(())
}

#[cfg(unix)]
fn send_signal(process: &process::Child, signal: i32) {
    let pid = i32::try_from(process.id())
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    if let (Some(pid), Some(signal)) = (pid, rustix::process::Signal::from_named_raw(signal)) {
        // It fails when the agent has ended already.
        let _ = rustix::process::kill_process(pid, signal);
    }
}

#[cfg(not(unix))]
fn send_signal(_: &process::Child, _: i32) {}
