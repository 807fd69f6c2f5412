//! `runlog flows`: lists flows, and those to be resumed.

use runlog::{RunStatus, blocking::Store, flows::FlowSummary};

use crate::{
    args::Global,
    failure::{Exit, Failure, Result},
    filters::FlowFilter,
    output::Out,
    store, table, text,
};

const AFTER_HELP: &str = "\
A flow is that of a run, whose id it has, or has an id of its own. The flow of a run that is paused goes on once the \
run is resumed; one with an id of its own is resumed by the program that runs it.

What a process that was killed had left running is paused first, which writes to the store, unless another process has it \
open, which may be at work on what is listed, or it can't be written to. A flow is `interrupted` that was running, and that \
nobody has open any more.

With --json one document: {\"items\": [{\"run_id\", \"status\", \"run_status\", \"parent_run_id\", \"resumed_from\", \
\"resumed_by\", \"is_over\", \"is_live\", \"created_at_ms\", \"updated_at_ms\"}], \"next\": the cursor of the next page or \
null}.";

/// The status of a flow that has not ended.
const RUNNING: &str = "running";

/// Whether who opens the store for writing may know better of a flow that has not ended: if it is at work, or that its run was left
/// running by a process that was killed.
pub(super) fn is_in_question(flow: &FlowSummary) -> bool {
    let may_be_left = flow.run_status == Some(RunStatus::Running);
    !flow.is_over && (flow.is_live.is_none() || may_be_left)
}

/// The status of a flow as its reader sees it: its snapshot's, unless that says it is running and nobody has it open.
pub(super) fn status(flow: &FlowSummary) -> &str {
    match flow.is_live == Some(false) && flow.status == RUNNING {
        true => "interrupted",
        false => &flow.status,
    }
}

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    filter: FlowFilter,
}

pub(crate) fn run(global: &Global, args: Args, out: &mut Out) -> Result<Exit> {
    let resumable = args.filter.resumable;
    let store = match resumable {
        true => store::open_recovered(global)?,
        false => store::open_read_only(global)?,
    };
    let options = args.filter.options(&store)?;
    let listed = |store: &Store| store.flows().list(&options).map_err(Failure::of_argument);
    let mut page = listed(&store)?;
    if page.items.iter().any(is_in_question)
        && let Ok(recovered) = store::open_recovered(global)
    {
        page = listed(&recovered)?;
    }
    let empty = match resumable {
        true => "no flow to resume",
        false => "no flows",
    };
    let columns: [table::Cells<'_, FlowSummary>; 4] = [
        (table::left("flow", 36), &|flow| flow.run_id.to_string()),
        (table::left("status", 12), &|flow| status(flow).to_owned()),
        (table::left("its run", 9), &|flow| {
            flow.run_status
                .map_or_else(|| "none".to_owned(), |status| status.to_string())
        }),
        (table::left("created (UTC)", 24), &|flow| {
            text::time_of_year(flow.created_at_ms)
        }),
    ];
    table::page(&page, empty, &columns, out)
}
