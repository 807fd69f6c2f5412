//! [`Plan`]: what an import is to write, determined before anything is written.

use std::collections::{HashMap, HashSet};

use runlog_log::{Position, Record, Sequence, StreamId};
use runlog_model::{ChatEvent, ContextEvent, InstanceId, RawJson, RunEvent, RunStatus, SessionId};

use super::{
    ImportedSession, Outcome,
    lines::RecordLine,
    lists::{List, ListEvent, Subject},
};
use crate::{Error, ErrorKind, Result};

/// A unit that is written as a whole or left out.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Group {
    /// A session with its contexts, its runs and its chat.
    Session(SessionId),
    /// A stream without an owner.
    Stream(StreamId),
    /// The definition of an agent.
    Agent(Option<String>, String),
}

/// A stream of the archive, compared with that of the store.
pub(super) struct State {
    pub(super) group: Group,
    pub(super) holds: Holds,
    /// The last sequence that the store has; `None` if it doesn't have the stream.
    pub(super) there: Option<u64>,
    /// The last sequence that the archive has.
    pub(super) seen: u64,
    /// The last sequence up to which both are equal.
    pub(super) alike: u64,
    pub(super) parent: Option<(StreamId, u64)>,
    /// Whether the archive has a snapshot of it from before its first record.
    pub(super) begins_with_snapshot: bool,
    /// The number of its line.
    pub(super) line: u64,
    /// Where it ends for the import, if the archive lacks a record behind that.
    pub(super) cut: Option<Cut>,
}

/// The end of a stream of which the archive lacks a record that the store hasn't got either.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cut {
    /// The last sequence that is imported.
    pub(super) last: u64,
    /// The number of the line that says so.
    pub(super) line: u64,
    /// How many records are behind it in the archive.
    pub(super) left_out: u64,
}

impl State {
    /// The last sequence that the import can give it.
    pub(super) fn last(&self) -> u64 {
        self.cut.map_or(self.seen, |cut| cut.last)
    }

    /// Whether a record can't be imported, because one before it is lost.
    pub(super) fn is_cut_off(&self, sequence: u64) -> bool {
        self.cut.is_some_and(|cut| sequence > cut.last)
    }

    /// The session that it belongs to, for a message.
    fn of_session(&self) -> String {
        match self.group {
            Group::Session(id) => format!(" of session {id}"),
            Group::Stream(_) | Group::Agent(..) => String::new(),
        }
    }

    pub(super) fn is_context(&self) -> bool {
        self.holds == Holds::Context
    }
}

/// What a stream holds, which says how its records are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Holds {
    Context,
    Run,
    Chat,
    Other,
}

impl Holds {
    /// By the `of` of its line.
    pub(super) fn of(name: &str) -> Self {
        match name {
            "context" => Self::Context,
            "run" => Self::Run,
            "chat" => Self::Chat,
            _ => Self::Other,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Context => "a context",
            Self::Run => "a run",
            Self::Chat => "a chat",
            Self::Other => "other records",
        }
    }

    /// Refuses a record that could be written but never be read again. What a newer build wrote is let through: that reads it.
    pub(super) fn check(self, line: &RecordLine) -> Result<()> {
        if line.redacted {
            return Ok(());
        }
        match self.decode(line) {
            Err(error) if error.kind() == ErrorKind::UnsupportedVersion => Ok(()),
            checked => checked,
        }
    }

    fn decode(self, line: &RecordLine) -> Result<()> {
        match self {
            Self::Context => {
                let record = Record {
                    stream: line.stream,
                    sequence: Sequence(line.sequence),
                    position: Position(line.position),
                    time_ms: line.time_ms,
                    kind: line.kind,
                    redacted: false,
                    lost: false,
                    meta: line.meta.clone(),
                    payload: line.payload.clone(),
                };
                ContextEvent::decode(InstanceId(line.stream.0), &record)?;
                // What is stored isn't parsed before its content is used.
                RawJson::parse(line.payload.clone())?;
            }
            Self::Run => {
                let event = RunEvent::decode(line.kind.0, &line.meta, &line.payload)?;
                let is_created = match &event {
                    RunEvent::Created(run) => {
                        if run.id.as_uuid() != line.stream.0 || run.status != RunStatus::Running {
                            return Err(Error::invalid(
                                "a run is created with the id of its stream, and running",
                            ));
                        }
                        true
                    }
                    _ => false,
                };
                if is_created != (line.sequence == 1) {
                    return Err(Error::invalid(
                        "the first event of a run is its creation, and no other is",
                    ));
                }
            }
            Self::Chat => {
                ChatEvent::decode(line.kind.0, &line.meta, &line.payload)?;
            }
            Self::Other => {}
        }
        Ok(())
    }
}

/// The result of the check.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) streams: HashMap<StreamId, State>,
    /// The streams in the order of the archive.
    pub(super) order: Vec<StreamId>,
    /// The records of the lists, in order.
    pub(super) lists: Vec<ListLine>,
    /// How many records of the lists the store had already.
    pub(super) listed: u64,
    /// The subjects that the store's lists have.
    pub(super) known: HashSet<Subject>,
    /// What can't be written, and why.
    pub(super) conflicts: HashMap<Group, (u64, String)>,
    /// Records that were redacted since their payload was written.
    pub(super) to_redact: Vec<Position>,
    /// The streams of runs that no list has, of the archive or the store.
    pub(super) unlisted: HashSet<StreamId>,
    /// States of streams that the archive lacks: the line, the stream, and the sequences at which they were saved.
    pub(super) lost_snapshots: Vec<(u64, StreamId, u64, u64)>,
}

/// A record of a list.
pub(super) struct ListLine {
    pub(super) number: u64,
    pub(super) list: List,
    pub(super) subject: Subject,
    pub(super) group: Group,
    pub(super) event: ListEvent,
    pub(super) record: RecordLine,
    /// Whether the store has it.
    pub(super) is_there: bool,
}

impl Plan {
    /// What is left out because the archive lacks it, or lacks what comes before it.
    pub(super) fn lost(&self) -> Vec<(u64, String)> {
        let is_headless = |id: &StreamId, state: &State| {
            self.unlisted.contains(id) && state.cut.is_some_and(|cut| cut.last == 0)
        };
        let of_state = |(id, state): (&StreamId, &State)| {
            let Cut {
                last,
                line,
                left_out,
            } = state.cut?;
            let session = state.of_session();
            let behind = match left_out {
                0 => String::new(),
                1 => "; 1 record behind it was left out".to_owned(),
                more => format!("; {more} records behind it were left out"),
            };
            let what = if is_headless(id, state) {
                format!(
                    "run {id}{session} was left out: its beginning was lost before it was exported{behind}"
                )
            } else {
                format!(
                    "stream {id}{session} ends at sequence {last}: what comes next was lost before it was exported{behind}"
                )
            };
            Some((line, what))
        };
        // The lists of an archive leave out runs that nothing could be made of, and those that build on them.
        let unlisted = |(id, state): (&StreamId, &State)| {
            let is_told = !self.unlisted.contains(id) || is_headless(id, state);
            let session = state.of_session();
            let what = format!(
                "run {id}{session} isn't listed: the beginning of a run that it was spawned by, or goes on from, was lost \
                 before it was exported"
            );
            (!is_told).then_some((state.line, what))
        };
        let snapshots = self.lost_snapshots.iter();
        let snapshots = snapshots.map(|(line, id, first, last)| {
            let what = format!(
                "a state of stream {id}, saved at a sequence from {first} to {last}, was lost before it was exported"
            );
            (*line, what)
        });
        self.streams
            .iter()
            .filter_map(of_state)
            .chain(self.streams.iter().filter_map(unlisted))
            .chain(snapshots)
            .collect()
    }

    /// The outcomes of the archive's sessions.
    pub(super) fn outcomes(&self, changed: &HashSet<Group>) -> Vec<ImportedSession> {
        let begun: HashSet<&Group> = self
            .streams
            .values()
            .filter(|state| state.there.is_some_and(|it| it > 0))
            .map(|it| &it.group)
            .collect();
        let mut sessions: Vec<ImportedSession> = Vec::new();
        let mut places: HashMap<SessionId, usize> = HashMap::new();
        for line in &self.lists {
            let Subject::Session(id) = line.subject else {
                continue;
            };
            let place = *places.entry(id).or_insert_with(|| {
                let group = Group::Session(id);
                let outcome = if self.conflicts.contains_key(&group) {
                    Outcome::Conflict
                } else if self.known.contains(&Subject::Session(id)) {
                    if changed.contains(&group) {
                        Outcome::Continued
                    } else {
                        Outcome::Unchanged
                    }
                } else if begun.contains(&group) {
                    Outcome::Completed
                } else {
                    Outcome::Created
                };
                sessions.push(ImportedSession {
                    id,
                    name: None,
                    outcome,
                });
                sessions.len() - 1
            });
            if let ListEvent::Session(runlog_model::CatalogEvent::SessionCreated(session)) =
                &line.event
                && let Some(found) = sessions.get_mut(place)
            {
                found.name.clone_from(&session.name);
            }
        }
        sessions
    }
}

/// Whether a line is the envelope of the message that comes right after it.
pub(super) fn is_envelope(line: &RecordLine) -> bool {
    line.kind == runlog_log::Kind::DATA && line.meta == b"envelope"[..]
}
