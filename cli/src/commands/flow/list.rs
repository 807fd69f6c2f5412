//! `runlog flows`: which flows there are, and which are to be resumed.

use runlog::flows::{FlowSummary, ListFlows};

use crate::{
    args::Global,
    commands::runs::Page,
    failure::{Exit, Failure, Result},
    output::Out,
    store, table, text,
};

const AFTER_HELP: &str = "\
A flow is that of a run, whose id it has, or has an id of its own. The flow of a run that is paused goes on once the \
run is resumed; one with an id of its own is resumed by the program that runs it.

With --resumable, what a process that was killed had left running is paused first, unless another process has the \
store open: that one may be at work on what is listed.

With --json one document: {\"items\": [{\"run_id\", \"status\", \"run_status\", \"parent_run_id\", \"resumed_from\", \
\"resumed_by\", \"is_over\", \"is_live\", \"created_at_ms\", \"updated_at_ms\"}], \"next\": the cursor of the next page or \
null}.";

/// The arguments.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Only flows of this status, as their snapshots say it
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    /// Only flows of runs that this run spawned
    #[arg(long, value_name = "RUN")]
    parent: Option<String>,
    /// Only flows that are to be resumed: not over, and nobody is known to be at work on them
    #[arg(long)]
    resumable: bool,
    #[command(flatten)]
    page: Page,
}

/// Does it.
pub(crate) fn run(global: &Global, args: &Args, out: &mut Out) -> Result<Exit> {
    let store = if args.resumable {
        store::open_recovered(global)?
    } else {
        store::open_read_only(global)?
    };
    let options = ListFlows {
        status: args.status.clone(),
        parent_run_id: args
            .parent
            .as_deref()
            .map(|parent| store::run_id(&store, parent))
            .transpose()?,
        resumable: args.resumable,
        limit: args.page.limit,
        cursor: args.page.cursor.clone(),
    };
    let page = store.flows().list(&options).map_err(Failure::of_argument)?;
    if out.is_json() {
        out.value(&page)?;
    } else if page.items.is_empty() {
        out.line(if args.resumable {
            "no flow to resume"
        } else {
            "no flows"
        })?;
    } else {
        print(&page.items, out)?;
        table::next(page.next, out)?;
    }
    Ok(Exit::Ok)
}

fn print(flows: &[FlowSummary], out: &mut Out) -> Result<()> {
    let rows = flows.iter().map(|flow| {
        vec![
            flow.run_id.to_string(),
            flow.status.clone(),
            flow.run_status
                .map_or_else(|| "none".to_owned(), |status| status.to_string()),
            text::time_of_year(flow.created_at_ms),
        ]
    });
    let columns = [
        table::left("flow", 36),
        table::left("status", 12),
        table::left("its run", 9),
        table::left("made (UTC)", 24),
    ];
    table::print(&columns, &rows.collect::<Vec<_>>(), out)
}
