//! Stores with many runs, and first pages of them.

use std::{
    io,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use runlog::{
    Durability, NewRun, NewSession, RunId, RunStatus, StoreOptions,
    blocking::Store,
    engine::{Embedded, Wait},
    runs::ListRuns,
};

use crate::{children::anonymous_bytes, measure::rate, workload::stream};

/// How many runs a page has.
const PAGE: usize = 50;
/// How many runs have one parent.
const CHILDREN: u32 = 60;

/// The filters whose first page is measured.
pub const FILTERS: [&str; 4] = ["status", "agent", "parent", "agent and status"];

fn id(number: u32) -> RunId {
    RunId(stream(number).0)
}

/// Makes a store of this many runs, each with a session and an instance of its own: of two agents, sixty to a parent,
/// one in ten paused and one in ten failed, the others completed.
///
/// # Errors
///
/// Those of the store.
pub fn prepare(path: &Path, runs: u32) -> io::Result<()> {
    let options = StoreOptions {
        durability: Durability::Os,
        ..StoreOptions::default()
    };
    let store = Store::open_with(path, options).map_err(io::Error::other)?;
    for number in 0..runs {
        let agent = format!("agent {}", number % 2);
        let new = NewRun {
            id: Some(id(number)),
            parent_run_id: (number >= CHILDREN).then(|| id(number / CHILDREN)),
            ..NewRun::in_new_session(NewSession::default(), agent)
        };
        let run = store.runs().start(new).map_err(io::Error::other)?;
        // So that each agent has runs of each status.
        let ended = match number / 10 % 10 {
            0 => run.pause("lunch"),
            1 => run.fail("boom"),
            _ => run.complete(None),
        };
        ended.map_err(io::Error::other)?;
    }
    store.close().map_err(io::Error::other)
}

/// The filter of a name, for a store of so many runs.
fn filter(name: &str, runs: u32) -> ListRuns {
    let (status, agent_name) = (Some(RunStatus::Paused), Some("agent 1".to_owned()));
    let all = ListRuns {
        limit: PAGE,
        ..ListRuns::default()
    };
    match name {
        "status" => ListRuns { status, ..all },
        "agent" => ListRuns { agent_name, ..all },
        "parent" => ListRuns {
            parent_run_id: Some(id(runs / CHILDREN / 2)),
            ..all
        },
        _ => ListRuns {
            status,
            agent_name,
            ..all
        },
    }
}

/// First pages a second of the runs that a filter lets pass.
///
/// # Errors
///
/// Those of the store.
pub fn first_pages(store: &Store, name: &str, runs: u32, budget: Duration) -> io::Result<f64> {
    let filter = filter(name, runs);
    rate(budget, || {
        let page = store.runs().list(&filter).map_err(io::Error::other)?;
        if page.items.len() != PAGE {
            return Err(io::Error::other(format!(
                "a page has {} runs",
                page.items.len()
            )));
        }
        Ok(1)
    })
}

/// What opening a store takes, in a process that has done nothing else.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// How long the engine took.
    pub engine_seconds: f64,
    /// And from then on until the first page of runs was there.
    pub runs_seconds: f64,
    /// And from then on until the first session was.
    pub sessions_seconds: f64,
    /// The memory that the runs took, without the engine's streams.
    pub runs_bytes: f64,
    /// The memory that sessions and instances took.
    pub sessions_bytes: f64,
}

/// Opens a store, lists runs, then sessions.
///
/// # Errors
///
/// Those of the store.
pub fn open(path: &Path) -> io::Result<Opening> {
    let start = Instant::now();
    let embedded =
        Embedded::open(path, StoreOptions::default(), Wait::Block).map_err(io::Error::other)?;
    let (engine_seconds, engine) = (start.elapsed().as_secs_f64(), anonymous_bytes());
    let start = Instant::now();
    let store = Store::with_backend(Arc::new(embedded));
    store
        .runs()
        .list(&ListRuns::default())
        .map_err(io::Error::other)?;
    let (runs_seconds, runs) = (start.elapsed().as_secs_f64(), anonymous_bytes());
    let start = Instant::now();
    store
        .list_sessions(&runlog::sessions::ListSessions::default())
        .map_err(io::Error::other)?;
    let opening = Opening {
        engine_seconds,
        runs_seconds,
        sessions_seconds: start.elapsed().as_secs_f64(),
        runs_bytes: runs - engine,
        sessions_bytes: anonymous_bytes() - runs,
    };
    store.close().map_err(io::Error::other)?;
    Ok(opening)
}
