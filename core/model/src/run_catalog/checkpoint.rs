//! [`RunCheckpoint`]: the runs catalog written down, in parts of 4,096 runs, so that only parts that changed are
//! written again.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Entry, List, NONE, Names, RunCatalog, table::CHUNK};
use crate::{
    Error, Result, RunStatus,
    codec::{self, RunPart, RunRow},
};

/// The kind byte of a part's record.
pub const RUN_PART: u8 = 42;

/// Which parts of the catalog were written, where, and which changed since.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Up to which sequence the catalog is written down.
    sequence: u64,
    /// The sequence of each part in the stream of parts; 0 for one that isn't written.
    parts: Vec<u64>,
    /// The sequence of the last event that changed each part.
    changed_at: Vec<u64>,
}

impl Progress {
    pub(super) fn changed(&mut self, place: u32, sequence: u64) {
        let part = place as usize / CHUNK;
        if self.changed_at.len() <= part {
            self.changed_at.resize(part + 1, 0);
            self.parts.resize(part + 1, 0);
        }
        self.changed_at[part] = sequence;
    }
}

/// What a checkpoint says: where its parts are. As JSON, the payload of a snapshot of the catalog's stream.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RunCheckpoint {
    /// How many runs there are.
    pub runs: u64,
    /// The sequence of each part in the stream of parts.
    pub parts: Vec<u64>,
}

impl RunCheckpoint {
    /// The metadata and the payload of the snapshot.
    ///
    /// # Errors
    /// None in practice: a list of numbers has a JSON form.
    pub fn encode(&self) -> Result<(Vec<u8>, Vec<u8>)> {
        let payload = serde_json::to_vec(self)
            .map_err(|source| Error::invalid(format!("a checkpoint has no JSON form: {source}")))?;
        Ok((codec::encode_run_meta(), payload))
    }
}

/// Reads a checkpoint from the metadata and the payload of the snapshot.
///
/// # Errors
/// [`UnsupportedVersion`](crate::ErrorKind::UnsupportedVersion) or [`Damaged`](crate::ErrorKind::Damaged); the
/// catalog can then be folded from its first event.
pub fn decode_run_checkpoint(meta: &[u8], payload: &[u8]) -> Result<RunCheckpoint> {
    let version = codec::decode_run_meta(meta)?;
    crate::run_event::read(version, RUN_PART, payload)
}

impl RunCatalog {
    /// How many events came since the catalog was last written down.
    pub fn events_since_checkpoint(&self) -> u64 {
        self.last_sequence - self.checkpointed.sequence
    }

    /// The parts that changed since the last checkpoint, to be appended from this sequence on in the stream of
    /// parts, and the checkpoint that names them.
    ///
    /// # Errors
    /// [`TooLarge`](crate::ErrorKind::TooLarge) when a part can't be encoded.
    pub fn checkpoint(&self, first_sequence: u64) -> Result<(Vec<Vec<u8>>, RunCheckpoint)> {
        let progress = &self.checkpointed;
        let mut parts = progress.parts.clone();
        let mut changed = Vec::new();
        for (number, place) in parts.iter_mut().enumerate() {
            let written = *place > 0 && progress.changed_at.get(number).is_none_or(|at| *at <= progress.sequence);
            if !written {
                *place = first_sequence + changed.len() as u64;
                changed.push(codec::encode_run_part(&self.part(number))?);
            }
        }
        Ok((changed, RunCheckpoint { runs: self.len() as u64, parts }))
    }

    /// Takes note that a checkpoint of the first `sequence` events is written.
    pub fn checkpointed(&mut self, sequence: u64, checkpoint: RunCheckpoint) {
        if sequence <= self.checkpointed.sequence {
            return;
        }
        let parts = self.checkpointed.parts.len();
        self.checkpointed.sequence = sequence;
        self.checkpointed.parts = checkpoint.parts;
        self.checkpointed.parts.resize(parts, 0);
    }

    /// The catalog as it was at a sequence, from its checkpoint and the payloads of its parts, in order.
    ///
    /// # Errors
    /// [`Damaged`](crate::ErrorKind::Damaged) or [`UnsupportedVersion`](crate::ErrorKind::UnsupportedVersion); the
    /// catalog can then be folded from its first event.
    pub fn restore<'a>(
        sequence: u64,
        checkpoint: RunCheckpoint,
        parts: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Self> {
        let mut catalog = Self::new();
        for part in parts {
            let part = codec::decode_run_part(part)?;
            let mut numbers = vec![(None, None); part.names.len()];
            for row in &part.runs {
                catalog
                    .restore_run(row, &part.names, &mut numbers)
                    .map_err(|what| Error::damaged(format!("a part of the runs catalog is wrong: {what}")))?;
            }
        }
        if catalog.len() as u64 != checkpoint.runs {
            let found = catalog.len();
            return Err(Error::damaged(format!(
                "the runs catalog should have {} runs, but has {found}",
                checkpoint.runs
            )));
        }
        let parts = checkpoint.parts.len();
        catalog.last_sequence = sequence;
        catalog.checkpointed.changed_at = vec![0; parts];
        catalog.checkpointed.parts = vec![0; parts];
        catalog.checkpointed(sequence, checkpoint);
        Ok(catalog)
    }

    fn part(&self, number: usize) -> RunPart {
        let mut part = RunPart::default();
        let mut runs = Vec::new();
        let mut numbers = HashMap::new();
        let mut name = |names: &Names, number: u32, what: char| {
            let text = names.name(number)?;
            Some(*numbers.entry((what, number)).or_insert_with(|| {
                part.names.push(text.to_owned());
                u32::try_from(part.names.len() - 1).expect("a part has fewer names than 2³²")
            }))
        };
        let link = |place: u32| (place != NONE).then_some(place);
        for entry in self.entries.chunk(number) {
            runs.push(RunRow {
                id: *entry.id.as_bytes(),
                session: *self.session_id(entry).0.as_bytes(),
                instance: *entry.instance.as_bytes(),
                agent: name(&self.agents, entry.agent, 'a').unwrap_or(NONE),
                project: name(&self.projects, entry.project, 'p'),
                parent: link(entry.parent),
                resumed_from: link(entry.resumed_from),
                status: entry.status as u8,
                step_count: entry.step_count,
                created_at_ms: entry.created_at_ms,
                ended_at_ms: entry.ended_at_ms,
            });
        }
        RunPart { runs, ..part }
    }

    /// Adds a run of a part. `numbers` are the catalog's own numbers of the part's names, as agents and as
    /// projects, as far as they are known.
    fn restore_run(
        &mut self,
        row: &RunRow,
        names: &[String],
        numbers: &mut [(Option<u32>, Option<u32>)],
    ) -> std::result::Result<(), String> {
        let name_of = |number: u32| names.get(number as usize).ok_or_else(|| format!("no name {number}"));
        let (agent_name, project_name) = (name_of(row.agent)?, row.project.map(name_of).transpose()?);
        let count = self.len();
        let link = |place: Option<u32>| match place {
            None => Ok(NONE),
            Some(place) if (place as usize) < count => Ok(place),
            Some(place) => Err(format!("a run names run {place}, which comes after it")),
        };
        let status = RunStatus::ALL.get(usize::from(row.status)).ok_or_else(|| format!("no status {}", row.status))?;
        let agent = *numbers[row.agent as usize].0.get_or_insert_with(|| self.agents.number(agent_name));
        let project = match (row.project, project_name) {
            (Some(number), Some(name)) => *numbers[number as usize].1.get_or_insert_with(|| self.projects.number(name)),
            _ => NONE,
        };
        let entry = Entry {
            id: Uuid::from_bytes(row.id),
            instance: Uuid::from_bytes(row.instance),
            created_at_ms: row.created_at_ms,
            ended_at_ms: row.ended_at_ms,
            session: self.session_number(Uuid::from_bytes(row.session))?,
            agent,
            project,
            parent: link(row.parent)?,
            resumed_from: link(row.resumed_from)?,
            step_count: row.step_count,
            older_of_session: NONE,
            older_of_agent: NONE,
            older_of_project: NONE,
            older_of_parent: NONE,
            children: List::default(),
            status: *status,
        };
        self.insert(entry).map(|_| ())
    }
}
