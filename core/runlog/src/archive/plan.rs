//! [`Plan`]: what an import is to write, determined before anything is written.

use std::collections::{HashMap, HashSet};

use runlog_log::{Position, StreamId};
use runlog_model::SessionId;

use super::{
    ImportedSession, Outcome,
    lines::RecordLine,
    lists::{List, ListEvent, Subject},
};

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
    pub(super) is_context: bool,
    /// The last sequence that the store has; `None` if it doesn't have the stream.
    pub(super) there: Option<u64>,
    /// The last sequence that the archive has.
    pub(super) seen: u64,
    /// The last sequence up to which both are equal.
    pub(super) alike: u64,
    pub(super) parent: Option<(StreamId, u64)>,
    /// Whether the archive has a snapshot of it from before its first record.
    pub(super) begins_with_snapshot: bool,
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
