//! [`Flows`]: which flows there are; [`FlowsReader`]: the flows catalog's fold over a backend, and the flows that this
//! process has a handle of.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard},
};

use runlog_log::{Expected, Op, StreamId};
use runlog_model::{
    EncodedEvent, FlowCatalog, FlowCatalogEvent, FlowSummary, ListFlows, RunCatalog, RunId,
    RunStatus,
};

use crate::{
    Error, Result, Store,
    backend::Backend,
    journal::{
        cursor::{Cursor, Kind},
        projection::{Folded, Projection, Streams},
    },
    runs::{Paged, check_limit},
};

/// The stream of every store that says which flows there are, and their statuses.
pub const FLOWS_STREAM: StreamId = StreamId::from_bytes(*b"runlog:flowlist1");
/// The parts of the catalog's checkpoints; a snapshot of [`FLOWS_STREAM`] says which of them count.
pub(crate) const PARTS_STREAM: StreamId = StreamId::from_bytes(*b"runlog:flowpart1");

/// The flows of a store. [`blocking::Flows`](crate::blocking::Flows) is the same for callers that wait.
///
/// A flow is either that of a [run](crate::runs::Runs), made with the run's id, or has an id of its own. The flow of a run
/// lives and ends with it: it is recorded while the run is `running`, is resumed by
/// [resuming the run](crate::runs::Runs::resume), which carries its state over to the run that goes on, and takes
/// nothing any more once the run is over. A flow with an id of its own is resumed by
/// [`FlowRun::resume`](crate::flows::FlowRun::resume).
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

/// Which flows there are.
pub(crate) struct FlowsReader {
    projection: Projection<FlowCatalog>,
    shared: Arc<FlowsShared>,
}

/// What all handles of a store have together, those that wait and those that await.
#[derive(Default)]
pub(crate) struct FlowsShared {
    catalog: Arc<Folded<FlowCatalog>>,
    /// The flows that somebody in this process has a handle of, and how many.
    live: Mutex<HashMap<RunId, usize>>,
}

impl FlowsShared {
    /// Has the flow count as one that somebody is at work on, until what this gives is dropped.
    pub(super) fn live(self: &Arc<Self>, id: RunId) -> LiveGuard {
        *self.live_flows().entry(id).or_default() += 1;
        LiveGuard {
            shared: Arc::clone(self),
            id,
        }
    }

    fn is_live(&self, id: RunId) -> bool {
        self.live_flows().contains_key(&id)
    }

    fn live_flows(&self) -> MutexGuard<'_, HashMap<RunId, usize>> {
        self.live
            .lock()
            .expect("the list of live flows was left broken by a panic")
    }
}

/// That somebody in this process has a handle of a flow.
pub(super) struct LiveGuard {
    shared: Arc<FlowsShared>,
    id: RunId,
}

impl Drop for LiveGuard {
    fn drop(&mut self) {
        let mut live = self.shared.live_flows();
        if let Some(handles) = live.get_mut(&self.id) {
            *handles -= 1;
            if *handles == 0 {
                live.remove(&self.id);
            }
        }
    }
}

impl FlowsReader {
    pub(crate) fn new(backend: Arc<dyn Backend>, shared: Arc<FlowsShared>) -> Self {
        let streams = Streams {
            events: FLOWS_STREAM,
            parts: PARTS_STREAM,
            event: "flows event",
        };
        Self {
            projection: Projection::new(backend, streams, Arc::clone(&shared.catalog)),
            shared,
        }
    }

    pub(super) fn shared(&self) -> &Arc<FlowsShared> {
        &self.shared
    }

    /// Takes in what was just written, and writes the catalog down when it is time.
    pub(crate) async fn after_commit(&self) {
        self.projection.after_commit().await;
    }
}

impl Store {
    /// The flows of this store.
    pub fn flows(&self) -> Flows {
        Flows {
            store: self.clone(),
        }
    }

    /// What the catalog of flows is told when a snapshot of this status is saved; `None` where it says so already.
    pub(crate) async fn listed_flow(
        &self,
        run: RunId,
        status: &str,
    ) -> Result<Option<EncodedEvent>> {
        let listed = self
            .shared
            .flows
            .projection
            .read(|flows| flows.flow(run))
            .await?;
        if listed.as_ref().is_some_and(|flow| flow.status == status) {
            return Ok(None);
        }
        let known = self
            .runs()
            .index()
            .read(|runs| runs.run(run).map(|placed| placed.run))
            .await?;
        let event = FlowCatalogEvent {
            run_id: run,
            status: status.to_owned(),
            is_of_run: known.is_some(),
            parent_run_id: known.as_ref().and_then(|run| run.parent_run_id),
            // A flow that was listed already keeps what it was begun with.
            resumed_from: None,
            at_ms: self.backend().now_ms(),
        };
        Ok(Some(event.encode()?))
    }
}

/// The step of a batch that tells the catalog of flows.
pub(crate) fn listing(event: &EncodedEvent) -> Op<'_> {
    Op::Append {
        stream: FLOWS_STREAM,
        expected: Expected::Any,
        records: vec![event.record()],
    }
}

impl Flows {
    /// One page of flows, newest first: those of runs, and those with ids of their own. It costs the page, however many
    /// flows there are.
    ///
    /// After a kill, the next opening for writing has paused the runs that were left running, and with
    /// [`resumable`](ListFlows::resumable) this lists what is to be resumed. In a store that is open for reading only,
    /// flows are among them that the process which writes the store may be at work on: their
    /// [`is_live`](FlowSummary::is_live) is `None`.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a limit of 0, or a cursor of another list.
    pub async fn list(&self, options: &ListFlows) -> Result<Paged<FlowSummary>> {
        check_limit(options.limit)?;
        let filter = (&options.status, options.parent_run_id, options.resumable);
        let cursor = Cursor::read(options.cursor.as_deref(), Kind::Flows, &filter)?;
        let before = cursor.map(|cursor| u32::try_from(cursor.first)).transpose();
        let before = before.map_err(|_| Error::invalid("the cursor names no place of the list"))?;
        self.store.shared.flows.projection.catch_up().await?;
        let page = self
            .store
            .runs()
            .index()
            .read(|runs| {
                self.with_state(|flows| flows.list(options, before, |flow| self.told(runs, flow)))
            })
            .await?;
        let next = page.next.map(|place| {
            Cursor {
                first: place.into(),
                second: 0,
            }
            .encode(Kind::Flows, &filter)
        });
        Ok(Paged {
            items: page.flows,
            next,
        })
    }

    /// The flow of a run, or with this id of its own; `None` where there is none.
    ///
    /// # Errors
    /// Those of reading the store.
    pub async fn get(&self, id: RunId) -> Result<Option<FlowSummary>> {
        self.store.shared.flows.projection.catch_up().await?;
        let get = |runs: &RunCatalog| {
            self.with_state(|flows| flows.flow(id))
                .map(|flow| self.told(runs, flow))
        };
        self.store.runs().index().read(get).await
    }

    fn with_state<T>(&self, look: impl FnOnce(&FlowCatalog) -> T) -> T {
        self.store.shared.flows.projection.with_state(look)
    }

    /// A flow with what its run says of it, and with who is at work on it.
    fn told(&self, runs: &RunCatalog, flow: FlowSummary) -> FlowSummary {
        let run_status = runs.run(flow.run_id).map(|placed| placed.run.status);
        let is_over = flow.is_over || run_status.is_some_and(RunStatus::is_final);
        let is_working = || {
            let is_known = !self.store.backend().is_read_only();
            let of_run = || self.store.runs().index().shared().is_live(flow.run_id);
            is_known.then(|| self.store.shared.flows.shared.is_live(flow.run_id) || of_run())
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
