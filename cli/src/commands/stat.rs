//! `runlog stat`: how large the store is, and what is in it.

use runlog::{blocking::Store, chats::ChatFilter, log::Stat};
use serde::Serialize;

use crate::{
    args::Global,
    failure::{Exit, Result},
    find,
    output::Out,
    read, store, text,
};

const AFTER_HELP: &str = "\
The records of the log are all that were ever appended; `verify` counts those that are there, which are fewer after a \
compaction. A store that was made for an export has the time of that export's first record as the one when it was made, since \
nothing in a log is older than the log.

Instances are those of agents in sessions, each with a context of its own; events are those of these contexts. The messages of chats aren't among them, and are not counted, since that would \
read every chat: `runlog chats` lists the chats, `runlog chat show` counts the messages of one.

With --json: {\"path\", \"sessions\", \"chats\": how many of these are chats, \"instances\", \"events\", \"store\": its id, \"created_ms\", \"segments\", \"streams\", \
\"streams_deleted\", \"last_position\", \"last_time_ms\", \"segment_bytes\", \"used_bytes\", \"has_writer\", \"readers_behind\"}.";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {}

#[derive(Serialize)]
struct Report {
    path: String,
    sessions: u64,
    chats: u64,
    instances: u64,
    events: u64,
    #[serde(flatten)]
    stat: Stat,
}

pub(crate) fn run(global: &Global, _: &Args, out: &mut Out) -> Result<Exit> {
    let store = store::open_read_only(global)?;
    let stat = pollster::block_on(store.backend().maintenance().stat())?;
    let (sessions, instances, events) = totals(&store)?;
    let report = Report {
        path: global.store.display().to_string(),
        sessions,
        chats: chats(&store)?,
        instances,
        events,
        stat,
    };
    if out.is_json() {
        out.value(&report)?;
        return Ok(Exit::Ok);
    }
    let stat = &report.stat;
    let last = if stat.last_time_ms == 0 {
        "nothing written yet".to_owned()
    } else {
        format!("{} UTC", text::time(stat.last_time_ms))
    };
    for (name, value) in [
        (
            "store",
            format!("{}  ({})", text::name(&report.path), stat.store),
        ),
        ("made", format!("{} UTC", text::time(stat.created_ms))),
        ("last written", last),
        (
            "open",
            match stat.has_writer {
                Some(true) => "for writing, by a process",
                Some(false) => "by nobody for writing",
                None => "unknown, whether for writing",
            }
            .to_owned(),
        ),
        ("sessions", text::thousands(report.sessions)),
        (
            "chats",
            match report.chats {
                0 => "0".to_owned(),
                chats => format!(
                    "{} of these; `runlog chats` lists them",
                    text::thousands(chats)
                ),
            },
        ),
        ("instances", text::thousands(report.instances)),
        ("events", text::thousands(report.events)),
        (
            "log",
            format!(
                "{} appended so far, {} there now",
                text::count(stat.last_position.0, "record", "records"),
                text::bytes(stat.used_bytes)
            ),
        ),
        (
            "on disk",
            format!(
                "{} in {}",
                text::bytes(stat.segment_bytes),
                text::count(stat.segments, "segment", "segments")
            ),
        ),
    ] {
        out.line(format!(
            "{}  {value}",
            console::style(text::pad(name, 12)).bold()
        ))?;
    }
    Ok(Exit::Ok)
}

/// Sessions, instances and events.
fn totals(store: &Store) -> Result<(u64, u64, u64)> {
    let mut totals = (0, 0, 0);
    for session in find::sessions(store) {
        totals.0 += 1;
        for instance in store.instances(session?.id)? {
            totals.1 += 1;
            totals.2 += read::event_count(store, instance.id)?;
        }
    }
    Ok(totals)
}

/// How many chats there are, by the catalog: no chat is read for it.
fn chats(store: &Store) -> Result<u64> {
    let filter = ChatFilter {
        pagesize: 1,
        ..ChatFilter::default()
    };
    Ok(store.chats().list_chats(&filter)?.total as u64)
}
