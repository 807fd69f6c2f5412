//! The session of a recorded run: a new one, one with a paused run, or another existing one.

use std::{ffi::OsString, path::Path};

use runlog::{
    AgentInstance, ErrorKind, NewMessage, NewRun, NewSession, RawJson, Run, RunId, RunStatus,
    Session,
    blocking::{RunRecorder, Store},
    runs::{Continuation, Dangling, MAX_TOTAL_STEPS_PER_RUN, ResumeOptions},
    sessions::CopySession,
};

use super::{agents::check_project, args::Args};
use crate::{
    commands::{copy, truncate},
    failure::{Exit, Failure, Result},
    find,
    mcp::AgentsFile,
    output::note,
    text,
};

/// The result recorded for an interrupted tool call, if the command line requests that.
const INTERRUPTED: &str = "The tool call was interrupted; it has no result.";

/// What the run continues from.
pub(super) enum Source {
    /// Nothing; the new session is of this project.
    New(Option<String>),
    /// A session, which may be copied or truncated first.
    Session(Session),
    /// A paused run in a session.
    Paused(Session, Box<Run>),
}

impl Source {
    /// The run that is gone on from.
    pub(super) fn resumed(&self) -> Option<RunId> {
        match self {
            Self::Paused(_, run) => Some(run.id),
            Self::New(_) | Self::Session(_) => None,
        }
    }
}

/// A started run, and how it was started.
pub(super) struct Started {
    pub(super) session: Session,
    pub(super) instance: AgentInstance,
    pub(super) run: RunRecorder,
    /// `new`, `resumed`, `copied` or `overwritten`.
    pub(super) how: &'static str,
}

/// Finds the source named on the command line; an error if it can't be continued. Changes nothing.
pub(super) fn find(store: &Store, args: &Args, agents: Option<&AgentsFile>) -> Result<Source> {
    let source = match (&args.resume, args.copy.as_ref().or(args.overwrite.as_ref())) {
        (Some(text), _) => to_resume(store, text, args)?,
        (None, Some(text)) => Source::Session(find::session(store, text)?),
        (None, None) => return Ok(Source::New(agents.and_then(|file| file.project.clone()))),
    };
    if let Source::Session(session) | Source::Paused(session, _) = &source {
        check_project(agents, session)?;
    }
    Ok(source)
}

fn to_resume(store: &Store, text: &str, args: &Args) -> Result<Source> {
    let (session, run) = match find::session(store, text) {
        Ok(session) => {
            let run = newest_run(store, &session)?;
            (session, run)
        }
        // It may be a run's id: that of a sub-agent, say.
        Err(failure) if failure.kind() == "not_found" => {
            let run = match find::run_id(store, text) {
                Ok(id) => store.runs().get(id)?,
                Err(other) if other.kind() == "not_found" => None,
                Err(other) => return Err(other),
            };
            let Some(run) = run else { return Err(failure) };
            (
                store.get_session(run.session_id)?.ok_or(failure)?,
                Some(run),
            )
        }
        Err(failure) => return Err(failure),
    };
    let Some(run) = run else {
        return Ok(Source::Session(session));
    };
    // Refused before a program is started for it.
    let options = ResumeOptions {
        ended: args.ended,
        max_total_steps: args.max_total_steps.unwrap_or(MAX_TOTAL_STEPS_PER_RUN),
        ..ResumeOptions::default()
    };
    let resumable = store.runs().resumable(run.id, &options);
    let resumable = resumable.map_err(|error| not_resumable(error, &run, args.ended))?;
    Ok(Source::Paused(session, Box::new(resumable)))
}

/// The error of a run that can't be resumed, with what can be done instead.
fn not_resumable(error: runlog::Error, run: &Run, ended: bool) -> Failure {
    let id = run.session_id;
    let instead = format!(
        "--overwrite {id} starts a new one in the session as it is, --copy {id} one in a copy"
    );
    if run.status.is_final() && !ended {
        // The library's error gives the same advice, in words of its own.
        let (status, run) = (run.status, run.id);
        let what = format!("run {run} is {status}; only paused runs can be resumed");
        let failure = Failure::new(Exit::Conflict, error.kind().name(), what);
        return failure.and(format!("--resume {run} --ended goes on from it, {instead}"));
    }
    if error.kind() == ErrorKind::LimitReached {
        let failure = Failure::from(error).and("--max-total-steps N allows more");
        return failure.and(instead);
    }
    Failure::from(error).and(instead)
}

/// The newest run of a session's first agent: the one that its context ends with.
fn newest_run(store: &Store, session: &Session) -> Result<Option<Run>> {
    match find::newest_run(store, session.id)? {
        Some(run) => Ok(store.runs().get(run)?),
        None => Ok(None),
    }
}

/// Creates the session, or copies or truncates it as requested, and starts the run.
pub(super) fn start(store: &Store, source: Source, args: &Args, json: bool) -> Result<Started> {
    let (session, how) = match source {
        Source::New(project) => return new(store, args, project),
        Source::Paused(session, run) => return resume(store, session, &run, args, json),
        Source::Session(source) if args.copy.is_some() => {
            let options = CopySession {
                up_to_sequence: args.to_point,
                name: args.name.clone(),
                ..CopySession::default()
            };
            let copied = copy::copy(store, &source, &options);
            let copied = copied.map_err(|failure| taken(store, args, failure))?;
            if !json {
                copy::note_same(&copy::same_copies(store, &source, &copied)?);
            }
            (copied, "copied")
        }
        Source::Session(session) if args.overwrite.is_some() => {
            if let Some(point) = args.from_point {
                truncate::truncate(store, &session, point)?;
            }
            (session, "overwritten")
        }
        Source::Session(session) => (session, "resumed"),
    };
    let instance = store.root_instance(session.id)?;
    let context = store.context(instance.id)?;
    if args.close_tool_calls {
        note_closed(context.close_dangling_tool_calls(INTERRUPTED)?.len(), json);
    } else {
        note_open(context.dangling_tool_calls()?.len(), json);
    }
    // Far enough back for a message before the tool calls that it makes.
    const LOOKED_AT: u64 = 64;
    let last = context.get_last_sequence()?;
    let latest = context.replay_from_sequence(last.saturating_sub(LOOKED_AT))?;
    let run = NewRun {
        max_steps: args.max_steps,
        messages: messages(args, latest.last().map(|message| &message.json))?,
        ..NewRun::new(instance.id)
    };
    Ok(Started {
        session,
        instance,
        run: store.runs().start(run)?,
        how,
    })
}

fn new(store: &Store, args: &Args, project: Option<String>) -> Result<Started> {
    // A session that has a name is known by it.
    let title = match (&args.title, &args.name) {
        (None, None) => program_name(&args.program),
        (title, _) => title.clone(),
    };
    let session = NewSession {
        name: args.name.clone(),
        title,
        project,
        ..NewSession::default()
    };
    let run = NewRun::in_new_session(session, &args.agent);
    let run = NewRun {
        max_steps: args.max_steps,
        messages: messages(args, None)?,
        ..run
    };
    let run = store
        .runs()
        .start(run)
        .map_err(|error| taken(store, args, error.into()))?;
    let missing = || Failure::other("the session that was just made is not there");
    let session = store
        .get_session(run.run().session_id)?
        .ok_or_else(missing)?;
    let instance = store
        .get_instance(run.run().instance_id)?
        .ok_or_else(missing)?;
    Ok(Started {
        session,
        instance,
        run,
        how: "new",
    })
}

/// What the agent is called: its program, or the script that an interpreter runs. Without other arguments, which may contain a secret.
fn program_name(program: &[OsString]) -> Option<String> {
    const INTERPRETERS: [&str; 8] = ["bash", "bun", "deno", "node", "python", "ruby", "sh", "uv"];
    const SCRIPTS: [&str; 8] = ["cjs", "js", "mjs", "mts", "py", "rb", "sh", "ts"];
    let name_of = |argument: &OsString| {
        let name = Path::new(argument).file_name()?;
        Some(name.to_string_lossy().into_owned())
    };
    let name = name_of(program.first()?)?;
    // `python3.11`, too.
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    if !INTERPRETERS.contains(&plain) {
        return Some(name);
    }
    let is_script = |argument: &&OsString| {
        let extension = Path::new(argument).extension();
        extension.is_some_and(|it| SCRIPTS.iter().any(|script| it == *script))
    };
    let script = program.iter().skip(1).find(is_script);
    script.and_then(name_of).or(Some(name))
}

/// The failure for a session name that exists, with the command to continue that session, which an earlier attempt of
/// the same command may have created.
fn taken(store: &Store, args: &Args, failure: Failure) -> Failure {
    let Some(name) = args
        .name
        .as_deref()
        .filter(|_| failure.kind() == ErrorKind::AlreadyExists.name())
    else {
        return failure;
    };
    let Ok(session) = store.find_session(name) else {
        return failure;
    };
    let go_on = |does: &str| format!("`runlog run --resume {name} -- CMD` {does}");
    match newest_run(store, &session) {
        Ok(Some(run)) if run.status == RunStatus::Paused => failure.and(format!(
            "its run {} is paused; {}",
            run.id,
            go_on("goes on from it")
        )),
        Ok(Some(run)) => failure.and(format!("its run {} is {}", run.id, run.status)),
        Ok(None) => failure.and(format!("it has no run yet; {}", go_on("starts one"))),
        Err(_) => failure,
    }
}

fn resume(store: &Store, session: Session, run: &Run, args: &Args, json: bool) -> Result<Started> {
    let options = ResumeOptions {
        message: match &args.message {
            Some(text) => Continuation::Message(NewMessage::user(text)),
            None if args.no_message => Continuation::Nothing,
            None => Continuation::Default,
        },
        max_steps: args.max_steps,
        dangling: if args.leave_tool_calls {
            Dangling::Report
        } else {
            Dangling::Close
        },
        ended: args.ended,
        max_total_steps: args.max_total_steps.unwrap_or(MAX_TOTAL_STEPS_PER_RUN),
        ..ResumeOptions::default()
    };
    let resumed = store.runs().resume(run.id, &options)?;
    if !args.leave_tool_calls {
        note_closed(resumed.dangling.len(), json);
    }
    let missing = || Failure::other(format!("the agent instance of run {} is not there", run.id));
    let instance = store.get_instance(run.instance_id)?.ok_or_else(missing)?;
    Ok(Started {
        session,
        instance,
        run: resumed.recorder,
        how: "resumed",
    })
}

/// The first message of a run, in the form of the context that it is appended to.
fn messages(args: &Args, newest: Option<&RawJson>) -> Result<Vec<RawJson>> {
    let message = args
        .message
        .as_deref()
        .map(|text| NewMessage::user(text).to_json_behind(newest))
        .transpose();
    Ok(message?.into_iter().collect())
}

/// An agent that doesn't expect open calls is refused its first message: by then it is too late to say how to close them.
fn note_open(calls: usize, json: bool) {
    if calls > 0 {
        let have = text::count(calls as u64, "tool call has", "tool calls have");
        let what =
            "its agent records it before its next message, or `--close-tool-calls` closes them all";
        note(json, format!("{have} no result: {what}"));
    }
}

fn note_closed(calls: usize, json: bool) {
    if calls > 0 {
        let what = text::count(calls as u64, "tool call", "tool calls");
        note(json, format!("closed {what} that had no result"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_called_as_its_script() {
        let name = |line: &str| {
            let program: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            program_name(&program).unwrap()
        };
        assert_eq!(name("./my-agent --key secret"), "my-agent");
        assert_eq!(
            name("/usr/bin/python3.11 -u agents/slow.py secret.txt"),
            "slow.py"
        );
        assert_eq!(name("node --import tsx agent.ts"), "agent.ts");
        assert_eq!(name("python3 -m my.secret"), "python3");
    }
}
