//! `runlog record-fixtures`: writes recorded calls of agents as files that tests replay.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

use runlog::{
    AgentInstance, RunId,
    blocking::{Playback, Store},
    flows::{PlaybackOptions, Speed},
};
use serde::Serialize;

use crate::{
    args::Global,
    failure::{Exit, Failure, Result},
    find,
    fixtures::{Fixture, Fixtures, FlowFixtures, file_of, node_of, of_context},
    output::{Out, note},
    store, text,
};

const AFTER_HELP: &str = "\
A file is written for each node, NODE.json, which the npm package's loadFixtures() reads: no agent is run, here or in the \
test. Of a flow, the calls of its agents; of an agent's run, a session or an instance, a call for each of the user's \
messages, under the agent's name.

With a command instead, it is run, with RUNLOG_RECORD_FIXTURES naming the folder and RUNLOG_FLOW what --flow says: every \
node that createClaudeNode() made, and every query that recordFixtures() wraps, writes its calls there.

With --json one document: {\"output\", \"files\": [{\"node\", \"path\", \"calls\"}]}.";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// What was recorded: the run of a flow or of an agent, a session, or an instance
    #[arg(
        value_name = "RUN|SESSION",
        conflicts_with = "command",
        required_unless_present = "command"
    )]
    of: Option<String>,
    /// The folder to write to; made if it isn't there
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Only this node; can be given more than once
    #[arg(long = "node", value_name = "NODE")]
    nodes: Vec<String>,
    /// Write over files that are there already and say something else
    #[arg(long)]
    overwrite: bool,
    /// The flow, for the command to find
    #[arg(long, value_name = "FILE", requires = "command")]
    flow: Option<PathBuf>,
    /// The program that runs a flow, and its arguments
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["nodes", "overwrite"])]
    command: Vec<String>,
}

#[derive(Serialize)]
struct Written {
    node: String,
    path: String,
    calls: usize,
}

#[derive(Serialize)]
struct Report {
    output: String,
    files: Vec<Written>,
}

pub(crate) fn run(global: &Global, args: &Args, out: &mut Out) -> Result<Exit> {
    let (files, exit) = match &args.of {
        Some(of) => (of_store(global, args, of)?, Exit::Ok),
        None => of_program(args, out.is_json())?,
    };
    if out.is_json() {
        out.value(&Report {
            output: args.output.display().to_string(),
            files,
        })?;
    } else {
        for file in &files {
            let calls = text::count(file.calls as u64, "call", "calls");
            out.line(format!("{}: {calls}", text::path(Path::new(&file.path))))?;
        }
    }
    Ok(exit)
}

/// Writes fixtures of recorded runs.
fn of_store(global: &Global, args: &Args, of: &str) -> Result<Vec<Written>> {
    let store = store::open_read_only(global)?;
    let mut fixtures = recorded(&store, of)?;
    if let Some(unknown) = args.nodes.iter().find(|node| !fixtures.contains_key(*node)) {
        let known = fixtures
            .keys()
            .map(|node| format!("{node:?}"))
            .collect::<Vec<_>>()
            .join(", ");
        let message =
            format!("{of:?} has no calls of the node {unknown:?}; it has those of {known}");
        return Err(Failure::not_found(message));
    }
    fixtures.retain(|node, _| args.nodes.is_empty() || args.nodes.contains(node));

    let mut new = Vec::new();
    for (node, fixture) in &fixtures {
        let path = args.output.join(file_of(node));
        let json = json_of(fixture)
            .map_err(|error| Failure::io(&error, format!("can't write {}", path.display())))?;
        // A file with the same content may come from an earlier attempt of this command that was interrupted.
        let is_there = path.exists();
        if is_there && !args.overwrite && fs::read(&path).ok().as_ref() != Some(&json) {
            let message = format!(
                "{} is there already, and differs; give another --output, or --overwrite",
                path.display()
            );
            return Err(Failure::new(Exit::Conflict, "already_exists", message));
        }
        new.push((path, json));
    }
    make(&args.output)?;
    let mut files = Vec::new();
    for ((node, fixture), (path, json)) in fixtures.into_iter().zip(&new) {
        write(path, json)
            .map_err(|error| Failure::io(&error, format!("can't write {}", path.display())))?;
        files.push(Written {
            node,
            path: path.display().to_string(),
            calls: fixture.calls.len(),
        });
    }
    Ok(files)
}

/// Runs the command, and returns the files it wrote.
fn of_program(args: &Args, is_json: bool) -> Result<(Vec<Written>, Exit)> {
    make(&args.output)?;
    let unreadable =
        |error: io::Error| Failure::io(&error, format!("can't read {}", args.output.display()));
    let folder = fs::canonicalize(&args.output).map_err(unreadable)?;
    let Some((program, arguments)) = args.command.split_first() else {
        return Err(Failure::usage("give a run, or a command after --"));
    };
    let before = written_at(&folder).map_err(unreadable)?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("RUNLOG_RECORD_FIXTURES", &folder);
    if let Some(flow) = &args.flow {
        command.env("RUNLOG_FLOW", flow);
    }
    let status = command
        .status()
        .map_err(|error| Failure::io(&error, format!("can't run {program}")))?;
    let mut files = Vec::new();
    for (path, time) in written_at(&folder).map_err(unreadable)? {
        if before.get(&path) != Some(&time) {
            let (node, calls) = (node_of(&path), calls_of(&path)?);
            files.push(Written {
                node,
                path: path.display().to_string(),
                calls,
            });
        }
    }
    if !status.success() {
        note(
            is_json,
            format!("{program} ended with {status}; what was recorded by then is kept"),
        );
        return Ok((files, Exit::Agent));
    }
    if files.is_empty() {
        return Err(Failure::other(format!(
            "{program} wrote no fixture: have its nodes made by createClaudeNode, or its query wrapped by recordFixtures"
        )));
    }
    Ok((files, Exit::Ok))
}

fn make(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)
        .map_err(|error| Failure::io(&error, format!("can't make {}", folder.display())))
}

/// The fixtures in a folder, and when each was written.
fn written_at(folder: &Path) -> io::Result<BTreeMap<PathBuf, SystemTime>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry
            .path()
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            found.insert(entry.path(), entry.metadata()?.modified()?);
        }
    }
    Ok(found)
}

/// How many calls a fixture has.
fn calls_of(path: &Path) -> Result<usize> {
    let json = fs::read(path)
        .map_err(|error| Failure::io(&error, format!("can't read {}", path.display())))?;
    let fixture: serde_json::Value = serde_json::from_slice(&json).unwrap_or_default();
    let calls = fixture.get("calls").and_then(serde_json::Value::as_array);
    calls
        .map(Vec::len)
        .ok_or_else(|| Failure::other(format!("{} is no fixture: it has no calls", path.display())))
}

/// The fixtures of the recording with a name.
fn recorded(store: &Store, name: &str) -> Result<Fixtures> {
    let none = || Failure::not_found(format!("{name:?} has no calls of an agent to record"));
    // `@last` also names a session, whose newest run is the one with calls of agents.
    let run = match find::run_id(store, name) {
        Ok(run) => Some(run),
        Err(failure) if failure.kind() == "ambiguous" => return Err(failure),
        Err(_) => None,
    };
    if let Some(run) = run {
        let fixtures = of_run(store, run)?;
        if !fixtures.is_empty() {
            return Ok(fixtures);
        }
    }
    let subject = find::subject(store, name)
        .map_err(|failure| if run.is_some() { none() } else { failure })?;
    let mut fixtures = Fixtures::new();
    for instance in subject.instances() {
        add(&mut fixtures, store, instance, None)?;
    }
    if fixtures.is_empty() {
        Err(none())
    } else {
        Ok(fixtures)
    }
}

/// The fixtures of a run: of its flow if it has one, otherwise of its agent's messages.
fn of_run(store: &Store, run: RunId) -> Result<Fixtures> {
    let options = PlaybackOptions {
        speed: Speed::AtOnce,
        ..PlaybackOptions::default()
    };
    let mut of_flow = FlowFixtures::default();
    match Playback::new(store, run, options) {
        Ok(mut playback) => {
            for event in playback.by_ref() {
                of_flow.add(&event?.1.event)?;
            }
        }
        Err(error) if error.kind() == runlog::ErrorKind::NotFound => return Ok(Fixtures::new()),
        Err(error) => return Err(error.into()),
    }
    let mut fixtures = of_flow.finish();
    if !fixtures.is_empty() {
        return Ok(fixtures);
    }
    let instance = match store.runs().get(run)? {
        Some(run) => store.get_instance(run.instance_id)?,
        None => None,
    };
    if let Some(instance) = instance {
        add(&mut fixtures, store, &instance, Some(run))?;
    }
    Ok(fixtures)
}

/// Adds the calls of an instance, or those of one of its runs, under its agent's name.
fn add(
    fixtures: &mut Fixtures,
    store: &Store,
    instance: &AgentInstance,
    run: Option<RunId>,
) -> Result<()> {
    let mut events = store.contexts().get_events(instance.id, 1)?;
    events.retain(|event| run.is_none() || event.run_id == run);
    if events.is_empty() {
        return Ok(());
    }
    let Fixture { calls } = of_context(&events, &instance.id.to_string())?;
    fixtures
        .entry(instance.agent_name.clone())
        .or_default()
        .calls
        .extend(calls);
    Ok(())
}

/// A fixture in the format of its file.
fn json_of(fixture: &Fixture) -> io::Result<Vec<u8>> {
    let mut json = serde_json::to_vec_pretty(fixture)?;
    json.push(b'\n');
    Ok(json)
}

/// Writes a file atomically, so that a reader never sees part of it.
fn write(path: &Path, json: &[u8]) -> io::Result<()> {
    let new = path.with_extension("json.new");
    fs::write(&new, json)?;
    fs::rename(&new, path)
}
