//! Recording a command for a flow, to be read by the process that runs it.

use runlog::{
    RawJson, RunId,
    blocking::{FlowRun, Store},
    flows::RuntimeCommand,
};

use crate::failure::{Exit, Failure, Result};

/// Records a command, if the flow can accept it; returns the pending ones.
pub(crate) fn record(store: &Store, flow: RunId, command: &RawJson) -> Result<Vec<RuntimeCommand>> {
    check(store, flow)?;
    FlowRun::attach(store, flow)?
        .command(command)
        .map_err(Failure::of_argument)?;
    Ok(FlowRun::waiting(store, flow)?)
}

/// An error for a flow whose own status is final, because no process would read the command. The status of its run is
/// checked by the flow itself.
fn check(store: &Store, id: RunId) -> Result<()> {
    let Some(flow) = store.flows().get(id)? else {
        return Err(Failure::not_found(format!("there is no flow {id}")));
    };
    if flow.is_over && flow.run_status.is_none() {
        let message = format!(
            "the flow {id} is over ({}), and takes no command any more",
            flow.status
        );
        return Err(Failure::new(Exit::Conflict, "wrong_status", message));
    }
    Ok(())
}
