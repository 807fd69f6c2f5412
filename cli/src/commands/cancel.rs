//! `runlog cancel`: cancels a run with all runs below it.

use runlog::{
    Orchestrator, RunId, RunStatus,
    agents::{OrchestratorOptions, TokioRuntime},
    blocking::Store,
    runs::ListRuns,
};
use serde::Serialize;

use crate::{
    args::Global,
    failure::{Exit, Failure, Result},
    find,
    output::Out,
    store, text,
};

const AFTER_HELP: &str = "\
The run, and all below it that aren't over, become `cancelled`, in one batch; none of them can be resumed then. What \
they recorded stays. It is for runs that are paused, and those that a killed process left: while a program has the \
store open for writing, its runs are cancelled by it alone (`runlog run`: Ctrl-C pauses it).

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
    let store = store::open(global)?;
    let run = store
        .runs()
        .get(find::run_id(&store, &args.run)?)?
        .ok_or_else(|| find::no_run(&args.run))?;
    if run.status.is_final() {
        let message = format!("run {} is {} already", run.id, run.status);
        return Err(Failure::new(Exit::Conflict, "wrong_status", message));
    }
    let tree = tree(&store, run.id)?;
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::io(&error, "can't start"))?;
    tokio.block_on(async {
        let runtime = TokioRuntime::current()
            .ok_or_else(|| Failure::other("there is no runtime to cancel runs on"))?;
        let orchestrator =
            Orchestrator::new(store.to_async(), runtime, OrchestratorOptions::default());
        Ok::<(), Failure>(orchestrator.cancel(run.id).await?)
    })?;
    let mut cancelled = Vec::new();
    for id in tree {
        let is_cancelled = store
            .runs()
            .get(id)?
            .is_some_and(|run| run.status == RunStatus::Cancelled);
        cancelled.extend(is_cancelled.then_some(id));
    }
    store.close()?;
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
