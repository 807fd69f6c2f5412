//! `runlog run`: an agent, recorded; in a new session, or going on with one.

use std::{path::Path, time::Instant};

use runlog::{
    AgentInstance, NewSession, RawJson, Session, Store,
    transcript::keep::{Aside, EntryBatch},
};
use serde::Serialize;

use super::{copy, truncate};
use crate::{
    agent::{Child, ChildEvent, Dangling, Ended, Hello, Opening, PROTOCOL, Ready, Recorded, Recorder, ToAgent},
    args::Global,
    failure::{Exit, Failure, Result},
    kept::OWN_BEGINNING,
    output::{Out, note, to_stderr},
    scripted, store, text, view,
};

/// The most lines that are recorded with one flush.
const LINES_TOGETHER: usize = 256;
/// The most refused lines that are printed for people; the others are counted.
const REFUSALS_SHOWN: u64 = 20;

const AFTER_HELP: &str = "\
CMD is a program that gets its context as lines of JSON on standard input and writes what it does as lines of JSON to \
standard output: docs/agent-protocol.md has all of it. Each line is durable before it is acknowledged.

In a new session:
  runlog run -- ./agent.py \"fix the test\"
Go on where one stopped:
  runlog run --resume @last -- ./agent.py
Go on from event 12, in a copy:
  runlog run --copy 019a2b3c --to-point 12 -- ./agent.py
Forget what came after event 12, and go on from there:
  runlog run --overwrite 019a2b3c --from-point 12 -- ./agent.py

It ends with 0 if the agent did, with 7 if the agent failed, with 128 + n if signal n stopped it. When nobody reads \
what is printed, it goes on recording.

With --json a line for each thing that happens:
  {\"started\": {\"session_id\", \"instance_id\", \"how\", \"last_sequence\"}}
  {\"ack\": {\"id\", \"sequence\", \"last_sequence\"}}
  {\"error\": {\"id\", \"line\", \"code\", \"message\"}}
  {\"ended\": {\"exit_code\", \"signal\", \"events\", \"refused\", \"seconds\"}}
where \"how\" is new, resumed, copied or overwritten.";

/// The arguments.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Go on with this session, from its last event
    #[arg(long, value_name = "SESSION", group = "with")]
    resume: Option<String>,
    /// Go on in a copy of this session
    #[arg(long, value_name = "SESSION", group = "with")]
    copy: Option<String>,
    /// Copy only up to this sequence
    #[arg(long, value_name = "N", requires = "copy")]
    to_point: Option<u64>,
    /// Go on with this session, and with --from-point forget what came after it first; without, as --resume
    #[arg(long, value_name = "SESSION", group = "with")]
    overwrite: Option<String>,
    /// The last sequence that --overwrite leaves
    #[arg(long, value_name = "N", requires = "overwrite")]
    from_point: Option<u64>,
    /// Record an error result for each tool call that has none, before the agent gets the context
    #[arg(long)]
    close_tool_calls: bool,
    /// What to call the new session (or the copy)
    #[arg(long, conflicts_with_all = ["resume", "overwrite"])]
    name: Option<String>,
    /// The title of the new session; the program's name unless given
    #[arg(long, conflicts_with = "with")]
    title: Option<String>,
    /// The name of the agent of the new session
    #[arg(long, default_value = "agent", conflicts_with = "with")]
    agent: String,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<String>,
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
/// What is gone on with, and how it came to be.
struct Started {
    session: Session,
    instance: AgentInstance,
    how: &'static str,
}

#[derive(Serialize)]
struct EndedReport {
    exit_code: Option<i32>,
    signal: Option<i32>,
    events: u64,
    refused: u64,
    seconds: f64,
}

/// Does it.
pub(crate) fn run(global: &Global, args: &Args, out: &mut Out) -> Result<Exit> {
    check(args)?;
    let program = args.command.first().map(String::as_str).unwrap_or_default();
    let arguments = args.command.get(1..).unwrap_or_default();
    let is_new = args.resume.is_none() && args.copy.is_none() && args.overwrite.is_none();
    // A program that can't be run leaves nothing behind and changes nothing: no store, no session, no point.
    let early = if is_new && !global.store.exists() { Some(Child::start(program, arguments)?) } else { None };
    let store = if is_new { store::open_or_create(global)? } else { store::open(global)? };
    let source = [&args.resume, &args.copy, &args.overwrite].into_iter().flatten().next();
    let source = source.map(|text| store::session(&store, text)).transpose()?;
    let mut child = match early {
        Some(child) => child,
        None => Child::start(program, arguments)?,
    };
    let started = start(&store, source, args)?;
    out.go_on_unread();
    let context = store.context(started.instance.id)?;
    if args.close_tool_calls {
        let closed = context.close_dangling_tool_calls("The tool call was interrupted; it has no result.")?;
        if !closed.is_empty() {
            let what = text::count(closed.len() as u64, "tool call", "tool calls");
            note(out.is_json(), format!("closed {what} that had no result"));
        }
    }
    let last_sequence = context.get_last_sequence()?;
    tell_start(&started, last_sequence, out)?;
    let began = Instant::now();
    put_aside(
        &store,
        &started,
        &serde_json::json!({
            "state": "started", "how": started.how, "program": program,
            "at_ms": store.backend().now_ms(), "last_sequence": last_sequence,
        }),
    )?;
    child.open(opening(&store, &started, last_sequence)?);
    let mut recorder = Recorder::new(&store, started.instance.clone());
    let (ended, stopped_by) = match record(child, &mut recorder, out) {
        Ok(ran) => ran,
        Err(failure) => {
            // Told beside the events, if the store still takes it; the failure itself is told either way.
            let why = serde_json::json!({
                "state": "failed", "why": failure.message(), "at_ms": store.backend().now_ms(),
                "events": recorder.events(), "refused": recorder.refused(),
            });
            let _ = put_aside(&store, &started, &why);
            return Err(failure);
        }
    };
    put_aside(
        &store,
        &started,
        &serde_json::json!({
            "state": "ended", "exit_code": ended.code, "signal": ended.signal,
            "events": recorder.events(), "refused": recorder.refused(), "at_ms": store.backend().now_ms(),
        }),
    )?;
    let report = EndedReport {
        exit_code: ended.code,
        signal: ended.signal,
        events: recorder.events(),
        refused: recorder.refused(),
        seconds: began.elapsed().as_secs_f64(),
    };
    tell_end(&started, &report, out)?;
    store.close()?;
    Ok(match (stopped_by, ended.code) {
        (Some(signal), _) => Exit::Signal(u8::try_from(signal).unwrap_or_default()),
        (None, Some(0)) => Exit::Ok,
        (None, _) => Exit::Agent,
    })
}

/// What clap lets pass: it takes an option of one mode for given when another mode rules it out.
fn check(args: &Args) -> Result<()> {
    if args.to_point.is_some() && args.copy.is_none() {
        return Err(Failure::usage("--to-point says how much of a session is copied; it goes with --copy alone"));
    }
    if args.from_point.is_some() && args.overwrite.is_none() {
        return Err(Failure::usage("--from-point says what is forgotten first; it goes with --overwrite alone"));
    }
    copy::check_name(args.name.as_deref())
}

/// Makes the session, or makes what is gone on with be as it was asked for; `source` is the one that was named.
fn start(store: &Store, source: Option<Session>, args: &Args) -> Result<Started> {
    let (session, how) = match source {
        Some(source) if args.copy.is_some() => {
            (copy::copy(store, &source, args.to_point, args.name.clone())?, "copied")
        }
        Some(session) if args.overwrite.is_some() => {
            if let Some(point) = args.from_point {
                truncate::truncate(store, &session, point)?;
            }
            (session, "overwritten")
        }
        Some(session) => (session, "resumed"),
        None => {
            // Not the arguments: there may be a key among them.
            let program = args.command.first().map(Path::new).and_then(Path::file_name);
            let title = args.title.clone().or_else(|| Some(program?.to_string_lossy().into_owned()));
            let new = NewSession { name: args.name.clone(), title, ..NewSession::default() };
            let (session, instance) = store.start_session(new, &args.agent)?;
            return Ok(Started { session, instance, how: "new" });
        }
    };
    let instance = store.root_instance(session.id)?;
    Ok(Started { session, instance, how })
}

/// What the agent is told first: who it is, its context, and what is left open in it.
fn opening(store: &Store, started: &Started, last_sequence: u64) -> Result<Opening> {
    let context = store.context(started.instance.id)?;
    let dangling = context.dangling_tool_calls()?.into_iter().map(|call| Dangling {
        id: call.id,
        name: call.name,
        arguments: call.arguments,
        sequence: call.sequence_number,
    });
    let ready = Ready { dangling_tool_calls: dangling.collect() };
    let hello = Hello {
        protocol: PROTOCOL,
        runlog: env!("CARGO_PKG_VERSION"),
        session_id: started.session.id,
        instance_id: started.instance.id,
        agent: started.instance.agent_name.clone(),
        started: started.how,
        last_sequence,
    };
    let events = store.contexts().events(started.instance.id, 1)?;
    Ok(Box::new(move |write| {
        let unread = |error: std::io::Error| Failure::io(&error, "the agent doesn't read its context");
        write(ToAgent::Hello(&hello).line()).map_err(unread)?;
        for event in events {
            let event = event?;
            if event.sequence_number > last_sequence {
                break;
            }
            if let Some(message) = event.message_json().map_err(runlog::Error::from)? {
                let line = ToAgent::Message { sequence: event.sequence_number, message: &message }.line();
                write(line).map_err(unread)?;
            }
        }
        write(ToAgent::Ready(&ready).line()).map_err(unread)
    }))
}

/// Records what the agent says until it has ended; gives how it ended, and the signal that Runlog was stopped by.
fn record(mut child: Child, recorder: &mut Recorder<'_>, out: &mut Out) -> Result<(Ended, Option<i32>)> {
    let mut stopped_by = None;
    let mut next = None;
    let mut refusals = 0;
    loop {
        let event = match next.take() {
            Some(event) => event,
            None => child.next()?,
        };
        match event {
            ChildEvent::Line(line) => {
                let mut lines = vec![line];
                while lines.len() < LINES_TOGETHER && next.is_none() {
                    match child.next_now() {
                        Some(ChildEvent::Line(line)) => lines.push(line),
                        Some(other) => next = Some(other),
                        None => break,
                    }
                }
                for recorded in recorder.take(lines)? {
                    answer(&mut child, recorded, &mut refusals, out)?;
                }
                out.flush()?;
            }
            ChildEvent::Signal(signal) => {
                stop(&mut child, signal, stopped_by.is_some());
                stopped_by.get_or_insert(signal);
            }
            ChildEvent::Failed(failure) => return Err(failure.about("the context can't be given to the agent")),
            ChildEvent::End(ended) => return Ok((ended, stopped_by)),
        }
    }
}

/// Forwards the first signal, and kills at the second one.
fn stop(child: &mut Child, signal: i32, again: bool) {
    if again {
        return child.kill();
    }
    child.send(ToAgent::Stop { reason: "interrupted" }.line());
    // A terminal sends Ctrl-C to the agent by itself; it would count it twice.
    let by_terminal = signal == 2 && std::io::IsTerminal::is_terminal(&std::io::stdin());
    if !by_terminal {
        child.signal(signal);
    }
}

/// Tells the agent and the reader what became of a line; `refusals` counts those that were told.
fn answer(child: &mut Child, recorded: Recorded, refusals: &mut u64, out: &mut Out) -> Result<()> {
    match recorded {
        Recorded::Ack(ack, events) => {
            child.send(ToAgent::Ack(&ack).line());
            if out.is_json() {
                return out.value(&serde_json::json!({"ack": ack}));
            }
            for (sequence, event) in (ack.sequence..).zip(&events) {
                let kind = text::pad(view::kind_name(event.kind), 11);
                let said = view::summary_of(event.kind, &event.content, out.width().saturating_sub(20));
                out.line(format!("{sequence:>5}  {}  {said}", view::styled(event.kind, &kind)).trim_end())?;
            }
            Ok(())
        }
        Recorded::Refused(refusal) => {
            child.send(ToAgent::Error(&refusal).line());
            if out.is_json() {
                return out.value(&serde_json::json!({"error": refusal}));
            }
            *refusals += 1;
            if *refusals > REFUSALS_SHOWN {
                if *refusals == REFUSALS_SHOWN + 1 {
                    to_stderr("… more lines are refused; how many is told at the end, and --json tells each");
                }
                return Ok(());
            }
            let word = console::style("refused").for_stderr().red();
            let what = text::one_line(&refusal.message, 300);
            to_stderr(&format!("{word} line {} of the agent ({}): {what}", refusal.line, refusal.code));
            Ok(())
        }
        Recorded::OtherProtocol(refusal) => {
            child.send(ToAgent::Error(&refusal).line());
            child.close_input();
            Err(Failure::other(format!("the agent can't be run: {}", refusal.message)))
        }
        Recorded::Done => {
            child.close_input();
            Ok(())
        }
    }
}

/// Notes something of the run beside the session's messages.
fn put_aside(store: &Store, started: &Started, what: &serde_json::Value) -> Result<()> {
    // The type comes first, which is how these notes are told from what was imported.
    let json = RawJson::parse(format!("{OWN_BEGINNING}run\",{}", what.to_string().trim_start_matches('{')))
        .map_err(runlog::Error::from)?;
    let mut batch = EntryBatch::new(started.session.id);
    batch.push_aside(&Aside::Other(started.instance.id, json));
    pollster::block_on(store.backend().commit(batch.batch()))?;
    Ok(())
}

fn tell_start(started: &Started, last_sequence: u64, out: &mut Out) -> Result<()> {
    let Started { session, instance, how } = started;
    if out.is_json() {
        out.value(&serde_json::json!({"started": {
            "session_id": session.id, "instance_id": instance.id, "how": how, "last_sequence": last_sequence,
        }}))?;
        return out.flush();
    }
    let from = match last_sequence {
        0 => String::new(),
        last => format!(", from event {}", last + 1),
    };
    note(false, format!("{how} session {}{from}", session.id));
    Ok(())
}

fn tell_end(started: &Started, report: &EndedReport, out: &mut Out) -> Result<()> {
    if out.is_json() {
        return out.value(&serde_json::json!({"ended": report}));
    }
    let how = match (report.exit_code, report.signal) {
        (Some(0), _) => "the agent is done".to_owned(),
        (Some(code), _) => format!("the agent failed with exit code {code}"),
        (None, Some(signal)) => format!("the agent was ended by signal {signal}"),
        (None, None) => "the agent ended".to_owned(),
    };
    let mut line = format!("{how}; recorded {}", text::count(report.events, "event", "events"));
    if report.refused > 0 {
        line += &format!(", refused {}", text::count(report.refused, "line", "lines"));
    }
    out.flush()?;
    note(false, line);
    note(false, format!("`runlog show {}` shows the session", started.session.id));
    Ok(())
}
