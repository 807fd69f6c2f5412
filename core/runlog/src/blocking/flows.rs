//! [`Flows`]: the blocking [`crate::flows::Flows`].

use runlog_model::{FlowSummary, ListFlows, RawJson, RunId, RuntimeCommand};

use crate::{Result, pages::Page};

/// The flows of a store: listing them, and finding those to resume. [`crate::flows::Flows`] is its async counterpart,
/// and explains how flows and runs relate.
///
/// ```
/// use runlog::{
///     blocking::{FlowRun, Store},
///     flows::ListFlows,
/// };
///
/// let store = Store::in_memory();
/// let flow = FlowRun::create(&store, None)?;
/// let page = store.flows().list(&ListFlows::default())?;
/// assert_eq!((page.items[0].run_id, page.items[0].status.as_str()), (flow.run_id(), "running"));
/// # Ok::<(), runlog::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Flows {
    inner: crate::flows::Flows,
}

waiting! {
    Flows: crate::flows::Flows;

    /// One page of flows, newest first: those of runs, and those with ids of their own. The cost is that of the page,
    /// however many flows there are.
    fn list(&self, options: &ListFlows) -> Result<Page<FlowSummary>>;

    /// The flow of the run with this id, or the flow with this id of its own; `None` if there is none.
    fn get(&self, id: RunId) -> Result<Option<FlowSummary>>;

    /// Leaves a command for a flow, for who sends one and doesn't drive the flow: it is recorded, and waits for the
    /// handle that drives it or the process that resumes it. Durable when it returns; what waits then is returned.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such flow;
    /// [`WrongStatus`](crate::ErrorKind::WrongStatus) where nobody would ever take the command: the flow is over, or its run
    /// isn't running; else as [`FlowRun::command`](crate::flows::FlowRun::command).
    fn command(&self, id: RunId, command: &RawJson) -> Result<Vec<RuntimeCommand>>;
}
