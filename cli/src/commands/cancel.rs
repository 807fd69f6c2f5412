//! `runlog cancel`: cancels a run with all runs below it.

use runlog::{RunId, RunStatus, blocking::Store, runs::ListRuns};
use serde::Serialize;

use crate::{
    args::Global,
    elsewhere::{by_who_writes, orchestrate},
    failure::{Exit, Failure, Result},
    find,
    output::Out,
    text,
};

const AFTER_HELP: &str = "\
The run, and all below it that aren't over, become `cancelled`, in one batch; none of them can be resumed then. What \
they recorded stays. Runs that another process works on with this store (`runlog run`, `runlog mcp`, a program with an \
orchestrator) are cancelled by that one, which is asked through the store's folder; its agents have a moment to record \
what they have.

With --json one document: {\"cancelled\": [the ids]}.";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The run
    #[arg(value_name = "RUN")]
    run: String,
}

#[derive(Serialize)]
struct Cancelled {
    cancelled: Vec<RunId>,
}

pub(crate) fn run(global: &Global, args: &Args, out: &mut Out) -> Result<Exit> {
    let cancelled = by_who_writes(
        global,
        |store| find::run_id(store, &args.run),
        |store, id| cancel(store, id, &args.run),
    )?;
    if out.is_json() {
        out.value(&Cancelled { cancelled })?;
    } else {
        out.line(format!(
            "cancelled {}",
            text::count(cancelled.len() as u64, "run", "runs")
        ))?;
        for id in cancelled {
            out.line(id.to_string())?;
        }
    }
    Ok(Exit::Ok)
}

/// Cancels a run that isn't over; returns all that were cancelled with it.
fn cancel(store: &Store, id: RunId, name: &str) -> Result<Vec<RunId>> {
    unfinished(store, id, name)?;
    let tree = tree(store, id)?;
    orchestrate(store, |orchestrator| async move {
        orchestrator.cancel(id).await
    })?;
    let mut cancelled = Vec::new();
    for id in tree {
        let is_cancelled = store
            .runs()
            .get(id)?
            .is_some_and(|run| run.status == RunStatus::Cancelled);
        cancelled.extend(is_cancelled.then_some(id));
    }
    // It may have ended by itself meanwhile, and is as it was then.
    if !cancelled.contains(&id) {
        unfinished(store, id, name)?;
    }
    Ok(cancelled)
}

/// An error for a run that is over.
fn unfinished(store: &Store, id: RunId, name: &str) -> Result<()> {
    let run = store.runs().get(id)?.ok_or_else(|| find::no_run(name))?;
    if run.status.is_final() {
        let message = format!("run {} is {} already", run.id, run.status);
        return Err(Failure::new(Exit::Conflict, "wrong_status", message));
    }
    Ok(())
}

/// A run, and the unfinished runs below it.
fn tree(store: &Store, root: RunId) -> Result<Vec<RunId>> {
    let mut tree = vec![root];
    let mut next = 0;
    while let Some(parent) = tree.get(next).copied() {
        next += 1;
        let mut options = ListRuns {
            parent_run_id: Some(parent),
            limit: 1_000,
            ..ListRuns::default()
        };
        loop {
            let page = store.runs().list(&options)?;
            let unfinished = page
                .items
                .iter()
                .filter(|run| !run.status.is_final())
                .map(|run| run.id);
            for id in unfinished {
                // A run that resumes another of the tree may be found by two paths.
                if !tree.contains(&id) {
                    tree.push(id);
                }
            }
            options.cursor = page.next;
            if options.cursor.is_none() {
                break;
            }
        }
    }
    Ok(tree)
}
