//! The arguments of `runlog import`.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use runlog::transcripts::Format;

use crate::import::tables::FileFormat;

const AFTER_HELP: &str = "\
The format is found out by looking: OpenAI-style chat messages (a run a line, or a message a line), Claude Code \
session files, SWE-agent .traj files, what `runlog export` wrote, and the tables agent_chat, agent_message, agent_step \
and agent_history with a row of JSON a line. Messages, tool calls and arguments are kept byte for byte, and what stands around them is kept too.

What `runlog export` wrote comes back as it was: sessions, runs, chats, flows and definitions with their ids, sequences \
and times; the times of flows' events and of saved states only in a store that this import makes, else theirs is that of the import, and \
playback doesn't wait between them. It is read whole before anything is written. What is there already is skipped, so that importing twice changes \
nothing and a newer export adds what is new; a session that went another way since is left out as a whole, and reported (exit \
code 6). An import that is interrupted lists nothing of it yet; importing the file again completes it.

Of other formats: a session is called what its source calls it (a Claude Code sessionId, a run's id), else after the file. When the \
store has a session of that name, the import goes on with it: what is there already is skipped, so that \
importing twice changes nothing, and a file that grew adds what is new. One of the same name that says something \
else gets a name beside it: NAME~2.

A session is there whole or not at all, unless it is too long for one write. An import that is interrupted marks what \
it leaves unfinished; importing the file again completes it, and says so.

The rows of agent_chat become chats, those of agent_message and agent_step messages and steps of these chats: import \
agent_chat first, for a chat that isn't there is made with no more than its rows tell. The rows of agent_history, the older \
table of messages, need their chats; the rows of a chat are ordered by created_at, then by id where that is a number, \
whatever their order in the file: up to 64 MiB of it at a time, so order a larger one by created_at and id when you export it. A row that is there already is left as it is, and one that was deleted is passed over.

A line that is no JSON is left out and reported (exit code 6); a line that is JSON but no message is kept beside the \
messages, with a warning. --strict stops at either.

With --json: a line for each file, {\"file\", \"format\", \"sessions\": [{\"id\", \"name\", \"outcome\"}], \"chats\", \
\"messages\", \"chat_messages\", \"steps\", \"tool_calls\", \"other\", \"skipped\", \"issues\": [{\"severity\", \"line\", \"column\", \"what\"}], \"seconds\"}, \
where \"outcome\" is created, continued, completed, unchanged or conflict, and \"skipped\" what was there already: messages \
and other lines of a transcript, rows of a table, records of an export. Of an export, \"chats\" says how many of the sessions \
are chats, \"messages\" those of agents' contexts, and \"chat_messages\" those of chats; of a table all are \"messages\".";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The files; - is standard input
    #[arg(required = true, value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// Stop at the first thing that is wrong with a file
    #[arg(long)]
    pub(super) strict: bool,
    /// Take the files to be of this format
    #[arg(long, value_parser = file_format_parser())]
    pub(super) format: Option<FileFormat>,
    /// Put the sessions into this project; a table has none
    #[arg(long)]
    pub(super) project: Option<String>,
}

fn file_format_parser() -> impl TypedValueParser<Value = FileFormat> {
    PossibleValuesParser::new(FileFormat::named())
        .map(|name| FileFormat::from_name(&name).unwrap_or(FileFormat::Transcript(Format::Runlog)))
}
