//! Opening the store, and finding in it what the command line names.

use std::{
    collections::HashMap,
    ops::ControlFlow,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use runlog::engine::storage::{FsStorage, Storage};
pub(crate) use runlog::engine::{Salvage, Salvaged};
use runlog::log::{Position, ReadOptions, Record, Repair, Sequence, StreamId, Verification};
use runlog::{
    AgentInstance, ErrorKind, InstanceId, RunId, Session, StoreOptions, archive::ImportClock,
    blocking::Store, engine::SystemHost, flows::ListFlows, runs::ListRuns, sessions::ListSessions,
};

use crate::{
    args::Global,
    failure::{Exit, Failure, Result},
    output::note,
};

/// How long to wait before the store is tried again that another process has.
const LOCK_PAUSE: Duration = Duration::from_millis(20);
/// The most runs that are named of those that a process left when it was killed.
const RECOVERED_SHOWN: usize = 3;

/// Opens the store for writing; makes it when it isn't there. Says what a process that was killed had left running.
pub(crate) fn open_or_create(global: &Global) -> Result<Store> {
    Ok(tell_recovered(global, open_quietly(global)?))
}

/// Opens the store for writing what happened before, with its clock; makes it when it isn't there. One that is made for
/// it begins at `first_ms`.
pub(crate) fn open_to_import(
    global: &Global,
    first_ms: Option<u64>,
) -> Result<(Store, Arc<ImportClock>)> {
    let clock = ImportClock::new(Arc::new(SystemHost));
    if let Some(first_ms) = first_ms.filter(|_| !global.store.join("RUNLOG").exists()) {
        clock.stand_at(first_ms);
    }
    let store = opened(
        global,
        Store::open_with(
            &global.store,
            writing(global, StoreOptions::with_host(clock.clone())),
        ),
    )?;
    clock.go_on();
    Ok((tell_recovered(global, store), clock))
}

/// Options of an opening for writing.
fn writing(global: &Global, options: StoreOptions) -> StoreOptions {
    StoreOptions {
        lock_timeout: Duration::from_secs(global.lock_timeout),
        ..options
    }
}

fn tell_recovered(global: &Global, store: Store) -> Store {
    let recovered = store.recovered_runs();
    for run in recovered.iter().take(RECOVERED_SHOWN) {
        let resume = format!("`runlog run --resume {run} -- CMD` goes on from it");
        note(
            global.json,
            format!("paused run {run}, whose process was gone; {resume}"),
        );
    }
    if let Some(more) = recovered
        .len()
        .checked_sub(RECOVERED_SHOWN)
        .filter(|more| *more > 0)
    {
        note(
            global.json,
            format!("… and {more} more; `runlog resume --list` lists them"),
        );
    }
    store
}

/// Opens the store for writing, when it is there. Says what a process that was killed had left running.
pub(crate) fn open(global: &Global) -> Result<Store> {
    if !global.store.exists() {
        return Err(missing(global));
    }
    open_or_create(global)
}

/// Opens the store for writing, for who sees to itself what a process that was killed had left running; makes it when
/// it isn't there.
pub(crate) fn open_quietly(global: &Global) -> Result<Store> {
    opened(
        global,
        Store::open_with(&global.store, writing(global, StoreOptions::default())),
    )
}

/// Opens the store for reading, beside a writer or without one.
pub(crate) fn open_read_only(global: &Global) -> Result<Store> {
    opened(global, Store::open_read_only(&global.store))
}

/// Opens the store for reading what can be gone on with: where nobody has it open for writing, the runs that a killed process
/// left are paused first, and told. Where it can't be written to, they can't be, and are still `running`.
pub(crate) fn open_recovered(global: &Global) -> Result<Store> {
    if !global.store.exists() {
        return Err(missing(global));
    }
    match Store::open_with(&global.store, writing(global, StoreOptions::default())) {
        Ok(store) => Ok(tell_recovered(global, store)),
        Err(error) if matches!(error.kind(), ErrorKind::Locked | ErrorKind::ReadOnly) => {
            if error.kind() == ErrorKind::ReadOnly {
                note(
                    global.json,
                    "the store can't be written to: what a killed process left is still `running`",
                );
            }
            open_read_only(global)
        }
        Err(error) => opened(global, Err(error)),
    }
}

fn opened<T>(global: &Global, store: runlog::Result<T>) -> Result<T> {
    store.map_err(|error| match error.kind() {
        ErrorKind::NotFound => missing(global),
        // They name the folder themselves.
        ErrorKind::NotAStore | ErrorKind::Locked => Failure::from(error),
        _ => Failure::from(error).about(format!("can't open the store {}", global.store.display())),
    })
}

fn missing(global: &Global) -> Failure {
    let message = format!(
        "there is no store at {}; name another one with --store, or make one with `runlog import` or `runlog run`",
        global.store.display()
    );
    Failure::new(Exit::NotFound, "not_found", message)
}

/// The session that the command line names: by id, by the beginning of one, by name, or `@last`.
pub(crate) fn session(store: &Store, text: &str) -> Result<Session> {
    if text == "@last" {
        let newest = store.list_sessions(&ListSessions {
            limit: 1,
            ..ListSessions::default()
        })?;
        return newest.sessions.into_iter().next().ok_or_else(|| {
            Failure::new(
                Exit::NotFound,
                "not_found",
                "there is no session yet, so @last is nothing",
            )
        });
    }
    store.find_session(text).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Failure::new(
            Exit::NotFound,
            "not_found",
            format!("there is no session {text:?}, by id, beginning of an id, or name; `runlog ls` lists them"),
        ),
        _ => error.into(),
    })
}

/// What a command that takes a session or an instance is about.
pub(crate) enum Subject {
    /// A session with its instances, in the order they were made.
    Session(Session, Vec<AgentInstance>),
    /// One instance, and its session.
    Instance(Session, AgentInstance),
}

impl Subject {
    /// The session.
    pub(crate) fn session(&self) -> &Session {
        match self {
            Self::Session(session, _) | Self::Instance(session, _) => session,
        }
    }

    /// The instances, in the order they were made.
    pub(crate) fn instances(&self) -> &[AgentInstance] {
        match self {
            Self::Session(_, instances) => instances,
            Self::Instance(_, instance) => std::slice::from_ref(instance),
        }
    }
}

/// The session or the instance that the command line names.
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
        let message = failure
            .message()
            .replace("no session", "no session or agent instance");
        return Err(Failure::new(Exit::NotFound, "not_found", message));
    };
    let session = store.get_session(instance.session_id)?.ok_or(failure)?;
    Ok(Subject::Instance(session, instance))
}

/// The instance with this id, or the only one whose id begins so.
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
                return Err(Failure::new(
                    Exit::NotFound,
                    ErrorKind::Ambiguous.name(),
                    message,
                ));
            }
            found = Some(instance);
        }
    }
    Ok(found)
}

/// All sessions, newest first, a page at a time.
pub(crate) fn sessions(store: &Store) -> impl Iterator<Item = Result<Session>> {
    let mut options = ListSessions {
        limit: 500,
        ..ListSessions::default()
    };
    let mut page = Vec::new().into_iter();
    let mut is_last = false;
    std::iter::from_fn(move || {
        loop {
            if let Some(session) = page.next() {
                return Some(Ok(session));
            }
            if is_last {
                return None;
            }
            match store.list_sessions(&options) {
                Ok(next) => {
                    is_last = next.next.is_none();
                    options.cursor = next.next;
                    page = next.sessions.into_iter();
                }
                Err(error) => {
                    is_last = true;
                    return Some(Err(error.into()));
                }
            }
        }
    })
}

/// So many of the ids that fit are told.
const CANDIDATES_MAX: usize = 4;

/// How many runs are walked to tell how much of an id is enough; with more of them, ids are shown whole.
const RUNS_WALKED_MAX: usize = 10_000;

/// The run that the command line names: by id, by the beginning of one, or `@last`.
pub(crate) fn run_id(store: &Store, text: &str) -> Result<RunId> {
    if let Ok(id) = text.parse::<RunId>() {
        return Ok(id);
    }
    if text == "@last" {
        let newest = store.runs().list(&ListRuns {
            limit: 1,
            ..ListRuns::default()
        })?;
        let none = || {
            Failure::new(
                Exit::NotFound,
                "not_found",
                "there is no run yet, so @last is nothing",
            )
        };
        return newest.items.first().map(|run| run.id).ok_or_else(none);
    }
    let candidates = beginning_so(text, run_ids(store))?;
    only_one(text, "runs", &candidates)?.ok_or_else(|| no_run(text))
}

/// Some of the ids that begin with what the command line gave, as many as are told where several do.
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

/// The only one of the ids that begin so; more of them is an error that says what a session's would.
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
            Err(Failure::new(
                Exit::NotFound,
                ErrorKind::Ambiguous.name(),
                message,
            ))
        }
    }
}

/// The flow that the command line names: by id, by the beginning of one, or `@last`. A run that has no flow is told so.
pub(crate) fn flow_id(store: &Store, text: &str) -> Result<RunId> {
    if text == "@last" {
        let newest = store.flows().list(&ListFlows {
            limit: 1,
            ..ListFlows::default()
        })?;
        let none = || {
            Failure::new(
                Exit::NotFound,
                "not_found",
                "there is no flow yet, so @last is nothing",
            )
        };
        return newest
            .items
            .first()
            .map(|flow| flow.run_id)
            .ok_or_else(none);
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

/// There is no such flow.
pub(crate) fn no_flow(text: &str) -> Failure {
    let message = format!(
        "there is no flow {text:?}, by id or beginning of an id; `runlog flows` lists them"
    );
    Failure::new(Exit::NotFound, "not_found", message)
}

/// There is no such run.
pub(crate) fn no_run(text: &str) -> Failure {
    let message =
        format!("there is no run {text:?}, by id or beginning of an id; `runlog runs` lists them");
    Failure::new(Exit::NotFound, "not_found", message)
}

/// How much of a run's id is enough to name it, for each of those that are asked for.
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
    let mut options = ListRuns {
        limit: 500,
        ..ListRuns::default()
    };
    paged(move |cursor| {
        options.cursor = cursor;
        let page = store.runs().list(&options)?;
        Ok((page.items.iter().map(|run| run.id).collect(), page.next))
    })
}

/// The ids of all flows, newest first.
fn flow_ids(store: &Store) -> impl Iterator<Item = Result<RunId>> {
    let mut options = ListFlows {
        limit: 500,
        ..ListFlows::default()
    };
    paged(move |cursor| {
        options.cursor = cursor;
        let page = store.flows().list(&options)?;
        Ok((
            page.items.iter().map(|flow| flow.run_id).collect(),
            page.next,
        ))
    })
}

/// Ids that are listed a page at a time, each with the cursor of the next; an error ends them.
fn paged<F>(mut list: F) -> impl Iterator<Item = Result<RunId>>
where
    F: FnMut(Option<String>) -> Result<(Vec<RunId>, Option<String>)>,
{
    let mut page = Vec::new().into_iter();
    let mut next = Some(None);
    std::iter::from_fn(move || {
        loop {
            if let Some(id) = page.next() {
                return Some(Ok(id));
            }
            match list(next.take()?) {
                Ok((ids, cursor)) => {
                    next = cursor.map(Some);
                    page = ids.into_iter();
                }
                Err(error) => return Some(Err(error)),
            }
        }
    })
}

/// How many events an instance has.
pub(crate) fn event_count(store: &Store, instance: InstanceId) -> Result<u64> {
    let info = pollster::block_on(store.backend().stream(StreamId(instance.as_uuid())))?;
    Ok(info.map_or(0, |info| info.last_sequence.0))
}

/// The records of a stream in order, a page at a time; none when there is no such stream.
pub(crate) fn records(store: &Store, stream: StreamId) -> impl Iterator<Item = Result<Record>> {
    let mut next = Some(Sequence::FIRST);
    let mut page = Vec::new().into_iter();
    std::iter::from_fn(move || {
        loop {
            if let Some(record) = page.next() {
                return Some(Ok(record));
            }
            let options = ReadOptions {
                first: next?,
                ..ReadOptions::default()
            };
            match pollster::block_on(store.backend().read(stream, options)) {
                Ok(read) => {
                    next = read.next.filter(|_| !read.records.is_empty());
                    page = read.records.into_iter();
                }
                Err(error) => {
                    next = None;
                    return (error.kind() != ErrorKind::NotFound).then(|| Err(error.into()));
                }
            }
        }
    })
}

/// Says whose the streams of a log are.
#[derive(Default)]
pub(crate) struct Owners {
    known: HashMap<StreamId, Option<AgentInstance>>,
}

impl Owners {
    /// The instance whose context a stream is.
    pub(crate) fn of(&mut self, store: &Store, stream: StreamId) -> Result<Option<&AgentInstance>> {
        // A stream that is nobody's yet may be someone's later, so only instances are remembered.
        if !matches!(self.known.get(&stream), Some(Some(_))) {
            let instance = store.get_instance(InstanceId(stream.0))?;
            self.known.insert(stream, instance);
        }
        Ok(self.known.get(&stream).and_then(Option::as_ref))
    }
}

/// The last position of the log that is durable.
pub(crate) fn last_position(store: &Store) -> Result<Position> {
    Ok(pollster::block_on(
        store.backend().maintenance().last_position(),
    )?)
}

/// Checks every byte of the store; `progress` is told how many of how many bytes were read.
pub(crate) fn verify(global: &Global, progress: &mut dyn FnMut(u64, u64)) -> Result<Verification> {
    let found = runlog::engine::verify_with(&FsStorage::new(&global.store), progress);
    opened(global, found)
}

/// Gives every whole record of a folder, whether it opens as a store or not.
pub(crate) fn salvage(
    folder: &Path,
    visit: &mut dyn FnMut(Salvaged) -> ControlFlow<()>,
) -> Result<Salvage> {
    Ok(runlog::engine::salvage(&FsStorage::new(folder), visit)?)
}

/// Repairs the store.
pub(crate) fn repair(global: &Global) -> Result<Repair> {
    let storage: Arc<dyn Storage> = Arc::new(FsStorage::new(&global.store));
    let begun = Instant::now();
    loop {
        let repaired = runlog::engine::repair(&storage, "runlog verify --repair", &SystemHost);
        match repaired {
            Err(error)
                if error.kind() == ErrorKind::Locked
                    && begun.elapsed() < Duration::from_secs(global.lock_timeout) =>
            {
                std::thread::sleep(LOCK_PAUSE);
            }
            repaired => return opened(global, repaired),
        }
    }
}
