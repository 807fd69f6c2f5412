//! Leaving a command for a flow that another handle, or another process, works on.

#[cfg(not(target_family = "wasm"))]
use std::sync::{Arc, Weak};

use runlog_model::{RawJson, RunId, RuntimeCommand};

use super::{list::Flows, run::FlowRun};
#[cfg(not(target_family = "wasm"))]
use crate::kernel::{store::Shared, writer_requests::CommandTaker};
use crate::{Error, ErrorKind, Result, Store};

impl Flows {
    /// Leaves a command for a flow, for who sends one and doesn't drive the flow: it is recorded, and waits for the
    /// handle that drives it or the process that resumes it. Durable when it returns; what waits then is returned.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) when there is no such flow; [`WrongStatus`](ErrorKind::WrongStatus) where nobody
    /// would ever take the command: the flow is over, or its run isn't running; else as [`FlowRun::command`].
    pub async fn command(&self, id: RunId, command: &RawJson) -> Result<Vec<RuntimeCommand>> {
        let Some(flow) = self.get(id).await? else {
            return Err(self.no_flow(id).await?);
        };
        // The status of its run is checked by the flow itself.
        if flow.is_over && flow.run_status.is_none() {
            return Err(Error::new(
                ErrorKind::WrongStatus,
                format!(
                    "the flow {id} is over ({}), and takes no command any more",
                    flow.status
                ),
            ));
        }
        FlowRun::attach(self.store(), id)
            .await?
            .command(command)
            .await?;
        FlowRun::waiting(self.store(), id).await
    }

    async fn no_flow(&self, id: RunId) -> Result<Error> {
        Ok(match self.store().runs().get(id).await? {
            None => Error::not_found(format!("there is no flow {id}")),
            Some(run) => Error::new(
                ErrorKind::WrongStatus,
                format!(
                    "run {id} is {} and has no flow; a command reaches a run that is under way in an orchestrator",
                    run.status
                ),
            ),
        })
    }
}

impl Store {
    /// From now on this process takes the requests of others, if it is the one that writes the store.
    #[cfg(not(target_family = "wasm"))]
    pub(crate) fn receive_requests(&self) {
        let shared: Weak<Shared> = Arc::downgrade(&self.shared);
        let receivers = &self.shared.folds.receivers;
        receivers.start(&**self.backend(), shared);
    }

    /// No other process reaches this one.
    #[cfg(target_family = "wasm")]
    #[expect(clippy::unused_self, reason = "elsewhere it is used")]
    pub(crate) fn receive_requests(&self) {}
}

#[cfg(not(target_family = "wasm"))]
impl CommandTaker for Shared {
    fn leave(self: Arc<Self>, run: RunId, command: &RawJson) -> Result<()> {
        let flows = Store { shared: self }.flows();
        pollster::block_on(flows.command(run, command)).map(drop)
    }
}
