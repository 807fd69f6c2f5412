//! The checkpoint of the runs catalog: a run is an item, whose place is its rank in the order of creation.

use std::collections::HashMap;

use bincode::{Decode, Encode};
use uuid::Uuid;

use super::{
    Entry, RunCatalog, RunCatalogEvent,
    linked::{List, NONE, Names},
};
use crate::{
    Error, InstanceId, Result, RunId, RunStatus, SessionId,
    checkpoint::{Checkpointed, Progress},
    codec,
    table::PlaceIndex,
};

/// About how many bytes a run takes in a part, its share of the names aside.
const ROW_BYTES: usize = 118;

/// Some runs of the runs catalog, written down.
#[derive(Clone, Default, Encode, Decode)]
pub(crate) struct RunPart {
    /// The names of agents and projects, each once.
    pub(crate) names: Vec<String>,
    /// The runs, in the order they were made.
    pub(crate) runs: Vec<RunRow>,
}

/// One run of a [`RunPart`]. Names are places in its list of names, runs are places in the order of creation.
#[derive(Clone, Encode, Decode)]
pub(crate) struct RunRow {
    /// Its place in the order of creation.
    pub(crate) place: u32,
    /// Its id.
    pub(crate) id: RunId,
    /// Its session.
    pub(crate) session: SessionOfRun,
    /// Its instance.
    pub(crate) instance: InstanceId,
    /// Its agent.
    pub(crate) agent: u32,
    /// Its project.
    pub(crate) project: Option<u32>,
    /// The run that spawned it.
    pub(crate) parent: Option<u32>,
    /// The run it resumes.
    pub(crate) resumed_from: Option<u32>,
    /// Its status: 0 running, 1 paused, 2 completed, 3 failed, 4 cancelled.
    pub(crate) status: u8,
    /// The steps begun so far.
    pub(crate) step_count: u32,
    /// When it was made.
    pub(crate) created_at_ms: u64,
    /// When it paused or ended; 0 while it runs.
    pub(crate) ended_at_ms: u64,
    /// Until when it worked; 0 while it runs.
    pub(crate) ran_until_ms: u64,
    /// The sequence in its stream of its last recorded details; 0 if there are none.
    pub(crate) described: u32,
}

/// The session of a run. They have numbers, 0, 1, 2, … in the order of their first runs.
#[derive(Clone, Copy, Encode, Decode)]
pub(crate) enum SessionOfRun {
    /// One of which there was no run before.
    New(SessionId),
    /// The one with this number.
    Known(u32),
}

impl Checkpointed for RunCatalog {
    type Event = RunCatalogEvent;

    const PART: u8 = crate::kinds::RUN_CATALOG_PART;

    const EVENT: &'static str = "runs event";

    fn decode(kind: u8, meta: &[u8], payload: &[u8]) -> Result<RunCatalogEvent> {
        RunCatalogEvent::decode(kind, meta, payload)
    }

    fn apply_next(
        &mut self,
        _sequence: u64,
        event: RunCatalogEvent,
    ) -> std::result::Result<u32, String> {
        match event {
            RunCatalogEvent::Created(run) => self.create(&run),
            RunCatalogEvent::StatusChanged {
                id,
                status,
                step_count,
                at_ms,
            } => self.change(id, status, step_count, at_ms),
            RunCatalogEvent::Described { id, sequence } => self.describe(id, sequence),
        }
    }

    fn items(&self) -> usize {
        self.len()
    }

    fn item_bytes(&self, place: u32) -> usize {
        let entry = self.entries.get(place);
        let names = entry.map(|entry| {
            (
                self.agents.name(entry.agent),
                self.projects.name(entry.project),
            )
        });
        let (agent, project) = names.unwrap_or_default();
        // Most names are in the part already.
        ROW_BYTES + (agent.map_or(0, str::len) + project.map_or(0, str::len)) / 4
    }

    fn encode_part(&self, places: &[u32]) -> Result<Vec<u8>> {
        codec::encode_part(&self.part(places))
    }

    fn add_part(&mut self, part: &[u8]) -> Result<()> {
        let part: RunPart = codec::decode_part(part)?;
        let mut numbers = vec![(None, None); part.names.len()];
        for row in &part.runs {
            self.add_row(row, &part.names, &mut numbers)
                .map_err(wrong)?;
        }
        Ok(())
    }

    fn change_part(&mut self, part: &[u8], counts: &dyn Fn(u32) -> bool) -> Result<()> {
        let part: RunPart = codec::decode_part(part)?;
        for row in part.runs.iter().filter(|row| counts(row.place)) {
            self.change_row(row).map_err(wrong)?;
        }
        Ok(())
    }

    fn restored(&mut self) -> Result<()> {
        let (entries, sessions) = (&self.entries, &self.sessions);
        let id_of = |place| entries.get(place).map(|entry| entry.id);
        index(&mut self.by_id, entries.len(), id_of)?;
        let id_of = |number| sessions.get(number).map(|list| list.id);
        index(&mut self.session_by_id, sessions.len(), id_of)
    }

    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn progress_mut(&mut self) -> &mut Progress {
        &mut self.progress
    }
}

impl RunCatalog {
    fn part(&self, places: &[u32]) -> RunPart {
        let mut part = RunPart::default();
        let mut runs = Vec::with_capacity(places.len());
        let mut numbers = HashMap::new();
        let mut name = |names: &Names, number: u32, what: char| {
            let text = names.name(number)?;
            Some(*numbers.entry((what, number)).or_insert_with(|| {
                part.names.push(text.to_owned());
                u32::try_from(part.names.len() - 1).expect("a part has fewer names than 2³²")
            }))
        };
        let link = |place: u32| (place != NONE).then_some(place);
        for (place, entry) in places
            .iter()
            .filter_map(|place| Some((*place, self.entries.get(*place)?)))
        {
            runs.push(RunRow {
                place,
                id: RunId(entry.id),
                session: if entry.older_of_session == NONE {
                    SessionOfRun::New(self.session_id(entry))
                } else {
                    SessionOfRun::Known(entry.session)
                },
                instance: InstanceId(entry.instance),
                agent: name(&self.agents, entry.agent, 'a').unwrap_or(NONE),
                project: name(&self.projects, entry.project, 'p'),
                parent: link(entry.parent),
                resumed_from: link(entry.resumed_from),
                status: entry.status as u8,
                step_count: entry.step_count,
                created_at_ms: entry.created_at_ms,
                ended_at_ms: entry.ended_at_ms,
                ran_until_ms: entry.ran_until_ms,
                described: entry.described,
            });
        }
        RunPart { runs, ..part }
    }

    /// Adds a run of a part. `numbers` are the catalog's own numbers of the part's names, as agents and as
    /// projects, as far as they are known.
    fn add_row(
        &mut self,
        row: &RunRow,
        names: &[String],
        numbers: &mut [(Option<u32>, Option<u32>)],
    ) -> std::result::Result<(), String> {
        let name_of = |number: u32| {
            names
                .get(number as usize)
                .ok_or_else(|| format!("no name {number}"))
        };
        let (agent_name, project_name) =
            (name_of(row.agent)?, row.project.map(name_of).transpose()?);
        let count = self.len();
        if row.place as usize != count {
            return Err(format!(
                "run {count} should come next, but run {} does",
                row.place
            ));
        }
        let link = |place: Option<u32>| match place {
            None => Ok(NONE),
            Some(place) if (place as usize) < count => Ok(place),
            Some(place) => Err(format!("a run names run {place}, which comes after it")),
        };
        let agent = *numbers[row.agent as usize]
            .0
            .get_or_insert_with(|| self.agents.number(agent_name));
        let project = match (row.project, project_name) {
            (Some(number), Some(name)) => *numbers[number as usize]
                .1
                .get_or_insert_with(|| self.projects.number(name)),
            _ => NONE,
        };
        let session = match row.session {
            SessionOfRun::New(id) => self.push_session(id.0)?,
            SessionOfRun::Known(number) if (number as usize) < self.sessions.len() => number,
            SessionOfRun::Known(number) => {
                return Err(format!("no session has the number {number}"));
            }
        };
        let entry = Entry {
            id: row.id.0,
            instance: row.instance.0,
            created_at_ms: row.created_at_ms,
            ended_at_ms: row.ended_at_ms,
            ran_until_ms: row.ran_until_ms,
            session,
            agent,
            project,
            parent: link(row.parent)?,
            resumed_from: link(row.resumed_from)?,
            resumed_by: NONE,
            step_count: row.step_count,
            older_of_session: NONE,
            older_of_agent: NONE,
            older_of_project: NONE,
            older_of_parent: NONE,
            children: List::default(),
            described: row.described,
            status: status_of(row)?,
        };
        self.push(entry).map(|_| ())
    }

    /// Applies a later part to a run. Only its end and its recorded details change.
    fn change_row(&mut self, row: &RunRow) -> std::result::Result<(), String> {
        let found = self.entries.get(row.place).map(|entry| entry.id);
        if found != Some(row.id.0) {
            return Err(format!("run {} is another one", row.place));
        }
        let times = (row.ended_at_ms, row.ran_until_ms);
        self.end(row.place, status_of(row)?, row.step_count, times);
        if let Some(entry) = self.entries.get_mut(row.place) {
            entry.described = row.described;
        }
        Ok(())
    }
}

/// Makes so many places found by their ids: all at once, which takes half as long as one by one.
fn index(index: &mut PlaceIndex, count: usize, id_of: impl Fn(u32) -> Option<Uuid>) -> Result<()> {
    index.reserve(count);
    for place in (0..).take(count) {
        let Some(id) = id_of(place) else { break };
        let added = index.insert_new(id.as_u128(), place, |other| id_of(other) == Some(id));
        added.map_err(|_| wrong(format!("{id} is there twice")))?;
    }
    Ok(())
}

fn status_of(row: &RunRow) -> std::result::Result<RunStatus, String> {
    let status = RunStatus::ALL.get(usize::from(row.status)).copied();
    status.ok_or_else(|| format!("no status {}", row.status))
}

fn wrong(what: String) -> Error {
    Error::damaged(format!("a part of the runs catalog is wrong: {what}"))
}
