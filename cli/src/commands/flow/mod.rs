//! `runlog flows` and `runlog flow`: flows of nodes and agents.

mod command;
mod list;
mod replay;
mod show;

pub(crate) use list::{Args as ListArgs, run as list};

use crate::{
    args::Global,
    failure::{Exit, Result},
    output::Out,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Sub,
}

#[derive(clap::Subcommand)]
enum Sub {
    /// Show the latest snapshot of a flow, the commands that wait for it, and how many events it has of each type
    Show(show::Args),
    /// Play the events of a flow back, in order, and with --speed at their pace; nothing is run
    #[command(visible_alias = "events")]
    Replay(replay::Args),
    /// Leave a message for a run of one of the flow's nodes
    Send(command::SendArgs),
    /// Leave a reply for a run of one of the flow's nodes
    Reply(command::SendArgs),
    /// Leave the message that the flow's nodes are to be resumed with
    Resume(command::ResumeArgs),
    /// Leave a command for the flow, as JSON
    Command(command::CommandArgs),
}

pub(crate) fn run(global: &Global, args: &Args, out: &mut Out) -> Result<Exit> {
    match &args.command {
        Sub::Show(args) => show::run(global, args, out),
        Sub::Replay(args) => replay::run(global, args, out),
        Sub::Send(args) => command::send(global, "send", args, out),
        Sub::Reply(args) => command::send(global, "reply", args, out),
        Sub::Resume(args) => command::resume(global, args, out),
        Sub::Command(args) => command::command(global, args, out),
    }
}
