//! `runlog run`: runs and records an agent, in a new session or an existing one.

mod agents;
mod args;
mod print;
mod start;

use std::{ffi::OsString, time::Instant};

use runlog::{
    RawJson, Run, RunStatus,
    blocking::Store,
    runs::{Stop, StopKind},
    transcripts::keep::{Aside, EntryBatch},
};

pub(crate) use self::args::Args;
use self::{
    agents::Agents,
    args::{Sub, check},
    print::{Report, answer, print_end, print_start},
    start::{Source, Started},
};
use super::runs;
use crate::{
    agent::{Child, Conclusion, Ended, Recorded, Recorder, UNSUPPORTED_PROTOCOL, opening, record},
    args::Global,
    failure::{Exit, Failure, Result},
    history::RUN_NOTE,
    mcp::AgentsFile,
    output::Out,
    store,
};

pub(crate) fn run(global: &Global, args: &Args, out: &mut Out) -> Result<Exit> {
    match &args.command {
        Some(Sub::Show(args)) => return runs::show(global, args, out),
        Some(Sub::Describe(args)) => return runs::describe(global, args, out),
        None => {}
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
    // Started first: a program that can't be run must change nothing in the store, and create none.
    let early = if is_new && !global.store.exists() {
        Some(Child::start(program, arguments)?)
    } else {
        None
    };
    let store = if is_new {
        store::open_or_create(global)?
    } else {
        store::open_existing_quietly(global)?
    };
    let source = start::find(&store, args, file.as_ref());
    if !is_new {
        let resumed = source.as_ref().ok().and_then(Source::resumed);
        store::print_recovered(global, &store, resumed);
    }
    let source = source?;
    let mut child = match early {
        Some(child) => child,
        None => Child::start(program, arguments)?,
    };
    let started = start::start(&store, source, args, out.is_json())?;
    out.continue_if_closed();
    let last_sequence = store.context(started.instance.id)?.get_last_sequence()?;
    print_start(&started, last_sequence, out)?;
    let began = Instant::now();
    put_aside(
        &store,
        &started,
        serde_json::json!({
            "state": "started", "how": started.how, "program": program.to_string_lossy(), "run_id": started.run.id(),
            "at_ms": store.backend().now_ms(), "last_sequence": last_sequence,
        }),
    )?;
    let agents = Agents::begin(&store, file, &started.run.run())?;
    agents.end_when_stopped(started.run.id(), child.stopper());
    let start = (started.how, args.message.as_deref());
    child.open(opening(
        &store,
        &started.instance,
        &started.run.run(),
        start,
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
        serde_json::json!({
            "state": "ended", "run_id": run.id, "exit_code": ended.code, "signal": ended.signal,
            "events": recorder.events(), "refused": recorder.refused(), "at_ms": store.backend().now_ms(),
        }),
    )?;
    print_end(
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

/// Records the agent until it has ended, together with the agents it spawned.
fn record_with(
    child: Child,
    recorder: &mut Recorder,
    agents: Agents,
    out: &mut Out,
) -> Result<(Ended, Option<i32>)> {
    let run = recorder.run().run();
    let mut spawner = agents.spawner(&run);
    let mut refusals = 0;
    let mut answered = |child: &mut Child, lines: Vec<Recorded>| {
        let mut lines = lines.into_iter();
        lines.try_for_each(|recorded| {
            answer(child, recorded, spawner.as_mut(), &mut refusals, out)
        })?;
        out.flush()
    };
    let ran = record(child, recorder, &mut answered);
    let paused = match &ran {
        Ok((ended, stopped_by)) => match Conclusion::of(recorder, *ended, *stopped_by) {
            Conclusion::Paused(stop) => Some(stop),
            _ => None,
        },
        Err(failure) => Some(interrupted(failure.message())),
    };
    agents.end(spawner, &run, paused)?;
    ran
}

/// Records how the run ended.
fn conclude(
    store: &Store,
    recorder: &Recorder,
    ended: Ended,
    stopped_by: Option<i32>,
) -> Result<Run> {
    let run = recorder.run();
    // It may have been paused together with the agents it spawned.
    if let Some(over) = store
        .runs()
        .get(run.id())?
        .filter(|run| run.status != RunStatus::Running)
    {
        return Ok(over);
    }
    Ok(match Conclusion::of(recorder, ended, stopped_by) {
        Conclusion::Completed(summary) => run.complete(summary.as_deref())?,
        Conclusion::Paused(stop) => run.pause(stop)?,
        Conclusion::Failed(why) => run.fail(&why)?,
    })
}

/// Records that recording of the run can't continue, if the store accepts that. The failure itself is reported in any
/// case, and a run left as running is paused when the store is opened next.
fn give_up(store: &Store, started: &Started, recorder: &Recorder, failure: &Failure) {
    let why = failure.message();
    // A program that doesn't speak the protocol has failed; after a failure of the recorder the run can be resumed.
    let _ = if failure.kind() == UNSUPPORTED_PROTOCOL {
        recorder.run().fail(why)
    } else {
        recorder.run().pause(interrupted(why))
    };
    let note = serde_json::json!({
        "state": "failed", "why": why, "at_ms": store.backend().now_ms(), "run_id": started.run.id(),
        "events": recorder.events(), "refused": recorder.refused(),
    });
    let _ = put_aside(store, started, note);
}

/// The reason of a pause caused by the recorder, not by the agent.
fn interrupted(why: &str) -> Stop {
    Stop::new(StopKind::Shutdown, format!("interrupted: {why}"))
}

/// Stores a note about the run in the session's aside.
fn put_aside(store: &Store, started: &Started, mut what: serde_json::Value) -> Result<()> {
    what["type"] = RUN_NOTE.into();
    let json = RawJson::parse(what.to_string())?;
    let mut batch = EntryBatch::new(started.session.id);
    batch.push_aside(&Aside::Other(started.instance.id, json));
    pollster::block_on(store.backend().commit(batch.batch()))?;
    Ok(())
}
