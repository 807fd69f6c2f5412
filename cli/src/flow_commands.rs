//! Leaving a command for a flow, for whoever runs it.

use runlog::{
    RawJson, RunId,
    blocking::{FlowRun, Store},
    flows::RuntimeCommand,
};

use crate::{
    failure::{Exit, Failure, Result},
    find,
};

/// Records a command, where the flow will take it; gives those that wait then.
pub(crate) fn record(store: &Store, flow: RunId, command: &RawJson) -> Result<Vec<RuntimeCommand>> {
    check(store, flow)?;
    FlowRun::attach(store, flow)?
        .command(command)
        .map_err(Failure::of_argument)?;
    Ok(FlowRun::waiting(store, flow)?)
}

/// Refuses a flow whose own status says that it is over: nobody would take the command. What its run says of it is told by
/// the flow itself.
fn check(store: &Store, id: RunId) -> Result<()> {
    let Some(flow) = store.flows().get(id)? else {
        return Err(find::no_flow(&id.to_string()));
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
