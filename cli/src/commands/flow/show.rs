//! `runlog flow show`: the state of a flow.

use std::collections::BTreeMap;

use runlog::{
    RunStatus,
    blocking::{FlowRun, Playback},
    flows::{FlowSummary, PlaybackOptions, RunSnapshot, RuntimeCommand, Speed},
};
use serde::Serialize;

use super::list;
use crate::{
    args::Global,
    failure::{Exit, Failure, Result},
    find,
    output::Out,
    store, table, text,
};

const AFTER_HELP: &str = "\
Nodes and sessions are those of the latest snapshot; the inbox is what waits now, and the events are all there are. \
A flow is `interrupted` that was running, and that nobody has open any more. What a process that was killed had left running is \
paused first, as by `runlog flows`.

With --json one document: {\"run_id\", \"run_status\" (null for a flow by itself), \"is_live\" (null where another process may be at \
work on it), \"snapshot\": the snapshot as it was saved or null, \"inbox\": [the commands that \
wait now], \"events\": {type: count}}.";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// The flow: its id, the beginning of it, or @last (the newest that no agent spawned)
    #[arg(value_name = "FLOW")]
    flow: String,
}

#[derive(Serialize)]
struct Shown<'a> {
    run_id: String,
    run_status: Option<RunStatus>,
    is_live: Option<bool>,
    snapshot: Option<&'a RunSnapshot>,
    inbox: Vec<RuntimeCommand>,
    events: BTreeMap<String, u64>,
}

pub(super) fn run(global: &Global, args: &Args, out: &mut Out) -> Result<Exit> {
    let mut store = store::open_read_only(global)?;
    let run = find::flow_id(&store, &args.flow)?;
    let mut summary = store.flows().get(run)?;
    if summary.as_ref().is_some_and(list::is_in_question)
        && let Ok(recovered) = store::open_recovered(global)
    {
        store = recovered;
        summary = store.flows().get(run)?;
    }
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
        return Err(Failure::not_found(format!("the run {run} has no flow")));
    }
    let run_status = store.runs().get(run)?.map(|run| run.status);
    let shown = Shown {
        run_id: run.to_string(),
        run_status,
        is_live: summary.as_ref().and_then(|flow| flow.is_live),
        snapshot,
        inbox: FlowRun::waiting(&store, run)?,
        events,
    };
    if out.is_json() {
        out.value(&shown)?;
    } else {
        print(&shown, summary.as_ref(), out)?;
    }
    Ok(Exit::Ok)
}

fn print(shown: &Shown<'_>, summary: Option<&FlowSummary>, out: &mut Out) -> Result<()> {
    let status = match (shown.snapshot, summary) {
        (None, _) => "no snapshot yet",
        (Some(_), Some(summary)) => list::status(summary),
        (Some(snapshot), None) => &snapshot.status,
    };
    // Its snapshot may be older than the end of its run.
    let of_run = shown.run_status.map(|status| status.to_string());
    table::fields(
        &[
            ("flow", Some(shown.run_id.clone())),
            ("status of the run", of_run),
            ("status", Some(status.to_owned())),
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
        let columns: [table::Cells<'_, (&str, (String, &str))>; 3] = [
            (table::left("node", 30), &|(node, _)| (*node).to_owned()),
            (table::left("status", 7), &|(_, (status, _))| status.clone()),
            (table::left("agent session", 80), &|(_, (_, session))| {
                (*session).to_owned()
            }),
        ];
        section(&nodes.into_iter().collect::<Vec<_>>(), &columns, out)?;
    }
    let columns: [table::Cells<'_, RuntimeCommand>; 3] = [
        (table::left("inbox", 20), &|command| {
            command.command_type.clone()
        }),
        (table::left("for", 36), &|command| {
            command.run_id.clone().unwrap_or_default()
        }),
        (table::left("message", 120), &|command| {
            command.message().unwrap_or_default().to_owned()
        }),
    ];
    section(&shown.inbox, &columns, out)?;
    let columns: [table::Cells<'_, (&String, &u64)>; 2] = [
        (table::right("events"), &|(_, count)| {
            text::thousands(**count)
        }),
        (table::left("type", 80), &|(name, _)| (*name).clone()),
    ];
    section(&shown.events.iter().collect::<Vec<_>>(), &columns, out)
}

fn section<T>(items: &[T], columns: &[table::Cells<'_, T>], out: &mut Out) -> Result<()> {
    if items.is_empty() {
        return Ok(());
    }
    out.line("")?;
    table::items(items, "", columns, out)
}
