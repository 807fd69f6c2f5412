//! `runlog runs`, `runlog messages`, `runlog tool-calls`: what agents did, run by run.

use clap::builder::RangedU64ValueParser;
use runlog::{
    RunId, RunStatus,
    blocking::Store,
    runs::{ListRunMessages, ListRuns, ListToolCalls, RunSummary, ToolCallStatus},
};

use crate::{
    args::Global,
    failure::{Exit, Failure, Result},
    output::Out,
    store, table, text, view,
};

const AFTER_HELP: &str = "\
The first column is the beginning of the run's id, as long as it has to be to name it.

With --json one document: {\"items\": [the runs, with their fields], \"next\": the cursor of the next page or null}. \
`runlog run show` shows one of them.";

const AFTER_HELP_PAGE: &str = "\
With --json one document: {\"items\": [each with its fields], \"next\": the cursor of the next page or null}; of one \
alone, its fields.";

/// The arguments.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Sub>,
    /// Only runs of this status: running, paused, completed, failed, cancelled
    #[arg(long, value_name = "STATUS")]
    status: Option<RunStatus>,
    /// Only runs of this agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Only runs that this run spawned
    #[arg(long, value_name = "RUN")]
    parent: Option<String>,
    /// Only runs in this session
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// Only runs of this project
    #[arg(long)]
    project: Option<String>,
    #[command(flatten)]
    page: Page,
}

/// Which page of a list.
#[derive(clap::Args)]
pub(crate) struct Page {
    /// At most so many
    #[arg(short = 'n', long, default_value = "50", value_name = "N",
        value_parser = RangedU64ValueParser::<usize>::new().range(1..=100_000))]
    pub(crate) limit: usize,
    /// Go on where the page before ended, with the same filters
    #[arg(long, value_name = "C")]
    pub(crate) cursor: Option<String>,
}

#[derive(clap::Subcommand)]
enum Sub {
    /// Show a run's fields: the same as `run show`
    #[command(hide = true)]
    Show(ShowArgs),
    /// List the messages of a run: the same as `messages`
    #[command(hide = true)]
    Messages(MessagesArgs),
    /// List the tool calls of a run: the same as `tool-calls`
    #[command(hide = true)]
    ToolCalls(ToolCallsArgs),
}

/// The arguments of `run show`.
#[derive(clap::Args)]
#[command(after_help = "With --json one document: the run with its fields.")]
pub(crate) struct ShowArgs {
    /// The run
    #[arg(value_name = "RUN")]
    run: String,
}

/// The arguments of `messages`.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP_PAGE)]
pub(crate) struct MessagesArgs {
    /// The run
    #[arg(value_name = "RUN")]
    run: String,
    /// Read this message alone, whole
    #[arg(value_name = "ID", conflicts_with_all = ["step", "limit", "cursor"])]
    id: Option<u64>,
    /// Only messages of this step
    #[arg(long, value_name = "N")]
    step: Option<u32>,
    #[command(flatten)]
    page: Page,
}

/// The arguments of `tool-calls`.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP_PAGE)]
pub(crate) struct ToolCallsArgs {
    /// The run
    #[arg(value_name = "RUN")]
    run: String,
    /// Read this call alone, with its whole input and output
    #[arg(value_name = "ID", conflicts_with_all = ["tool", "status", "limit", "cursor"])]
    id: Option<u64>,
    /// Only calls of this tool
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Only calls of this status: pending, completed, error
    #[arg(long, value_name = "STATUS")]
    status: Option<ToolCallStatus>,
    #[command(flatten)]
    page: Page,
}

/// Does what `runs` says.
pub(crate) fn run(global: &Global, args: &Args, out: &mut Out) -> Result<Exit> {
    match &args.command {
        None => list(global, args, out),
        Some(Sub::Show(args)) => show(global, args, out),
        Some(Sub::Messages(args)) => messages(global, args, out),
        Some(Sub::ToolCalls(args)) => tool_calls(global, args, out),
    }
}

fn list(global: &Global, args: &Args, out: &mut Out) -> Result<Exit> {
    let store = store::open_read_only(global)?;
    let options = ListRuns {
        status: args.status,
        agent_id: args.agent.clone(),
        parent_run_id: args
            .parent
            .as_deref()
            .map(|parent| existing(&store, parent))
            .transpose()?,
        session_id: args
            .session
            .as_deref()
            .map(|it| store::session(&store, it))
            .transpose()?
            .map(|it| it.id),
        project: args.project.clone(),
        limit: args.page.limit,
        cursor: args.page.cursor.clone(),
    };
    let page = store.runs().list(&options).map_err(Failure::of_argument)?;
    if out.is_json() {
        out.value(&page)?;
    } else if page.items.is_empty() {
        out.line("no runs")?;
    } else {
        print(&store, &page.items, out)?;
        table::next(page.next, out)?;
    }
    Ok(Exit::Ok)
}

fn print(store: &Store, runs: &[RunSummary], out: &mut Out) -> Result<()> {
    let width = store::run_id_width(store, runs.iter().map(|run| run.id))?;
    let rows = runs.iter().map(|run| {
        vec![
            run.id.to_string()[..width].to_owned(),
            run.status.to_string(),
            text::thousands(run.step_count.into()),
            text::time_of_year(run.created_at_ms),
            run.agent_id.clone(),
        ]
    });
    let columns = [
        table::left("run", 36),
        table::left("status", 9),
        table::right("steps"),
        table::left("made (UTC)", 24),
        table::left("agent", 80),
    ];
    table::print(&columns, &rows.collect::<Vec<_>>(), out)
}

/// The run that is named, which has to be there.
fn existing(store: &Store, text: &str) -> Result<RunId> {
    let id = store::run_id(store, text)?;
    store
        .runs()
        .get(id)?
        .map(|run| run.id)
        .ok_or_else(|| store::no_run(text))
}

/// Does what `run show` says.
pub(crate) fn show(global: &Global, args: &ShowArgs, out: &mut Out) -> Result<Exit> {
    let store = store::open_read_only(global)?;
    let run = store
        .runs()
        .get(store::run_id(&store, &args.run)?)?
        .ok_or_else(|| store::no_run(&args.run))?;
    if out.is_json() {
        out.value(&run)?;
        return Ok(Exit::Ok);
    }
    let fields = [
        ("run", Some(run.id.to_string())),
        ("agent", Some(run.agent_id)),
        ("status", Some(run.status.to_string())),
        ("pause reason", run.pause_reason),
        ("error", run.error_message),
        ("summary", run.summary),
        ("steps", Some(text::thousands(run.step_count.into()))),
        (
            "most steps",
            run.max_steps.map(|steps| text::thousands(steps.into())),
        ),
        ("session", Some(run.session_id.to_string())),
        ("instance", Some(run.instance_id.to_string())),
        ("project", run.project),
        ("parent", run.parent_run_id.map(|id| id.to_string())),
        ("resumed from", run.resumed_from.map(|id| id.to_string())),
        ("resumed by", run.resumed_by.map(|id| id.to_string())),
        ("node", run.node_id),
        (
            "made",
            Some(format!("{} UTC", text::time(run.created_at_ms))),
        ),
        (
            "over",
            run.completed_at_ms
                .map(|at| format!("{} UTC", text::time(at))),
        ),
        (
            "took",
            run.duration_ms
                .map(|took| text::duration(std::time::Duration::from_millis(took))),
        ),
    ];
    table::fields(&fields, out)?;
    Ok(Exit::Ok)
}

/// Does what `messages` says.
pub(crate) fn messages(global: &Global, args: &MessagesArgs, out: &mut Out) -> Result<Exit> {
    let store = store::open_read_only(global)?;
    let options = ListRunMessages {
        step_number: args.step,
        limit: args.page.limit,
        cursor: args.page.cursor.clone(),
    };
    let run = existing(&store, &args.run)?;
    if let Some(id) = args.id {
        return message(&store, run, id, out);
    }
    let page = store
        .runs()
        .messages(run, &options)
        .map_err(Failure::of_argument)?;
    if out.is_json() {
        out.value(&page)?;
    } else if page.items.is_empty() {
        out.line("no messages")?;
    } else {
        let width = out.width();
        let rows = page.items.iter().map(|message| {
            let kind = message.role.event_kind();
            vec![
                message.id.to_string(),
                message.step_number.to_string(),
                view::kind_name(kind).to_owned(),
                view::summary_of(kind, &message.content, width),
            ]
        });
        let columns = [
            table::right("id"),
            table::right("step"),
            table::left("from", 11),
            table::left("what it says", 120),
        ];
        table::print(&columns, &rows.collect::<Vec<_>>(), out)?;
        table::next(page.next, out)?;
    }
    Ok(Exit::Ok)
}

fn message(store: &Store, run: RunId, id: u64, out: &mut Out) -> Result<Exit> {
    let message = store
        .runs()
        .message(run, id)?
        .ok_or_else(|| none_of(run, "message", id))?;
    if out.is_json() {
        out.value(&message)?;
        return Ok(Exit::Ok);
    }
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
    table::fields(&fields, out)?;
    Ok(Exit::Ok)
}

fn none_of(run: RunId, what: &str, id: u64) -> Failure {
    Failure::new(
        Exit::NotFound,
        "not_found",
        format!("run {run} has no {what} {id}; the list tells the ids"),
    )
}

/// Does what `tool-calls` says.
pub(crate) fn tool_calls(global: &Global, args: &ToolCallsArgs, out: &mut Out) -> Result<Exit> {
    let store = store::open_read_only(global)?;
    let options = ListToolCalls {
        tool_name: args.tool.clone(),
        status: args.status,
        limit: args.page.limit,
        cursor: args.page.cursor.clone(),
    };
    let run = existing(&store, &args.run)?;
    if let Some(id) = args.id {
        return tool_call(&store, run, id, out);
    }
    let page = store
        .runs()
        .tool_calls(run, &options)
        .map_err(Failure::of_argument)?;
    if out.is_json() {
        out.value(&page)?;
    } else if page.items.is_empty() {
        out.line("no tool calls")?;
    } else {
        let rows = page.items.iter().map(|call| {
            let output = call
                .output
                .as_ref()
                .map(|output| output.as_str().to_owned())
                .unwrap_or_default();
            vec![
                call.id.to_string(),
                call.step_number.to_string(),
                call.status.name().to_owned(),
                call.duration_ms.map(text::thousands).unwrap_or_default(),
                call.tool_name.clone(),
                format!("{} → {output}", call.input.as_str()),
            ]
        });
        let columns = [
            table::right("id"),
            table::right("step"),
            table::left("status", 9),
            table::right("ms"),
            table::left("tool", 16),
            table::left("input → output", 120),
        ];
        table::print(&columns, &rows.collect::<Vec<_>>(), out)?;
        table::next(page.next, out)?;
    }
    Ok(Exit::Ok)
}

fn tool_call(store: &Store, run: RunId, id: u64, out: &mut Out) -> Result<Exit> {
    let call = store
        .runs()
        .tool_call(run, id)?
        .ok_or_else(|| none_of(run, "tool call", id))?;
    if out.is_json() {
        out.value(&call)?;
        return Ok(Exit::Ok);
    }
    let took = call
        .duration_ms
        .map(|took| text::duration(std::time::Duration::from_millis(took)));
    let fields = [
        ("tool call", Some(call.id.to_string())),
        ("tool", Some(text::name(&call.tool_name))),
        ("status", Some(call.status.name().to_owned())),
        ("took", took),
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
            call.output.map(|output| output.as_str().to_owned()),
        ),
    ];
    table::fields(&fields, out)?;
    Ok(Exit::Ok)
}
