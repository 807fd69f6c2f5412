//! Reading an archive: checked against the store first, then written.

use std::{
    collections::{HashMap, HashSet},
    io::BufRead,
};

use runlog_log::{Position, StreamId};
use runlog_model::SessionId;

use super::{
    Conflict, ImportClock, Imported, ImportedSession, Outcome,
    check::{self, ListLine},
    lines::RecordLine,
    lists::{ListEvent, Subject},
    write,
};
use crate::{Result, blocking::Store};

/// Where an archive is read from: twice, from its beginning each time.
pub type ImportSource<'a> = dyn FnMut() -> Result<Box<dyn BufRead>> + 'a;

/// What is written together or not at all.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Group {
    /// A session with its contexts, its runs and its chat.
    Session(SessionId),
    /// A stream of nobody's.
    Stream(StreamId),
    /// The definition of an agent.
    Agent(Option<String>, String),
}

/// A stream of the archive, beside that of the store.
pub(super) struct State {
    pub(super) group: Group,
    pub(super) is_context: bool,
    /// The last sequence that the store has, `None` where it hasn't got the stream.
    pub(super) there: Option<u64>,
    /// The last sequence that the archive has.
    pub(super) seen: u64,
    /// The last sequence that both have alike.
    pub(super) alike: u64,
    pub(super) parent: Option<(StreamId, u64)>,
    /// Whether the archive has a snapshot of it from before its first record.
    pub(super) begins_with_snapshot: bool,
}

/// What is found out before anything is written.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) streams: HashMap<StreamId, State>,
    /// The streams in the order in which they come.
    pub(super) order: Vec<StreamId>,
    /// What the lists are to say, in order.
    pub(super) lists: Vec<ListLine>,
    /// How many records of the lists were there already.
    pub(super) listed: u64,
    /// The subjects that the store's lists have.
    pub(super) known: HashSet<Subject>,
    /// What can't be written, and why.
    pub(super) conflicts: HashMap<Group, (u64, String)>,
    /// Records that were redacted since their payload was written.
    pub(super) to_redact: Vec<Position>,
}

/// Takes an archive into a store. What the store has already is left as it is: reading an archive twice changes nothing, and
/// one that has more adds what is new. A session (with its runs), a definition or a stream of which the store has something
/// else is left out as a whole, and told.
///
/// The archive is read twice: nothing is written before all of it was found to be right. Sessions, runs and definitions are
/// listed at the end, once what they are about is there, so that an import that was interrupted shows nothing half done; the
/// next import of the same archive completes it. Imports into one open store wait for each other, so that each finds what
/// those before it have written; nothing else should write to the store meanwhile.
///
/// Times are kept if `clock` is what the store was opened with and the store has nothing later.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) for what is no archive, or one that breaks off or has a line that can't be read; with
/// `strict`, [`Conflict`](crate::ErrorKind::Conflict) where something would be left out. Nothing was written then. Else those of reading
/// the source, and of reading and writing the store.
///
/// ```
/// use runlog::{
///     NewSession,
///     archive::{What, export, import},
///     blocking::Store,
/// };
///
/// let store = Store::in_memory();
/// let session = store.create_session(NewSession::named("trip"))?;
/// let mut lines = Vec::new();
/// export(&store, What::All, &mut |line| {
///     lines.extend_from_slice(line);
///     Ok::<(), runlog::Error>(())
/// })?;
///
/// let other = Store::in_memory();
/// let mut source = || Ok(Box::new(std::io::Cursor::new(lines.clone())) as Box<dyn std::io::BufRead>);
/// import(&other, None, false, &mut source)?;
/// assert_eq!(other.find_session("trip")?, session);
/// # Ok::<(), runlog::Error>(())
/// ```
pub fn import(
    store: &Store,
    clock: Option<&ImportClock>,
    strict: bool,
    source: &mut ImportSource<'_>,
) -> Result<Imported> {
    let importing = &store.as_async().shared.folds.importing;
    // It guards no value that a panic could leave broken: what is in the store is always whole batches.
    let _alone = importing
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let plan = check::check(store, source()?.as_mut())?;
    if strict && let Some((line, what)) = plan.conflicts.values().min() {
        let message = format!("line {line}: {what}; nothing was written");
        return Err(crate::Error::new(crate::ErrorKind::Conflict, message));
    }
    let mut imported = write::write(store, clock, &plan, source()?.as_mut())?;
    imported.skipped += plan.listed;
    let mut conflicts: Vec<_> = plan.conflicts.values().collect();
    conflicts.sort();
    imported.conflicts = conflicts
        .into_iter()
        .map(|(line, what)| Conflict {
            line: *line,
            what: what.clone(),
        })
        .collect();
    Ok(imported)
}

impl Plan {
    /// What becomes of the sessions of the archive.
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
