//! `runlog flow show`: where a flow of nodes and agents is.

use std::collections::BTreeMap;

use runlog::{
    RunStatus,
    blocking::{FlowRun, Playback},
    flows::{PlaybackOptions, RunSnapshot, RuntimeCommand, Speed},
};
use serde::Serialize;

use crate::{
    args::Global,
    failure::{Exit, Failure, Result},
    output::Out,
    store, table, text,
};

const AFTER_HELP: &str = "\
Nodes and sessions are those of the latest snapshot; the inbox is what waits now, and the events are all there are.

With --json one document: {\"run_id\", \"run_status\" (null for a flow by itself), \"snapshot\": the snapshot as it was saved or null, \"inbox\": [the commands that \
wait now], \"events\": {type: count}}.";

/// The arguments.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// The flow: its id, the beginning of it, or @last (the newest)
    #[arg(value_name = "FLOW")]
    flow: String,
}

#[derive(Serialize)]
struct Shown<'a> {
    run_id: String,
    run_status: Option<RunStatus>,
    snapshot: Option<&'a RunSnapshot>,
    inbox: Vec<RuntimeCommand>,
    events: BTreeMap<String, u64>,
}

/// Does it.
pub(super) fn run(global: &Global, args: &Args, out: &mut Out) -> Result<Exit> {
    let store = store::open_read_only(global)?;
    let run = store::flow_id(&store, &args.flow)?;
    let options = PlaybackOptions {
        speed: Speed::AtOnce,
        ..PlaybackOptions::default()
    };
    let mut playback = Playback::new(&store, run, options)?;
    let mut events = BTreeMap::new();
    for event in playback.by_ref() {
        let (_, recorded) = event?;
        *events.entry(recorded.event.event_type).or_insert(0) += 1;
    }
    let snapshot = playback.snapshot();
    if snapshot.is_none() && events.is_empty() {
        return Err(Failure::new(
            Exit::NotFound,
            "not_found",
            format!("the run {run} has no flow"),
        ));
    }
    let run_status = store.runs().get(run)?.map(|run| run.status);
    let shown = Shown {
        run_id: run.to_string(),
        run_status,
        snapshot,
        inbox: FlowRun::waiting(&store, run)?,
        events,
    };
    if out.is_json() {
        out.value(&shown)?;
    } else {
        print(&shown, out)?;
    }
    Ok(Exit::Ok)
}

fn print(shown: &Shown<'_>, out: &mut Out) -> Result<()> {
    let status = shown
        .snapshot
        .map_or_else(|| "no snapshot yet".to_owned(), |it| it.status.clone());
    // Its snapshot may be older than what became of its run.
    let of_run = shown.run_status.map(|status| status.to_string());
    table::fields(
        &[
            ("run", Some(shown.run_id.clone())),
            ("status of the run", of_run),
            ("status", Some(status)),
        ],
        out,
    )?;
    if let Some(snapshot) = shown.snapshot {
        let mut nodes: BTreeMap<&str, (String, &str)> = BTreeMap::new();
        for (node, status) in &snapshot.node_status {
            nodes.entry(node).or_default().0 = format!("{status:?}").to_lowercase();
        }
        for (node, session) in &snapshot.agent_sessions {
            nodes.entry(node).or_default().1 = session;
        }
        let rows = nodes
            .into_iter()
            .map(|(node, (status, session))| vec![node.into(), status, session.into()]);
        let columns = [
            table::left("node", 30),
            table::left("status", 7),
            table::left("agent session", 80),
        ];
        section(&columns, &rows.collect::<Vec<_>>(), out)?;
    }
    let rows = shown.inbox.iter().map(|command| {
        let message = command.message().unwrap_or_default();
        vec![
            command.command_type.clone(),
            command.run_id.clone().unwrap_or_default(),
            message.to_owned(),
        ]
    });
    let columns = [
        table::left("inbox", 20),
        table::left("for", 36),
        table::left("message", 120),
    ];
    section(&columns, &rows.collect::<Vec<_>>(), out)?;
    let rows = shown
        .events
        .iter()
        .map(|(name, count)| vec![text::thousands(*count), name.clone()]);
    section(
        &[table::right("events"), table::left("type", 80)],
        &rows.collect::<Vec<_>>(),
        out,
    )
}

fn section(columns: &[table::Column], rows: &[Vec<String>], out: &mut Out) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    out.line("")?;
    table::print(columns, rows, out)
}
