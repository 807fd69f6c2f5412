//! Resolving names of the command line: an id, a prefix of one, a name, or `@last`.
//!
//! `@last` is one thing to every command: the session that was made, or in which a run was started, last. As a run it is
//! the newest run of that session's first agent, with which `run --resume` goes on; what an agent spawned is never the last.

use runlog::{
    AgentInstance, ErrorKind, InstanceId, RunId, Session, SessionId,
    blocking::Store,
    flows::{FlowSummary, ListFlows},
    log::{ReadOptions, StreamId},
    pages::Page,
    runs::{ListRuns, RunSummary},
    sessions::{Deleted, ListSessions},
};

use crate::failure::{Failure, Result};

/// The chat named by a text: a chat's id, or anything that names a session.
pub(crate) fn chat(store: &Store, text: &str) -> Result<String> {
    Ok(match store.chats().get_chat(text)? {
        Some(chat) => chat.chat_id,
        None => session(store, text)?.id.to_string(),
    })
}

/// How many items are read at a time when a whole list is walked.
const WALKED_AT_ONCE: usize = 500;

/// What names the last session, run or flow.
pub(crate) const LAST: &str = "@last";

/// The session that was made, or in which a run was started, last.
fn last_session(store: &Store) -> Result<Option<Session>> {
    let newest = store.list_sessions(&ListSessions {
        limit: 1,
        ..ListSessions::default()
    })?;
    let Some(newest) = newest.items.into_iter().next() else {
        return Ok(None);
    };
    let Some(run) = newest_of_nobody(store)?.filter(|run| run.session_id != newest.id) else {
        return Ok(Some(newest));
    };
    // The newest run is of another session. It was started later than the newest session was made if that has a run, for
    // that one is older; else if it was by the order of the log.
    let has_run = !runs_of(store, newest.id, 1, None)?.items.is_empty();
    let is_later = has_run || is_after(store, &run, &newest)?;
    let session = match is_later {
        true => store.get_session(run.session_id)?,
        // The newest run's session may have been deleted.
        false => None,
    };
    Ok(Some(session.unwrap_or(newest)))
}

/// The newest run that no other spawned.
fn newest_of_nobody(store: &Store) -> Result<Option<RunSummary>> {
    let mut runs = walk(|cursor| {
        let page = store.runs().list(&ListRuns {
            limit: WALKED_AT_ONCE,
            cursor,
            ..ListRuns::default()
        })?;
        Ok((page.items, page.next))
    });
    runs.find(|run| run.as_ref().map_or(true, |run| run.parent_run_id.is_none()))
        .transpose()
}

/// Whether a run was started after a session without runs was made.
fn is_after(store: &Store, run: &RunSummary, session: &Session) -> Result<bool> {
    let first = |stream| {
        let options = ReadOptions {
            limit: 1,
            ..ReadOptions::default()
        };
        let page = pollster::block_on(store.backend().read(stream, options));
        match page {
            Ok(page) => Ok(page.records.first().map(|record| record.position)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Failure::from(error)),
        }
    };
    let started = first(StreamId(run.id.as_uuid()))?;
    // What a copy has first is its source's; a session that is empty was made when it says so, as a copy was.
    if session.copied_from.is_none() {
        for instance in store.instances(session.id)? {
            if let Some(position) = first(StreamId(instance.id.as_uuid()))? {
                return Ok(started.is_some_and(|started| started > position));
            }
        }
    }
    Ok(run.created_at_ms > session.created_at_ms)
}

/// A page of the runs of a session, newest first.
fn runs_of(
    store: &Store,
    session: SessionId,
    limit: usize,
    cursor: Option<String>,
) -> Result<Page<RunSummary>> {
    let options = ListRuns {
        session_id: Some(session),
        limit,
        cursor,
        ..ListRuns::default()
    };
    Ok(store.runs().list(&options)?)
}

/// The newest run of a session's first agent: the one that its context ends with.
pub(crate) fn newest_run(store: &Store, session: SessionId) -> Result<Option<RunId>> {
    let Some(root) = store.instances(session)?.into_iter().next() else {
        return Ok(None);
    };
    let mut runs = walk(|cursor| {
        let page = runs_of(store, session, WALKED_AT_ONCE, cursor)?;
        Ok((page.items, page.next))
    });
    let newest = runs.find(|run| run.as_ref().map_or(true, |run| run.instance_id == root.id));
    Ok(newest.transpose()?.map(|run| run.id))
}

/// The session named on the command line: by id, a prefix of one, name, or `@last`.
pub(crate) fn session(store: &Store, text: &str) -> Result<Session> {
    if text == LAST {
        return last_session(store)?
            .ok_or_else(|| Failure::not_found("there is no session yet, so @last is nothing"));
    }
    store.find_session(text).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Failure::not_found(format!("there is no session {text:?}, by id, beginning of an id, or name; `runlog ls` lists them"),
        ),
        _ => error.into(),
    })
}

/// The same, also one that was deleted, which is named by its id or a prefix of that.
pub(crate) fn session_or_deleted(store: &Store, text: &str) -> Result<Session> {
    let missing = match session(store, text) {
        Err(failure) if failure.kind() == ErrorKind::NotFound.name() => failure,
        found => return found,
    };
    let prefix = text.to_ascii_lowercase();
    let deleted = sessions_with(store, Deleted::Shown).filter(|session| {
        session.as_ref().map_or(true, |session| {
            session.deleted_at_ms.is_some() && session.id.to_string().starts_with(&prefix)
        })
    });
    let deleted: Vec<Session> = deleted.take(2).collect::<Result<_>>()?;
    match <[Session; 1]>::try_from(deleted) {
        Ok([one]) => Ok(one),
        Err(none) if none.is_empty() => Err(missing),
        Err(_) => Err(Failure::ambiguous(format!(
            "several deleted sessions have an id that begins {text:?}; `runlog ls --deleted` lists them"
        ))),
    }
}

/// The subject of a command that takes a session or an instance.
pub(crate) enum Subject {
    /// A session with its instances, in the order of their creation.
    Session(Session, Vec<AgentInstance>),
    /// One instance, and its session.
    Instance(Session, AgentInstance),
}

impl Subject {
    pub(crate) fn session(&self) -> &Session {
        match self {
            Self::Session(session, _) | Self::Instance(session, _) => session,
        }
    }

    /// The instances, in the order of their creation.
    pub(crate) fn instances(&self) -> &[AgentInstance] {
        match self {
            Self::Session(_, instances) => instances,
            Self::Instance(_, instance) => std::slice::from_ref(instance),
        }
    }
}

/// The session or the instance named on the command line.
pub(crate) fn subject(store: &Store, text: &str) -> Result<Subject> {
    let failure = match session(store, text) {
        Ok(session) => {
            let instances = store.instances(session.id)?;
            return Ok(Subject::Session(session, instances));
        }
        Err(failure) if failure.kind() == ErrorKind::NotFound.name() => failure,
        Err(failure) => return Err(failure),
    };
    let Some(instance) = instance(store, text)? else {
        // `show` and its like are for conversations; a run has one with others.
        if let Ok(id) = run(store, text)
            && let Some(run) = store.runs().get(id)?
        {
            let session = run.session_id;
            return Err(Failure::not_found(format!(
                "{text} is a run: `runlog run show {text}` shows it; its session is {session}"
            )));
        }
        let message = failure
            .message()
            .replace("no session", "no session or agent instance");
        return Err(Failure::not_found(message));
    };
    let session = store.get_session(instance.session_id)?.ok_or(failure)?;
    Ok(Subject::Instance(session, instance))
}

/// The instance with this id, or the only one with this prefix of its id.
fn instance(store: &Store, text: &str) -> Result<Option<AgentInstance>> {
    if let Ok(id) = text.parse::<InstanceId>() {
        return Ok(store.get_instance(id)?);
    }
    let prefix = text.to_ascii_lowercase();
    if prefix.len() < 4
        || !prefix
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
    {
        return Ok(None);
    }
    let mut found: Option<AgentInstance> = None;
    for session in sessions(store) {
        for instance in store.instances(session?.id)? {
            if !instance.id.to_string().starts_with(&prefix) {
                continue;
            }
            if let Some(other) = &found {
                let message = format!(
                    "{text:?} fits the instances {} and {}, among others; say more of it",
                    other.id, instance.id
                );
                return Err(Failure::ambiguous(message));
            }
            found = Some(instance);
        }
    }
    Ok(found)
}

/// All sessions, newest first, a page at a time.
pub(crate) fn sessions(store: &Store) -> impl Iterator<Item = Result<Session>> {
    sessions_with(store, Deleted::Hidden)
}

fn sessions_with(store: &Store, deleted: Deleted) -> impl Iterator<Item = Result<Session>> {
    walk(move |cursor| {
        let limit = WALKED_AT_ONCE;
        let options = ListSessions {
            limit,
            cursor,
            deleted,
            ..ListSessions::default()
        };
        let page = store.list_sessions(&options)?;
        Ok((page.items, page.next))
    })
}

/// How many of the matching ids are named in an error.
const CANDIDATES_MAX: usize = 4;

/// The most runs that are scanned to find the length of a unique id prefix; with more runs, ids are shown whole.
const RUNS_WALKED_MAX: usize = 10_000;

/// The run named on the command line: by id, a prefix of one, or `@last`.
pub(crate) fn run_id(store: &Store, text: &str) -> Result<RunId> {
    if let Ok(id) = text.parse::<RunId>() {
        return Ok(id);
    }
    if text == LAST {
        let last = last_session(store)?
            .ok_or_else(|| Failure::not_found("there is no run yet, so @last is nothing"))?;
        return newest_run(store, last.id)?.ok_or_else(|| {
            Failure::not_found(format!(
                "@last is the session {}, whose first agent has no run; `runlog runs` lists those of others",
                last.id
            ))
        });
    }
    let candidates = beginning_so(text, run_ids(store))?;
    only_one(text, "runs", &candidates)?.ok_or_else(|| no_run_but(store, text))
}

/// The error if there is no such run; it names the run that is looked for by the name of its session.
fn no_run_but(store: &Store, text: &str) -> Failure {
    let newest = session(store, text).and_then(|session| newest_run(store, session.id));
    match newest {
        Ok(Some(run)) => no_run(text).and(format!(
            "a session is called so, and its newest run is {run}"
        )),
        _ => no_run(text),
    }
}

/// The run named on the command line; an error if it doesn't exist.
pub(crate) fn run(store: &Store, text: &str) -> Result<RunId> {
    let run = store.runs().get(run_id(store, text)?)?;
    run.map(|run| run.id).ok_or_else(|| no_run(text))
}

/// The ids with a prefix, at most as many as an error lists.
fn beginning_so(text: &str, ids: impl Iterator<Item = Result<RunId>>) -> Result<Vec<RunId>> {
    let prefix = text.to_ascii_lowercase();
    let is_prefix = prefix.bytes().any(|byte| byte.is_ascii_hexdigit())
        && prefix
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    let ids = ids.take_while(|_| is_prefix);
    ids.filter(|id| {
        id.as_ref()
            .map_or(true, |id| id.to_string().starts_with(&prefix))
    })
    .take(CANDIDATES_MAX)
    .collect()
}

/// The only candidate; an error, as for sessions, if there are several.
fn only_one(text: &str, what: &str, candidates: &[RunId]) -> Result<Option<RunId>> {
    match candidates {
        [] => Ok(None),
        [one] => Ok(Some(*one)),
        several => {
            let ids = several
                .iter()
                .map(RunId::to_string)
                .collect::<Vec<_>>()
                .join(", ");
            let message = format!(
                "several {what} have an id that begins {text:?}, among them {ids}; give more of it"
            );
            Err(Failure::ambiguous(message))
        }
    }
}

/// The flow named on the command line: by id, a prefix of one, or `@last`. The error of a run without a flow says so.
pub(crate) fn flow_id(store: &Store, text: &str) -> Result<RunId> {
    if text == LAST {
        let mut flows = flows(store);
        let newest = flows.find(|flow| {
            flow.as_ref()
                .map_or(true, |flow| flow.parent_run_id.is_none())
        });
        let none = || Failure::not_found("there is no flow yet, so @last is nothing");
        return newest.transpose()?.map(|flow| flow.run_id).ok_or_else(none);
    }
    if let Ok(id) = text.parse::<RunId>() {
        return Ok(id);
    }
    match only_one(text, "flows", &beginning_so(text, flow_ids(store))?)? {
        Some(id) => Ok(id),
        // A run that has no flow is found too, so that the command can say that it has none.
        None => run_id(store, text).map_err(|_| no_flow(text)),
    }
}

/// The error if there is no such flow.
pub(crate) fn no_flow(text: &str) -> Failure {
    let message = format!(
        "there is no flow {text:?}, by id or beginning of an id; `runlog flows` lists them"
    );
    Failure::not_found(message)
}

/// The error if there is no such run.
pub(crate) fn no_run(text: &str) -> Failure {
    let message =
        format!("there is no run {text:?}, by id or beginning of an id; `runlog runs` lists them");
    Failure::not_found(message)
}

/// The length of an id prefix that is unique for each of these runs.
pub(crate) fn run_id_width(store: &Store, shown: impl IntoIterator<Item = RunId>) -> Result<usize> {
    let mut ids = run_ids(store)
        .take(RUNS_WALKED_MAX + 1)
        .collect::<Result<Vec<RunId>>>()?;
    if ids.len() > RUNS_WALKED_MAX {
        return Ok(36);
    }
    ids.sort_unstable();
    let same = |one: RunId, other: RunId| {
        let (one, other) = (one.to_string(), other.to_string());
        one.bytes()
            .zip(other.bytes())
            .take_while(|(one, other)| one == other)
            .count()
    };
    let mut width = 8;
    for id in shown {
        let Ok(index) = ids.binary_search(&id) else {
            continue;
        };
        for other in [index.checked_sub(1), Some(index + 1)]
            .into_iter()
            .flatten()
            .filter_map(|it| ids.get(it))
        {
            width = width.max(same(id, *other) + 1);
        }
    }
    Ok(width.min(36))
}

/// The ids of all runs, newest first.
fn run_ids(store: &Store) -> impl Iterator<Item = Result<RunId>> {
    let runs = walk(|cursor| {
        let limit = WALKED_AT_ONCE;
        let options = ListRuns {
            limit,
            cursor,
            ..ListRuns::default()
        };
        let page = store.runs().list(&options)?;
        Ok((page.items, page.next))
    });
    runs.map(|run| run.map(|run| run.id))
}

/// All flows, newest first.
pub(crate) fn flows(store: &Store) -> impl Iterator<Item = Result<FlowSummary>> {
    walk(|cursor| {
        let limit = WALKED_AT_ONCE;
        let options = ListFlows {
            limit,
            cursor,
            ..ListFlows::default()
        };
        let page = store.flows().list(&options)?;
        Ok((page.items, page.next))
    })
}

/// The ids of all flows, newest first.
fn flow_ids(store: &Store) -> impl Iterator<Item = Result<RunId>> {
    flows(store).map(|flow| flow.map(|flow| flow.run_id))
}

/// All items of a list, where `list` returns the page at a cursor and the cursor of the next; an error ends the iteration.
pub(crate) fn walk<T>(
    mut list: impl FnMut(Option<String>) -> Result<(Vec<T>, Option<String>)>,
) -> impl Iterator<Item = Result<T>> {
    let mut page = Vec::new().into_iter();
    let mut next = Some(None);
    std::iter::from_fn(move || {
        loop {
            if let Some(item) = page.next() {
                return Some(Ok(item));
            }
            match list(next.take()?) {
                Ok((items, cursor)) => {
                    next = cursor.map(Some);
                    page = items.into_iter();
                }
                Err(error) => return Some(Err(error)),
            }
        }
    })
}
