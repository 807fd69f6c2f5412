//! `runlog run`: an agent, recorded; in a new session, or going on with one.

mod agents;
mod start;
mod tell;

use std::{ffi::OsString, path::PathBuf, time::Instant};

use clap::builder::RangedU64ValueParser;
use runlog::{
    RawJson, Run, RunStatus,
    blocking::Store,
    transcripts::keep::{Aside, EntryBatch},
};

use self::{
    agents::Agents,
    start::Started,
    tell::{Report, answer, tell_end, tell_start},
};
use super::{copy, runs};
use crate::{
    agent::{Child, Conclusion, Ended, Recorded, Recorder, UNSUPPORTED_PROTOCOL, opening, record},
    args::Global,
    failure::{Exit, Failure, Result},
    kept::RUN_NOTE_PREFIX,
    mcp::AgentsFile,
    output::Out,
    scripted, store,
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
newest run of a session, and only if that is paused and has taken fewer than 500 steps with those before it (else exit \
code 4); a session without a run gets its first one. It adds a message that tells the agent to continue, and before it \
an error result for each tool call that has none; with --leave-tool-calls neither of the two where there is such a call.

It ends with 0 if the agent did, with 7 if the agent failed, with 8 if its steps were spent, with 128 + n if signal n \
stopped it. When nobody reads what is printed, it goes on recording.

With --agents the agent may spawn the agents that FILE tells of, by lines of its own; `runlog mcp --help` says what is \
in FILE. Where it is stopped, what it spawned is paused with it; where it ends without waiting for them, cancelled.

With --json a line for each thing that happens:
  {\"started\": {\"session_id\", \"instance_id\", \"run_id\", \"how\", \"last_sequence\", \"step_count\", \"resumed_from\"}}
  {\"ack\": {\"id\", \"sequence\", \"last_sequence\", \"step\"}}
  {\"step\": {\"id\", \"step\", \"steps_left\"}}
  {\"error\": {\"id\", \"line\", \"code\", \"message\"}}
  {\"ended\": {\"run_id\", \"status\", \"step_count\", \"summary\", \"exit_code\", \"signal\", \"events\", \"refused\", \"seconds\"}}
where \"how\" is new, resumed, copied or overwritten.";

/// The arguments.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Sub>,
    /// Go on from the paused run of this session; or from a run, by its id
    #[arg(long, value_name = "SESSION", group = "with")]
    resume: Option<String>,
    /// Start a run in a copy of this session
    #[arg(long, value_name = "SESSION", group = "with")]
    copy: Option<String>,
    /// Copy only up to this sequence
    #[arg(long, value_name = "N", requires = "copy")]
    to_point: Option<u64>,
    /// Start a run in this session, however its last one ended
    #[arg(long, value_name = "SESSION", group = "with")]
    overwrite: Option<String>,
    /// The last sequence that --overwrite leaves: what came after it is forgotten first
    #[arg(long, value_name = "N", requires = "overwrite")]
    from_point: Option<u64>,
    /// What the user says to the agent before it begins; a resumed one is told to continue unless given
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
    /// With --resume: don't tell the agent to continue
    #[arg(long, requires = "resume", conflicts_with = "message")]
    no_message: bool,
    /// The steps that the agent may take; a resumed run may take as many as the one before unless given
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<u32>::new().range(1..))]
    max_steps: Option<u32>,
    /// Record an error result for each tool call that has none, before the agent gets the context; --resume does so
    /// for a paused run
    #[arg(long)]
    close_tool_calls: bool,
    /// With --resume: leave tool calls that have no result to the agent
    #[arg(long, conflicts_with = "close_tool_calls", requires = "resume")]
    leave_tool_calls: bool,
    /// What to call the new session (or the copy)
    #[arg(long, conflicts_with_all = ["resume", "overwrite"])]
    name: Option<String>,
    /// The title of the new session; the program's name unless given
    #[arg(long, conflicts_with = "with")]
    title: Option<String>,
    /// The name of the agent of the new session
    #[arg(long, default_value = "agent", conflicts_with = "with")]
    agent: String,
    /// The agents that the agent may spawn, as `runlog mcp` takes them
    #[arg(long, value_name = "FILE")]
    agents: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    program: Vec<OsString>,
}

#[derive(clap::Subcommand)]
enum Sub {
    /// Show a run's fields
    Show(runs::ShowArgs),
}

/// The arguments of the agent that the tests run.
#[derive(clap::Args)]
pub(crate) struct ScriptedArgs {
    /// What to do, in order
    steps: Vec<String>,
}

/// Does what the agent that the tests run is told to.
pub(crate) fn scripted_agent(args: &ScriptedArgs) -> Result<Exit> {
    scripted::run(&args.steps)
}

/// Does it.
pub(crate) fn run(global: &Global, args: &Args, out: &mut Out) -> Result<Exit> {
    if let Some(Sub::Show(args)) = &args.command {
        return runs::show(global, args, out);
    }
    check(args)?;
    let program = args
        .program
        .first()
        .map(OsString::as_os_str)
        .unwrap_or_default();
    let arguments = args.program.get(1..).unwrap_or_default();
    let file = args.agents.as_deref().map(AgentsFile::read).transpose()?;
    let is_new = args.resume.is_none() && args.copy.is_none() && args.overwrite.is_none();
    // A program that can't be run leaves nothing behind and changes nothing: no store, no session, no point.
    let early = if is_new && !global.store.exists() {
        Some(Child::start(program, arguments)?)
    } else {
        None
    };
    let store = if is_new {
        store::open_or_create(global)?
    } else {
        store::open(global)?
    };
    let source = start::find(&store, args, file.as_ref())?;
    let mut child = match early {
        Some(child) => child,
        None => Child::start(program, arguments)?,
    };
    let started = start::start(&store, source, args, out.is_json())?;
    out.go_on_unread();
    let last_sequence = store.context(started.instance.id)?.get_last_sequence()?;
    tell_start(&started, last_sequence, out)?;
    let began = Instant::now();
    put_aside(
        &store,
        &started,
        &serde_json::json!({
            "state": "started", "how": started.how, "program": program.to_string_lossy(), "run_id": started.run.id(),
            "at_ms": store.backend().now_ms(), "last_sequence": last_sequence,
        }),
    )?;
    let agents = file
        .map(|file| Agents::begin(&store, file, &started.run.run()))
        .transpose()?;
    let told = (started.how, args.message.as_deref());
    child.open(opening(
        &store,
        &started.instance,
        &started.run.run(),
        told,
        last_sequence,
    )?);
    let mut recorder = Recorder::new(started.run.clone());
    let ran = record_with(child, &mut recorder, agents, out);
    let (ended, stopped_by) = match ran {
        Ok(ran) => ran,
        Err(failure) => {
            give_up(&store, &started, &recorder, &failure);
            return Err(failure);
        }
    };
    let run = conclude(&store, &recorder, ended, stopped_by)?;
    put_aside(
        &store,
        &started,
        &serde_json::json!({
            "state": "ended", "run_id": run.id, "exit_code": ended.code, "signal": ended.signal,
            "events": recorder.events(), "refused": recorder.refused(), "at_ms": store.backend().now_ms(),
        }),
    )?;
    tell_end(
        &started,
        &Report::new(&run, ended, &recorder, began.elapsed().as_secs_f64()),
        out,
    )?;
    store.close()?;
    Ok(match (stopped_by, run.status) {
        (Some(signal), _) => Exit::Signal(u8::try_from(signal).unwrap_or_default()),
        _ if recorder.is_budget_spent() => Exit::StepBudget,
        (None, RunStatus::Failed) => Exit::Agent,
        (None, _) => Exit::Ok,
    })
}

/// Records what the agent says until it has ended, and what it spawned with it.
fn record_with(
    child: Child,
    recorder: &mut Recorder,
    agents: Option<Agents>,
    out: &mut Out,
) -> Result<(Ended, Option<i32>)> {
    let run = recorder.run().run();
    let mut spawner = agents.as_ref().map(|agents| agents.spawner(&run));
    let mut refusals = 0;
    let mut told = |child: &mut Child, lines: Vec<Recorded>| {
        let mut lines = lines.into_iter();
        lines.try_for_each(|recorded| {
            answer(child, recorded, spawner.as_mut(), &mut refusals, out)
        })?;
        out.flush()
    };
    let ran = record(child, recorder, &mut told);
    if let Some(agents) = agents {
        let paused = match &ran {
            Ok((ended, stopped_by)) => match Conclusion::of(recorder, *ended, *stopped_by) {
                Conclusion::Paused(reason) => Some(reason),
                _ => None,
            },
            Err(failure) => Some(format!("interrupted: {}", failure.message())),
        };
        agents.end(spawner, &run, paused.as_deref())?;
    }
    ran
}

/// Says in the store how the run ended.
fn conclude(
    store: &Store,
    recorder: &Recorder,
    ended: Ended,
    stopped_by: Option<i32>,
) -> Result<Run> {
    let run = recorder.run();
    // It may have been paused with what it spawned.
    if let Some(over) = store
        .runs()
        .get(run.id())?
        .filter(|run| run.status != RunStatus::Running)
    {
        return Ok(over);
    }
    Ok(match Conclusion::of(recorder, ended, stopped_by) {
        Conclusion::Completed(summary) => run.complete(summary.as_deref())?,
        Conclusion::Paused(reason) => run.pause(&reason)?,
        Conclusion::Failed(why) => run.fail(&why)?,
    })
}

/// Says in the store that the run can't be recorded on, as far as the store takes it. The failure itself is told
/// either way, and a run that is left as running is paused when the store is opened next.
fn give_up(store: &Store, started: &Started, recorder: &Recorder, failure: &Failure) {
    let why = failure.message();
    // An agent that can't be run as it is failed; what befell the recorder doesn't keep the run from going on.
    let _ = if failure.kind() == UNSUPPORTED_PROTOCOL {
        recorder.run().fail(why)
    } else {
        recorder.run().pause(&format!("interrupted: {why}"))
    };
    let note = serde_json::json!({
        "state": "failed", "why": why, "at_ms": store.backend().now_ms(), "run_id": started.run.id(),
        "events": recorder.events(), "refused": recorder.refused(),
    });
    let _ = put_aside(store, started, &note);
}

/// What clap lets pass: it takes an option of one mode for given when another mode rules it out.
fn check(args: &Args) -> Result<()> {
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
    copy::check_name(args.name.as_deref())
}

/// Notes something of the run beside the session's messages.
fn put_aside(store: &Store, started: &Started, what: &serde_json::Value) -> Result<()> {
    // The type comes first, which is how these notes are told from what was imported.
    let json = RawJson::parse(format!(
        "{RUN_NOTE_PREFIX}run\",{}",
        what.to_string().trim_start_matches('{')
    ))?;
    let mut batch = EntryBatch::new(started.session.id);
    batch.push_aside(&Aside::Other(started.instance.id, json));
    pollster::block_on(store.backend().commit(batch.batch()))?;
    Ok(())
}
