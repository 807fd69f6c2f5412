//! `runlog resume`: the runs that can be resumed.

use runlog::{
    Run, RunId, RunStatus,
    blocking::Store,
    contexts::DanglingToolCall,
    runs::{ListRuns, MAX_TOTAL_STEPS_PER_RUN},
};
use serde::Serialize;

use crate::{
    args::Global,
    failure::{Exit, Failure, Result},
    filters::Page,
    output::Out,
    store, table, text,
};

const AFTER_HELP: &str = "\
`runlog run --resume RUN -- CMD` goes on from one with an agent that speaks docs/agent-protocol.md; a program that \
records its runs itself calls Runs::resume of the library. Runs that were resumed already are not listed. What a \
process that was killed had left running is paused first, which writes to the store, and listed, unless another process has \
it open or it can't be written to. `runlog runs --status paused` writes in the same way, `runlog ls` never.

With --json one document: {\"items\": [{the run's fields, \"dangling\": [tool calls without a result], \"can_resume\", \
\"command\"}], \"next\": the cursor of the next page or null}.";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP, override_usage = "runlog resume [OPTIONS]")]
pub(crate) struct Args {
    /// List the paused runs, with why they paused and which tool calls have no result: what it does also without this
    #[arg(long)]
    list: bool,
    /// What would go on from a run, which `runlog run` does
    #[arg(hide = true, trailing_var_arg = true)]
    given: Vec<String>,
    #[command(flatten)]
    page: Page,
}

#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    run: Run,
    dangling: Vec<DanglingToolCall>,
    /// Whether the run and its resumes have steps left in their common budget.
    can_resume: bool,
    command: Option<String>,
}

pub(crate) fn run(global: &Global, args: &Args, out: &mut Out) -> Result<Exit> {
    if let Some(run) = args.given.first() {
        return Err(Failure::usage(format!(
            "`runlog resume` lists the paused runs; `runlog run --resume {run} -- CMD` goes on with one"
        )));
    }
    let store = store::open_recovered(global)?;
    let page = resumable(&store, &args.page)?;
    let mut items = Vec::with_capacity(page.items.len());
    for run in page.items {
        if let Some(run) = store.runs().get(run)? {
            items.push(row(&store, run)?);
        }
    }
    if out.is_json() {
        out.value(&runlog::pages::Page {
            items,
            next: page.next,
        })?;
        return Ok(Exit::Ok);
    }
    if items.is_empty() {
        out.line("no run to resume")?;
    }
    for (index, row) in items.iter().enumerate() {
        if index > 0 {
            out.line("")?;
        }
        print(row, out)?;
    }
    table::next(page.next, out)?;
    Ok(Exit::Ok)
}

/// A page of the paused runs that weren't resumed; the list tells which were, so that these cost no reading.
fn resumable(store: &Store, page: &Page) -> Result<runlog::pages::Page<RunId>> {
    let mut items = Vec::new();
    let mut cursor = page.cursor.clone();
    loop {
        let options = ListRuns {
            status: Some(RunStatus::Paused),
            // 0 is refused.
            limit: page.limit - items.len(),
            cursor,
            ..ListRuns::default()
        };
        let listed = store.runs().list(&options).map_err(Failure::of_argument)?;
        let open = listed.items.iter().filter(|run| run.resumed_by.is_none());
        items.extend(open.map(|run| run.id));
        cursor = listed.next;
        if cursor.is_none() || items.len() >= page.limit {
            return Ok(runlog::pages::Page {
                items,
                next: cursor,
            });
        }
    }
}

fn row(store: &Store, run: Run) -> Result<Row> {
    let dangling = store.context(run.instance_id)?.dangling_tool_calls()?;
    let can_resume = run.step_count < MAX_TOTAL_STEPS_PER_RUN;
    let command = can_resume.then(|| format!("runlog run --resume {} -- CMD", run.id));
    Ok(Row {
        run,
        dangling,
        can_resume,
        command,
    })
}

fn print(row: &Row, out: &mut Out) -> Result<()> {
    let run = &row.run;
    let calls = row.dangling.iter().map(|call| match &call.id {
        Some(id) => format!("{} ({id})", call.name),
        None => call.name.clone(),
    });
    let calls = calls.collect::<Vec<_>>().join(", ");
    let next = row.command.clone().unwrap_or_else(|| {
        format!("all {MAX_TOTAL_STEPS_PER_RUN} steps are spent; --max-total-steps N allows more: runlog run --resume {} --max-total-steps N -- CMD", run.id)
    });
    let fields = [
        ("run", Some(run.id.to_string())),
        ("agent", Some(text::name(&run.agent_name))),
        (
            "paused",
            Some(
                run.pause_reason
                    .clone()
                    .unwrap_or_else(|| "no reason was given".to_owned()),
            ),
        ),
        ("steps", Some(text::thousands(run.step_count.into()))),
        (
            "open tool calls",
            Some(if calls.is_empty() {
                "none".to_owned()
            } else {
                calls
            }),
        ),
        ("go on with", Some(next)),
    ];
    table::fields(&fields, out)
}
