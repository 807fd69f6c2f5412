//! The commands, one a file.

pub(crate) mod agents;
pub(crate) mod backup;
pub(crate) mod cancel;
pub(crate) mod chats;
pub(crate) mod completions;
pub(crate) mod copy;
pub(crate) mod demo;
pub(crate) mod export;
pub(crate) mod flow;
pub(crate) mod import;
pub(crate) mod ls;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod record_fixtures;
pub(crate) mod replay;
pub(crate) mod resume;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod salvage;
pub(crate) mod show;
pub(crate) mod stat;
pub(crate) mod tail;
pub(crate) mod truncate;
pub(crate) mod verify;

use crate::{
    args::{Cli, Command},
    failure::{Exit, Result},
    output::Out,
};

/// Does what the command line says.
pub(crate) fn run(cli: Cli, out: &mut Out) -> Result<Exit> {
    let global = cli.global;
    match cli.command {
        Command::Demo(args) => demo::run(&global, &args, out),
        Command::Import(args) => import::run(&global, &args, out),
        Command::Export(args) => export::run(&global, &args, out),
        Command::Ls(args) => ls::run(&global, &args, out),
        Command::Show(args) => show::run(&global, &args, out),
        Command::Replay(args) => replay::run(&global, &args, out),
        Command::Tail(args) => tail::run(&global, &args, out),
        Command::Stat(args) => stat::run(&global, &args, out),
        Command::Backup(args) => backup::run(&global, &args, out),
        Command::Verify(args) => verify::run(&global, &args, out),
        Command::Salvage(args) => salvage::run(&global, &args, out),
        Command::Copy(args) => copy::run(&global, &args, out),
        Command::Truncate(args) => truncate::run(&global, &args, out),
        Command::Run(args) => run::run(&global, &args, out),
        Command::Runs(args) => runs::run(&global, &args, out),
        Command::Messages(args) => runs::messages(&global, &args, out),
        Command::ToolCalls(args) => runs::tool_calls(&global, &args, out),
        Command::Chats(args) => chats::run(&global, &args, out),
        Command::Steps(args) => chats::steps(&global, &args, out),
        Command::Flows(args) => flow::list(&global, &args, out),
        Command::Agents(args) => agents::run(&global, &args, out),
        Command::Cancel(args) => cancel::run(&global, &args, out),
        Command::Flow(args) => flow::run(&global, &args, out),
        Command::RecordFixtures(args) => record_fixtures::run(&global, &args, out),
        Command::Resume(args) => resume::run(&global, &args, out),
        Command::Mcp(args) => mcp::run(&global, &args),
        Command::Completions(args) => completions::run(&args, out),
        Command::Man(args) => man::run(&args, out),
        Command::DemoAgent(args) => demo::agent(&args),
        Command::ScriptedAgent(args) => run::scripted_agent(&args),
    }
}
