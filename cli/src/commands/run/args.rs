//! The arguments of `runlog run`.

use std::{ffi::OsString, path::PathBuf};

use crate::{
    args::at_least,
    commands::{copy, runs},
    failure::{Failure, Result},
};

const AFTER_HELP: &str = "\
CMD is a program that gets its context as lines of JSON on standard input and writes what it does as lines of JSON to \
standard output: docs/agent-protocol.md has all of it. Each line is durable before it is acknowledged.

In a new session:
  runlog run --message \"fix the test\" -- ./agent.py
Go on where one stopped:
  runlog run --resume @last -- ./agent.py
Go on from event 12, in a copy:
  runlog run --copy 019a2b3c --to-point 12 -- ./agent.py
Forget what came after event 12, and go on from there:
  runlog run --overwrite 019a2b3c --from-point 12 -- ./agent.py
Look at a run (a program that is called show is run with `runlog run -- show`):
  runlog run show @last

What the agent does is a run: `runlog runs` lists them. It is completed when the agent ended with 0, failed when it \
ended otherwise, paused when a signal stopped it, its steps were spent, or Runlog was killed. --resume goes on from the \
newest run of a session, and only if that is paused and has taken fewer than --max-total-steps with those before it \
(else exit code 4); a session without a run gets its first one. It adds a message that tells the agent to continue, \
and before it an error result for each tool call that has none; with --leave-tool-calls neither of the two where there \
is such a call.

It ends with 0 if the agent did, with 7 if the agent failed, with 8 if its steps were spent, with 128 + n if signal n \
stopped it. When nobody reads what is printed, it goes on recording.

With --agents the agent may spawn the agents that FILE tells of, by lines of its own; `runlog mcp --help` says what is \
in FILE. Where it is stopped, what it spawned is paused with it; where it ends without waiting for them, cancelled.

With --json a line for each thing that happens:
  {\"started\": {\"session_id\", \"instance_id\", \"run_id\", \"how\", \"last_sequence\", \"step_count\", \"resumed_from\"}}
  {\"ack\": {\"id\", \"sequence\", \"last_sequence\", \"step\"}}, with \"repeated\": true where the line's key was used before
  {\"step\": {\"id\", \"step\", \"steps_left\"}}
  {\"error\": {\"id\", \"line\", \"code\", \"message\"}}
  {\"ended\": {\"run_id\", \"status\", \"step_count\", \"exit_code\", \"signal\", \"events\", \"refused\", \"seconds\"}}, \
with \"summary\" and \"reason\" where the run has them
where \"how\" is new, resumed, copied or overwritten.";

#[derive(clap::Args)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command line"
)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(super) command: Option<Sub>,
    /// Go on from the paused run of this session; or from a run, by its id; @last is the run that `run show @last` shows
    #[arg(long, value_name = "SESSION", group = "with")]
    pub(super) resume: Option<String>,
    /// With --resume: go on also from a run that has ended: completed, failed or cancelled
    #[arg(long, requires = "resume")]
    pub(super) ended: bool,
    /// Start a run in a copy of this session
    #[arg(long, value_name = "SESSION", group = "with")]
    pub(super) copy: Option<String>,
    /// Copy only up to this sequence
    #[arg(long, value_name = "N", requires = "copy")]
    pub(super) to_point: Option<u64>,
    /// Start a run in this session, however its last one ended
    #[arg(long, value_name = "SESSION", group = "with")]
    pub(super) overwrite: Option<String>,
    /// The last sequence that --overwrite keeps; what came after it is forgotten first
    #[arg(long, value_name = "N", requires = "overwrite")]
    pub(super) from_point: Option<u64>,
    /// What the user says to the agent before it begins; a resumed one is told to continue unless given
    #[arg(short, long, value_name = "TEXT")]
    pub(super) message: Option<String>,
    /// With --resume: don't tell the agent to continue
    #[arg(long, requires = "resume", conflicts_with = "message")]
    pub(super) no_message: bool,
    /// The steps that the agent may take; a resumed run may take as many as the one before unless given
    #[arg(long, value_name = "N", value_parser = at_least::<u32>(1))]
    pub(super) max_steps: Option<u32>,
    /// With --resume: go on unless the run and those before it have taken so many steps already [default: 500]
    #[arg(long, value_name = "N", requires = "resume", value_parser = at_least::<u32>(1))]
    pub(super) max_total_steps: Option<u32>,
    /// Record an error result for each tool call that has none, before the agent gets the context; --resume does so
    /// for a paused run
    #[arg(long)]
    pub(super) close_tool_calls: bool,
    /// With --resume: leave tool calls that have no result to the agent
    #[arg(long, conflicts_with = "close_tool_calls", requires = "resume")]
    pub(super) leave_tool_calls: bool,
    /// What to call the new session (or the copy)
    #[arg(long, conflicts_with_all = ["resume", "overwrite"])]
    pub(super) name: Option<String>,
    /// The title of the new session; that of the program, or of the script it runs, unless a title or a name is given
    #[arg(long, conflicts_with = "with")]
    pub(super) title: Option<String>,
    /// The name of the agent of the new session
    #[arg(long, default_value = "agent", conflicts_with = "with")]
    pub(super) agent: String,
    /// The agents that the agent may spawn, as `runlog mcp` takes them
    #[arg(long, value_name = "FILE")]
    pub(super) agents: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(super) program: Vec<OsString>,
}

#[derive(clap::Subcommand)]
pub(super) enum Sub {
    /// Show a run's fields
    Show(runs::ShowArgs),
    /// Set a run's usage and metadata
    Describe(runs::DescribeArgs),
}

/// Checks conflicts that clap doesn't detect: it treats an option of one mode as satisfied when another mode excludes
/// it.
pub(super) fn check(args: &Args) -> Result<()> {
    if args.to_point.is_some() && args.copy.is_none() {
        return Err(Failure::usage(
            "--to-point says how much of a session is copied; it goes with --copy alone",
        ));
    }
    if args.from_point.is_some() && args.overwrite.is_none() {
        return Err(Failure::usage(
            "--from-point says what is forgotten first; it goes with --overwrite alone",
        ));
    }
    let of_resume = [
        (args.ended, "--ended"),
        (args.no_message, "--no-message"),
        (args.leave_tool_calls, "--leave-tool-calls"),
        (args.max_total_steps.is_some(), "--max-total-steps"),
    ];
    if let (Some((_, option)), None) = (
        of_resume.iter().find(|(is_given, _)| *is_given),
        &args.resume,
    ) {
        return Err(Failure::usage(format!(
            "{option} says how a run is resumed; it goes with --resume alone"
        )));
    }
    if args.agent.is_empty() {
        return Err(Failure::usage(
            "--agent is empty; give the agent's name, or leave it out",
        ));
    }
    copy::check_name(args.name.as_deref())
}
