//! `runlog agents`: the definitions of agents.

use std::{fs, io::Read, path::PathBuf};

use runlog::{
    AgentDefinition,
    agents::{AgentVisibility, ListAgents},
    contexts::read_json,
};
use serde::Serialize;

use crate::{
    args::{Global, from_to},
    failure::{Exit, Failure, Result},
    output::Out,
    store, table, text,
};

const AFTER_HELP: &str = "\
With --json one document: {\"agents\": [the definitions with their fields, prompts included], \"next\": the name to give \
as --after for the next page, or null}.";

const AFTER_HELP_PUT: &str = "\
FILE holds one definition, a JSON object: {\"name\": \"coder\", \"description\", \"system_prompt\", \"tools\": [names], \
\"flow_type\", \"visibility\": external, project or internal, \"default_timeout_ms\", \"max_steps\", \"metadata\"}. All but \
the name may be left out. The program that does an agent's work isn't part of it: `runlog mcp --agents` names that.

With --json one document: the definition.";

/// How many other projects with agents are named in a hint.
const PROJECTS_SHOWN: usize = 5;

/// The largest definition that is read: 8 MiB.
const FILE_BYTES_MAX: u64 = 8 << 20;

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Sub>,
    /// Those of this project; those of no project unless given
    #[arg(long)]
    project: Option<String>,
    /// Only those of this visibility: external, project, internal
    #[arg(long, value_name = "VISIBILITY")]
    visibility: Option<AgentVisibility>,
    /// At most so many
    #[arg(short = 'n', long, default_value = "50", value_name = "N",
        value_parser = from_to::<usize>(1..=100_000))]
    limit: usize,
    /// Go on behind the agent of this name
    #[arg(long, value_name = "NAME")]
    after: Option<String>,
}

#[derive(clap::Subcommand)]
enum Sub {
    /// List definitions: the same as `agents`
    List(ListArgs),
    /// Show a definition
    #[command(after_help = "With --json one document: the definition.")]
    Show(Named),
    /// Define an agent, or change its definition
    #[command(after_help = AFTER_HELP_PUT)]
    Put(Put),
    /// Delete a definition; runs that are at work go on, and what the agent has done stays
    #[command(after_help = "With --json one document: {\"deleted\": the name}.")]
    Delete(Named),
}

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
struct ListArgs {
    /// Those of this project; those of no project unless given
    #[arg(long)]
    project: Option<String>,
}

/// An agent, by its name.
#[derive(clap::Args)]
struct Named {
    /// The agent
    #[arg(value_name = "NAME")]
    name: String,
    /// The project that it belongs to
    #[arg(long)]
    project: Option<String>,
}

#[derive(clap::Args)]
struct Put {
    /// The definition; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The project that it belongs to, where the file doesn't say
    #[arg(long)]
    project: Option<String>,
}

#[derive(Serialize)]
struct Page {
    agents: Vec<AgentDefinition>,
    next: Option<String>,
}

#[derive(Serialize)]
struct Deleted<'a> {
    deleted: &'a str,
}

pub(crate) fn run(global: &Global, args: &Args, out: &mut Out) -> Result<Exit> {
    match &args.command {
        None => {
            let Args {
                project,
                visibility,
                limit,
                after,
                ..
            } = args;
            let (project, after) = (project.clone(), after.clone());
            list(
                global,
                &ListAgents {
                    project,
                    visibility: *visibility,
                    limit: *limit,
                    cursor: after,
                },
                out,
            )
        }
        Some(Sub::List(args)) => list(global, &ListAgents::of(args.project.as_deref()), out),
        Some(Sub::Show(args)) => show(global, args, out),
        Some(Sub::Put(args)) => put(global, args, out),
        Some(Sub::Delete(args)) => delete(global, args, out),
    }
}

fn list(global: &Global, options: &ListAgents, out: &mut Out) -> Result<Exit> {
    let store = store::open_read_only(global)?;
    let page = store.agents().list(options).map_err(Failure::of_argument)?;
    if out.is_json() {
        out.value(&Page {
            agents: page.items,
            next: page.next,
        })?;
        return Ok(Exit::Ok);
    }
    let columns: [table::Cells<'_, AgentDefinition>; 5] = [
        (table::left("agent", 24), &|agent| agent.name.clone()),
        (table::left("visibility", 10), &|agent| {
            agent.visibility.to_string()
        }),
        (table::right("max steps"), &|agent| {
            most_steps(agent).unwrap_or_default()
        }),
        (table::left("tools", 24), &|agent| agent.tools.join(", ")),
        (table::left("what it is good for", 120), &|agent| {
            agent.description.clone()
        }),
    ];
    table::items(&page.items, "no agents", &columns, out)?;
    if let Some(next) = page.next {
        out.line(format!("… there are more: --after {next:?}"))?;
    } else if options.project.is_none()
        && let Some(others) = in_projects(store.agents().projects()?)
    {
        out.line(format!("agents of projects aren't listed here: {others}"))?;
    }
    Ok(Exit::Ok)
}

/// The projects that have agents, as options; `None` where there are none.
fn in_projects(projects: Vec<(Option<String>, usize)>) -> Option<String> {
    let mut shown: Vec<String> = projects
        .into_iter()
        .filter_map(|(project, agents)| {
            Some(format!("--project {} ({agents})", text::name(&project?)))
        })
        .collect();
    let more = shown.len().saturating_sub(PROJECTS_SHOWN);
    shown.truncate(PROJECTS_SHOWN);
    if more > 0 {
        shown.push(format!("and {more} more"));
    }
    Some(shown.join(", ")).filter(|shown| !shown.is_empty())
}

fn most_steps(agent: &AgentDefinition) -> Option<String> {
    agent.max_steps.map(|steps| text::thousands(steps.into()))
}

fn show(global: &Global, args: &Named, out: &mut Out) -> Result<Exit> {
    let store = store::open_read_only(global)?;
    let agent = store.agents().get(args.project.as_deref(), &args.name)?;
    let agent = agent.ok_or_else(|| {
        let place = args
            .project
            .as_ref()
            .map(|project| format!(" in project {project:?}"))
            .unwrap_or_default();
        let message = format!(
            "no agent {:?} is defined{place}; `runlog agents` lists them",
            args.name
        );
        Failure::not_found(message)
    })?;
    print(&agent, out)
}

fn print(agent: &AgentDefinition, out: &mut Out) -> Result<Exit> {
    let filled = |text: String| Some(text).filter(|text| !text.is_empty());
    let metadata = agent.metadata.as_ref();
    let fields = [
        ("agent", Some(agent.name.clone())),
        ("project", agent.project.clone()),
        ("description", filled(agent.description.clone())),
        ("tools", filled(agent.tools.join(", "))),
        ("flow type", Some(agent.flow_type.clone())),
        ("visibility", Some(agent.visibility.to_string())),
        ("timeout", agent.default_timeout_ms.map(text::milliseconds)),
        ("max steps", most_steps(agent)),
        (
            "metadata",
            metadata.map(|metadata| metadata.as_str().to_owned()),
        ),
        (
            "changed",
            Some(format!("{} UTC", text::time(agent.updated_at_ms))),
        ),
        ("prompt", agent.system_prompt.clone()),
    ];
    table::one(agent, &fields, out)
}

fn put(global: &Global, args: &Put, out: &mut Out) -> Result<Exit> {
    let text = read(&args.file)?;
    let refused =
        |why: String| Failure::usage(format!("{} is no definition: {why}", args.file.display()));
    if text.trim_start().starts_with('[') {
        let why = "it is a list; give one definition at a time (`runlog mcp --agents` takes a list of them)";
        return Err(refused(why.to_owned()));
    }
    let mut definition: AgentDefinition =
        read_json(&text).map_err(|error| refused(error.to_string()))?;
    definition.project = definition.project.or_else(|| args.project.clone());
    let store = store::open_or_create(global)?;
    let put = store
        .agents()
        .put(definition)
        .map_err(Failure::of_argument)?;
    store.close()?;
    print(&put, out)
}

/// Reads a file or standard input.
fn read(path: &PathBuf) -> Result<String> {
    let unread =
        |error: std::io::Error| Failure::io(&error, format!("can't read {}", path.display()));
    let mut text = String::new();
    let mut source: Box<dyn Read> = match path.as_os_str() == "-" {
        true => Box::new(std::io::stdin()),
        false => Box::new(fs::File::open(path).map_err(unread)?),
    };
    source
        .by_ref()
        .take(FILE_BYTES_MAX + 1)
        .read_to_string(&mut text)
        .map_err(unread)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        let message = format!(
            "{} has more than {FILE_BYTES_MAX} bytes, and isn't read",
            path.display()
        );
        return Err(Failure::usage(message));
    }
    Ok(text)
}

fn delete(global: &Global, args: &Named, out: &mut Out) -> Result<Exit> {
    let store = store::open(global)?;
    store.agents().delete(args.project.as_deref(), &args.name)?;
    store.close()?;
    if out.is_json() {
        out.value(&Deleted {
            deleted: &args.name,
        })?;
    } else {
        out.line(format!("deleted the definition of agent {:?}", args.name))?;
    }
    Ok(Exit::Ok)
}
