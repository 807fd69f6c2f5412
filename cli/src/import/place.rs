//! The destination of a session: an existing one in the store, or a new one that its first batch creates.

use runlog::{
    NewSession, RawJson, SessionId, blocking::Store, contexts::ContextEventKind, transcripts::Entry,
};

use super::{
    namesakes::Namesakes,
    target::{Placed, Target},
};
use crate::{failure::Result, text, view};

/// The longest title that is derived from a user's first message.
const TITLE_COLUMNS: usize = 80;

/// Finds the session of the store that matches the transcript's, by id or name, or plans one that its first batch creates.
/// Where another session has its name and says something else, it gets a name beside that one.
pub(super) fn find_or_plan(
    store: &Store,
    namesakes: &mut Namesakes,
    target: &mut Target,
    first: &[(usize, Entry)],
    source: &str,
    project: Option<&str>,
) -> Result<()> {
    let by_id = match target.head.id {
        Some(id) => store.get_session(SessionId(id))?,
        None => None,
    };
    let mut name = target.head.name.clone().filter(|name| !name.is_empty());
    let mut candidates: Vec<SessionId> = by_id.iter().map(|session| session.id).collect();
    if let Some(wanted) = &name {
        let (of_name, free) = namesakes.candidates(store, wanted, target, first)?;
        candidates.extend(of_name);
        name = Some(free);
    }
    for id in candidates {
        let Some(session) = store.get_session(id)? else {
            continue;
        };
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
        target.forget_match();
    }
    target.outcome.what = "created";
    target.placed = Some(plan(store, target, name, first, source, project)?);
    Ok(())
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
