//! `runlog send`: a message for a run that another process works on.

use runlog::{RawJson, blocking::Store};

use crate::{
    args::Global,
    elsewhere::{by_who_writes, send},
    failure::{Exit, Result},
    find,
    output::Out,
};

const AFTER_HELP: &str = "\
The message is recorded in the run, durable, and waits in its inbox for its agent. It reaches a run that an orchestrator of \
another process works on with this store: that of a program, of `runlog mcp`, or one that the agent of `runlog run` has \
spawned, but not that agent itself. The process is asked through the store's folder, and answers within a second. For a \
flow that nobody works on the message waits until it is resumed. A run that is paused or over takes none.

With --json one document: {\"run_id\"}.";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The run: its id, the beginning of it, or @last
    #[arg(value_name = "RUN")]
    run: String,
    /// What to say
    #[arg(value_name = "MESSAGE")]
    message: String,
}

pub(crate) fn run(global: &Global, args: &Args, out: &mut Out) -> Result<Exit> {
    let find = |store: &Store| find::run_id(store, &args.run);
    let run = by_who_writes(global, find, |store, run| {
        let command = serde_json::json!({"type": "send", "runId": run, "message": args.message});
        send(store, run, &RawJson::from_value(&command)?)?;
        Ok(run)
    })?;
    if out.is_json() {
        out.value(&serde_json::json!({"run_id": run}))?;
    } else {
        out.line(format!("sent to run {run}"))?;
    }
    Ok(Exit::Ok)
}
