//! The destination of a session: an existing one in the store, or a new one that its first batch creates.

use runlog::{
    ErrorKind, NewSession, RawJson, Session, SessionId, blocking::Store,
    contexts::ContextEventKind, transcripts::Entry,
};

use super::target::{Placed, Target};
use crate::{failure::Result, text, view};

/// The most sessions of one name, distinguished by `~2`, `~3`, ….
const NAMESAKES_MAX: u32 = 1000;
/// The longest title that is derived from a user's first message.
const TITLE_COLUMNS: usize = 80;

/// Finds the session of the store that matches the transcript's, by id or name, or plans one that its first batch creates.
pub(super) fn find_or_plan(
    store: &Store,
    target: &mut Target,
    first: &[(usize, Entry)],
    source: &str,
    project: Option<&str>,
) -> Result<()> {
    let by_id = match target.head.id {
        Some(id) => store.get_session(SessionId(id))?,
        None => None,
    };
    let wanted = target.head.name.clone().filter(|name| !name.is_empty());
    let mut name = wanted.clone();
    let mut candidate = match (by_id, &wanted) {
        (None, Some(name)) => by_name(store, name)?,
        (by_id, _) => by_id,
    };
    for next in 2..=NAMESAKES_MAX {
        let Some(session) = candidate else { break };
        target.outcome.what = "continued";
        target.match_session(store, &session)?;
        if target.is_of_kind(&session) && target.fits(store, first)? {
            let (id, created_at_ms) = (session.id, session.created_at_ms);
            target.placed = Some(Placed {
                id,
                created_at_ms,
                new: None,
            });
            target.outcome.session = Some(session);
            return Ok(());
        }
        // Another session has the name (or the id) and different content: this one gets a different name.
        target.forget_match();
        let Some(wanted) = &wanted else { break };
        let next_name = format!("{wanted}~{next}");
        candidate = by_name(store, &next_name)?;
        name = Some(next_name);
    }
    target.outcome.what = "created";
    target.placed = Some(plan(store, target, name, first, source, project)?);
    Ok(())
}

fn by_name(store: &Store, name: &str) -> Result<Option<Session>> {
    match store.find_session(name) {
        Ok(session) if session.name.as_deref() == Some(name) => Ok(Some(session)),
        Ok(_) => Ok(None),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Ambiguous) => {
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

fn plan(
    store: &Store,
    target: &mut Target,
    name: Option<String>,
    first: &[(usize, Entry)],
    source: &str,
    project: Option<&str>,
) -> Result<Placed> {
    let id = match target.head.id {
        Some(id) if store.is_id_free(id)? => id,
        Some(_) => {
            // The id belongs to another session, or to a deleted one.
            target
                .instances
                .iter_mut()
                .for_each(|instance| instance.wanted = None);
            store.backend().new_id()
        }
        None => store.backend().new_id(),
    };
    let record = target.head.record.as_ref();
    let metadata = match record {
        Some(record) => record.metadata.clone(),
        None => {
            let metadata = serde_json::json!({"source": {"format": target.head.format.name(), "file": source}});
            RawJson::parse(metadata.to_string()).ok()
        }
    };
    let created_at_ms = match record {
        Some(record) => record.created_at_ms,
        None => first
            .iter()
            .find_map(|(_, entry)| entry.time_ms)
            .unwrap_or_else(|| store.backend().now_ms()),
    };
    let new = NewSession {
        id: Some(SessionId(id)),
        name,
        project: record
            .and_then(|it| it.project.clone())
            .or_else(|| project.map(str::to_owned)),
        title: record.map_or_else(|| title_of(first), |record| record.title.clone()),
        metadata,
        created_at_ms: Some(created_at_ms),
    };
    Ok(Placed {
        id: SessionId(id),
        created_at_ms,
        new: Some(new),
    })
}

/// The title of a session: the first text of the user.
fn title_of(first: &[(usize, Entry)]) -> Option<String> {
    let message = first.iter().find(|(_, entry)| {
        entry
            .events
            .first()
            .is_some_and(|event| event.kind == ContextEventKind::UserMessage)
    })?;
    let said = view::parts(&message.1.raw)
        .into_iter()
        .find_map(|part| match part {
            view::Part::Text(text) => text
                .lines()
                .map(str::trim)
                .find(|line| !line.is_empty())
                .map(str::to_owned),
            _ => None,
        })?;
    Some(text::one_line(&said, TITLE_COLUMNS)).filter(|title| !title.is_empty())
}
