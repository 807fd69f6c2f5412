//! `runlog record-fixtures`: what agents were asked and told, as files that tests play.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use runlog::{AgentInstance, Playback, PlaybackOptions, RunId, Speed, Store};
use serde::Serialize;

use crate::{
    args::Global,
    failure::{Exit, Failure, Result},
    fixtures::{Fixture, Fixtures, FlowFixtures, file_of, of_context},
    output::Out,
    store, text,
};

const AFTER_HELP: &str = "\
A file is written for each node, NODE.json, which the npm package's loadFixtures() reads: no agent is run, here or in the \
test. Of a flow, the calls of its agents; of an agent's run, a session or an instance, a call for each of the user's \
messages, under the agent's name.

With --json one document: {\"output\", \"files\": [{\"node\", \"path\", \"calls\"}]}.";

/// The arguments.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// What was recorded: the run of a flow or of an agent, a session, or an instance
    #[arg(value_name = "RUN|SESSION")]
    of: String,
    /// The folder to write to; made if it isn't there
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Only this node; can be given more than once
    #[arg(long = "node", value_name = "NODE")]
    nodes: Vec<String>,
    /// Write over files that are there already
    #[arg(long)]
    overwrite: bool,
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

/// Does it.
pub(crate) fn run(global: &Global, args: &Args, out: &mut Out) -> Result<Exit> {
    let store = store::open_read_only(global)?;
    let mut fixtures = recorded(&store, &args.of)?;
    if let Some(unknown) = args.nodes.iter().find(|node| !fixtures.contains_key(*node)) {
        let known = fixtures.keys().map(|node| format!("{node:?}")).collect::<Vec<_>>().join(", ");
        let message = format!("{:?} has no calls of the node {unknown:?}; it has those of {known}", args.of);
        return Err(Failure::new(Exit::NotFound, "not_found", message));
    }
    fixtures.retain(|node, _| args.nodes.is_empty() || args.nodes.contains(node));

    let paths: Vec<PathBuf> = fixtures.keys().map(|node| args.output.join(file_of(node))).collect();
    if let Some(path) = paths.iter().find(|path| !args.overwrite && path.exists()) {
        let message = format!("{} is there already; give another --output, or --overwrite", path.display());
        return Err(Failure::new(Exit::Conflict, "already_exists", message));
    }
    fs::create_dir_all(&args.output)
        .map_err(|error| Failure::io(&error, format!("can't make {}", args.output.display())))?;
    let mut files = Vec::new();
    for ((node, fixture), path) in fixtures.into_iter().zip(&paths) {
        write(path, &fixture).map_err(|error| Failure::io(&error, format!("can't write {}", path.display())))?;
        files.push(Written { node, path: path.display().to_string(), calls: fixture.calls.len() });
    }
    if out.is_json() {
        out.value(&Report { output: args.output.display().to_string(), files })?;
    } else {
        for file in &files {
            let calls = text::count(file.calls as u64, "call", "calls");
            out.line(format!("{}: {calls}", text::path(Path::new(&file.path))))?;
        }
    }
    Ok(Exit::Ok)
}

/// What was recorded under a name.
fn recorded(store: &Store, name: &str) -> Result<Fixtures> {
    let none = || Failure::new(Exit::NotFound, "not_found", format!("{name:?} has no calls of an agent to record"));
    // A session has the name `@last` too, but what has calls of agents in it is the newest run.
    let run = match store::run_id(store, name) {
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
    let subject = store::subject(store, name).map_err(|failure| if run.is_some() { none() } else { failure })?;
    let mut fixtures = Fixtures::new();
    for instance in subject.instances() {
        add(&mut fixtures, store, instance, None)?;
    }
    if fixtures.is_empty() { Err(none()) } else { Ok(fixtures) }
}

/// The fixtures of a run: of its flow, if it is one, else of what its agent was asked and answered in it.
fn of_run(store: &Store, run: RunId) -> Result<Fixtures> {
    let options = PlaybackOptions { speed: Speed::AtOnce, ..PlaybackOptions::default() };
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
fn add(fixtures: &mut Fixtures, store: &Store, instance: &AgentInstance, run: Option<RunId>) -> Result<()> {
    let mut events = store.contexts().get_events(instance.id, 1)?;
    events.retain(|event| run.is_none() || event.run_id == run);
    if events.is_empty() {
        return Ok(());
    }
    let Fixture { calls } = of_context(&events, &instance.id.to_string())?;
    fixtures.entry(instance.agent_name.clone()).or_default().calls.extend(calls);
    Ok(())
}

/// Writes a fixture in one go, so that whoever reads it never finds half of it.
fn write(path: &Path, fixture: &Fixture) -> io::Result<()> {
    let new = path.with_extension("json.new");
    let mut file = File::create(&new)?;
    serde_json::to_writer_pretty(&mut file, fixture)?;
    file.write_all(b"\n")?;
    drop(file);
    fs::rename(&new, path)
}
