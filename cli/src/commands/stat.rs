//! `runlog stat`: how large the store is, and what is in it.

use runlog::blocking::Store;
use serde::Serialize;

use crate::{
    args::Global,
    failure::{Exit, Result},
    output::Out,
    store, text,
};

const AFTER_HELP: &str = "\
With --json: {\"store\", \"id\", \"created_ms\", \"sessions\", \"instances\", \"events\", \"records\", \"streams\", \
\"streams_deleted\", \"segments\", \"segment_bytes\", \"used_bytes\", \"last_time_ms\"}.";

/// The arguments.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {}

#[derive(Serialize)]
struct Report {
    store: String,
    id: String,
    created_ms: u64,
    sessions: u64,
    instances: u64,
    events: u64,
    records: u64,
    streams: u64,
    streams_deleted: u64,
    segments: u64,
    segment_bytes: u64,
    used_bytes: u64,
    last_time_ms: u64,
}

/// Does it.
pub(crate) fn run(global: &Global, _: &Args, out: &mut Out) -> Result<Exit> {
    let store = store::open_read_only(global)?;
    let stat = pollster::block_on(store.backend().maintenance().stat())?;
    let (sessions, instances, events) = totals(&store)?;
    let report = Report {
        store: global.store.display().to_string(),
        id: stat.store.to_string(),
        created_ms: stat.created_ms,
        sessions,
        instances,
        events,
        records: stat.last_position.0,
        streams: stat.streams,
        streams_deleted: stat.streams_deleted,
        segments: stat.segments,
        segment_bytes: stat.segment_bytes,
        used_bytes: stat.used_bytes,
        last_time_ms: stat.last_time_ms,
    };
    if out.is_json() {
        out.value(&report)?;
        return Ok(Exit::Ok);
    }
    let last = if report.last_time_ms == 0 {
        "nothing written yet".to_owned()
    } else {
        format!("{} UTC", text::time(report.last_time_ms))
    };
    for (name, value) in [
        (
            "store",
            format!("{}  ({})", text::name(&report.store), report.id),
        ),
        ("made", format!("{} UTC", text::time(report.created_ms))),
        ("last written", last),
        ("sessions", text::thousands(report.sessions)),
        ("agents", text::thousands(report.instances)),
        ("events", text::thousands(report.events)),
        (
            "log",
            format!(
                "{} in {}",
                text::count(report.records, "record", "records"),
                text::bytes(report.used_bytes)
            ),
        ),
        (
            "on disk",
            format!(
                "{} in {}",
                text::bytes(report.segment_bytes),
                text::count(report.segments, "segment", "segments")
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
    for session in store::sessions(store) {
        totals.0 += 1;
        for instance in store.instances(session?.id)? {
            totals.1 += 1;
            totals.2 += store::event_count(store, instance.id)?;
        }
    }
    Ok(totals)
}
