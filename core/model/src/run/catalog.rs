//! [`RunCatalog`]: a summary of every run of a store, to list one page of them at the cost of that page.
//!
//! A run takes under 200 bytes, names and sessions included: repeated strings are stored once and referenced by number,
//! and each run links to the next older one of the same agent, session, project and parent. The runs of each status,
//! which changes, are a set. Details that a list doesn't show are read from the run's own stream.

pub(crate) mod checkpoint;
mod linked;

use roaring::RoaringBitmap;
use uuid::Uuid;

use super::{RunCatalogEvent, RunStatus, RunSummary, fold::times};
use crate::{
    InstanceId, Page, RunId, SessionId,
    checkpoint::Progress,
    table::{Chunked, PlaceIndex},
};
use serde::Deserialize;

use linked::{List, NONE, Names};

/// The link from a run to the next older one of the same list.
type Older = fn(&Entry) -> u32;

/// Which runs to list, and how many. A filter that is `None` lets every run pass.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ListRuns {
    /// Only runs of this status.
    pub status: Option<RunStatus>,
    /// Only runs of this agent.
    pub agent_name: Option<String>,
    /// Only runs that this run spawned.
    pub parent_run_id: Option<RunId>,
    /// Only runs in this session.
    pub session_id: Option<SessionId>,
    /// Only runs of this project.
    pub project: Option<String>,
    /// The maximum number of runs.
    pub limit: usize,
    /// Where to continue: the cursor from the previous page.
    pub cursor: Option<String>,
}

impl Default for ListRuns {
    fn default() -> Self {
        Self {
            status: None,
            agent_name: None,
            parent_run_id: None,
            session_id: None,
            project: None,
            limit: 50,
            cursor: None,
        }
    }
}

/// A run of the catalog, and its place in the order of creation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlacedRun {
    /// 0 for the first run of the store, and so on.
    pub place: u32,
    /// The run.
    pub run: RunSummary,
}

/// The summaries of all runs, folded from the catalog's events.
///
/// Invariant: a run's place is its rank in the order of creation, and stays for ever; its parent and the run it resumes
/// came before it.
///
/// ```
/// use runlog_model::{Checkpointed, ListRuns, RunCatalog, RunCatalogEvent, RunSummary};
///
/// # let json = r#"{"id":"0198c7e0-0000-7000-8000-000000000001","session_id":"0198c7e0-0000-7000-8000-000000000002",
/// #   "instance_id":"0198c7e0-0000-7000-8000-000000000003","agent_name":"coder","status":"running","created_at":1000}"#;
/// # let run: RunSummary = serde_json::from_str(json).unwrap();
/// let mut catalog = RunCatalog::new();
/// catalog.apply(1, RunCatalogEvent::Created(Box::new(run.clone())))?;
/// let of_agent = ListRuns { agent_name: Some("coder".into()), ..ListRuns::default() };
/// assert_eq!(catalog.list(&of_agent, None).items, [run]);
/// # Ok::<(), runlog_model::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct RunCatalog {
    entries: Chunked<Entry>,
    by_id: PlaceIndex,
    by_status: [RoaringBitmap; RunStatus::ALL.len()],
    agents: Names,
    projects: Names,
    sessions: Chunked<SessionList>,
    session_by_id: PlaceIndex,
    progress: Progress,
}

/// One run. Times in milliseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug)]
struct Entry {
    id: Uuid,
    instance: Uuid,
    created_at_ms: u64,
    /// When it paused or ended; 0 while it runs.
    ended_at_ms: u64,
    /// Until when it worked: earlier than its end if it was paused before. 0 while it runs.
    ran_until_ms: u64,
    session: u32,
    agent: u32,
    project: u32,
    parent: u32,
    resumed_from: u32,
    resumed_by: u32,
    step_count: u32,
    older_of_session: u32,
    older_of_agent: u32,
    older_of_project: u32,
    older_of_parent: u32,
    children: List,
    /// The sequence in its stream of its last recorded details; 0 if there are none.
    described: u32,
    status: RunStatus,
}

#[derive(Clone, Copy, Debug)]
struct SessionList {
    id: Uuid,
    runs: List,
}

impl RunCatalog {
    /// An empty catalog.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many runs there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.len() == 0
    }

    fn create(&mut self, run: &RunSummary) -> Result<u32, String> {
        // Its creation may be lost.
        let is_incomplete = self.progress.is_incomplete();
        let place_of = |id: RunId| match self.place(id) {
            None if is_incomplete => Ok(NONE),
            place => place.ok_or_else(|| format!("no run {id}")),
        };
        let parent = run.parent_run_id.map_or(Ok(NONE), place_of)?;
        let resumed_from = run.resumed_from.map_or(Ok(NONE), place_of)?;
        let ran_until_ms = run.duration_ms.map_or(0, |duration_ms| {
            run.created_at_ms.saturating_add(duration_ms)
        });
        let ended_at_ms = run.completed_at_ms.unwrap_or(ran_until_ms);
        // A repair lists one again whose creation can't be read; that may be read again later, and counts then.
        let is_it = |entry: &Entry| entry.instance == run.instance_id.0;
        let there = self.place(run.id);
        if let Some(place) = there.filter(|place| self.entries.get(*place).is_some_and(is_it)) {
            let times = (ended_at_ms, ran_until_ms);
            self.end(place, run.status, run.step_count, times);
            return Ok(place);
        }
        let session = self.session_number(run.session_id.0)?;
        let agent = self.agents.number(&run.agent_name);
        let project = run
            .project
            .as_deref()
            .map_or(NONE, |project| self.projects.number(project));
        self.insert(Entry {
            id: run.id.0,
            instance: run.instance_id.0,
            created_at_ms: run.created_at_ms,
            ended_at_ms,
            ran_until_ms,
            session,
            agent,
            project,
            parent,
            resumed_from,
            resumed_by: NONE,
            step_count: run.step_count,
            older_of_session: NONE,
            older_of_agent: NONE,
            older_of_project: NONE,
            older_of_parent: NONE,
            children: List::default(),
            described: 0,
            status: run.status,
        })
    }

    fn session_number(&mut self, id: Uuid) -> Result<u32, String> {
        if let Some(number) = self.number_of_session(id) {
            return Ok(number);
        }
        let number = self.push_session(id)?;
        self.session_by_id.insert(id.as_u128(), number);
        Ok(number)
    }

    /// Adds a session, which isn't found by its id.
    fn push_session(&mut self, id: Uuid) -> Result<u32, String> {
        let runs = List::default();
        let number = self.sessions.push(SessionList { id, runs });
        number.ok_or_else(|| "there are too many runs".to_owned())
    }

    fn number_of_session(&self, id: Uuid) -> Option<u32> {
        let is_it = |number| self.sessions.get(number).is_some_and(|list| list.id == id);
        self.session_by_id.find(id.as_u128(), is_it)
    }

    /// Adds an entry whose references are right.
    fn insert(&mut self, entry: Entry) -> Result<u32, String> {
        let id = entry.id;
        if self.place(RunId(id)).is_some() {
            return Err(format!("run {id} is there already"));
        }
        let place = self.push(entry)?;
        self.by_id.insert(id.as_u128(), place);
        Ok(place)
    }

    /// Links an entry, which isn't found by its id.
    fn push(&mut self, mut entry: Entry) -> Result<u32, String> {
        let place = u32::try_from(self.entries.len())
            .ok()
            .filter(|place| *place < NONE);
        let place = place.ok_or("there are too many runs")?;
        let status = entry.status;
        entry.older_of_agent = self.agents.push(entry.agent, place);
        entry.older_of_project = self.projects.push(entry.project, place);
        entry.older_of_session = self
            .sessions
            .get_mut(entry.session)
            .map_or(NONE, |list| list.runs.push(place));
        entry.older_of_parent = self
            .entries
            .get_mut(entry.parent)
            .map_or(NONE, |parent| parent.children.push(place));
        if let Some(resumed) = self.entries.get_mut(entry.resumed_from) {
            resumed.resumed_by = place;
        }
        self.entries.push(entry).ok_or("there are too many runs")?;
        self.by_status[status as usize].insert(place);
        Ok(place)
    }

    fn change(
        &mut self,
        id: RunId,
        status: RunStatus,
        step_count: u32,
        at_ms: u64,
    ) -> Result<u32, String> {
        let place = self.place(id).ok_or_else(|| format!("no run {id}"))?;
        let times = match (status, self.entries.get(place)) {
            (RunStatus::Running, _) => (0, 0),
            (_, Some(paused)) if paused.status == RunStatus::Paused => (at_ms, paused.ran_until_ms),
            _ => (at_ms, at_ms),
        };
        self.end(place, status, step_count, times);
        Ok(place)
    }

    /// Sets how a run is, and when it ended and until when it worked.
    fn end(&mut self, place: u32, status: RunStatus, step_count: u32, times: (u64, u64)) {
        let Some(entry) = self.entries.get_mut(place) else {
            return;
        };
        let before = std::mem::replace(&mut entry.status, status);
        entry.step_count = step_count;
        (entry.ended_at_ms, entry.ran_until_ms) = times;
        self.by_status[before as usize].remove(place);
        self.by_status[status as usize].insert(place);
    }

    fn describe(&mut self, id: RunId, sequence: u32) -> Result<u32, String> {
        let place = self.place(id).ok_or_else(|| format!("no run {id}"))?;
        if let Some(entry) = self.entries.get_mut(place) {
            entry.described = sequence;
        }
        Ok(place)
    }

    /// The sequence in its own stream of a run's last recorded details; `None` if there are none. It is a hint: in a
    /// stream that was truncated since they are elsewhere.
    pub fn described(&self, id: RunId) -> Option<u32> {
        let entry = self.entries.get(self.place(id)?)?;
        (entry.described > 0).then_some(entry.described)
    }

    fn place(&self, id: RunId) -> Option<u32> {
        let is_it = |place| {
            self.entries
                .get(place)
                .is_some_and(|entry| entry.id == id.0)
        };
        self.by_id.find(id.0.as_u128(), is_it)
    }

    /// The run with this id. The step count of one that is running is that of its start.
    pub fn run(&self, id: RunId) -> Option<PlacedRun> {
        let place = self.place(id)?;
        Some(PlacedRun {
            place,
            run: self.summary(self.entries.get(place)?),
        })
    }

    /// The runs of a status, oldest first.
    pub fn with_status(&self, status: RunStatus) -> impl Iterator<Item = RunId> + '_ {
        self.by_status[status as usize]
            .iter()
            .filter_map(|place| self.entries.get(place))
            .map(|entry| RunId(entry.id))
    }

    /// A run that is at work in an instance of this session.
    pub fn running_in(&self, session: SessionId, instance: InstanceId) -> Option<RunId> {
        let running = RunStatus::Running;
        let filter = ListRuns {
            status: Some(running),
            session_id: Some(session),
            ..ListRuns::default()
        };
        let mut entries = self
            .walk(&filter, NONE)
            .filter_map(|place| self.entries.get(place));
        let found = entries.find(|entry| entry.instance == instance.0 && entry.status == running);
        found.map(|entry| RunId(entry.id))
    }

    /// One page of runs, newest first, of those that came before a place.
    ///
    /// It costs the runs of the page, and those that pass one of the filters and not another: the most selective filter
    /// is followed.
    pub fn list(&self, filter: &ListRuns, before: Option<u32>) -> Page<RunSummary, u32> {
        let mut page = Page::only(Vec::new());
        let mut last = None;
        for place in self.walk(filter, before.unwrap_or(NONE)) {
            let Some(entry) = self
                .entries
                .get(place)
                .filter(|entry| self.admits(filter, entry))
            else {
                continue;
            };
            if page.items.len() == filter.limit {
                page.next = last;
                break;
            }
            page.items.push(self.summary(entry));
            last = Some(place);
        }
        page
    }

    fn walk(&self, filter: &ListRuns, before: u32) -> Box<dyn Iterator<Item = u32> + '_> {
        let mut lists: Vec<(List, Older)> = Vec::new();
        if let Some(agent) = &filter.agent_name {
            lists.push((self.agents.list(agent), |entry| entry.older_of_agent));
        }
        if let Some(project) = &filter.project {
            lists.push((self.projects.list(project), |entry| entry.older_of_project));
        }
        if let Some(session) = filter.session_id {
            let list = self
                .number_of_session(session.0)
                .and_then(|number| self.sessions.get(number))
                .map(|list| list.runs);
            lists.push((list.unwrap_or_default(), |entry| entry.older_of_session));
        }
        if let Some(parent) = filter.parent_run_id {
            let list = self
                .place(parent)
                .and_then(|place| self.entries.get(place))
                .map(|entry| entry.children);
            lists.push((list.unwrap_or_default(), |entry| entry.older_of_parent));
        }
        let shortest = lists.into_iter().min_by_key(|(list, _)| list.count);
        let of_status = filter.status.map(|status| &self.by_status[status as usize]);
        match (shortest, of_status) {
            (Some((list, _)), Some(set)) if set.len() < u64::from(list.count) => {
                Box::new(set.range(..before).rev())
            }
            (Some((list, older)), _) => {
                // A run that a page ended with passes the same filter, and so is in the list that is followed.
                let first = self.entries.get(before).map_or(list.newest, older);
                let next = move |place: &u32| self.entries.get(*place).map(older);
                Box::new(
                    std::iter::successors(Some(first), next).take_while(|place| *place != NONE),
                )
            }
            (None, Some(set)) => Box::new(set.range(..before).rev()),
            (None, None) => {
                let count = u32::try_from(self.entries.len()).unwrap_or(NONE);
                Box::new((0..before.min(count)).rev())
            }
        }
    }

    fn admits(&self, filter: &ListRuns, entry: &Entry) -> bool {
        filter.status.is_none_or(|status| entry.status == status)
            && filter
                .agent_name
                .as_deref()
                .is_none_or(|agent| self.agents.name(entry.agent) == Some(agent))
            && filter
                .project
                .as_deref()
                .is_none_or(|project| self.projects.name(entry.project) == Some(project))
            && filter
                .session_id
                .is_none_or(|session| self.session_id(entry) == session)
            && filter
                .parent_run_id
                .is_none_or(|parent| self.id_at(entry.parent) == Some(parent))
    }

    fn id_at(&self, place: u32) -> Option<RunId> {
        self.entries.get(place).map(|entry| RunId(entry.id))
    }

    fn session_id(&self, entry: &Entry) -> SessionId {
        SessionId(
            self.sessions
                .get(entry.session)
                .expect("a run's session is kept with it")
                .id,
        )
    }

    fn summary(&self, entry: &Entry) -> RunSummary {
        let (completed_at_ms, duration_ms) = times(
            entry.status,
            entry.created_at_ms,
            entry.ended_at_ms,
            entry.ran_until_ms,
        );
        RunSummary {
            id: RunId(entry.id),
            project: self.projects.name(entry.project).map(str::to_owned),
            session_id: self.session_id(entry),
            instance_id: InstanceId(entry.instance),
            agent_name: self.agents.name(entry.agent).unwrap_or_default().to_owned(),
            status: entry.status,
            step_count: entry.step_count,
            parent_run_id: self.id_at(entry.parent),
            resumed_from: self.id_at(entry.resumed_from),
            resumed_by: self.id_at(entry.resumed_by),
            usage: None,
            metadata: None,
            created_at_ms: entry.created_at_ms,
            completed_at_ms,
            duration_ms,
        }
    }
}

#[cfg(test)]
mod tests;
