//! [`Receivers`]: the side of the process that writes, which looks for requests and executes them.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use runlog_model::{RawJson, RunId, read_json};

use super::{
    mailbox::{Claim, Mailbox, withdraw_where},
    request::{Answer, WriterRequest, now_ms, too_late},
};
use crate::{Error, ErrorKind, Result, backend::Backend};

/// How often the writer looks for requests: a listing of one folder.
const CLAIM_INTERVAL: Duration = Duration::from_millis(200);

/// Executes the requests about runs that it works on: an orchestrator.
pub(crate) trait Receiver: Send + Sync {
    /// Whether it knows the run as one that is under way.
    fn is_at_work_on(&self, run: RunId) -> bool;

    /// Whether an agent of its own works on the run, and takes commands.
    fn has_agent_of(&self, run: RunId) -> bool;

    /// Executes a request in a task of its own, and answers it.
    fn receive(self: Arc<Self>, request: WriterRequest, reply: Reply);
}

/// Leaves commands for runs that no orchestrator of this process works on: a handle of the store.
pub(crate) trait CommandTaker: Send + Sync {
    /// Leaves a command, and waits until it is durable.
    fn leave(self: Arc<Self>, run: RunId, command: &RawJson) -> Result<()>;
}

/// Who executes requests in this process, if it is the one that writes.
#[derive(Default)]
pub(crate) struct Receivers {
    state: Mutex<State>,
    /// Another process may be the one that writes now.
    is_closed: AtomicBool,
}

#[derive(Default)]
struct State {
    is_started: bool,
    orchestrators: Vec<Weak<dyn Receiver>>,
    /// For commands that no orchestrator gets: the handles of the store that flows were opened with, which aren't kept open.
    handles: Vec<Weak<dyn CommandTaker>>,
}

/// Answers one request. Dropped, it tells that there is no answer.
pub(crate) struct Reply {
    mailbox: Mailbox,
    claim: Claim,
    is_sent: bool,
}

impl Reply {
    pub(crate) fn send(mut self, done: Result<()>) {
        self.put(done);
    }

    fn put(&mut self, done: Result<()>) {
        self.is_sent = true;
        // Who asked is told that the outcome isn't known where this fails.
        let _ = self.mailbox.answer(&self.claim, &Answer::to(done));
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.is_sent {
            self.put(Err(Error::new(
                ErrorKind::OutcomeUnknown,
                "the process that writes has begun what it was asked, and then shut down",
            )));
        }
    }
}

impl Receivers {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("nobody panics while the receivers are locked")
    }

    /// Begins to look for requests, once, if the store is one that this process writes in a folder.
    pub(crate) fn start(self: &Arc<Self>, backend: &dyn Backend, handle: Weak<dyn CommandTaker>) {
        if backend.is_read_only() {
            return;
        }
        let mut state = self.state();
        if !state.handles.iter().any(|known| known.ptr_eq(&handle)) {
            state.handles.retain(|known| known.strong_count() > 0);
            state.handles.push(handle);
        }
        if state.is_started {
            return;
        }
        let Some(folder) = backend.maintenance().folder() else {
            return;
        };
        let Ok(mailbox) = Mailbox::of(&folder) else {
            return;
        };
        let receivers = Arc::downgrade(self);
        let thread = std::thread::Builder::new().name("runlog-requests".to_owned());
        // Without a thread who asks is told that nobody took the request.
        state.is_started = thread.spawn(move || serve(&receivers, &mailbox)).is_ok();
    }

    /// Adds an orchestrator; it is forgotten when it is dropped.
    pub(crate) fn add(&self, orchestrator: Weak<dyn Receiver>) {
        let orchestrators = &mut self.state().orchestrators;
        orchestrators.retain(|one| one.strong_count() > 0);
        orchestrators.push(orchestrator);
    }

    /// Stops looking for requests: they are another process's now.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
    }

    fn receive(&self, request: &[u8], reply: Reply) {
        let read = std::str::from_utf8(request).map_err(|error| error.to_string());
        let request: WriterRequest = match read.and_then(read_json) {
            Ok(request) => request,
            Err(error) => {
                return reply.send(Err(Error::invalid(format!(
                    "the request can't be read: {error}"
                ))));
            }
        };
        if request.expires_at_ms < now_ms() {
            return reply.send(Err(too_late()));
        }
        let (orchestrators, handle) = {
            let state = self.state();
            let orchestrators = state.orchestrators.iter().filter_map(Weak::upgrade);
            let mut handles = state.handles.iter().rev();
            (
                orchestrators.collect::<Vec<_>>(),
                handles.find_map(Weak::upgrade),
            )
        };
        let run = request.run_id;
        let is_sent = request.command.is_some();
        let at_work = orchestrators.iter().find(|one| match is_sent {
            // Nobody takes those of a run that is recorded beside its orchestrator, unless it has a flow.
            true => one.has_agent_of(run),
            false => one.is_at_work_on(run),
        });
        match (at_work, &request.command, orchestrators.last()) {
            (None, Some(command), _) => {
                let left = handle.map(|handle| handle.leave(run, command));
                reply.send(left.unwrap_or_else(|| Err(not_under_way(run))));
            }
            (Some(orchestrator), ..) | (None, None, Some(orchestrator)) => {
                Arc::clone(orchestrator).receive(request, reply);
            }
            (None, None, None) => reply.send(Err(Error::new(
                ErrorKind::Unsupported,
                "the process that writes the store has no orchestrator, so it can't stop runs",
            ))),
        }
    }
}

fn not_under_way(run: RunId) -> Error {
    Error::new(
        ErrorKind::WrongStatus,
        format!("run {run} isn't under way in the process that writes the store"),
    )
}

/// Removes what processes that have ended left in the folder of requests: a process that opens the store for writing does
/// so at once, whether or not it takes requests.
pub(crate) fn clean_requests(backend: &dyn Backend) {
    if let Some(folder) = backend.maintenance().folder() {
        Mailbox::clean(&folder, now_ms(), &Answer::to(Err(too_late())));
    }
}

/// Withdraws what is asked about these runs, which nobody is at work in and whose content was erased: a request may repeat it, and where
/// nobody takes requests it would stay in the folder.
pub(crate) fn withdraw_requests(backend: &dyn Backend, runs: &[RunId]) {
    let Some(folder) = backend.maintenance().folder() else {
        return;
    };
    withdraw_where(&folder, |text| {
        let asked: WriterRequest = serde_json::from_slice(text).ok()?;
        let is_erased = runs.contains(&asked.run_id);
        is_erased.then(|| Answer::to(Err(not_under_way(asked.run_id))))
    });
}

/// Looks for requests until the store is closed or dropped.
#[expect(
    clippy::disallowed_methods,
    reason = "a folder that other processes write to is looked at in real time, as nothing else here"
)]
fn serve(receivers: &Weak<Receivers>, mailbox: &Mailbox) {
    loop {
        std::thread::sleep(CLAIM_INTERVAL);
        let Some(receivers) = receivers.upgrade() else {
            return;
        };
        if receivers.is_closed.load(Ordering::Acquire) {
            return;
        }
        for (claim, request) in mailbox.claim(now_ms()) {
            // Another process may have opened the store meanwhile, and can execute it.
            if receivers.is_closed.load(Ordering::Acquire) {
                mailbox.give_back(&claim);
                continue;
            }
            let reply = Reply {
                mailbox: mailbox.clone(),
                claim,
                is_sent: false,
            };
            match request {
                Ok(request) => receivers.receive(&request, reply),
                Err(error) => reply.send(Err(Error::from_io(error, "reading the request"))),
            }
        }
    }
}
