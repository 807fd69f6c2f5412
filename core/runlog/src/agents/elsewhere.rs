//! Stopping and sending to runs of another process: this side asks the process that writes, that side executes it.

use std::sync::Arc;

use runlog_model::{RunId, Stop};

use super::{inner::Inner, orchestrator::Orchestrator};
use crate::{
    Error, ErrorKind, Result,
    kernel::writer_requests::{self, Receiver, Reply, WriterCall, WriterRequest},
};

impl Inner {
    /// Has the process that writes execute a request, if that isn't this one; `None` if it is.
    pub(super) async fn elsewhere(&self, request: WriterRequest) -> Option<Result<()>> {
        if !self.store.backend().is_read_only() {
            return None;
        }
        let wait = self.options.answer_timeout;
        let cancelled = (request.call == WriterCall::Cancel).then_some(request.run_id);
        let asked = writer_requests::ask(&**self.store.backend(), request, wait, |time| {
            self.sleep(time)
        });
        Some(match (asked.await, cancelled) {
            // Nobody has to be there for what has ended already.
            (Err(error), Some(run))
                if error.kind() == ErrorKind::Locked && self.has_ended(run).await =>
            {
                Ok(())
            }
            (answer, _) => answer,
        })
    }

    async fn has_ended(&self, run: RunId) -> bool {
        let run = self.store.runs().get(run).await;
        run.is_ok_and(|run| run.is_some_and(|run| run.status.is_final()))
    }
}

impl Receiver for Inner {
    fn is_at_work_on(&self, run: RunId) -> bool {
        self.live(run).is_some()
    }

    fn has_agent_of(&self, run: RunId) -> bool {
        self.live(run).is_some_and(|live| !live.is_external)
    }

    fn receive(self: Arc<Self>, request: WriterRequest, reply: Reply) {
        let orchestrator = Orchestrator {
            inner: Arc::clone(&self),
        };
        self.spawn_task(async move {
            reply.send(execute(&orchestrator, request).await);
        });
    }
}

async fn execute(orchestrator: &Orchestrator, request: WriterRequest) -> Result<()> {
    let run = request.run_id;
    match (request.call, request.command, request.stop) {
        (WriterCall::Send, Some(command), _) => orchestrator.send(run, &command).await,
        (WriterCall::Cancel, ..) => orchestrator.cancel(run).await,
        (WriterCall::Pause, _, Some((kind, reason))) => {
            orchestrator.pause(run, Stop::new(kind, reason)).await
        }
        (call, ..) => Err(Error::invalid(format!(
            "the request {call:?} lacks what it is about"
        ))),
    }
}
