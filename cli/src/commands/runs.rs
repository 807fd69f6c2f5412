//! `runlog runs`, `runlog messages`, `runlog tool-calls`: the history of agents, run by run.

use runlog::{
    RawJson, Run, RunId, RunStatus,
    blocking::Store,
    runs::{ListRuns, RunDetails, RunMessage, RunSummary, ToolCall},
};

use crate::{
    args::Global,
    failure::{Exit, Failure, Result},
    filters::{MessageFilter, Page, RunFilter, ToolCallFilter},
    find,
    output::Out,
    store, table, text, view,
};

const AFTER_HELP: &str = "\
The first column is the beginning of the run's id, as long as it has to be to name it. A run that was resumed keeps its \
status, and tells which run resumed it. What a process that was killed had \
left running is paused first, which writes to the store, and reported: unless another process has the store open, it can't be \
written to, or --status asks for runs that are over. `runlog ls` and `runlog run show` never write.

With --json one document: {\"items\": [the runs, with their fields], \"next\": the cursor of the next page or null}. \
`runlog run show` shows one of them.";

const AFTER_HELP_PAGE: &str = "\
With --json one document: {\"items\": [each with its fields], \"next\": the cursor of the next page or null}; of one \
alone, its fields.";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    filter: RunFilter,
}

#[derive(clap::Args)]
#[command(after_help = "With --json one document: the run with its fields.")]
pub(crate) struct ShowArgs {
    /// The run: its id, the beginning of it, or @last (the newest of the last session's first agent)
    #[arg(value_name = "RUN")]
    run: String,
}

#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("details").args(["usage", "metadata"]).required(true).multiple(true))]
#[command(after_help = "\
What is left out stays as it was. The run may be at work, paused or over. One that is resumed gives its metadata to the run \
that goes on from it, and keeps its usage, which is each run's own.

With --json one document: the run with its fields.")]
pub(crate) struct DescribeArgs {
    /// The run: its id, the beginning of it, or @last (the newest of the last session's first agent)
    #[arg(value_name = "RUN")]
    run: String,
    /// What it took, such as tokens and their cost: a JSON object
    #[arg(long, value_name = "JSON")]
    usage: Option<String>,
    /// Anything else, as JSON
    #[arg(long, value_name = "JSON")]
    metadata: Option<String>,
}

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP_PAGE)]
pub(crate) struct MessagesArgs {
    /// The run: its id, the beginning of it, or @last (the newest of the last session's first agent)
    #[arg(value_name = "RUN")]
    run: String,
    /// Read this message alone, whole
    #[arg(value_name = "ID", conflicts_with_all = ["step_number", "limit", "cursor"])]
    id: Option<u64>,
    #[command(flatten)]
    filter: MessageFilter,
    #[command(flatten)]
    page: Page,
}

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP_PAGE)]
pub(crate) struct ToolCallsArgs {
    /// The run: its id, the beginning of it, or @last (the newest of the last session's first agent)
    #[arg(value_name = "RUN")]
    run: String,
    /// Read this call alone, with its whole input and output
    #[arg(value_name = "ID", conflicts_with_all = ["tool_name", "status", "limit", "cursor"])]
    id: Option<u64>,
    #[command(flatten)]
    filter: ToolCallFilter,
    #[command(flatten)]
    page: Page,
}

pub(crate) fn run(global: &Global, args: Args, out: &mut Out) -> Result<Exit> {
    let mut store = store::open_read_only(global)?;
    let options = args.filter.options(&store)?;
    let listed = |options: &ListRuns, store: &Store| {
        store.runs().list(options).map_err(Failure::of_argument)
    };
    let mut page = listed(&options, &store)?;
    // A run left by a killed process is `running` until the store is opened for writing, which pauses it. That is done
    // only if there is such a run, since it locks the store. If the store can't be opened for writing, runs are listed
    // as they are.
    let running = ListRuns {
        status: Some(RunStatus::Running),
        limit: 1,
        ..ListRuns::default()
    };
    if matches!(
        options.status,
        None | Some(RunStatus::Running | RunStatus::Paused)
    ) && !listed(&running, &store)?.items.is_empty()
        && let Ok(recovered) = store::open_recovered(global)
    {
        page = listed(&options, &recovered)?;
        store = recovered;
    }
    let width = match out.is_json() {
        true => 0,
        false => {
            let shown = page.items.iter();
            let shown = shown.flat_map(|run| [Some(run.id), run.resumed_by]);
            find::run_id_width(&store, shown.flatten())?
        }
    };
    let columns: [table::Cells<'_, RunSummary>; 6] = [
        (table::left("run", 36), &|run| {
            run.id.to_string()[..width].to_owned()
        }),
        (table::left("status", 9), &|run| run.status.to_string()),
        (table::right("steps"), &|run| {
            text::thousands(run.step_count.into())
        }),
        (table::left("created (UTC)", 24), &|run| {
            text::time_of_year(run.created_at_ms)
        }),
        (table::left("resumed by", 36), &|run| {
            run.resumed_by
                .map(|by| by.to_string()[..width].to_owned())
                .unwrap_or_default()
        }),
        (table::left("agent", 80), &|run| run.agent_name.clone()),
    ];
    table::page(&page, "no runs", &columns, out)
}

pub(crate) fn show(global: &Global, args: &ShowArgs, out: &mut Out) -> Result<Exit> {
    let store = store::open_read_only(global)?;
    let run = store
        .runs()
        .get(find::run_id(&store, &args.run)?)?
        .ok_or_else(|| find::no_run(&args.run))?;
    print_run(&run, out)
}

pub(crate) fn describe(global: &Global, args: &DescribeArgs, out: &mut Out) -> Result<Exit> {
    let json = |option: &str, text: &Option<String>| {
        let parsed = text.as_deref().map(RawJson::parse).transpose();
        parsed.map_err(|error| Failure::usage(format!("{option} is no JSON: {error}")))
    };
    let details = RunDetails {
        usage: json("--usage", &args.usage)?,
        metadata: json("--metadata", &args.metadata)?,
    };
    let store = store::open(global)?;
    let id = find::run(&store, &args.run)?;
    let run = store
        .runs()
        .describe(id, details)
        .map_err(Failure::of_argument)?;
    store.close()?;
    print_run(&run, out)
}

fn print_run(run: &Run, out: &mut Out) -> Result<Exit> {
    let utc = |ms| format!("{} UTC", text::time(ms));
    let id = |id: Option<RunId>| id.map(|id| id.to_string());
    let fields = [
        ("run", Some(run.id.to_string())),
        ("agent", Some(run.agent_name.clone())),
        ("status", Some(run.status.to_string())),
        ("pause reason", run.pause_reason.clone()),
        ("stopped by", run.stop_kind.map(|kind| kind.to_string())),
        ("error", run.error_message.clone()),
        ("summary", run.summary.clone()),
        ("steps in all", Some(text::thousands(run.step_count.into()))),
        (
            "max steps",
            run.max_steps
                .map(|steps| format!("{} in this run", text::thousands(steps.into()))),
        ),
        ("session", Some(run.session_id.to_string())),
        ("instance", Some(run.instance_id.to_string())),
        ("project", run.project.clone()),
        ("parent", id(run.parent_run_id)),
        ("resumed from", id(run.resumed_from)),
        ("resumed by", id(run.resumed_by)),
        ("node", run.node_id.clone()),
        ("made", Some(utc(run.created_at_ms))),
        ("over", run.completed_at_ms.map(utc)),
        ("took", run.duration_ms.map(text::milliseconds)),
        ("usage", run.usage.as_ref().map(RawJson::to_string)),
        ("metadata", run.metadata.as_ref().map(RawJson::to_string)),
    ];
    table::one(run, &fields, out)
}

pub(crate) fn messages(global: &Global, args: MessagesArgs, out: &mut Out) -> Result<Exit> {
    let store = store::open_read_only(global)?;
    let options = args.filter.on(args.page);
    let run = find::run(&store, &args.run)?;
    if let Some(id) = args.id {
        return message(&store, run, id, out);
    }
    let page = store
        .runs()
        .messages(run, &options)
        .map_err(Failure::of_argument)?;
    let width = out.width();
    let columns: [table::Cells<'_, RunMessage>; 4] = [
        (table::right("id"), &|message| message.id.to_string()),
        (table::right("step"), &|message| {
            message.step_number.to_string()
        }),
        (table::left("from", 11), &|message| {
            view::kind_name(message.role.event_kind()).to_owned()
        }),
        (table::left("message", 120), &|message| {
            view::summary_of(message.role.event_kind(), &message.content, width)
        }),
    ];
    table::page(&page, "no messages", &columns, out)
}

fn message(store: &Store, run: RunId, id: u64, out: &mut Out) -> Result<Exit> {
    let message = store
        .runs()
        .message(run, id)?
        .ok_or_else(|| none_of(run, "message", id))?;
    let fields = [
        ("message", Some(message.id.to_string())),
        (
            "from",
            Some(view::kind_name(message.role.event_kind()).to_owned()),
        ),
        ("step", Some(message.step_number.to_string())),
        (
            "recorded",
            Some(format!("{} UTC", text::time(message.created_at_ms))),
        ),
        ("content", Some(message.content.as_str().to_owned())),
    ];
    table::one(&message, &fields, out)
}

fn none_of(run: RunId, what: &str, id: u64) -> Failure {
    Failure::not_found(format!(
        "run {run} has no {what} {id}; the list tells the ids"
    ))
}

pub(crate) fn tool_calls(global: &Global, args: ToolCallsArgs, out: &mut Out) -> Result<Exit> {
    let store = store::open_read_only(global)?;
    let options = args.filter.on(args.page);
    let run = find::run(&store, &args.run)?;
    if let Some(id) = args.id {
        return tool_call(&store, run, id, out);
    }
    let page = store
        .runs()
        .tool_calls(run, &options)
        .map_err(Failure::of_argument)?;
    let columns: [table::Cells<'_, ToolCall>; 6] = [
        (table::right("id"), &|call| call.id.to_string()),
        (table::right("step"), &|call| call.step_number.to_string()),
        (table::left("status", 9), &|call| {
            call.status.name().to_owned()
        }),
        (table::right("ms"), &|call| {
            call.duration_ms.map(text::thousands).unwrap_or_default()
        }),
        (table::left("tool", 16), &|call| call.tool_name.clone()),
        (table::left("input → output", 120), &|call| {
            let output = call.output.as_ref().map_or("", |output| output.as_str());
            format!("{} → {output}", call.input.as_str())
        }),
    ];
    table::page(&page, "no tool calls", &columns, out)
}

fn tool_call(store: &Store, run: RunId, id: u64, out: &mut Out) -> Result<Exit> {
    let call = store
        .runs()
        .tool_call(run, id)?
        .ok_or_else(|| none_of(run, "tool call", id))?;
    let fields = [
        ("tool call", Some(call.id.to_string())),
        ("tool", Some(text::name(&call.tool_name))),
        ("status", Some(call.status.name().to_owned())),
        ("took", call.duration_ms.map(text::milliseconds)),
        ("step", Some(call.step_number.to_string())),
        ("message", call.message_id.map(|id| id.to_string())),
        (
            "provider's id",
            call.tool_call_id.as_deref().map(text::name),
        ),
        (
            "recorded",
            Some(format!("{} UTC", text::time(call.created_at_ms))),
        ),
        ("input", Some(call.input.as_str().to_owned())),
        (
            "output",
            call.output
                .as_ref()
                .map(|output| output.as_str().to_owned()),
        ),
    ];
    table::one(&call, &fields, out)
}
