//! [`Flows`]: listing the flows of a store.

use std::fmt;

use runlog_model::{FlowCatalog, FlowSummary, ListFlows, Page, RunCatalog, RunId, RunStatus};

use crate::{
    Error, Result, Store,
    journal::{
        cursor::{Cursor, Kind},
        page::check_limit,
    },
    kernel::store::AtWork,
};

/// The flows of a store. [`blocking::Flows`](crate::blocking::Flows) is its blocking counterpart.
///
/// A flow either belongs to a [run](crate::runs::Runs) and is created with the run's id, or has an id of its own. The
/// flow of a run lives and ends with it: it is recorded while the run is `running`, is resumed by [resuming the
/// run](crate::runs::Runs::resume), which carries its state over to the new run, and can't be written to once the run
/// has ended. A flow with an id of its own is resumed by [`FlowRun::resume`](crate::flows::FlowRun::resume).
///
/// ```
/// use runlog::{
///     Store,
///     flows::{FlowRun, ListFlows},
/// };
///
/// # pollster::block_on(async {
/// let store = Store::in_memory();
/// let flow = FlowRun::create(&store, None).await?;
/// let (id, resumable) = (flow.run_id(), ListFlows { resumable: true, ..ListFlows::default() });
/// assert!(store.flows().list(&resumable).await?.items.is_empty(), "this handle is at work on it");
/// drop(flow);
/// assert_eq!(store.flows().list(&resumable).await?.items[0].run_id, id);
/// # Ok::<(), runlog::Error>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct Flows {
    store: Store,
}

impl Store {
    /// The flows of this store.
    pub fn flows(&self) -> Flows {
        Flows {
            store: self.clone(),
        }
    }
}

impl Flows {
    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// One page of flows, newest first: those of runs, and those with ids of their own. The cost is that of the page,
    /// however many flows there are.
    ///
    /// After a kill, the next opening for writing pauses the runs that were left running; with
    /// [`resumable`](ListFlows::resumable) this then lists what is to be resumed. In a store that is open for reading
    /// only, the list includes flows that the writing process, where there is one, may be running: their
    /// [`is_live`](FlowSummary::is_live) is `None`.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a limit of 0, or a cursor of another list.
    pub async fn list(&self, options: &ListFlows) -> Result<Page<FlowSummary>> {
        check_limit(options.limit)?;
        let filter = (&options.status, options.parent_run_id, options.resumable);
        let cursor = Cursor::read(options.cursor.as_deref(), Kind::Flows, &filter)?;
        let before = cursor.map(|cursor| u32::try_from(cursor.first)).transpose();
        let before = before.map_err(|_| Error::invalid("the cursor names no place of the list"))?;
        self.store.shared.flows.projection.catch_up().await?;
        let at_work = self.store.at_work();
        let page = self
            .store
            .runs()
            .index()
            .read(|runs| {
                self.with_state(|flows| {
                    flows.list(options, before, |flow| self.with_run(runs, flow, at_work))
                })
            })
            .await?;
        let next = page.next.map(|place| {
            Cursor {
                first: place.into(),
                ..Cursor::default()
            }
            .encode(Kind::Flows, &filter)
        });
        Ok(Page {
            items: page.items,
            next,
        })
    }

    /// The flow of the run with this id, or the flow with this id of its own; `None` if there is none.
    ///
    /// # Errors
    /// Those of reading the store.
    pub async fn get(&self, id: RunId) -> Result<Option<FlowSummary>> {
        self.store.shared.flows.projection.catch_up().await?;
        let at_work = self.store.at_work();
        let get = |runs: &RunCatalog| {
            self.with_state(|flows| flows.flow(id))
                .map(|flow| self.with_run(runs, flow, at_work))
        };
        self.store.runs().index().read(get).await
    }

    fn with_state<T>(&self, look: impl FnOnce(&FlowCatalog) -> T) -> T {
        self.store.shared.flows.projection.with_state(look)
    }

    /// A flow's summary, with the status of its run and whether this process is running it.
    fn with_run(&self, runs: &RunCatalog, flow: FlowSummary, at_work: AtWork) -> FlowSummary {
        let run_status = runs.run(flow.run_id).map(|placed| placed.run.status);
        let is_over = flow.is_over || run_status.is_some_and(RunStatus::is_final);
        let is_working = || {
            let of_run = || self.store.runs().index().shared().live().has(flow.run_id);
            at_work.is(|| self.store.shared.flows.shared.live().has(flow.run_id) || of_run())
        };
        let is_live = if is_over || run_status == Some(RunStatus::Paused) {
            Some(false)
        } else {
            is_working()
        };
        FlowSummary {
            run_status,
            is_over,
            is_live,
            ..flow
        }
    }
}

impl fmt::Debug for Flows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flows").finish_non_exhaustive()
    }
}
