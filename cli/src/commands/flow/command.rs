//! `runlog flow send`, `reply`, `resume` and `command`: commands that wait for a flow.

use runlog::{
    RawJson, RunId,
    blocking::{FlowRun, Store},
    flows::RuntimeCommand,
};
use serde::Serialize;

use crate::{
    args::Global,
    elsewhere::{by_who_writes, send as send_command},
    failure::{Exit, Failure, Result},
    find,
    output::Out,
};

const AFTER_HELP: &str = "\
Nothing is run: the command is recorded as `command:received`, durable, and waits in the flow's inbox until the \
program that runs the flow resumes it. It is refused where it would never be taken: by a flow that is over, or that of a \
run that is paused. A process that has the store open for writing is asked to record it, and gives it to the flow at once if it works on it.

With --json one document: {\"run_id\", \"waiting\": [the commands that wait now]}.";

/// The arguments of `send` and `reply`.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct SendArgs {
    /// The flow: its id, the beginning of it, or @last (the newest that no agent spawned)
    #[arg(value_name = "FLOW")]
    flow: String,
    /// The run of a node that it is for, by the id that the flow's events give it
    #[arg(long, value_name = "ID")]
    to: String,
    /// What to say
    #[arg(value_name = "MESSAGE")]
    message: String,
}

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ResumeArgs {
    /// The flow: its id, the beginning of it, or @last (the newest that no agent spawned)
    #[arg(value_name = "FLOW")]
    flow: String,
    /// What the nodes that were running are resumed with, in place of `continue`
    #[arg(value_name = "MESSAGE")]
    message: String,
}

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct CommandArgs {
    /// The flow: its id, the beginning of it, or @last (the newest that no agent spawned)
    #[arg(value_name = "FLOW")]
    flow: String,
    /// The command: a JSON object with a `type`
    #[arg(value_name = "JSON")]
    command: String,
}

#[derive(Serialize)]
struct Waiting {
    run_id: RunId,
    waiting: Vec<RuntimeCommand>,
}

/// Executes `send` and `reply`.
pub(super) fn send(global: &Global, kind: &str, args: &SendArgs, out: &mut Out) -> Result<Exit> {
    let command = serde_json::json!({"type": kind, "runId": args.to, "message": args.message});
    leave(global, &args.flow, &RawJson::from_value(&command)?, out)
}

pub(super) fn resume(global: &Global, args: &ResumeArgs, out: &mut Out) -> Result<Exit> {
    let command = serde_json::json!({"type": "resume", "message": args.message});
    leave(global, &args.flow, &RawJson::from_value(&command)?, out)
}

pub(super) fn command(global: &Global, args: &CommandArgs, out: &mut Out) -> Result<Exit> {
    let command = RawJson::parse(&args.command).map_err(Failure::of_argument)?;
    leave(global, &args.flow, &command, out)
}

/// Records a command, if the flow can accept it.
fn leave(global: &Global, flow: &str, command: &RawJson, out: &mut Out) -> Result<Exit> {
    let find = |store: &Store| find::flow_id(store, flow);
    let (flow, waiting) = by_who_writes(global, find, |store, flow| {
        send_command(store, flow, command)?;
        Ok((flow, FlowRun::waiting(store, flow)?))
    })?;
    if out.is_json() {
        out.value(&Waiting {
            run_id: flow,
            waiting,
        })?;
    } else {
        let told = match waiting.len() {
            0 => format!("recorded; the program that runs the flow {flow} has taken it"),
            count => format!(
                "recorded; it waits for the program that runs the flow {flow} ({count} waiting)"
            ),
        };
        out.line(told)?;
    }
    Ok(Exit::Ok)
}
