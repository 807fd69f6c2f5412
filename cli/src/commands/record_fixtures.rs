//! `runlog record-fixtures`: the calls of a flow's agents as fixtures, to be replayed in tests without a network.
//!
//! Of a flow that a store has recorded, or of a program that is run: what it asks of agents through `recordFixtures` or
//! `createClaudeNode` of the npm package is then written by them.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

use runlog::{AgentEvent, Playback, PlaybackOptions, RunId, Speed, Store};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    args::Global,
    failure::{Exit, Failure, Result},
    output::{Out, note},
    store, table, text,
};

/// The variable that names the folder to the program.
const VARIABLE: &str = "RUNLOG_RECORD_FIXTURES";

const AFTER_HELP: &str = "\
A fixture is a file NODE.json with the calls of one node of a flow: what its agent was asked, what came of it, and the \
events in between. The npm package's `loadFixtures` and `createMockQuery` replay them.

With --run they are taken from a flow that the store has recorded; what its agents were asked is known, the options of \
the call aren't. With a command the command is run, with RUNLOG_RECORD_FIXTURES naming the folder: every node made by \
`createClaudeNode`, and every query wrapped by `recordFixtures`, then writes its calls there. RUNLOG_FLOW is what \
--flow says.

With --json one document: {\"output\", \"fixtures\": {node: calls}, \"left_out\"}.";

/// The arguments.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The folder to write them to; made if it isn't there
    #[arg(long, short, value_name = "DIR")]
    output: PathBuf,
    /// The run of a recorded flow
    #[arg(long, value_name = "RUN", conflicts_with = "command", required_unless_present = "command")]
    run: Option<String>,
    /// The flow, for the command to find
    #[arg(long, value_name = "FILE", requires = "command")]
    flow: Option<PathBuf>,
    /// The program that runs the flow, and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// The calls of one node.
#[derive(Serialize, Deserialize, Default)]
struct Fixture {
    calls: Vec<Call>,
}

#[derive(Serialize, Deserialize)]
struct Call {
    input: Input,
    output: Output,
    events: Vec<Map<String, Value>>,
}

#[derive(Serialize, Deserialize)]
struct Input {
    prompt: Value,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Serialize, Deserialize)]
struct Output {
    text: String,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Serialize)]
struct Written<'a> {
    output: String,
    fixtures: &'a BTreeMap<String, usize>,
    left_out: usize,
}

/// Does it.
pub(crate) fn run(global: &Global, args: &Args, out: &mut Out) -> Result<Exit> {
    let failed = |error: io::Error| Failure::io(&error, format!("can't make {}", args.output.display()));
    fs::create_dir_all(&args.output).map_err(failed)?;
    let (fixtures, left_out, exit) = match &args.run {
        Some(run) => {
            let (fixtures, left_out) = of_run(global, run, &args.output)?;
            (fixtures, left_out, Exit::Ok)
        }
        None => {
            let (fixtures, exit) = of_command(args)?;
            (fixtures, 0, exit)
        }
    };
    if out.is_json() {
        out.value(&Written { output: args.output.display().to_string(), fixtures: &fixtures, left_out })?;
    } else {
        let rows = fixtures.iter().map(|(node, calls)| vec![text::thousands(*calls as u64), node.clone()]);
        table::print(&[table::right("calls"), table::left("node", 80)], &rows.collect::<Vec<_>>(), out)?;
    }
    if left_out > 0 {
        let calls = text::count(left_out as u64, "call", "calls");
        note(out.is_json(), format!("left out {calls} whose agent hasn't completed"));
    }
    Ok(exit)
}

/// Writes the fixtures of a recorded flow, and says how many calls each has, and how many were left out.
fn of_run(global: &Global, run: &str, output: &Path) -> Result<(BTreeMap<String, usize>, usize)> {
    let store = store::open_read_only(global)?;
    let run = store::run_id(&store, run)?;
    let (fixtures, left_out) = fixtures_of(&store, run)?;
    if fixtures.is_empty() {
        let message = format!("the run {run} has recorded no call of an agent that completed");
        return Err(Failure::new(Exit::NotFound, "not_found", message));
    }
    for (node, fixture) in &fixtures {
        write(output, node, fixture)?;
    }
    Ok((fixtures.into_iter().map(|(node, fixture)| (node, fixture.calls.len())).collect(), left_out))
}

/// A call whose agent is at work, by node and execution.
struct Open {
    node: String,
    execution: String,
    input: Input,
    session: Option<String>,
    events: Vec<Map<String, Value>>,
}

fn fixtures_of(store: &Store, run: RunId) -> Result<(BTreeMap<String, Fixture>, usize)> {
    let types = vec!["agent:*".to_owned()];
    let playback = Playback::new(store, run, PlaybackOptions { types, speed: Speed::AtOnce, ..Default::default() })?;
    let mut fixtures: BTreeMap<String, Fixture> = BTreeMap::new();
    let mut open: Vec<Open> = Vec::new();
    let mut left_out = 0;
    for recorded in playback {
        let event = recorded?.1.event;
        let mut fields: Map<String, Value> = event.json.to_value().map_err(runlog::Error::from)?;
        let (node, execution) = (event.node_id.clone().unwrap_or_default(), event.run_id.clone().unwrap_or_default());
        for own in ["nodeId", "runId", "timestamp"] {
            fields.remove(own);
        }
        let place = open.iter().position(|call| call.node == node && call.execution == execution);
        match event.agent().map_err(runlog::Error::from)? {
            AgentEvent::Start { prompt, session_id, .. } => {
                if let Some(place) = place {
                    open.remove(place);
                    left_out += 1;
                }
                fields.remove("prompt");
                let input = Input { prompt, rest: Map::new() };
                open.push(Open { node, execution, input, session: Some(session_id), events: vec![fields] });
            }
            AgentEvent::Complete { result, .. } => {
                let Some(mut call) = place.map(|place| open.remove(place)) else { continue };
                call.events.push(fields.clone());
                for not_output in ["type", "result"] {
                    fields.remove(not_output);
                }
                fields.extend(call.session.map(|session| ("sessionId".to_owned(), session.into())));
                let output = Output { text: result, rest: fields };
                let call = Call { input: call.input, output, events: call.events };
                fixtures.entry(node).or_default().calls.push(call);
            }
            _ => {
                if let Some(call) = place.and_then(|place| open.get_mut(place)) {
                    call.events.push(fields);
                }
            }
        }
    }
    Ok((fixtures, left_out + open.len()))
}

fn write(output: &Path, node: &str, fixture: &Fixture) -> Result<()> {
    if node.is_empty() || node.starts_with('.') || node.contains(['/', '\\', '\0']) {
        return Err(Failure::other(format!("the node {node:?} can't be the name of a fixture's file")));
    }
    let path = output.join(format!("{node}.json"));
    let mut json = serde_json::to_vec_pretty(fixture)
        .map_err(|error| Failure::other(format!("the fixture of {node} has no JSON form: {error}")))?;
    json.push(b'\n');
    fs::write(&path, json).map_err(|error| Failure::io(&error, format!("can't write {}", path.display())))
}

/// Runs the command, and says how many calls each fixture has that it wrote.
fn of_command(args: &Args) -> Result<(BTreeMap<String, usize>, Exit)> {
    let output = fs::canonicalize(&args.output)
        .map_err(|error| Failure::io(&error, format!("can't find {}", args.output.display())))?;
    let Some((program, arguments)) = args.command.split_first() else {
        return Err(Failure::usage("give a run with --run, or a command after --"));
    };
    let before = modified(&output)?;
    let mut command = Command::new(program);
    command.args(arguments).env(VARIABLE, &output);
    if let Some(flow) = &args.flow {
        command.env("RUNLOG_FLOW", flow);
    }
    let status = command.status().map_err(|error| Failure::io(&error, format!("can't run {program}")))?;
    let mut fixtures = BTreeMap::new();
    for (path, time) in modified(&output)? {
        if before.get(&path) != Some(&time) {
            let node = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            fixtures.insert(node, check(&path)?);
        }
    }
    if !status.success() {
        let message = format!("{program} ended with {status}; what it had recorded by then is kept");
        return Err(Failure::new(Exit::Agent, "agent_failed", message));
    }
    if fixtures.is_empty() {
        return Err(Failure::other(format!(
            "{program} wrote no fixture: have its nodes made by createClaudeNode, or its query wrapped by recordFixtures"
        )));
    }
    Ok((fixtures, Exit::Ok))
}

/// The fixtures in a folder, and when each was written.
fn modified(folder: &Path) -> Result<BTreeMap<PathBuf, SystemTime>> {
    let read = || -> io::Result<BTreeMap<PathBuf, SystemTime>> {
        let mut found = BTreeMap::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.path().extension().is_some_and(|extension| extension == "json") {
                found.insert(entry.path(), entry.metadata()?.modified()?);
            }
        }
        Ok(found)
    };
    read().map_err(|error| Failure::io(&error, format!("can't read {}", folder.display())))
}

/// How many calls a fixture has.
fn check(path: &Path) -> Result<usize> {
    let json = fs::read(path).map_err(|error| Failure::io(&error, format!("can't read {}", path.display())))?;
    let fixture: Fixture = serde_json::from_slice(&json)
        .map_err(|error| Failure::other(format!("{} is no fixture: {error}", path.display())))?;
    Ok(fixture.calls.len())
}
