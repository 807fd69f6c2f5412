//! Lookups in the catalog, with errors that say what to do if nothing is found.

use runlog_log::{Op, StreamId};
use runlog_model::{AgentInstance, Catalog, InstanceId, Session, SessionId};
use uuid::Uuid;

use crate::{Error, ErrorKind, Result, backend::Backend};

/// The most sessions that the error for an ambiguous id prefix lists.
const CANDIDATES_MAX: usize = 4;

/// The prefix of the ids of a store's catalog streams.
const RESERVED: &[u8] = b"runlog:";

/// Checks that an id is that of no session and no instance, nor one that the store needs itself: an id names a stream,
/// and a stream holds only one kind of thing.
pub(crate) fn check_id(catalog: &Catalog, id: Uuid) -> Result<()> {
    check_reserved(id)?;
    let taken_by = match (
        catalog.session(SessionId(id)),
        catalog.has_instance(InstanceId(id)),
    ) {
        (Some(_), _) => "a session",
        (None, true) => "an agent instance",
        (None, false) => return Ok(()),
    };
    Err(taken(id, taken_by))
}

/// Checks that an id that a caller gives to a new session or instance names no stream yet, such as that of a run.
pub(crate) async fn check_unused(backend: &dyn Backend, id: Option<Uuid>) -> Result<()> {
    let Some(id) = id else { return Ok(()) };
    check_reserved(id)?;
    match backend.stream(StreamId(id)).await? {
        Some(_) => Err(taken(id, "something")),
        None => Ok(()),
    }
}

/// Whether a stream is one of the lists that the store keeps for itself: of sessions, runs, flows or agents.
pub fn is_list(stream: StreamId) -> bool {
    stream.as_bytes().starts_with(RESERVED)
}

/// Checks that no operation changes a stream that the store keeps for itself: a list of sessions, runs, flows or agents, which
/// a record of another kind would make unreadable, and a truncation empty. Reading them is fine.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) naming the stream.
pub(super) fn check_streams(ops: &[Op<'_>]) -> Result<()> {
    for op in ops {
        let changed = match op {
            Op::Append { stream, .. }
            | Op::Truncate { stream, .. }
            | Op::Snapshot { stream, .. }
            | Op::Delete { stream, .. } => stream,
            Op::Fork { child, .. } => child,
            Op::Redact { .. } | Op::RedactMany { .. } => continue,
        };
        if is_list(*changed) {
            return Err(Error::invalid(format!(
                "stream {} is a list that the store keeps for itself; change what it lists by the calls for sessions, runs, flows and agents",
                changed.0
            )));
        }
    }
    Ok(())
}

fn check_reserved(id: Uuid) -> Result<()> {
    if id.as_bytes().starts_with(RESERVED) {
        return Err(Error::invalid(format!(
            "the id {id} is one that the store itself uses; leave it out for a fresh one"
        )));
    }
    Ok(())
}

fn taken(id: Uuid, by: &str) -> Error {
    Error::new(
        ErrorKind::AlreadyExists,
        format!("the id {id} is that of {by} already; leave it out for a fresh one"),
    )
}

pub(crate) fn check_free(catalog: &Catalog, session: &Session) -> Result<()> {
    let id = session.id;
    if catalog.session(id).is_some() {
        let message = format!(
            "session {id} exists already, or did before it was deleted; leave the id out for a fresh one"
        );
        return Err(Error::new(ErrorKind::AlreadyExists, message));
    }
    check_id(catalog, id.0)?;
    match session
        .name
        .as_deref()
        .and_then(|name| catalog.session_named(name))
    {
        Some(taken) => {
            let name = session.name.as_deref().unwrap_or_default();
            // A chat's id is the name of its session; callers of the chat API don't know about sessions.
            let message = if session.chat.is_some() && taken.chat.is_some() {
                format!(
                    "there is a chat {name:?} already; choose another id, or leave it out for a fresh one"
                )
            } else {
                format!(
                    "the session name {name:?} is that of session {} already; choose another",
                    taken.id
                )
            };
            Err(Error::new(ErrorKind::AlreadyExists, message))
        }
        None => Ok(()),
    }
}

pub(crate) fn check_instance(catalog: &Catalog, instance: &AgentInstance) -> Result<()> {
    let (id, session) = (instance.id, instance.session_id);
    live_session(catalog, session)?;
    if catalog.has_instance(id) {
        let message =
            format!("agent instance {id} exists already; leave the id out for a fresh one");
        return Err(Error::new(ErrorKind::AlreadyExists, message));
    }
    check_id(catalog, id.0)?;
    let Some(parent) = instance.parent_instance_id else {
        return Ok(());
    };
    match catalog.instance(parent) {
        None => Err(Error::not_found(format!(
            "no agent instance {parent} to be the parent; make it first"
        ))),
        Some(found) if found.session_id != session => Err(Error::invalid(format!(
            "the parent instance {parent} is in session {}, not in {session}; an instance and its parent share a session",
            found.session_id
        ))),
        Some(_) => Ok(()),
    }
}

pub(crate) fn live_session(catalog: &Catalog, id: SessionId) -> Result<&Session> {
    match catalog.session(id) {
        Some(session) if session.deleted_at_ms.is_none() => Ok(session),
        Some(_) => Err(Error::not_found(format!("session {id} was deleted"))),
        None => Err(Error::not_found(format!(
            "no session {id}; create it first"
        ))),
    }
}

pub(crate) fn root_instance(catalog: &Catalog, session: SessionId) -> Result<AgentInstance> {
    live_session(catalog, session)?;
    let root = catalog
        .instances(session)
        .find(|instance| instance.parent_instance_id.is_none());
    root.ok_or_else(|| {
        Error::not_found(format!(
            "session {session} has no agent instance yet, and so no context: what it has may be a chat; create an instance first"
        ))
    })
}

pub(crate) fn find_session(catalog: &Catalog, text: &str) -> Result<Session> {
    if let Some(session) = text
        .parse()
        .ok()
        .and_then(|id| live_session(catalog, id).ok())
    {
        return Ok(session.clone());
    }
    if let Some(session) = catalog.session_named(text) {
        return Ok(session.clone());
    }
    match catalog
        .sessions_with_prefix(text, CANDIDATES_MAX)
        .as_slice()
    {
        [] => Err(Error::not_found(format!(
            "no session has the id or the name {text:?}, or an id that begins so"
        ))),
        [one] => Ok((*one).clone()),
        several => {
            let ids: Vec<String> = several
                .iter()
                .map(|session| session.id.to_string())
                .collect();
            let message = format!(
                "several sessions have an id that begins {text:?}, among them {}; give more of it",
                ids.join(", ")
            );
            Err(Error::new(ErrorKind::Ambiguous, message))
        }
    }
}
