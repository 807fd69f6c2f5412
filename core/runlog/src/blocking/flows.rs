//! [`Flows`]: [`crate::flows::Flows`] for callers that wait.

use runlog_model::{FlowSummary, ListFlows, RunId};

use crate::{Result, runs::Paged};

/// The flows of a store: which there are, and what is to be resumed. [`crate::flows::Flows`] is the same for callers that await, and
/// tells how a flow and a run have to do with each other.
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

    /// One page of flows, newest first: those of runs, and those with ids of their own. It costs the page, however
    /// many flows there are.
    fn list(&self, options: &ListFlows) -> Result<Paged<FlowSummary>>;

    /// The flow of a run, or with this id of its own; `None` where there is none.
    fn get(&self, id: RunId) -> Result<Option<FlowSummary>>;
}
