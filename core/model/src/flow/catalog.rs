//! [`FlowCatalog`]: a summary of every flow of a store, to list one page of them at the cost of that page.
//!
//! A flow is listed once it has a snapshot, that of its beginning included, and again whenever the status of its
//! snapshot changes. Flows that aren't over, those of a status, and those of the runs that a run spawned are a set each.

mod checkpoint;

use std::collections::{BTreeSet, HashMap};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    Page, RunId, RunStatus,
    checkpoint::Progress,
    encoding::{Event, events},
    table::{Chunked, PlaceIndex},
};

/// Marks the absence of a place.
const NONE: u32 = u32::MAX;

/// The values of a flow's [status](crate::RunSnapshot::status) that are final. A flow of any other status counts as
/// unfinished, a misspelt one too, so that no flow to be resumed is missed.
pub const FLOW_FINAL_STATUSES: [&str; 6] = [
    "completed",
    "complete",
    "done",
    "failed",
    "cancelled",
    "aborted",
];

/// One entry of the flows catalog, written together with the snapshot it describes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FlowCatalogEvent {
    /// The flow's run.
    pub run_id: RunId,
    /// The status of the snapshot.
    pub status: String,
    /// Whether the flow is that of a [run](crate::Run); else it has an id of its own.
    #[serde(default)]
    pub is_of_run: bool,
    /// The run that spawned its run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<RunId>,
    /// The run whose flow it resumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed_from: Option<RunId>,
    /// When: milliseconds since 1970-01-01 UTC.
    pub at_ms: u64,
}

events!(LISTED_FLOW => FlowCatalogEvent);

impl Event for FlowCatalogEvent {
    const NAME: &'static str = "an event of the catalog of flows";
}

/// A summary of a flow.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlowSummary {
    /// Its id: that of its run, where it is the flow of a run.
    pub run_id: RunId,
    /// Its own status, as its latest snapshot says.
    pub status: String,
    /// The status of its run; `None` for a flow without a run.
    pub run_status: Option<RunStatus>,
    /// The run that spawned its run.
    pub parent_run_id: Option<RunId>,
    /// The run whose flow it resumes.
    pub resumed_from: Option<RunId>,
    /// The run whose flow resumes it.
    pub resumed_by: Option<RunId>,
    /// Whether it has ended: by its status, by that of its run, or because another flow resumes it.
    pub is_over: bool,
    /// Whether a process is working on it. `None` if that isn't known: in a store opened read-only, which doesn't know
    /// the state of the writing process. Where it is known that there is none, `false`.
    pub is_live: Option<bool>,
    /// When it was begun: milliseconds since 1970-01-01 UTC.
    pub created_at_ms: u64,
    /// When its status was last saved as another one: milliseconds since 1970-01-01 UTC.
    pub updated_at_ms: u64,
}

/// Which flows to list, and how many. A filter that is left out lets every flow pass.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ListFlows {
    /// Only flows of this status, as their snapshots say it.
    pub status: Option<String>,
    /// Only flows of runs that this run spawned.
    pub parent_run_id: Option<RunId>,
    /// Only flows to be resumed: those that haven't ended, and on which no process is known to be working.
    pub resumable: bool,
    /// The maximum number of flows.
    pub limit: usize,
    /// Where to continue: the cursor from the previous page.
    pub cursor: Option<String>,
}

impl Default for ListFlows {
    fn default() -> Self {
        Self {
            status: None,
            parent_run_id: None,
            resumable: false,
            limit: 50,
            cursor: None,
        }
    }
}

/// The summaries of all flows, folded from the catalog's events. A flow's place is its rank in the order of creation,
/// and stays for ever.
///
/// The statuses of runs and whether a process is working on a flow aren't kept here: the caller of [`list`](Self::list)
/// adds them.
///
/// ```
/// use runlog_model::{Checkpointed, FlowCatalog, FlowCatalogEvent, ListFlows};
///
/// # let json = r#"{"run_id":"0198c7e0-0000-7000-8000-000000000001","status":"running","at_ms":1000}"#;
/// # let begun: FlowCatalogEvent = serde_json::from_str(json).unwrap();
/// let mut catalog = FlowCatalog::new();
/// catalog.apply(1, begun.clone())?;
/// let resumable = ListFlows { resumable: true, ..ListFlows::default() };
/// let nobody_at_work = |flow| flow;
/// assert_eq!(catalog.list(&resumable, None, nobody_at_work).items[0].run_id, begun.run_id);
/// catalog.apply(2, FlowCatalogEvent { status: "completed".into(), ..begun.clone() })?;
/// assert!(catalog.list(&resumable, None, nobody_at_work).items.is_empty());
/// # Ok::<(), runlog_model::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct FlowCatalog {
    entries: Chunked<Entry>,
    by_id: PlaceIndex,
    /// Each status that flows have had, with the flows that have it.
    statuses: Vec<(Box<str>, BTreeSet<u32>)>,
    numbers: HashMap<Box<str>, u32>,
    by_parent: HashMap<Uuid, Vec<u32>>,
    /// The flows whose own status isn't final, and which no other flow resumes.
    open: BTreeSet<u32>,
    progress: Progress,
}

/// One flow. Times in milliseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug)]
struct Entry {
    id: Uuid,
    created_at_ms: u64,
    updated_at_ms: u64,
    status: u32,
    resumed_from: u32,
    resumed_by: u32,
    parent: Option<Uuid>,
    is_of_run: bool,
}

impl FlowCatalog {
    /// An empty catalog.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many flows there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.len() == 0
    }

    fn insert(&mut self, event: &FlowCatalogEvent) -> Result<u32, String> {
        let resumed_from = event
            .resumed_from
            .and_then(|id| self.place(id))
            .unwrap_or(NONE);
        let status = self.number(&event.status);
        self.add(Entry {
            id: event.run_id.0,
            created_at_ms: event.at_ms,
            updated_at_ms: event.at_ms,
            status,
            resumed_from,
            resumed_by: NONE,
            parent: event.parent_run_id.map(|parent| parent.0),
            is_of_run: event.is_of_run,
        })
    }

    fn add(&mut self, entry: Entry) -> Result<u32, String> {
        let place = self.entries.push(entry).ok_or("there are too many flows")?;
        self.by_id.insert(entry.id.as_u128(), place);
        if let Some(parent) = entry.parent {
            self.by_parent.entry(parent).or_default().push(place);
        }
        if let Some(before) = self.entries.get_mut(entry.resumed_from) {
            before.resumed_by = place;
            self.open.remove(&entry.resumed_from);
        }
        self.enlist(place, entry.status);
        Ok(place)
    }

    fn change(&mut self, place: u32, status: u32, at_ms: u64) {
        let Some(entry) = self.entries.get_mut(place) else {
            return;
        };
        let before = std::mem::replace(&mut entry.status, status);
        entry.updated_at_ms = at_ms;
        if let Some((_, flows)) = self.statuses.get_mut(before as usize) {
            flows.remove(&place);
        }
        self.enlist(place, status);
    }

    /// Adds a flow to the sets of its status.
    fn enlist(&mut self, place: u32, status: u32) {
        let Some((name, flows)) = self.statuses.get_mut(status as usize) else {
            return;
        };
        flows.insert(place);
        let is_superseded = self
            .entries
            .get(place)
            .is_some_and(|entry| entry.resumed_by != NONE);
        if is_superseded || FLOW_FINAL_STATUSES.contains(&&**name) {
            self.open.remove(&place);
        } else {
            self.open.insert(place);
        }
    }

    fn number(&mut self, status: &str) -> u32 {
        if let Some(number) = self.numbers.get(status) {
            return *number;
        }
        let number = u32::try_from(self.statuses.len()).expect("there are fewer statuses than 2³²");
        self.numbers.insert(status.into(), number);
        self.statuses.push((status.into(), BTreeSet::new()));
        number
    }

    fn place(&self, id: RunId) -> Option<u32> {
        let is_it = |place| {
            self.entries
                .get(place)
                .is_some_and(|entry| entry.id == id.0)
        };
        self.by_id.find(id.0.as_u128(), is_it)
    }

    /// The flow with this id, as far as the catalog knows it.
    pub fn flow(&self, id: RunId) -> Option<FlowSummary> {
        self.summary(self.place(id)?)
    }

    /// Whether the flow is that of a run, where it is listed.
    pub fn is_of_run(&self, id: RunId) -> Option<bool> {
        Some(self.entries.get(self.place(id)?)?.is_of_run)
    }

    /// One page of flows, newest first, of those that came before a place. `tell` adds to each what the catalog doesn't
    /// know: the status of its run, and whether a process is working on it.
    ///
    /// It costs the flows of the page, and those that pass one of the filters and not another.
    pub fn list(
        &self,
        filter: &ListFlows,
        before: Option<u32>,
        tell: impl Fn(FlowSummary) -> FlowSummary,
    ) -> Page<FlowSummary, u32> {
        let mut page = Page::only(Vec::new());
        let mut last = None;
        for place in self.walk(filter, before.unwrap_or(NONE)) {
            let Some(flow) = self
                .summary(place)
                .map(&tell)
                .filter(|flow| admits(filter, flow))
            else {
                continue;
            };
            if page.items.len() == filter.limit {
                page.next = last;
                break;
            }
            page.items.push(flow);
            last = Some(place);
        }
        page
    }

    /// The flows that the narrowest of the filters admits.
    fn walk(&self, filter: &ListFlows, before: u32) -> Box<dyn Iterator<Item = u32> + '_> {
        let none = const { &BTreeSet::new() };
        let of_status = filter.status.as_deref().map(|status| {
            let number = self
                .numbers
                .get(status)
                .and_then(|number| self.statuses.get(*number as usize));
            number.map_or(none, |(_, flows)| flows)
        });
        let open = filter.resumable.then_some(&self.open);
        let set = of_status
            .into_iter()
            .chain(open)
            .min_by_key(|flows| flows.len());
        let children = filter
            .parent_run_id
            .map(|parent| self.by_parent.get(&parent.0).map_or(&[][..], Vec::as_slice))
            .filter(|children| set.is_none_or(|set| children.len() <= set.len()));
        match (children, set) {
            (Some(children), _) => Box::new(
                children
                    .iter()
                    .rev()
                    .copied()
                    .filter(move |place| *place < before),
            ),
            (None, Some(set)) => Box::new(set.range(..before).rev().copied()),
            (None, None) => {
                let end = u32::try_from(self.entries.len())
                    .unwrap_or(NONE)
                    .min(before);
                Box::new((0..end).rev())
            }
        }
    }

    fn summary(&self, place: u32) -> Option<FlowSummary> {
        let entry = self.entries.get(place)?;
        let id_of = |place: u32| self.entries.get(place).map(|entry| RunId(entry.id));
        let (status, _) = self.statuses.get(entry.status as usize)?;
        Some(FlowSummary {
            run_id: RunId(entry.id),
            status: status.to_string(),
            run_status: None,
            parent_run_id: entry.parent.map(RunId),
            resumed_from: id_of(entry.resumed_from),
            resumed_by: id_of(entry.resumed_by),
            is_over: !self.open.contains(&place),
            is_live: Some(false),
            created_at_ms: entry.created_at_ms,
            updated_at_ms: entry.updated_at_ms,
        })
    }
}

fn admits(filter: &ListFlows, flow: &FlowSummary) -> bool {
    filter
        .status
        .as_ref()
        .is_none_or(|status| flow.status == *status)
        && filter
            .parent_run_id
            .is_none_or(|parent| flow.parent_run_id == Some(parent))
        && (!filter.resumable || !flow.is_over && flow.is_live != Some(true))
}

#[cfg(test)]
mod tests;
