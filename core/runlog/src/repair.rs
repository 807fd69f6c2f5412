//! [`Store::repair`]: repairs a store's log, and lets its lists go on without what they lost.

use std::sync::Arc;

use runlog_engine::{Embedded, Host, OpenOptions, Preallocation, Wait, storage::Storage};
use runlog_log::{Position, ReadOptions, StreamId};

use crate::{
    ErrorKind, Result, Store,
    agents::AGENTS_STREAM,
    engine,
    kernel::{catalog::CATALOG_STREAM, flows::FLOWS_STREAM, runs::RUNS_STREAM},
    log::Repair,
};

/// The lists of a store, with their names for people.
const LISTS: [(StreamId, &str); 4] = [
    (CATALOG_STREAM, "sessions"),
    (RUNS_STREAM, "runs"),
    (FLOWS_STREAM, "flows"),
    (AGENTS_STREAM, "agents"),
];
const REASON: &str = "it can't be read: passed over by a repair";

impl Store {
    /// Repairs a store: its log, as [`engine::repair`](crate::engine::repair) does, and its lists.
    ///
    /// Sessions, runs, flows and agents are listed by folding a stream of events each, so one event that can't be read would end
    /// all of a list. The lists go on without such events, as long as they can't be read:
    ///
    /// - A session whose creation is lost is listed under a title that says so, as soon as another event tells of it. Its name, its
    ///   project and its metadata are lost.
    /// - A run is listed again as its own events tell, and an agent instance as its runs tell; one without a run in a session of its
    ///   own.
    /// - What a lost event had changed is as it was before: a session whose deletion is lost is there again, unless its name was given
    ///   to another since.
    ///
    /// Records of contexts, chats and runs are not passed over: reading one that is lost stays an error, so that no conversation
    /// goes on without a part of it unseen. [`engine::Store::pass_over`](crate::engine::Store::pass_over) does it, if that is wanted.
    ///
    /// # Errors
    /// As [`engine::repair`](crate::engine::repair), and those of opening the repaired store, which is locked meanwhile. It may be
    /// repeated.
    pub fn repair(storage: &Arc<dyn Storage>, holder: &str, host: Arc<dyn Host>) -> Result<Repair> {
        let mut repair = engine::repair(storage, holder, &*host)?;
        if repair.left.is_empty() {
            return Ok(repair);
        }
        let listed = repair_lists(storage, &host, &mut repair.actions);
        match listed {
            // A store that still doesn't open, such as one with a pack without an index: what is left of it says so.
            Err(error) if error.kind() == ErrorKind::Damaged => {}
            // What was done is reported all the same.
            Err(error) if !repair.actions.is_empty() => {
                let message = format!("nothing in the lists, for now: {error}");
                repair.actions.push(message);
            }
            listed => listed?,
        }
        Ok(repair)
    }
}

/// Lets the lists go on without what they lost, and lists again what other events tell.
fn repair_lists(
    storage: &Arc<dyn Storage>,
    host: &Arc<dyn Host>,
    actions: &mut Vec<String>,
) -> Result<()> {
    // A few records are written.
    let options = || OpenOptions {
        preallocation: Preallocation::None,
        ..OpenOptions::with_host(Arc::clone(host))
    };
    let store = engine::Store::open_on(Arc::clone(storage), options())?;
    let mut is_incomplete = false;
    for (stream, name) in LISTS {
        let lost = match store.unreadable(stream) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            lost => lost?,
        };
        // Also what an earlier repair passed over, which may have been cut off before anything was listed again.
        is_incomplete |= [CATALOG_STREAM, RUNS_STREAM].contains(&stream)
            && (!lost.is_empty() || has_redacted(&store, stream)?);
        if lost.is_empty() {
            continue;
        }
        let positions: Vec<Position> = lost.iter().map(|(_, position)| *position).collect();
        store.pass_over(&positions, REASON)?;
        let events = match lost.as_slice() {
            [(sequence, _)] => format!("event {sequence}, which is"),
            several => format!("{} events, which are", several.len()),
        };
        actions.push(format!("list of {name}: goes on without {events} lost"));
    }
    store.close()?;
    if is_incomplete {
        let embedded = Embedded::open_on(Arc::clone(storage), options(), Wait::Block)?;
        let store = Store::with_backend(Arc::new(embedded));
        let relisted = pollster::block_on(store.runs().relist())?;
        pollster::block_on(store.close())?;
        let runs = relisted.runs.iter().map(|id| format!("run {id}"));
        let instances = relisted.instances.iter().map(|id| format!("instance {id}"));
        actions.extend(
            runs.chain(instances)
                .map(|what| format!("{what}: listed again")),
        );
    }
    Ok(())
}

/// Whether an event of a list was redacted. What can't be read is none.
fn has_redacted(store: &engine::Store, stream: StreamId) -> Result<bool> {
    for record in store.read(stream, ReadOptions::default())? {
        match record {
            Ok(record) if record.redacted => return Ok(true),
            Err(error) if error.kind() != ErrorKind::Damaged => return Err(error),
            _ => {}
        }
    }
    Ok(false)
}
