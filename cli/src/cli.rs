//! [`Cli`]: the whole command line, and its dispatch to the commands.

use clap::{CommandFactory, Parser, Subcommand};

use crate::{
    args::Global,
    commands::{
        agents, backup, cancel, chat, chats, compact, completions, copy, demo, erase, export, flow,
        import, ls, man, mcp, record_fixtures, replay, resume, retain, run, runs, salvage, search,
        send, serve, show, stat, tail, truncate, verify,
    },
    failure::{Exit, Result},
    output::Out,
};

const AFTER_HELP: &str = "\
SESSION is a session's id, the beginning of it when no other begins so, its name, or @last.
INSTANCE is an agent instance's id, or the beginning of it; so is RUN a run's and FLOW a flow's, or @last.
@last is one thing to every command: the session that was made, or in which a run was started, last; as a RUN the newest \
of that session's first agent, which `run --resume @last` goes on with; as a FLOW the newest. What an agent spawned is never the last.
CHAT is a chat's id, or a session as above.

With --json every command but completions and man prints one JSON document, or one JSON value a line (`runlog \
COMMAND --help` says which); a failure is a line {\"error\": {\"kind\", \"message\", \"exit\"}} on stderr.

Exit codes:
  0  done
  1  failed
  2  the arguments don't fit
  3  no such store, session, instance, run, flow, agent, chat, file or program,
     or more than one fits
  4  something is there already, the store is in use, or a run's status or steps
     forbid it
  5  the store is damaged; see `runlog verify`
  6  imported, exported or erased, but not everything
  7  the agent that was run ended with a failure
  8  the agent that was run has taken all its steps, and its run is paused
  128 + n  ended by signal n (130: Ctrl-C)

Environment:
  RUNLOG_STORE  the store, where --store isn't given
  COLUMNS       how wide text is; else as the terminal, or 80 columns
  NO_COLOR      no colours";

/// Help isn't wider than this, however wide the terminal is.
pub(crate) const HELP_WIDTH_MAX: usize = 100;

/// Record, replay, resume, truncate and fork AI-agent runs.
#[derive(Parser)]
#[command(name = "runlog", version, after_help = AFTER_HELP, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// What every command takes.
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Kill a recording half-way, recover it, resume it, fork it: what Runlog is for, in one screen
    Demo(demo::Args),
    /// Import transcripts: OpenAI-style chats, Claude Code sessions, SWE-agent trajectories, Runlog exports, tables of chats
    Import(import::Args),
    /// Write sessions out as JSON lines
    Export(export::Args),
    /// List sessions, the one that came into the store last first
    Ls(ls::Args),
    /// Read the conversation of a session or a chat
    Show(show::Args),
    /// Print recorded events again, in order, and with --speed at their pace; no agent is run
    Replay(replay::Args),
    /// Print the newest events of the whole store
    Tail(tail::Args),
    /// Find a text in everything that is recorded
    Search(search::Args),
    /// Say what is in the store
    Stat(stat::Args),
    /// Copy the store to another folder, also while another process writes
    Backup(backup::Args),
    /// Give back the disk space of what was deleted, truncated or redacted, and compress the rest
    Compact(compact::Args),
    /// Give up the sessions that are too old, too many, too large or whose runs failed
    Retain(retain::Args),
    /// Take the contents of sessions, messages or records out of the store and off the disk, for good
    Erase(erase::Args),
    /// Check the whole store: every record, index and checksum
    Verify(verify::Args),
    /// Print every whole record of a folder, also of one that does not open
    Salvage(salvage::Args),
    /// Copy a session, whole or up to a point; nothing is written twice
    Copy(copy::Args),
    /// Forget a session's events after a point
    Truncate(truncate::Args),
    /// Run an agent and record what it does, in a new session or going on with one; `run show` looks at a run
    Run(run::Args),
    /// List runs
    Runs(runs::Args),
    /// List the messages of a run, or read one
    Messages(runs::MessagesArgs),
    /// List the tool calls of a run, or read one
    ToolCalls(runs::ToolCallsArgs),
    /// List chats: sessions as their users see them
    Chats(chats::Args),
    /// Look at a chat and its messages, delete it, or have it back
    Chat(chat::Args),
    /// List the steps of a chat
    Steps(chats::StepsArgs),
    /// List flows of nodes and agents
    Flows(flow::ListArgs),
    /// Look at a flow of nodes and agents, play it back, or leave a command for it
    Flow(flow::Args),
    /// List, show, put and delete the definitions of agents
    Agents(agents::Args),
    /// End a run that nobody wants any more, with all that is below it
    Cancel(cancel::Args),
    /// Send a message to a run that an orchestrator of another process works on
    Send(send::Args),
    /// Write what agents were asked and told as fixtures, for tests without an agent
    RecordFixtures(record_fixtures::Args),
    /// List the runs that are paused and can go on
    Resume(resume::Args),
    /// Serve agents and runs to a client of the Model Context Protocol, on standard input and output
    Mcp(mcp::Args),
    /// Serve the store over HTTP, for the viewer and for programs
    Serve(serve::Args),
    /// Print a completion script for a shell
    Completions(completions::Args),
    /// Print the manual page, or write one for each command
    Man(man::Args),
}

/// Executes the command line.
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
        Command::Search(args) => search::run(&global, &args, out),
        Command::Stat(args) => stat::run(&global, &args, out),
        Command::Backup(args) => backup::run(&global, &args, out),
        Command::Compact(args) => compact::run(&global, &args, out),
        Command::Retain(args) => retain::run(&global, &args, out),
        Command::Erase(args) => erase::run(&global, &args, out),
        Command::Verify(args) => verify::run(&global, &args, out),
        Command::Salvage(args) => salvage::run(&global, &args, out),
        Command::Copy(args) => copy::run(&global, &args, out),
        Command::Truncate(args) => truncate::run(&global, &args, out),
        Command::Run(args) => run::run(&global, &args, out),
        Command::Runs(args) => runs::run(&global, args, out),
        Command::Messages(args) => runs::messages(&global, args, out),
        Command::ToolCalls(args) => runs::tool_calls(&global, args, out),
        Command::Chats(args) => chats::run(&global, &args, out),
        Command::Chat(args) => chat::run(&global, &args, out),
        Command::Steps(args) => chats::steps(&global, &args, out),
        Command::Flows(args) => flow::list(&global, args, out),
        Command::Agents(args) => agents::run(&global, &args, out),
        Command::Cancel(args) => cancel::run(&global, &args, out),
        Command::Send(args) => send::run(&global, &args, out),
        Command::Flow(args) => flow::run(&global, &args, out),
        Command::RecordFixtures(args) => record_fixtures::run(&global, &args, out),
        Command::Resume(args) => resume::run(&global, &args, out),
        Command::Mcp(args) => mcp::run(&global, &args),
        Command::Serve(args) => serve::run(&global, args, out),
        Command::Completions(args) => completions::run(&args, Cli::command(), out),
        Command::Man(args) => man::run(&args, Cli::command(), out),
    }
}
